//! A conversation with a real server in which every frame is decoded to its last byte.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

use super::{encoded, to_hex};
use crate::protocol::*;
use crate::support::{ZooKeeper, within};
use crate::util::znode::{Acl, CreateMode};

const PATIENCE: Duration = Duration::from_secs(20);

/// One connection, and the record of what went over it, as `recorded.txt` keeps it.
struct Conversation {
    write: OwnedWriteHalf,
    read: FramedRead<OwnedReadHalf, LengthDelimitedCodec>,
    xid: i32,
    record: Vec<String>,
}

impl Conversation {
    async fn start(server: &ZooKeeper, name: &str, connect: &ConnectRequest<'_>) -> (Self, ConnectResponse) {
        let stream = TcpStream::connect(server.addr()).await.expect("a connection");
        let (read, write) = stream.into_split();
        let mut conversation =
            Conversation { write, read: FramedRead::new(read, LengthDelimitedCodec::new()), xid: 0, record: vec![] };
        let mut out = BytesMut::new();
        encode_connect_request(connect, &mut out).expect("it is short");
        conversation.send(&format!("{name} connect"), out).await;
        let frame = conversation.receive(&format!("{name} connect")).await.expect("an answer");
        let response = ConnectResponse::from_frame(&frame).expect("a handshake");
        assert_eq!(encoded(&response), frame);
        (conversation, response)
    }

    async fn send(&mut self, name: &str, out: BytesMut) {
        self.record.push(format!("{name} > {}", to_hex(&out[4..])));
        self.write.write_all(&out).await.expect("it is written");
    }

    async fn receive(&mut self, name: &str) -> Option<Bytes> {
        let frame = within(name, PATIENCE, self.read.next()).await?.expect("a frame").freeze();
        self.record.push(format!("{name} < {}", to_hex(&frame)));
        Some(frame)
    }

    /// Sends a request with a special xid. Returns the events before the reply, and the reply.
    async fn ask(&mut self, name: &str, request: &impl Request) -> (Vec<WatcherEvent>, ServerFrame) {
        self.xid += 1;
        self.ask_as(self.xid, name, request).await
    }

    async fn ask_as(&mut self, xid: i32, name: &str, request: &impl Request) -> (Vec<WatcherEvent>, ServerFrame) {
        let name = format!("{name} {}", i32::from(request.op()));
        let mut out = BytesMut::new();
        encode_request(xid, request, SERVER_LIMIT, &mut out).expect("it is short");
        self.send(&name, out).await;
        let mut events = Vec::new();
        loop {
            let frame = self.receive(&name).await.expect("a reply");
            let read = decode_server_frame(request.op(), &frame).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut again = BytesMut::new();
            match read {
                ServerFrame::Event(header, event) => {
                    encode_event(header.zxid, &event, &mut again).expect("it is short");
                    assert_eq!(again[4..], frame);
                    events.push(event);
                    continue;
                }
                ServerFrame::Reply(ref header, ref response) => {
                    assert_eq!(header.xid, xid, "{name}");
                    encode_reply(header, response, &mut again).expect("it is short");
                }
                ServerFrame::Refused(ref header) => {
                    assert_eq!(header.xid, xid, "{name}");
                    again = BytesMut::from(&[&[0; 4], &encoded(header)[..]].concat()[..]);
                }
            }
            assert_eq!(to_hex(&again[4..]), to_hex(&frame), "{name}: understood to the last byte");
            return (events, read);
        }
    }

