//! What there is, and what happened.

use super::{Operation, Record, SessionInfo, Target, TestingServer};
use crate::types::Stat;

/// What there is, as the leader of the ensemble has committed it. Paths are the servers', without any client's namespace.
impl TestingServer {
    /// The names of the children, in order; none if there is no such node.
    pub fn children(&self, path: &str) -> Vec<String> {
        self.ensemble.children(path)
    }

    /// The paths of all nodes but the root, in order.
    pub fn paths(&self) -> Vec<String> {
        self.ensemble.paths()
    }

    /// The data of a node.
    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        self.ensemble.get(path)
    }

    /// The stat of a node.
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.ensemble.stat(path)
    }

    /// How many watches the servers keep.
    pub fn watches(&self) -> usize {
        self.ensemble.watches(None)
    }

    /// The sessions that have not ended, in the order of their opening. When one ends, its nodes go a moment later, with the
    /// transaction that the leader then commits.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.ensemble.sessions()
    }

    /// The number of servers in the ensemble.
    pub fn servers(&self) -> usize {
        self.ensemble.servers()
    }
}

/// What happened.
impl TestingServer {
    /// Everything since the start, or since the last [`clear_records`](Self::clear_records); of a long life the newest 65 536
    /// entries.
    pub fn records(&self) -> Vec<Record> {
        self.ensemble.log()
    }

    /// Forgets the records; counters go on.
    pub fn clear_records(&self) {
        self.ensemble.clear_log();
    }

    /// How many requests of a kind were handed over since the start.
    ///
    /// # Panics
    /// If the client is not one of this server.
    pub fn count(&self, target: impl Into<Target>, operation: Operation) -> u64 {
        let process = target.into().process(&self.scheduler);
        self.ensemble.count(process.map(|process| process.id), operation)
    }
}
