//! Which instance is chosen: strategies, weights, and what callers report.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zookeeper_recipes::service_discovery::{DownPolicy, Registration, Service, Strategy};

use super::fixture::{Discovery, choices, chosen, described, ids, instance, register, service, settle, setup};
use crate::fixture::{SOON, within};

async fn registered<const N: usize>(discovery: &Discovery, ids: [&str; N]) -> Vec<Registration<String>> {
    let mut registrations = Vec::new();
    for id in ids {
        registrations.push(register(discovery, id).await);
    }
    registrations
}

async fn with_strategy(discovery: &Discovery, strategy: Strategy<String>) -> Service<String> {
    let starting = discovery.service("api").strategy(strategy).start();
    within("it is looked for", SOON, starting).await.expect("a service")
}

fn count(choices: &[String]) -> HashMap<&str, usize> {
    choices.iter().fold(HashMap::new(), |mut counts, id| {
        *counts.entry(id.as_str()).or_default() += 1;
        counts
    })
}

#[tokio::test(start_paused = true)]
async fn round_robin_is_one_after_the_other() {
    let (_server, [(_, first), _]) = setup().await;
    let _all = registered(&first, ["a", "b", "c"]).await;
    let api = service(&first).await;
    let turns = choices(&api, 9);
    assert_eq!(turns[..3], turns[3..6]);
    assert_eq!(turns[3..6], turns[6..]);
    assert_eq!(count(&turns), HashMap::from([("a", 3), ("b", 3), ("c", 3)]));
}

