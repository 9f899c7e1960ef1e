//! Records with arbitrary content, and one of each kind from the same content.

use std::borrow::Cow;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::protocol::*;
use crate::util::znode::{Acl, Permissions, Stat};

/// What the fields of records are filled with.
#[derive(Debug, Clone)]
pub(super) struct Content {
    texts: Vec<String>,
    data: Option<Vec<u8>>,
    ints: [i32; 3],
    longs: [i64; 2],
    flag: bool,
    acl: Vec<Acl>,
    stat: Stat,
    event: (EventType, KeeperState),
    code: ErrorCode,
    mode: AddWatchMode,
    watcher: WatcherType,
    /// Which steps a multi has.
    steps: Vec<u8>,
}

fn stat() -> impl Strategy<Value = Stat> {
    (any::<[i64; 6]>(), any::<[i32; 5]>()).prop_map(|(longs, ints)| Stat {
        czxid: longs[0],
        mzxid: longs[1],
        pzxid: longs[2],
        ctime: longs[3],
        mtime: longs[4],
        ephemeral_owner: longs[5],
        version: ints[0],
        cversion: ints[1],
        aversion: ints[2],
        data_length: ints[3],
        num_children: ints[4],
    })
}

fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..12).prop_map(String::from_iter)
}

fn acl() -> impl Strategy<Value = Acl> {
    (0..=31_u8, text(), text()).prop_map(|(bits, scheme, id)| Acl::new(Permissions(bits), scheme, id))
}

/// Draws a code with a name, or any other number.
fn code<T: From<i32> + Copy + std::fmt::Debug>(named: &'static [T]) -> impl Strategy<Value = T> {
    (any::<i32>(), any::<bool>(), 0..named.len())
        .prop_map(move |(number, other, index)| if other { T::from(number) } else { named[index] })
}

pub(super) fn content() -> impl Strategy<Value = Content> {
    let codes = (
        (code(EventType::NAMED), code(KeeperState::NAMED)),
        code(ErrorCode::NAMED),
        prop::sample::select(AddWatchMode::NAMED),
        prop::sample::select(WatcherType::NAMED),
    );
    let fields = (
        vec(text(), 1..6),
        option::of(vec(any::<u8>(), 0..40)),
        any::<[i32; 3]>(),
        any::<[i64; 2]>(),
        any::<bool>(),
        vec(acl(), 0..4),
        stat(),
    );
    (fields, codes, vec(any::<u8>(), 0..8)).prop_map(|(fields, (event, code, mode, watcher), steps)| {
        let (texts, data, ints, longs, flag, acl, stat) = fields;
        Content { texts, data, ints, longs, flag, acl, stat, event, code, mode, watcher, steps }
    })
}

/// Returns the same contents each time.
pub(super) fn contents(count: usize) -> Vec<Content> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| content().new_tree(&mut runner).expect("content").current()).collect()
}

impl Content {
    pub(super) fn xid(&self) -> i32 {
        self.ints[0]
    }

    pub(super) fn reply_header(&self) -> ReplyHeader {
        ReplyHeader { xid: self.ints[0], zxid: self.longs[0], err: self.code }
    }

    pub(super) fn request_header(&self) -> RequestHeader {
        RequestHeader { xid: self.ints[0], op: OpCode::from(self.ints[1]) }
    }

    pub(super) fn event(&self) -> WatcherEvent {
        WatcherEvent { event: self.event.0, state: self.event.1, path: self.texts[0].clone() }
    }

