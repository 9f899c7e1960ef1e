//! Those who look for instances: what they find, which one they choose, and what they keep in an outage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::time::Instant;
use tower::discover;
use zookeeper_recipes::Client;
use zookeeper_recipes::service_discovery::{Change, Changes, DownPolicy, Error, Instance, Instances, Service, Targets};
use zookeeper_recipes::testing::Task;

use super::ledger::Written;
use crate::world::Thaws;

/// How long an instance is down.
const PAUSE: Duration = Duration::from_secs(6);

pub(super) fn down_policy() -> DownPolicy {
    DownPolicy::default().pause(PAUSE)
}

fn written(instance: &Instance<String>) -> Written {
    let payload = instance.payload().cloned().unwrap_or_default();
    Written { payload, is_enabled: instance.is_enabled() }
}

/// An instance that was taken down.
#[derive(Debug, Clone, Copy)]
struct Down {
    czxid: i64,
    at: Instant,
}

/// What the reports say of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Up,
    Down,
    /// It is probed, or the task that notices has not run yet.
    Unknown,
}

/// A service that is being looked for.
pub(super) struct Starting {
    pub(super) client: usize,
    pub(super) of: &'static str,
    pub(super) is_sticky: bool,
    pub(super) task: Task<Result<Service<String>, Error>>,
}

/// A service that a process holds.
pub(super) struct Looker {
    pub(super) number: usize,
    pub(super) client: usize,
    /// The name of the service.
    pub(super) of: &'static str,
    pub(super) service: Arc<Service<String>>,
    is_sticky: bool,
    changes: Changes<String>,
    /// The instances according to the changes so far, by the paths of their nodes.
    folded: BTreeMap<String, Instance<String>>,
    targets: Targets<Instance<String>>,
    /// The instances that a balancer has, by the paths of their nodes.
    balanced: BTreeMap<Arc<str>, Instance<String>>,
    downs: BTreeMap<String, Down>,
    /// Instances that were found, whose registration may be over.
    known: Vec<Instance<String>>,
    /// The one that was chosen last, unless that may change at any time.
    stayed_with: Option<Instance<String>>,
}

impl Looker {
    pub(super) fn new(
        number: usize,
        client: usize,
        of: &'static str,
        service: Service<String>,
        is_sticky: bool,
    ) -> Self {
        let changes = service.changes();
        let targets = service.targets(|instance| Some(instance.clone()));
        let mut looker = Looker {
            number,
            client,
            of,
            service: Arc::new(service),
            is_sticky,
            folded: BTreeMap::new(),
            targets,
            balanced: BTreeMap::new(),
            downs: BTreeMap::new(),
            known: Vec::new(),
            stayed_with: None,
            changes,
        };
        looker.begin_at(&looker.changes.start());
        looker
    }

    fn begin_at(&mut self, instances: &Instances<String>) {
        self.folded = instances.iter().map(|instance| (instance.path().to_owned(), instance)).collect();
    }

    /// Applies the changes that have arrived. Each must follow those before it.
    pub(super) fn fold(&mut self) -> Result<(), String> {
        while let Some(Some(change)) = self.changes.next().now_or_never() {
            let (before, expected) = match &change {
                Change::Added(new) => (self.folded.insert(new.path().to_owned(), new.clone()), None),
                Change::Updated { old, new } => {
                    (self.folded.insert(new.path().to_owned(), new.clone()), Some(old.clone()))
                }
                Change::Removed { old } => (self.folded.remove(old.path()), Some(old.clone())),
                Change::Unreadable(node) => (self.folded.get(node.path()).cloned(), None),
                Change::Lagged(now) => {
                    self.begin_at(now);
                    continue;
                }
                _ => continue,
            };
            if before != expected {
                return Err(format!("looker {} knows {before:?}, and is told of {change:?}", self.number));
            }
        }
        Ok(())
    }

    /// Applies the changes for a balancer that have arrived. None may be needless.
    fn balance(&mut self) -> Result<(), String> {
        while let Some(Some(Ok(change))) = self.targets.next().now_or_never() {
            let is_new = match &change {
                discover::Change::Insert(path, one) => {
                    self.balanced.insert(Arc::clone(path), one.clone()).as_ref() != Some(one)
                }
                discover::Change::Remove(path) => self.balanced.remove(path).is_some(),
            };
            if !is_new {
                return Err(format!("the balancer of looker {} is told again of {change:?}", self.number));
            }
        }
        Ok(())
    }

