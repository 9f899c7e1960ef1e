//! The client's half of a session: its connection, its timers, what waits for a reply. As the client crate does it.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::connection::Conn;
use super::log::Happening;
use super::watchers::{Armed, Kind, Watchers};
use super::wire::{Answer, Call, Message, Operation, Request};
use super::world::{Event, World};
use super::{ClientId, ConnId, Millis, Zxid};
use crate::backend::Error;
use crate::backend::zookeeper::watches::WatchPermit;

/// Pings go out after so much silence of our own at the latest.
const MOST_PING: Millis = 10_000;
/// Delays between two rounds of attempts to connect.
const FIRST_PAUSE: Millis = 50;
const MOST_PAUSE: Millis = 1_000;

/// How a session is, as its holder sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Disconnected,
    Connected,
    Expired,
    Closed,
}

/// The reply to a call, and the watch it left.
#[derive(Debug)]
pub(super) struct Replied {
    pub(super) answer: Answer,
    pub(super) armed: Option<Armed>,
}

pub(super) type Replying = oneshot::Sender<Result<Replied, Error>>;

/// A session as it is opened: its id and timeout.
pub(super) type Opening = oneshot::Sender<Result<(i64, Millis), Error>>;

/// A call without its reply.
#[derive(Debug)]
struct Pending {
    watch: Option<(Arc<str>, Kind, WatchPermit)>,
    reply: Replying,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) group: u32,
    /// 0 until it was opened.
    pub(super) session: i64,
    timeout: Millis,
    pub(super) conn: Option<ConnId>,
    pub(super) connected: bool,
    opening: Option<Opening>,
    closing: bool,
    last_zxid: Zxid,
    last_recv: Millis,
    last_send: Millis,
    pinging: bool,
    /// When it stops to try.
    deadline: Millis,
    attempts: u32,
    next_server: usize,
    pending: VecDeque<Pending>,
    pub(super) watchers: Watchers,
    /// Watches dropped without a connection: they are restored with the others, and taken away then.
    unwanted: Vec<u64>,
    state: watch::Sender<State>,
}

impl Client {
    fn tick(&self) -> Millis {
        (self.timeout / 20).max(1)
    }

    fn fail_pending(&mut self, error: &Error) {
        for pending in self.pending.drain(..) {
            pending.reply.send(Err(error.clone())).ok();
        }
    }
}

impl World {
    /// Begins to open a session.
    pub(super) fn open(&mut self, group: u32, timeout: Millis, opening: Opening) -> (ClientId, watch::Receiver<State>) {
        let id = self.next_id();
        let (state, states) = watch::channel(State::Disconnected);
        if self.over {
            // Both ends dropped, it fails.
            return (id, states);
        }
        let next_server = self.random.usize(..self.replicas.len());
        let client = Client {
            group,
            session: 0,
            timeout,
            conn: None,
            connected: false,
            opening: Some(opening),
            closing: false,
            last_zxid: 0,
            last_recv: self.now,
            last_send: self.now,
            pinging: false,
            deadline: self.now + timeout,
            attempts: 0,
            next_server,
            pending: VecDeque::new(),
            watchers: Watchers::new(Arc::clone(&self.drops), id),
            unwanted: Vec::new(),
            state,
        };
        self.clients.insert(id, client);
        self.schedule(self.now, Event::Attempt(id));
        (id, states)
    }

    /// Hands a request over; an error if the session is not connected.
    pub(super) fn call(&mut self, id: ClientId, call: Call, permit: Option<WatchPermit>, reply: Replying) {
        let now = self.now;
        let conn = match self.clients.get_mut(&id) {
            Some(client) if client.connected && !client.closing => client.conn,
            _ => None,
        };
        let (Some(conn), Some(client)) = (conn, self.clients.get_mut(&id)) else {
            reply.send(Err(Error::NotConnected)).ok();
            return;
        };
        self.log.request(now, client.session, client.group, call.kind(), call.path());
        let kind = if call.kind() == Operation::List { Kind::Children } else { Kind::Data };
        let watch = call.watches().zip(permit);
        let watch = watch.map(|(path, permit)| (Arc::from(path), kind, permit));
        client.pending.push_back(Pending { watch, reply });
        client.last_send = now;
        self.send_up(conn, Request::Call(call));
    }

