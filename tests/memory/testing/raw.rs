//! Requests as bytes, for clients without this library.

/// A frame of these parts.
pub(super) fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    let length = u32::try_from(payload.len()).expect("a short frame");
    [&length.to_be_bytes()[..], &payload].concat()
}

/// A request for a new session: the version, no transaction seen, a timeout of 10 s, no id, an empty password.
pub(super) fn hello() -> Vec<u8> {
    frame(&[&[0; 12], &int(10_000), &[0; 8], &int(16), &[0; 16]])
}

pub(super) fn int(number: i32) -> [u8; 4] {
    number.to_be_bytes()
}

pub(super) fn text(text: &str) -> Vec<u8> {
    [&int(i32::try_from(text.len()).expect("a short text")), text.as_bytes()].concat()
}

pub(super) fn open_acl() -> Vec<u8> {
    [&int(1)[..], &int(31), &text("world"), &text("anyone")].concat()
}

pub(super) fn create(path: &str, flags: i32) -> Vec<u8> {
    [text(path), text("data"), open_acl(), int(flags).to_vec()].concat()
}

pub(super) fn create_ttl(path: &str, ttl: i64) -> Vec<u8> {
    [create(path, 5), ttl.to_be_bytes().to_vec()].concat()
}

pub(super) fn set(path: &str) -> Vec<u8> {
    [text(path), text("data"), int(-1).to_vec()].concat()
}

/// A path and a version, or a path and whether it is watched.
pub(super) fn path_and(path: &str, rest: &[u8]) -> Vec<u8> {
    [&text(path), rest].concat()
}
