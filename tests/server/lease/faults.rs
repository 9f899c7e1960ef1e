//! Faults of leaders, of their connections and of their servers.

use std::time::Duration;

use super::ALONE;
use super::holders::{Group, Here};
use super::moment::Moment;
use super::process::{self, Elsewhere};
use super::round::{Fault, Round};
use super::table::{Case, Table};
use crate::support::{Ensemble, Fault as Cut, Proxy};
use futures::future::join_all;
use tokio::time::sleep;

const TWO: Duration = Duration::from_secs(2);
const THREE: Duration = Duration::from_secs(3);
const FOUR: Duration = Duration::from_secs(4);
/// Leaders in a round.
const GROUP: usize = 8;
/// Fewer proven cases in which a node was deleted are no proof.
const ENOUGH: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_says_no_before_its_node_is_gone() {
    if let Some(order) = process::order() {
        return process::obey(order).await;
    }
    let _alone = ALONE.lock().await;
    let ensemble = Ensemble::start().await;
    let mut table = Table::default();

    // Faults that leave the servers alone: many at once.
    let stops = [(TWO, 0.5), (TWO, 0.9), (TWO, 1.0), (THREE, 0.9), (THREE, 1.0), (TWO, 1.5), (TWO, 3.0)];
    let cases = join_all(stops.map(|(timeout, times)| stopped(&ensemble, timeout, times))).await;
    table.cases.extend(cases.into_iter().flatten());
    for timeout in [TWO, THREE] {
        table.cases.extend(unconnected(&ensemble, timeout).await);
    }

    // Faults of the servers: one after the other.
    for timeout in [TWO, THREE] {
        table.cases.extend(follower_cut_off(&ensemble, timeout).await);
        table.cases.extend(head_cut_off(&ensemble, timeout).await);
        table.cases.extend(head_paused_under_its_clients(&ensemble, timeout).await);
    }
    for timeout in [TWO, FOUR] {
        table.cases.extend(follower_cut_off(&ensemble, timeout).await);
        table.cases.extend(head_paused_behind_a_follower(&ensemble, timeout).await);
    }

    println!("\n{table}");
    let broken = table.broken();
    assert!(broken.is_empty(), "{broken:#?}");
    let idle = table.idle();
    assert!(idle.is_empty(), "nothing was learnt of {idle:#?}");
    assert!(table.safe() >= ENOUGH, "only {} of {ENOUGH} cases are proven", table.safe());
}

/// The servers other than `out`.
fn others(ensemble: &Ensemble, out: usize) -> String {
    let others = (0..ensemble.size()).filter(|&i| i != out);
    let others: Vec<String> = others.map(|i| ensemble.member(i).connect_string()).collect();
    others.join(",")
}

/// Leaders that all connect to one server, and only to that.
async fn leaders_on(ensemble: &Ensemble, server: usize, timeout: Duration) -> Here {
    let servers = vec![ensemble.member(server).connect_string(); GROUP];
    Here::lead(&servers, Group::granted(timeout)).await
}

/// The process of the leaders is stopped.
async fn stopped(ensemble: &Ensemble, timeout: Duration, times: f64) -> Vec<Case> {
    let stop = timeout.mul_f64(times);
    let servers: Vec<String> = (0..GROUP).map(|i| ensemble.member(i % ensemble.size()).connect_string()).collect();
    let test = concat!(module_path!(), "::a_leader_says_no_before_its_node_is_gone");
    let holders = Elsewhere::lead(test, &servers, Group::granted(timeout)).await;
    let fault = Fault {
        name: format!("process stopped for {times:.1} T"),
        servers: ensemble.connect_string(),
        group: Group::granted(timeout),
        stop: Some(stop),
        // The servers count in ticks and hear of a session from its server in ticks.
        may_pass: times <= 1.0,
    };
    let mut round = Round::begin(fault, holders).await;
    round.holders.stop();
    // The fault: so long nothing of the process runs.
    sleep(stop).await;
    let over = Moment::now();
    round.holders.go_on();
    round.settle(Some(over)).await;
    round.end().await
}

