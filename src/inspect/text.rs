//! Serializes what numbers cannot tell: ids beyond 2^53, which other languages round, and bytes.

use serde::Serializer;

/// An id in hexadecimal, as the servers log it.
pub(super) fn session<S: Serializer>(id: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{id:#x}"))
}

/// As [`session`], if there is one.
pub(super) fn session_opt<S: Serializer>(id: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => session(id, serializer),
        None => serializer.serialize_none(),
    }
}

/// Bytes as text. Those that are not UTF-8 are replaced.
pub(super) fn lossy<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}
