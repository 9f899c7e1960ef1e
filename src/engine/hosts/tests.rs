//! The pace of the attempts, their order, and their log lines.

use super::*;
use crate::util::clock::Clock;

fn endpoint(name: &str) -> Endpoint {
    Endpoint::new(name, "2181").expect("a name")
}

fn hosts(count: usize) -> Hosts {
    Hosts::new((1..=count).map(|number| endpoint(&format!("zk{number}"))), || 0.999)
}

/// Takes turns for `lasting`. Each fails at once; `unit` scales the delay. Returns when they were, and the hosts.
fn attempts(hosts: &mut Hosts, lasting: Duration, unit: f64) -> Vec<(u128, usize)> {
    play(hosts, lasting, unit, || None)
}

/// Takes turns for `lasting`. Each connection is usable for the time that `works` returns, and is then lost. If `works`
/// returns `None`, the attempt fails at once.
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
                    hosts.mark_usable(turn.host, now);
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

/// Checks the rule in the doc of the module `hosts`.
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
            // The client soon notices that the network has recovered.
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
            // The worst case is a server that closes the connection after its first answer.
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
    hosts.mark_usable(1, now);
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
    hosts.mark_usable(3, now);
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
    assert_eq!(
        hosts.causes(),
        "zk2:2181: name not found; zk3:2181: not tried yet",
        "a host that remains keeps its outcome"
    );
    for stale in [6, 7] {
        assert!(!hosts.replace(stale, vec![endpoint("zk1")], || 0.999), "from a server that lags behind");
    }
    assert!(!hosts.replace(8, Vec::new(), || 0.999), "an empty list is not used");
    hosts.cut(1, "cut".to_owned(), now, None);
    assert_eq!(hosts.causes(), "zk2:2181: name not found; zk3:2181: not tried yet", "a former host no longer counts");
    assert_eq!(turns(&mut hosts, now, 4), [2, 3, 2, 3]);
}

#[test]
fn what_the_user_names_counts_while_no_configuration_does() {
    let mut hosts = hosts(2);
    let named = |names: &[&str]| names.iter().map(|name| endpoint(name)).collect::<Vec<_>>();
    assert!(!hosts.set_named(&named(&["zk1", "zk2"]), || 0.999));
    assert!(hosts.set_named(&named(&["zk2", "zk3"]), || 0.999));
    assert_eq!((hosts.name(1), hosts.name(2), hosts.name(3)), ("a former server", "zk2:2181", "zk3:2181"));
    assert!(hosts.replace(1, named(&["zk4"]), || 0.999));
    let list = *hosts.lists().borrow();
    assert!(!hosts.set_named(&named(&["zk5"]), || 0.999), "it is not in use");
    assert!(hosts.name(4) == "zk4:2181" && hosts.len() == 1 && *hosts.lists().borrow() == list);
    hosts.failed(4, "refused".to_owned(), Clock::Machine.now(), 0.0);
    assert_eq!(hosts.name(5), "zk5:2181", "it is tried while none of the configuration can be reached");
}

#[test]
fn hosts_that_were_looked_up_are_tried_in_their_order() {
    let mut hosts = Hosts::new([], || 0.5);
    let now = Clock::Machine.now();
    assert!(hosts.begin_lookup(now) && !hosts.begin_lookup(now));
    let named = |names: &[&str]| names.iter().map(|name| endpoint(name)).collect::<Vec<_>>();
    assert!(hosts.set_looked_up(&named(&["zk1", "zk2", "zk3"])));
    assert_eq!(turns(&mut hosts, now, 2), [1, 2]);
    assert!(!hosts.begin_lookup(now + SECOND), "the pass is not over");
    hosts.cut(2, "reset".to_owned(), now, None);
    assert!(hosts.begin_lookup(now + SECOND));
    assert!(!hosts.set_looked_up(&named(&["zk3", "zk1", "zk2"])), "the same hosts");
    assert_eq!(turns(&mut hosts, now + SECOND * 2, 3), [3, 1, 2]);
}

#[test]
fn a_host_that_is_preferred_is_the_next_one() {
    let mut hosts = hosts(3);
    let now = Clock::Machine.now();
    for (time, preferred) in (0..).zip([2, 3, 1]) {
        assert!(hosts.prefer(preferred));
        assert_eq!(hosts.all()[0].host, preferred);
        assert_eq!(turns(&mut hosts, now + SECOND * time, 1), [preferred]);
    }
}

fn turns(hosts: &mut Hosts, start: Instant, count: u32) -> Vec<usize> {
    let turns = (1..=count).map(|second| hosts.take(start + SECOND * second).expect("its time has come"));
    turns.map(|turn| turn.host).collect()
}

#[test]
fn the_hosts_of_the_connect_string_are_tried_while_none_of_the_configuration_can_be_reached() {
    let mut hosts = hosts(1);
    let now = Clock::Machine.now();
    hosts.replace(1, ["zk2", "zk3"].map(endpoint).to_vec(), || 0.999);
    hosts.failed(2, "refused".to_owned(), now, 0.0);
    assert_eq!(turns(&mut hosts, now, 2), [2, 3], "the first pass is not over");
    hosts.failed(3, "refused".to_owned(), now, 0.0);
    assert_eq!(turns(&mut hosts, now + SECOND * 3, 4), [2, 3, 4, 2]);
    assert_eq!((hosts.len(), hosts.name(4)), (3, "zk1:2181"));
    hosts.replace(2, vec![endpoint("zk3")], || 0.999);
    assert_eq!(hosts.len(), 1, "the next configuration replaces all of them");
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
    assert!(matches!(&told[1].1, Notice::Continues { tries: 62, lasting, .. } if *lasting == Duration::from_secs(60)));
    let over = Notice::Over { host: "zk2:2181".to_owned(), tries: 130, lasted: Duration::from_secs(199) };
    assert_eq!(hosts.mark_usable(2, at(200)), Some(over));
    assert_eq!(hosts.mark_usable(2, at(201)), None);
    assert_eq!(hosts.failed(1, "refused".to_owned(), at(202), 0.5), None, "one host of two is no outage yet");
}
