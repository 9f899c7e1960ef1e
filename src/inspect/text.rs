//! Serializes as text what numbers cannot represent: ids beyond 2^53, which other languages round, and bytes.

use serde::Serializer;

/// Serializes an id in hexadecimal, as the servers log it.
pub(super) fn session<S: Serializer>(id: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{id:#x}"))
}

/// Serializes an optional id as [`session`] does.
pub(super) fn session_opt<S: Serializer>(id: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => session(id, serializer),
        None => serializer.serialize_none(),
    }
}

/// Serializes bytes as text. Replaces those that are not UTF-8.
pub(super) fn lossy<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}
