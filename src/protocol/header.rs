//! The headers before the body of every frame after the handshake.

use super::error_code::ErrorCode;
use super::jute::record;
use super::op::OpCode;

/// The xids outside the sequence: a server uses them for frames that answer no ordinary request.
pub(crate) mod xid {
    /// A watch event.
    pub(crate) const NOTIFICATION: i32 = -1;
    pub(crate) const PING: i32 = -2;
    pub(crate) const AUTH: i32 = -4;
    pub(crate) const SET_WATCHES: i32 = -8;
}

record! {
    /// Precedes each request.
    RequestHeader {
        xid: i32,
        op: OpCode,
    }
}

record! {
    /// Precedes each reply. There is a body only if `err` is `Ok`.
    ReplyHeader {
        xid: i32,
        /// The last transaction that the server had processed; 0 or −1 if there is none.
        zxid: i64,
        err: ErrorCode,
    }
}
