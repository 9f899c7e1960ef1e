//! The leader's transactions: what a request becomes, and how it is committed.

use crate::engine::Op;
use crate::protocol::ErrorCode;
use crate::testing::ensemble::Millis;
use crate::testing::ensemble::identity::Identity;
use crate::testing::ensemble::leader::{Proposal, Verdict};
use crate::testing::ensemble::link::{Ask, Step};
use crate::testing::ensemble::log::RecordKind;
use crate::testing::ensemble::rules::Author;
use crate::testing::ensemble::txn::{Change, Txn};
use crate::testing::ensemble::world::{Event, World};

impl World {
    pub(crate) fn txn(&mut self, changes: Vec<Change>, closes: Option<i64>) -> Txn {
        Txn { zxid: self.leader.next_zxid(), time: self.time_of_day(self.now), changes, closes }
    }

    pub(crate) fn decide(&mut self, by: Author<'_>, ask: Ask) -> (Txn, Verdict) {
        // A refused request uses a transaction number as well.
        let zxid = self.leader.zxid + 1;
        let (changes, verdict) = match ask {
            Ask::Write(op) => match self.leader.prepare(&[op], by, zxid) {
                Ok(changes) => (changes, Verdict::Written),
                Err((_, code)) => (Vec::new(), Verdict::Refused(code)),
            },
            Ask::Multi(ops) => match self.leader.prepare(&ops, by, zxid) {
                Ok(changes) => (changes, Verdict::WrittenMulti),
                Err((index, code)) => (Vec::new(), Verdict::RefusedMulti { index, code }),
            },
            Ask::SetAcl { path, acls, version } => match self.leader.prepare_acl(&path, &acls, version, (by, zxid)) {
                Ok(change) => (vec![change], Verdict::Written),
                Err(code) => (Vec::new(), Verdict::Refused(code)),
            },
            _ => {
                let changes = self.leader.end_session(by.session, zxid);
                self.log.note(self.now, by.session, RecordKind::SessionClosed);
                return (self.txn(changes, Some(by.session)), Verdict::Ended);
            }
        };
        (self.txn(changes, None), verdict)
    }

    pub(crate) fn commit_soon(&mut self) {
        let range = self.options.commit.clone();
        let at = (self.now + self.random.u64(range)).max(self.last_commit);
        self.last_commit = at;
        self.schedule(at, Event::Commit(self.incarnation));
    }

    /// Commits the oldest proposal. Every replica receives it after its own lag.
    pub(crate) fn commit(&mut self, incarnation: u32) {
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

    pub(crate) fn reap(&mut self) {
        self.schedule(self.now + self.options.container_check(), Event::Reap);
        if !self.running {
            return;
        }
        let tree = &self.leader.tree;
        for path in [tree.spent_containers(), tree.outlived(self.time_of_day(self.now))].concat() {
            let op = Op::Delete { path: path.to_string(), version: None };
            // The leader's own request: it needs no permission, but the node must still be empty.
            self.by_hand(op).ok();
        }
    }

    /// Carries out a request without a session. Returns the path as the server names it.
    pub(crate) fn by_hand(&mut self, op: Op) -> Result<String, ErrorCode> {
        let zxid = self.leader.zxid + 1;
        let by = Author { session: 0, identity: &Identity::Hand };
        let changes = self.leader.prepare(&[op], by, zxid).map_err(|(_, error)| error)?;
        let path = changes.first().and_then(Change::path).map(|path| path.to_string());
        self.propose_now(changes);
        Ok(path.unwrap_or_default())
    }

    /// Proposes changes, and commits them together with everything proposed before.
    pub(crate) fn propose_now(&mut self, changes: Vec<Change>) {
        let txn = self.txn(changes, None);
        self.leader.propose(txn, None);
        while !self.leader.proposals.is_empty() {
            self.commit(self.incarnation);
        }
    }
}
