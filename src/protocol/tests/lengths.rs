//! No length is trusted before it is compared with the bytes that are there.

use bytes::{BufMut, Bytes, BytesMut};

use super::encoded;
use crate::protocol::*;
use crate::util::znode::{Acl, Permissions};

/// Returns a frame of ten bytes that begins with a length.
fn announces(length: i32) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_i32(length);
    frame.put_bytes(0, 6);
    frame.freeze()
}

#[test]
fn a_length_beyond_the_frame_is_an_error_at_once() {
    for length in [i32::MAX, i32::MIN, -2, 7, 0x0100_0000] {
        let frame = announces(length);
        let error = Malformed { what: "frame", at: 0, problem: Problem::Length { length, left: 6 } };
        assert_eq!(Reader::new(&frame).buffer(), Err(error.clone()));
        assert_eq!(Reader::new(&frame).buffer_ref(), Err(error.clone()));
        assert_eq!(Reader::new(&frame).ustring(), Err(error.clone()));
        assert_eq!(Reader::new(&frame).vector::<String>(), Err(error.clone()));
        assert_eq!(Reader::new(&frame).vector::<&str>(), Err(error.clone()));
        assert_eq!(Reader::new(&frame).vector::<Acl>(), Err(error));
    }
    // Six bytes hold one string, and not two.
    assert!(Reader::new(&announces(1)).vector::<String>().is_ok());
    assert!(Reader::new(&announces(2)).vector::<String>().is_err());
}

#[test]
fn null_is_no_string_but_an_empty_vector() {
    let null = announces(-1);
    assert_eq!(Reader::new(&null).buffer(), Ok(None));
    assert_eq!(Reader::new(&null).vector::<String>(), Ok(Vec::new()));
    let error = Malformed { what: "frame", at: 0, problem: Problem::Null };
    assert_eq!(Reader::new(&null).ustring(), Err(error));
}

/// Tries the frames whose elements grow most when they are decoded.
#[test]
fn memory_stays_within_the_bound() {
    const ELEMENTS: usize = 100_000;
    const MOST: usize = 32;
    let children = encoded(&GetChildrenResponse { children: vec![String::new(); ELEMENTS] });
    let decoded = GetChildrenResponse::from_frame(&children).unwrap();
    assert_eq!(decoded.children.len(), ELEMENTS);
    assert!(decoded.children.capacity() * size_of::<String>() <= MOST * children.len());

    let multi = encoded(&MultiResponse { results: vec![MultiResult::Check; ELEMENTS] });
    let decoded = MultiResponse::from_frame(&multi).unwrap();
    assert_eq!(decoded.results.len(), ELEMENTS);
    assert!(decoded.results.capacity() * size_of::<MultiResult>() <= MOST * multi.len());

    let multi = encoded(&MultiRequest { ops: vec![MultiOp::Check(CheckRequest { path: "", version: 0 }); ELEMENTS] });
    let decoded = MultiRequest::from_frame(&multi).unwrap();
    assert!(decoded.ops.capacity() * size_of::<MultiOp<'_>>() <= MOST * multi.len());

    let acl = encoded(&vec![Acl::new(Permissions(0), "", ""); ELEMENTS]);
    let decoded = Vec::<Acl>::from_frame(&acl).unwrap();
    assert!(decoded.capacity() * size_of::<Acl>() <= MOST * acl.len());
}

/// The data is not copied.
#[test]
fn data_is_a_part_of_its_frame() {
    let frame = encoded(&Some(Bytes::from_static(b"a part of it")));
    let data = Option::<Bytes>::from_frame(&frame).unwrap().unwrap();
    assert_eq!(data.as_ptr(), frame[4..].as_ptr());
}

#[test]
fn an_error_names_the_field_and_the_byte() {
    let request = encoded(&SetDataRequest { path: "/node", data: Some(b"data"), version: 3 });
    let cut = request.slice(..request.len() - 1);
    let error = SetDataRequest::from_frame(&cut).unwrap_err();
    assert_eq!(error.to_string(), "malformed SetDataRequest.version at byte 17: 4 bytes needed, 3 left");

    let not_text = Bytes::from_static(&[0, 0, 0, 2, 0xc3, 0x28]);
    let error = SyncResponse::from_frame(&not_text).unwrap_err();
    assert_eq!(error.to_string(), "malformed SyncResponse.path at byte 0: not UTF-8");

    let no_mode = Bytes::from_static(&[0, 0, 0, 1, b'/', 0, 0, 0, 2]);
    let error = AddWatchRequest::from_frame(&no_mode).unwrap_err();
    assert_eq!(error.to_string(), "malformed AddWatchRequest.mode at byte 5: unknown value 2");

    let no_permissions = encoded(&32);
    assert!(Permissions::from_frame(&no_permissions).is_err());
    assert_eq!(Permissions::from_frame(&encoded(&31)), Ok(Permissions::ALL));
}

#[test]
fn a_multi_that_does_not_end_is_an_error() {
    let whole = encoded(&MultiResponse { results: vec![MultiResult::Check] });
    let error = MultiResponse::from_frame(&whole.slice(..9)).unwrap_err();
    assert_eq!(error.what, "MultiHeader.op");
    let mut unknown = BytesMut::from(&whole[..]);
    unknown[3] = 99;
    let error = MultiResponse::from_frame(&unknown.freeze()).unwrap_err();
    assert_eq!((error.at, error.problem), (0, Problem::Value(99)));
}
