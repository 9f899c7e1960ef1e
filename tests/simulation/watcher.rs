//! Invariants that hold at every moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;
use zookeeper_recipes::Client;
use zookeeper_recipes::testing::TestingServer;

use crate::line::{Line, is_there};
use crate::trace::Trace;
use crate::world::World;

/// An object that may believe that it is the holder.
pub(crate) trait Holder: Send + Sync + 'static {
    /// Returns the token, if the object believes that it holds at this moment.
    fn token(&self) -> Option<i64>;

    /// Returns the transaction that created its node.
    fn czxid(&self, token: i64) -> i64 {
        token
    }

    /// Returns whether this is a reader, which may hold together with other readers.
    fn is_reader(&self) -> bool {
        false
    }
}

/// A holder at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Holding {
    number: u64,
    token: i64,
    czxid: i64,
    is_reader: bool,
}

/// A participant that is checked for as long as it exists.
struct Seat {
    number: u64,
    client: Client,
    holder: Weak<dyn Holder>,
}

/// The observations so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) turns: u64,
    pub(crate) hand_overs: u64,
    pub(crate) violation: Option<String>,
    /// The greatest token, and its holder.
    greatest: i64,
    holder: Option<u64>,
    /// The greatest token of an exclusive holder, and that holder.
    greatest_alone: i64,
    alone: Option<u64>,
    /// The nodes of present and past holders, by the transactions that created them.
    nodes: BTreeMap<i64, String>,
}

