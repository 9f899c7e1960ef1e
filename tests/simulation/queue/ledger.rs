//! The fate of each item, as producers and consumers report it, and the violations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::Instant;
use zookeeper_recipes::queue::{Delivery, Error};
use zookeeper_recipes::testing::{Dialect, TestingServer};
use zookeeper_recipes::{Client, ErrorKind};

use super::claims::Claims;
use crate::trace::Trace;
use crate::world::World;

/// The length of the number in the name of an item.
const NUMBER_BYTES: usize = 10;

/// How a put ended for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It was begun, and dropped, or ended with its task; or its outcome is unknown.
    InDoubt,
    /// The item is in the queue.
    Done,
    /// The item is not in the queue, and never will be.
    Refused,
}

/// Where an item is: names are used again after the queue's own node was deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// How often the node had been deleted when the item was claimed.
    queue: usize,
    /// The digits at the end of the name, which the servers have counted.
    number: String,
    name: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of queue {}", self.name, self.queue)
    }
}

/// An item that a consumer holds.
struct Held {
    place: Place,
    delivery: Weak<Delivery<String>>,
}

impl Held {
    fn is_believed(&self) -> bool {
        self.delivery.upgrade().is_some_and(|delivery| delivery.is_held())
    }

    fn has(&self, item: &str) -> bool {
        self.delivery.upgrade().is_some_and(|delivery| delivery.items().iter().any(|held| held == item))
    }
}

#[derive(Default)]
struct State {
    puts: BTreeMap<String, Put>,
    /// The times with which items were put.
    due: BTreeMap<String, Instant>,
    /// The items that have themselves as ids.
    with_ids: Vec<String>,
    /// The transactions that deleted the queue's own node.
    deletions: Vec<i64>,
    /// The places from which each item was delivered.
    places: BTreeMap<String, BTreeSet<Place>>,
    /// The consumers to which each item was delivered.
    takers: BTreeMap<String, BTreeSet<u64>>,
    /// The fencing token of the latest delivery of each item.
    latest: BTreeMap<String, i64>,
    /// The deliveries that were reported as failed, by their fencing tokens, and whether that was confirmed.
    failed: BTreeMap<Place, BTreeMap<i64, bool>>,
    /// The end of the delay with which an item was returned last, if that was confirmed.
    delayed: BTreeMap<Place, Instant>,
    /// Items that a consumer has tried to ack, and whether that was confirmed.
    acked: BTreeMap<String, bool>,
    /// How many removals of each item are under way, or have an unknown outcome.
    removing: BTreeMap<String, u32>,
    /// Items that a consumer has tried to reject, and whether that was confirmed.
    rejected: BTreeMap<String, bool>,
    held: Vec<Held>,
    acks: u64,
    cancelled: u64,
    violation: Option<String>,
    /// Whether the servers are Keeper's.
    keeper: bool,
    /// Until when a consumer may believe that it holds a lost item, as a claim or a session was ended by hand.
    excused: Option<Instant>,
    /// How often that happened: each time, a claim may have ended before this ledger saw it.
    by_hand: u32,
}

