//! A server that a test plays step by step.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, ReadBuf, ReadHalf};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::engine::Options;
use crate::engine::connect::{Connector, Stream};
use crate::engine::connect_string::{ConnectString, Endpoint};
use crate::engine::srv;
use crate::engine::{Ensemble, Error, Loss, Observer, Opened, Proof, Session, SessionEvent};
use crate::protocol::{
    ConnectRequest, ConnectResponse, Decode, Encode, ErrorCode, EventType, KeeperState, OpCode, Reader, ReplyHeader,
    RequestHeader, Secret, WatcherEvent, encode_connect_response, encode_event, encode_reply, xid,
};
use crate::util::clock::{self, Clock};
use crate::util::mutex::Mutex;

/// The session timeout that the client requests.
pub(super) const T: Duration = Duration::from_secs(10);
pub(super) const ID: i64 = 0x1234_5678_9abc;
pub(super) const PASSWORD: &[u8] = b"sixteen bytes...";
/// The longest time that a step may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// The outcome of attempts to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Accept,
    Refuse,
    NameUnknown,
    /// No answer at all.
    Dark,
}

#[derive(Debug)]
struct Net {
    start: Instant,
    way: Mutex<Way>,
    /// How many bytes fit in each direction before a writer waits.
    room: usize,
    attempts: Mutex<Vec<(Duration, usize)>>,
    records: Mutex<Option<Result<Vec<srv::Record>, &'static str>>>,
    lookups: AtomicUsize,
    /// What the client reads when a connection ends: the end of the stream, or this error.
    end: Arc<Mutex<Option<io::ErrorKind>>>,
    accepted: mpsc::UnboundedSender<(usize, DuplexStream)>,
}

impl Connector for Net {
    fn connect(&self, endpoint: Endpoint, _tries: u32) -> BoxFuture<'static, io::Result<Stream>> {
        let number = endpoint.host.strip_prefix("zk").and_then(|number| number.parse::<usize>().ok());
        let host = number.expect("a host of the stage") - 1;
        self.attempts.lock().push((self.start.elapsed(), host));
        let refused = |kind: io::ErrorKind| futures::future::ready(Err(kind.into())).boxed();
        match *self.way.lock() {
            Way::Refuse => refused(io::ErrorKind::ConnectionRefused),
            Way::NameUnknown => {
                let unknown = io::Error::new(io::ErrorKind::NotFound, "name not found");
                futures::future::ready(Err(unknown)).boxed()
            }
            Way::Dark => futures::future::pending().boxed(),
            Way::Accept => {
                let (near, far) = tokio::io::duplex(self.room);
                self.accepted.send((host, far)).ok();
                let (read, write) = tokio::io::split(near);
                let read = Incoming { stream: read, end: Arc::clone(&self.end) };
                let stream = Stream { read: Box::new(read), write: Box::new(write), address: Some(address_of(host)) };
                futures::future::ready(Ok(stream)).boxed()
            }
        }
    }

    /// `also-zk1` is another name of `zk1`.
    fn is_at(&self, endpoint: Endpoint, address: SocketAddr) -> BoxFuture<'static, bool> {
        let number = endpoint.host.trim_start_matches("also-").strip_prefix("zk").and_then(|it| it.parse().ok());
        let number: usize = number.expect("a host of the stage");
        futures::future::ready(address_of(number - 1) == address).boxed()
    }

    fn lookup_srv(&self, _name: String) -> BoxFuture<'static, io::Result<Vec<srv::Record>>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        match self.records.lock().clone() {
            Some(records) => futures::future::ready(records.map_err(io::Error::other)).boxed(),
            None => futures::future::pending().boxed(),
        }
    }
}

fn address_of(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host as u8], 2181))
}

/// The half of a connection that the client reads.
struct Incoming {
    stream: ReadHalf<DuplexStream>,
    end: Arc<Mutex<Option<io::ErrorKind>>>,
}

impl AsyncRead for Incoming {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, to);
        let ends = matches!(read, Poll::Ready(Ok(()))) && to.filled().len() == before;
        match *self.end.lock() {
            Some(end) if ends => Poll::Ready(Err(end.into())),
            _ => read,
        }
    }
}

/// An ensemble whose servers the test plays.
pub(super) struct Stage {
    net: Arc<Net>,
    accepted: mpsc::UnboundedReceiver<(usize, DuplexStream)>,
    pub(super) ensemble: Arc<Ensemble>,
    pub(super) seen: Arc<Seen>,
    pub(super) clock: Clock,
}

impl Stage {
    pub(super) fn new(hosts: usize) -> Stage {
        Stage::with(hosts, 1 << 20, |_| {})
    }

