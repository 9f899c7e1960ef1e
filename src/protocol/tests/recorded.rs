//! Frames that went between a client and a real server.

use bytes::{Bytes, BytesMut};

use super::{encoded, from_hex, to_hex};
use crate::protocol::*;

/// One frame of `recorded.txt`.
struct Recorded {
    name: &'static str,
    /// `None` for the handshake.
    op: Option<OpCode>,
    to_server: bool,
    frame: Bytes,
}

fn recorded() -> Vec<Recorded> {
    let lines = include_str!("recorded.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(parse).collect()
}

fn parse(line: &'static str) -> Recorded {
    let (rest, digits) = line.rsplit_once(' ').expect("the digits come last");
    let (rest, direction) = rest.rsplit_once(' ').expect("a direction");
    let (name, op) = rest.rsplit_once(' ').expect("an operation");
    let op = (op != "connect").then(|| OpCode::from(op.parse::<i32>().expect("the number of an operation")));
    Recorded { name, op, to_server: direction == ">", frame: from_hex(digits) }
}

/// Returns the answers of the server in an exchange, in order.
fn answers(name: &str) -> Vec<ServerFrame> {
    let all = recorded();
    let answers = all.iter().filter(|recorded| recorded.name == name && !recorded.to_server);
    answers.map(|recorded| decode_server_frame(recorded.op.unwrap(), &recorded.frame).unwrap()).collect()
}

/// Returns the body of the one reply of an exchange.
fn answer(name: &str) -> AnyResponse {
    match <[ServerFrame; 1]>::try_from(answers(name)) {
        Ok([ServerFrame::Reply(_, response)]) => response,
        other => panic!("{name}: {other:?}"),
    }
}

fn handshake(name: &str) -> ConnectResponse {
    let all = recorded();
    let of = |recorded: &&Recorded| recorded.name == name && recorded.op.is_none() && !recorded.to_server;
    ConnectResponse::from_frame(&all.iter().find(of).unwrap().frame).unwrap()
}

fn refusal(name: &str) -> ErrorCode {
    match &answers(name)[..] {
        [ServerFrame::Refused(header)] => header.err,
        other => panic!("{name}: {other:?}"),
    }
}

/// Decodes a frame and encodes it again.
fn written_again(recorded: &Recorded) -> Result<Bytes, Malformed> {
    let frame = &recorded.frame;
    let mut out = BytesMut::new();
    match (recorded.op, recorded.to_server) {
        (None, true) => return ConnectRequest::from_frame(frame).map(|connect| encoded(&connect)),
        (None, false) => return ConnectResponse::from_frame(frame).map(|connect| encoded(&connect)),
        (Some(op), true) => {
            let ClientFrame { header, request } = decode_client_frame(frame)?;
            assert_eq!(header.op, op);
            encode_request(header.xid, &request, SERVER_LIMIT, &mut out)
        }
        (Some(op), false) => match decode_server_frame(op, frame)? {
            ServerFrame::Event(header, event) => encode_event(header.zxid, &event, &mut out),
            ServerFrame::Reply(header, response) => encode_reply(&header, &response, &mut out),
            ServerFrame::Refused(header) => encode_reply(&header, &(), &mut out),
        },
    }
    .expect("it is short");
    Ok(out.freeze().slice(4..))
}

#[test]
fn each_is_written_as_it_was_read() {
    let all = recorded();
    assert!(all.len() > 60, "only {} frames", all.len());
    for recorded in all {
        assert!(!matches!(recorded.op, Some(OpCode::Other(_))), "{}", recorded.name);
        let again = written_again(&recorded).unwrap_or_else(|error| panic!("{}: {error}", recorded.name));
        assert_eq!(to_hex(&again), to_hex(&recorded.frame), "{}", recorded.name);
    }
}

#[test]
fn handshakes_mean_what_they_should() {
    let opened = handshake("opened");
    assert_eq!((opened.timeout, opened.read_only, opened.is_expired()), (10_000, Some(false), false));
    let resumed = handshake("resumed");
    assert_eq!((resumed.session_id, &resumed.password), (opened.session_id, &opened.password));
    assert_eq!(resumed.read_only, None);
    assert!(handshake("expired").is_expired());
}

#[test]
fn replies_mean_what_they_should() {
    let AnyResponse::Create2(made) = answer("made") else { panic!("no node") };
    assert_eq!((made.path.as_str(), made.stat.data_length, made.stat.czxid), ("/a", 4, 2));
    let AnyResponse::Create2(sequential) = answer("sequential") else { panic!("no node") };
    assert_eq!(sequential.path, "/a/s-0000000001");
    assert_eq!(sequential.stat.ephemeral_owner, handshake("opened").session_id);
    let AnyResponse::GetData(data) = answer("data") else { panic!("no data") };
    assert_eq!((data.data.as_deref(), data.stat.pzxid, data.stat.num_children), (Some(&b"data"[..]), 5, 3));
    let AnyResponse::GetData(null) = answer("null") else { panic!("no data") };
    assert_eq!(null.data, None);
    let AnyResponse::GetChildren2(listed) = answer("children") else { panic!("no children") };
    assert_eq!((listed.children.len(), listed.stat.cversion), (3, 3));
    assert_eq!(answer("recursive watch"), AnyResponse::AddWatch(ErrorResponse { err: ErrorCode::Ok }));
    assert_eq!(answer("watch removed"), AnyResponse::Empty(()));
}

#[test]
fn refusals_mean_what_they_should() {
    let refusals = ["no node", "exists already", "bad version", "not empty", "no watcher"].map(refusal);
    let expected =
        [ErrorCode::NoNode, ErrorCode::NodeExists, ErrorCode::BadVersion, ErrorCode::NotEmpty, ErrorCode::NoWatcher];
    assert_eq!(refusals, expected);
}

#[test]
fn transactions_mean_what_they_should() {
    let AnyResponse::Multi(committed) = answer("multi") else { panic!("no results") };
    let ops = ["check", "create2", "create2", "create", "set", "delete"];
    let of = |result: &MultiResult| match result {
        MultiResult::Check => "check",
        MultiResult::Create(_) => "create",
        MultiResult::Create2(_) => "create2",
        MultiResult::SetData(_) => "set",
        MultiResult::Delete => "delete",
        MultiResult::GetData(_) | MultiResult::GetChildren(_) => "read",
        MultiResult::Error(_) => "error",
    };
    assert_eq!(committed.results.iter().map(of).collect::<Vec<_>>(), ops);
    assert_eq!(committed.refused(), None);
    let AnyResponse::Multi(refused) = answer("multi refused") else { panic!("no results") };
    assert_eq!(refused.refused(), Some((1, ErrorCode::NodeExists)));
    assert_eq!(refused.results[0], MultiResult::Error(ErrorCode::Ok));
    assert_eq!(refused.results[2], MultiResult::Error(ErrorCode::RuntimeInconsistency));
}

#[test]
fn events_mean_what_they_should() {
    let events = [
        ("created event", EventType::NodeCreated, "/b"),
        ("changed event", EventType::NodeDataChanged, "/a"),
        ("recursive event", EventType::NodeCreated, "/b/below"),
        ("watches set again", EventType::NodeCreated, "/b"),
    ];
    for (name, event, path) in events {
        let [ServerFrame::Event(header, told), ServerFrame::Reply(..)] = &answers(name)[..] else {
            panic!("{name}: an event, then a reply");
        };
        assert_eq!(header.xid, xid::NOTIFICATION);
        assert_eq!(*told, WatcherEvent { event, state: KeeperState::SyncConnected, path: path.to_owned() });
    }
}
