//! Decides which host is tried next and when. Keeps the outcomes of the latest attempts, and decides what to log. No
//! I/O.
//!
//! All sessions of one ensemble share it, so the limits apply to a client and not to a session.
//!
//! At most three attempts are made in a second, whether they fail or connect for a moment. The exception is a quick
//! pass: one attempt for each host, which need only be [`APART`]. It begins with the first attempt after a pause
//! without attempts, of one [`REST`] per host and at least three. So a client's first attempts are quick, and so are
//! those after a long connection, but not those after a short one. If a host becomes usable before the pass is
//! complete, the other hosts are still tried quickly after the connection is lost, unless the list of hosts was
//! replaced meanwhile.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use tokio::sync::watch;

use super::connect_string::Endpoint;
use crate::util::clock::Instant;

/// The minimum time between the starts of two attempts.
const APART: Duration = Duration::from_millis(50);
/// The pause without attempts before a quick pass, per host. It keeps quick passes from raising the average above three
/// attempts a second.
const REST: Duration = Duration::from_millis(334);
/// The most attempts in a second, outside a quick pass.
const IN_A_SECOND: usize = 3;
const SECOND: Duration = Duration::from_millis(1_001);
/// The longest random delay after the first failed pass. It doubles with each further one, up to the longest.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(1);
/// The longest random delay after a lost connection, as all clients of a fleet may reconnect at once.
const SPREAD: Duration = Duration::from_millis(100);
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// An attempt to connect to one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The host's number, which is never reused.
    pub(crate) host: usize,
    pub(crate) endpoint: Endpoint,
    /// How often the host has failed since any host was last usable. If its name has several addresses, each try begins
    /// with another one.
    pub(crate) tries: u32,
    pub(crate) srvr: SrvrSupport,
    /// The number of the list that the host was taken from.
    pub(crate) list: u64,
}

/// What a host does when it is asked whether it serves. See `question`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SrvrSupport {
    /// It has not been asked while it served.
    Unknown,
    /// It answers.
    Answers,
    /// It closed the connection without an answer while it served, as a proxy does. It is asked again only when it next
    /// serves.
    Closes,
}

/// What to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A whole pass has failed.
    Begins {
        causes: String,
    },
    Continues {
        causes: String,
        tries: u32,
        lasting: Duration,
    },
    Over {
        host: String,
        tries: u32,
        lasted: Duration,
    },
}

#[derive(Debug)]
struct Host {
    number: usize,
    endpoint: Endpoint,
    name: String,
    tries: u32,
    cause: Option<String>,
    srvr: SrvrSupport,
    /// It has refused the credentials, and no host was usable since.
    refuses: bool,
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    warned: Instant,
}

#[derive(Debug)]
pub(crate) struct Hosts {
    hosts: Vec<Host>,
    /// The number given to the latest host.
    numbers: usize,
    /// The hosts that the user names.
    named: Vec<Endpoint>,
    /// The version of the ensemble's configuration that named the hosts; `None` if they are those that the user names.
    version: Option<u64>,
    /// When the SRV records that name the hosts were looked up last.
    looked_up: Option<Instant>,
    /// They are to be looked up again.
    is_stale: bool,
    /// Why the latest lookup failed.
    lookup_failure: Option<String>,
    /// The number of the list in use. It grows when the list is replaced.
    lists: watch::Sender<u64>,
    /// The number of the host that is being tried.
    trying: Option<usize>,
    /// Indices into `hosts`, shuffled once for each list of hosts.
    order: Vec<usize>,
    next: usize,
    /// The number of failed attempts since the last success.
    failed: u32,
    /// How often a session has looked for a way off read-only servers, since one that takes part in the ensemble.
    looks: u32,
    /// The latest attempts, the last one first.
    attempts: VecDeque<Instant>,
    /// How many attempts are left of the quick pass.
    quick: usize,
    not_before: Option<Instant>,
    outage: Option<Outage>,
}

