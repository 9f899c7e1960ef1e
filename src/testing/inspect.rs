//! Reads the state and the history of the ensemble.

use super::ensemble::server_name;
use super::{Operation, Record, SessionInfo, Target, TestingServer};
use crate::util::znode::Stat;

/// Reads the state that the leader of the ensemble has committed. Paths are the servers', without any client's
/// namespace.
impl TestingServer {
    /// Returns the names of the children, in order; none if the node does not exist.
    pub fn children(&self, path: &str) -> Vec<String> {
        self.ensemble.children(path)
    }

    /// Returns the paths of all nodes except the root, in order.
    pub fn paths(&self) -> Vec<String> {
        self.ensemble.paths()
    }

    /// Returns the data of a node; `None` if it does not exist.
    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        self.ensemble.get(path)
    }

    /// Returns the stat of a node; `None` if it does not exist.
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.ensemble.stat(path)
    }

    /// Starts keeping every version of one node, for [`take_versions`](Self::take_versions): a node may be written
    /// several times between two reads.
    pub fn keep_versions(&self, path: &str) {
        self.ensemble.keep_versions(path);
    }

    /// Returns the versions of the node since the last call, each with its data and stat; `None` for a deletion.
    pub fn take_versions(&self) -> Vec<Option<(Vec<u8>, Stat)>> {
        self.ensemble.take_versions()
    }

    /// Returns how many watches the servers keep.
    pub fn watches(&self) -> usize {
        self.ensemble.watches(None)
    }

    /// Returns the sessions that have not ended, in the order in which they were opened.
    ///
    /// When a session ends, its nodes are deleted a moment later, when the leader commits the transaction for it.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.ensemble.sessions()
    }

    /// Returns the number of servers in the ensemble.
    pub fn servers(&self) -> usize {
        self.ensemble.servers()
    }

    /// Returns the name of a server, for a [`ServerList`](crate::ServerList) of this ensemble.
    ///
    /// # Panics
    /// If there is no such server.
    #[track_caller]
    pub fn server_name(&self, server: usize) -> String {
        assert!(server < self.servers(), "server_name: there are {} servers, from 0 on: {server}", self.servers());
        server_name(server)
    }
}

/// Reads the history.
impl TestingServer {
    /// Returns the records since the start, or since the last [`clear_records`](Self::clear_records). At most the
    /// newest 65 536 are kept.
    pub fn records(&self) -> Vec<Record> {
        self.ensemble.log()
    }

    /// Deletes the records. The counters are kept.
    pub fn clear_records(&self) {
        self.ensemble.clear_log();
    }

    /// Returns how many requests of a kind were sent since the start.
    ///
    /// # Panics
    /// If the client does not belong to this server.
    pub fn count(&self, target: impl Into<Target>, operation: Operation) -> u64 {
        let process = target.into().process(&self.scheduler);
        self.ensemble.count(process.map(|process| process.id), operation)
    }
}
