//! Whole frames of operations that are known only by their number: for a server, for recordings, for tests.

use bytes::Bytes;

use super::auth::{AuthRequest, SaslRequest, SaslResponse};
use super::header::{ReplyHeader, RequestHeader, xid};
use super::jute::{Decode, Encode, Malformed, Reader, Writer};
use super::multi::{MultiReadRequest, MultiRequest, MultiResponse};
use super::op::OpCode;
use super::request::{
    CheckRequest, CloseSessionRequest, CreateRequest, CreateTtlRequest, DeleteRequest, ExistsRequest, GetAclRequest,
    GetChildren2Request, GetChildrenRequest, GetDataRequest, PingRequest, Request, SetAclRequest, SetDataRequest,
    SyncRequest,
};
use super::response::{
    Create2Response, CreateResponse, ErrorResponse, GetAclResponse, GetChildren2Response, GetChildrenResponse,
    GetDataResponse, SyncResponse,
};
use super::watch::{
    AddWatchRequest, CheckWatchesRequest, RemoveWatchesRequest, SetWatches2Request, SetWatchesRequest, WatcherEvent,
};
use crate::util::znode::Stat;

/// The operations whose bodies this module reads: the variant, the record, and the operation's number.
macro_rules! any_request {
    ($($variant:ident($record:ty) = $op:ident),* $(,)?) => {
        /// Any request after the handshake.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) enum AnyRequest<'a> {
            $($variant($record),)*
            /// An operation that this module does not read: the body as received.
            Other(OpCode, Bytes),
        }

        impl<'a> AnyRequest<'a> {
            pub(crate) fn decode(op: OpCode, from: &mut Reader<'a>) -> Result<Self, Malformed> {
                match op {
                    $(OpCode::$op => Ok(AnyRequest::$variant(Decode::decode(from)?)),)*
                    other => Ok(AnyRequest::Other(other, from.rest())),
                }
            }
        }

        impl Encode for AnyRequest<'_> {
            fn encode(&self, to: &mut Writer<'_>) {
                match self {
                    $(AnyRequest::$variant(request) => request.encode(to),)*
                    AnyRequest::Other(_, body) => to.raw(body),
                }
            }
        }

        impl Request for AnyRequest<'_> {
            fn op(&self) -> OpCode {
                match self {
                    $(AnyRequest::$variant(_) => OpCode::$op,)*
                    AnyRequest::Other(op, _) => *op,
                }
            }
        }
    };
}

any_request! {
    Create(CreateRequest<'a>) = Create,
    Create2(CreateRequest<'a>) = Create2,
    CreateContainer(CreateRequest<'a>) = CreateContainer,
    CreateTtl(CreateTtlRequest<'a>) = CreateTtl,
    Delete(DeleteRequest<'a>) = Delete,
    Exists(ExistsRequest<'a>) = Exists,
    GetData(GetDataRequest<'a>) = GetData,
    SetData(SetDataRequest<'a>) = SetData,
    GetAcl(GetAclRequest<'a>) = GetAcl,
    SetAcl(SetAclRequest<'a>) = SetAcl,
    GetChildren(GetChildrenRequest<'a>) = GetChildren,
    GetChildren2(GetChildren2Request<'a>) = GetChildren2,
    Sync(SyncRequest<'a>) = Sync,
    Check(CheckRequest<'a>) = Check,
    Multi(MultiRequest<'a>) = Multi,
    MultiRead(MultiReadRequest<'a>) = MultiRead,
    AddWatch(AddWatchRequest<'a>) = AddWatch,
    CheckWatches(CheckWatchesRequest<'a>) = CheckWatches,
    RemoveWatches(RemoveWatchesRequest<'a>) = RemoveWatches,
    SetWatches(SetWatchesRequest<'a>) = SetWatches,
    SetWatches2(SetWatches2Request<'a>) = SetWatches2,
    Auth(AuthRequest<'a>) = Auth,
    Sasl(SaslRequest<'a>) = Sasl,
    Ping(PingRequest) = Ping,
    CloseSession(CloseSessionRequest) = CloseSession,
}

/// The record in the body of a reply, by the operations that it answers.
macro_rules! any_response {
    ($($variant:ident($record:ty) = $($op:ident)|+),* $(,)?) => {
        /// The body of any reply.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) enum AnyResponse {
            $($variant($record),)*
            /// The reply to an operation that this module does not read: the body as received.
            Other(Bytes),
        }

        impl AnyResponse {
            pub(crate) fn decode(op: OpCode, from: &mut Reader<'_>) -> Result<Self, Malformed> {
                match op {
                    $($(OpCode::$op)|+ => Ok(AnyResponse::$variant(Decode::decode(from)?)),)*
                    _ => Ok(AnyResponse::Other(from.rest())),
                }
            }
        }

        impl Encode for AnyResponse {
            fn encode(&self, to: &mut Writer<'_>) {
                match self {
                    $(AnyResponse::$variant(response) => response.encode(to),)*
                    AnyResponse::Other(body) => to.raw(body),
                }
            }
        }
    };
}

any_response! {
    Create(CreateResponse) = Create,
    Create2(Create2Response) = Create2 | CreateContainer | CreateTtl,
    Stat(Stat) = Exists | SetData | SetAcl | Check,
    GetData(GetDataResponse) = GetData,
    GetAcl(GetAclResponse) = GetAcl,
    GetChildren(GetChildrenResponse) = GetChildren,
    GetChildren2(GetChildren2Response) = GetChildren2,
    Sync(SyncResponse) = Sync,
    Multi(MultiResponse) = Multi | MultiRead,
    AddWatch(ErrorResponse) = AddWatch,
    Sasl(SaslResponse) = Sasl,
    Empty(()) = Delete | Ping | CloseSession | Auth | CheckWatches | RemoveWatches | SetWatches | SetWatches2,
}

/// What a client sends after the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientFrame<'a> {
    pub(crate) header: RequestHeader,
    pub(crate) request: AnyRequest<'a>,
}

/// What a server sends after the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerFrame {
    Event(ReplyHeader, WatcherEvent),
    Reply(ReplyHeader, AnyResponse),
    /// A refusal: the header gives the reason, there is no body.
    Refused(ReplyHeader),
}

/// Reads a request.
pub(crate) fn decode_client_frame(frame: &Bytes) -> Result<ClientFrame<'_>, Malformed> {
    let mut from = Reader::new(frame);
    let header = RequestHeader::decode(&mut from)?;
    let request = AnyRequest::decode(header.op, &mut from)?;
    Ok(ClientFrame { header, request })
}

/// Reads an event, or the reply to a request of the operation `op`.
pub(crate) fn decode_server_frame(op: OpCode, frame: &Bytes) -> Result<ServerFrame, Malformed> {
    let mut from = Reader::new(frame);
    let header = ReplyHeader::decode(&mut from)?;
    if header.xid == xid::NOTIFICATION {
        let event = WatcherEvent::decode(&mut from)?;
        return Ok(ServerFrame::Event(header, event));
    }
    if !header.err.is_ok() {
        return Ok(ServerFrame::Refused(header));
    }
    let response = AnyResponse::decode(op, &mut from)?;
    Ok(ServerFrame::Reply(header, response))
}
