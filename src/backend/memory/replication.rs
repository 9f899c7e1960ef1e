//! Between the servers: requests to the leader, its proposals back, and what the followers report of sessions.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::leader::{Origin, Proposal, Verdict};
use super::log::Happening;
use super::replica::Replica;
use super::tree::Applied;
use super::txn::{Change, Txn};
use super::wire::{Answer, Message};
use super::world::{Event, World};
use super::{ConnId, Millis};
use crate::backend::{Error, Multi, Op, OpResult};
use crate::types::Permissions;

/// What a server asks of the leader for a client.
#[derive(Debug)]
pub(super) enum Ask {
    Open { timeout: Millis },
    Validate { session: i64, timeout: Millis },
    Write(Op),
    Multi(Vec<Op>),
    Sync,
    Close,
}

/// A request on its way to the leader.
#[derive(Debug)]
pub(super) struct Forward {
    incarnation: u32,
    replica: usize,
    conn: ConnId,
    session: i64,
    ticket: u64,
    ask: Ask,
}

/// What a replica hears from the leader.
#[derive(Debug)]
pub(super) struct Step {
    txn: Option<Arc<Txn>>,
    origin: Option<Origin>,
}

impl World {
    pub(super) fn link(&mut self) -> Millis {
        if self.replicas.len() == 1 {
            return 0;
        }
        let link = self.options.link.clone();
        self.random.u64(link)
    }

    pub(super) fn forward(&mut self, id: ConnId, ticket: u64, ask: Ask) {
        let Some(conn) = self.conns.get(&id) else { return };
        let (index, session) = (conn.replica, conn.session);
        let forward = Forward { incarnation: self.incarnation, replica: index, conn: id, session, ticket, ask };
        let arrival = self.now + self.link();
        let Some(replica) = self.replicas.get_mut(index) else {
            return;
        };
        if let Some(cut_off) = &mut replica.cut_off {
            match cut_off.deposed.as_ref().and_then(|known| alone(known, &forward.ask)) {
                Some(message) => self.accept_alone(id, ticket, message),
                None => cut_off.held.push(forward),
            }
            return;
        }
        replica.last_out = replica.last_out.max(arrival);
        let at = replica.last_out;
        self.schedule(at, Event::Forwarded(forward));
    }

    /// A deposed leader answers.
    fn accept_alone(&mut self, id: ConnId, ticket: u64, message: Message) {
        if let (Message::Connected { session, timeout }, Some(conn)) = (&message, self.conns.get_mut(&id)) {
            (conn.session, conn.timeout) = (*session, *timeout);
        }
        self.answered(id, ticket, message);
    }

