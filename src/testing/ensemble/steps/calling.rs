//! The client's half of a session: its calls and pings, what it makes of the messages that arrive, and its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::backend::{Error, Loss, SessionEvent};
use crate::testing::ensemble::client::{Client, Holder, Pending, Replying, State, Unanswered};
use crate::testing::ensemble::log::Happening;
use crate::testing::ensemble::watchers::Watchers;
use crate::testing::ensemble::wire::{Call, Message, Operation, Request, ServerWatch};
use crate::testing::ensemble::world::{Event, World};
use crate::testing::ensemble::{ClientId, ConnId, Millis};

impl World {
    /// Begins to open a session.
    pub(crate) fn open(&mut self, group: u32, wanted: Millis, holder: Holder) -> ClientId {
        let id = self.next_id();
        if self.over {
            // Its end dropped, it fails.
            return id;
        }
        let next_server = self.random.usize(..self.replicas.len());
        let watchers = Watchers::new(Arc::clone(&self.drops), id);
        let client = Client::new(group, wanted, self.now, next_server, watchers, holder);
        self.clients.insert(id, client);
        self.schedule(self.now, Event::Attempt(id));
        id
    }

    /// Hands a request over; an error if the session is not connected.
    pub(crate) fn call(&mut self, id: ClientId, call: Call, reply: Replying) {
        let now = self.now;
        // After such a pause of the process the session cannot be alive: a write would have an unknown outcome.
        let connected =
            |client: &&mut Client| client.connected && !client.closing && now < client.last_send + client.timeout;
        let Some(client) = self.clients.get_mut(&id).filter(connected) else {
            reply.send(Err(Error::NotConnected)).ok();
            return;
        };
        if let Err(error) = client.holder.limit.check(call.size(), client.now()) {
            reply.send(Err(error)).ok();
            return;
        }
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
        client.unanswered.push_back(Unanswered { at: now, sent, length: request.size(), call });
        self.send_up(conn, request);
    }

    /// Leaves a silent server; pings one that need not say anything.
    pub(crate) fn tick(&mut self, id: ClientId, timer: u64) {
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

    pub(crate) fn broken(&mut self, conn: ConnId) {
        if let Some(id) = self.conns.get(&conn).map(|conn| conn.client) {
            match self.clients.get(&id) {
                Some(client) if client.conn == Some(conn) => {
                    client.ended_by_server();
                    self.lose(id, "connection reset");
                }
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
            client.fail_pending(if client.closing { &Error::SessionEnded } else { &Error::ConnectionLoss });
            client.holder.events.send(SessionEvent::Disconnected(loss)).ok();
            self.log.note(self.now, client.session, Happening::Disconnected);
        } else {
            self.blame(conn, why);
        }
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.unanswered.clear();
        client.deferred.clear();
        self.hang_up(conn);
        self.try_again(id);
    }

    /// A message from the server arrives.
    pub(crate) fn deliver(&mut self, conn: ConnId, message: Message) {
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
                for (path, watch) in std::mem::take(&mut client.deferred) {
                    self.remove_watch(id, path, watch);
                }
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
            Message::Closed => {
                client.ended_by_server();
                self.lose(id, "the server closed the connection");
            }
        }
    }

    /// The server has accepted the connection. The observer learns it first; watches are restored before any other
    /// request.
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
    pub(crate) fn close(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut client.closing, true) {
            return;
        }
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
    pub(crate) fn forgotten(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else { return };
        let at = client.last_recv + client.timeout;
        if at > self.now {
            self.schedule(at, Event::Forgotten(id));
        } else {
            self.end(id, State::Closed);
        }
    }

    /// Nothing happens any more: every session is over for its holder.
    pub(crate) fn abandon(&mut self) {
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
    pub(crate) fn unwatch(&mut self, id: ClientId, watch: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if !client.connected {
            client.unwanted.push(watch);
            return;
        }
        if let Some((path, watch)) = client.watchers.remove(watch) {
            self.remove_watch(id, path, watch);
        }
    }

    /// Asks the server to remove a watch that no holder needs; later, if a request that arms the same one is under way.
    fn remove_watch(&mut self, id: ClientId, path: Arc<str>, watch: ServerWatch) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        if client.closing || client.watchers.needs(&path, watch) {
            return;
        }
        if client.is_arming(&path, watch) {
            client.deferred.push((path, watch));
            return;
        }
        self.log.request(self.now, client.session, client.group, Operation::RemoveWatch, &path);
        self.write(id, Request::RemoveWatch { path, watch }, None);
    }
}