    pub(super) fn with(hosts: usize, room: usize, change: impl FnOnce(&mut Options)) -> Stage {
        let (sender, accepted) = mpsc::unbounded_channel();
        let start = Instant::now();
        let net = Arc::new(Net {
            start,
            way: Mutex::new(Way::Accept),
            room,
            attempts: Mutex::default(),
            records: Mutex::default(),
            lookups: AtomicUsize::new(0),
            end: Arc::default(),
            accepted: sender,
        });
        let clock = Clock::tokio(start);
        let names: Vec<String> = (1..=hosts).map(|number| format!("zk{number}")).collect();
        let connect_string = ConnectString::parse(&names.join(",")).expect("names of hosts");
        let runtime = tokio::runtime::Handle::current();
        let spawn = Arc::new(move |task| drop(runtime.spawn(task)));
        let mut options = Options::new(connect_string, T, clock, spawn, Arc::new(|| 0.5));
        change(&mut options);
        let ensemble = Arc::new(Ensemble::with_connector(options, net.clone()));
        Stage { net, accepted, ensemble, seen: Arc::default(), clock }
    }

    /// Starts with one host, and a client with one credential.
    pub(super) fn with_credentials() -> Stage {
        Stage::with(1, 1 << 20, |options| options.auths = vec![("ip".to_owned(), Vec::new())])
    }

    pub(super) fn set(&self, way: Way) {
        *self.net.way.lock() = way;
    }

    /// Sets what the client reads from now on when the server closes a connection.
    pub(super) fn end_with(&self, end: Option<io::ErrorKind>) {
        *self.net.end.lock() = end;
    }

    /// Sets what a lookup of SRV records gives. Until then there is no answer.
    pub(super) fn set_records(&self, records: Result<Vec<srv::Record>, &'static str>) {
        *self.net.records.lock() = Some(records);
    }

    pub(super) fn lookups(&self) -> usize {
        self.net.lookups.load(Ordering::Relaxed)
    }

    /// Returns each attempt: the time since the start, and the host.
    pub(super) fn attempts(&self) -> Vec<(Duration, usize)> {
        self.net.attempts.lock().clone()
    }

    pub(super) fn opening(&self) -> BoxFuture<'static, Result<Opened, Error>> {
        self.ensemble.open(self.seen.clone()).boxed()
    }

    /// Returns the next connection that the client makes.
    pub(super) async fn peer(&mut self) -> Peer {
        let (host, stream) = soon(self.accepted.recv()).await.expect("the stage exists");
        Peer { host, stream, buffer: BytesMut::new() }
    }

    /// Returns a connection that was made but not accepted yet, if there is one.
    pub(super) fn waiting_peer(&mut self) -> Option<Peer> {
        let (host, stream) = self.accepted.try_recv().ok()?;
        Some(Peer { host, stream, buffer: BytesMut::new() })
    }

    /// Returns an open session, with the server's side of its connection.
    pub(super) async fn open(&mut self) -> (Opened, Peer) {
        let opening = self.opening();
        let welcome = async {
            let mut peer = self.peer().await;
            peer.greet(T).await;
            peer.serve_first().await;
            peer
        };
        let (opened, peer) = soon(async { tokio::join!(opening, welcome) }).await;
        (opened.expect("a session"), peer)
    }

    /// Resumes the session of the client on a new connection.
    pub(super) async fn resume(&mut self) -> Peer {
        let mut peer = self.peer().await;
        peer.greet(T).await;
        peer
    }
}

/// One connection, from the server's side.
pub(super) struct Peer {
    pub(super) host: usize,
    pub(super) stream: DuplexStream,
    buffer: BytesMut,
}

/// A request of the client.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) xid: i32,
    pub(super) op: OpCode,
    frame: Bytes,
}

impl Asked {
    /// Returns the body of the request.
    pub(super) fn read<'a, R: Decode<'a>>(&'a self) -> R {
        let mut from = Reader::new(&self.frame);
        RequestHeader::decode(&mut from).expect("a header");
        R::decode(&mut from).expect("the body of the request")
    }
}

impl Peer {
    /// Returns the next frame; `None` when the client has closed the connection.
    pub(super) async fn frame(&mut self) -> Option<Bytes> {
        soon(async {
            loop {
                if let Some(prefix) = self.buffer.first_chunk::<4>() {
                    let length = u32::from_be_bytes(*prefix) as usize;
                    if self.buffer.len() >= 4 + length {
                        let mut whole = self.buffer.split_to(4 + length).freeze();
                        return Some(whole.split_off(4));
                    }
                }
                if self.stream.read_buf(&mut self.buffer).await.expect("reading") == 0 {
                    assert!(self.buffer.is_empty(), "half a frame is left");
                    return None;
                }
            }
        })
        .await
    }

    pub(super) async fn asked(&mut self) -> Asked {
        self.next().await.expect("a request")
    }

    /// Returns the next request; `None` if the client has closed the connection.
    pub(super) async fn next(&mut self) -> Option<Asked> {
        let frame = self.frame().await?;
        let header = RequestHeader::decode(&mut Reader::new(&frame)).expect("a header");
        Some(Asked { xid: header.xid, op: header.op, frame })
    }

    /// Returns the next request, which must be of this operation.
    pub(super) async fn expect(&mut self, op: OpCode) -> Asked {
        let asked = self.asked().await;
        assert_eq!(asked.op, op);
        asked
    }

