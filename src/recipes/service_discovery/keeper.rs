//! The task of a service: it renews the schedule when an instance changes, when a caller reports one, and when time
//! passes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arc_swap::ArcSwap;
use futures::{FutureExt, StreamExt};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::ServiceInstance;
use super::found::{Instance, Instances};
use super::health::{DownPolicy, Health, Standing};
use super::measure::{Errors, Measured};
use super::strategy::{Strategy, Weight};
use super::turns::Turns;
use crate::cache::Cache;
use crate::client::ConnectionState;
use crate::client::core::Core;
use crate::util::mutex::Mutex;
use crate::util::wait::sleep_until_opt;

/// What the task and the handles share.
pub(super) struct Shared<P> {
    pub(super) path: Arc<str>,
    pub(super) strategy: Strategy<P>,
    /// Read without a lock.
    pub(super) view: ArcSwap<View<P>>,
    /// Counts the choices.
    pub(super) position: AtomicUsize,
    pub(super) health: Mutex<Health>,
    /// A report has changed which instances are chosen.
    pub(super) reported: Notify,
    pub(super) errors: Errors,
}

/// What callers see at one moment.
pub(super) struct View<P> {
    pub(super) instances: Instances<P>,
    pub(super) turns: Turns<P>,
}

impl<P: 'static> View<P> {
    /// Returns whether this registration is among those that were found, or may be chosen.
    pub(super) fn has(&self, instance: &Instance<P>) -> bool {
        let found = self.instances.snapshot().get(instance.path());
        found.is_some_and(|node| node.stat().czxid == instance.czxid())
            || self.turns.instances().any(|one| one.is_same_registration(instance))
    }
}

/// Whether the instances may be gone only because they have not come back yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    /// There was none lately.
    None,
    /// There is no connection. Perhaps the session was lost, too: then those of most instances were.
    Now { lost: bool },
    /// The connection is back. Instances whose session was lost as well register again until then.
    Until { end: Instant, lost: bool },
}

impl Outage {
    /// Returns those of `before` that may come back. If the session outlived the outage, so did those of others, unless
    /// none did. If it did not, the first ones that are back are not to get the calls for all.
    fn absent<P>(self, found: &[Instance<P>], before: &Turns<P>) -> Vec<Instance<P>> {
        let enabled = found.iter().filter(|one| one.is_enabled()).count();
        let are_awaited = match self {
            Outage::None => false,
            Outage::Now { lost } | Outage::Until { lost, .. } => {
                found.is_empty() || (lost && enabled * 2 < before.instances().count())
            }
        };
        if !are_awaited {
            return Vec::new();
        }
        let paths: HashSet<&str> = found.iter().map(Instance::path).collect();
        before.instances().filter(|one| !paths.contains(one.path())).cloned().collect()
    }
}

/// The task.
pub(super) struct Keeper<P> {
    core: Arc<Core>,
    shared: Arc<Shared<P>>,
    cache: Cache<ServiceInstance<P>>,
    weight: Option<Weight<P>>,
    measured: Measured,
    outage: Outage,
    /// Changes with each view. Closed when the task ends.
    viewed: watch::Sender<()>,
}

