//! Which host is tried next, and when; what came of the latest attempts, and what of it is worth a line in the log. No I/O.
//!
//! All sessions of one ensemble share it, so the limits hold for a client and not for a session.
//!
//! No second has more than three attempts, whether they fail or work for a moment. The exception is a quick pass: as many
//! attempts as there are hosts, each to another one, which need only be [`APART`]. It begins with the first attempt after a
//! time without any of one [`REST`] for each host, but at least three. So a client's first attempts are quick, and those
//! after a long connection; a short connection earns no pass. If a host works before the pass is through, the other hosts
//! are still quick after the cut, unless the list of hosts was replaced meanwhile.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use super::connect_string::Endpoint;
use crate::clock::Instant;

/// Between the starts of two attempts.
const APART: Duration = Duration::from_millis(50);
/// The time without attempts before a quick pass, for each host of it. So quick passes do not raise the average above three a
/// second.
const REST: Duration = Duration::from_millis(334);
/// The most attempts in a second, outside a quick pass.
const IN_A_SECOND: usize = 3;
const SECOND: Duration = Duration::from_millis(1_001);
/// After a pass without success; doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(1);
/// At most, after a cut, where a whole fleet of clients may come.
const SPREAD: Duration = Duration::from_millis(100);
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// The turn of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    /// Its number, which no other host ever has.
    pub(super) host: usize,
    pub(super) endpoint: Endpoint,
    /// How often it was tried before since the last success: it may have several addresses.
    pub(super) tries: u32,
}

/// What to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    /// A whole pass has failed.
    Begins {
        causes: String,
    },
    GoesOn {
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
}

#[derive(Debug)]
struct Trouble {
    since: Instant,
    warned: Instant,
}

#[derive(Debug)]
pub(super) struct Hosts {
    hosts: Vec<Host>,
    /// Hosts that there have been.
    numbers: usize,
    /// Those of the connect string.
    first: Vec<Endpoint>,
    /// The version of the ensemble's configuration that named them; none for those of the connect string.
    version: Option<u64>,
    /// The number of the host that has its turn.
    trying: Option<usize>,
    /// Places in `hosts`, shuffled once for each list of hosts.
    order: Vec<usize>,
    next: usize,
    /// Attempts since the last success.
    failed: u32,
    /// The latest attempts, the last one first.
    attempts: VecDeque<Instant>,
    /// How many attempts are left of the quick pass.
    quick: usize,
    not_before: Option<Instant>,
    trouble: Option<Trouble>,
}

impl Hosts {
    /// `unit` draws numbers from 0..1.
    pub(super) fn new(endpoints: impl IntoIterator<Item = Endpoint>, unit: impl Fn() -> f64) -> Self {
        let first: Vec<Endpoint> = endpoints.into_iter().collect();
        let mut hosts = Hosts {
            hosts: Vec::new(),
            numbers: 0,
            first: first.clone(),
            version: None,
            trying: None,
            order: Vec::new(),
            next: 0,
            failed: 0,
            attempts: VecDeque::new(),
            quick: 0,
            not_before: None,
            trouble: None,
        };
        hosts.set(first, unit);
        hosts
    }

    /// Replaces the hosts by those of the ensemble's configuration, unless a later version of it is in use. Tells whether it
    /// did. A host that stays keeps what came of its attempts.
    pub(super) fn replace(&mut self, version: u64, endpoints: Vec<Endpoint>, unit: impl Fn() -> f64) -> bool {
        let news = self.version.is_none_or(|known| known < version) && !endpoints.is_empty();
        if news {
            self.version = Some(version);
            self.set(endpoints, unit);
        }
        news
    }

