//! A reader with a cache: it checks each snapshot, follows the changes, and asks for current snapshots.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use futures::{FutureExt, join};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::Client;
use zookeeper_recipes::cache::{Cache, Change};

use super::history::{Id, Ids, Part, ids, is_unreadable};
use super::ledger::Ledger;

/// Subscribers that may be behind by this many batches never lag in a seed: they pause for two seconds at most, and
/// there is at most one write per millisecond.
pub(super) const NEVER_LAGS: usize = 4_096;

/// What a reader asks for, and how.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) number: u64,
    pub(crate) part: Part,
    pub(crate) with_data: bool,
    pub(crate) capacity: usize,
    /// The longest pause of the subscriber of the changes.
    pub(crate) slow: Duration,
    /// The longest pause between two calls of `synced`.
    pub(crate) pause: Duration,
    /// A call of `synced` is dropped after a random time of up to this.
    pub(crate) patience: Duration,
    /// The network has no faults, and no call of `synced` may take longer.
    pub(crate) bound: Option<Duration>,
    pub(crate) seed: u64,
}

/// A cache, and the fold of its changes.
type Read = (Cache<Vec<u8>>, Ids);

/// The cache and the fold, once the cache was started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slot(Arc<Mutex<Option<Read>>>);

impl Slot {
    fn with<R>(&self, act: impl FnOnce(&mut Option<Read>) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the cache and the fold of its changes.
    pub(crate) fn get(&self) -> Option<(Cache<Vec<u8>>, Ids)> {
        self.with(|slot| slot.clone())
    }

    pub(crate) fn clear(&self) {
        self.with(|slot| *slot = None);
    }

    fn folded(&self, fold: &Ids) {
        self.with(|slot| {
            if let Some((_, known)) = slot {
                known.clone_from(fold);
            }
        });
    }
}

/// Reads until the client is closed, or forever.
pub(crate) async fn read(plan: Plan, client: Client, ledger: Ledger, slot: Slot) {
    let Part { root, with_root, depth, without } = plan.part.clone();
    let builder = match (with_root, depth) {
        (false, _) => Cache::children(&client, root),
        (true, 0) => Cache::node(&client, root),
        (true, _) => Cache::tree(&client, root),
    };
    let mut builder = builder.depth(depth).capacity(plan.capacity);
    if let Some(without) = without {
        builder = builder.filter(move |path| path != without);
    }
    if !plan.with_data {
        builder = builder.without_data();
    }
    drop(client);
    let began = ledger.now();
    let asked = Instant::now();
    let cache = match builder.start().await {
        Ok(cache) => cache,
        Err(error) => return ledger.object(format!("cache {}: {error}", plan.number)),
    };
    ledger.contains(plan.number, &plan.part, began, asked, &cache.snapshot());
    slot.with(|slot| *slot = Some((cache.clone(), Ids::new())));
    let looking = cache.wait_for(|snapshot| {
        ledger.shows(plan.number, &plan.part, plan.with_data, snapshot);
        false
    });
    let following = unconstrained(follow(&plan, &cache, &ledger, &slot));
    // The client is closed.
    let (looked, (), ()) = join!(looking, following, ask(&plan, &cache, &ledger));
    drop(looked);
}

/// Follows the changes, and compares their fold with each snapshot that it has caught up with.
async fn follow(plan: &Plan, cache: &Cache<Vec<u8>>, ledger: &Ledger, slot: &Slot) {
    let mut random = Rng::with_seed(plan.seed);
    let mut changes = cache.changes();
    let mut fold = ids(changes.start());
    slot.folded(&fold);
    while let Some(change) = changes.next().await {
        let mut next = Some(change);
        while let Some(change) = next {
            ledger.count(|counts| counts.changes += 1);
            if let Err(what) = apply(plan, &mut fold, &change, ledger) {
                return ledger.object(format!("cache {}: {what} in {change:?}", plan.number));
            }
            next = changes.next().now_or_never().flatten();
        }
        slot.folded(&fold);
        let snapshot = ids(&cache.snapshot());
        if fold != snapshot {
            return ledger.object(format!("cache {}: the changes add up to {fold:?}, not {snapshot:?}", plan.number));
        }
        if !plan.slow.is_zero() {
            sleep(plan.slow.mul_f64(random.f64())).await;
        }
    }
}

fn apply(plan: &Plan, fold: &mut Ids, change: &Change<Vec<u8>>, ledger: &Ledger) -> Result<(), String> {
    let id = |node: &zookeeper_recipes::cache::Node<Vec<u8>>| -> Id { (node.stat().czxid, node.stat().mzxid) };
    match change {
        Change::Added(node) => match fold.insert(node.path().to_owned(), id(node)) {
            None => Ok(()),
            Some(old) => Err(format!("{old:?} was there")),
        },
        Change::Updated { old, new } => {
            let is_new = id(old).1 < id(new).1 || (id(old) == id(new) && is_unreadable(old) != is_unreadable(new));
            if old.path() != new.path() || id(old).0 != id(new).0 || !is_new {
                return Err("not the same node, or no difference".to_owned());
            }
            match fold.insert(new.path().to_owned(), id(new)) {
                Some(known) if known == id(old) => Ok(()),
                known => Err(format!("there is {known:?}")),
            }
        }
        Change::Removed { old } => match fold.remove(old.path()) {
            Some(known) if known == id(old) => Ok(()),
            known => Err(format!("there is {known:?}")),
        },
        Change::Synced => {
            ledger.count(|counts| counts.compared += 1);
            Ok(())
        }
        Change::Lagged(snapshot) => {
            if plan.capacity >= NEVER_LAGS {
                return Err("it cannot lag".to_owned());
            }
            ledger.count(|counts| counts.lagged += 1);
            *fold = ids(snapshot);
            Ok(())
        }
        _ => Err("an unexpected change".to_owned()),
    }
}

/// Asks for current snapshots, and checks the age of others.
async fn ask(plan: &Plan, cache: &Cache<Vec<u8>>, ledger: &Ledger) {
    let mut random = Rng::with_seed(!plan.seed);
    loop {
        sleep(plan.pause.mul_f64(random.f64().powi(2))).await;
        ledger.is_of_that_age(plan.number, &plan.part, &cache.snapshot());
        let (since, asked) = (ledger.now(), Instant::now());
        let patience = plan.bound.unwrap_or_else(|| plan.patience.mul_f64(random.f64()));
        match timeout(patience, cache.synced()).await {
            Ok(Ok(snapshot)) => {
                ledger.count(|counts| counts.synced += 1);
                ledger.contains(plan.number, &plan.part, since, asked, &snapshot);
            }
            // The client is closed.
            Ok(Err(_)) => return,
            Err(_) if plan.bound.is_some() => {
                return ledger.object(format!("cache {}: synced takes longer than {patience:?}", plan.number));
            }
            Err(_) => ledger.count(|counts| counts.cancelled += 1),
        }
    }
}
