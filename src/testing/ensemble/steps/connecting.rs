//! How a client looks for a server: one after another, with pauses, for as long as its session is wanted.

use crate::testing::ensemble::connection::Conn;
use crate::testing::ensemble::replica::Replica;
use crate::testing::ensemble::wire::Request;
use crate::testing::ensemble::world::{Event, World};
use crate::testing::ensemble::{ClientId, ConnId, Millis};

/// Attempts are never closer than this.
const CLOSEST: Millis = 50;
/// The pause after a first pass over all servers is at most this long; each further one may be twice as long.
const FIRST_PAUSE: Millis = 100;
const MOST_PAUSE: Millis = 1_000;
/// An attempt has at least so much time.
const LEAST_ATTEMPT: Millis = 1_000;
/// How often TCP sends the first packet of a connection again.
const AGAIN: Millis = 1_000;

impl World {
    /// Tries to connect to the next server.
    pub(crate) fn attempt(&mut self, id: ClientId) {
        let (now, servers) = (self.now, self.replicas.len());
        let Some(client) = self.clients.get_mut(&id).filter(|client| client.conn.is_none()) else {
            return;
        };
        let (group, server) = (client.group, client.attempts.next_server);
        let patience = (client.timeout / 3 / servers as u64).max(LEAST_ATTEMPT);
        if self.faults.is_black_hole(group) && self.random.u8(..4) > 0 {
            self.knock(id, patience);
            return;
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.attempts.unanswered_since = None;
            client.attempts.begun = Some(now);
            client.attempts.next_server = (server + 1) % servers;
        }
        let refused = !self.running || self.faults.refuses(group);
        if refused || !self.replicas.get(server).is_some_and(Replica::is_serving) {
            self.causes.entry(group).or_default().note(server, "connection refused");
            self.try_again(id);
            return;
        }
        let conn = self.next_id();
        self.conns.insert(conn, Conn::new(id, group, server));
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.conn = Some(conn);
        client.last_send = now;
        client.holder.observer.connecting(client.now());
        let connect = Request::Connect { session: client.session, timeout: client.wanted, last_zxid: client.last_zxid };
        self.send_up(conn, connect);
        self.look_at(id, now + patience);
    }

    /// Resumes a session on a connection whose answers are ignored, to a server to which its client is not connected,
    /// unless that was done before. Returns whether the session is there.
    #[cfg(test)]
    pub(crate) fn take_over(&mut self, session: i64) -> bool {
        let Some((id, client)) = self.clients.iter().find(|(_, client)| client.session == session) else {
            return false;
        };
        let (id, group, own, timeout) = (*id, client.group, client.conn, client.wanted);
        let other = self.conns.iter().find(|(conn, of)| of.client == id && Some(**conn) != own);
        if let Some((other, _)) = other {
            return self.leader.sessions.get(&session).is_some_and(|known| known.conn == *other);
        }
        let taken = own.and_then(|own| self.conns.get(&own)).map(|own| own.replica);
        let server = (0..self.replicas.len()).find(|server| Some(*server) != taken).expect("another server");
        let conn = self.next_id();
        self.conns.insert(conn, Conn::new(id, group, server));
        self.send_up(conn, Request::Connect { session, timeout, last_zxid: 0 });
        false
    }

    /// Nothing comes through, so there is no connection to write a request on: TCP tries again for a while. (By chance
    /// the connection stood just before, then the request is written and held.)
    fn knock(&mut self, id: ClientId, patience: Millis) {
        let (now, servers) = (self.now, self.replicas.len());
        let Some(client) = self.clients.get_mut(&id) else { return };
        let since = *client.attempts.unanswered_since.get_or_insert(now);
        if now < since + patience {
            let again = (now + AGAIN).min(since + patience);
            self.schedule(again, Event::Attempt(id));
            return;
        }
        let server = client.attempts.next_server;
        client.attempts.unanswered_since = None;
        client.attempts.begun = Some(now);
        client.attempts.next_server = (server + 1) % servers;
        let group = client.group;
        self.causes.entry(group).or_default().note(server, "no answer");
        self.try_again(id);
    }

    /// An attempt on this connection has failed.
    pub(crate) fn blame(&mut self, conn: ConnId, why: &'static str) {
        if let Some(conn) = self.conns.get(&conn) {
            self.causes.entry(conn.group).or_default().note(conn.replica, why);
        }
    }

    /// Schedules the next attempt: soon while there are servers not tried yet, then after a random part of a pause that
    /// grows up to a second.
    pub(crate) fn try_again(&mut self, id: ClientId) {
        let servers = u32::try_from(self.replicas.len()).unwrap_or(1);
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let passes = client.attempts.made / servers;
        let passed = passes > 0 && client.attempts.made.is_multiple_of(servers);
        client.attempts.made = client.attempts.made.saturating_add(1);
        let earliest = client.attempts.begun.map_or(self.now, |begun| begun + CLOSEST).max(self.now);
        let most = if passed { (FIRST_PAUSE << (passes - 1).min(10)).min(MOST_PAUSE) } else { 0 };
        let pause = self.random.u64(0..=most);
        self.schedule(earliest.max(self.now + pause), Event::Attempt(id));
    }

    /// Starts the timer of a connection, in place of the one before.
    pub(crate) fn look_at(&mut self, id: ClientId, at: Millis) {
        let timer = self.next_id();
        if let Some(client) = self.clients.get_mut(&id) {
            client.timer = timer;
            self.schedule(at, Event::Tick(id, timer));
        }
    }
}