impl Hosts {
    /// `unit` draws random numbers from 0..1.
    pub(crate) fn new(endpoints: impl IntoIterator<Item = Endpoint>, unit: impl Fn() -> f64) -> Self {
        let named: Vec<Endpoint> = endpoints.into_iter().collect();
        let mut hosts = Hosts {
            hosts: Vec::new(),
            numbers: 0,
            named: named.clone(),
            version: None,
            looked_up: None,
            is_stale: true,
            lookup_failure: None,
            lists: watch::Sender::new(0),
            trying: None,
            order: Vec::new(),
            next: 0,
            failed: 0,
            looks: 0,
            attempts: VecDeque::new(),
            quick: 0,
            not_before: None,
            outage: None,
        };
        hosts.set(named, unit);
        hosts
    }

    /// Replaces the hosts that the user names. They are in use unless the ensemble's configuration names others.
    /// Returns whether the list in use was replaced.
    pub(crate) fn set_named(&mut self, endpoints: &[Endpoint], unit: impl Fn() -> f64) -> bool {
        if self.named == endpoints {
            return false;
        }
        self.named = endpoints.to_vec();
        let is_in_use = self.version.is_none();
        if is_in_use {
            self.set(self.named.clone(), unit);
        }
        is_in_use
    }

    /// Replaces the hosts by those of the ensemble's configuration, unless this version or a later one is in use.
    /// Returns whether it did. A host that remains keeps the outcome of its attempts.
    pub(crate) fn replace(&mut self, version: u64, endpoints: Vec<Endpoint>, unit: impl Fn() -> f64) -> bool {
        let is_newer = self.version.is_none_or(|known| known < version) && !endpoints.is_empty();
        if is_newer {
            self.version = Some(version);
            self.set(endpoints, unit);
        }
        is_newer
    }

    /// Like [`set_named`](Self::set_named), with the hosts that SRV records give, each once. They are tried in this
    /// order, even if only the order has changed.
    pub(crate) fn set_looked_up(&mut self, endpoints: &[Endpoint]) -> bool {
        self.lookup_failure = None;
        let is_same = endpoints.len() == self.named.len() && endpoints.iter().all(|host| self.named.contains(host));
        let is_replaced = !is_same && self.set_named(endpoints, || 0.0);
        if self.version.is_none() {
            let place = |endpoint: &Endpoint| self.hosts.iter().position(|host| host.endpoint == *endpoint);
            self.order = endpoints.iter().filter_map(place).collect();
            self.next = 0;
        }
        is_replaced
    }

    /// Returns whether to look the SRV records up now: once in a pass, and at most once in a second.
    pub(crate) fn begin_lookup(&mut self, now: Instant) -> bool {
        let rested = self.looked_up.is_none_or(|latest| now.since(latest) >= SECOND);
        let begins = rested && (self.is_stale || self.hosts.is_empty());
        if begins {
            (self.looked_up, self.is_stale) = (Some(now), false);
        }
        begins
    }

    /// Records that the lookup of the SRV records failed. The hosts that are known stay in use.
    pub(crate) fn lookup_failed(&mut self, cause: String, now: Instant) -> Option<Notice> {
        self.lookup_failure = Some(cause);
        if !self.hosts.is_empty() {
            return None;
        }
        self.failed = self.failed.saturating_add(1);
        self.warning(now)
    }

    fn set(&mut self, endpoints: impl IntoIterator<Item = Endpoint>, unit: impl Fn() -> f64) {
        let mut before = std::mem::take(&mut self.hosts);
        for endpoint in endpoints {
            // An endpoint that is listed twice is still one server.
            if self.hosts.iter().any(|host| host.endpoint == endpoint) {
                continue;
            }
            let known = before.iter().position(|host| host.endpoint == endpoint);
            let host = match known {
                Some(place) => before.swap_remove(place),
                None => self.new_host(endpoint),
            };
            self.hosts.push(host);
        }
        self.shuffle(unit);
        self.lists.send_modify(|list| *list += 1);
    }

    /// Returns a receiver of the number of the list in use.
    pub(crate) fn lists(&self) -> watch::Receiver<u64> {
        self.lists.subscribe()
    }

    /// Adds the hosts that the user names: they may be reachable when none of the configuration's hosts is.
    fn add_named(&mut self) {
        for endpoint in self.named.clone() {
            if self.hosts.iter().all(|host| host.endpoint != endpoint) {
                self.order.push(self.hosts.len());
                let host = self.new_host(endpoint);
                self.hosts.push(host);
            }
        }
    }

