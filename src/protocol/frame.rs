//! Frames: four bytes of length, then a record or a header with its body.

use bytes::{BufMut, BytesMut};

use super::connect::{ConnectRequest, ConnectResponse};
use super::error_code::ErrorCode;
use super::header::{ReplyHeader, RequestHeader, xid};
use super::jute::{Encode, Writer};
use super::request::Request;
use super::watch::WatcherEvent;

/// The longest request that a server reads unless `jute.maxbuffer` says otherwise. It closes the connection on a longer
/// one.
pub(crate) const SERVER_LIMIT: usize = 0xf_ffff;

const PREFIX: usize = 4;

/// A frame that is longer than the limit; nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {length} bytes is longer than the limit of {limit}")]
pub(crate) struct TooLong {
    pub(crate) length: usize,
    pub(crate) limit: usize,
}

/// Lengths are signed on the wire.
const MOST: usize = i32::MAX as usize;

/// Appends a request as one frame. `out` is unchanged if the frame is longer than `limit`.
pub(crate) fn encode_request(
    xid: i32,
    request: &impl Request,
    limit: usize,
    out: &mut BytesMut,
) -> Result<(), TooLong> {
    encode_frame(limit, out, |to| {
        RequestHeader { xid, op: request.op() }.encode(to);
        request.encode(to);
    })
}

/// Appends the first frame of a connection.
pub(crate) fn encode_connect_request(request: &ConnectRequest<'_>, out: &mut BytesMut) -> Result<(), TooLong> {
    encode_frame(MOST, out, |to| request.encode(to))
}

/// Appends a server's first frame.
pub(crate) fn encode_connect_response(response: &ConnectResponse, out: &mut BytesMut) -> Result<(), TooLong> {
    encode_frame(MOST, out, |to| response.encode(to))
}

/// Appends a reply. The body is left out unless the header says `Ok`.
pub(crate) fn encode_reply(header: &ReplyHeader, body: &impl Encode, out: &mut BytesMut) -> Result<(), TooLong> {
    encode_frame(MOST, out, |to| {
        header.encode(to);
        if header.err.is_ok() {
            body.encode(to);
        }
    })
}

/// Appends a watch event.
pub(crate) fn encode_event(zxid: i64, event: &WatcherEvent, out: &mut BytesMut) -> Result<(), TooLong> {
    encode_reply(&ReplyHeader { xid: xid::NOTIFICATION, zxid, err: ErrorCode::Ok }, event, out)
}

fn encode_frame(limit: usize, out: &mut BytesMut, encode: impl FnOnce(&mut Writer<'_>)) -> Result<(), TooLong> {
    let start = out.len();
    out.put_i32(0);
    encode(&mut Writer::new(out));
    let length = out.len() - start - PREFIX;
    let limit = limit.min(MOST);
    match i32::try_from(length) {
        Ok(prefix) if length <= limit => {
            out[start..start + PREFIX].copy_from_slice(&prefix.to_be_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(TooLong { length, limit })
        }
    }
}
