//! The end of a seed: everything is healed, every partition has an owner again, and all members leave.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::super::ledger::BASE;
use super::{PAUSES, Play};

/// What is there in the end.
impl Play {
    /// Checks that after healing every partition has one owner, and each member its share; then all leave.
    pub(super) async fn end(&mut self) -> Result<(), String> {
        self.hands.leave_nothing(&self.world, &self.ledger);
        let patience = self.world.timeout * 6 + self.delay + PAUSES * 3;
        let deadline = Instant::now() + patience;
        let mut calm_since = Instant::now();
        loop {
            self.world.pass(Duration::from_millis(100)).await;
            self.settle();
            if let Some(violation) = self.ledger.violation() {
                return Err(violation);
            }
            self.make_presentable();
            self.release_what_has_no_node();
            match self.is_calm() {
                Ok(()) if calm_since.elapsed() > Duration::from_secs(5) => break,
                Ok(()) => {}
                Err(why) if Instant::now() > deadline => return Err(format!("{patience:?} after healing: {why}")),
                Err(_) => calm_since = Instant::now(),
            }
        }
        self.all_leave().await
    }

    /// Lets members leave whose id another one has, and lets a candidate join if there is none.
    fn make_presentable(&mut self) {
        let mut ids = BTreeSet::new();
        let twice = self.seats.iter().position(|seat| !ids.insert(seat.id));
        if let Some(at) = twice {
            let seat = self.seats.remove(at);
            self.let_leave(seat);
        }
        if self.joining.is_empty() && !self.seats.iter().any(|seat| seat.is_candidate) {
            let (id, client) = (self.an_id(), self.world.a_client());
            self.join_with(id, client, true);
        }
    }

    /// Releases partitions whose nodes were deleted by hand, as work does whose writes are refused. Members take them
    /// again.
    fn release_what_has_no_node(&self) {
        for owned in self.ledger.holds() {
            if owned.is_held() && self.world.server.stat(owned.fence().path()).is_none() {
                self.world.trace.note(format_args!("{} is released, as its node is gone", owned.id()));
                owned.release();
            }
        }
    }

    /// Returns why not everything is as it should be.
    fn is_calm(&self) -> Result<(), String> {
        if !self.joining.is_empty() || !self.leaving.is_empty() {
            let joining: Vec<u64> = self.joining.iter().map(|joining| joining.number).collect();
            let leaving: Vec<u64> = self.leaving.iter().map(|leaving| leaving.0).collect();
            return Err(format!("{joining:?} have not joined, {leaving:?} have not left"));
        }
        let children = |directory: &str| self.world.server.children(&format!("{BASE}/{directory}"));
        let wanted: BTreeSet<String> = (0..self.hands.partitions).map(|number| number.to_string()).collect();
        let owned = children("owned");
        let mut registrations: BTreeMap<&str, usize> = BTreeMap::new();
        let mut names = Vec::new();
        for node in &owned {
            let (name, tenure) = node.rsplit_once('~').unwrap_or_default();
            *registrations.entry(tenure.split('.').next().unwrap_or_default()).or_default() += 1;
            names.push(name.to_owned());
        }
        names.sort();
        let mut ids: Vec<&str> = self.seats.iter().map(|seat| seat.id).collect();
        ids.sort_unstable();
        let (records, members) = (children("assignments"), children("members"));
        let holders = self.ledger.owners();
        let each = wanted.len() / ids.len()..=wanted.len().div_ceil(ids.len());
        let counts = members.iter().map(|node| {
            let registration = node.rsplit('~').next().unwrap_or_default();
            registrations.get(registration).copied().unwrap_or(0)
        });
        // Leases that expire all the time do not take the nodes.
        let all_hold = self.world.leases_may_expire() || holders.keys().eq(&wanted);
        let is_even = self.is_weighted || counts.into_iter().all(|count| each.contains(&count));
        if names.iter().eq(&wanted) && records == ids && members.len() == ids.len() && all_hold && is_even {
            return Ok(());
        }
        let texts = records.iter().map(|id| {
            let data = self.world.server.get(&format!("{BASE}/assignments/{id}")).unwrap_or_default();
            (id, String::from_utf8_lossy(&data).into_owned())
        });
        let texts: Vec<_> = texts.collect();
        let seats: Vec<_> = self.seats.iter().map(|seat| (seat.number, seat.id, seat.assigner.is_leader())).collect();
        Err(format!("seats {seats:?} hold {holders:?}; nodes {owned:?}, members {members:?}, records {texts:?}"))
    }

    async fn all_leave(&mut self) -> Result<(), String> {
        self.world.trace.note("all leave");
        let one_by_one = self.world.random.bool();
        for seat in std::mem::take(&mut self.seats) {
            let assigner = seat.assigner;
            self.ending.extend(seat.at_work.map(|at_work| (seat.number, at_work)));
            let leaving = async move { assigner.leave().await };
            let leaving = self.world.server.spawn(&self.world.clients[seat.client], leaving);
            self.leaving.push((seat.number, leaving, None));
            let deadline = Instant::now() + self.world.timeout * 3;
            while one_by_one && !self.leaving.is_empty() {
                self.world.pass(Duration::from_millis(20)).await;
                self.settle();
                if Instant::now() > deadline {
                    return Err(format!("{} does not leave", seat.number));
                }
            }
        }
        // A dropped member leaves in the background.
        self.world.pass(self.world.timeout * 3).await;
        self.settle();
        if !self.leaving.is_empty() || !self.ending.is_empty() || self.ledger.at_work() > 0 {
            let (leaving, ending): (Vec<u64>, Vec<u64>) =
                (self.leaving.iter().map(|one| one.0).collect(), self.ending.iter().map(|one| one.0).collect());
            let at_work = self.ledger.at_work();
            return Err(format!("{leaving:?} have not left, {ending:?} still work, {at_work} futures work"));
        }
        for directory in ["members", "owned", "leader"] {
            let left = self.world.server.children(&format!("{BASE}/{directory}"));
            if !left.is_empty() {
                return Err(format!("all have left, but not from {directory}: {left:?}"));
            }
        }
        match self.world.watches() {
            0 => Ok(()),
            watches => Err(format!("all have left, but {watches} watches are left")),
        }
    }
}
