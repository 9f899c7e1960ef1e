//! Any bytes decode to a value or an error.

use bytes::{Bytes, BytesMut};
use fastrand::Rng;

use super::samples::contents;
use super::{Shown, cases, decodes, encoded};
use crate::protocol::*;

/// Numbers that are mostly wrong as lengths and counts.
const NUMBERS: [i32; 9] = [i32::MIN, -2, -1, 0, 1, 4, 0x100, 0x7fff_ffff, 0x0100_0000];

/// Decodes the bytes in every way. Returns how many ways succeeded, and how many failed.
fn read_as_everything(op: OpCode, bytes: &Bytes) -> [usize; 2] {
    let _shown = Shown(bytes);
    let read = [
        decodes!(bytes, |from| ConnectRequest::decode(from)),
        decodes!(bytes, |from| ConnectResponse::decode(from)),
        decodes!(bytes, |from| WatcherEvent::decode(from)),
        decodes!(bytes, |from| AnyRequest::decode(op, from)),
        decodes!(bytes, |from| AnyResponse::decode(op, from)),
    ];
    let frames = [decode_client_frame(bytes).is_ok(), decode_server_frame(op, bytes).is_ok()];
    let good = read.iter().chain(&frames).filter(|good| **good).count();
    [good, read.len() + frames.len() - good]
}

fn any_op(rng: &mut Rng) -> OpCode {
    OpCode::NAMED[rng.usize(..OpCode::NAMED.len())]
}

/// Random bytes: pure noise, or words of which many are plausible lengths.
fn noise(rng: &mut Rng) -> Bytes {
    let mut bytes = BytesMut::new();
    let plausible = rng.bool();
    for _ in 0..rng.usize(..40) {
        let word = match rng.u8(..4) {
            _ if !plausible => rng.i32(..),
            0 => rng.i32(0..8),
            1 => NUMBERS[rng.usize(..NUMBERS.len())],
            2 => i32::from(OpCode::NAMED[rng.usize(..OpCode::NAMED.len())]),
            _ => rng.i32(..),
        };
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    bytes.truncate(bytes.len().saturating_sub(rng.usize(..4)));
    bytes.freeze()
}

#[test]
fn arbitrary_bytes_give_a_value_or_an_error() {
    let mut rng = Rng::new();
    let mut read = [0, 0];
    for _ in 0..cases() {
        let op = any_op(&mut rng);
        let [good, bad] = read_as_everything(op, &noise(&mut rng));
        read = [read[0] + good, read[1] + bad];
    }
    assert!(read[0] > 0 && read[1] > 0, "values and errors: {read:?}");
}

/// Frames and bodies of every kind, each with the operation it belongs to.
fn valid() -> Vec<(OpCode, Bytes)> {
    let mut all = Vec::new();
    for content in contents(40) {
        let xid = content.xid();
        for connect in content.connect_requests() {
            all.push((OpCode::Ping, encoded(&connect)));
        }
        for connect in content.connect_responses() {
            all.push((OpCode::Ping, encoded(&connect)));
        }
        all.push((OpCode::Ping, encoded(&content.event())));
        for request in content.requests() {
            let header = encoded(&RequestHeader { xid, op: request.op() });
            all.push((request.op(), encoded(&request)));
            all.push((request.op(), [header, encoded(&request)].concat().into()));
        }
        for (op, response) in content.responses() {
            let header = encoded(&ReplyHeader { xid, zxid: 1, err: ErrorCode::Ok });
            all.push((op, encoded(&response)));
            all.push((op, [header, encoded(&response)].concat().into()));
        }
    }
    all
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = if bytes.is_empty() { 0 } else { rng.usize(..bytes.len()) };
    match rng.u8(..7) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << rng.u8(..8),
        1 if !bytes.is_empty() => bytes[at] = rng.u8(..),
        2 if bytes.len() >= 4 => {
            let at = rng.usize(..=bytes.len() - 4);
            let number = NUMBERS[rng.usize(..NUMBERS.len())];
            bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        3 => bytes.truncate(at),
        4 => bytes.insert(at, rng.u8(..)),
        5 if !bytes.is_empty() => drop(bytes.remove(at)),
        _ => {
            let from = rng.usize(..=other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
    }
}

#[test]
fn damaged_frames_give_a_value_or_an_error() {
    let valid = valid();
    let mut rng = Rng::new();
    let mut read = [0, 0];
    for _ in 0..cases() {
        let (op, bytes) = &valid[rng.usize(..valid.len())];
        let mut bytes = bytes.to_vec();
        for _ in 0..=rng.u8(..3) {
            let (_, other) = &valid[rng.usize(..valid.len())];
            mutate(&mut rng, &mut bytes, other);
        }
        let [good, bad] = read_as_everything(*op, &bytes.into());
        read = [read[0] + good, read[1] + bad];
    }
    assert!(read[0] > 0 && read[1] > 0, "values and errors: {read:?}");
}

/// A record that is cut off anywhere is an error; only the last byte of a handshake may be absent.
#[test]
fn a_record_that_is_cut_off_is_an_error() {
    for content in contents(20) {
        for request in content.requests() {
            let bytes = encoded(&request);
            for end in 0..bytes.len() {
                let cut = bytes.slice(..end);
                let error = AnyRequest::decode(request.op(), &mut Reader::new(&cut)).expect_err("it is cut off");
                assert!(error.at <= end, "{error}");
            }
        }
        for (op, response) in content.responses() {
            let bytes = encoded(&response);
            for end in 0..bytes.len() {
                let cut = bytes.slice(..end);
                let error = AnyResponse::decode(op, &mut Reader::new(&cut)).expect_err("it is cut off");
                assert!(error.at <= end, "{error}");
            }
        }
        let [old, new] = &content.connect_responses()[..] else { panic!("with and without the last byte") };
        let (old, new) = (encoded(old), encoded(new));
        for end in 0..new.len() {
            assert_eq!(ConnectResponse::from_frame(&new.slice(..end)).is_ok(), end == old.len());
        }
    }
}