    /// Compares what it finds with the nodes that can be read, and those that cannot.
    pub(super) fn compare(
        &self,
        nodes: &BTreeMap<String, Written>,
        unreadable: &BTreeSet<String>,
    ) -> Result<(), String> {
        let (number, instances) = (self.number, self.service.instances());
        let found: BTreeMap<_, _> = instances.iter().map(|one| (one.path().to_owned(), written(&one))).collect();
        if found != *nodes {
            return Err(format!("looker {number} finds {found:?}, but there are {nodes:?}"));
        }
        let folded: BTreeMap<_, _> = self.folded.iter().map(|(path, one)| (path.clone(), written(one))).collect();
        if folded != *nodes {
            return Err(format!("looker {number} was told of {folded:?}, but there are {nodes:?}"));
        }
        let bad: BTreeSet<_> = instances.unreadable().map(|node| node.path().to_owned()).collect();
        if bad != *unreadable {
            return Err(format!("looker {number} cannot read {bad:?}, but there are {unreadable:?}"));
        }
        let enabled = nodes.values().filter(|node| node.is_enabled).count();
        match self.service.wait_for(enabled).now_or_never() {
            Some(Ok(_)) => Ok(()),
            waiting => Err(format!("looker {number} waits for {enabled} instances that are there: {waiting:?}")),
        }
    }

    /// Reports errors of an instance until it is down, or a success. Returns what it has reported.
    pub(super) fn report(&mut self, random: &mut fastrand::Rng, thaws: &Thaws) -> Option<String> {
        // Perhaps one whose registration is over.
        let instance = if random.bool() || self.known.is_empty() {
            self.service.next()?
        } else {
            self.known.swap_remove(random.usize(..self.known.len()))
        };
        self.known.push(instance.clone());
        if random.u8(..3) == 0 {
            self.service.report_ok(&instance);
            return Some(format!("{} works", instance.path()));
        }
        for _ in 0..down_policy().errors {
            self.service.report_error(&instance);
        }
        let (czxid, at) = (instance.stat().czxid, Instant::now());
        let before = self.downs.get(instance.path());
        // Reports of one that is down already, or whose registration is over, count for nothing.
        let counts = before.is_none_or(|before| {
            let until = thaws.effective_deadline(self.client, before.at + PAUSE);
            before.czxid < czxid || (before.czxid == czxid && until < at)
        });
        if counts {
            self.stayed_with = None;
            self.downs.insert(instance.path().to_owned(), Down { czxid, at });
        }
        Some(format!("{} fails", instance.path()))
    }

    fn health(&self, of: &Instance<String>, thaws: &Thaws) -> Health {
        let now = Instant::now();
        let Some(down) = self.downs.get(of.path()).filter(|down| down.czxid == of.stat().czxid) else {
            return Health::Up;
        };
        let noticed = thaws.effective_deadline(self.client, down.at);
        let is_up_again =
            thaws.effective_deadline(self.client, thaws.effective_deadline(self.client, down.at + PAUSE) + PAUSE);
        if noticed < now && now < down.at + PAUSE {
            Health::Down
        } else if is_up_again < now {
            Health::Up
        } else {
            Health::Unknown
        }
    }

    /// Checks that only instances are chosen that may be, and each of them that must be. The process is not frozen.
    /// After an outage it may be one that has not come back.
    pub(super) fn check_choices(&mut self, thaws: &Thaws, is_recovering: bool) -> Result<(), String> {
        self.balance()?;
        let instances = self.service.instances();
        let all: Vec<_> = instances.iter().collect();
        if all.is_empty() {
            // Those of before may be chosen.
            self.stayed_with = None;
            return match self.service.next() {
                Some(one) if self.balanced.get(one.path()) != Some(&one) => {
                    Err(format!("looker {} chooses {one:?}, which its balancer does not have", self.number))
                }
                _ => Ok(()),
            };
        }
        self.known.extend(all.iter().filter(|one| !self.known.contains(one)).cloned().collect::<Vec<_>>());
        let number = self.number;
        let some_enabled = all.iter().any(|one| one.is_enabled());
        let usable: Vec<_> =
            all.iter().filter(|one| one.is_enabled() && self.health(one, thaws) == Health::Up).collect();
        let wrong = |one: &Instance<String>| {
            if !all.contains(one) && !is_recovering {
                Some("is not there")
            } else if some_enabled && !one.is_enabled() {
                Some("is disabled")
            } else if !usable.is_empty() && self.health(one, thaws) == Health::Down {
                Some("is down")
            } else if self.balanced.get(one.path()) != Some(one) {
                Some("its balancer does not have")
            } else {
                None
            }
        };
        let mut chosen = Vec::new();
        for _ in 0..=self.balanced.len() {
            let Some(one) = self.service.next() else { return Err(format!("looker {number} finds none of {all:?}")) };
            if let Some(is_wrong) = wrong(&one) {
                return Err(format!("looker {number} chooses {one:?}, which {is_wrong}; there are {all:?}"));
            }
            chosen.push(one);
        }
        if let Some((one, is_wrong)) = self.balanced.values().find_map(|one| Some((one, wrong(one)?))) {
            return Err(format!("the balancer of looker {number} has {one:?}, which {is_wrong}; there are {all:?}"));
        }
        let last = chosen.last().cloned();
        if self.is_sticky {
            let before = self.stayed_with.as_ref().filter(|before| usable.contains(before));
            if before.is_some() && before != last.as_ref() {
                return Err(format!("looker {number} stayed with {before:?}, and chooses {last:?} without a need"));
            }
            self.stayed_with = last.filter(|last| usable.contains(&last));
        } else if let Some(left_out) = usable.iter().find(|one| !chosen.contains(one)) {
            return Err(format!("looker {number} chooses {chosen:?}, and leaves out {left_out:?}"));
        }
        Ok(())
    }
}

