//! Decodes and encodes the messages between a client and a server, as a ZooKeeper 3.9 server does.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::wire::{
    Answer, Call, Content, Done, Header, Incoming, Loss, Message, Outcome, Part, Read, Request, ServerWatch,
};
use super::{Millis, Zxid};
use crate::engine::{Event, Op};
use crate::protocol::{
    AddWatchMode, AnyRequest, AnyResponse, ConnectRequest, ConnectResponse, Create2Response, CreateRequest,
    CreateResponse, CreateTtlRequest, Decode, ErrorCode, ErrorResponse, EventType, GetAclResponse,
    GetChildren2Response, GetChildrenResponse, GetDataResponse, KeeperState, Malformed, MultiOp, MultiResponse,
    MultiResult, OpCode, ReadOp, Reader, ReplyHeader, RequestHeader, Secret, SyncResponse, TooLong, WatcherEvent,
    WatcherType, Writer, encode_connect_response, encode_event, encode_reply,
};
use crate::util::znode::{Acl, CreateMode};

/// The flags of a node with a time to live.
const TTL: i32 = 5;
/// The longest time to live in milliseconds: the most that fits into the owner of such a node.
const LONGEST_TTL: u64 = 0xff_ffff_ffff;

/// Reads the first frame of a connection.
pub(crate) fn connect(frame: &Bytes) -> Result<Incoming, Malformed> {
    let request = ConnectRequest::from_frame(frame)?;
    let header = Header { xid: 0, op: OpCode::CreateSession, steps: Vec::new(), path: String::new() };
    let request = Request::Connect {
        session: request.session_id,
        password: Secret(request.password.0.to_vec()),
        timeout: Millis::try_from(request.timeout).unwrap_or(0),
        last_zxid: request.last_zxid_seen,
        read_only: request.read_only == Some(true),
    };
    Ok(Incoming { header, request })
}

/// Reads any other frame. Errors behind the header are answered, except in an authentication.
pub(crate) fn request(frame: &Bytes) -> Result<Incoming, Malformed> {
    let mut from = Reader::new(frame);
    let RequestHeader { xid, op } = RequestHeader::decode(&mut from)?;
    let (mut steps, mut path) = (Vec::new(), String::new());
    let request = match AnyRequest::decode(op, &mut from) {
        Err(malformed) if op == OpCode::Auth => return Err(malformed),
        Err(_) => Request::Refused(ErrorCode::MarshallingError),
        Ok(request) => {
            match &request {
                AnyRequest::Multi(multi) => steps = multi.ops.iter().map(MultiOp::op).collect(),
                AnyRequest::Sync(sync) => sync.path.clone_into(&mut path),
                _ => {}
            }
            understand(request).unwrap_or_else(Request::Refused)
        }
    };
    Ok(Incoming { header: Header { xid, op, steps, path }, request })
}