/// The record of a seed. Clones share it.
#[derive(Clone)]
pub(super) struct Ledger {
    max_deliveries: Option<u32>,
    state: Arc<Mutex<State>>,
    claims: Arc<Mutex<Claims>>,
    world: Arc<Mutex<Option<(TestingServer, Trace)>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ledger {
    /// `claims` and `items` are their directories.
    pub(super) fn new(max_deliveries: Option<u32>, claims: &'static str, items: &'static str) -> Self {
        let claims = Arc::new(Mutex::new(Claims::new(claims, items)));
        Ledger { max_deliveries, state: Arc::default(), claims, world: Arc::default() }
    }

    /// Starts to watch a world.
    pub(super) fn watch(&self, world: &World) {
        *lock(&self.world) = Some((world.server.clone(), world.trace.clone()));
        self.state().keeper = world.dialect != Dialect::ZooKeeper;
    }

    /// Handles a failed take. On Keeper, faults may make a client believe that the servers lack what consumers need.
    pub(super) fn cannot_take(&self, who: u64, error: &Error) {
        let said = format!("{who} cannot take: {error}");
        if self.state().keeper && error.kind() == ErrorKind::Unimplemented {
            self.note(said);
        } else {
            self.object(said);
        }
    }

    /// Drops the world, which refers to this ledger.
    pub(super) fn release(&self) {
        *lock(&self.world) = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn note(&self, what: impl std::fmt::Display) {
        if let Some((_, trace)) = &*lock(&self.world) {
            trace.note(what);
        }
    }

    /// Records a violation.
    pub(super) fn object(&self, violation: impl Into<String>) {
        let violation = violation.into();
        self.note(format_args!("VIOLATION: {violation}"));
        self.state().violation.get_or_insert(violation);
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    pub(super) fn excuse_until(&self, until: Instant) {
        let mut state = self.state();
        state.excused = state.excused.max(Some(until));
        state.by_hand += 1;
    }

    pub(super) fn is_excused(&self) -> bool {
        self.state().excused.is_some_and(|until| Instant::now() <= until)
    }

    pub(super) fn begins(&self, item: &str) {
        self.state().puts.insert(item.to_owned(), Put::InDoubt);
    }

    pub(super) fn put(&self, item: &str, how: Put) {
        self.note(format_args!("{item} put: {how:?}"));
        self.state().puts.insert(item.to_owned(), how);
    }

    /// Notes that an item is put with this time, or a later one.
    pub(super) fn is_due(&self, item: &str, at: Instant) {
        self.state().due.insert(item.to_owned(), at);
    }

    /// Notes that an item is put with itself as its id.
    pub(super) fn has_id(&self, item: &str) {
        self.state().with_ids.push(item.to_owned());
    }

    /// Returns the items that may be removed by their ids.
    pub(super) fn with_ids(&self) -> Vec<String> {
        self.state().with_ids.clone()
    }

    pub(super) fn cancelled(&self) {
        self.state().cancelled += 1;
    }

    /// Notes that this transaction deleted the queue's own node: names are used again.
    pub(super) fn starts_over(&self, zxid: i64) {
        self.state().deletions.push(zxid);
    }

    pub(super) fn place(&self, delivery: &Delivery<String>) -> Place {
        // The node is deleted only while it is empty, so a claim is on an item of the queue that existed at that time.
        let claimed = delivery.fencing_token();
        let queue = self.state().deletions.iter().filter(|zxid| **zxid < claimed).count();
        let (_, number) = delivery.name().split_at(delivery.name().len() - NUMBER_BYTES);
        Place { queue, number: number.to_owned(), name: delivery.name().to_owned() }
    }

    /// Notes that a consumer of this client is closed or dropped, or a take dropped for good: its claims are given up.
    pub(super) fn leaves(&self, client: &Client) {
        client.session_id().into_iter().for_each(|session| lock(&self.claims).left(session));
    }

    /// Notes that the claim on an item of this name was deleted by hand.
    pub(super) fn claim_deleted(&self, name: &str) {
        lock(&self.claims).forget(name);
    }

    pub(super) fn taken(&self, who: u64, delivery: &Arc<Delivery<String>>) {
        let (place, attempt) = (self.place(delivery), delivery.attempt());
        self.note(format_args!("{who} takes {place}, attempt {attempt}: {:?}", delivery.items()));
        if !delivery.is_held() {
            self.object(format!("{who} gets {place}, but the claim is already lost"));
        }
        if self.max_deliveries.is_some_and(|most| attempt > most) {
            self.object(format!("{who} gets {place} as delivery {attempt}"));
        }
        let token = delivery.fencing_token();
        let may_be = self.failures(&place, token);
        if !may_be.contains(&(attempt - 1)) {
            self.object(format!("{who} gets {place} as delivery {attempt}, but {may_be:?} have failed"));
        }
        if self.state().delayed.get(&place).is_some_and(|until| Instant::now() < *until) && !self.is_excused() {
            self.object(format!("{who} gets {place} before its time"));
        }
        let early =
            delivery.items().iter().find(|item| self.state().due.get(*item).is_some_and(|at| Instant::now() < *at));
        if let Some(item) = early {
            self.object(format!("{who} gets {item} before the time with which it was put"));
        }
        lock(&self.claims).taken(token);
        let mut late = None;
        {
            let mut state = self.state();
            for item in delivery.items() {
                state.places.entry(item.clone()).or_default().insert(place.clone());
                state.takers.entry(item.clone()).or_default().insert(who);
                if state.acked.get(item) == Some(&true) || state.rejected.get(item) == Some(&true) {
                    late = Some(item.clone());
                }
                state.latest.insert(item.clone(), token);
            }
            state.held.retain(|held| held.delivery.strong_count() > 0);
            state.held.push(Held { place, delivery: Arc::downgrade(delivery) });
        }
        if let Some(item) = late
            && !self.is_excused()
        {
            self.object(format!("{item} was no longer in the queue, but {who} gets it"));
        }
    }

    /// Returns the fencing token of the latest delivery of an item, or 0.
    pub(super) fn latest(&self, item: &str) -> i64 {
        self.state().latest.get(item).copied().unwrap_or(0)
    }

    /// Returns how many deliveries of an item can have failed before this claim: claims that ended with their sessions,
    /// and deliveries that were reported as failed.
    fn failures(&self, place: &Place, before: i64) -> std::ops::RangeInclusive<u32> {
        let state = self.state();
        let claims = lock(&self.claims);
        let in_queue = |token: i64| state.deletions.iter().filter(|zxid| **zxid < token).count();
        let is_its = |token: i64, name: &str| token < before && name == place.name && in_queue(token) == place.queue;
        let died = claims.died().iter().filter(|died| is_its(died.token, &died.name));
        let died = died.map(|died| (died.token, died.certain));
        let reported = state.failed.get(place).into_iter().flatten().filter(|(token, _)| **token < before);
        // A delivery that was reported may have died, too, if the answer was lost.
        let mut all = BTreeMap::new();
        for (token, certain) in died.chain(reported.map(|(token, confirmed)| (*token, *confirmed))) {
            *all.entry(token).or_default() |= certain;
        }
        let count = |certain: bool| all.values().filter(|one| !certain || **one).count();
        let [least, most] = [true, false].map(|certain| u32::try_from(count(certain)).expect("few"));
        least..=most + state.by_hand
    }

    /// Notes that this delivery is about to be reported as failed, or that it was.
    pub(super) fn fails(&self, place: &Place, token: i64, confirmed: bool) {
        *self.state().failed.entry(place.clone()).or_default().entry(token).or_default() |= confirmed;
    }

    /// Notes that an item was returned, and that no consumer may claim it before this time.
    pub(super) fn delays(&self, place: &Place, until: Instant) {
        self.state().delayed.insert(place.clone(), until);
    }

    /// Notes that this item is about to be removed by its id.
    pub(super) fn removes(&self, item: &str) {
        *self.state().removing.entry(item.to_owned()).or_default() += 1;
    }

    /// Notes whether an item was removed, which is known.
    pub(super) fn removed(&self, item: &str, removed: bool) {
        let (mut held, mut twice) = (false, false);
        {
            let mut state = self.state();
            *state.removing.entry(item.to_owned()).or_default() -= 1;
            if removed {
                held = state.held.iter().any(|held| held.is_believed() && held.has(item));
                twice = state.acked.insert(item.to_owned(), true) == Some(true);
            }
        }
        if held && !self.is_excused() {
            self.object(format!("{item} was removed, but a consumer believes that it holds it"));
        }
        if twice && !self.is_excused() {
            self.object(format!("{item} was removed, but had left the queue before"));
        }
    }

    /// Notes that a Curator consumer has taken these out of the queue, under its lock, or an operator by hand.
    pub(super) fn taken_by_curator(&self, items: &[String]) {
        let mut state = self.state();
        for item in items {
            state.acked.insert(item.clone(), true);
        }
    }

    /// Notes that a consumer is about to ack these.
    pub(super) fn acks(&self, items: &[String]) {
        let mut state = self.state();
        for item in items {
            state.acked.entry(item.clone()).or_insert(false);
        }
    }

    pub(super) fn acked(&self, place: &Place, items: &[String]) {
        let (mut twice, mut others) = (None, false);
        {
            let mut state = self.state();
            others |= state.held.iter().any(|held| held.place == *place && held.is_believed());
            state.acks += 1;
            for item in items {
                if state.acked.insert(item.clone(), true) == Some(true) {
                    twice = Some(item.clone());
                }
            }
        }
        // An unanswered ack cannot be distinguished from the ack of another consumer that got the item.
        if let Some(item) = twice
            && !self.is_excused()
        {
            self.object(format!("{item} was acked twice"));
        }
        if others && !self.is_excused() {
            self.object(format!("{place} was acked, but another consumer believes that it holds it"));
        }
    }

    pub(super) fn rejects(&self, items: &[String], done: bool) {
        let mut state = self.state();
        for item in items {
            *state.rejected.entry(item.clone()).or_insert(false) |= done;
        }
    }

    /// Called after each step.
    pub(super) fn look(&self) {
        self.look_at_claims();
        self.look_at_holders();
    }

    /// Checks that no item stays claimed that no caller takes.
    fn look_at_claims(&self) {
        let given_up = lock(&self.world).as_ref().and_then(|(server, _)| lock(&self.claims).given_up(server));
        given_up.into_iter().for_each(|violation| self.object(violation));
    }

    /// Checks that no two consumers believe that they hold the same item.
    fn look_at_holders(&self) {
        let mut twice = None;
        {
            let state = self.state();
            if state.violation.is_some() || state.held.len() < 2 {
                return;
            }
            let mut holders = BTreeMap::<&Place, usize>::new();
            for held in &state.held {
                if held.is_believed() {
                    *holders.entry(&held.place).or_default() += 1;
                }
            }
            if let Some((place, _)) = holders.iter().find(|(_, holders)| **holders > 1) {
                twice = Some((*place).clone());
            }
        }
        if let Some(place) = twice
            && !self.is_excused()
        {
            self.object(format!("two consumers believe that they hold {place}"));
        }
    }

    pub(super) fn acks_so_far(&self) -> u64 {
        self.state().acks
    }

    pub(super) fn hand_overs(&self) -> u64 {
        self.state().takers.values().filter(|takers| takers.len() > 1).count() as u64
    }

    pub(super) fn cancelled_so_far(&self) -> u64 {
        self.state().cancelled
    }

    /// Checks the outcome of all items in the end, when the queue is empty. `dead` are the items of the dead letters.
    /// If claims were deleted by hand, an unanswered ack cannot be distinguished from another consumer's.
    pub(super) fn sum(&self, dead: &[(String, u32)], claims_deleted: bool) -> Result<(), String> {
        let places = self.state().places.clone();
        for (item, attempts) in dead {
            let given_up = self.state().rejected.contains_key(item);
            let place = places.get(item).and_then(BTreeSet::first).filter(|_| !given_up);
            if let Some(most) = place.map(|place| *self.failures(place, i64::MAX).end()).filter(|most| attempts > most)
            {
                return Err(format!("{item} is a dead letter after {attempts} deliveries, but at most {most} failed"));
            }
        }
        let state = self.state();
        for (item, put) in &state.puts {
            let may_be_removed = state.removing.get(item).is_some_and(|removals| *removals > 0);
            let settled =
                may_be_removed || state.acked.contains_key(item) || dead.iter().any(|(letter, _)| letter == item);
            match put {
                Put::Done if !settled => return Err(format!("{item} was put, but is lost")),
                Put::Refused if state.places.contains_key(item) => {
                    return Err(format!("{item} was not put, but was delivered"));
                }
                _ => {}
            }
        }
        for (item, places) in &state.places {
            if !state.puts.contains_key(item) {
                return Err(format!("{item} was delivered, but was never put"));
            }
            if places.len() > 1 {
                return Err(format!("{item} was in the queue more than once: {places:?}"));
            }
        }
        for (item, attempts) in dead {
            if dead.iter().filter(|(other, _)| other == item).count() > 1 {
                return Err(format!("there are two dead letters of {item}"));
            }
            if !claims_deleted && state.acked.get(item) == Some(&true) {
                return Err(format!("{item} was acked, but is a dead letter"));
            }
            let given_up = state.rejected.contains_key(item);
            if !given_up && self.max_deliveries.is_none_or(|most| *attempts < most) {
                return Err(format!("{item} is a dead letter after {attempts} deliveries, but was never rejected"));
            }
        }
        if let Some((item, _)) =
            state.rejected.iter().find(|(item, done)| **done && !dead.iter().any(|(letter, _)| letter == *item))
            && !claims_deleted
        {
            return Err(format!("{item} was rejected, but is not a dead letter"));
        }
        in_order(&state.places)
    }
}

/// Checks that each producer's items are in the order in which it put them.
fn in_order(places: &BTreeMap<String, BTreeSet<Place>>) -> Result<(), String> {
    let mut of_producer = BTreeMap::<&str, Vec<(u64, &Place)>>::new();
    for (item, places) in places {
        let (producer, number) = item.split_once(':').ok_or("an item has a number")?;
        let number = number.parse::<u64>().map_err(|error| error.to_string())?;
        of_producer.entry(producer).or_default().extend(places.first().map(|place| (number, place)));
    }
    for (producer, mut items) in of_producer {
        items.sort_unstable();
        if let Some(two) = items.windows(2).find(|two| two[0].1 > two[1].1) {
            return Err(format!("item {} of producer {producer} is behind item {}", two[0].0, two[1].0));
        }
    }
    Ok(())
}