    pub(super) fn connect_requests(&self) -> Vec<ConnectRequest<'_>> {
        let password = Secret(self.data.as_deref().unwrap_or_default());
        let connect = |read_only| ConnectRequest {
            protocol_version: self.ints[0],
            last_zxid_seen: self.longs[0],
            timeout: self.ints[1],
            session_id: self.longs[1],
            password: password.clone(),
            read_only,
        };
        vec![connect(None), connect(Some(self.flag))]
    }

    pub(super) fn connect_responses(&self) -> Vec<ConnectResponse> {
        let connect = |read_only| ConnectResponse {
            protocol_version: self.ints[0],
            timeout: self.ints[1],
            session_id: self.longs[1],
            password: Secret(self.data.clone().unwrap_or_default()),
            read_only,
        };
        vec![connect(None), connect(Some(self.flag))]
    }

    fn texts(&self) -> Vec<&str> {
        self.texts.iter().map(String::as_str).collect()
    }

    fn bytes(&self) -> Option<Bytes> {
        self.data.clone().map(Bytes::from)
    }

    /// Returns a request of each kind that has a record.
    pub(super) fn requests(&self) -> Vec<AnyRequest<'_>> {
        let path = self.texts[0].as_str();
        let data = self.data.as_deref();
        let [version, flags, kind] = self.ints;
        let [ttl, relative_zxid] = self.longs;
        let acl = Cow::Borrowed(self.acl.as_slice());
        let watch = self.flag;
        let (mode, watcher) = (self.mode, self.watcher);
        let (texts, scheme) = (self.texts(), path);
        let create = CreateRequest { path, data, acl: acl.clone(), flags };
        vec![
            AnyRequest::Create(create.clone()),
            AnyRequest::Create2(create.clone()),
            AnyRequest::CreateContainer(create),
            AnyRequest::CreateTtl(CreateTtlRequest { path, data, acl: acl.clone(), flags, ttl }),
            AnyRequest::Delete(DeleteRequest { path, version }),
            AnyRequest::Exists(ExistsRequest { path, watch }),
            AnyRequest::GetData(GetDataRequest { path, watch }),
            AnyRequest::SetData(SetDataRequest { path, data, version }),
            AnyRequest::GetAcl(GetAclRequest { path }),
            AnyRequest::SetAcl(SetAclRequest { path, acl, version }),
            AnyRequest::GetChildren(GetChildrenRequest { path, watch }),
            AnyRequest::GetChildren2(GetChildren2Request { path, watch }),
            AnyRequest::Sync(SyncRequest { path }),
            AnyRequest::Check(CheckRequest { path, version }),
            AnyRequest::Multi(MultiRequest { ops: self.steps.iter().map(|step| self.step(*step)).collect() }),
            AnyRequest::MultiRead(MultiReadRequest {
                reads: texts
                    .iter()
                    .flat_map(|&path| {
                        [
                            ReadOp::Data(GetDataRequest { path, watch }),
                            ReadOp::Children(GetChildrenRequest { path, watch }),
                        ]
                    })
                    .collect(),
            }),
            AnyRequest::AddWatch(AddWatchRequest { path, mode }),
            AnyRequest::CheckWatches(CheckWatchesRequest { path, watcher }),
            AnyRequest::RemoveWatches(RemoveWatchesRequest { path, watcher }),
            AnyRequest::SetWatches(SetWatchesRequest {
                relative_zxid,
                data: texts.clone(),
                exist: Vec::new(),
                child: vec![path],
            }),
            AnyRequest::SetWatches2(SetWatches2Request {
                relative_zxid,
                data: Vec::new(),
                exist: texts.clone(),
                child: vec![path],
                persistent: texts,
                persistent_recursive: vec![path],
            }),
            AnyRequest::Auth(AuthRequest { kind, scheme, auth: Secret(data) }),
            AnyRequest::Sasl(SaslRequest { token: Secret(data) }),
            AnyRequest::Ping(PingRequest {}),
            AnyRequest::CloseSession(CloseSessionRequest {}),
        ]
    }

    fn step(&self, step: u8) -> MultiOp<'_> {
        let path = self.texts[usize::from(step) % self.texts.len()].as_str();
        let data = self.data.as_deref();
        let acl = Cow::Borrowed(self.acl.as_slice());
        let [version, flags, _] = self.ints;
        let create = CreateRequest { path, data, acl: acl.clone(), flags };
        match step % 8 {
            0 => MultiOp::Check(CheckRequest { path, version }),
            1 => MultiOp::Create(create),
            2 => MultiOp::Create2(create),
            3 => MultiOp::CreateContainer(create),
            4 => MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, flags, ttl: self.longs[0] }),
            5 => MultiOp::SetData(SetDataRequest { path, data, version }),
            _ => MultiOp::Delete(DeleteRequest { path, version }),
        }
    }

    /// Returns a response of each kind, with an operation that it answers.
    pub(super) fn responses(&self) -> Vec<(OpCode, AnyResponse)> {
        let path = self.texts[0].clone();
        let children = self.texts.clone();
        let (stat, acl) = (self.stat, self.acl.clone());
        let results = self.steps.iter().map(|step| self.result(*step)).collect();
        vec![
            (OpCode::Create, AnyResponse::Create(CreateResponse { path: path.clone() })),
            (OpCode::Create2, AnyResponse::Create2(Create2Response { path: path.clone(), stat })),
            (OpCode::Exists, AnyResponse::Stat(stat)),
            (OpCode::GetData, AnyResponse::GetData(GetDataResponse { data: self.bytes(), stat })),
            (OpCode::GetAcl, AnyResponse::GetAcl(GetAclResponse { acl, stat })),
            (OpCode::GetChildren, AnyResponse::GetChildren(GetChildrenResponse { children: children.clone() })),
            (OpCode::GetChildren2, AnyResponse::GetChildren2(GetChildren2Response { children, stat })),
            (OpCode::Sync, AnyResponse::Sync(SyncResponse { path })),
            (OpCode::Multi, AnyResponse::Multi(MultiResponse { results })),
            (OpCode::AddWatch, AnyResponse::AddWatch(ErrorResponse { err: self.code })),
            (OpCode::Sasl, AnyResponse::Sasl(SaslResponse { token: Secret(self.bytes()) })),
            (OpCode::Delete, AnyResponse::Empty(())),
        ]
    }

    fn result(&self, step: u8) -> MultiResult {
        let path = self.texts[usize::from(step) % self.texts.len()].clone();
        match step % 8 {
            0 => MultiResult::Check,
            1 => MultiResult::Create(CreateResponse { path }),
            2 => MultiResult::Create2(Create2Response { path, stat: self.stat }),
            3 => MultiResult::SetData(self.stat),
            4 => MultiResult::Delete,
            5 => MultiResult::GetData(GetDataResponse { data: self.bytes(), stat: self.stat }),
            6 => MultiResult::GetChildren(GetChildrenResponse { children: self.texts.clone() }),
            _ => MultiResult::Error(self.code),
        }
    }
}
