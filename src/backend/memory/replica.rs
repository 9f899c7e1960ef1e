//! One server: what it has applied, whom it serves, and how it answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::connection::{Slot, Work};
use super::replication::{Ask, Step};
use super::tree::Tree;
use super::watching::{Lost, Watches};
use super::wire::{Answer, Call, Message, Operation, Request};
use super::world::World;
use super::{ConnId, Millis, Zxid};
use crate::backend::Error;
use crate::types::Permissions;

/// A server that is cut off from the leader.
#[derive(Debug)]
pub(super) struct CutOff {
    /// It was the leader and takes itself for it still: the sessions that it knows.
    pub(super) deposed: Option<BTreeSet<i64>>,
    /// It has noticed: it serves nobody.
    pub(super) looking: bool,
    pub(super) held: Vec<super::replication::Forward>,
}

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) tree: Tree,
    pub(super) applied: Zxid,
    pub(super) watches: Watches,
    /// Sessions heard of since the last report to the leader, with the timeouts of their connections.
    pub(super) touched: BTreeMap<i64, Millis>,
    /// What the leader has said and was not applied yet, with its time.
    pub(super) inbox: VecDeque<(Millis, Step)>,
    pub(super) last_in: Millis,
    pub(super) last_out: Millis,
    pub(super) cut_off: Option<CutOff>,
    /// How often it was cut off.
    pub(super) cuts: u32,
}

impl Replica {
    pub(super) fn new() -> Self {
        Replica {
            tree: Tree::new(),
            applied: 0,
            watches: Watches::default(),
            touched: BTreeMap::new(),
            inbox: VecDeque::new(),
            last_in: 0,
            last_out: 0,
            cut_off: None,
            cuts: 0,
        }
    }

    pub(super) fn is_serving(&self) -> bool {
        self.cut_off.as_ref().is_none_or(|cut_off| !cut_off.looking)
    }
}

impl World {
    /// A request arrives at the server of a connection.
    pub(super) fn receive(&mut self, id: ConnId, request: Request) {
        let Some(request) = self.hold_up(id, request) else {
            return;
        };
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
        if request.is_too_large() || kind.is_some_and(|kind| self.is_lost(id, kind, false)) {
            self.server_close(id);
            return;
        }
        self.hear(replica, session, timeout);
        match request {
            Request::Connect { session, timeout, last_zxid } => self.receive_connect(id, session, timeout, last_zxid),
            Request::Call(Call::Write(op)) => self.take_in(id, kind, Ask::Write(op)),
            Request::Call(Call::Multi(ops)) => self.take_in(id, kind, Ask::Multi(ops)),
            Request::Call(Call::Sync { .. }) => self.take_in(id, kind, Ask::Sync),
            Request::CloseSession => self.take_in(id, kind, Ask::Close),
            local => self.take_in_local(id, kind, local),
        }
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

    fn receive_connect(&mut self, id: ConnId, session: i64, timeout: Millis, last_zxid: Zxid) {
        let Some(conn) = self.conns.get(&id) else { return };
        let timeout = self.negotiate(conn.replica, timeout);
        let behind =
            self.replicas.get(conn.replica).is_none_or(|replica| replica.applied < last_zxid || !replica.is_serving());
        if behind {
            // It has seen more than this server; it must try another one.
            self.server_close(id);
        } else if session == 0 {
            self.take_in(id, None, Ask::Open { timeout });
        } else {
            self.take_in(id, None, Ask::Validate { session, timeout });
        }
    }

    /// Whether a lever takes this request (not applied) or its answer (applied).
    pub(super) fn is_lost(&mut self, id: ConnId, kind: Operation, applied: bool) -> bool {
        let Some(conn) = self.conns.get(&id) else { return false };
        let (group, session) = (conn.group, conn.session);
        self.faults.takes(group, session, kind, applied)
    }

    fn take_in(&mut self, id: ConnId, kind: Option<Operation>, ask: Ask) {
        let ticket = self.next_id();
        if let Some(conn) = self.conns.get_mut(&id) {
            // What a cut connection still brought is carried out, but nobody hears the answer.
            if conn.open {
                let work = Work::Remote;
                conn.slots.push_back(Slot { ticket, kind, work });
            }
        }
        self.forward(id, ticket, ask);
    }

    fn take_in_local(&mut self, id: ConnId, kind: Option<Operation>, request: Request) {
        let ticket = self.next_id();
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| conn.open) else {
            return;
        };
        let work = Work::Local(request);
        conn.slots.push_back(Slot { ticket, kind, work });
        self.answer_all(id);
    }

