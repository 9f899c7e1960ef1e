//! The levers that are on, and those that act at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::handle::MemoryEnsemble;
use super::leader::{Leader, Outstanding};
use super::millis;
use super::replica::{CutOff, Replica};
use super::txn::Change;
use super::wire::Operation;
use super::world::{Event, World};
use super::{ConnId, Millis};
use crate::backend::{Error, Op};
use crate::types::{Acl, CreateMode};

/// Whom a lever concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    All,
    /// All sessions of one client, also those it will open.
    Group(u32),
    #[cfg_attr(not(test), allow(dead_code))]
    Session(i64),
}

/// Which clients a lasting fault concerns.
#[derive(Debug, Default)]
struct Groups {
    all: bool,
    some: BTreeSet<u32>,
}

impl Groups {
    fn set(&mut self, group: Option<u32>, on: bool) {
        match (group, on) {
            (None, true) => self.all = true,
            (None, false) => *self = Groups::default(),
            (Some(group), true) => {
                self.some.insert(group);
            }
            (Some(group), false) => {
                self.some.remove(&group);
            }
        }
    }

    fn contains(&self, group: u32) -> bool {
        self.all || self.some.contains(&group)
    }
}

#[derive(Debug)]
struct Loss {
    who: Who,
    kind: Option<Operation>,
    applied: bool,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    refused: Groups,
    black_hole: Groups,
    delay_all: Millis,
    delays: BTreeMap<u32, Millis>,
    losses: Vec<Loss>,
    /// How many replies were lost by the lever.
    taken: u64,
}

impl Faults {
    pub(super) fn delay(&self, group: u32) -> Millis {
        self.delay_all + self.delays.get(&group).copied().unwrap_or(0)
    }

    pub(super) fn refuses(&self, group: u32) -> bool {
        self.refused.contains(group)
    }

    pub(super) fn is_black_hole(&self, group: u32) -> bool {
        self.black_hole.contains(group)
    }

    pub(super) fn takes(&mut self, group: u32, session: i64, kind: Operation, applied: bool) -> bool {
        let fits = |loss: &Loss| {
            let who = match loss.who {
                Who::All => true,
                Who::Group(wanted) => wanted == group,
                Who::Session(wanted) => wanted == session,
            };
            who && loss.applied == applied && loss.kind.is_none_or(|wanted| wanted == kind)
        };
        let Some(at) = self.losses.iter().position(fits) else {
            return false;
        };
        self.losses.remove(at);
        self.taken += 1;
        true
    }
}

impl World {
    fn cut_all(&mut self, who: Who) -> usize {
        let concerned = self.conns.iter().filter(|(_, conn)| match who {
            Who::All => true,
            Who::Group(group) => conn.group == group,
            Who::Session(session) => conn.session == session,
        });
        let ids: Vec<ConnId> = concerned.filter(|(_, conn)| !conn.deaf).map(|(id, _)| *id).collect();
        for id in &ids {
            self.cut(*id);
        }
        ids.len()
    }

    fn stop(&mut self) {
        self.running = false;
        self.incarnation += 1;
        // What was proposed is in the log of a quorum.
        while self.leader.commit().is_some() {}
        self.cut_all(Who::All);
    }

    fn start(&mut self, keep_data: bool) {
        if self.running {
            return;
        }
        self.running = true;
        self.incarnation += 1;
        self.last_commit = self.now;
        if !keep_data {
            let denied = std::mem::take(&mut self.leader.denied);
            self.leader = Leader::new();
            self.leader.denied = denied;
        }
        for replica in &mut self.replicas {
            *replica = Replica {
                tree: self.leader.tree.clone(),
                applied: self.leader.zxid,
                cuts: replica.cuts,
                ..Replica::new()
            };
        }
        // A server that starts gives every session its whole time again.
        self.start_timers();
    }

    fn cut_off(&mut self, index: usize, serves_for: Millis, deposed: Option<BTreeSet<i64>>) -> bool {
        let at = self.now + serves_for;
        let Some(replica) = self.replicas.get_mut(index).filter(|replica| replica.cut_off.is_none()) else {
            return false;
        };
        replica.cuts += 1;
        replica.cut_off = Some(CutOff { deposed, looking: false, held: Vec::new() });
        let cuts = replica.cuts;
        self.schedule(at, Event::StepDown(index, cuts));
        true
    }

    /// The others elect a leader, which counts the time of every session from now on; their clients are dropped meanwhile.
    fn depose(&mut self, index: usize, serves_for: Millis) {
        let known = self.leader.sessions.keys().copied().collect();
        if !self.cut_off(index, serves_for, Some(known)) {
            return;
        }
        self.start_timers();
        for other in (0..self.replicas.len()).filter(|other| *other != index) {
            self.drop_clients(other);
        }
    }

    pub(super) fn step_down(&mut self, index: usize, cuts: u32) {
        let Some(replica) = self.replicas.get_mut(index).filter(|replica| replica.cuts == cuts) else {
            return;
        };
        let Some(cut_off) = &mut replica.cut_off else { return };
        cut_off.looking = true;
        cut_off.held.clear();
        self.drop_clients(index);
    }

