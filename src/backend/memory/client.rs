//! The client's half of a session: what waits for a reply, its watches, and what it tells its holder.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{mpsc, oneshot, watch};

use super::log::Happening;
use super::watchers::{Armed, Kind, Watchers};
use super::wire::{Answer, Call, Message, Operation, Request};
use super::world::{Event, World};
use super::{ClientId, ConnId, Millis, Zxid};
use crate::backend::{Error, Loss, Observer, Proof, SessionEvent};
use crate::clock::{Clock, Instant};

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

/// A call without its reply.
#[derive(Debug)]
struct Pending {
    watch: Option<(Arc<str>, Kind)>,
    proof: Proof,
    reply: Replying,
}

/// A request that was written and is not answered yet. Answers come in the order of the requests.
#[derive(Debug)]
struct Unanswered {
    at: Millis,
    /// As `at`, by the holder's clock.
    sent: Instant,
    /// None if the holder of the session does not wait for it: a ping, a watch removed or restored.
    call: Option<Pending>,
}

/// What the holder of a session has of it.
#[derive(Debug)]
pub(super) struct Holder {
    /// Told when it is open, with its id.
    pub(super) opening: Option<oneshot::Sender<i64>>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) clock: Clock,
    pub(super) events: mpsc::UnboundedSender<SessionEvent>,
    pub(super) state: watch::Sender<State>,
    /// The timeout that was granted last, or is wanted.
    pub(super) timeout: Arc<AtomicU64>,
}

pub(super) struct Client {
    pub(super) group: u32,
    /// 0 until it was opened.
    pub(super) session: i64,
    /// Every connection asks for it again.
    pub(super) wanted: Millis,
    /// What the latest connection was granted.
    pub(super) timeout: Millis,
    pub(super) conn: Option<ConnId>,
    pub(super) connected: bool,
    pub(super) closing: bool,
    pub(super) last_zxid: Zxid,
    pub(super) last_recv: Millis,
    pub(super) last_send: Millis,
    /// As `last_recv`, by the holder's clock.
    last_contact: Instant,
    pinging: bool,
    /// Which timer counts.
    timer: u64,
    pub(super) attempts: Attempts,
    unanswered: VecDeque<Unanswered>,
    pub(super) watchers: Watchers,
    /// Watches dropped without a connection: they are restored with the others, and taken away then.
    unwanted: Vec<u64>,
    pub(super) holder: Holder,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("group", &self.group).field("session", &self.session).finish_non_exhaustive()
    }
}

/// The search for a server.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// Since the last connection.
    pub(super) made: u32,
    pub(super) next_server: usize,
    /// When the latest one began.
    pub(super) begun: Option<Millis>,
    /// Since when a server has not answered the first packet of a connection.
    pub(super) unanswered_since: Option<Millis>,
}

impl Client {
    pub(super) fn now(&self) -> Instant {
        self.holder.clock.now()
    }

    fn fail_pending(&mut self, error: &Error) {
        for pending in self.unanswered.iter_mut().filter_map(|unanswered| unanswered.call.take()) {
            pending.reply.send(Err(error.clone())).ok();
        }
    }

    /// Takes an answer in. What it proves is told before its waiter learns of it.
    fn answered(&mut self, result: Option<Result<Answer, Error>>) {
        let Some(Unanswered { sent, call, .. }) = self.unanswered.pop_front() else {
            return;
        };
        let proof = call.as_ref().map_or(Proof::Contact, |pending| pending.proof);
        let counts = !matches!(&result, Some(Err(error)) if !error.is_verdict());
        if counts && !self.closing {
            self.holder.observer.answered(sent, proof);
        }
        let (Some(Pending { watch, reply, .. }), Some(result)) = (call, result) else {
            return;
        };
        let replied = result.map(|answer| {
            let armed = watch.map(|(path, kind)| {
                let missing = matches!(answer, Answer::Stat(None));
                let kind = if missing { Kind::Exists } else { kind };
                self.watchers.add(path, kind)
            });
            Replied { answer, armed }
        });
        reply.send(replied).ok();
    }