    fn new_host(&mut self, endpoint: Endpoint) -> Host {
        self.numbers += 1;
        Host {
            number: self.numbers,
            name: endpoint.to_string(),
            endpoint,
            tries: 0,
            cause: None,
            srvr: SrvrSupport::Unknown,
            refuses: false,
        }
    }

    fn shuffle(&mut self, unit: impl Fn() -> f64) {
        self.order = (0..self.hosts.len()).collect();
        for last in (1..self.order.len()).rev() {
            self.order.swap(last, ((unit() * (last + 1) as f64) as usize).min(last));
        }
        self.next = 0;
        // Some of the hosts may just have been tried.
        self.quick = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.hosts.len()
    }

    pub(crate) fn name(&self, host: usize) -> &str {
        self.hosts.iter().find(|known| known.number == host).map_or("a former server", |host| &host.name)
    }

    /// Returns all hosts, in the order in which they will be tried.
    pub(crate) fn all(&self) -> Vec<Turn> {
        let order = self.order.iter().cycle().skip(self.next).take(self.order.len());
        order.filter_map(|place| self.hosts.get(*place)).map(|host| self.turn(host)).collect()
    }

    fn turn(&self, host: &Host) -> Turn {
        Turn {
            host: host.number,
            endpoint: host.endpoint.clone(),
            tries: host.tries,
            srvr: host.srvr,
            list: *self.lists.borrow(),
        }
    }

    /// Makes this host the next one to try. Returns whether the list in use has it.
    pub(crate) fn prefer(&mut self, host: usize) -> bool {
        let is_it = |place: &usize| self.hosts.get(*place).is_some_and(|known| known.number == host);
        let place = self.order.iter().position(is_it);
        self.next = place.unwrap_or(self.next);
        place.is_some()
    }

    /// Does the same, and begins with the address of its name that this turn began with.
    pub(crate) fn prefer_address(&mut self, turn: &Turn) -> bool {
        if let Some(host) = self.host(turn.host) {
            host.tries = turn.tries;
        }
        self.prefer(turn.host)
    }

    /// Returns whether each host was tried since the last success, and failed.
    pub(crate) fn have_all_failed(&self) -> bool {
        self.failed as usize >= self.hosts.len()
    }

    /// Counts one more look for a way off read-only servers. Returns how many there were before.
    pub(crate) fn look(&mut self) -> u32 {
        self.looks += 1;
        self.looks - 1
    }

    /// Records that a server takes part in the ensemble.
    pub(crate) fn takes_part(&mut self) {
        self.looks = 0;
    }

    pub(crate) fn note_srvr(&mut self, host: usize, srvr: SrvrSupport) {
        if let Some(host) = self.host(host) {
            host.srvr = srvr;
        }
    }

    fn host(&mut self, number: usize) -> Option<&mut Host> {
        self.hosts.iter_mut().find(|host| host.number == number)
    }

    /// Returns the host to try now, or when to call this again.
    pub(crate) fn take(&mut self, now: Instant) -> Result<Turn, Instant> {
        if self.has_rested(now) {
            self.quick = self.hosts.len();
        }
        if let Some(at) = self.next_at().filter(|at| *at > now) {
            return Err(at);
        }
        let Some(host) = self.order.get(self.next).and_then(|place| self.hosts.get(*place)) else {
            return Err(now + SECOND);
        };
        let turn = self.turn(host);
        self.trying = Some(turn.host);
        self.attempts.truncate(IN_A_SECOND - 1);
        self.attempts.push_front(now);
        self.quick = self.quick.saturating_sub(1);
        self.next = (self.next + 1) % self.order.len();
        self.is_stale |= self.next == 0;
        Ok(turn)
    }

    /// Returns whether a quick pass may begin.
    fn has_rested(&self, now: Instant) -> bool {
        // With a pause below a second, the pass could add a fourth attempt to that second.
        let hosts = u32::try_from(self.hosts.len().max(IN_A_SECOND)).unwrap_or(u32::MAX);
        self.attempts.front().is_none_or(|latest| now.since(*latest) >= REST * hosts)
    }

