//! How a server receives requests: it answers some by itself, and passes the others on to the leader.

use std::sync::Arc;

use crate::protocol::ErrorCode;
use crate::testing::ensemble::connection::{Slot, Work};
use crate::testing::ensemble::link::Ask;
use crate::testing::ensemble::replica::Replica;
use crate::testing::ensemble::wire::{Call, Header, Incoming, Operation, Request};
use crate::testing::ensemble::world::World;
use crate::testing::ensemble::{ConnId, Millis};

/// The most requests that a client may send before the connect response.
const MOST_EARLY: usize = 100;

impl World {
    /// Handles the arrival of a request at the server of a connection.
    pub(crate) fn receive(&mut self, id: ConnId, incoming: Incoming) {
        let Some(Incoming { header, request }) = self.hold_up(id, incoming) else { return };
        if matches!(request, Request::Fin) {
            self.server_close(id);
            self.conns.remove(&id);
            return;
        }
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (replica, session, timeout) = (conn.replica, conn.session, conn.timeout);
        if !conn.admit() || !self.running {
            return;
        }
        let kind = request.kind();
        let is_read = self.options.dialect.reads(&header) && !matches!(request, Request::Garbage);
        if !is_read || kind.is_some_and(|kind| self.loss(id, kind, true).is_some()) {
            self.server_close(id);
            return;
        }
        let is_heard = !self.options.dialect.is_keeper() || self.replicas.len() == 1 || !request.is_look();
        if is_heard {
            self.hear(replica, session, timeout);
        }
        self.take_up(id, Incoming { header, request });
    }

    /// Handles a message that a server has read.
    pub(crate) fn take_up(&mut self, id: ConnId, Incoming { header, request }: Incoming) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let kind = request.kind();
        match request {
            Request::Connect { .. } => self.receive_connect(id, header, request),
            Request::Word(_) if self.options.four_letter_words => self.take_in_local(id, kind, header, request),
            // The request to connect is not answered yet.
            _ if conn.session == 0 && !conn.slots.is_empty() && conn.early.len() < MOST_EARLY => {
                conn.early.push(Incoming { header, request });
            }
            _ if conn.session == 0 => self.server_close(id),
            Request::Call(Call::Write(op)) => self.take_in(id, kind, header, Ask::Write(op)),
            Request::Call(Call::Multi(ops)) => self.take_in(id, kind, header, Ask::Multi(ops)),
            Request::Call(Call::Sync { .. }) => self.take_in(id, kind, header, Ask::Sync),
            Request::Call(Call::SetAcl { path, acls, version }) => {
                self.take_in(id, kind, header, Ask::SetAcl { path, acls, version });
            }
            Request::Auth { scheme, auth } => {
                let known = self.authenticate(id, &scheme, &auth.0);
                self.take_in_local(id, kind, header, known.map_or_else(Request::Refused, |()| Request::Ping));
            }
            Request::CloseSession => self.take_in(id, kind, header, Ask::Close),
            local => self.take_in_local(id, kind, header, local),
        }
    }

    /// Authenticates a connection as one more user, so that later requests have this user's permissions, too.
    fn authenticate(&mut self, id: ConnId, scheme: &str, auth: &[u8]) -> Result<(), ErrorCode> {
        let conn = self.conns.get_mut(&id).ok_or(ErrorCode::ConnectionLoss)?;
        Arc::make_mut(&mut conn.identity).add(scheme, auth)
    }

    fn hear(&mut self, replica: usize, session: i64, timeout: Millis) {
        if session == 0 {
            return;
        }
        if self.replicas.len() == 1 {
            self.touch(session, timeout);
        } else if let Some(replica) = self.replicas.get_mut(replica) {
            replica.touched.insert(session, timeout);
        }
    }

    /// Returns the timeout that a server grants to a client that requests this one.
    fn negotiate(&self, server: usize, wanted: Millis) -> Millis {
        let (least, most) = self.grants.get(server).map_or((0, Millis::MAX), |range| (*range.start(), *range.end()));
        wanted.min(most).max(least)
    }

    fn receive_connect(&mut self, id: ConnId, header: Header, request: Request) {
        let Request::Connect { session, password: known, timeout, last_zxid, read_only } = request else { return };
        let Some(conn) = self.conns.get(&id) else { return };
        let timeout = self.negotiate(conn.replica, timeout);
        let will_do = read_only && self.is_read_only(conn.replica);
        let serves = |replica: &Replica| replica.applied >= last_zxid && (replica.is_serving() || will_do);
        let behind = !self.replicas.get(conn.replica).is_some_and(serves);
        let is_keeper = self.options.dialect.is_keeper();
        if behind && is_keeper {
            self.take_in_local(id, None, header, Request::Refused(ErrorCode::ConnectionLoss));
        } else if behind {
            // The client has seen more than this server, or the server serves no one now; it must try another one.
            self.server_close(id);
        } else if session == 0 || is_keeper {
            self.take_in(id, None, header, Ask::Open { timeout });
        } else if known.0 != self.options.password(session) {
            self.take_in_local(id, None, header, Request::Refused(ErrorCode::SessionExpired));
        } else {
            // The session can have only one connection to the same server.
            self.close_connections(conn.replica, session, Some(id));
            self.take_in(id, None, header, Ask::Validate { session, timeout });
        }
    }

    fn take_in(&mut self, id: ConnId, kind: Option<Operation>, header: Header, ask: Ask) {
        let ticket = self.next_id();
        if let Some(conn) = self.conns.get_mut(&id) {
            // Requests that a cut connection still delivered are carried out, but no client gets the answer.
            if conn.open {
                conn.slots.push_back(Slot { ticket, kind, header, work: Work::Remote });
            }
        }
        self.forward(id, ticket, ask);
    }

    fn take_in_local(&mut self, id: ConnId, kind: Option<Operation>, header: Header, request: Request) {
        let ticket = self.next_id();
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| conn.open) else {
            return;
        };
        conn.slots.push_back(Slot { ticket, kind, header, work: Work::Local(request) });
        self.answer_all(id);
    }
}