    /// The leader's answer to a request is here.
    pub(super) fn answered(&mut self, id: ConnId, ticket: u64, message: Message) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Some(slot) = conn.slots.iter_mut().find(|slot| slot.ticket == ticket) {
            slot.work = Work::Answered(message);
        }
        self.answer_all(id);
    }

    /// Answers in the order of the requests, as far as answers are there.
    fn answer_all(&mut self, id: ConnId) {
        loop {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            if matches!(conn.slots.front(), None | Some(Slot { work: Work::Remote, .. })) {
                return;
            }
            let Some(slot) = conn.slots.pop_front() else { return };
            let message = match slot.work {
                Work::Remote => return,
                Work::Answered(message) => message,
                Work::Local(request) => self.serve(id, request),
            };
            let lost = slot.kind.is_some_and(|kind| self.is_lost(id, kind, true));
            let over = lost || matches!(message, Message::Goodbye | Message::Expired);
            if !lost {
                let message = self.stamped(id, message);
                self.send_down(id, message);
            }
            if over {
                self.server_close(id);
            }
        }
    }

    /// A reply carries the last transaction that its server has applied.
    fn stamped(&self, id: ConnId, message: Message) -> Message {
        let applied =
            self.conns.get(&id).and_then(|conn| self.replicas.get(conn.replica)).map_or(0, |replica| replica.applied);
        match message {
            Message::Reply { result, .. } => Message::Reply { zxid: applied, result },
            other => other,
        }
    }

    /// What this server can answer by itself.
    fn serve(&mut self, id: ConnId, request: Request) -> Message {
        match request {
            Request::Ping => Message::Pong,
            Request::Call(call) => Message::Reply { zxid: 0, result: self.read(id, &call) },
            Request::RemoveWatch { path, watch } => {
                if let Some(watches) = self.watches_of(id) {
                    watches.remove(&path, watch, id);
                }
                Message::Ack
            }
            Request::SetWatches { since, data, exists, children, persistent, recursive } => {
                let lost = data.iter().map(Lost::Data);
                let lost = lost.chain(exists.iter().map(Lost::Exists));
                let lost = lost.chain(children.iter().map(Lost::Children));
                let lost = lost.chain(persistent.iter().map(Lost::Persistent));
                let lost = lost.chain(recursive.iter().map(Lost::Recursive));
                self.restore_watches(id, since, lost);
                Message::Ack
            }
            Request::Connect { .. } | Request::CloseSession | Request::Fin => Message::Ack,
        }
    }

    fn watches_of(&mut self, id: ConnId) -> Option<&mut Watches> {
        let replica = self.conns.get(&id)?.replica;
        Some(&mut self.replicas.get_mut(replica)?.watches)
    }

    fn restore_watches<'a>(&mut self, id: ConnId, since: Zxid, lost: impl Iterator<Item = Lost<'a>>) {
        let Some(conn) = self.conns.get(&id) else { return };
        let Some(replica) = self.replicas.get_mut(conn.replica) else {
            return;
        };
        let mut fired = Vec::new();
        for watch in lost {
            fired.extend(replica.watches.restore(&replica.tree, &watch, id, since));
        }
        for (conn, path, event) in fired {
            self.send_down(conn, Message::Event { path, event });
        }
    }

    fn read(&mut self, id: ConnId, call: &Call) -> Result<Answer, Error> {
        let conn = self.conns.get(&id).ok_or(Error::ConnectionLoss)?;
        let replica = self.replicas.get_mut(conn.replica).ok_or(Error::ConnectionLoss)?;
        let path = call.path();
        if let (Call::AddWatch { .. }, Some((path, kind))) = (call, call.watches()) {
            // The node need be neither there nor readable: a client without permission to read it gets no event.
            replica.watches.add(path, kind.at_server(), id);
            return Ok(Answer::Done);
        }
        let found = replica.tree.get(path);
        if let Some(node) = found {
            // Also to ask whether it exists, since 3.9.
            self.leader.permit(path, &node.acls, Permissions::READ)?;
        }
        let answer = match (call, found) {
            (Call::Exists { .. }, found) => Answer::Stat(found.map(super::tree::Node::stat)),
            (_, None) => return Err(Error::NoNode),
            (Call::GetData { .. }, Some(node)) => Answer::Data(Arc::clone(&node.data), node.stat()),
            (Call::List { .. }, Some(node)) => Answer::Children(in_no_order(&node.children), node.stat()),
            (_, Some(_)) => Answer::Done,
        };
        if let Some((path, kind)) = call.watches() {
            replica.watches.add(path, kind.at_server(), id);
        }
        Ok(answer)
    }
}

/// A real server lists children in the order of a hash table: never sorted, but always the same.
fn in_no_order(names: &BTreeSet<Arc<str>>) -> Vec<String> {
    let hash = |name: &str| {
        name.bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    };
    let mut names: Vec<(u64, &Arc<str>)> = names.iter().map(|name| (hash(name), name)).collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name.to_string()).collect()
}