    fn next_at(&self) -> Option<Instant> {
        let apart = self.attempts.front().map(|latest| *latest + APART);
        let oldest = self.attempts.get(IN_A_SECOND - 1).filter(|_| self.quick == 0);
        apart.max(oldest.map(|oldest| *oldest + SECOND)).max(self.not_before)
    }

    /// Records that an attempt failed, or that its connection was lost before it became usable. `unit` is from 0..1.
    pub(crate) fn failed(&mut self, host: usize, cause: String, now: Instant, unit: f64) -> Option<Notice> {
        if let Some(host) = self.host(host) {
            host.tries = host.tries.saturating_add(1);
            host.cause = Some(cause);
        }
        self.trying = self.trying.filter(|trying| *trying != host);
        self.failed = self.failed.saturating_add(1);
        let count = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX).max(1);
        if !self.failed.is_multiple_of(count) {
            return None;
        }
        let doublings = (self.failed / count - 1).min(8);
        let delay = (FIRST_DELAY * 2u32.pow(doublings)).min(LONGEST_DELAY);
        self.not_before = Some(now + delay.mul_f64(unit.clamp(0.0, 1.0)));
        let notice = self.warning(now);
        self.add_named();
        notice
    }

    fn warning(&mut self, now: Instant) -> Option<Notice> {
        let causes = self.causes();
        match &mut self.outage {
            None => {
                self.outage = Some(Outage { since: now, warned: now });
                Some(Notice::Begins { causes })
            }
            Some(outage) if now.since(outage.warned) >= BETWEEN_WARNINGS => {
                outage.warned = now;
                Some(Notice::Continues { causes, tries: self.failed, lasting: now.since(outage.since) })
            }
            Some(_) => None,
        }
    }

    /// Records that a host refused the credentials. Returns whether the refusal is final: all hosts have refused them
    /// or, if `opening` a session, each of the others has refused them or failed.
    pub(crate) fn refused(&mut self, host: usize, opening: bool) -> bool {
        if let Some(host) = self.host(host) {
            host.refuses = true;
        }
        self.hosts.iter().all(|host| host.refuses || (opening && host.tries > 0))
    }

    /// Records that a connection to `host` is usable: the host answered more than the connect request.
    pub(crate) fn mark_usable(&mut self, host: usize, now: Instant) -> Option<Notice> {
        let tries = std::mem::take(&mut self.failed);
        self.trying = None;
        self.not_before = None;
        self.lookup_failure = None;
        for host in &mut self.hosts {
            (host.tries, host.cause, host.refuses) = (0, None, false);
        }
        let outage = self.outage.take()?;
        Some(Notice::Over { host: self.name(host).to_owned(), tries, lasted: now.since(outage.since) })
    }

    /// Records that a usable connection was lost. `spread` is a number from 0..1 if the reconnect is to be delayed, as
    /// many clients may reconnect at once.
    pub(crate) fn cut(&mut self, host: usize, cause: String, now: Instant, spread: Option<f64>) {
        if let Some(host) = self.host(host) {
            host.cause = Some(cause);
        }
        self.is_stale = true;
        self.not_before = spread.map(|unit| now + SPREAD.mul_f64(unit.clamp(0.0, 1.0)));
    }

    /// Returns the cause for each host, in the order of the list: `zk1:2181: connection refused (31 tries); zk2:2181:
    /// not tried yet`. Empty if a connection is usable.
    pub(crate) fn causes(&self) -> String {
        let mut causes = self.lookup_failure.clone().unwrap_or_default();
        if self.trying.is_none() && self.hosts.iter().all(|host| host.cause.is_none()) {
            return causes;
        }
        for Host { number, name, tries, cause, .. } in &self.hosts {
            let unknown = if self.trying == Some(*number) { "no answer yet" } else { "not tried yet" };
            let cause = cause.as_deref().unwrap_or(unknown);
            let separator = if causes.is_empty() { "" } else { "; " };
            // Writing to a string cannot fail.
            let _ = write!(causes, "{separator}{name}: {cause}");
            if *tries > 1 {
                let _ = write!(causes, " ({tries} tries)");
            }
        }
        causes
    }
}

#[cfg(test)]
mod tests;
