//! The levers: faults, and changes by hand.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::faults::Who;
use super::handle::MemoryEnsemble;
use super::leader::Outstanding;
use super::millis;
use super::txn::Change;
use super::wire::{Loss, Operation};
use super::world::World;
use crate::engine::Op;
use crate::protocol::ErrorCode;
use crate::util::znode::{Acl, CreateMode};

/// Faults.
impl MemoryEnsemble {
    /// Cuts connections once; their clients reconnect. Returns how many were cut.
    pub(crate) fn disconnect(&self, who: Who) -> usize {
        self.with(|world| world.cut_all(who))
    }

    /// Starts or stops refusing new connections of a client, or of all. Existing connections are left alone.
    pub(crate) fn refuse(&self, group: Option<u32>, on: bool) {
        self.with(|world| world.faults.refuse(group, on));
    }

    /// Holds back all messages of a client (or of all) in both directions, or releases them: what was held then arrives
    /// late, as if TCP retransmitted it.
    pub(crate) fn black_hole(&self, group: Option<u32>, on: bool) {
        self.with(|world| {
            // What arrives at this moment must come after what is held.
            world.run();
            world.faults.black_hole(group, on);
            world.release_held();
        });
    }

    /// Delays every message of a client, or of all.
    pub(crate) fn delay(&self, group: Option<u32>, by: Duration) {
        self.with(|world| world.faults.delay_by(group, millis(by)));
    }

    /// Ends every refusal, black hole, delay and failure, and rejoins every replica. Losses that have not taken effect
    /// are cancelled.
    pub(crate) fn heal(&self) {
        self.with(|world| {
            // What arrives at this moment must come after what is held.
            world.run();
            world.faults.heal();
            world.release_held();
            for replica in 0..world.replicas.len() {
                world.rejoin(replica);
            }
        });
    }

    /// Loses the reply to the next request of this kind, or of any kind.
    pub(crate) fn lose_next_reply(&self, who: Who, kind: Option<Operation>, how: Loss) {
        self.with(|world| world.faults.lose_next(who, kind, how));
    }

    /// Makes the reads of this kind fail at this node.
    pub(crate) fn fail(&self, path: &str, kind: Operation) {
        self.with(|world| world.faults.fail(path, kind));
    }

    /// Returns how many replies [`lose_next_reply`](Self::lose_next_reply) has lost so far.
    pub(crate) fn lost_replies(&self) -> u64 {
        self.with(|world| world.faults.taken())
    }

    /// Moves a session to a separate connection, to a server to which its client is not connected. The client keeps its
    /// connection and is not notified. Returns whether an earlier call has moved it.
    #[cfg(test)]
    pub(crate) fn take_over(&self, session: i64) -> bool {
        self.with(|world| world.take_over(session))
    }

    /// Ends a session at the servers. Its client learns of the end when it reconnects. Returns whether there was one.
    pub(crate) fn expire_session(&self, session: i64) -> bool {
        self.with(|world| world.expire(session))
    }

    /// Stops all servers: connections are cut, new ones are refused, and session timeouts do not advance.
    pub(crate) fn stop(&self) {
        self.with(World::stop);
    }

    /// Starts the servers again. Without their data they know no node and no session.
    pub(crate) fn start(&self, keep_data: bool) {
        self.with(|world| world.start(keep_data));
    }

    /// Cuts a server off from the leader. It serves reads and pings for a while, then drops its clients.
    pub(crate) fn cut_off(&self, server: usize, serves_for: Duration) {
        self.with(|world| world.cut_off(server, millis(serves_for), None));
    }

    /// Cuts the leader off from the others, which elect another one. For a while the old leader does not notice: it
    /// answers syncs by itself and resumes sessions. Then it drops its clients.
    pub(crate) fn depose(&self, server: usize, serves_for: Duration) {
        self.with(|world| world.depose(server, millis(serves_for)));
    }

    /// Sets the session timeouts that a server, or all, grants to connections from now on.
    pub(crate) fn grant(&self, server: Option<usize>, timeouts: &RangeInclusive<Duration>) {
        let range = millis(*timeouts.start())..=millis(*timeouts.end());
        self.with(|world| {
            for (index, grants) in world.grants.iter_mut().enumerate() {
                if server.is_none_or(|server| server == index) {
                    *grants = range.clone();
                }
            }
        });
    }

    /// Sets the longest request that the servers read from now on, in bytes.
    pub(crate) fn max_buffer(&self, bytes: usize) {
        self.with(|world| world.options.max_buffer = bytes);
    }

    /// Reconnects a server to the leader, so that it catches up.
    #[cfg(test)]
    pub(crate) fn rejoin(&self, server: usize) {
        self.with(|world| world.rejoin(server));
    }
}

/// Changes by hand: committed at once, without a session.
impl MemoryEnsemble {
    pub(crate) fn create_by_hand(&self, path: &str, data: &[u8], mode: CreateMode) -> Result<String, ErrorCode> {
        let op = Op::Create {
            path: path.to_owned(),
            data: data.to_vec(),
            mode: match mode {
                CreateMode::Ephemeral => CreateMode::Persistent,
                CreateMode::EphemeralSequential => CreateMode::PersistentSequential,
                lasting => lasting,
            },
            acls: vec![Acl::anyone_all()],
        };
        self.with(|world| world.by_hand(op))
    }

    pub(crate) fn set_data_by_hand(&self, path: &str, data: &[u8]) -> Result<(), ErrorCode> {
        let op = Op::SetData { path: path.to_owned(), data: data.to_vec(), version: None };
        self.with(|world| world.by_hand(op)).map(drop)
    }

    pub(crate) fn delete_by_hand(&self, path: &str) -> Result<(), ErrorCode> {
        let op = Op::Delete { path: path.to_owned(), version: None };
        self.with(|world| world.by_hand(op)).map(drop)
    }

    /// Sets the number of the next sequential child of `path`.
    pub(crate) fn set_sequence(&self, path: &str, next: i32) -> Result<(), ErrorCode> {
        self.with(|world| {
            let path: Arc<str> = Arc::from(path);
            let mut facts = world.leader.facts(&path)?;
            facts.creations = next;
            let (zxid, facts) = (world.leader.zxid + 1, Some(facts));
            world.leader.outstanding.insert(Arc::clone(&path), Outstanding { zxid, facts });
            world.propose_now(vec![Change::SetSequence { path, next }]);
            Ok(())
        })
    }

    /// Sets the version of the data of `path`.
    pub(crate) fn set_version(&self, path: &str, version: i32) -> Result<(), ErrorCode> {
        let data = self.get(path).ok_or(ErrorCode::NoNode)?;
        self.with(|world| {
            let path: Arc<str> = Arc::from(path);
            let mut facts = world.leader.facts(&path)?;
            facts.version = version;
            let (zxid, facts) = (world.leader.zxid + 1, Some(facts));
            world.leader.outstanding.insert(Arc::clone(&path), Outstanding { zxid, facts });
            world.propose_now(vec![Change::SetData { path, data: Arc::from(data), version }]);
            Ok(())
        })
    }

    /// Denies all access to the node: no client may read or change it, or create or delete nodes below it, as with an
    /// ACL that grants nothing.
    pub(crate) fn deny(&self, path: &str) {
        self.with(|world| world.leader.denied.insert(path.to_owned()));
    }

    pub(crate) fn allow(&self, path: &str) {
        self.with(|world| world.leader.denied.remove(path));
    }
}
