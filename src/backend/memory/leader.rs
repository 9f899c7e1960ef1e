//! The leader: the committed tree, the sessions by its own clock, and the order of all transactions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::tree::Tree;
use super::txn::{Change, Txn};
use super::{ConnId, Millis, Zxid};
use crate::backend::Error;
use crate::types::Acl;

/// A session as the leader knows it.
#[derive(Debug)]
pub(super) struct ServerSession {
    /// What was granted when it was opened: a new leader, or a server that starts, knows no other.
    pub(super) first_timeout: Millis,
    /// What its latest connection was granted.
    pub(super) timeout: Millis,
    pub(super) expires: Millis,
    /// When that will be looked at next.
    pub(super) look: Millis,
    /// The connection it came with last; requests that come late by an older one are refused.
    pub(super) conn: ConnId,
}

/// What a node will be when all proposals are committed.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) version: i32,
    pub(super) creations: i32,
    pub(super) children: usize,
    pub(super) owner: i64,
    pub(super) acls: Arc<[Acl]>,
}

/// A change that is proposed and not committed yet; no facts: the node will be gone.
#[derive(Debug, Clone)]
pub(super) struct Outstanding {
    pub(super) zxid: Zxid,
    pub(super) facts: Option<Facts>,
}

/// What the server of the client is to answer when it has applied the proposal.
#[derive(Debug)]
pub(super) enum Verdict {
    Written,
    WrittenMulti,
    Refused(Error),
    RefusedMulti { index: usize, error: Error },
    Synced,
    Opened { session: i64, timeout: Millis },
    Ended,
}

/// Whose request led to a proposal.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) replica: usize,
    pub(super) conn: ConnId,
    pub(super) ticket: u64,
    pub(super) verdict: Verdict,
}

/// Something that the leader tells its followers, in order. A sync has no transaction.
#[derive(Debug)]
pub(super) struct Proposal {
    pub(super) txn: Option<Arc<Txn>>,
    pub(super) origin: Option<Origin>,
}

#[derive(Debug)]
pub(super) struct Leader {
    pub(super) tree: Tree,
    /// Of the last proposal.
    pub(super) zxid: Zxid,
    pub(super) sessions: BTreeMap<i64, ServerSession>,
    pub(super) outstanding: BTreeMap<Arc<str>, Outstanding>,
    pub(super) proposals: VecDeque<Proposal>,
    /// Nodes whose ACL grants nothing to anybody, by hand.
    pub(super) denied: BTreeSet<String>,
    /// The request at hand is the ensemble's own: no ACL binds it.
    pub(super) by_hand: bool,
}

impl Leader {
    pub(super) fn new() -> Self {
        Leader {
            tree: Tree::new(),
            zxid: 0,
            sessions: BTreeMap::new(),
            outstanding: BTreeMap::new(),
            proposals: VecDeque::new(),
            denied: BTreeSet::new(),
            by_hand: false,
        }
    }

    /// It was heard of on a connection with this timeout: it may now expire earlier than before. When to look at it, if
    /// that is sooner than planned.
    pub(super) fn touch(&mut self, session: i64, timeout: Millis, now: Millis) -> Option<Millis> {
        let session = self.sessions.get_mut(&session)?;
        session.expires = now + timeout;
        let sooner = session.expires < session.look;
        session.look = session.look.min(session.expires);
        sooner.then_some(session.look)
    }

    /// A new leader counts the time of every session from now on; when to look at which.
    pub(super) fn start_timers(&mut self, now: Millis) -> Vec<(Millis, i64)> {
        let start = |(id, session): (&i64, &mut ServerSession)| {
            session.expires = now + session.first_timeout;
            session.look = session.expires;
            (session.look, *id)
        };
        self.sessions.iter_mut().map(start).collect()
    }

    /// Whether a request that came by `conn` may still be carried out.
    pub(super) fn admits(&self, session: i64, conn: ConnId) -> Result<(), Error> {
        match self.sessions.get(&session) {
            None => Err(Error::SessionEnded),
            // The session moved; as the real adapter tells it.
            Some(known) if known.conn != conn => Err(Error::ConnectionLoss),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn next_zxid(&mut self) -> Zxid {
        self.zxid += 1;
        self.zxid
    }

    pub(super) fn propose(&mut self, txn: Txn, origin: Option<Origin>) {
        self.proposals.push_back(Proposal { txn: Some(Arc::new(txn)), origin });
    }

    /// The changes that end a session: its nodes go, also those only proposed yet.
    pub(super) fn end_session(&mut self, session: i64, zxid: Zxid) -> Vec<Change> {
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
    pub(super) fn commit(&mut self) -> Option<Proposal> {
        let proposal = self.proposals.pop_front()?;
        if let Some(txn) = &proposal.txn {
            self.tree.apply(txn);
            self.outstanding.retain(|_, change| change.zxid != txn.zxid);
        }
        Some(proposal)
    }
}
