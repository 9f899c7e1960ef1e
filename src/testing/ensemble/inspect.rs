//! Reads the committed state of the ensemble from outside, without a session, regardless of how far the replicas lag.

use std::time::Duration;

use super::handle::{MemoryEnsemble, OUTSIDE};
use super::leader::Version;
use super::log::Record;
use super::wire::Operation;
use crate::util::znode::Stat;

/// A session as the leader knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The id of the session.
    pub id: i64,
    /// The timeout that was granted on its latest connection.
    pub timeout: Duration,
    /// The client that opened it, numbered from 1 in the order of connecting; `None` if it is not in this process.
    pub client: Option<u32>,
    /// Whether its client is connected.
    pub connected: bool,
    /// The server it is connected to, from 0.
    pub server: Option<usize>,
}

impl MemoryEnsemble {
    /// Returns the names of the children in order; none if there is no such node.
    pub(crate) fn children(&self, path: &str) -> Vec<String> {
        self.with(|world| match world.leader.tree.get(path) {
            Some(node) => node.children.iter().map(|name| name.to_string()).collect(),
            None => Vec::new(),
        })
    }

    /// Returns the paths of all nodes except the root, in order.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.with(|world| {
            let below_root = world.leader.tree.paths().filter(|path| path.len() > 1);
            below_root.map(|path| path.to_string()).collect()
        })
    }

    pub(crate) fn get(&self, path: &str) -> Option<Vec<u8>> {
        self.with(|world| world.leader.tree.get(path).map(|node| node.data.to_vec()))
    }

    pub(crate) fn stat(&self, path: &str) -> Option<Stat> {
        self.with(|world| world.leader.tree.get(path).map(super::tree::Node::stat))
    }

    /// Starts keeping every version of the node.
    pub(crate) fn keep_versions(&self, path: &str) {
        self.with(|world| world.leader.kept = Some((path.into(), Vec::new())));
    }

    /// Returns the versions since the last call.
    pub(crate) fn take_versions(&self) -> Vec<Version> {
        self.with(|world| world.leader.kept.as_mut().map(|(_, versions)| std::mem::take(versions)).unwrap_or_default())
    }

    /// Returns the session that owns an ephemeral node; 0 if none does.
    #[cfg(test)]
    pub(crate) fn owner(&self, path: &str) -> Option<i64> {
        self.stat(path).map(|stat| stat.ephemeral_owner)
    }

    /// Returns how many watches the servers keep, for one session or for all.
    pub(crate) fn watches(&self, session: Option<i64>) -> usize {
        self.with(|world| {
            let conns = &world.conns;
            let counts = |id| conns.get(&id).is_some_and(|conn| session.is_none_or(|session| conn.session == session));
            world.replicas.iter().map(|replica| replica.watches.count(counts)).sum()
        })
    }

    /// Returns the sessions that have not ended, in the order in which they were opened.
    pub(crate) fn sessions(&self) -> Vec<SessionInfo> {
        self.with(|world| {
            let describe = |(id, session): (&i64, &super::leader::ServerSession)| {
                let conn = world.conns.values().find(|conn| conn.known_as == *id && !conn.deaf);
                SessionInfo {
                    id: *id,
                    timeout: Duration::from_millis(session.timeout),
                    client: Some(session.group).filter(|group| *group < OUTSIDE),
                    connected: conn.is_some(),
                    server: conn.map(|conn| conn.replica),
                }
            };
            world.leader.sessions.iter().map(describe).collect()
        })
    }

    /// Returns the records so far, or since the last [`clear_log`](Self::clear_log). Only the newest are kept.
    pub(crate) fn log(&self) -> Vec<Record> {
        self.with(|world| world.log.entries())
    }

    pub(crate) fn clear_log(&self) {
        self.with(|world| world.log.clear());
    }

    /// Returns how many requests of a kind were sent since the start, by one group or by all.
    pub(crate) fn count(&self, group: Option<u32>, kind: Operation) -> u64 {
        self.with(|world| world.log.count(group, kind))
    }

    pub(crate) fn servers(&self) -> usize {
        self.with(|world| world.replicas.len())
    }

    /// Returns the number of the last transaction that was proposed.
    #[cfg(test)]
    pub(crate) fn zxid(&self) -> i64 {
        self.with(|world| world.leader.zxid)
    }
}