fn understand(request: AnyRequest<'_>) -> Result<Request, ErrorCode> {
    let call = match request {
        AnyRequest::Create(create) | AnyRequest::Create2(create) | AnyRequest::CreateContainer(create) => {
            Call::Write(to_create(&create)?)
        }
        AnyRequest::CreateTtl(create) => Call::Write(to_create_ttl(&create)),
        AnyRequest::Delete(delete) => {
            Call::Write(Op::Delete { path: delete.path.to_owned(), version: version(delete.version) })
        }
        AnyRequest::SetData(set) => Call::Write(Op::SetData {
            path: set.path.to_owned(),
            data: set.data.unwrap_or_default().to_vec(),
            version: version(set.version),
        }),
        AnyRequest::Multi(multi) => Call::Multi(multi.ops.iter().map(step).collect::<Result<_, _>>()?),
        AnyRequest::MultiRead(many) => Call::GetMany { reads: many.reads.iter().map(read).collect() },
        AnyRequest::Exists(read) => Call::Exists { path: read.path.to_owned(), watch: read.watch },
        AnyRequest::GetData(read) => Call::GetData { path: read.path.to_owned(), watch: read.watch },
        AnyRequest::GetChildren(read) => Call::List { path: read.path.to_owned(), watch: read.watch },
        AnyRequest::GetChildren2(read) => Call::List { path: read.path.to_owned(), watch: read.watch },
        AnyRequest::GetAcl(read) => Call::GetAcl { path: read.path.to_owned() },
        AnyRequest::Sync(sync) => Call::Sync { path: sync.path.to_owned() },
        AnyRequest::AddWatch(add) => {
            let watch = match add.mode {
                AddWatchMode::Persistent => ServerWatch::Persistent,
                AddWatchMode::PersistentRecursive => ServerWatch::Recursive,
            };
            Call::AddWatch { path: add.path.to_owned(), watch }
        }
        AnyRequest::RemoveWatches(remove) => {
            Call::RemoveWatch { path: remove.path.to_owned(), watches: watches(remove.watcher) }
        }
        AnyRequest::SetWatches(set) => {
            return Ok(set_watches(set.relative_zxid, [&set.data, &set.exist, &set.child, &[], &[]]));
        }
        AnyRequest::SetWatches2(set) => {
            let paths = [&*set.data, &set.exist, &set.child, &set.persistent, &set.persistent_recursive];
            return Ok(set_watches(set.relative_zxid, paths));
        }
        AnyRequest::Ping(_) => return Ok(Request::Ping),
        AnyRequest::CloseSession(_) => return Ok(Request::CloseSession),
        AnyRequest::Auth(auth) => {
            let proof = auth.auth.0.unwrap_or_default().to_vec();
            return Ok(Request::Auth { scheme: auth.scheme.to_owned(), auth: Secret(proof) });
        }
        AnyRequest::SetAcl(set) => {
            Call::SetAcl { path: set.path.to_owned(), acls: set.acl.to_vec(), version: version(set.version) }
        }
        AnyRequest::CheckWatches(check) => {
            Call::CheckWatch { path: check.path.to_owned(), watches: watches(check.watcher) }
        }
        AnyRequest::Check(_) | AnyRequest::Sasl(_) => return Err(ErrorCode::Unimplemented),
        AnyRequest::Other(OpCode::Reconfig, _) => return Err(ErrorCode::ReconfigDisabled),
        AnyRequest::Other(OpCode::GetEphemerals, body) => Call::Ephemerals { below: only_path(&body)? },
        AnyRequest::Other(OpCode::GetAllChildrenNumber, body) => Call::CountBelow { path: only_path(&body)? },
        AnyRequest::Other(OpCode::WhoAmI, _) => Call::WhoAmI,
        AnyRequest::Other(..) => return Ok(Request::Unknown),
    };
    Ok(Request::Call(call))
}

/// Reads the body of a request that has only a path.
fn only_path(body: &Bytes) -> Result<String, ErrorCode> {
    String::decode(&mut Reader::new(body)).map_err(|_| ErrorCode::MarshallingError)
}

fn to_create(create: &CreateRequest<'_>) -> Result<Op, ErrorCode> {
    let mode = create.mode().ok_or(ErrorCode::BadArguments)?;
    Ok(op_create(create.path, create.data, mode, &create.acl))
}

/// An invalid time to live becomes zero, which the leader refuses, even in a step of a transaction.
fn to_create_ttl(create: &CreateTtlRequest<'_>) -> Op {
    let ttl = u64::try_from(create.ttl).ok().filter(|ttl| *ttl <= LONGEST_TTL && create.flags == TTL);
    let mode = CreateMode::PersistentTtl(Duration::from_millis(ttl.unwrap_or(0)));
    op_create(create.path, create.data, mode, &create.acl)
}

fn read(op: &ReadOp<'_>) -> Read {
    match op {
        ReadOp::Data(read) => Read::Data(read.path.to_owned()),
        ReadOp::Children(read) => Read::Children(read.path.to_owned()),
    }
}

fn op_create(path: &str, data: Option<&[u8]>, mode: CreateMode, acls: &[Acl]) -> Op {
    Op::Create { path: path.to_owned(), data: data.unwrap_or_default().to_vec(), mode, acls: acls.to_vec() }
}

fn step(op: &MultiOp<'_>) -> Result<Op, ErrorCode> {
    Ok(match op {
        MultiOp::Check(check) => Op::Check { path: check.path.to_owned(), version: version(check.version) },
        MultiOp::Create(create) | MultiOp::Create2(create) | MultiOp::CreateContainer(create) => {
            // A server checks the flags while it decodes the step.
            to_create(create).map_err(|_| ErrorCode::MarshallingError)?
        }
        MultiOp::CreateTtl(create) => to_create_ttl(create),
        MultiOp::SetData(set) => Op::SetData {
            path: set.path.to_owned(),
            data: set.data.unwrap_or_default().to_vec(),
            version: version(set.version),
        },
        MultiOp::Delete(delete) => Op::Delete { path: delete.path.to_owned(), version: version(delete.version) },
    })
}

