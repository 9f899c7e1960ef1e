//! Everything written is read again, to the last byte.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::samples::{Content, content};
use super::{cases, encoded};
use crate::protocol::*;
use crate::util::znode::{CreateMode, Stat};

/// Reads a record that was just written; no byte may be left.
macro_rules! assert_same {
    ($value:expr, |$from:ident| $decode:expr) => {{
        let value = $value;
        let bytes = encoded(&value);
        let $from = &mut Reader::new(&bytes);
        prop_assert_eq!($decode, Ok(value));
        prop_assert_eq!($from.left(), 0);
    }};
}

/// Returns the frame in `out`, without its prefix, which must be its length.
fn only_frame(out: BytesMut) -> Bytes {
    let mut frame = out.freeze();
    let prefix = frame.split_to(4);
    assert_eq!(u32::from_be_bytes(prefix[..].try_into().unwrap()) as usize, frame.len());
    frame
}

fn check_records(content: &Content) -> Result<usize, TestCaseError> {
    let mut checked = 3;
    assert_same!(content.request_header(), |from| RequestHeader::decode(from));
    assert_same!(content.reply_header(), |from| ReplyHeader::decode(from));
    assert_same!(content.event(), |from| WatcherEvent::decode(from));
    for request in content.connect_requests() {
        assert_same!(request, |from| ConnectRequest::decode(from));
        checked += 1;
    }
    for response in content.connect_responses() {
        assert_same!(response, |from| ConnectResponse::decode(from));
        checked += 1;
    }
    for request in content.requests() {
        let op = request.op();
        assert_same!(request, |from| AnyRequest::decode(op, from));
        checked += 1;
    }
    for (op, response) in content.responses() {
        assert_same!(response, |from| AnyResponse::decode(op, from));
        checked += 1;
    }
    Ok(checked)
}

fn check_frames(content: &Content) -> Result<(), TestCaseError> {
    for request in content.requests() {
        let mut out = BytesMut::new();
        prop_assert_eq!(encode_request(content.xid(), &request, usize::MAX, &mut out), Ok(()));
        let header = RequestHeader { xid: content.xid(), op: request.op() };
        let frame = only_frame(out);
        prop_assert_eq!(decode_client_frame(&frame), Ok(ClientFrame { header, request }));
    }
    let header = content.reply_header();
    for (op, response) in content.responses() {
        let mut out = BytesMut::new();
        prop_assert_eq!(encode_reply(&header, &response, &mut out), Ok(()));
        let expected = match header.err {
            ErrorCode::Ok => ServerFrame::Reply(header.clone(), response),
            _ => ServerFrame::Refused(header.clone()),
        };
        // By chance it may be the xid of an event, which has another body.
        if header.xid != xid::NOTIFICATION {
            prop_assert_eq!(decode_server_frame(op, &only_frame(out)), Ok(expected));
        }
    }
    let mut out = BytesMut::new();
    prop_assert_eq!(encode_event(header.zxid, &content.event(), &mut out), Ok(()));
    let header = ReplyHeader { xid: xid::NOTIFICATION, zxid: header.zxid, err: ErrorCode::Ok };
    let expected = ServerFrame::Event(header, content.event());
    prop_assert_eq!(decode_server_frame(OpCode::Ping, &only_frame(out)), Ok(expected));
    Ok(())
}

#[test]
fn every_record_is_read_as_it_was_written() {
    let a_content_has = 44;
    let config = ProptestConfig::with_cases(u32::try_from(cases() / a_content_has).expect("few enough"));
    proptest!(config, |(content in content())| {
        prop_assert_eq!(check_records(&content)?, a_content_has);
        check_frames(&content)?;
    });
}

/// Each named number converts to its variant and back; every other number has no name.
#[test]
fn numbers_and_names_agree() {
    fn check<T: From<i32> + Into<i32> + Copy + PartialEq + std::fmt::Debug>(named: &[T], other: impl Fn(i32) -> T) {
        for code in named {
            let number: i32 = (*code).into();
            assert_eq!(T::from(number), *code);
            assert_ne!(*code, other(number));
        }
        assert_eq!(T::from(4711), other(4711));
    }
    check(OpCode::NAMED, OpCode::Other);
    check(ErrorCode::NAMED, ErrorCode::Other);
    check(EventType::NAMED, EventType::Other);
    check(KeeperState::NAMED, KeeperState::Other);
}

#[test]
fn the_mode_of_a_create_chooses_its_operation() {
    let modes = [
        (CreateMode::Persistent, 0, OpCode::Create2),
        (CreateMode::Ephemeral, 1, OpCode::Create2),
        (CreateMode::PersistentSequential, 2, OpCode::Create2),
        (CreateMode::EphemeralSequential, 3, OpCode::Create2),
        (CreateMode::Container, 4, OpCode::CreateContainer),
    ];
    for (mode, flags, op) in modes {
        let create = CreateRequest::new("/node", b"", &[], mode);
        assert_eq!((create.flags, create.op(), create.mode()), (flags, op, Some(mode)));
        assert_eq!(MultiOp::create(create).op(), op);
    }
    let with_a_time_to_live = CreateRequest { path: "/node", data: None, acl: [].as_slice().into(), flags: 5 };
    assert_eq!(with_a_time_to_live.mode(), None);
}

#[test]
fn a_refused_multi_names_its_first_failed_step() {
    let refused = |codes: &[ErrorCode]| {
        MultiResponse { results: codes.iter().map(|code| MultiResult::Error(*code)).collect() }.refused()
    };
    let codes = [ErrorCode::Ok, ErrorCode::BadVersion, ErrorCode::RuntimeInconsistency];
    assert_eq!(refused(&codes), Some((1, ErrorCode::BadVersion)));
    assert_eq!(refused(&[]), None);
    let committed = MultiResponse { results: vec![MultiResult::Check, MultiResult::SetData(Stat::default())] };
    assert_eq!(committed.refused(), None);
}

#[test]
fn no_password_and_no_token_is_shown() {
    let request = AuthRequest { kind: 0, scheme: "digest", auth: Secret(Some(b"user:password")) };
    let shown = format!("{request:?}");
    assert!(shown.contains("digest") && shown.contains("***"), "{shown}");
    assert!(!shown.contains("112"), "{shown}"); // the first letter of the password, as a number
}

/// An old server leaves out the last byte; a session that it does not know has no timeout.
#[test]
fn the_handshake_of_old_servers_and_expired_sessions() {
    let response = |timeout, read_only| ConnectResponse {
        protocol_version: 0,
        timeout,
        session_id: 7,
        password: Secret(vec![1; 16]),
        read_only,
    };
    let old = encoded(&response(6_000, None));
    let new = encoded(&response(6_000, Some(false)));
    assert_eq!(new.len(), old.len() + 1);
    assert_eq!(ConnectResponse::from_frame(&old).unwrap().read_only, None);
    assert_eq!(ConnectResponse::from_frame(&new).unwrap().read_only, Some(false));
    let expired = |timeout| response(timeout, None).is_expired();
    assert_eq!([expired(-1), expired(0), expired(1)], [true, true, false]);
}
