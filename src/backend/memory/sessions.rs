//! The sessions at the leader: how they begin, come back, are kept alive and end.

use super::leader::ServerSession;
use super::log::Happening;
use super::wire::Message;
use super::world::{Event, World};
use super::{ConnId, Millis};

/// Session ids look like those of a real server: its number and a time in front.
const FIRST_SESSION: i64 = 0x0100_0000_0000_0000;

/// The leader's word on a session that came back.
#[derive(Debug)]
pub(super) struct Validated {
    conn: ConnId,
    ticket: u64,
    session: i64,
    /// None if it is not known any more.
    timeout: Option<Millis>,
}

impl World {
    /// What a server grants to a client that asks for this timeout.
    pub(super) fn negotiate(&self, server: usize, wanted: Millis) -> Millis {
        let (least, most) = self.grants.get(server).map_or((0, Millis::MAX), |range| (*range.start(), *range.end()));
        wanted.min(most).max(least)
    }

    /// A sign of life, by a connection that was granted this timeout.
    pub(super) fn touch(&mut self, session: i64, timeout: Millis) {
        if let Some(look) = self.leader.touch(session, timeout, self.now) {
            self.schedule(look, Event::Expiry(session));
        }
    }

    /// A new leader counts the time of every session from now on.
    pub(super) fn start_timers(&mut self) {
        for (at, session) in self.leader.start_timers(self.now) {
            self.schedule(at, Event::Expiry(session));
        }
    }

    pub(super) fn open_session(&mut self, conn: ConnId, timeout: Millis) -> i64 {
        self.opened += 1;
        let session = FIRST_SESSION + self.opened;
        let expires = self.now + timeout;
        self.leader
            .sessions
            .insert(session, ServerSession { first_timeout: timeout, timeout, expires, look: expires, conn });
        self.schedule(expires, Event::Expiry(session));
        self.log.note(self.now, session, Happening::SessionOpened);
        session
    }

    /// A session comes back on a connection that grants it this timeout.
    pub(super) fn validate(&mut self, conn: ConnId, ticket: u64, session: i64, timeout: Millis) {
        self.touch(session, timeout);
        let known = self.leader.sessions.get_mut(&session);
        let timeout = known.as_ref().map(|_| timeout);
        let old = known.map(|known| {
            known.timeout = timeout.unwrap_or(known.timeout);
            std::mem::replace(&mut known.conn, conn)
        });
        if let Some(old) = old.filter(|old| *old != conn) {
            self.server_close(old);
        }
        let at = self.now + self.link();
        self.schedule(at, Event::Validated(Validated { conn, ticket, session, timeout }));
    }

    pub(super) fn validated(&mut self, validated: Validated) {
        let Validated { conn, ticket, session, timeout } = validated;
        match timeout {
            Some(timeout) => {
                if let Some(conn) = self.conns.get_mut(&conn) {
                    conn.session = session;
                    conn.timeout = timeout;
                }
                self.answered(conn, ticket, Message::Connected { session, timeout });
            }
            None => self.answered(conn, ticket, Message::Expired),
        }
    }

    pub(super) fn close_connections(&mut self, index: usize, session: i64, except: Option<ConnId>) {
        let of_session = self
            .conns
            .iter()
            .filter(|(id, conn)| conn.session == session && conn.replica == index && Some(**id) != except);
        let ids: Vec<ConnId> = of_session.map(|(id, _)| *id).collect();
        for id in ids {
            self.server_close(id);
        }
    }

    /// A session is ended by the leader: it expired, or somebody with power wanted it. Whether there was one.
    pub(super) fn expire(&mut self, session: i64) -> bool {
        if !self.leader.sessions.contains_key(&session) {
            return false;
        }
        let zxid = self.leader.zxid + 1;
        let changes = self.leader.end_session(session, zxid);
        self.log.note(self.now, session, Happening::SessionExpired);
        let txn = self.txn(changes, Some(session));
        self.leader.propose(txn, None);
        self.commit_soon();
        true
    }

    pub(super) fn expiry(&mut self, session: i64) {
        let (now, running) = (self.now, self.running);
        let Some(known) = self.leader.sessions.get_mut(&session).filter(|known| known.look <= now) else {
            return;
        };
        if !running {
            // Time for sessions starts again when the servers do.
        } else if known.expires > now {
            known.look = known.expires;
            let look = known.look;
            self.schedule(look, Event::Expiry(session));
        } else {
            self.expire(session);
        }
    }

    /// The leader's ping, every half tick.
    pub(super) fn report(&mut self, index: usize) {
        self.schedule(self.now + self.options.half_tick(), Event::Report(index));
        self.answer_ping(index);
    }

    /// A replica answers the leader's ping with the sessions that it has heard of since the last one.
    pub(super) fn answer_ping(&mut self, index: usize) {
        let Some(replica) = self.replicas.get_mut(index) else {
            return;
        };
        if !self.running || replica.cut_off.is_some() {
            return;
        }
        for (session, timeout) in std::mem::take(&mut replica.touched) {
            self.touch(session, timeout);
        }
    }
}