/// -1 means any version.
fn version(version: i32) -> Option<i32> {
    (version != -1).then_some(version)
}

fn watches(watcher: WatcherType) -> &'static [ServerWatch] {
    match watcher {
        WatcherType::Children => &[ServerWatch::Children],
        WatcherType::Data => &[ServerWatch::Data],
        WatcherType::Persistent => &[ServerWatch::Persistent],
        WatcherType::PersistentRecursive => &[ServerWatch::Recursive],
        WatcherType::Any => {
            &[ServerWatch::Children, ServerWatch::Data, ServerWatch::Persistent, ServerWatch::Recursive]
        }
    }
}

fn set_watches(since: Zxid, paths: [&[&str]; 5]) -> Request {
    let shared = |paths: &[&str]| paths.iter().map(|path| Arc::from(*path)).collect();
    let [data, exists, children, persistent, recursive] = paths.map(shared);
    Request::SetWatches { since, data, exists, children, persistent, recursive }
}

/// Appends the bytes of a message; none for the end of a connection. `password` returns the password of a session.
pub(crate) fn encode(message: &Message, password: impl Fn(i64) -> [u8; 16], out: &mut BytesMut) -> Result<(), TooLong> {
    match message {
        Message::Answer { header, zxid, outcome, loss } => {
            let start = out.len();
            answer(header, *zxid, outcome, password, out)?;
            damage(*loss, start, out);
            Ok(())
        }
        Message::Event { zxid, path, event } => event_frame(*zxid, path, *event, out),
        Message::Closed => Ok(()),
    }
}

/// The bytes of a frame's length prefix, and of a reply's header.
const PREFIX: usize = 4;
const REPLY_HEADER: usize = 16;
/// Fewer bytes than any record has.
const TOO_SHORT: usize = 3;

/// Removes the lost part of the reply at `start`.
fn damage(loss: Option<Loss>, start: usize, out: &mut BytesMut) {
    let length = out.len() - start;
    match loss {
        Some(Loss::Truncated) => out.truncate(start + length / 2),
        Some(Loss::Malformed) => {
            let record = length.saturating_sub(PREFIX + REPLY_HEADER);
            out.truncate(start + PREFIX + REPLY_HEADER + record.min(TOO_SHORT));
            let frame = u32::try_from(out.len() - start - PREFIX).unwrap_or(u32::MAX);
            if let Some(prefix) = out.get_mut(start..start + PREFIX) {
                prefix.copy_from_slice(&frame.to_be_bytes());
            }
        }
        Some(Loss::Applied | Loss::NotApplied) | None => {}
    }
}