    fn set(&mut self, endpoints: impl IntoIterator<Item = Endpoint>, unit: impl Fn() -> f64) {
        let mut before = std::mem::take(&mut self.hosts);
        for endpoint in endpoints {
            // Named twice it is still one server.
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
    }

    /// None of the hosts that the configuration names can be reached: those of the connect string may be.
    fn add_first(&mut self) {
        for endpoint in self.first.clone() {
            if self.hosts.iter().all(|host| host.endpoint != endpoint) {
                self.order.push(self.hosts.len());
                let host = self.new_host(endpoint);
                self.hosts.push(host);
            }
        }
    }

    fn new_host(&mut self, endpoint: Endpoint) -> Host {
        self.numbers += 1;
        Host { number: self.numbers, name: endpoint.to_string(), endpoint, tries: 0, cause: None }
    }

    fn shuffle(&mut self, unit: impl Fn() -> f64) {
        self.order = (0..self.hosts.len()).collect();
        for last in (1..self.order.len()).rev() {
            self.order.swap(last, ((unit() * (last + 1) as f64) as usize).min(last));
        }
        self.next = 0;
        // Some of them may just have been tried.
        self.quick = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn name(&self, host: usize) -> &str {
        self.hosts.iter().find(|known| known.number == host).map_or("a former server", |host| &host.name)
    }

    fn host(&mut self, number: usize) -> Option<&mut Host> {
        self.hosts.iter_mut().find(|host| host.number == number)
    }

    /// The host to try now, or when to ask again.
    pub(super) fn take(&mut self, now: Instant) -> Result<Turn, Instant> {
        if self.has_rested(now) {
            self.quick = self.hosts.len();
        }
        if let Some(at) = self.next_at().filter(|at| *at > now) {
            return Err(at);
        }
        let Some(host) = self.order.get(self.next).and_then(|place| self.hosts.get(*place)) else {
            return Err(now + SECOND);
        };
        self.trying = Some(host.number);
        let turn = Turn { host: host.number, endpoint: host.endpoint.clone(), tries: host.tries };
        self.attempts.truncate(IN_A_SECOND - 1);
        self.attempts.push_front(now);
        self.quick = self.quick.saturating_sub(1);
        self.next = (self.next + 1) % self.order.len();
        Ok(turn)
    }

    /// Whether a quick pass may begin.
    fn has_rested(&self, now: Instant) -> bool {
        // After less than a second the pass could bring a fourth attempt within it.
        let hosts = u32::try_from(self.hosts.len().max(IN_A_SECOND)).unwrap_or(u32::MAX);
        self.attempts.front().is_none_or(|latest| now.since(*latest) >= REST * hosts)
    }

    fn next_at(&self) -> Option<Instant> {
        let apart = self.attempts.front().map(|latest| *latest + APART);
        let full = self.attempts.get(IN_A_SECOND - 1).filter(|_| self.quick == 0);
        apart.max(full.map(|first| *first + SECOND)).max(self.not_before)
    }

    /// An attempt failed, or its connection was closed before it showed that it works. `unit` is from 0..1.
    pub(super) fn failed(&mut self, host: usize, cause: String, now: Instant, unit: f64) -> Option<Notice> {
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
        self.add_first();
        notice
    }

    fn warning(&mut self, now: Instant) -> Option<Notice> {
        let causes = self.causes();
        match &mut self.trouble {
            None => {
                self.trouble = Some(Trouble { since: now, warned: now });
                Some(Notice::Begins { causes })
            }
            Some(trouble) if now.since(trouble.warned) >= BETWEEN_WARNINGS => {
                trouble.warned = now;
                Some(Notice::GoesOn { causes, tries: self.failed, lasting: now.since(trouble.since) })
            }
            Some(_) => None,
        }
    }

    /// A connection to `host` works: it answered more than the handshake.
    pub(super) fn works(&mut self, host: usize, now: Instant) -> Option<Notice> {
        let tries = std::mem::take(&mut self.failed);
        self.trying = None;
        self.not_before = None;
        for host in &mut self.hosts {
            (host.tries, host.cause) = (0, None);
        }
        let trouble = self.trouble.take()?;
        Some(Notice::Over { host: self.name(host).to_owned(), tries, lasted: now.since(trouble.since) })
    }

    /// A connection that worked was cut. `spread` is from 0..1 where many clients may come at once.
    pub(super) fn cut(&mut self, host: usize, cause: String, now: Instant, spread: Option<f64>) {
        if let Some(host) = self.host(host) {
            host.cause = Some(cause);
        }
        self.not_before = spread.map(|unit| now + SPREAD.mul_f64(unit.clamp(0.0, 1.0)));
    }

    /// `zk1:2181: connection refused (31 tries); zk2:2181: not tried yet`, in the order of the list of hosts; empty when a
    /// connection works.
    pub(super) fn causes(&self) -> String {
        let mut causes = String::new();
        if self.trying.is_none() && self.hosts.iter().all(|host| host.cause.is_none()) {
            return causes;
        }
        for Host { number, name, tries, cause, .. } in &self.hosts {
            let unknown = if self.trying == Some(*number) { "no answer yet" } else { "not tried yet" };
            let cause = cause.as_deref().unwrap_or(unknown);
            let separator = if causes.is_empty() { "" } else { "; " };
            // Writing to a text cannot fail.
            let _ = write!(causes, "{separator}{name}: {cause}");
            if *tries > 1 {
                let _ = write!(causes, " ({tries} tries)");
            }
        }
        causes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    fn endpoint(name: &str) -> Endpoint {
        Endpoint::new(name, "2181").expect("a name")
    }

    fn hosts(count: usize) -> Hosts {
        Hosts::new((1..=count).map(|number| endpoint(&format!("zk{number}"))), || 0.999)
    }

    /// Takes turns for `lasting`, each failing at once with the full delay, and tells when they were.
    fn attempts(hosts: &mut Hosts, lasting: Duration, unit: f64) -> Vec<(u128, usize)> {
        play(hosts, lasting, unit, || None)
    }

    /// Takes turns for `lasting`. Each works for as long as `works` says, and is cut; or else it fails at once.
    fn play(
        hosts: &mut Hosts,
        lasting: Duration,
        unit: f64,
        mut works: impl FnMut() -> Option<Duration>,
    ) -> Vec<(u128, usize)> {
        let start = Clock::Machine.now();
        let mut now = start;
        let mut taken = Vec::new();
        while now.since(start) < lasting {
            match hosts.take(now) {
                Err(at) => {
                    assert!(at > now);
                    now = at;
                }
                Ok(turn) => {
                    taken.push((now.since(start).as_millis(), turn.host));
                    if let Some(connected) = works() {
                        hosts.works(turn.host, now);
                        now = now + connected;
                        hosts.cut(turn.host, "cut".to_owned(), now, Some(unit));
                    } else {
                        hosts.failed(turn.host, "connection refused".to_owned(), now, unit);
                    }
                }
            }
        }
        taken
    }

    /// The rule at the top of this file.
    fn assert_paced(taken: &[(u128, usize)], count: usize) {
        let rest = 334 * count.max(3) as u128;
        let mut pass = 0;
        for (nth, (at, host)) in taken.iter().enumerate() {
            let gap = nth.checked_sub(1).map(|before| at - taken[before].0);
            assert!(gap.is_none_or(|gap| gap >= 50), "{count} hosts: {gap:?} before {at}");
            if gap.is_some_and(|gap| gap >= rest) {
                pass = nth;
            }
            let is_fourth = nth.checked_sub(3).is_some_and(|first| at - taken[first].0 <= 1_000);
            if nth - pass >= count {
                assert!(!is_fourth, "{count} hosts: {:?}", &taken[nth - 3..=nth]);
            }
            let same = taken[..nth].iter().rfind(|(_, other)| other == host);
            if is_fourth && let Some((before, _)) = same {
                assert!(at - before >= rest, "{count} hosts: {host} was tried {} ms ago", at - before);
            }
        }
    }

    #[test]
    fn a_pass_is_quick_and_then_there_are_at_most_three_attempts_a_second() {
        for count in [1, 2, 3, 5, 12] {
            for unit in [0.0, 0.5, 1.0] {
                let taken = attempts(&mut hosts(count), Duration::from_secs(60), unit);
                for (nth, (at, _)) in taken.iter().take(count).enumerate() {
                    assert_eq!(*at, 50 * nth as u128, "{count} hosts: the first pass");
                }
                let later: Vec<u128> = taken.iter().skip(count).map(|(at, _)| *at).collect();
                for window in later.windows(4) {
                    assert!(window[3] - window[0] > 1_000, "{count} hosts, {unit}: {window:?}");
                }
                // A network that has healed does not go unnoticed for long.
                let longest = taken.windows(2).map(|pair| pair[1].0 - pair[0].0).max();
                assert!(longest <= Some(1_001), "{count} hosts, {unit}: {longest:?}");
            }
        }
    }

    #[test]
    fn connections_that_work_for_a_moment_do_not_bring_more_attempts() {
        for count in 1..=12 {
            for unit in [0.0, 0.5, 1.0] {
                for seed in 0..30 {
                    let mut random = fastrand::Rng::with_seed(seed);
                    // All of them, half of them, one in ten.
                    let works = [1, 2, 10][seed as usize % 3];
                    let moment = || (random.u64(..works) == 0).then(|| Duration::from_millis(random.u64(..=2_000)));
                    let taken = play(&mut hosts(count), Duration::from_secs(120), unit, moment);
                    assert_paced(&taken, count);
                }
                // A server that closes after its first answer is the worst.
                let taken = play(&mut hosts(count), Duration::from_secs(60), unit, || Some(Duration::ZERO));
                assert_paced(&taken, count);
                let most = count + 3 * 60;
                assert!((100..=most).contains(&taken.len()), "{count} hosts: {} attempts", taken.len());
            }
        }
    }

    #[test]
    fn after_a_long_connection_a_pass_is_quick() {
        for count in 1..=12 {
            let rest = Duration::from_millis(334 * count.max(3) as u64);
            for connected in [rest, Duration::from_secs(600)] {
                let mut first = true;
                let once = || std::mem::take(&mut first).then_some(connected);
                let taken = play(&mut hosts(count), connected + SECOND, 0.0, once);
                let after: Vec<u128> = taken.iter().skip(1).take(count).map(|(at, _)| *at).collect();
                let quick: Vec<u128> = (0..count as u128).map(|nth| connected.as_millis() + 50 * nth).collect();
                assert_eq!(after, quick, "{count} hosts, {connected:?}");
            }
        }
    }

    #[test]
    fn another_list_of_hosts_ends_a_quick_pass() {
        let mut hosts = hosts(12);
        hosts.take(Clock::Machine.now()).expect("the first one");
        hosts.replace(1, vec![endpoint("zk1")], || 0.999);
        let taken = attempts(&mut hosts, Duration::from_secs(10), 0.0);
        for window in taken.windows(4) {
            assert!(window[3].0 - window[0].0 > 1_000, "{window:?}");
        }
    }

    #[test]
    fn every_host_has_its_turn_in_each_pass() {
        for count in [1, 2, 3, 5] {
            let taken = attempts(&mut hosts(count), Duration::from_secs(30), 0.5);
            for pass in taken.chunks_exact(count) {
                let mut seen: Vec<usize> = pass.iter().map(|(_, host)| *host).collect();
                seen.sort_unstable();
                assert_eq!(seen, (1..=count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_order_is_shuffled_once() {
        let drawn = std::cell::Cell::new(0.1);
        let mut orders = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let unit = || {
                drawn.set((drawn.get() * 7.31 + 0.17) % 1.0);
                drawn.get()
            };
            orders.insert(Hosts::new(["a", "b", "c"].map(endpoint), unit).order);
        }
        assert_eq!(orders.len(), 6, "{orders:?}");
    }

    #[test]
    fn the_delay_of_a_pass_doubles_up_to_a_second_and_a_success_ends_it() {
        let mut hosts = hosts(1);
        let now = Clock::Machine.now();
        let mut waits = Vec::new();
        for _ in 0..6 {
            hosts.failed(1, String::new(), now, 1.0);
            waits.push(hosts.not_before.map(|at| at.since(now).as_millis()));
        }
        assert_eq!(waits, [100, 200, 400, 800, 1_000, 1_000].map(Some));
        hosts.works(1, now);
        assert_eq!(hosts.not_before, None);
        hosts.cut(1, String::new(), now, Some(0.5));
        assert_eq!(hosts.not_before, Some(now + Duration::from_millis(50)));
        hosts.cut(1, String::new(), now, None);
        assert_eq!(hosts.not_before, None);
        hosts.failed(1, String::new(), now, 1.0);
        assert_eq!(hosts.not_before, Some(now + Duration::from_millis(100)), "it begins again");
    }

    #[test]
    fn the_causes_are_those_of_the_latest_attempts() {
        let mut hosts = hosts(3);
        let now = Clock::Machine.now();
        assert_eq!(hosts.causes(), "");
        for _ in 0..31 {
            hosts.failed(1, "connection refused".to_owned(), now, 0.5);
        }
        let causes = "zk1:2181: connection refused (31 tries); zk2:2181: not tried yet; zk3:2181: not tried yet";
        assert_eq!(hosts.causes(), causes);
        assert_eq!(turns(&mut hosts, now, 2), [1, 2]);
        let causes = "zk1:2181: connection refused (31 tries); zk2:2181: no answer yet; zk3:2181: not tried yet";
        assert_eq!(hosts.causes(), causes);
        hosts.failed(2, "timed out".to_owned(), now, 0.5);
        hosts.failed(2, "name not found".to_owned(), now, 0.5);
        hosts.cut(3, "no answer for 4 s".to_owned(), now, None);
        assert_eq!(
            hosts.causes(),
            "zk1:2181: connection refused (31 tries); zk2:2181: name not found (2 tries); zk3:2181: no answer for 4 s"
        );
        hosts.works(3, now);
        assert_eq!(hosts.causes(), "");
    }

    #[test]
    fn a_later_configuration_replaces_the_hosts() {
        let mut hosts = hosts(2);
        let now = Clock::Machine.now();
        hosts.failed(2, "name not found".to_owned(), now, 0.5);
        assert!(hosts.replace(7, ["zk2", "zk3"].map(endpoint).to_vec(), || 0.999));
        assert_eq!((hosts.len(), hosts.name(2), hosts.name(3)), (2, "zk2:2181", "zk3:2181"));
        assert_eq!(hosts.name(1), "a former server");
        assert_eq!(hosts.causes(), "zk2:2181: name not found; zk3:2181: not tried yet", "one that stays is the same");
        for stale in [6, 7] {
            assert!(!hosts.replace(stale, vec![endpoint("zk1")], || 0.999), "from a server that is behind");
        }
        assert!(!hosts.replace(8, Vec::new(), || 0.999), "no server at all is no list of servers");
        hosts.cut(1, "cut".to_owned(), now, None);
        assert_eq!(hosts.causes(), "zk2:2181: name not found; zk3:2181: not tried yet", "a former one matters no more");
        assert_eq!(turns(&mut hosts, now, 4), [2, 3, 2, 3]);
    }

    fn turns(hosts: &mut Hosts, start: Instant, count: u32) -> Vec<usize> {
        let turns = (1..=count).map(|second| hosts.take(start + SECOND * second).expect("its time has come"));
        turns.map(|turn| turn.host).collect()
    }

    #[test]
    fn while_none_of_the_configuration_can_be_reached_those_of_the_connect_string_are_tried_too() {
        let mut hosts = hosts(1);
        let now = Clock::Machine.now();
        hosts.replace(1, ["zk2", "zk3"].map(endpoint).to_vec(), || 0.999);
        hosts.failed(2, "refused".to_owned(), now, 0.0);
        assert_eq!(turns(&mut hosts, now, 2), [2, 3], "the first pass is not over");
        hosts.failed(3, "refused".to_owned(), now, 0.0);
        assert_eq!(turns(&mut hosts, now + SECOND * 3, 4), [2, 3, 4, 2]);
        assert_eq!((hosts.len(), hosts.name(4)), (3, "zk1:2181"));
        hosts.replace(2, vec![endpoint("zk3")], || 0.999);
        assert_eq!(hosts.len(), 1, "the next configuration stands alone again");
    }

    #[test]
    fn one_warning_at_the_start_one_a_minute_and_one_at_the_end() {
        let mut hosts = hosts(2);
        let start = Clock::Machine.now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut told = Vec::new();
        for second in 0..130 {
            told.extend(
                hosts.failed(second as usize % 2 + 1, "refused".to_owned(), at(second), 0.5).map(|told| (second, told)),
            );
        }
        let seconds: Vec<u64> = told.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds, [1, 61, 121], "it begins when all hosts have failed");
        assert!(matches!(&told[0].1, Notice::Begins { causes } if causes == "zk1:2181: refused; zk2:2181: refused"));
        assert!(matches!(&told[1].1, Notice::GoesOn { tries: 62, lasting, .. } if *lasting == Duration::from_secs(60)));
        let over = Notice::Over { host: "zk2:2181".to_owned(), tries: 130, lasted: Duration::from_secs(199) };
        assert_eq!(hosts.works(2, at(200)), Some(over));
        assert_eq!(hosts.works(2, at(201)), None);
        assert_eq!(hosts.failed(1, "refused".to_owned(), at(202), 0.5), None, "one host of two is no trouble yet");
    }
}
