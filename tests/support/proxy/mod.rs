//! A proxy in front of one server that injects faults. It knows enough of ZooKeeper's protocol to lose the
//! answer of one request, and to end a session behind its client's back.

mod connection;
mod kill;
mod script;
mod wire;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::container::free_port;
use super::runtime::{on_rig, rig};
use super::waiting::{eventually, within};

pub use script::{How, OneShot};
pub use wire::OpCode;

use script::Script;

const PATIENCE: Duration = Duration::from_secs(10);

/// How the proxy treats every connection, to those that are open and to new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Carries everything.
    Pass,
    /// Ends every connection with a RST, new ones as soon as they are accepted.
    Reset,
    /// Carries nothing in either direction and closes nothing; new connections are accepted. When the fault
    /// ends, held bytes are forwarded, unless the client has closed its end in the meantime.
    BlackHole,
    /// Carries requests, but no answers. When the fault ends, connections that lost an answer are closed.
    DropAnswers,
    /// Carries requests and keeps the answers back. When the fault ends, they are carried on.
    HoldAnswers,
    /// Carries everything, each way later by this much.
    Delay(Duration),
    /// Closes the listener and every connection: connecting is refused.
    Refuse,
}

/// A session that was opened or taken up through the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub id: i64,
    pub password: Vec<u8>,
    /// The timeout that the server granted.
    pub timeout_ms: i32,
}

/// A request that came through the proxy.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub at: Instant,
    pub op: OpCode,
}

/// A proxy before one server, at an address that stays the same; gone on drop.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: AbortHandle,
}

/// An order to close the connections that were open when it was given.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The number that the next connection had then.
    below: u64,
    how: How,
}

/// The open connections by number, and the number of the next one.
#[derive(Debug, Default)]
struct Open {
    numbers: BTreeSet<u64>,
    next: u64,
}

/// The state that the proxy and its connections share.
#[derive(Debug)]
struct Shared {
    /// The fault and how often it was set.
    fault: watch::Sender<(Fault, u64)>,
    /// The last setting that the listener has followed.
    followed: watch::Sender<u64>,
    cut: watch::Sender<Cut>,
    open: watch::Sender<Open>,
    upstream: Mutex<SocketAddr>,
    scripts: Mutex<Vec<Script>>,
    sessions: Mutex<Vec<Session>>,
    grants: Mutex<Vec<i32>>,
    requests: Mutex<Vec<Request>>,
}

/// Locks; a test that panicked elsewhere does not matter.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Counts a new connection.
    fn enter(&self) -> u64 {
        let mut number = 0;
        self.open.send_modify(|open| {
            number = open.next;
            open.next += 1;
            open.numbers.insert(number);
        });
        number
    }

    /// The connection is closed.
    fn leave(&self, number: u64) {
        self.open.send_modify(|open| {
            open.numbers.remove(&number);
        });
    }

    /// Notes the session in the first answer of a connection.
    fn saw_session(&self, answer: &[u8]) {
        if let Some(session) = wire::session(answer)
            && session.timeout_ms > 0
        {
            lock(&self.grants).push(session.timeout_ms);
            let mut sessions = lock(&self.sessions);
            sessions.retain(|known| known.id != session.id);
            sessions.push(session);
        }
    }

    /// The first one-shot fault that waits for such a request.
    fn take_script(&self, op: OpCode) -> Option<Script> {
        let mut scripts = lock(&self.scripts);
        let first = scripts.iter().position(|script| script.op == op)?;
        Some(scripts.remove(first))
    }
}