    /// The leader takes a request in.
    pub(super) fn lead(&mut self, forward: Forward) {
        if forward.incarnation != self.incarnation || !self.running {
            return;
        }
        let Forward { replica, conn, session, ticket, ask, .. } = forward;
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
            Ask::Sync => self.leader.proposals.push_back(Proposal { txn: None, origin: origin(Verdict::Synced) }),
            ask => match self.leader.admits(session, conn) {
                Err(error) => {
                    self.leader.proposals.push_back(Proposal { txn: None, origin: origin(Verdict::Refused(error)) })
                }
                Ok(()) => {
                    let (txn, verdict) = self.decide(session, ask);
                    self.leader.propose(txn, origin(verdict));
                }
            },
        }
        self.commit_soon();
    }

    pub(super) fn commit_soon(&mut self) {
        let range = self.options.commit.clone();
        let at = (self.now + self.random.u64(range)).max(self.last_commit);
        self.last_commit = at;
        self.schedule(at, Event::Commit(self.incarnation));
    }

    pub(super) fn txn(&mut self, changes: Vec<Change>, closes: Option<i64>) -> Txn {
        Txn { zxid: self.leader.next_zxid(), time: self.now, changes, closes }
    }

    fn decide(&mut self, session: i64, ask: Ask) -> (Txn, Verdict) {
        // A refused request takes a number as well.
        let zxid = self.leader.zxid + 1;
        let (changes, verdict) = match ask {
            Ask::Write(op) => match self.leader.prepare(&[op], session, zxid) {
                Ok(changes) => (changes, Verdict::Written),
                Err((_, error)) => (Vec::new(), Verdict::Refused(error)),
            },
            Ask::Multi(ops) => match self.leader.prepare(&ops, session, zxid) {
                Ok(changes) => (changes, Verdict::WrittenMulti),
                Err((index, error)) => (Vec::new(), Verdict::RefusedMulti { index, error }),
            },
            _ => {
                let changes = self.leader.end_session(session, zxid);
                self.log.note(self.now, session, Happening::SessionClosed);
                return (self.txn(changes, Some(session)), Verdict::Ended);
            }
        };
        (self.txn(changes, None), verdict)
    }

    /// The oldest proposal is committed; every replica will hear of it, each after its own lag.
    pub(super) fn commit(&mut self, incarnation: u32) {
        if incarnation != self.incarnation {
            return;
        }
        let Some(Proposal { txn, mut origin }) = self.leader.commit() else {
            return;
        };
        for index in 0..self.replicas.len() {
            let origin =
                if origin.as_ref().is_some_and(|origin| origin.replica == index) { origin.take() } else { None };
            if txn.is_none() && origin.is_none() {
                continue;
            }
            let mut arrival = self.now + self.link();
            if txn.is_some() {
                let lag = self.options.lag.clone();
                arrival += self.random.u64(lag);
            }
            self.tell(index, arrival, Step { txn: txn.clone(), origin });
        }
    }

    fn tell(&mut self, index: usize, arrival: Millis, step: Step) {
        let Some(replica) = self.replicas.get_mut(index) else {
            return;
        };
        let at = replica.last_in.max(arrival);
        replica.last_in = at;
        replica.inbox.push_back((at, step));
        self.schedule(at, Event::Step(index));
    }

    /// A replica takes in what has arrived from the leader.
    pub(super) fn steps(&mut self, index: usize) {
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

    /// Sends the events of a transaction. Who may not read a node does not hear of it, since 3.9.2; the watch is spent.
    fn fire(&mut self, index: usize, txn: &Txn, applied: &[Applied]) {
        for (change, applied) in txn.changes.iter().zip(applied) {
            let Some(replica) = self.replicas.get_mut(index) else {
                return;
            };
            for (conn, path, event) in replica.watches.trigger(change) {
                let own = change.path() == Some(&path);
                let acls = if own { &applied.acls } else { &applied.parent_acls };
                let acls = acls.as_deref().unwrap_or_default();
                if self.leader.permit(&path, acls, Permissions::READ).is_ok() {
                    self.send_down(conn, Message::Event { path, event });
                }
            }
        }
    }

    fn conclude(&mut self, origin: Origin, txn: Option<&Txn>, applied: &[Applied]) {
        let changes = txn.map_or(&[][..], |txn| &txn.changes);
        let message = match origin.verdict {
            Verdict::Written => reply(Ok(written(changes, applied))),
            Verdict::WrittenMulti => reply(Ok(Answer::Multi(Multi::Committed(results(changes, applied))))),
            Verdict::Refused(error) => reply(Err(error)),
            Verdict::RefusedMulti { index, error } => reply(Ok(Answer::Multi(Multi::Refused { index, error }))),
            Verdict::Synced => reply(Ok(Answer::Done)),
            Verdict::Ended => Message::Goodbye,
            Verdict::Opened { session, timeout } => {
                if let Some(conn) = self.conns.get_mut(&origin.conn) {
                    conn.session = session;
                    conn.timeout = timeout;
                }
                Message::Connected { session, timeout }
            }
        };
        self.answered(origin.conn, origin.ticket, message);
    }

    pub(super) fn reap(&mut self) {
        self.schedule(self.now + self.options.container_check(), Event::Reap);
        if !self.running {
            return;
        }
        for path in self.leader.tree.spent_containers() {
            let op = Op::Delete { path: path.to_string(), version: None };
            // The leader's own request: it needs no permission, but the node must still be empty.
            self.by_hand(op).ok();
        }
    }

    /// Carries a request of nobody's session out; the path as the server names it.
    pub(super) fn by_hand(&mut self, op: Op) -> Result<String, Error> {
        let zxid = self.leader.zxid + 1;
        self.leader.by_hand = true;
        let prepared = self.leader.prepare(&[op], 0, zxid);
        self.leader.by_hand = false;
        let changes = prepared.map_err(|(_, error)| error)?;
        let path = changes.first().and_then(Change::path).map(|path| path.to_string());
        self.propose_now(changes);
        Ok(path.unwrap_or_default())
    }

    /// Proposes, and commits it together with everything before it.
    pub(super) fn propose_now(&mut self, changes: Vec<Change>) {
        let txn = self.txn(changes, None);
        self.leader.propose(txn, None);
        while !self.leader.proposals.is_empty() {
            self.commit(self.incarnation);
        }
    }
}

/// What a deposed leader answers for which it needs no other server: a sync, and a session that it knows.
fn alone(known: &BTreeSet<i64>, ask: &Ask) -> Option<Message> {
    match *ask {
        Ask::Sync => Some(reply(Ok(Answer::Done))),
        Ask::Validate { session, timeout } if known.contains(&session) => Some(Message::Connected { session, timeout }),
        Ask::Validate { .. } => Some(Message::Expired),
        _ => None,
    }
}

fn reply(result: Result<Answer, Error>) -> Message {
    Message::Reply { zxid: 0, result }
}

fn written(changes: &[Change], applied: &[Applied]) -> Answer {
    match (changes.first(), applied.first().and_then(|applied| applied.stat)) {
        (Some(Change::Create { path, .. }), Some(stat)) => Answer::Created(path.to_string(), stat),
        (Some(Change::SetData { .. }), Some(stat)) => Answer::Changed(stat),
        _ => Answer::Done,
    }
}

fn results(changes: &[Change], applied: &[Applied]) -> Vec<OpResult> {
    let result = |(change, applied): (&Change, &Applied)| match (change, applied.stat) {
        (Change::Create { path, .. }, _) => OpResult::Create { path: path.to_string() },
        (Change::SetData { .. }, Some(stat)) => OpResult::SetData { stat },
        (Change::Delete { .. }, _) => OpResult::Delete,
        _ => OpResult::Check,
    };
    changes.iter().zip(applied).map(result).collect()
}

impl Replica {
    /// What it missed while it was cut off counts as arrived.
    pub(super) fn catch_up(&mut self, now: Millis) {
        for (at, _) in &mut self.inbox {
            *at = now;
        }
        self.last_in = self.last_in.min(now);
    }

    pub(super) fn take_held(&mut self) -> Vec<Forward> {
        self.cut_off.take().map(|cut_off| cut_off.held).unwrap_or_default()
    }
}