impl<P: Send + Sync + 'static> Keeper<P> {
    /// Makes the first view. Returns the task, what it shares, and what changes with each view.
    pub(super) fn new(
        core: &Arc<Core>,
        cache: Cache<ServiceInstance<P>>,
        strategy: Strategy<P>,
        weight: Option<Weight<P>>,
        policy: DownPolicy,
    ) -> (Self, Arc<Shared<P>>, watch::Receiver<()>) {
        let view = View { instances: Instances::new(cache.snapshot()), turns: Turns::none() };
        let shared = Arc::new(Shared {
            path: cache.path().into(),
            strategy,
            view: ArcSwap::from_pointee(view),
            // Processes that start together begin at different instances.
            position: AtomicUsize::new(core.random.uuid().as_u128() as usize),
            health: Mutex::new(Health::new(policy)),
            reported: Notify::new(),
            errors: Errors::new(core),
        });
        let (viewed, views) = watch::channel(());
        let mut keeper = Keeper {
            core: Arc::clone(core),
            shared: Arc::clone(&shared),
            measured: Measured::new(core, cache.path()),
            cache,
            weight,
            outage: Outage::None,
            viewed,
        };
        keeper.look();
        (keeper, shared, views)
    }

    /// Runs until all handles are dropped, or the client is closed.
    pub(super) async fn run(mut self, mut dropped: oneshot::Receiver<()>) {
        let mut changes = self.cache.changes();
        let mut states = self.core.states.subscribe();
        loop {
            // The first look is at what has changed before the subscription.
            let next = self.look();
            tokio::select! {
                biased;
                _ = &mut dropped => return,
                state = states.next() => match state {
                    Some(Ok(state)) => self.hear_of_connection(state),
                    // One of those that were missed may have been an outage. The stream begins again with the latest.
                    Some(Err(_)) => {
                        self.outage = Outage::Now { lost: true };
                        states = self.core.states.subscribe();
                    }
                    None => return,
                },
                change = changes.next() => {
                    if change.is_none() {
                        return;
                    }
                    // Those that came together are looked at together.
                    while changes.next().now_or_never().is_some_and(|change| change.is_some()) {}
                }
                () = self.shared.reported.notified() => {}
                () = sleep_until_opt(next) => {}
            }
        }
    }

    /// Records that the connection was lost, or is back.
    fn hear_of_connection(&mut self, state: ConnectionState) {
        self.outage = match self.outage {
            Outage::Now { lost } if state.is_connected() => {
                Outage::Until { end: Instant::now() + self.core.config.session_timeout * 2, lost }
            }
            outage if state.is_connected() => outage,
            Outage::Now { lost } | Outage::Until { lost, .. } => {
                Outage::Now { lost: lost || state == ConnectionState::Lost }
            }
            Outage::None => Outage::Now { lost: state == ConnectionState::Lost },
        };
    }

    /// Publishes a view of the latest snapshot. Returns when to look again, even if nothing changes.
    fn look(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.outage = match self.outage {
            Outage::Until { end, .. } if end <= now => Outage::None,
            outage => outage,
        };
        let before = self.shared.view.load();
        let instances = Instances::new(self.cache.snapshot());
        let mut candidates: Vec<_> = instances.iter().collect();
        let found = candidates.len();
        candidates.extend(self.outage.absent(&candidates, &before.turns));
        let (all, next) = self.with_standing(candidates, now);
        self.measured.viewed(&instances, &all[..found]);
        let draw = |below| (self.core.random.unit() * below as f64) as usize;
        let turns = Turns::new(all, self.weight.as_ref(), &before.turns, draw);
        self.shared.view.store(Arc::new(View { instances, turns }));
        self.viewed.send_replace(());
        let end = match self.outage {
            Outage::Until { end, .. } => Some(end),
            Outage::None | Outage::Now { .. } => None,
        };
        next.into_iter().chain(end).min()
    }

    /// Returns whether each of these gets work, and when that changes next. Forgets what was reported of others.
    fn with_standing(
        &self,
        instances: Vec<Instance<P>>,
        now: Instant,
    ) -> (Vec<(Instance<P>, Standing)>, Option<Instant>) {
        let mut health = self.shared.health.lock();
        let present: HashMap<&str, i64> = instances.iter().map(|one| (one.path(), one.czxid())).collect();
        health.keep(|path, czxid| present.get(path) == Some(&czxid));
        let next = health.advance(now);
        let of = |instance: Instance<P>| {
            let standing = health.standing(&instance);
            (instance, standing)
        };
        (instances.into_iter().map(of).collect(), next)
    }
}
