//! The bodies of replies. A reply that is only a stat is [`Stat`], one without a body is `()`.

use bytes::Bytes;

use super::error_code::ErrorCode;
use super::jute::record;
use crate::util::znode::{Acl, Stat};

record! {
    /// The answer to the older operation `create`.
    CreateResponse { path: String }
}

record! {
    /// The path as the server completed it.
    Create2Response { path: String, stat: Stat }
}

record! {
    GetDataResponse {
        /// A part of the frame, which it keeps alive. Null if the node was created with null.
        data: Option<Bytes>,
        stat: Stat,
    }
}

record! {
    GetChildrenResponse { children: Vec<String> }
}

record! {
    GetChildren2Response { children: Vec<String>, stat: Stat }
}

record! {
    GetAclResponse { acl: Vec<Acl>, stat: Stat }
}

record! {
    SyncResponse { path: String }
}

record! {
    /// A failed step of a multi. Also the answer to addWatch, with `Ok`.
    ErrorResponse { err: ErrorCode }
}
