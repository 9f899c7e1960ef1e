//! One record for each operation that a client requests.
//!
//! Requests borrow: they are encoded when the call is made. A version of −1 matches any.

use std::borrow::Cow;
use std::time::Duration;

use super::acl::{create_flags, create_mode};
use super::jute::{Encode, Writer, record};
use super::op::OpCode;
use crate::util::znode::{Acl, CreateMode};

/// What a client may send after the handshake.
pub(crate) trait Request: Encode {
    fn op(&self) -> OpCode;

    /// Returns the newest operation that the server must know.
    fn needs(&self) -> OpCode {
        self.op()
    }
}

/// Names the operation of a request.
macro_rules! request {
    ($name:ty => $op:ident) => {
        impl $crate::protocol::request::Request for $name {
            fn op(&self) -> $crate::protocol::op::OpCode {
                $crate::protocol::op::OpCode::$op
            }
        }
    };
}

pub(super) use request;

record! {
    /// Creates a node; also the body of the older operation `create`, whose answer has no stat.
    CreateRequest<'a> {
        path: &'a str,
        /// To a Java client that reads the node, null differs from empty.
        data: Option<&'a [u8]>,
        acl: Cow<'a, [Acl]>,
        /// The flags of the [`mode`](CreateRequest::mode). Other clients may send flags without a mode.
        flags: i32,
    }
}

impl<'a> CreateRequest<'a> {
    pub(crate) fn new(path: &'a str, data: &'a [u8], acl: &'a [Acl], mode: CreateMode) -> Self {
        CreateRequest { path, data: Some(data), acl: Cow::Borrowed(acl), flags: create_flags(mode) }
    }

    /// Returns the mode that the flags mean, if they name one completely.
    pub(crate) fn mode(&self) -> Option<CreateMode> {
        create_mode(self.flags)
    }
}

impl Request for CreateRequest<'_> {
    /// Returns the operation whose answer has a stat. Containers have a separate operation.
    fn op(&self) -> OpCode {
        match self.mode() {
            Some(CreateMode::Container) => OpCode::CreateContainer,
            _ => OpCode::Create2,
        }
    }
}

/// Creates a node by the operation that all servers know, and whose answer has no stat.
pub(crate) struct PlainCreateRequest<'a>(pub(crate) CreateRequest<'a>);

impl Encode for PlainCreateRequest<'_> {
    fn encode(&self, to: &mut Writer<'_>) {
        self.0.encode(to);
    }
}

record! {
    /// Creates a node that the server deletes once it has no children and was not written for a time.
    CreateTtlRequest<'a> {
        path: &'a str,
        data: Option<&'a [u8]>,
        acl: Cow<'a, [Acl]>,
        flags: i32,
        /// In milliseconds.
        ttl: i64,
    }
}

impl<'a> CreateTtlRequest<'a> {
    pub(crate) fn new(path: &'a str, data: &'a [u8], acl: &'a [Acl], ttl: Duration) -> Self {
        let flags = create_flags(CreateMode::PersistentTtl(ttl));
        let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        CreateTtlRequest { path, data: Some(data), acl: Cow::Borrowed(acl), flags, ttl }
    }
}

record! {
    DeleteRequest<'a> { path: &'a str, version: i32 }
}

record! {
    /// Refused with `NoNode` if there is no node; the watch is still armed.
    ExistsRequest<'a> { path: &'a str, watch: bool }
}

record! {
    GetDataRequest<'a> { path: &'a str, watch: bool }
}

record! {
    SetDataRequest<'a> { path: &'a str, data: Option<&'a [u8]>, version: i32 }
}

record! {
    GetAclRequest<'a> { path: &'a str }
}

record! {
    SetAclRequest<'a> { path: &'a str, acl: Cow<'a, [Acl]>, version: i32 }
}

record! {
    /// The children without the stat.
    GetChildrenRequest<'a> { path: &'a str, watch: bool }
}

record! {
    GetChildren2Request<'a> { path: &'a str, watch: bool }
}

record! {
    SyncRequest<'a> { path: &'a str }
}

record! {
    /// A step of a multi, which the server refuses unless the node has the version.
    CheckRequest<'a> { path: &'a str, version: i32 }
}

record! {
    /// Sent and answered with [`xid::PING`](super::xid::PING).
    PingRequest {}
}

record! {
    CloseSessionRequest {}
}

request!(PlainCreateRequest<'_> => Create);
request!(CreateTtlRequest<'_> => CreateTtl);
request!(DeleteRequest<'_> => Delete);
request!(ExistsRequest<'_> => Exists);
request!(GetDataRequest<'_> => GetData);
request!(SetDataRequest<'_> => SetData);
request!(GetAclRequest<'_> => GetAcl);
request!(SetAclRequest<'_> => SetAcl);
request!(GetChildrenRequest<'_> => GetChildren);
request!(GetChildren2Request<'_> => GetChildren2);
request!(SyncRequest<'_> => Sync);
request!(PingRequest => Ping);
request!(CloseSessionRequest => CloseSession);