    /// Whether a watch like this is on its way.
    fn is_arming(&self, path: &str, watch: super::wire::ServerWatch) -> bool {
        let watches = self.unanswered.iter().filter_map(|unanswered| unanswered.call.as_ref()?.watch.as_ref());
        watches.into_iter().any(|(at, kind)| **at == *path && kind.at_server() == watch)
    }

    /// When it must look again whether its server is silent, or it must say something itself.
    fn next_look(&self, now: Millis) -> Millis {
        let ping = if self.pinging { now + self.most_idle() } else { self.last_send + self.most_idle() };
        self.silent_at().map_or(ping, |silent| ping.min(silent))
    }

    /// When a server that owes an answer has been silent for too long.
    fn silent_at(&self) -> Option<Millis> {
        let oldest = self.unanswered.front()?;
        Some(oldest.at.max(self.last_recv) + self.most_silence())
    }
}

impl World {
    /// Begins to open a session.
    pub(super) fn open(&mut self, group: u32, wanted: Millis, holder: Holder) -> ClientId {
        let id = self.next_id();
        if self.over {
            // Its end dropped, it fails.
            return id;
        }
        let attempts = Attempts { next_server: self.random.usize(..self.replicas.len()), ..Attempts::default() };
        let client = Client {
            group,
            session: 0,
            wanted,
            timeout: wanted,
            conn: None,
            connected: false,
            closing: false,
            last_zxid: 0,
            last_recv: self.now,
            last_send: self.now,
            last_contact: holder.clock.now(),
            pinging: false,
            timer: 0,
            attempts,
            unanswered: VecDeque::new(),
            watchers: Watchers::new(Arc::clone(&self.drops), id),
            unwanted: Vec::new(),
            holder,
        };
        self.clients.insert(id, client);
        self.schedule(self.now, Event::Attempt(id));
        id
    }

    /// Hands a request over; an error if the session is not connected.
    pub(super) fn call(&mut self, id: ClientId, call: Call, reply: Replying) {
        let now = self.now;
        // After such a pause of the process the session cannot be alive: a write would have an unknown outcome.
        let connected =
            |client: &&mut Client| client.connected && !client.closing && now < client.last_send + client.timeout;
        let Some(client) = self.clients.get_mut(&id).filter(connected) else {
            reply.send(Err(Error::NotConnected)).ok();
            return;
        };
        self.log.request(now, client.session, client.group, call.kind(), call.path());
        let watch = call.watches().map(|(path, kind)| (Arc::from(path), kind));
        let pending = Pending { watch, proof: call.proof(), reply };
        self.write(id, Request::Call(call), Some(pending));
    }

    /// Sends a request that will be answered.
    fn write(&mut self, id: ClientId, request: Request, call: Option<Pending>) {
        let now = self.now;
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(conn) = client.conn else { return };
        client.last_send = now;
        let sent = client.now();
        client.unanswered.push_back(Unanswered { at: now, sent, call });
        self.send_up(conn, request);
    }

    /// Starts the timer of a connection, in place of the one before.
    pub(super) fn look_at(&mut self, id: ClientId, at: Millis) {
        let timer = self.next_id();
        if let Some(client) = self.clients.get_mut(&id) {
            client.timer = timer;
            self.schedule(at, Event::Tick(id, timer));
        }
    }

    /// Leaves a silent server; pings one that need not say anything.
    pub(super) fn tick(&mut self, id: ClientId, timer: u64) {
        let now = self.now;
        let Some(client) = self.clients.get_mut(&id).filter(|client| client.timer == timer) else {
            return;
        };
        if client.conn.is_none() {
            return;
        }
        if !client.connected || client.silent_at().is_some_and(|silent| now >= silent) {
            self.lose(id, "no answer");
            return;
        }
        let ping = !client.pinging && now >= client.last_send + client.most_idle();
        if ping {
            client.pinging = true;
            self.write(id, Request::Ping, None);
        }
        if let Some(client) = self.clients.get(&id) {
            let next = client.next_look(now);
            self.look_at(id, next);
        }
    }

    pub(super) fn broken(&mut self, conn: ConnId) {
        if let Some(id) = self.conns.get(&conn).map(|conn| conn.client) {
            match self.clients.get(&id) {
                Some(client) if client.conn == Some(conn) => self.lose(id, "connection reset"),
                _ => self.hang_up(conn),
            }
        }
    }