    /// Sends a request that the server carries out, with no event before the reply.
    async fn done(&mut self, name: &str, request: &impl Request) -> AnyResponse {
        match self.ask(name, request).await {
            (events, ServerFrame::Reply(_, response)) if events.is_empty() => response,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Sends a request that the server refuses.
    async fn refused(&mut self, name: &str, request: &impl Request) -> ErrorCode {
        match self.ask(name, request).await {
            (_, ServerFrame::Refused(header)) => header.err,
            other => panic!("{name}: {other:?}"),
        }
    }
}

fn connect(session_id: i64, password: &[u8], read_only: Option<bool>) -> ConnectRequest<'_> {
    let password = Secret(password);
    ConnectRequest { protocol_version: 0, last_zxid_seen: 0, timeout: 10_000, session_id, password, read_only }
}

#[tokio::test]
async fn a_real_server_is_understood_to_the_last_byte() {
    let server = ZooKeeper::start().await;
    let anyone = [Acl::anyone_all()];
    let create = |path, data, mode| CreateRequest::new(path, data, &anyone, mode);
    let (mut zk, opened) = Conversation::start(&server, "opened", &connect(0, &[0; 16], Some(false))).await;
    assert_eq!((opened.timeout, opened.read_only, opened.password.0.len()), (10_000, Some(false), 16));

    // Nodes.
    let made = zk.done("made", &create("/a", b"data", CreateMode::Persistent)).await;
    assert!(
        matches!(made, AnyResponse::Create2(ref made) if made.path == "/a" && made.stat.data_length == 4),
        "{made:?}"
    );
    let made = zk.done("container", &create("/a/c", b"", CreateMode::Container)).await;
    assert!(matches!(made, AnyResponse::Create2(ref made) if made.path == "/a/c"), "{made:?}");
    let made = zk.done("sequential", &create("/a/s-", b"", CreateMode::EphemeralSequential)).await;
    assert!(
        matches!(made, AnyResponse::Create2(ref made)
            if made.path == "/a/s-0000000001" && made.stat.ephemeral_owner == opened.session_id),
        "{made:?}"
    );
    let null = CreateRequest { path: "/a/null", data: None, acl: anyone.as_slice().into(), flags: 0 };
    zk.done("made with null", &null).await;
    let read = zk.done("null", &GetDataRequest { path: "/a/null", watch: false }).await;
    assert!(matches!(read, AnyResponse::GetData(GetDataResponse { data: None, .. })), "{read:?}");
    assert_eq!(zk.refused("exists already", &create("/a", b"", CreateMode::Persistent)).await, ErrorCode::NodeExists);
    let read = zk.done("data", &GetDataRequest { path: "/a", watch: true }).await;
    assert!(matches!(read, AnyResponse::GetData(ref read) if read.data.as_deref() == Some(b"data")), "{read:?}");
    let listed = zk.done("children", &GetChildren2Request { path: "/a", watch: true }).await;
    let AnyResponse::GetChildren2(mut listed) = listed else { panic!("{listed:?}") };
    listed.children.sort();
    assert_eq!(
        (&listed.children[..], listed.stat.num_children),
        (&["c", "null", "s-0000000001"].map(String::from)[..], 3)
    );
    let granted = zk.done("acl", &GetAclRequest { path: "/a" }).await;
    assert!(matches!(granted, AnyResponse::GetAcl(ref granted) if granted.acl == anyone), "{granted:?}");
    assert_eq!(
        zk.done("synced", &SyncRequest { path: "/a" }).await,
        AnyResponse::Sync(SyncResponse { path: "/a".into() })
    );

    // Watches.
    assert_eq!(zk.refused("no node", &ExistsRequest { path: "/b", watch: true }).await, ErrorCode::NoNode);
    let event = |event, path: &str| WatcherEvent { event, state: KeeperState::SyncConnected, path: path.to_owned() };
    let (events, _) = zk.ask("created event", &create("/b", b"", CreateMode::Persistent)).await;
    assert_eq!(events, [event(EventType::NodeCreated, "/b")]);
    let set = SetDataRequest { path: "/a", data: Some(b"more data"), version: 0 };
    let (events, reply) = zk.ask("changed event", &set).await;
    assert_eq!(events, [event(EventType::NodeDataChanged, "/a")]);
    assert!(matches!(reply, ServerFrame::Reply(_, AnyResponse::Stat(stat)) if stat.version == 1), "{reply:?}");
    assert_eq!(zk.refused("bad version", &set).await, ErrorCode::BadVersion);
    let add = AddWatchRequest { path: "/b", mode: AddWatchMode::PersistentRecursive };
    let added = zk.done("recursive watch", &add).await;
    assert_eq!(added, AnyResponse::AddWatch(ErrorResponse { err: ErrorCode::Ok }));
    let (events, _) = zk.ask("recursive event", &create("/b/below", b"", CreateMode::Persistent)).await;
    assert_eq!(events, [event(EventType::NodeCreated, "/b/below")]);
    let remove = RemoveWatchesRequest { path: "/b", watcher: WatcherType::Any };
    assert_eq!(zk.done("watch removed", &remove).await, AnyResponse::Empty(()));
    assert_eq!(zk.refused("no watcher", &remove).await, ErrorCode::NoWatcher);

    // Transactions.
    let ops = vec![
        MultiOp::Check(CheckRequest { path: "/b", version: 0 }),
        MultiOp::create(create("/b/one", b"1", CreateMode::Persistent)),
        MultiOp::create(create("/b/two", b"", CreateMode::Container)),
        MultiOp::Create(create("/b/three", b"", CreateMode::Persistent)),
        MultiOp::SetData(SetDataRequest { path: "/b", data: Some(b"new"), version: -1 }),
        MultiOp::Delete(DeleteRequest { path: "/b/below", version: 0 }),
    ];
    let committed = zk.done("multi", &MultiRequest { ops }).await;
    let AnyResponse::Multi(committed) = committed else { panic!("{committed:?}") };
    assert_eq!(committed.refused(), None);
    assert!(
        matches!(
            &committed.results[..],
            [
                MultiResult::Check,
                MultiResult::Create2(_),
                MultiResult::Create2(_),
                MultiResult::Create(_),
                MultiResult::SetData(_),
                MultiResult::Delete,
            ]
        ),
        "{committed:?}"
    );
    let ops = vec![
        MultiOp::Check(CheckRequest { path: "/b", version: 1 }),
        MultiOp::create(create("/b/one", b"", CreateMode::Persistent)),
        MultiOp::Delete(DeleteRequest { path: "/b/two", version: -1 }),
    ];
    let refused = zk.done("multi refused", &MultiRequest { ops }).await;
    let errors = [ErrorCode::Ok, ErrorCode::NodeExists, ErrorCode::RuntimeInconsistency].map(MultiResult::Error);
    assert_eq!(refused, AnyResponse::Multi(MultiResponse { results: errors.into() }));
    assert_eq!(zk.done("deleted", &DeleteRequest { path: "/b/two", version: -1 }).await, AnyResponse::Empty(()));
    let not_empty = DeleteRequest { path: "/b", version: -1 };
    assert_eq!(zk.refused("not empty", &not_empty).await, ErrorCode::NotEmpty);

    // Requests with an xid of their own.
    let (_, reply) = zk.ask_as(xid::PING, "pinged", &PingRequest {}).await;
    assert!(matches!(reply, ServerFrame::Reply(_, AnyResponse::Empty(()))), "{reply:?}");
    let auth = AuthRequest { kind: 0, scheme: "digest", auth: Secret(Some(b"user:password")) };
    let (_, reply) = zk.ask_as(xid::AUTH, "authenticated", &auth).await;
    assert!(matches!(reply, ServerFrame::Reply(_, AnyResponse::Empty(()))), "{reply:?}");
    let set = SetWatchesRequest { relative_zxid: i64::MAX, data: vec!["/a"], exist: vec!["/none"], child: vec!["/a"] };
    let (_, reply) = zk.ask_as(xid::SET_WATCHES, "watches set", &set).await;
    assert!(matches!(reply, ServerFrame::Reply(_, AnyResponse::Empty(()))), "{reply:?}");
    let set = SetWatches2Request {
        relative_zxid: i64::MAX,
        data: vec![],
        exist: vec!["/b"],
        child: vec![],
        persistent: vec!["/a"],
        persistent_recursive: vec!["/b"],
    };
    let (events, reply) = zk.ask_as(xid::SET_WATCHES, "watches set again", &set).await;
    assert_eq!(events, [event(EventType::NodeCreated, "/b")]);
    assert!(matches!(reply, ServerFrame::Reply(_, AnyResponse::Empty(()))), "{reply:?}");
    // This server has no SASL: its answer has no token.
    let answered = zk.done("sasl", &SaslRequest { token: Secret(Some(b"")) }).await;
    assert_eq!(answered, AnyResponse::Sasl(SaslResponse { token: Secret(None) }));

    // The same session on another connection, as an old client asks for it, and its end.
    let password = opened.password.0.clone();
    let same = connect(opened.session_id, &password, None);
    let (mut resumed, response) = Conversation::start(&server, "resumed", &same).await;
    assert_eq!((response.session_id, response.read_only, response.is_expired()), (opened.session_id, None, false));
    assert_eq!(resumed.done("closed", &CloseSessionRequest {}).await, AnyResponse::Empty(()));
    assert_eq!(resumed.receive("closed").await, None);
    let (expired, response) = Conversation::start(&server, "expired", &connect(4711, &[1; 16], Some(false))).await;
    assert!(response.is_expired(), "{response:?}");

    // The lines that `recorded.txt` keeps.
    for line in [&zk.record, &resumed.record, &expired.record].into_iter().flatten() {
        println!("{line}");
    }
}
