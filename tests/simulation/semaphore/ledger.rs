//! The invariants: which workers have permits, and how many permits are in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;
use zookeeper_recipes::Client;
use zookeeper_recipes::semaphore::SemaphoreGuard;
use zookeeper_recipes::testing::TestingServer;

use crate::trace::Trace;
use crate::world::World;

/// A worker that has permits, as long as it has the guard.
struct Seat {
    number: u64,
    client: Client,
    guard: Weak<SemaphoreGuard>,
    /// The paths of the leases, which no other lease ever has.
    leases: Vec<String>,
}

/// What was seen so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) turns: u64,
    pub(super) hand_overs: u64,
    pub(super) violation: Option<String>,
    last: Option<u64>,
}

/// The observations of a seed.
#[derive(Default)]
pub(super) struct Ledger {
    seats: Mutex<Vec<Seat>>,
    /// All numbers of permits that were in force, in order.
    numbers: Mutex<Vec<i64>>,
    /// Leases that were deleted by hand: their holders need not notice.
    deposed: Mutex<BTreeSet<String>>,
    /// Sessions that were ended by hand, and until when their holders may believe that they hold.
    ended: Mutex<BTreeMap<i64, Instant>>,
    seen: Mutex<Seen>,
    world: Mutex<Option<(TestingServer, Trace)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    /// Starts to watch a world.
    pub(super) fn watch(&self, world: &World) {
        *lock(&self.world) = Some((world.server.clone(), world.trace.clone()));
    }

    /// Drops the world, which refers to this ledger.
    pub(super) fn release(&self) {
        *lock(&self.world) = None;
        lock(&self.seats).clear();
    }

    pub(super) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Notes how many permits are in force from now on.
    pub(super) fn set(&self, permits: i32) {
        lock(&self.numbers).push(i64::from(permits));
    }

    /// Returns the moment to pass to [`sit`](Self::sit) for a call that begins now.
    pub(super) fn now(&self) -> usize {
        lock(&self.numbers).len()
    }

    /// Returns the number of permits in force.
    pub(super) fn in_force(&self) -> i64 {
        lock(&self.numbers).last().copied().unwrap_or_default()
    }

    pub(super) fn depose(&self, lease: String) {
        lock(&self.deposed).insert(lease);
    }

    pub(super) fn depose_session(&self, session: i64, until: Instant) {
        lock(&self.ended).insert(session, until);
    }

    /// Returns the session of a worker that has permits.
    pub(super) fn a_session(&self) -> Option<i64> {
        lock(&self.seats).first()?.client.session_id()
    }

    /// Notes that a worker has acquired permits, in a call that began at this moment. All permits taken now must be
    /// within the number in force at some moment of the call.
    pub(super) fn sit(&self, number: u64, client: &Client, guard: &Arc<SemaphoreGuard>, begun: usize) {
        let world = lock(&self.world);
        let Some((_, trace)) = world.as_ref() else { return };
        let leases: Vec<_> = guard.node_paths().map(str::to_owned).collect();
        trace.note(format_args!("{number} has {leases:?}"));
        let mut seats = lock(&self.seats);
        seats.retain(|seat| seat.guard.strong_count() > 0);
        seats.push(Seat { number, client: client.clone(), guard: Arc::downgrade(guard), leases });
        let holding = self.holding(&seats);
        let is_new = holding.iter().any(|(holder, _)| *holder == number);
        let taken: usize = holding.iter().map(|(_, permits)| permits).sum();
        let mut seen = lock(&self.seen);
        seen.turns += 1;
        seen.hand_overs += u64::from(seen.last.replace(number).is_some_and(|last| last != number));
        let numbers = lock(&self.numbers);
        let most = numbers[begun.saturating_sub(1)..].iter().copied().max().unwrap_or_default();
        if is_new && i64::try_from(taken).is_ok_and(|taken| taken > most) {
            let violation = format!("{number} enters, and {taken} of {most} permits are taken: {holding:?}");
            violated(&mut seen, trace, violation);
        }
    }

    /// Records another violation.
    pub(super) fn object(&self, violation: impl Into<String>) {
        let world = lock(&self.world);
        if let Some((_, trace)) = world.as_ref() {
            violated(&mut lock(&self.seen), trace, violation.into());
        }
    }

    /// Called after each step of each task. Checks that all permits that are taken have their leases, and that they are
    /// never more than were ever in force.
    pub(super) fn look(&self) {
        let world = lock(&self.world);
        let Some((server, trace)) = world.as_ref() else { return };
        let seats = lock(&self.seats);
        let holding = self.holding(&seats);
        let taken: usize = holding.iter().map(|(_, permits)| permits).sum();
        let most = lock(&self.numbers).iter().copied().max().unwrap_or_default();
        let mut seen = lock(&self.seen);
        if seen.violation.is_some() {
            return;
        }
        if i64::try_from(taken).is_ok_and(|taken| taken > most) {
            violated(&mut seen, trace, format!("{taken} of {most} permits are taken: {holding:?}"));
        }
        for seat in seats.iter().filter(|seat| holding.iter().any(|(number, _)| *number == seat.number)) {
            if let Some(path) = seat.leases.iter().find(|path| server.stat(path).is_none()) {
                violated(&mut seen, trace, format!("{} has permits, but its lease {path} is gone", seat.number));
            }
        }
    }

    /// Returns the workers that believe that they hold, with their permits, except those that cannot know better.
    fn holding(&self, seats: &[Seat]) -> Vec<(u64, usize)> {
        let (deposed, ended) = (lock(&self.deposed), lock(&self.ended));
        let excused = |seat: &Seat| {
            let session = seat.client.session_id();
            session.is_none_or(|id| ended.get(&id).is_some_and(|until| Instant::now() <= *until))
                || seat.leases.iter().any(|lease| deposed.contains(lease))
        };
        let holds = |seat: &&Seat| seat.guard.upgrade().is_some_and(|guard| guard.is_held());
        let holding = seats.iter().filter(holds).filter(|seat| !excused(seat));
        holding.map(|seat| (seat.number, seat.leases.len())).collect()
    }
}

fn violated(seen: &mut Seen, trace: &Trace, violation: String) {
    trace.note(format_args!("VIOLATION: {violation}"));
    seen.violation.get_or_insert(violation);
}
