//! Servers that stop, are cut off from the leader, or are deposed, and what becomes of their clients.

use std::collections::BTreeSet;

use crate::testing::ensemble::faults::Who;
use crate::testing::ensemble::leader::Leader;
use crate::testing::ensemble::replica::{CutOff, Replica};
use crate::testing::ensemble::world::{Event, World};
use crate::testing::ensemble::{ConnId, Millis};

impl World {
    pub(crate) fn cut_all(&mut self, who: Who) -> usize {
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

    pub(crate) fn stop(&mut self) {
        self.running = false;
        self.incarnation += 1;
        // What was proposed is in the log of a quorum.
        while self.leader.commit().is_some() {}
        self.cut_all(Who::All);
    }

    pub(crate) fn start(&mut self, keep_data: bool) {
        if self.running {
            return;
        }
        self.running = true;
        self.incarnation += 1;
        self.last_commit = self.now;
        if !keep_data {
            let denied = std::mem::take(&mut self.leader.denied);
            self.leader = Leader::new(self.options.extended_types, self.options.zxid);
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
        // A server that starts gives every session its full timeout again.
        self.start_timers();
    }

    pub(crate) fn cut_off(&mut self, index: usize, serves_for: Millis, deposed: Option<BTreeSet<i64>>) -> bool {
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

    /// Deposes a leader. The other servers elect a new one, which restarts the time of every session. Meanwhile they
    /// drop their clients.
    pub(crate) fn depose(&mut self, index: usize, serves_for: Millis) {
        let known = self.leader.sessions.keys().copied().collect();
        if !self.cut_off(index, serves_for, Some(known)) {
            return;
        }
        self.start_timers();
        for other in (0..self.replicas.len()).filter(|other| *other != index) {
            self.drop_clients(other);
        }
    }

    pub(crate) fn step_down(&mut self, index: usize, cuts: u32) {
        let Some(replica) = self.replicas.get_mut(index).filter(|replica| replica.cuts == cuts) else {
            return;
        };
        let Some(cut_off) = &mut replica.cut_off else { return };
        cut_off.looking = true;
        cut_off.held.clear();
        self.drop_clients(index);
    }

    /// Drops the clients of a server that stops serving for a while. It forgets which sessions it has heard from.
    fn drop_clients(&mut self, index: usize) {
        if let Some(replica) = self.replicas.get_mut(index) {
            replica.touched.clear();
            replica.local_sessions.clear();
        }
        let served = self.conns.iter().filter(|(_, conn)| conn.replica == index);
        let ids: Vec<ConnId> = served.map(|(id, _)| *id).collect();
        for id in ids {
            self.server_close(id);
        }
    }

    pub(crate) fn rejoin(&mut self, index: usize) {
        let now = self.now;
        if self.is_read_only(index) {
            // It starts again, as a follower.
            self.drop_clients(index);
        }
        let Some(replica) = self.replicas.get(index) else {
            return;
        };
        if replica.cut_off.as_ref().is_some_and(|cut_off| cut_off.deposed.is_some()) {
            // The server learns of the new leader and discards what only it has received.
            self.step_down(index, replica.cuts);
        }
        let Some(replica) = self.replicas.get_mut(index) else {
            return;
        };
        let held = replica.take_held();
        replica.catch_up(now);
        // TCP keeps the order: the server answers the pings that waited before the leader gets any held request.
        self.answer_ping(index);
        self.schedule(now, Event::Step(index));
        for forward in held {
            self.schedule(now, Event::Forwarded(forward));
        }
    }
}
