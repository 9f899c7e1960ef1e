//! How a server answers: in the order of the requests, as far as the answers are ready.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::network::MOST_UNREAD;
use crate::protocol::ErrorCode;
use crate::testing::ensemble::connection::{Slot, Work};
use crate::testing::ensemble::identity::Identity;
use crate::testing::ensemble::link::Validated;
use crate::testing::ensemble::tree::Node;
use crate::testing::ensemble::watching::Lost;
use crate::testing::ensemble::wire::{
    Answer, Call, Content, Loss, Message, Operation, Outcome, Part, Read, Request, ServerWatch, length_of_part,
};
use crate::testing::ensemble::world::World;
use crate::testing::ensemble::{ConnId, Zxid};
use crate::util::znode::{Acl, Permissions};

impl World {
    /// Returns how a lever loses this request if it `arrives`, or else its reply; `None` if it is not lost.
    pub(crate) fn loss(&mut self, id: ConnId, kind: Operation, arrives: bool) -> Option<Loss> {
        let conn = self.conns.get(&id)?;
        let (group, session) = (conn.group, conn.session);
        self.faults.take(group, session, kind, arrives)
    }

    /// Handles the arrival of the leader's answer to a request.
    pub(crate) fn answered(&mut self, id: ConnId, ticket: u64, outcome: Outcome) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Some(slot) = conn.slots.iter_mut().find(|slot| slot.ticket == ticket) {
            slot.work = Work::Answered(outcome);
        }
        self.answer_all(id);
        let Some(conn) = self.conns.get_mut(&id).filter(|conn| conn.session != 0) else { return };
        for incoming in std::mem::take(&mut conn.early) {
            self.take_up(id, incoming);
        }
    }

    /// Sends the answers in the order of the requests, as far as they are ready.
    pub(crate) fn answer_all(&mut self, id: ConnId) {
        loop {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            if matches!(conn.slots.front(), None | Some(Slot { work: Work::Remote, .. })) {
                return;
            }
            let Some(Slot { kind, header, work, .. }) = conn.slots.pop_front() else { return };
            let outcome = match work {
                Work::Remote => return,
                Work::Answered(outcome) => outcome,
                Work::Local(request) => self.serve(id, request),
            };
            let loss = kind.and_then(|kind| self.loss(id, kind, false));
            let is_last = outcome.is_last() || matches!(loss, Some(Loss::Applied | Loss::Truncated));
            if loss != Some(Loss::Applied) {
                let zxid = self.applied_at(id);
                self.send_down(id, Message::Answer { header, zxid, outcome, loss });
            }
            if is_last {
                self.server_close(id);
            }
        }
    }

    /// Returns the last transaction that the server of a connection has applied.
    pub(crate) fn applied_at(&self, id: ConnId) -> Zxid {
        self.conns.get(&id).and_then(|conn| self.replicas.get(conn.replica)).map_or(0, |replica| replica.applied)
    }

    /// Answers what this server can answer by itself.
    fn serve(&mut self, id: ConnId, request: Request) -> Outcome {
        let answer = match request {
            Request::Word(word) => return Outcome::Text(self.word(id, word)),
            Request::Unknown => return Outcome::Unknown,
            // These two answer a request to connect.
            Request::Refused(ErrorCode::SessionExpired) => return Outcome::Expired,
            Request::Refused(ErrorCode::ConnectionLoss) => return Outcome::NoLeader,
            Request::Refused(code) => Err(code),
            Request::Call(call) => self.look(id, &call),
            Request::SetWatches { since, data, exists, children, persistent, recursive } => {
                let lost = data.iter().map(Lost::Data);
                let lost = lost.chain(exists.iter().map(Lost::Exists));
                let lost = lost.chain(children.iter().map(Lost::Children));
                let lost = lost.chain(persistent.iter().map(Lost::Persistent));
                let lost = lost.chain(recursive.iter().map(Lost::Recursive));
                self.restore_watches(id, since, lost);
                Ok(Answer::Done)
            }
            Request::Ping
            | Request::Auth { .. }
            | Request::Connect { .. }
            | Request::CloseSession
            | Request::Garbage
            | Request::Fin => Ok(Answer::Done),
        };
        Outcome::Reply(answer)
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
        let zxid = self.applied_at(id);
        for (conn, path, event) in fired {
            self.send_down(conn, Message::Event { zxid, path, event });
        }
    }

    /// Carries out reads, and requests that arm or remove watches.
    fn look(&mut self, id: ConnId, call: &Call) -> Result<Answer, ErrorCode> {
        let conn = self.conns.get(&id).ok_or(ErrorCode::ConnectionLoss)?;
        let (index, who) = (conn.replica, &*Arc::clone(&conn.identity));
        match call {
            Call::AddWatch { .. } | Call::GetMany { .. } if !self.options.persistent_watches => {
                return Err(ErrorCode::Unimplemented);
            }
            // The node need not exist or be readable: a client without permission to read it gets no event.
            Call::AddWatch { path, watch } => self.arm(index, path, *watch, id),
            Call::RemoveWatch { path, watches } => {
                let replica = self.replicas.get_mut(index).ok_or(ErrorCode::ConnectionLoss)?;
                let removed = watches.iter().filter(|watch| replica.watches.remove(path, **watch, id)).count();
                return if removed > 0 { Ok(Answer::Done) } else { Err(ErrorCode::NoWatcher) };
            }
            Call::CheckWatch { path, watches } => {
                let replica = self.replicas.get(index).ok_or(ErrorCode::ConnectionLoss)?;
                let has = watches.iter().any(|watch| replica.watches.has(path, *watch, id));
                return if has { Ok(Answer::Done) } else { Err(ErrorCode::NoWatcher) };
            }
            Call::Ephemerals { below } => {
                let mine = self.replicas.get(index).map(|replica| replica.tree.ephemerals(conn.session));
                let mine = mine.into_iter().flatten().filter(|path| path.starts_with(below.as_str()));
                return Ok(Answer::Texts(mine.map(|path| vec![path.to_string()]).collect()));
            }
            Call::WhoAmI => return Ok(Answer::Texts(who.names())),
            Call::GetMany { reads } => {
                return Ok(Answer::Many(self.parts(index, who, reads)));
            }
            // The only read whose path is checked.
            Call::Exists { path, .. } if path.contains('\0') => return Err(ErrorCode::BadArguments),
            _ => {}
        }
        let answer = match call {
            Call::GetData { path, .. } => self.content(index, who, path).map(Answer::Data),
            Call::Exists { path, .. } => {
                self.node((index, who), path, Operation::Exists).map(|node| Answer::Stat(node.stat()))
            }
            Call::List { path, .. } => {
                let node = self.node((index, who), path, Operation::List);
                node.map(|node| Answer::Children(in_no_order(&node.children), node.stat()))
            }
            Call::CountBelow { path } => {
                let node = self.node((index, who), path, Operation::Other);
                node.and_then(|_| self.count_below(index, path)).map(Answer::Number)
            }
            Call::GetAcl { path } => {
                let node = self.found(index, path)?;
                told_acl(node, |wanted| self.leader.permit(who, path, &node.acls, wanted))
            }
            _ => Ok(Answer::Done),
        };
        let is_armed = match answer {
            Ok(_) => true,
            Err(ErrorCode::NoNode) => matches!(call, Call::Exists { .. }),
            Err(_) => false,
        };
        if let (true, Some(watch)) = (is_armed && !matches!(call, Call::AddWatch { .. }), call.watches()) {
            self.arm(index, call.path(), watch, id);
        }
        answer
    }

    fn count_below(&self, replica: usize, path: &str) -> Result<i32, ErrorCode> {
        let replica = self.replicas.get(replica).ok_or(ErrorCode::ConnectionLoss)?;
        let below = format!("{}/", path.trim_end_matches('/'));
        let count = replica.tree.paths().filter(|other| other.len() > 1 && other.starts_with(&below)).count();
        Ok(i32::try_from(count).unwrap_or(i32::MAX))
    }

    fn arm(&mut self, replica: usize, path: &str, watch: ServerWatch, id: ConnId) {
        if let Some(replica) = self.replicas.get_mut(replica) {
            replica.watches.add(path, watch, id);
        }
    }

    fn found(&self, replica: usize, path: &str) -> Result<&Node, ErrorCode> {
        let replica = self.replicas.get(replica).ok_or(ErrorCode::ConnectionLoss)?;
        replica.tree.get(path).ok_or(ErrorCode::NoNode)
    }

    /// Returns a node if it may be read. Since 3.9 even `exists` needs this permission.
    fn node(&self, (replica, who): (usize, &Identity), path: &str, kind: Operation) -> Result<&Node, ErrorCode> {
        let node = self.found(replica, path)?;
        self.leader.permit(who, path, &node.acls, Permissions::READ)?;
        if self.faults.fails(path, kind) {
            // A lever makes this read fail.
            return Err(ErrorCode::DataInconsistency);
        }
        Ok(node)
    }

    fn content(&self, replica: usize, who: &Identity, path: &str) -> Result<Content, ErrorCode> {
        let node = self.node((replica, who), path, Operation::GetData)?;
        Ok((Arc::clone(&node.data), node.stat()))
    }

    /// Returns the results of many reads, cut short if they exceed what a client may leave unread.
    fn parts(&self, replica: usize, who: &Identity, reads: &[Read]) -> Vec<Result<Part, ErrorCode>> {
        let mut length = 0;
        let parts = reads.iter().map(|read| self.part(replica, who, read));
        parts
            .take_while(|part| {
                let fits = length <= MOST_UNREAD;
                length += length_of_part(part);
                fits
            })
            .collect()
    }

    fn part(&self, replica: usize, who: &Identity, read: &Read) -> Result<Part, ErrorCode> {
        match read {
            Read::Data(path) => self.content(replica, who, path).map(Part::Data),
            Read::Children(path) => {
                let node = self.node((replica, who), path, Operation::List)?;
                Ok(Part::Children(in_no_order(&node.children)))
            }
        }
    }

    /// Handles the arrival of the leader's answer about a session to resume.
    pub(crate) fn validated(&mut self, validated: Validated) {
        let Validated { conn, ticket, session, timeout } = validated;
        match timeout {
            Some(timeout) => {
                if let Some(conn) = self.conns.get_mut(&conn) {
                    conn.session = session;
                    conn.timeout = timeout;
                }
                self.answered(conn, ticket, Outcome::Connected { session, timeout, read_only: false });
            }
            None => self.answered(conn, ticket, Outcome::Expired),
        }
    }
}

/// Returns the ACL of a node. As in a real server, digest hashes are hidden from clients that may not change the ACL.
fn told_acl(node: &Node, may: impl Fn(Permissions) -> Result<(), ErrorCode>) -> Result<Answer, ErrorCode> {
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

/// Lists children as a real server does, in the order of a hash table: not sorted, but always in the same order.
fn in_no_order(names: &BTreeSet<Arc<str>>) -> Vec<Arc<str>> {
    let hash = |name: &str| {
        name.bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    };
    let mut names: Vec<(u64, &Arc<str>)> = names.iter().map(|name| (hash(name), name)).collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| Arc::clone(name)).collect()
}