    /// Tries to connect to the next server.
    pub(super) fn attempt(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.conn.is_some() {
            return;
        }
        if self.now >= client.deadline {
            self.give_up(id);
            return;
        }
        let replica = client.next_server;
        client.next_server = (replica + 1) % self.replicas.len();
        let (group, tick) = (client.group, client.tick());
        let open = self.running
            && !self.faults.refuses(group)
            && self.replicas.get(replica).is_some_and(super::replica::Replica::is_serving);
        if !open {
            self.try_again(id);
            return;
        }
        let conn = self.next_id();
        self.conns.insert(conn, Conn::new(id, group, replica));
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.conn = Some(conn);
        client.last_recv = self.now;
        client.last_send = self.now;
        client.pinging = false;
        let connect =
            Request::Connect { session: client.session, timeout: client.timeout, last_zxid: client.last_zxid };
        let watches = client.watchers.to_restore(client.last_zxid);
        self.send_up(conn, connect);
        if let Some(watches) = watches {
            self.send_up(conn, watches);
        }
        self.schedule(self.now + tick, Event::Tick(id, conn));
    }

    /// Schedules the next attempt: at once while there are servers not tried yet, then ever later, up to a second.
    fn try_again(&mut self, id: ClientId) {
        let jitter = self.random.u64(0..=FIRST_PAUSE);
        let servers = u32::try_from(self.replicas.len()).unwrap_or(1);
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let rounds = client.attempts / servers;
        client.attempts = client.attempts.saturating_add(1);
        let pause = match rounds {
            0 => 0,
            round => (FIRST_PAUSE << round.min(10)).min(MOST_PAUSE),
        };
        let at = (self.now + pause + jitter).min(client.deadline);
        self.schedule(at, Event::Attempt(id));
    }

    fn give_up(&mut self, id: ClientId) {
        self.end(id, State::Expired);
    }

    /// Leaves a silent server; pings one that need not say anything.
    pub(super) fn tick(&mut self, id: ClientId, conn: ConnId) {
        let now = self.now;
        let Some(client) = self.clients.get_mut(&id).filter(|client| client.conn == Some(conn)) else {
            return;
        };
        let tick = client.tick();
        if !client.connected && now >= client.deadline {
            self.give_up(id);
            return;
        }
        if now >= client.last_recv + 8 * tick {
            self.lose(id);
            return;
        }
        let ping = client.connected && !client.pinging && now >= client.last_send + MOST_PING.min(3 * tick);
        if ping {
            client.pinging = true;
            client.last_send = now;
            self.send_up(conn, Request::Ping);
        }
        self.schedule(now + tick, Event::Tick(id, conn));
    }

    pub(super) fn broken(&mut self, conn: ConnId) {
        if let Some(id) = self.conns.get(&conn).map(|conn| conn.client) {
            match self.clients.get(&id) {
                Some(client) if client.conn == Some(conn) => self.lose(id),
                _ => self.hang_up(conn),
            }
        }
    }

    /// The connection is gone: what waits fails, and the search for the next one begins.
    fn lose(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let Some(conn) = client.conn.take() else { return };
        if std::mem::take(&mut client.connected) {
            client.attempts = 0;
            client.deadline = client.last_recv + client.timeout * 7 / 5;
            client.state.send_replace(State::Disconnected);
            self.log.note(self.now, client.session, Happening::Disconnected);
        }
        client.fail_pending(&Error::ConnectionLoss);
        self.hang_up(conn);
        self.try_again(id);
    }

