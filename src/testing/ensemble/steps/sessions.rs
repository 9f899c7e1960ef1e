//! The sessions at the leader: how they are opened, resumed, kept alive and ended.

use crate::testing::ensemble::leader::ServerSession;
use crate::testing::ensemble::link::Validated;
use crate::testing::ensemble::log::RecordKind;
use crate::testing::ensemble::world::{Event, World};
use crate::testing::ensemble::{ConnId, Millis};

/// Session ids look like those of a real server: the number of the server is in the top byte.
pub(super) const FIRST_SESSION: i64 = 0x0100_0000_0000_0000;

impl World {
    /// Extends a session that was heard from on a connection with this timeout.
    pub(crate) fn touch(&mut self, session: i64, timeout: Millis) {
        if let Some(look) = self.leader.touch(session, timeout, self.now) {
            self.schedule(look, Event::Expiry(session));
        }
    }

    /// Restarts the time of every session, as a new leader does.
    pub(crate) fn start_timers(&mut self) {
        for (at, session) in self.leader.start_timers(self.now) {
            self.schedule(at, Event::Expiry(session));
        }
    }

    pub(crate) fn open_session(&mut self, conn: ConnId, timeout: Millis) -> i64 {
        self.opened += 1;
        let session = FIRST_SESSION + self.opened;
        let expires = self.now + timeout;
        let group = self.conns.get(&conn).map_or(0, |conn| conn.group);
        self.leader
            .sessions
            .insert(session, ServerSession { first_timeout: timeout, timeout, expires, look: expires, group, conn });
        self.schedule(expires, Event::Expiry(session));
        self.log.note(self.now, session, RecordKind::SessionOpened);
        session
    }

    /// Resumes a session on a connection that grants it this timeout. The server of the old connection is not notified.
    pub(crate) fn validate(&mut self, conn: ConnId, ticket: u64, session: i64, timeout: Millis) {
        self.touch(session, timeout);
        let known = self.leader.sessions.get_mut(&session);
        let timeout = known.as_ref().map(|_| timeout);
        if let Some(known) = known {
            known.timeout = timeout.unwrap_or(known.timeout);
            known.conn = conn;
        }
        let at = self.now + self.link();
        self.schedule(at, Event::Validated(Validated { conn, ticket, session, timeout }));
    }

    pub(crate) fn close_connections(&mut self, index: usize, session: i64, except: Option<ConnId>) {
        let of_session = self
            .conns
            .iter()
            .filter(|(id, conn)| conn.session == session && conn.replica == index && Some(**id) != except);
        let ids: Vec<ConnId> = of_session.map(|(id, _)| *id).collect();
        for id in ids {
            self.server_close(id);
        }
    }

    /// Ends a session at the leader, because it expired or an administrator ended it. Returns whether there was one.
    pub(crate) fn expire(&mut self, session: i64) -> bool {
        if !self.leader.sessions.contains_key(&session) {
            return false;
        }
        let zxid = self.leader.zxid + 1;
        let changes = self.leader.end_session(session, zxid);
        self.log.note(self.now, session, RecordKind::SessionExpired);
        let txn = self.txn(changes, Some(session));
        self.leader.propose(txn, None);
        self.commit_soon();
        true
    }

    pub(crate) fn expiry(&mut self, session: i64) {
        let (now, running) = (self.now, self.running);
        let Some(known) = self.leader.sessions.get_mut(&session).filter(|known| known.look <= now) else {
            return;
        };
        if !running {
            // The time of sessions restarts when the servers start.
        } else if known.expires > now {
            known.look = known.expires;
            let look = known.look;
            self.schedule(look, Event::Expiry(session));
        } else {
            self.expire(session);
        }
    }

    /// Handles the leader's ping, every half tick.
    pub(crate) fn report(&mut self, index: usize) {
        self.schedule(self.now + self.options.half_tick(), Event::Report(index));
        self.answer_ping(index);
    }

    /// Answers the leader's ping with the sessions that a replica has heard from since the last one.
    pub(crate) fn answer_ping(&mut self, index: usize) {
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