    /// Returns whether everything that arrived was read. Nothing more arrives unless the clock moves.
    pub(super) async fn is_quiet(&mut self) -> bool {
        tokio::task::yield_now().await;
        self.buffer.is_empty() && self.stream.read_buf(&mut self.buffer).now_or_never().is_none()
    }

    /// Opens or resumes the session. Returns the client's request.
    pub(super) async fn greet(&mut self, granted: Duration) -> Hello {
        let hello = self.hello().await;
        assert_eq!(hello.read_only, Some(false), "a read-only server will not do");
        self.connect_response(granted.as_millis() as i32, ID).await;
        hello
    }

    /// Answers the first ping, which shows that the server serves the new session.
    pub(super) async fn serve_first(&mut self) {
        let asked = self.expect(OpCode::Ping).await;
        self.reply(asked.xid, 0, ErrorCode::Ok, &()).await;
    }

    /// Accepts a credential or refuses it.
    pub(super) async fn answer_credentials(&mut self, answer: ErrorCode) {
        self.expect(OpCode::Auth).await;
        self.reply(xid::AUTH, 0, answer, &()).await;
    }

    pub(super) async fn hello(&mut self) -> Hello {
        let frame = self.frame().await.expect("a handshake");
        let request = ConnectRequest::from_frame(&frame).expect("a handshake");
        assert_eq!(request.protocol_version, 0);
        Hello {
            zxid: request.last_zxid_seen,
            timeout: request.timeout,
            id: request.session_id,
            password: request.password.0.to_vec(),
            read_only: request.read_only,
        }
    }

    pub(super) async fn connect_response(&mut self, timeout: i32, id: i64) {
        self.connect_response_of(timeout, id, Secret(PASSWORD.to_vec())).await;
    }

    pub(super) async fn connect_response_of(&mut self, timeout: i32, id: i64, password: Secret<Vec<u8>>) {
        let response =
            ConnectResponse { protocol_version: 0, timeout, session_id: id, password, read_only: Some(false) };
        let mut frame = BytesMut::new();
        encode_connect_response(&response, &mut frame).expect("a short frame");
        self.send(&frame).await;
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.expect("the client reads");
    }

    pub(super) async fn reply(&mut self, xid: i32, zxid: i64, err: ErrorCode, body: &impl Encode) {
        self.send(&reply(xid, zxid, err, body)).await;
    }

    /// Answers a request without a body.
    pub(super) async fn confirm(&mut self, asked: &Asked, zxid: i64) {
        self.reply(asked.xid, zxid, ErrorCode::Ok, &()).await;
    }

    pub(super) async fn event(&mut self, event: EventType, path: &str) {
        let mut frame = BytesMut::new();
        let event = WatcherEvent { event, state: KeeperState::SyncConnected, path: path.to_owned() };
        encode_event(-1, &event, &mut frame).expect("a short frame");
        self.send(&frame).await;
    }
}

pub(super) fn reply(xid: i32, zxid: i64, err: ErrorCode, body: &impl Encode) -> BytesMut {
    let mut frame = BytesMut::new();
    encode_reply(&ReplyHeader { xid, zxid, err }, body, &mut frame).expect("a short frame");
    frame
}

/// The first request of a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) zxid: i64,
    pub(super) timeout: i32,
    pub(super) id: i64,
    pub(super) password: Vec<u8>,
    pub(super) read_only: Option<bool>,
}

/// A call to the observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Connecting(clock::Instant),
    Connected(Duration),
    Answered(clock::Instant, Proof),
    Disconnected(Loss),
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    told: Mutex<Vec<Told>>,
    /// Whether what the client holds outlasts a lost connection.
    pub(super) outlasts_connections: AtomicBool,
}

impl Seen {
    /// Returns the calls since the previous `take`.
    pub(super) fn take(&self) -> Vec<Told> {
        std::mem::take(&mut *self.told.lock())
    }
}

impl Observer for Seen {
    fn outlasts_connections(&self) -> bool {
        self.outlasts_connections.load(Ordering::Relaxed)
    }

    fn connecting(&self, at: clock::Instant) {
        self.told.lock().push(Told::Connecting(at));
    }

    fn connected(&self, granted: Duration) {
        self.told.lock().push(Told::Connected(granted));
    }

    fn answered(&self, sent: clock::Instant, proof: Proof) {
        self.told.lock().push(Told::Answered(sent, proof));
    }

    fn disconnected(&self, loss: Loss) {
        self.told.lock().push(Told::Disconnected(loss));
    }
}

pub(super) async fn soon<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(PATIENCE, work).await.expect("it ends in time")
}

/// Returns the next event of the session, which must be a loss.
pub(super) async fn lost(opened: &mut Opened) -> Loss {
    match soon(opened.events.next()).await {
        Some(SessionEvent::Disconnected(loss)) => loss,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn next_event(opened: &mut Opened) -> Option<SessionEvent> {
    soon(opened.events.next()).await
}

/// Lets every task that can run do so, without moving the clock.
pub(super) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

pub(super) fn delete(session: &Arc<Session>, path: &str) -> BoxFuture<'static, Result<(), Error>> {
    session.delete(path, None)
}
