//! How a server answers: in the order of the requests, as far as the answers are there.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::backend::Error;
use crate::testing::ensemble::connection::{Slot, Work};
use crate::testing::ensemble::link::Validated;
use crate::testing::ensemble::tree::Node;
use crate::testing::ensemble::watching::{Lost, Watches};
use crate::testing::ensemble::wire::{Answer, Call, Message, Operation, Request};
use crate::testing::ensemble::world::World;
use crate::testing::ensemble::{ConnId, Zxid};
use crate::znode::{Acl, Permissions};

impl World {
    /// Whether a lever takes this request (not applied) or its answer (applied).
    pub(crate) fn is_lost(&mut self, id: ConnId, kind: Operation, applied: bool) -> bool {
        let Some(conn) = self.conns.get(&id) else { return false };
        let (group, session) = (conn.group, conn.session);
        self.faults.takes(group, session, kind, applied)
    }

    /// The leader's answer to a request is here.
    pub(crate) fn answered(&mut self, id: ConnId, ticket: u64, message: Message) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Some(slot) = conn.slots.iter_mut().find(|slot| slot.ticket == ticket) {
            slot.work = Work::Answered(message);
        }
        self.answer_all(id);
    }

    /// Answers in the order of the requests, as far as answers are there.
    pub(crate) fn answer_all(&mut self, id: ConnId) {
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
            if !self.options.persistent_watches {
                return Err(Error::Unimplemented);
            }
            // The node need be neither there nor readable: a client without permission to read it gets no event.
            replica.watches.add(path, kind.at_server(), id);
            return Ok(Answer::Done);
        }
        let found = replica.tree.get(path);
        if let Some(node) = found {
            let may = |wanted| self.leader.permit(path, &node.acls, wanted);
            if let Call::GetAcl { .. } = call {
                return told_acl(node, may);
            }
            // Also to ask whether it exists, since 3.9.
            may(Permissions::READ)?;
            if self.faults.fails(path, call.kind()) {
                return Err(Error::Other("the node cannot be read: a lever is set".to_owned()));
            }
        }
        let answer = match (call, found) {
            (Call::Exists { .. }, found) => Answer::Stat(found.map(Node::stat)),
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

    /// The leader's word on a session that came back is here.
    pub(crate) fn validated(&mut self, validated: Validated) {
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
}

/// A real server hides the hashes of digests from those who may not change the ACL.
fn told_acl(node: &Node, may: impl Fn(Permissions) -> Result<(), Error>) -> Result<Answer, Error> {
    let administers = may(Permissions::ADMIN).is_ok();
    if !administers {
        may(Permissions::READ)?;
    }
    let told = |acl: &Acl| match acl.id().split_once(':') {
        Some((user, _)) if acl.scheme() == "digest" && !administers => {
            Acl::new(acl.permissions(), "digest", format!("{user}:x"))
        }
        _ => acl.clone(),
    };
    Ok(Answer::Acl(node.acls.iter().map(told).collect(), node.stat()))
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