/// An outage of a looker.
#[derive(Debug)]
struct Away {
    since: Instant,
    /// There were instances when it began.
    had: bool,
    /// When the connection was restored.
    back: Option<Instant>,
}

/// A looker that is checked for as long as it exists.
struct Seat {
    number: usize,
    client: usize,
    of: Client,
    service: Weak<Service<String>>,
    away: Option<Away>,
    /// Those of before the last outage may be chosen until then.
    recovers_until: Option<Instant>,
}

/// Checks after each step that an outage takes no instance from a looker.
#[derive(Default)]
pub(super) struct Seats {
    seats: Mutex<Vec<Seat>>,
    rules: Mutex<Option<(Thaws, Duration)>>,
}

impl Seats {
    /// Starts to check, in a world with this session timeout.
    pub(super) fn watch(&self, thaws: &Thaws, timeout: Duration) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Some((thaws.clone(), timeout));
    }

    /// Checks this looker from now on.
    pub(super) fn sit(&self, looker: &Looker, of: &Client) {
        // There may have been an outage while it started.
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let recovers_until = rules.as_ref().map(|(_, timeout)| Instant::now() + *timeout * 2);
        drop(rules);
        let (number, client, service) = (looker.number, looker.client, Arc::downgrade(&looker.service));
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.retain(|seat| seat.service.strong_count() > 0);
        seats.push(Seat { number, client, of: of.clone(), service, away: None, recovers_until });
    }

    /// Returns whether this looker is in an outage, or was lately.
    pub(super) fn is_recovering(&self, looker: &Looker) -> bool {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let seat = seats.iter().find(|seat| seat.number == looker.number);
        let is_late = |seat: &Seat| seat.recovers_until.is_some_and(|until| Instant::now() <= until);
        seat.is_some_and(|seat| seat.away.is_some() || is_late(seat))
    }

    pub(super) fn clear(&self) {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Called after each step. Returns a violation.
    pub(super) fn glance(&self) -> Option<String> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let (thaws, timeout) = rules.as_ref()?;
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.iter_mut().find_map(|seat| seat.look(thaws, *timeout))
    }
}

impl Seat {
    fn look(&mut self, thaws: &Thaws, timeout: Duration) -> Option<String> {
        let service = self.service.upgrade()?;
        let (now, is_connected) = (Instant::now(), self.of.connection_state().is_connected());
        let is_in_an_outage = self.away.as_ref().is_some_and(|away| away.back.is_none());
        if !is_connected && !is_in_an_outage {
            self.away = Some(Away { since: now, had: !service.instances().is_empty(), back: None });
        }
        let away = self.away.as_mut()?;
        let is_empty = service.instances().is_empty();
        if is_connected {
            let back = *away.back.get_or_insert(now);
            self.recovers_until = Some(thaws.effective_deadline(self.client, back + timeout * 2));
            if now >= back + timeout * 2 {
                self.away = None;
            } else if away.had && is_empty && service.next().is_none() {
                let (number, since) = (self.number, back.elapsed());
                return Some(format!("looker {number} has none to choose, {since:?} after an outage with some"));
            }
            return None;
        }
        // What came before the connection was lost may be noticed in the same moment.
        if thaws.effective_deadline(self.client, away.since) == now {
            away.had = !is_empty;
        } else if away.had && is_empty {
            return Some(format!("looker {} lost its instances while it was disconnected", self.number));
        }
        None
    }
}