/// Checks all participants after each step.
pub(crate) struct Watcher {
    line: Line,
    seats: Mutex<Vec<Seat>>,
    /// The tokens of nodes that came first when another client deleted them, and until when that excuses their holders,
    /// if there is a bound. A holder learns of the deletion by a message, and until then it may believe that it still
    /// holds: no clock can prevent this, and the documentation says so.
    deposed: Mutex<BTreeMap<i64, Option<Instant>>>,
    /// Sessions that another client ended, likewise.
    ended: Mutex<BTreeMap<i64, Option<Instant>>>,
    seen: Mutex<Seen>,
    world: Mutex<Option<(TestingServer, Trace)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watcher {
    pub(crate) fn new(line: Line) -> Self {
        Watcher {
            line,
            seats: Mutex::default(),
            deposed: Mutex::default(),
            ended: Mutex::default(),
            seen: Mutex::default(),
            world: Mutex::default(),
        }
    }

    /// Starts to watch a world.
    pub(crate) fn watch(&self, world: &World) {
        *lock(&self.world) = Some((world.server.clone(), world.trace.clone()));
    }

    /// Drops the world, which refers to this watcher.
    pub(crate) fn release(&self) {
        *lock(&self.world) = None;
        lock(&self.seats).clear();
    }

    /// Checks `holder` from now on. Holders with the same number and token count as one.
    pub(crate) fn sit<H: Holder>(&self, number: u64, client: &Client, holder: &Arc<H>) {
        let holder: Weak<H> = Arc::downgrade(holder);
        let mut seats = lock(&self.seats);
        seats.retain(|seat| seat.holder.strong_count() > 0);
        seats.push(Seat { number, client: client.clone(), holder });
    }

    pub(crate) fn depose(&self, token: i64, until: Option<Instant>) {
        lock(&self.deposed).insert(token, until);
    }

    /// Returns whether another client has deleted this node, however long ago.
    pub(crate) fn was_deposed(&self, token: i64) -> bool {
        lock(&self.deposed).contains_key(&token)
    }

    pub(crate) fn depose_session(&self, session: i64, until: Instant) {
        lock(&self.ended).insert(session, Some(until));
    }

    /// Returns the session of a participant that is being checked.
    pub(crate) fn session_of(&self, number: u64) -> Option<i64> {
        lock(&self.seats).iter().find(|seat| seat.number == number)?.client.session_id()
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Records another violation.
    pub(crate) fn object(&self, violation: impl Into<String>) {
        let world = lock(&self.world);
        if let Some((_, trace)) = world.as_ref() {
            violated(&mut lock(&self.seen), trace, violation.into());
        }
    }

    /// Returns the present holders that are not excused, with their tokens.
    pub(crate) fn holders(&self) -> Vec<(u64, i64)> {
        self.holding().iter().map(|one| (one.number, one.token)).collect()
    }

    fn holding(&self) -> Vec<Holding> {
        let (deposed, ended) = (lock(&self.deposed), lock(&self.ended));
        let in_its_session = |seat: &Seat| seat.client.session_id().is_some_and(|id| !excused(&ended, id));
        let holding = lock(&self.seats);
        let holding = holding.iter().filter_map(|seat| {
            let holder = seat.holder.upgrade()?;
            let token = holder.token()?;
            let (number, czxid, is_reader) = (seat.number, holder.czxid(token), holder.is_reader());
            in_its_session(seat).then_some(Holding { number, token, czxid, is_reader })
        });
        let mut holding: Vec<_> = holding.filter(|one| !excused(&deposed, one.czxid)).collect();
        holding.sort_unstable();
        holding.dedup();
        holding
    }

    /// Called after each step of each task.
    pub(crate) fn look(&self) {
        let holding = self.holding();
        if holding.is_empty() {
            return;
        }
        let world = lock(&self.world);
        let Some((server, trace)) = world.as_ref() else { return };
        let mut seen = lock(&self.seen);
        if seen.violation.is_some() {
            return;
        }
        if holding.len() > 1 && !holding.iter().all(|one| one.is_reader) {
            let holders: Vec<_> = holding.iter().map(|one| (one.number, one.token)).collect();
            return violated(&mut seen, trace, format!("several hold at the same time (who, token): {holders:?}"));
        }
        for one in &holding {
            self.look_at(&mut seen, server, trace, one);
        }
    }

    fn look_at(&self, seen: &mut Seen, server: &TestingServer, trace: &Trace, one: &Holding) {
        let Holding { number, token, czxid, is_reader } = *one;
        let (greatest, whose) =
            if is_reader { (seen.greatest_alone, seen.alone) } else { (seen.greatest, seen.holder) };
        if token < greatest || (token == greatest && whose != Some(number)) {
            return violated(seen, trace, format!("{number} holds with token {token} after token {greatest}"));
        }
        if !seen.nodes.contains_key(&czxid) {
            self.turn(seen, server, trace, one);
        }
        if let Some(path) = seen.nodes.get(&czxid)
            && !is_there(server, path, czxid)
        {
            let violation = format!("{number} holds with token {token}, but its node {path} is gone");
            violated(seen, trace, violation);
        }
    }

    fn turn(&self, seen: &mut Seen, server: &TestingServer, trace: &Trace, one: &Holding) {
        let Holding { number, token, czxid, is_reader } = *one;
        let role = if is_reader { "reads" } else { "holds" };
        trace.note(format_args!("{number} {role}, with token {token}"));
        seen.turns += 1;
        seen.hand_overs += u64::from(seen.holder.is_some_and(|last| last != number));
        if token >= seen.greatest {
            (seen.holder, seen.greatest) = (Some(number), token);
        }
        if !is_reader {
            (seen.alone, seen.greatest_alone) = (Some(number), token);
        }
        let places = self.line.places(server);
        let ahead = places.iter().find(|place| place.czxid < token && !(is_reader && self.line.is_reader(place)));
        if let Some(ahead) = ahead {
            return violated(seen, trace, format!("{number} holds with token {token}, but {ahead:?} is ahead"));
        }
        match places.into_iter().find(|place| place.czxid == czxid) {
            Some(own) => drop(seen.nodes.insert(czxid, own.path)),
            None => violated(seen, trace, format!("{number} holds with token {token}, but has no node")),
        }
    }
}

fn excused(until: &BTreeMap<i64, Option<Instant>>, who: i64) -> bool {
    until.get(&who).is_some_and(|until| until.is_none_or(|until| Instant::now() <= until))
}

fn violated(seen: &mut Seen, trace: &Trace, violation: String) {
    trace.note(format_args!("VIOLATION: {violation}"));
    seen.violation.get_or_insert(violation);
}
