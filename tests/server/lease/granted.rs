//! Each connection has a timeout of its own: servers with other limits grant another one when a session is taken up
//! again. Whatever was granted before, a leader says no before its node is gone.
//!
//! `GRANTED_CASES=200 cargo test --features integration --test server lease::granted -- --nocapture` for more cases;
//! `SEED` repeats their schedules.

use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use tokio::time::sleep;
use zookeeper_recipes::ErrorPolicy;

use super::holders::{Group, Here, Policies};
use super::moment::Moment;
use super::process::{self, Elsewhere};
use super::round::{Fault, Round};
use super::table::{Case, Table};
use crate::support::{Ensemble, Fault as Cut, Proxy};

const TEST: &str = concat!(module_path!(), "::whatever_a_reconnect_grants_a_leader_says_no_before_its_node_is_gone");
/// The longest timeout that the members grant, in milliseconds; the leaders ask for the most of it.
const LIMITS: [u64; 3] = [6_000, 4_000, 2_000];
const LONG: usize = 0;
const SHORT: usize = 2;
/// Leaders in a round.
const GROUP: usize = 4;
/// Rounds at a time.
const AT_ONCE: usize = 6;
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

fn limit(member: usize) -> Duration {
    Duration::from_millis(LIMITS[member])
}

/// The history of the session of a leader until the fault.
#[derive(Debug)]
struct Hops {
    /// The members that it is moved to, and after how long.
    to: Vec<(Duration, usize)>,
    /// From the last one to the fault.
    rest: Duration,
}

impl Hops {
    fn random(rng: &mut Rng, to: &[usize]) -> Hops {
        let mut pause = || Duration::from_millis(rng.u64(0..1_500));
        let rest = pause();
        Hops { to: to.iter().map(|&member| (pause(), member)).collect(), rest }
    }

    /// Moves the session behind the proxy; returns the timeouts that were not granted as expected.
    async fn play(&self, proxy: &Proxy, ensemble: &Ensemble) -> Vec<String> {
        let mut wrong = Vec::new();
        for &(pause, member) in &self.to {
            sleep(pause).await;
            let before = proxy.grants().len();
            proxy.follow(ensemble.member(member).addr());
            proxy.cut().await;
            let late = Moment::now() + PATIENCE;
            while proxy.grants().len() == before && Moment::now() < late {
                sleep(PAUSE).await;
            }
            // One that has lost its session meanwhile is a case as well, and so is one that a busy machine keeps away.
            let Some(granted) = proxy.grants().get(before).copied() else {
                println!("no connection to member {member} within {PATIENCE:?}");
                continue;
            };
            if u128::from(granted.unsigned_abs()) != limit(member).as_millis() {
                wrong.push(format!(
                    "asked for what the user asks for, {:?} would be granted, not {granted} ms",
                    limit(member)
                ));
            }
        }
        wrong
    }
}

/// A round of leaders whose sessions move from server to server before the fault.
#[derive(Debug)]
struct Plan {
    name: &'static str,
    policies: Policies,
    /// The member that opens their sessions.
    first: usize,
    hops: Vec<Hops>,
    /// The line of each is cut in this way; or else their process is stopped.
    cuts: Option<Vec<Cut>>,
}

impl Plan {
    fn new(rng: &mut Rng, name: &'static str, policies: Policies, way: [usize; 2], stopped: bool) -> Plan {
        let hops = (0..GROUP).map(|_| Hops::random(rng, &way[1..])).collect();
        Plan { name, policies, first: way[0], hops, cuts: (!stopped).then(|| cuts(rng)) }
    }

    fn random(rng: &mut Rng) -> Plan {
        let stopped = rng.bool();
        // A stop as long as one of them needs would be too long to tell anything of the others.
        let last = rng.usize(..LIMITS.len());
        let hops = (0..GROUP).map(|_| {
            let mut to: Vec<usize> = (0..rng.usize(1..=3)).map(|_| rng.usize(..LIMITS.len())).collect();
            if stopped {
                to.push(last);
            }
            Hops::random(rng, &to)
        });
        let hops = hops.collect();
        let first = rng.usize(..LIMITS.len());
        let name = if stopped { "random grants, process stopped" } else { "random grants, lines cut" };
        Plan { name, policies: Policies::Mixed, first, hops, cuts: (!stopped).then(|| cuts(rng)) }
    }

    /// As many as make up so many cases: every directed one first.
    fn all(rng: &mut Rng, cases: usize) -> Vec<Plan> {
        let (session, standard) = (Policies::Only(ErrorPolicy::Session), Policies::Only(ErrorPolicy::Standard));
        let mut plans = vec![
            Plan::new(rng, "less granted, lines cut", session, [LONG, SHORT], false),
            Plan::new(rng, "less granted, process stopped", standard, [LONG, SHORT], true),
            Plan::new(rng, "more granted, lines cut", session, [SHORT, LONG], false),
            Plan::new(rng, "more granted, process stopped", standard, [SHORT, LONG], true),
        ];
        while plans.len() * GROUP < cases {
            plans.push(Plan::random(rng));
        }
        plans.truncate(cases.div_ceil(GROUP));
        plans
    }

