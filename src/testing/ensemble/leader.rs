//! The leader: the committed tree, the sessions by its own clock, and the order of all transactions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::tree::Tree;
use super::txn::{Change, Txn};
use super::{ConnId, Millis, Zxid};
use crate::protocol::ErrorCode;
use crate::util::znode::{Acl, Stat};

/// A session as the leader knows it.
#[derive(Debug)]
pub(crate) struct ServerSession {
    /// What was granted when it was opened: a new leader, or a server that starts, knows no other.
    pub(crate) first_timeout: Millis,
    /// What its latest connection was granted.
    pub(crate) timeout: Millis,
    pub(crate) expires: Millis,
    /// When that will be looked at next.
    pub(crate) look: Millis,
    /// The client that opened it.
    pub(crate) group: u32,
    /// The connection it came with last; transactions that come late by an older one are refused.
    pub(crate) conn: ConnId,
}

/// What a node will be when all proposals are committed.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) version: i32,
    pub(crate) acl_version: i32,
    pub(crate) creations: i32,
    pub(crate) children: usize,
    pub(crate) owner: i64,
    pub(crate) acls: Arc<[Acl]>,
}

/// A change that is proposed and not committed yet; no facts: the node will be gone.
#[derive(Debug, Clone)]
pub(crate) struct Outstanding {
    pub(crate) zxid: Zxid,
    pub(crate) facts: Option<Facts>,
}

/// What the server of the client is to answer when it has applied the proposal.
#[derive(Debug)]
pub(crate) enum Verdict {
    Written,
    WrittenMulti,
    Refused(ErrorCode),
    RefusedMulti {
        index: usize,
        code: ErrorCode,
    },
    /// The session came with another connection later: the server closes this one.
    Moved,
    Synced,
    Opened {
        session: i64,
        timeout: Millis,
    },
    Ended,
}

/// Whose request led to a proposal.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) replica: usize,
    pub(crate) conn: ConnId,
    pub(crate) ticket: u64,
    pub(crate) verdict: Verdict,
}

/// Something that the leader tells its followers, in order. A sync has no transaction.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) txn: Option<Arc<Txn>>,
    pub(crate) origin: Option<Origin>,
}

#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) tree: Tree,
    /// Of the last proposal.
    pub(crate) zxid: Zxid,
    pub(crate) sessions: BTreeMap<i64, ServerSession>,
    pub(crate) outstanding: BTreeMap<Arc<str>, Outstanding>,
    pub(crate) proposals: VecDeque<Proposal>,
    /// Nodes that deny all access, by hand.
    pub(crate) denied: BTreeSet<String>,
    /// Whether nodes may have a time to live.
    pub(crate) extended_types: bool,
    /// The node whose versions are kept, and those since they were taken last.
    pub(crate) kept: Option<(Arc<str>, Vec<Version>)>,
}

/// A version of a node, as data and stat; `None` once it is deleted.
pub(crate) type Version = Option<(Vec<u8>, Stat)>;

impl Leader {
    pub(crate) fn new(extended_types: bool, zxid: Zxid) -> Self {
        Leader {
            tree: Tree::new(),
            zxid,
            sessions: BTreeMap::new(),
            outstanding: BTreeMap::new(),
            proposals: VecDeque::new(),
            denied: BTreeSet::new(),
            extended_types,
            kept: None,
        }
    }

    /// It was heard of on a connection with this timeout: it may now expire earlier than before. When to look at it, if
    /// that is sooner than planned.
    pub(crate) fn touch(&mut self, session: i64, timeout: Millis, now: Millis) -> Option<Millis> {
        let session = self.sessions.get_mut(&session)?;
        session.expires = now + timeout;
        let sooner = session.expires < session.look;
        session.look = session.look.min(session.expires);
        sooner.then_some(session.look)
    }

    /// A new leader counts the time of every session from now on; when to look at those that no event will look at.
    pub(crate) fn start_timers(&mut self, now: Millis) -> Vec<(Millis, i64)> {
        let start = |(id, session): (&i64, &mut ServerSession)| {
            session.expires = now + session.first_timeout;
            let is_scheduled = (now + 1..=session.expires).contains(&session.look);
            if is_scheduled {
                return None;
            }
            session.look = session.expires;
            Some((session.look, *id))
        };
        self.sessions.iter_mut().filter_map(start).collect()
    }

    /// Whether a transaction that came by `conn` may still be carried out.
    pub(crate) fn admits(&self, session: i64, conn: ConnId) -> Result<(), Verdict> {
        match self.sessions.get(&session) {
            None => Err(Verdict::Refused(ErrorCode::SessionExpired)),
            Some(known) if known.conn != conn => Err(Verdict::Moved),
            Some(_) => Ok(()),
        }
    }

    pub(crate) fn next_zxid(&mut self) -> Zxid {
        self.zxid += 1;
        self.zxid
    }

    pub(crate) fn propose(&mut self, txn: Txn, origin: Option<Origin>) {
        self.proposals.push_back(Proposal { txn: Some(Arc::new(txn)), origin });
    }

    /// The changes that end a session: its nodes go, also those only proposed yet.
    pub(crate) fn end_session(&mut self, session: i64, zxid: Zxid) -> Vec<Change> {
        self.sessions.remove(&session);
        let mut owned = self.tree.ephemerals(session);
        for (path, change) in &self.outstanding {
            match &change.facts {
                None => {
                    owned.remove(path);
                }
                Some(facts) if facts.owner == session => {
                    owned.insert(Arc::clone(path));
                }
                Some(_) => {}
            }
        }
        for path in &owned {
            self.forget(path, zxid);
        }
        owned.into_iter().map(|path| Change::Delete { path }).collect()
    }

    /// The oldest proposal becomes part of the tree.
    pub(crate) fn commit(&mut self) -> Option<Proposal> {
        let proposal = self.proposals.pop_front()?;
        if let Some(txn) = &proposal.txn {
            self.tree.apply(txn);
            self.outstanding.retain(|_, change| change.zxid != txn.zxid);
            if let Some((path, versions)) = &mut self.kept
                && txn.changes.iter().any(|change| change.path() == Some(path))
            {
                versions.push(self.tree.get(path).map(|node| (node.data.to_vec(), node.stat())));
            }
        }
        Some(proposal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_event_however_often_the_timers_are_started() {
        let mut leader = Leader::new(false, 0);
        let session = ServerSession { first_timeout: 10, timeout: 10, expires: 10, look: 10, group: 1, conn: 1 };
        leader.sessions.insert(1, session);
        assert_eq!(leader.start_timers(5), [], "it will be looked at sooner than it expires");
        assert_eq!(leader.start_timers(12), [(22, 1)], "the look of before is over");
        assert_eq!(leader.start_timers(12), []);
        assert_eq!(leader.start_timers(20), []);
    }
}