impl Proxy {
    /// Starts a proxy before the server at `upstream`.
    pub async fn start(upstream: SocketAddr) -> Proxy {
        let shared = Arc::new(Shared {
            fault: watch::Sender::new((Fault::Pass, 0)),
            followed: watch::Sender::new(0),
            cut: watch::Sender::new(Cut { below: 0, how: How::Fin }),
            open: watch::Sender::new(Open::default()),
            upstream: Mutex::new(upstream),
            scripts: Mutex::default(),
            sessions: Mutex::default(),
            grants: Mutex::default(),
            requests: Mutex::default(),
        });
        let (addr, listener) = on_rig(listen()).await;
        let acceptor = rig().spawn(accept(listener, addr, shared.clone())).abort_handle();
        Proxy { addr, shared, acceptor }
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address as a connect string.
    pub fn connect_string(&self) -> String {
        self.addr.to_string()
    }

    /// Changes what happens to connections; in effect when this returns.
    pub async fn set(&self, fault: Fault) {
        let mut number = 0;
        self.shared.fault.send_modify(|current| {
            number = current.1 + 1;
            *current = (fault, number);
        });
        eventually("the proxy follows a fault", PATIENCE, || async {
            *self.shared.followed.borrow() >= number
                && (self.connections() == 0 || !matches!(fault, Fault::Reset | Fault::Refuse))
        })
        .await;
    }

    /// Closes the open connections with a FIN; new ones are carried as before.
    pub async fn cut(&self) {
        self.close(How::Fin).await;
    }

    /// Closes the open connections with a RST; new ones are carried as before.
    pub async fn reset_once(&self) {
        self.close(How::Rst).await;
    }

    async fn close(&self, how: How) {
        let below = self.shared.open.borrow().next;
        self.shared.cut.send_replace(Cut { below, how });
        let mut open = self.shared.open.subscribe();
        let closed = open.wait_for(|open| open.numbers.range(..below).next().is_none());
        assert!(within("the proxy closes its connections", PATIENCE, closed).await.is_ok());
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.open.borrow().numbers.len()
    }

    /// How many connections were accepted so far.
    pub fn accepted(&self) -> u64 {
        self.shared.open.borrow().next
    }

    /// The timeouts in milliseconds that were granted so far, one for each connection that took up or opened a session.
    pub fn grants(&self) -> Vec<i32> {
        lock(&self.shared.grants).clone()
    }

    /// Sends new connections to another server.
    pub fn follow(&self, upstream: SocketAddr) {
        *lock(&self.shared.upstream) = upstream;
    }

    /// The next request of this kind reaches the server; its answer is swallowed, then the connection ends.
    pub fn lose_reply_of(&self, op: OpCode, how: How) -> OneShot {
        self.arm(op, how, true)
    }

    /// The next request of this kind does not reach the server; instead the connection ends.
    pub fn drop_request_of(&self, op: OpCode, how: How) -> OneShot {
        self.arm(op, how, false)
    }

    fn arm(&self, op: OpCode, how: How, forward: bool) -> OneShot {
        let (script, handle) = Script::new(op, how, forward);
        lock(&self.shared.scripts).push(script);
        handle
    }

    /// The sessions seen, the latest connected last.
    pub fn sessions(&self) -> Vec<Session> {
        lock(&self.shared.sessions).clone()
    }

    /// Ends the session that connected last for real: the server takes it for expired. Its client learns of
    /// it at its next connection.
    pub async fn kill_session(&self) {
        let last = self.sessions().pop().expect("a session was opened through the proxy");
        self.kill(last).await;
    }

    /// Ends the session with this id for real.
    pub async fn kill_session_id(&self, id: i64) {
        self.kill(self.session(id)).await;
    }

    /// Moves the session with this id to a connection of its own, to another server, and returns that connection. The
    /// client of the session keeps its own and is not told.
    pub async fn take_over(&self, id: i64, server: SocketAddr) -> TcpStream {
        on_rig(kill::take_over(server, self.session(id))).await
    }

    fn session(&self, id: i64) -> Session {
        let session = self.sessions().into_iter().find(|session| session.id == id);
        session.unwrap_or_else(|| panic!("session {id:#x} was not opened through the proxy"))
    }

    async fn kill(&self, session: Session) {
        let upstream = *lock(&self.shared.upstream);
        on_rig(kill::kill(upstream, session)).await;
    }

    /// The requests that came in, in order, pings and dropped ones included.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// How many requests of this kind came in.
    pub fn request_count(&self, op: OpCode) -> usize {
        lock(&self.shared.requests).iter().filter(|request| request.op == op).count()
    }

    /// Forgets the requests that came in so far.
    pub fn forget_requests(&self) {
        lock(&self.shared.requests).clear();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
        self.shared.cut.send_replace(Cut { below: u64::MAX, how: How::Fin });
    }
}

/// A listener on a port of its own, which is free to be bound again after `Fault::Refuse`.
async fn listen() -> (SocketAddr, TcpListener) {
    for _ in 0..100 {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        if let Ok(listener) = TcpListener::bind(addr).await {
            return (addr, listener);
        }
    }
    panic!("the proxy finds no port to listen on");
}

async fn accept(listener: TcpListener, addr: SocketAddr, shared: Arc<Shared>) {
    let mut fault = shared.fault.subscribe();
    let mut listener = Some(listener);
    loop {
        let (mode, number) = *fault.borrow_and_update();
        if mode == Fault::Refuse {
            listener = None;
        } else if listener.is_none() {
            match TcpListener::bind(addr).await {
                Ok(bound) => listener = Some(bound),
                Err(error) => {
                    eprintln!("the proxy cannot listen on {addr} again: {error}");
                    return;
                }
            }
        }
        shared.followed.send_replace(number);
        tokio::select! {
            changed = fault.changed() => if changed.is_err() { return },
            accepted = async {
                match &listener {
                    Some(listener) => listener.accept().await,
                    None => std::future::pending().await,
                }
            } => if let Ok((client, _)) = accepted {
                connection::serve(client, shared.clone());
            },
        }
    }
}
