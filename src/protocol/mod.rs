//! The ZooKeeper wire: records and frames as bytes, in both directions. No I/O, no state.
//!
//! A client encodes requests and decodes responses, a server does the reverse, so every record has both. Decoding is
//! total: any bytes give a value or [`Malformed`], which names the field and the byte.
//!
//! | file | what |
//! |---|---|
//! | `jute` | the primitives: [`Reader`], [`Writer`], [`Encode`], [`Decode`], and the macros that declare records |
//! | `frame` | one length-prefixed frame: [`encode_request`], [`encode_connect_request`], the limits |
//! | `op`, `error_code` | the numbers for operations and errors |
//! | `header` | the header of each request and reply, and the reserved xids |
//! | `connect` | the handshake, with and without its read-only byte |
//! | `request`, `response` | one record per operation; [`Request`] names the operation of a request |
//! | `multi` | transactions and many reads: their steps and results |
//! | `watch` | events, and the requests that arm and remove watches |
//! | `auth` | credentials and SASL tokens |
//! | `stat`, `acl` | [`Stat`](crate::Stat), [`Acl`](crate::Acl) and [`CreateMode`](crate::CreateMode) |
//! | `txn`, `snapshot` | transaction logs and snapshots, as the servers keep them on disk |
//! | `any` | whole frames of any operation: [`decode_server_frame`], [`decode_client_frame`] |
//!
//! Memory: what is reserved before elements are read is never more than the bytes left in the frame. A vector then
//! grows with the elements that were received, so a decoded value takes at most 32 times the bytes of its frame.
//!
//! Bytes after the last field are ignored, as the Java client and server do: this is how later versions add fields.

mod acl;
mod any;
mod auth;
mod connect;
mod error_code;
mod frame;
mod header;
mod jute;
mod multi;
mod op;
mod request;
mod response;
#[cfg(feature = "inspect")]
mod snapshot;
mod stat;
#[cfg(feature = "inspect")]
mod txn;
mod watch;

pub(crate) use any::{AnyRequest, AnyResponse, ClientFrame, ServerFrame, decode_client_frame, decode_server_frame};
pub(crate) use auth::{AuthRequest, SaslRequest, SaslResponse};
pub(crate) use connect::{ConnectRequest, ConnectResponse};
pub(crate) use error_code::ErrorCode;
pub(crate) use frame::{
    SERVER_LIMIT, TooLong, encode_connect_request, encode_connect_response, encode_event, encode_reply, encode_request,
};
pub(crate) use header::{ReplyHeader, RequestHeader, xid};
pub(crate) use jute::{Decode, Encode, Malformed, Problem, Reader, Secret, Writer, ustring_len};
pub(crate) use multi::{MultiOp, MultiReadRequest, MultiRequest, MultiResponse, MultiResult, ReadOp};
pub(crate) use op::OpCode;
pub(crate) use request::{
    CheckRequest, CloseSessionRequest, CreateRequest, CreateTtlRequest, DeleteRequest, ExistsRequest, GetAclRequest,
    GetChildren2Request, GetChildrenRequest, GetDataRequest, PingRequest, PlainCreateRequest, Request, SetAclRequest,
    SetDataRequest, SyncRequest,
};
pub(crate) use response::{
    Create2Response, CreateResponse, ErrorResponse, GetAclResponse, GetChildren2Response, GetChildrenResponse,
    GetDataResponse, SyncResponse,
};
#[cfg(feature = "inspect")]
pub(crate) use snapshot::{END_OF_NODES, SnapshotAcl, SnapshotNode, SnapshotSession};
#[cfg(feature = "inspect")]
pub(crate) use txn::{
    Change, END_OF_TXN, FILE_HEADER_BYTES, FORMAT, FileHeader, LOG_MAGIC, SNAPSHOT_MAGIC, Txn, TxnHeader,
};
pub(crate) use watch::{
    AddWatchMode, AddWatchRequest, CheckWatchesRequest, EventType, KeeperState, RemoveWatchesRequest,
    SetWatches2Request, SetWatchesRequest, WatcherEvent, WatcherType,
};
#[cfg(test)]
pub(crate) mod tests;