    /// A server that stops serving for a while forgets what it has heard.
    fn drop_clients(&mut self, index: usize) {
        if let Some(replica) = self.replicas.get_mut(index) {
            replica.touched.clear();
        }
        let served = self.conns.iter().filter(|(_, conn)| conn.replica == index);
        let ids: Vec<ConnId> = served.map(|(id, _)| *id).collect();
        for id in ids {
            self.server_close(id);
        }
    }

    fn rejoin(&mut self, index: usize) {
        let now = self.now;
        let Some(replica) = self.replicas.get(index) else {
            return;
        };
        if replica.cut_off.as_ref().is_some_and(|cut_off| cut_off.deposed.is_some()) {
            // It learns that there is another leader: what only it has heard is void.
            self.step_down(index, replica.cuts);
        }
        let Some(replica) = self.replicas.get_mut(index) else {
            return;
        };
        let held = replica.take_held();
        replica.catch_up(now);
        // TCP kept the order: the pings that have waited are answered before the leader's answer to anything held.
        self.answer_ping(index);
        self.schedule(now, Event::Step(index));
        for forward in held {
            self.schedule(now, Event::Forwarded(forward));
        }
    }
}

/// Faults.
impl MemoryEnsemble {
    /// Cuts connections, once; their clients connect again. How many were cut.
    pub(crate) fn disconnect(&self, who: Who) -> usize {
        self.with(|world| world.cut_all(who))
    }

    /// From now on new connections of a client (of all) are refused, or no more. Those that stand are left alone.
    pub(crate) fn refuse(&self, group: Option<u32>, on: bool) {
        self.with(|world| world.faults.refused.set(group, on));
    }

    /// From now on nothing of a client (of all) comes through, in either direction, or it does again: then what was held
    /// arrives late, as TCP sends it again.
    pub(crate) fn black_hole(&self, group: Option<u32>, on: bool) {
        self.with(|world| {
            // What arrives at this moment comes behind what is held.
            world.run();
            world.faults.black_hole.set(group, on);
            world.release_held();
        });
    }

    /// Every message of a client (of all) takes so much longer.
    pub(crate) fn delay(&self, group: Option<u32>, by: Duration) {
        self.with(|world| match group {
            None => world.faults.delay_all = millis(by),
            Some(group) => {
                world.faults.delays.insert(group, millis(by));
            }
        });
    }

    /// Ends every refusal, black hole and delay, and joins every replica again. Losses still to come are forgotten.
    pub(crate) fn heal(&self) {
        self.with(|world| {
            // What arrives at this moment comes behind what is held.
            world.run();
            let taken = world.faults.taken;
            world.faults = Faults { taken, ..Faults::default() };
            world.release_held();
            for replica in 0..world.replicas.len() {
                world.rejoin(replica);
            }
        });
    }

    /// The next request of that kind (of any) is carried out and then its connection is cut instead of an answer
    /// (`applied`), or the connection is cut before it is looked at.
    pub(crate) fn lose_next_reply(&self, who: Who, kind: Option<Operation>, applied: bool) {
        self.with(|world| world.faults.losses.push(Loss { who, kind, applied }));
    }

    /// How many replies were lost so far by that lever.
    pub(crate) fn lost_replies(&self) -> u64 {
        self.with(|world| world.faults.taken)
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

    /// Cuts the leader off from the others, who elect another one. For a while it does not know: it answers syncs by itself
    /// and takes sessions up again. Then it drops its clients.
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

    /// Ends that; it catches up with the leader.
    #[cfg(test)]
    pub(crate) fn rejoin(&self, server: usize) {
        self.with(|world| world.rejoin(server));
    }

    /// The client-side half of every session of the group stands still: no ping, no reply, no timer. The servers go on.
    pub(crate) fn freeze(&self, group: u32) {
        self.with(|world| world.freeze(group));
    }

    /// It goes on; what was due happens now.
    pub(crate) fn thaw(&self, group: u32) {
        self.with(|world| {
            // What arrives at this moment comes behind what waits.
            world.run();
            world.thaw(group);
        });
    }
}

/// Changes by hand: committed at once, without a session.
impl MemoryEnsemble {
    pub(crate) fn create_by_hand(&self, path: &str, data: &[u8], mode: CreateMode) -> Result<String, Error> {
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

    pub(crate) fn set_data_by_hand(&self, path: &str, data: &[u8]) -> Result<(), Error> {
        let op = Op::SetData { path: path.to_owned(), data: data.to_vec(), version: None };
        self.with(|world| world.by_hand(op)).map(drop)
    }

    pub(crate) fn delete_by_hand(&self, path: &str) -> Result<(), Error> {
        let op = Op::Delete { path: path.to_owned(), version: None };
        self.with(|world| world.by_hand(op)).map(drop)
    }

    /// The next sequential child of `path` gets the number `next`.
    pub(crate) fn set_sequence(&self, path: &str, next: i32) -> Result<(), Error> {
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

    /// From now on nobody may read or change the node, nor create or delete below it, as with an ACL that grants nothing.
    pub(crate) fn deny(&self, path: &str) {
        self.with(|world| world.leader.denied.insert(path.to_owned()));
    }

    pub(crate) fn allow(&self, path: &str) {
        self.with(|world| world.leader.denied.remove(path));
    }
}