    fn group(&self) -> Group {
        Group { asked: limit(LONG), granted: limit(self.first), policies: self.policies }
    }

    /// The longest of the timeouts that the members have granted last.
    fn last_granted(&self) -> Duration {
        let last = self.hops.iter().map(|hops| limit(hops.to.last().map_or(self.first, |&(_, member)| member)));
        last.max().expect("a group is not empty")
    }

    /// The longest of all that the members have granted.
    fn longest_granted(&self) -> Duration {
        let all = self.hops.iter().flat_map(|hops| &hops.to).map(|&(_, member)| limit(member));
        all.fold(limit(self.first), Duration::max)
    }

    async fn carry_out(self, ensemble: &Ensemble) -> Outcome {
        let proxies = join_all((0..GROUP).map(|_| Proxy::start(ensemble.member(self.first).addr()))).await;
        let servers: Vec<String> = proxies.iter().map(Proxy::connect_string).collect();
        match &self.cuts {
            Some(cuts) => self.cut_off(ensemble, &proxies, &servers, cuts).await,
            None => self.stop(ensemble, &proxies, &servers).await,
        }
    }

    fn fault(&self, ensemble: &Ensemble, stop: Option<Duration>) -> Fault {
        let servers = ensemble.member(LONG).connect_string();
        // A late message of an earlier connection brings its timeout back at the servers, which is rare.
        let may_pass = stop.is_some() && self.longest_granted() > self.last_granted();
        Fault { name: self.name.to_owned(), servers, group: self.group(), stop, may_pass }
    }

    /// Each line ends when its time has come.
    async fn cut_off(&self, ensemble: &Ensemble, proxies: &[Proxy], servers: &[String], cuts: &[Cut]) -> Outcome {
        let holders = Here::lead(servers, self.group()).await;
        let mut round = Round::begin(self.fault(ensemble, None), holders).await;
        let playing = proxies.iter().zip(&self.hops).zip(cuts).map(|((proxy, hops), cut)| async move {
            let wrong = hops.play(proxy, ensemble).await;
            sleep(hops.rest).await;
            proxy.set(*cut).await;
            wrong
        });
        let wrong = join_all(playing).await.concat();
        round.settle(None).await;
        join_all(proxies.iter().map(|proxy| proxy.set(Cut::Pass))).await;
        Outcome { cases: round.end().await, wrong }
    }

    /// All are stopped at once, when each leads with its last connection.
    async fn stop(&self, ensemble: &Ensemble, proxies: &[Proxy], servers: &[String]) -> Outcome {
        // The servers count in ticks and hear of a session from its server in ticks.
        let stop = self.last_granted().mul_f64(1.5) + Duration::from_secs(1);
        let holders = Elsewhere::lead(TEST, servers, self.group()).await;
        let mut round = Round::begin(self.fault(ensemble, Some(stop)), holders).await;
        let playing = proxies.iter().zip(&self.hops).map(|(proxy, hops)| hops.play(proxy, ensemble));
        let wrong = join_all(playing).await.concat();
        round.all_lead_after(Moment::now()).await;
        sleep(self.hops[0].rest).await;
        round.holders.stop();
        // The fault: so long nothing of the process runs.
        sleep(stop).await;
        let over = Moment::now();
        round.holders.go_on();
        round.settle(Some(over)).await;
        Outcome { cases: round.end().await, wrong }
    }
}

/// How the lines of a group end; most in silence, which nothing tells.
fn cuts(rng: &mut Rng) -> Vec<Cut> {
    const ENDS: [Cut; 5] = [Cut::BlackHole, Cut::BlackHole, Cut::DropAnswers, Cut::Refuse, Cut::Reset];
    (0..GROUP).map(|_| ENDS[rng.usize(..ENDS.len())]).collect()
}

#[derive(Debug)]
struct Outcome {
    cases: Vec<Case>,
    /// The timeouts that were not granted as expected.
    wrong: Vec<String>,
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_reconnect_grants_a_leader_says_no_before_its_node_is_gone() {
    if let Some(order) = process::order() {
        return process::obey(order).await;
    }
    let _alone = super::ALONE.lock().await;
    let cases = number("GRANTED_CASES").map_or(4 * GROUP, |cases| usize::try_from(cases).expect("not so many"));
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={seed} GRANTED_CASES={cases}");
    let ensemble =
        Ensemble::start_with(|member, settings| settings.config(format!("maxSessionTimeout={}", LIMITS[member])));
    let ensemble = ensemble.await;
    let (mut table, mut wrong) = (Table::default(), Vec::new());
    let mut plans = Plan::all(&mut Rng::with_seed(seed), cases);
    while !plans.is_empty() {
        let some = plans.drain(..AT_ONCE.min(plans.len()));
        for outcome in join_all(some.map(|plan| plan.carry_out(&ensemble))).await {
            table.cases.extend(outcome.cases);
            wrong.extend(outcome.wrong);
        }
    }
    println!("\n{table}");
    let broken = table.broken();
    assert!(broken.is_empty(), "{} of {}: {broken:#?}", broken.len(), table.cases.len());
    assert!(table.safe() * 2 >= table.cases.len(), "only {} of {} cases are proven", table.safe(), table.cases.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}
