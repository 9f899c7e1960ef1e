//! Frames on the wire.

use bytes::{Bytes, BytesMut};

use super::samples::contents;
use crate::protocol::*;

const LIMIT: usize = 1 << 20;

/// Returns one request or reply of each kind as it travels, with its prefix.
pub(crate) fn frames() -> Vec<Bytes> {
    let mut all = Vec::new();
    let mut keep = |encode: &dyn Fn(&mut BytesMut) -> Result<(), TooLong>| {
        let mut out = BytesMut::new();
        encode(&mut out).expect("it is short");
        all.push(out.freeze());
    };
    for content in contents(3) {
        for connect in content.connect_requests() {
            keep(&|out| encode_connect_request(&connect, out));
        }
        for connect in content.connect_responses() {
            keep(&|out| encode_connect_response(&connect, out));
        }
        for request in content.requests() {
            keep(&|out| encode_request(content.xid(), &request, LIMIT, out));
        }
        let header = ReplyHeader { xid: 1, zxid: 2, err: ErrorCode::Ok };
        for (_, response) in content.responses() {
            keep(&|out| encode_reply(&header, &response, out));
        }
        keep(&|out| encode_event(3, &content.event(), out));
    }
    all
}

#[test]
fn a_request_beyond_the_limit_leaves_no_byte_behind() {
    let mut out = BytesMut::new();
    encode_request(xid::PING, &PingRequest {}, SERVER_LIMIT, &mut out).expect("it is short");
    assert_eq!(out[..], [0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11]);
    let before = out.clone();

    let data = vec![0; 100];
    let request = SetDataRequest { path: "/node", data: Some(&data), version: -1 };
    let length = 8 + ustring_len("/node") + 4 + data.len() + 4;
    let too_long = encode_request(1, &request, length - 1, &mut out);
    assert_eq!(too_long, Err(TooLong { length, limit: length - 1 }));
    assert_eq!(out, before);
    assert_eq!(encode_request(1, &request, length, &mut out), Ok(()));
    assert_eq!(out.len(), before.len() + 4 + length);
}

#[test]
fn a_refusal_has_no_body() {
    let mut out = BytesMut::new();
    let header = ReplyHeader { xid: 5, zxid: 6, err: ErrorCode::NoNode };
    encode_reply(&header, &SyncResponse { path: "/left/out".to_owned() }, &mut out).expect("it is short");
    let frame = out.freeze().slice(4..);
    assert_eq!(frame.len(), 16);
    assert_eq!(decode_server_frame(OpCode::Sync, &frame), Ok(ServerFrame::Refused(header)));
}