    /// A message from the server arrives.
    pub(super) fn deliver(&mut self, conn: ConnId, message: Message) {
        let Some(message) = self.hold_down(conn, message) else {
            return;
        };
        let Some(id) = self.conns.get(&conn).filter(|conn| !conn.deaf).map(|conn| conn.client) else {
            return;
        };
        let now = self.now;
        let Some(client) = self.clients.get_mut(&id).filter(|client| client.conn == Some(conn)) else {
            return;
        };
        client.last_recv = now;
        match message {
            Message::Connected { session, timeout } => self.connected(id, session, timeout),
            Message::Expired => self.end(id, State::Expired),
            Message::Reply { zxid, result } => {
                client.last_zxid = client.last_zxid.max(zxid);
                client.reply(result);
            }
            Message::Event { path, event } => {
                self.log.event(now, client.session, client.group, event, &path);
                client.watchers.fire(&path, event);
            }
            Message::Pong => client.pinging = false,
            Message::Ack => {}
            Message::Goodbye => self.end(id, State::Closed),
            Message::Closed => self.lose(id),
        }
    }

    fn connected(&mut self, id: ClientId, session: i64, timeout: Millis) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.session = session;
        client.timeout = timeout;
        client.connected = true;
        client.attempts = 0;
        client.state.send_replace(State::Connected);
        self.log.note(self.now, session, Happening::Connected);
        let unwanted = match client.opening.take() {
            Some(opening) => opening.send(Ok((session, timeout))).is_err(),
            None => client.closing,
        };
        if unwanted {
            client.closing = false;
            self.close(id);
            return;
        }
        for watch in std::mem::take(&mut client.unwanted) {
            self.unwatch(id, watch);
        }
    }

    /// Ends a session at its holder's wish.
    pub(super) fn close(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut client.closing, true) {
            return;
        }
        client.fail_pending(&Error::SessionEnded);
        if client.opening.is_some() {
            self.end(id, State::Closed);
            return;
        }
        if let Some(conn) = client.conn.filter(|_| client.connected) {
            self.log.request(self.now, client.session, client.group, Operation::Close, "");
            client.last_send = self.now;
            self.send_up(conn, Request::CloseSession);
        }
    }

    /// Nothing happens any more: every session is over for its holder.
    pub(super) fn abandon(&mut self) {
        for id in self.clients.keys().copied().collect::<Vec<_>>() {
            self.end(id, State::Closed);
        }
        self.over = true;
    }

    /// There is nothing more to come of a session.
    fn end(&mut self, id: ClientId, state: State) {
        let Some(mut client) = self.clients.remove(&id) else {
            return;
        };
        if let Some(opening) = client.opening.take() {
            opening.send(Err(Error::ConnectionLoss)).ok();
        } else {
            let what = if state == State::Closed { Happening::Closed } else { Happening::Expired };
            self.log.note(self.now, client.session, what);
        }
        client.state.send_replace(state);
        client.fail_pending(&Error::SessionEnded);
        client.watchers.end();
        if let Some(conn) = client.conn {
            self.hang_up(conn);
        }
    }

    /// The holder of a watch has dropped it: the server is told, unless another watch still needs its event.
    pub(super) fn unwatch(&mut self, id: ClientId, watch: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if !client.connected {
            client.unwanted.push(watch);
            return;
        }
        let Some((path, children)) = client.watchers.remove(watch) else {
            return;
        };
        let coming = client.pending.iter().any(|pending| {
            let same =
                |(at, kind, _): &(Arc<str>, Kind, WatchPermit)| *at == path && (*kind == Kind::Children) == children;
            pending.watch.as_ref().is_some_and(same)
        });
        if coming || client.closing {
            return;
        }
        if let Some(conn) = client.conn {
            self.log.request(self.now, client.session, client.group, Operation::RemoveWatch, &path);
            client.last_send = self.now;
            self.send_up(conn, Request::RemoveWatch { path, children });
        }
    }
}

impl Client {
    fn reply(&mut self, result: Result<Answer, Error>) {
        // None: the session is being closed, and whoever waited has been told.
        let Some(Pending { watch, reply }) = self.pending.pop_front() else {
            return;
        };
        let replied = result.map(|answer| {
            let armed = watch.map(|(path, kind, permit)| {
                let missing = matches!(answer, Answer::Stat(None));
                let kind = if missing { Kind::Exists } else { kind };
                self.watchers.add(path, kind, permit)
            });
            Replied { answer, armed }
        });
        reply.send(replied).ok();
    }
}