/// Proxies cut leaders off from a healthy server: two kinds of silence, two kinds of noise.
async fn unconnected(ensemble: &Ensemble, timeout: Duration) -> Vec<Case> {
    const CUTS: [(&str, Cut); 4] = [
        ("black hole", Cut::BlackHole),
        ("answers lost", Cut::DropAnswers),
        ("connections reset", Cut::Reset),
        ("connections refused", Cut::Refuse),
    ];
    let groups = CUTS.map(|(name, cut)| async move {
        let proxies = (0..GROUP).map(|i| Proxy::start(ensemble.member(i % ensemble.size()).addr()));
        let proxies = join_all(proxies).await;
        let servers: Vec<String> = proxies.iter().map(Proxy::connect_string).collect();
        let fault = Fault {
            name: name.to_owned(),
            servers: ensemble.connect_string(),
            group: Group::granted(timeout),
            stop: None,
            may_pass: false,
        };
        let mut round = Round::begin(fault, Here::lead(&servers, Group::granted(timeout)).await).await;
        join_all(proxies.iter().map(|proxy| proxy.set(cut))).await;
        round.settle(None).await;
        join_all(proxies.iter().map(|proxy| proxy.set(Cut::Pass))).await;
        round.end().await
    });
    join_all(groups).await.into_iter().flatten().collect()
}

/// The leaders' server is cut off from the other two; it keeps answering until it notices.
async fn follower_cut_off(ensemble: &Ensemble, timeout: Duration) -> Vec<Case> {
    let follower = ensemble.followers().await[0];
    cut_off(ensemble, follower, "their server, a follower, cut off", timeout).await
}

/// The same with the leader of the ensemble, which answers even syncs until it notices.
async fn head_cut_off(ensemble: &Ensemble, timeout: Duration) -> Vec<Case> {
    let head = ensemble.leader().await;
    cut_off(ensemble, head, "their server, the ensemble's leader, cut off", timeout).await
}

async fn cut_off(ensemble: &Ensemble, server: usize, name: &str, timeout: Duration) -> Vec<Case> {
    let fault = Fault {
        name: name.to_owned(),
        servers: others(ensemble, server),
        group: Group::granted(timeout),
        stop: None,
        may_pass: false,
    };
    let mut round = Round::begin(fault, leaders_on(ensemble, server, timeout).await).await;
    ensemble.isolate(server).await;
    round.settle(None).await;
    ensemble.rejoin(server).await;
    ensemble.wait_for_quorum().await;
    round.end().await
}

/// The leader of the ensemble is paused, and the leaders are its clients.
async fn head_paused_under_its_clients(ensemble: &Ensemble, timeout: Duration) -> Vec<Case> {
    let head = ensemble.leader().await;
    let fault = Fault {
        name: "their server, the ensemble's leader, paused".to_owned(),
        servers: others(ensemble, head),
        group: Group::granted(timeout),
        stop: None,
        may_pass: false,
    };
    let mut round = Round::begin(fault, leaders_on(ensemble, head, timeout).await).await;
    ensemble.pause(head).await;
    round.settle(None).await;
    ensemble.unpause(head).await;
    ensemble.wait_for_quorum().await;
    round.end().await
}

/// The leader of the ensemble is paused, and the leaders are clients of its followers, which must elect another.
async fn head_paused_behind_a_follower(ensemble: &Ensemble, timeout: Duration) -> Vec<Case> {
    let head = ensemble.leader().await;
    let followers = ensemble.followers().await;
    let servers = (0..GROUP).map(|i| ensemble.member(followers[i % followers.len()]).connect_string());
    let servers: Vec<String> = servers.collect();
    let fault = Fault {
        name: "the ensemble's leader paused, not their server".to_owned(),
        servers: others(ensemble, head),
        group: Group::granted(timeout),
        stop: None,
        may_pass: true,
    };
    let mut round = Round::begin(fault, Here::lead(&servers, Group::granted(timeout)).await).await;
    ensemble.pause(head).await;
    ensemble.wait_for_quorum().await;
    round.settle(Some(Moment::now())).await;
    ensemble.unpause(head).await;
    ensemble.wait_for_quorum().await;
    round.end().await
}
