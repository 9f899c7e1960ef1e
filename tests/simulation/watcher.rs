//! Invariants that hold at every moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;
use zookeeper_recipes::Client;
use zookeeper_recipes::testing::TestingServer;

use crate::line::{Line, is_there};
use crate::trace::Trace;
use crate::world::World;

/// An object that may believe to be the holder.
pub(crate) trait Holder: Send + Sync + 'static {
    /// The token, if it believes so at this moment.
    fn token(&self) -> Option<i64>;
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
    greatest: i64,
    holder: Option<u64>,
    /// The nodes of those who hold, or held, by their tokens.
    nodes: BTreeMap<i64, String>,
}

/// Looks at all who take part after each step.
pub(crate) struct Watcher {
    line: Line,
    seats: Mutex<Vec<Seat>>,
    /// Tokens of nodes that came first when another client deleted them. Their holders learn it by a
    /// message, so for as long as it takes they may believe what is true no more: no clock can help, and the
    /// documentation says so. Until when that may be, if there is a bound.
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

    /// From now on there is a world to watch.
    pub(crate) fn watch(&self, world: &World) {
        *lock(&self.world) = Some((world.server.clone(), world.trace.clone()));
    }

    /// Lets go of the world, which holds this watcher.
    pub(crate) fn release(&self) {
        *lock(&self.world) = None;
        lock(&self.seats).clear();
    }

    /// Looks at `holder` from now on. All holders of one number may believe at once: they are one.
    pub(crate) fn sit<H: Holder>(&self, number: u64, client: &Client, holder: &Arc<H>) {
        let holder: Weak<H> = Arc::downgrade(holder);
        let mut seats = lock(&self.seats);
        seats.retain(|seat| seat.holder.strong_count() > 0);
        seats.push(Seat { number, client: client.clone(), holder });
    }

    pub(crate) fn depose(&self, token: i64, until: Option<Instant>) {
        lock(&self.deposed).insert(token, until);
    }

    /// Whether another client has deleted this node, however long ago.
    pub(crate) fn was_deposed(&self, token: i64) -> bool {
        lock(&self.deposed).contains_key(&token)
    }

    pub(crate) fn depose_session(&self, session: i64, until: Instant) {
        lock(&self.ended).insert(session, Some(until));
    }

    /// The session of a participant that is checked.
    pub(crate) fn session_of(&self, number: u64) -> Option<i64> {
        lock(&self.seats).iter().find(|seat| seat.number == number)?.client.session_id()
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }

    /// Something else was seen that must not happen.
    pub(crate) fn object(&self, violation: impl Into<String>) {
        let world = lock(&self.world);
        if let Some((_, trace)) = world.as_ref() {
            violated(&mut lock(&self.seen), trace, violation.into());
        }
    }

    /// Those who hold at this moment, with their tokens, without those deposed.
    pub(crate) fn holders(&self) -> Vec<(u64, i64)> {
        let (deposed, ended) = (lock(&self.deposed), lock(&self.ended));
        let in_its_session = |seat: &Seat| seat.client.session_id().is_some_and(|id| !excused(&ended, id));
        let holding = lock(&self.seats);
        let holding = holding.iter().filter_map(|seat| {
            let token = seat.holder.upgrade()?.token()?;
            in_its_session(seat).then_some((seat.number, token))
        });
        let mut holding: Vec<_> = holding.filter(|(_, token)| !excused(&deposed, *token)).collect();
        holding.sort_unstable();
        holding.dedup();
        holding
    }

    /// Called after each step of each task.
    pub(crate) fn look(&self) {
        let holders = self.holders();
        let Some((holder, token)) = holders.first().copied() else { return };
        let world = lock(&self.world);
        let Some((server, trace)) = world.as_ref() else { return };
        let mut seen = lock(&self.seen);
        if seen.violation.is_some() {
            return;
        }
        if holders.len() > 1 {
            return violated(&mut seen, trace, format!("two hold at one moment (who, token): {holders:?}"));
        }
        if seen.holder != Some(holder) || seen.greatest != token {
            self.turn(&mut seen, server, trace, holder, token);
        }
        if let Some(path) = seen.nodes.get(&token)
            && !is_there(server, path, token)
        {
            let violation = format!("{holder} holds with token {token}, and its node {path} is no more");
            violated(&mut seen, trace, violation);
        }
    }

    fn turn(&self, seen: &mut Seen, server: &TestingServer, trace: &Trace, holder: u64, token: i64) {
        if token < seen.greatest || (token == seen.greatest && seen.holder != Some(holder)) {
            let violation = format!("{holder} holds with token {token} after token {}", seen.greatest);
            return violated(seen, trace, violation);
        }
        trace.note(format_args!("{holder} holds, with token {token}"));
        seen.turns += 1;
        seen.hand_overs += u64::from(seen.holder.is_some_and(|last| last != holder));
        (seen.holder, seen.greatest) = (Some(holder), token);
        match self.line.places(server).into_iter().next() {
            Some(first) if first.czxid == token => drop(seen.nodes.insert(token, first.path)),
            first => violated(seen, trace, format!("{holder} holds with token {token}, and the first is {first:?}")),
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
