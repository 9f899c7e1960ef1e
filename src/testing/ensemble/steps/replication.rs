//! The messages between the servers: requests to the leader, and what it has committed back to the servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::protocol::ErrorCode;
use crate::testing::ensemble::ConnId;
use crate::testing::ensemble::leader::{Origin, Proposal, Verdict};
use crate::testing::ensemble::link::{Ask, Forward, Step};
use crate::testing::ensemble::rules::Author;
use crate::testing::ensemble::steps::sessions::FIRST_SESSION;
use crate::testing::ensemble::tree::Applied;
use crate::testing::ensemble::txn::{Change, Txn};
use crate::testing::ensemble::wire::{Answer, Done, Message, Outcome};
use crate::testing::ensemble::world::{Event, World};
use crate::util::znode::Permissions;

impl World {
    pub(crate) fn forward(&mut self, id: ConnId, ticket: u64, ask: Ask) {
        let Some(conn) = self.conns.get(&id) else { return };
        let (index, session, identity) = (conn.replica, conn.session, Arc::clone(&conn.identity));
        let forward =
            Forward { incarnation: self.incarnation, replica: index, conn: id, session, identity, ticket, ask };
        let arrival = self.now + self.link();
        if self.is_read_only(index) {
            let outcome = self.only_read(index, &forward.ask);
            self.accept_alone(id, ticket, outcome);
            return;
        }
        let Some(replica) = self.replicas.get_mut(index) else {
            return;
        };
        if let Some(cut_off) = &mut replica.cut_off {
            match cut_off.deposed.as_ref().and_then(|known| alone(known, &forward.ask)) {
                Some(outcome) => self.accept_alone(id, ticket, outcome),
                None => cut_off.held.push(forward),
            }
            return;
        }
        replica.last_out = replica.last_out.max(arrival);
        let at = replica.last_out;
        self.schedule(at, Event::Forwarded(forward));
    }

    /// Answers a request without the leader.
    fn accept_alone(&mut self, id: ConnId, ticket: u64, outcome: Outcome) {
        if let (Outcome::Connected { session, timeout, .. }, Some(conn)) = (&outcome, self.conns.get_mut(&id)) {
            (conn.session, conn.timeout) = (*session, *timeout);
        }
        self.answered(id, ticket, outcome);
    }

    /// Returns whether a server only answers reads.
    pub(crate) fn is_read_only(&self, index: usize) -> bool {
        self.options.read_only_mode && self.replicas.get(index).is_some_and(|replica| !replica.is_serving())
    }

    /// Returns what a read-only server answers to a request that others pass on to the leader. Its sessions are local
    /// (`localSessionsEnabled`): it knows only those that it has opened itself.
    fn only_read(&mut self, index: usize, ask: &Ask) -> Outcome {
        let Some(replica) = self.replicas.get_mut(index) else { return Outcome::Expired };
        match *ask {
            Ask::Open { timeout } => {
                self.opened += 1;
                let session = FIRST_SESSION + self.opened;
                replica.local_sessions.insert(session);
                Outcome::Connected { session, timeout, read_only: true }
            }
            Ask::Validate { session, timeout } if replica.local_sessions.contains(&session) => {
                Outcome::Connected { session, timeout, read_only: true }
            }
            Ask::Validate { .. } => Outcome::Expired,
            Ask::Close => Outcome::Goodbye,
            _ => Outcome::Reply(Err(ErrorCode::NotReadOnly)),
        }
    }

    /// Handles the arrival of a request at the leader.
    pub(crate) fn lead(&mut self, forward: Forward) {
        if forward.incarnation != self.incarnation || !self.running {
            return;
        }
        let Forward { replica, conn, session, identity, ticket, ask, .. } = forward;
        let by = Author { session, identity: &identity };
        let origin = |verdict| Some(Origin { replica, conn, ticket, verdict });
        match ask {
            Ask::Validate { session, timeout } => {
                self.validate(conn, ticket, session, timeout);
                return;
            }
            Ask::Open { timeout } => {
                let session = self.open_session(conn, timeout);
                let txn = self.txn(Vec::new(), None);
                self.leader.propose(txn, origin(Verdict::Opened { session, timeout }));
            }
            // As on a real follower, even if the session has moved.
            Ask::Sync => self.leader.proposals.push_back(Proposal { txn: None, origin: origin(Verdict::Synced) }),
            // A real leader lets any connection close a session, even one that the session has left.
            Ask::Close if self.leader.sessions.contains_key(&session) => {
                let (txn, verdict) = self.decide(by, Ask::Close);
                self.leader.propose(txn, origin(verdict));
            }
            ask => match self.leader.admits(session, conn) {
                Ok(()) => {
                    let (txn, verdict) = self.decide(by, ask);
                    self.leader.propose(txn, origin(verdict));
                }
                Err(verdict) => self.leader.proposals.push_back(Proposal { txn: None, origin: origin(verdict) }),
            },
        }
        self.commit_soon();
    }