    /// The connection is gone: what waits fails, and the search for the next one begins.
    fn lose(&mut self, id: ClientId, why: &'static str) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let Some(conn) = client.conn.take() else { return };
        if std::mem::take(&mut client.connected) {
            let loss = Loss { at: client.now(), last_contact: client.last_contact };
            if !client.closing {
                client.holder.observer.disconnected(loss);
            }
            client.holder.state.send_replace(State::Disconnected);
            client.fail_pending(&Error::ConnectionLoss);
            client.holder.events.send(SessionEvent::Disconnected(loss)).ok();
            self.log.note(self.now, client.session, Happening::Disconnected);
        } else {
            self.blame(conn, why);
        }
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.unanswered.clear();
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
        if client.connected || matches!(message, Message::Connected { .. }) {
            // A server that turns a connection away has not heard of the session.
            client.last_recv = now;
            client.last_contact = client.now();
        }
        match message {
            Message::Connected { session, timeout } => self.connected(id, session, timeout),
            Message::Expired => self.end(id, State::Expired),
            Message::Reply { zxid, result } => {
                client.last_zxid = client.last_zxid.max(zxid);
                client.answered(Some(result));
            }
            Message::Event { path, event } => {
                self.log.event(now, client.session, client.group, event, &path);
                client.watchers.fire(&path, event);
            }
            Message::Pong => {
                client.pinging = false;
                client.answered(None);
            }
            Message::Ack => client.answered(None),
            Message::Goodbye => self.end(id, State::Closed),
            Message::Closed => self.lose(id, "the server closed the connection"),
        }
    }

    /// The server has accepted the connection. The observer is the first to learn it; watches are restored before anything
    /// else is asked for.
    fn connected(&mut self, id: ClientId, session: i64, timeout: Millis) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.session = session;
        client.timeout = timeout;
        client.connected = true;
        client.pinging = false;
        client.attempts.made = 0;
        client.holder.timeout.store(timeout, Ordering::Release);
        if !client.closing {
            client.holder.observer.connected(std::time::Duration::from_millis(timeout));
        }
        let (group, restored) = (client.group, client.watchers.to_restore(client.last_zxid));
        client.watchers.resync();
        self.log.note(self.now, session, Happening::Connected);
        self.causes.remove(&group);
        if let Some(watches) = restored {
            self.write(id, watches, None);
        }
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.holder.state.send_replace(State::Connected);
        let unwanted = match client.holder.opening.take() {
            Some(opening) => opening.send(session).is_err(),
            None => {
                client.holder.events.send(SessionEvent::Connected).ok();
                client.closing
            }
        };
        let next = client.next_look(self.now);
        let dropped = std::mem::take(&mut client.unwanted);
        self.look_at(id, next);
        if unwanted {
            self.say_goodbye(id);
            return;
        }
        for watch in dropped {
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
        if client.holder.opening.is_some() {
            self.end(id, State::Closed);
            return;
        }
        let (connected, forgotten) = (client.connected, client.last_recv + client.timeout);
        self.schedule(forgotten, Event::Forgotten(id));
        if connected {
            self.say_goodbye(id);
        }
    }

    fn say_goodbye(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.closing = true;
        self.log.request(self.now, client.session, client.group, Operation::Close, "");
        self.write(id, Request::CloseSession, None);
    }

    /// The servers must have expired a session that is closed and could not tell them.
    pub(super) fn forgotten(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else { return };
        let at = client.last_recv + client.timeout;
        if at > self.now {
            self.schedule(at, Event::Forgotten(id));
        } else {
            self.end(id, State::Closed);
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
        if client.holder.opening.take().is_none() {
            let (what, event) = match state {
                State::Closed => (Happening::Closed, SessionEvent::Closed),
                _ => (Happening::Expired, SessionEvent::Expired),
            };
            self.log.note(self.now, client.session, what);
            client.holder.events.send(event).ok();
        }
        client.holder.state.send_replace(state);
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
        let Some((path, watch)) = client.watchers.remove(watch) else {
            return;
        };
        if client.closing || client.is_arming(&path, watch) {
            return;
        }
        self.log.request(self.now, client.session, client.group, Operation::RemoveWatch, &path);
        self.write(id, Request::RemoveWatch { path, watch }, None);
    }
}
