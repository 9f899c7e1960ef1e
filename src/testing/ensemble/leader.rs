//! The leader: the committed tree, the sessions timed by its own clock, and the order of all transactions.

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
    /// The timeout granted when it was opened. A new leader, or a server that starts, knows only this one.
    pub(crate) first_timeout: Millis,
    /// The timeout granted on its latest connection.
    pub(crate) timeout: Millis,
    pub(crate) expires: Millis,
    /// When its expiry is checked next.
    pub(crate) look: Millis,
    /// The client that opened it.
    pub(crate) group: u32,
    /// Its latest connection. Transactions that arrive late on an older one are refused.
    pub(crate) conn: ConnId,
}

/// The state of a node once all proposals are committed.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) version: i32,
    pub(crate) acl_version: i32,
    pub(crate) creations: i32,
    pub(crate) children: usize,
    pub(crate) owner: i64,
    pub(crate) acls: Arc<[Acl]>,
}

/// A change that is proposed and not committed yet. Without facts, it deletes the node.
#[derive(Debug, Clone)]
pub(crate) struct Outstanding {
    pub(crate) zxid: Zxid,
    pub(crate) facts: Option<Facts>,
}

/// The answer that the client's server gives when it has applied the proposal.
#[derive(Debug)]
pub(crate) enum Verdict {
    Written,
    WrittenMulti,
    Refused(ErrorCode),
    RefusedMulti {
        index: usize,
        code: ErrorCode,
    },
    /// The session has moved to another connection: the server closes this one.
    Moved,
    Synced,
    Opened {
        session: i64,
        timeout: Millis,
    },
    Ended,
}

/// The request that led to a proposal.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) replica: usize,
    pub(crate) conn: ConnId,
    pub(crate) ticket: u64,
    pub(crate) verdict: Verdict,
}

/// A message from the leader to its followers, in order. A sync, or a request that is not admitted, has no transaction.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) txn: Option<Arc<Txn>>,
    pub(crate) origin: Option<Origin>,
}

#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) tree: Tree,
    /// The number of the last transaction that was proposed.
    pub(crate) zxid: Zxid,
    pub(crate) sessions: BTreeMap<i64, ServerSession>,
    pub(crate) outstanding: BTreeMap<Arc<str>, Outstanding>,
    pub(crate) proposals: VecDeque<Proposal>,
    /// Nodes to which the test denies all access.
    pub(crate) denied: BTreeSet<String>,
    /// Whether nodes may have a time to live.
    pub(crate) extended_types: bool,
    /// The node whose versions are kept, and the versions since the last call.
    pub(crate) kept: Option<(Arc<str>, Vec<Version>)>,
}

/// A version of a node, as data and stat; `None` for a deletion.
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

    /// Records that a session was heard from on a connection with this timeout: it may now expire earlier than before.
    /// Returns when to check it, if that is sooner than planned.
    pub(crate) fn touch(&mut self, session: i64, timeout: Millis, now: Millis) -> Option<Millis> {
        let session = self.sessions.get_mut(&session)?;
        session.expires = now + timeout;
        let sooner = session.expires < session.look;
        session.look = session.look.min(session.expires);
        sooner.then_some(session.look)
    }

    /// Restarts the time of every session, as a new leader does. Returns the sessions whose expiry no scheduled event
    /// checks, and when to check them.
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

    /// Returns whether a transaction that arrived on `conn` may still be carried out.
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

    /// Returns the changes that end a session: they delete its nodes, even those that are only proposed.
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

    /// Applies the oldest proposal to the tree.
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
        assert_eq!(leader.start_timers(5), [], "a check before its expiry is already scheduled");
        assert_eq!(leader.start_timers(12), [(22, 1)], "the earlier check is in the past");
        assert_eq!(leader.start_timers(12), []);
        assert_eq!(leader.start_timers(20), []);
    }
}