    /// Applies what has arrived from the leader at a replica.
    pub(crate) fn steps(&mut self, index: usize) {
        loop {
            let now = self.now;
            let Some(replica) = self.replicas.get_mut(index) else {
                return;
            };
            if replica.cut_off.is_some() || replica.inbox.front().is_none_or(|(at, _)| *at > now) {
                return;
            }
            let Some((_, step)) = replica.inbox.pop_front() else {
                return;
            };
            self.step(index, step);
        }
    }

    fn step(&mut self, index: usize, step: Step) {
        let mut applied = Vec::new();
        if let Some(txn) = &step.txn {
            let Some(replica) = self.replicas.get_mut(index) else {
                return;
            };
            applied = replica.tree.apply(txn);
            replica.applied = txn.zxid;
            self.fire(index, txn, &applied);
        }
        let by = step.origin.as_ref().map(|origin| origin.conn);
        if let Some(origin) = step.origin {
            self.conclude(origin, step.txn.as_deref(), &applied);
        }
        if let Some(session) = step.txn.and_then(|txn| txn.closes) {
            self.close_connections(index, session, by);
        }
    }

    /// Sends the events of a transaction. Since 3.9.2 a client that may not read a node gets no event, but its watch is
    /// used up.
    fn fire(&mut self, index: usize, txn: &Txn, applied: &[Applied]) {
        for (change, applied) in txn.changes.iter().zip(applied) {
            let Some(replica) = self.replicas.get_mut(index) else {
                return;
            };
            for (conn, path, event) in replica.watches.trigger(change) {
                let own = change.path() == Some(&path);
                let acls = if own { &applied.acls } else { &applied.parent_acls };
                let acls = acls.as_deref().unwrap_or_default();
                let Some(hears) = self.conns.get(&conn) else { continue };
                if self.leader.permit(&hears.identity, &path, acls, Permissions::READ).is_ok() {
                    self.send_down(conn, Message::Event { zxid: txn.zxid, path, event });
                }
            }
        }
    }

    fn conclude(&mut self, origin: Origin, txn: Option<&Txn>, applied: &[Applied]) {
        let changes = txn.map_or(&[][..], |txn| &txn.changes);
        let outcome = match origin.verdict {
            Verdict::Written => Outcome::Reply(Ok(written(changes, applied))),
            Verdict::WrittenMulti => Outcome::Reply(Ok(Answer::Committed(results(changes, applied)))),
            Verdict::Refused(code) => Outcome::Reply(Err(code)),
            Verdict::Moved => return self.server_close(origin.conn),
            Verdict::RefusedMulti { index, code } => Outcome::Reply(Ok(Answer::NotCommitted { index, code })),
            Verdict::Synced => Outcome::Reply(Ok(Answer::Done)),
            Verdict::Ended => Outcome::Goodbye,
            Verdict::Opened { session, timeout } => {
                if let Some(conn) = self.conns.get_mut(&origin.conn) {
                    conn.session = session;
                    conn.timeout = timeout;
                }
                Outcome::Connected { session, timeout, read_only: false }
            }
        };
        self.answered(origin.conn, origin.ticket, outcome);
    }
}

/// Returns what a deposed leader answers without the other servers: to a sync, and to a request to resume a session.
fn alone(known: &BTreeSet<i64>, ask: &Ask) -> Option<Outcome> {
    match *ask {
        Ask::Sync => Some(Outcome::Reply(Ok(Answer::Done))),
        Ask::Validate { session, timeout } if known.contains(&session) => {
            Some(Outcome::Connected { session, timeout, read_only: false })
        }
        Ask::Validate { .. } => Some(Outcome::Expired),
        _ => None,
    }
}

fn written(changes: &[Change], applied: &[Applied]) -> Answer {
    match (changes.first(), applied.first().and_then(|applied| applied.stat)) {
        (Some(Change::Create { path, .. }), Some(stat)) => Answer::Created(path.to_string(), stat),
        (Some(Change::SetData { .. } | Change::SetAcl { .. }), Some(stat)) => Answer::Changed(stat),
        _ => Answer::Done,
    }
}

fn results(changes: &[Change], applied: &[Applied]) -> Vec<Done> {
    let result = |(change, applied): (&Change, &Applied)| match (change, applied.stat) {
        (Change::Create { path, .. }, Some(stat)) => Done::Created(path.to_string(), stat),
        (Change::SetData { .. }, Some(stat)) => Done::Changed(stat),
        (Change::Delete { .. }, _) => Done::Deleted,
        _ => Done::Check,
    };
    changes.iter().zip(applied).map(result).collect()
}
