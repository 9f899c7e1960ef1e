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
    /// Cuts connections, once; their clients connect again. How many were cut.
    pub(crate) fn disconnect(&self, who: Who) -> usize {
        self.with(|world| world.cut_all(who))
    }

    /// From now on new connections of a client (of all) are refused, or no more. Those that stand are left alone.
    pub(crate) fn refuse(&self, group: Option<u32>, on: bool) {
        self.with(|world| world.faults.refuse(group, on));
    }

    /// Holds back all messages of a client (or of all) in both directions, or releases them: then what was held arrives
    /// late, as TCP sends it again.
    pub(crate) fn black_hole(&self, group: Option<u32>, on: bool) {
        self.with(|world| {
            // What arrives at this moment comes behind what is held.
            world.run();
            world.faults.black_hole(group, on);
            world.release_held();
        });
    }

    /// Every message of a client (of all) takes so much longer.
    pub(crate) fn delay(&self, group: Option<u32>, by: Duration) {
        self.with(|world| world.faults.delay_by(group, millis(by)));
    }

    /// Ends every refusal, black hole and delay, and joins every replica again. Losses still to come are forgotten.
    pub(crate) fn heal(&self) {
        self.with(|world| {
            // What arrives at this moment comes behind what is held.
            world.run();
            world.faults.heal();
            world.release_held();
            for replica in 0..world.replicas.len() {
                world.rejoin(replica);
            }
        });
    }

    /// The reply to the next request of that kind (of any) is lost.
    pub(crate) fn lose_next_reply(&self, who: Who, kind: Option<Operation>, how: Loss) {
        self.with(|world| world.faults.lose_next(who, kind, how));
    }

    /// The reads of that kind fail at this node.
    pub(crate) fn fail(&self, path: &str, kind: Operation) {
        self.with(|world| world.faults.fail(path, kind));
    }

    /// How many replies were lost so far by that lever.
    pub(crate) fn lost_replies(&self) -> u64 {
        self.with(|world| world.faults.taken())
    }

    /// Moves a session to a connection of its own, to a server to which its client is not connected. The client keeps
    /// its connection and is not told. Returns whether the session is there, now or since an earlier call.
    #[cfg(test)]
    pub(crate) fn take_over(&self, session: i64) -> bool {
        self.with(|world| world.take_over(session))
    }

    /// Ends a session at the servers; its client learns it when it connects again. Whether they knew it.
    pub(crate) fn expire_session(&self, session: i64) -> bool {
        self.with(|world| world.expire(session))
    }

    /// All servers stop: connections are cut, new ones refused, and time stands still for sessions.
    pub(crate) fn stop(&self) {
        self.with(World::stop);
    }

    /// They start again; without their data they know no node and no session.
    pub(crate) fn start(&self, keep_data: bool) {
        self.with(|world| world.start(keep_data));
    }

    /// Cuts a server off from the leader. It serves reads and pings for a while, then drops its clients.
    pub(crate) fn cut_off(&self, server: usize, serves_for: Duration) {
        self.with(|world| world.cut_off(server, millis(serves_for), None));
    }

    /// Cuts the leader off from the others, which elect another one. For a while the old leader does not notice: it
    /// answers syncs by itself and takes sessions up again. Then it drops its clients.
    pub(crate) fn depose(&self, server: usize, serves_for: Duration) {
        self.with(|world| world.depose(server, millis(serves_for)));
    }

    /// The session timeouts that a server (that all) grants to connections made from now on.
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

    /// The longest request that the servers read from now on, in bytes.
    pub(crate) fn max_buffer(&self, bytes: usize) {
        self.with(|world| world.options.max_buffer = bytes);
    }

    /// Ends that; it catches up with the leader.
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

    /// The next sequential child of `path` gets the number `next`.
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

    /// The data of `path` gets this version, as if it had been written so often.
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

    /// Denies all clients to read or change the node, and to create or delete below it, as with an ACL that grants
    /// nothing.
    pub(crate) fn deny(&self, path: &str) {
        self.with(|world| world.leader.denied.insert(path.to_owned()));
    }

    pub(crate) fn allow(&self, path: &str) {
        self.with(|world| world.leader.denied.remove(path));
    }
}