#[tokio::test(start_paused = true)]
async fn random_meets_all() {
    let (_server, [(_, first), _]) = setup().await;
    let _all = registered(&first, ["a", "b", "c"]).await;
    let api = with_strategy(&first, Strategy::Random).await;
    // Each of them is missed once in 10^52 runs.
    assert_eq!(chosen(&api, 300), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn sticky_stays_until_its_instance_is_gone() {
    let (_server, [(_, first), _]) = setup().await;
    let mut all = registered(&first, ["a", "b", "c"]).await;
    let api = with_strategy(&first, Strategy::Sticky).await;
    let stays = choices(&api, 1).remove(0);
    for id in ["d", "e", "f"] {
        all.push(register(&first, id).await);
        settle().await;
        assert_eq!(chosen(&api, 5), std::slice::from_ref(&stays), "others do not matter");
    }
    let own = all.iter().find(|registration| registration.instance().id() == stays).expect("one of them");
    own.update(described(&stays).port(81).build().expect("good")).await.expect("written");
    settle().await;
    assert_eq!(chosen(&api, 5), std::slice::from_ref(&stays), "new data does not matter");
    own.unregister().await.expect("unregistered");
    settle().await;
    let next = chosen(&api, 5);
    assert!(next.len() == 1 && next[0] != stays, "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn least_loaded_is_the_one_with_the_smallest_measure() {
    let (_server, [(_, first), _]) = setup().await;
    let _all = registered(&first, ["a", "b", "c"]).await;
    let loads = Arc::new(Mutex::new(HashMap::from([("a", 3_u64), ("b", 1), ("c", 2)])));
    let measured = Arc::clone(&loads);
    let measure = Strategy::least_loaded(move |instance| measured.lock().expect("no panic")[instance.id()]);
    let api = with_strategy(&first, measure).await;
    assert_eq!(chosen(&api, 3), ["b"]);
    loads.lock().expect("no panic").insert("b", 2);
    assert_eq!(chosen(&api, 6), ["b", "c"], "of equal ones, one after the other");
    loads.lock().expect("no panic").insert("a", 0);
    assert_eq!(chosen(&api, 3), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn choices_are_in_proportion_to_the_weights() {
    let (_server, [(_, first), _]) = setup().await;
    let mut all = Vec::new();
    for (id, weight) in [("a", "3"), ("b", "1"), ("c", "0")] {
        let described = described(id).payload(weight.to_owned()).build().expect("good");
        all.push(first.register(described).await.expect("registered"));
    }
    let weight = |instance: &zookeeper_recipes::service_discovery::ServiceInstance<String>| {
        instance.payload().and_then(|weight| weight.parse().ok()).expect("a number")
    };
    let api = first.service("api").weight(weight).start().await.expect("a service");
    assert_eq!(count(&choices(&api, 40)), HashMap::from([("a", 30), ("b", 10)]));
    all[2].update(described("c").payload("4".to_owned()).build().expect("good")).await.expect("written");
    settle().await;
    assert_eq!(count(&choices(&api, 80)), HashMap::from([("a", 30), ("b", 10), ("c", 40)]));
    // A weight that panics counts as 1.
    all[2].update(described("c").payload("many".to_owned()).build().expect("good")).await.expect("written");
    settle().await;
    assert_eq!(count(&choices(&api, 50)), HashMap::from([("a", 30), ("b", 10), ("c", 10)]));
}

fn quick() -> DownPolicy {
    DownPolicy::default().errors(3).window(Duration::from_secs(10)).pause(Duration::from_secs(60))
}

async fn with_policy(discovery: &Discovery, policy: DownPolicy) -> Service<String> {
    discovery.service("api").down_policy(policy).start().await.expect("a service")
}

fn report(service: &Service<String>, id: &str, errors: usize) {
    let instance = service.instances().get(id).expect("it is there");
    for _ in 0..errors {
        service.report_error(&instance);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_often_is_down_and_probed_after_a_pause() {
    let (_server, [(_, first), _]) = setup().await;
    let _all = registered(&first, ["a", "b"]).await;
    let api = with_policy(&first, quick()).await;
    report(&api, "a", 2);
    settle().await;
    assert_eq!(chosen(&api, 4), ["a", "b"], "two errors are not three");
    report(&api, "a", 1);
    settle().await;
    assert_eq!(chosen(&api, 4), ["b"]);
    assert_eq!(ids(&api), ["a", "b"], "it is found");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(count(&choices(&api, 10))["a"], 1, "one call is a probe");
    // It fails: it is down again.
    report(&api, "a", 1);
    settle().await;
    assert_eq!(chosen(&api, 4), ["b"]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(count(&choices(&api, 10))["a"], 1);
    api.report_ok(&api.instances().get("a").expect("it is there"));
    settle().await;
    assert_eq!(count(&choices(&api, 10))["a"], 5);
}

#[tokio::test(start_paused = true)]
async fn sticky_does_not_stay_with_one_that_is_only_probed() {
    let (_server, [(_, first), _]) = setup().await;
    let _all = registered(&first, ["a", "b", "c"]).await;
    for _ in 0..20 {
        let starting = first.service("api").down_policy(quick()).strategy(Strategy::Sticky).start();
        let api = starting.await.expect("a service");
        let stayed = choices(&api, 1).remove(0);
        let other = ["a", "b", "c"].into_iter().find(|id| *id != stayed).expect("two others");
        report(&api, other, 3);
        tokio::time::sleep(Duration::from_secs(61)).await;
        report(&api, &stayed, 3);
        settle().await;
        let probed = count(&choices(&api, 10)).get(other).copied().unwrap_or_default();
        assert_eq!(probed, 1, "it is probed once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_about_one_that_is_gone_counts_for_nothing() {
    let (_server, [(_, first), _]) = setup().await;
    let all = registered(&first, ["a", "b"]).await;
    let api = with_policy(&first, quick()).await;
    let gone = api.instances().get("a").expect("it is there");
    all[0].unregister().await.expect("unregistered");
    settle().await;
    for _ in 0..10 {
        api.report_error(&gone);
    }
    let _again = register(&first, "a").await;
    settle().await;
    assert_eq!(chosen(&api, 4), ["a", "b"]);
}

/// A caller that retries at once does not get the same one again.
#[tokio::test(start_paused = true)]
async fn a_report_counts_at_once() {
    for strategy in [Strategy::RoundRobin, Strategy::Random, Strategy::Sticky, Strategy::least_loaded(|_| 0)] {
        let (_server, [(_, first), _]) = setup().await;
        let _all = registered(&first, ["a", "b", "c"]).await;
        let policy = quick().errors(1);
        let starting = first.service("api").down_policy(policy).strategy(strategy.clone()).start();
        let api = starting.await.expect("a service");
        let mut down = Vec::new();
        for _ in 0..3 {
            let chosen = api.next().expect("one of them");
            assert!(!down.contains(&chosen), "{strategy:?}: {chosen:?} is down");
            api.report_error(&chosen);
            down.push(chosen);
        }
        assert!(api.next().is_some(), "if all are down, all are chosen");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_is_what_is_chosen() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let a = register(&first, "a").await;
    let _b = register(&first, "b").await;
    let api = service(&second).await;
    for _ in 0..3 {
        a.set_enabled(false).await.expect("written");
        let drained = api.wait_until(|now| now.get("a").is_some_and(|a| !a.is_enabled()));
        within("it is drained", SOON, drained).await.expect("instances");
        assert_eq!(chosen(&api, 4), ["b"]);
        a.set_enabled(true).await.expect("written");
        within("both accept work", SOON, api.wait_for(2)).await.expect("instances");
        assert_eq!(chosen(&api, 4), ["a", "b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_without_a_report_is_a_success_in_the_end() {
    let (_server, [(_, first), _]) = setup().await;
    let _all = registered(&first, ["a", "b"]).await;
    let api = with_policy(&first, quick()).await;
    report(&api, "a", 3);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(count(&choices(&api, 10))["a"], 1);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(count(&choices(&api, 10))["a"], 5);
}

#[tokio::test(start_paused = true)]
async fn one_probe_is_one_call_whatever_changes_around_it() {
    for strategy in [Strategy::RoundRobin, Strategy::Random, Strategy::Sticky, Strategy::least_loaded(|_| 0)] {
        let (_server, [(_, first), _]) = setup().await;
        let mut all = registered(&first, ["a", "b"]).await;
        let starting = first.service("api").down_policy(quick()).strategy(strategy.clone()).start();
        let api = starting.await.expect("a service");
        report(&api, "a", 3);
        tokio::time::sleep(Duration::from_secs(61)).await;
        let mut probes = 0;
        for id in ["c", "d", "e"] {
            probes += count(&choices(&api, 100)).get("a").copied().unwrap_or_default();
            all.push(register(&first, id).await);
            settle().await;
        }
        assert_eq!(probes, 1, "{strategy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_count_within_the_window_and_until_a_success() {
    let (_server, [(_, first), _]) = setup().await;
    let _all = registered(&first, ["a", "b"]).await;
    let api = with_policy(&first, quick()).await;
    report(&api, "a", 2);
    tokio::time::sleep(Duration::from_secs(11)).await;
    report(&api, "a", 2);
    settle().await;
    assert_eq!(chosen(&api, 4), ["a", "b"], "the first two are too old");
    api.report_ok(&api.instances().get("a").expect("it is there"));
    report(&api, "a", 2);
    settle().await;
    assert_eq!(chosen(&api, 4), ["a", "b"], "a success was between them");
    report(&api, "a", 1);
    settle().await;
    assert_eq!(chosen(&api, 4), ["b"]);
    // A late success of a call that began before proves nothing.
    api.report_ok(&api.instances().get("a").expect("it is there"));
    settle().await;
    assert_eq!(chosen(&api, 4), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn if_all_are_down_or_disabled_all_are_chosen() {
    let (_server, [(_, first), _]) = setup().await;
    let all = registered(&first, ["a", "b", "c"]).await;
    let api = with_policy(&first, quick()).await;
    all[2].set_enabled(false).await.expect("written");
    for id in ["a", "b"] {
        report(&api, id, 3);
    }
    settle().await;
    assert_eq!(chosen(&api, 6), ["a", "b"], "the enabled ones");
    for registration in &all {
        registration.set_enabled(false).await.expect("written");
    }
    settle().await;
    assert_eq!(chosen(&api, 6), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_registration_under_the_same_id_is_up() {
    let (server, [(_, first), _]) = setup().await;
    let all = registered(&first, ["a", "b"]).await;
    let api = with_policy(&first, quick()).await;
    let of_before = api.instances().get("a").expect("it is there");
    report(&api, "a", 3);
    settle().await;
    assert_eq!(chosen(&api, 4), ["b"]);
    // New data is not a new registration.
    all[0].update(described("a").port(81).build().expect("good")).await.expect("written");
    settle().await;
    assert_eq!(chosen(&api, 4), ["b"]);
    server.delete_by_hand("/services/api/a").expect("it is there");
    settle().await;
    assert_eq!(chosen(&api, 4), ["a", "b"]);
    for _ in 0..3 {
        api.report_error(&of_before);
    }
    settle().await;
    assert_eq!(chosen(&api, 4), ["a", "b"], "a report about the former one counts for nothing");
}

#[tokio::test(start_paused = true)]
async fn many_threads_choose_at_once() {
    let (_server, [(_, first), _]) = setup().await;
    let all = registered(&first, ["a", "b"]).await;
    let api = service(&first).await;
    let calls = Arc::new(AtomicU64::new(0));
    let threads = [(); 4].map(|()| {
        let (api, calls) = (api.clone(), Arc::clone(&calls));
        std::thread::spawn(move || {
            for _ in 0..5_000 {
                let chosen = api.next().expect("one of them");
                assert!(["a", "b", "c"].contains(&chosen.id()));
                calls.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    // Meanwhile the instances change.
    while threads.iter().any(|thread| !thread.is_finished()) {
        let c = first.register(instance("c")).await.expect("registered");
        c.unregister().await.expect("unregistered");
    }
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 20_000);
    drop(all);
}