fn answer(
    header: &Header,
    zxid: Zxid,
    outcome: &Outcome,
    password: impl Fn(i64) -> [u8; 16],
    out: &mut BytesMut,
) -> Result<(), TooLong> {
    let welcome = |session_id, timeout: Millis, password: [u8; 16]| ConnectResponse {
        protocol_version: 0,
        timeout: i32::try_from(timeout).unwrap_or(i32::MAX),
        session_id,
        password: Secret(password.to_vec()),
        read_only: Some(false),
    };
    let head = |err| ReplyHeader { xid: header.xid, zxid, err };
    match outcome {
        Outcome::Connected { session, timeout, read_only } => {
            let welcome = welcome(*session, *timeout, password(*session));
            encode_connect_response(&ConnectResponse { read_only: Some(*read_only), ..welcome }, out)
        }
        Outcome::Expired => encode_connect_response(&welcome(0, 0, [0; 16]), out),
        Outcome::NoLeader => {
            let welcome = ConnectResponse { protocol_version: ConnectResponse::NO_LEADER, ..welcome(0, 0, [0; 16]) };
            encode_connect_response(&welcome, out)
        }
        Outcome::Reply(Ok(answer)) => encode_reply(&head(ErrorCode::Ok), &body(header, answer), out),
        Outcome::Reply(Err(code)) => encode_reply(&head(*code), &(), out),
        Outcome::Goodbye => encode_reply(&head(ErrorCode::Ok), &(), out),
        Outcome::Unknown => encode_reply(&head(ErrorCode::Unimplemented), &(), out),
        Outcome::Text(text) => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
}

/// Builds a response whose body has no record type.
fn other(write: impl FnOnce(&mut Writer<'_>)) -> AnyResponse {
    let mut body = BytesMut::new();
    write(&mut Writer::new(&mut body));
    AnyResponse::Other(body.freeze())
}

fn names(children: &[Arc<str>]) -> Vec<String> {
    children.iter().map(ToString::to_string).collect()
}

fn count<T>(of: &[T]) -> i32 {
    i32::try_from(of.len()).unwrap_or(i32::MAX)
}

fn body(header: &Header, answer: &Answer) -> AnyResponse {
    let data = |(data, stat): &Content| GetDataResponse { data: Some(Bytes::copy_from_slice(data)), stat: *stat };
    match answer {
        Answer::Done if header.op == OpCode::Sync => AnyResponse::Sync(SyncResponse { path: header.path.clone() }),
        Answer::Done if header.op == OpCode::AddWatch => AnyResponse::AddWatch(ErrorResponse { err: ErrorCode::Ok }),
        Answer::Done => AnyResponse::Empty(()),
        Answer::Created(path, _) if header.op == OpCode::Create => {
            AnyResponse::Create(CreateResponse { path: path.clone() })
        }
        Answer::Created(path, stat) => AnyResponse::Create2(Create2Response { path: path.clone(), stat: *stat }),
        Answer::Stat(stat) | Answer::Changed(stat) => AnyResponse::Stat(*stat),
        Answer::Data(content) => AnyResponse::GetData(data(content)),
        Answer::Children(children, _) if header.op == OpCode::GetChildren => {
            AnyResponse::GetChildren(GetChildrenResponse { children: names(children) })
        }
        Answer::Children(children, stat) => {
            AnyResponse::GetChildren2(GetChildren2Response { children: names(children), stat: *stat })
        }
        Answer::Acl(acl, stat) => AnyResponse::GetAcl(GetAclResponse { acl: acl.clone(), stat: *stat }),
        Answer::Many(reads) => {
            let result = |read: &Result<Part, ErrorCode>| match read {
                Ok(Part::Data(content)) => MultiResult::GetData(data(content)),
                Ok(Part::Children(children)) => {
                    MultiResult::GetChildren(GetChildrenResponse { children: names(children) })
                }
                Err(code) => MultiResult::Error(*code),
            };
            AnyResponse::Multi(MultiResponse { results: reads.iter().map(result).collect() })
        }
        Answer::Number(number) => other(|to| to.int(*number)),
        Answer::Texts(texts) => other(|to| {
            to.int(count(texts));
            texts.iter().flatten().for_each(|text| to.ustring(text));
        }),
        Answer::Committed(steps) => {
            let results = header.steps.iter().zip(steps).map(|(op, done)| committed(*op, done)).collect();
            AnyResponse::Multi(MultiResponse { results })
        }
        Answer::NotCommitted { index, code } => {
            let result = |at| match usize::cmp(&at, index) {
                std::cmp::Ordering::Less => ErrorCode::Ok,
                std::cmp::Ordering::Equal => *code,
                std::cmp::Ordering::Greater => ErrorCode::RuntimeInconsistency,
            };
            let results = (0..header.steps.len()).map(|at| MultiResult::Error(result(at))).collect();
            AnyResponse::Multi(MultiResponse { results })
        }
    }
}

fn committed(op: OpCode, done: &Done) -> MultiResult {
    match done {
        Done::Check => MultiResult::Check,
        Done::Created(path, _) if op == OpCode::Create => MultiResult::Create(CreateResponse { path: path.clone() }),
        Done::Created(path, stat) => MultiResult::Create2(Create2Response { path: path.clone(), stat: *stat }),
        Done::Changed(stat) => MultiResult::SetData(*stat),
        Done::Deleted => MultiResult::Delete,
    }
}

fn event_frame(zxid: Zxid, path: &str, event: Event, out: &mut BytesMut) -> Result<(), TooLong> {
    let event = match event {
        Event::NodeCreated => EventType::NodeCreated,
        Event::NodeDeleted => EventType::NodeDeleted,
        Event::NodeDataChanged => EventType::NodeDataChanged,
        Event::NodeChildrenChanged => EventType::NodeChildrenChanged,
        Event::SessionEnded => EventType::None,
    };
    encode_event(zxid, &WatcherEvent { event, state: KeeperState::SyncConnected, path: path.to_owned() }, out)
}

/// Returns the password of a session, which only its client knows.
pub(crate) fn password(seed: u64, session: i64) -> [u8; 16] {
    let mut random = fastrand::Rng::with_seed(seed ^ session.unsigned_abs().rotate_left(17));
    random.u128(..).to_be_bytes()
}
