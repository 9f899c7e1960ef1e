//! What is held outlasts an outage that is shorter than half the session timeout, by policy `Session`: leaderships of
//! the library, and commands under `zkr lock`. Prints a table.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use tokio::process::Child;
use zookeeper_recipes::leader_latch::{LeaderLatch, Leadership};
use zookeeper_recipes::{Client, ConnectionState, ErrorPolicy};

use crate::contender::zkr;
use crate::support::{Ensemble, ZooKeeper, unique_path, until, within};

/// How often each fault is played, unless `OUTAGE_ROUNDS` says it.
const ROUNDS: usize = 1;
/// How many hold at a time with each session timeout, by the library and by `zkr`: a client is hit only by a fault of
/// the server that it is connected to.
const HOLDERS: usize = 3;
const TIMEOUTS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(30)];
/// As users have it.
const TICK: Duration = Duration::from_secs(2);
/// Until all hold again, on a busy machine.
const SETTLED: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A server ends in good order, and starts.
    Restart,
    /// A server is killed, and starts.
    Kill,
    /// The leader ends, another is elected, and the first one follows it.
    LeaderChange,
}

/// The servers of a play.
enum Servers {
    One(ZooKeeper),
    Three(Ensemble),
}

impl Servers {
    fn connect_string(&self) -> String {
        match self {
            Servers::One(server) => server.connect_string(),
            Servers::Three(ensemble) => ensemble.connect_string(),
        }
    }

    async fn play(&self, what: What, round: usize) {
        match (self, what) {
            (Servers::One(server), What::Kill) => {
                server.kill().await;
                server.start_again().await;
            }
            (Servers::One(server), _) => server.restart().await,
            (Servers::Three(ensemble), what) => {
                let member = if what == What::LeaderChange { ensemble.leader().await } else { round % ensemble.size() };
                if what == What::Kill {
                    ensemble.kill(member).await
                } else {
                    ensemble.stop(member).await
                }
                if what == What::LeaderChange {
                    ensemble.wait_for_quorum().await;
                }
                ensemble.start_again(member).await;
                ensemble.wait_for_quorum().await;
            }
        }
    }
}

/// The outages of a client since the last look.
#[derive(Default)]
struct Outages {
    began: Option<Instant>,
    lasted: Vec<Duration>,
}

/// A leader by the library.
struct Leader {
    latch: LeaderLatch,
    leadership: Option<Leadership>,
    outages: Arc<Mutex<Outages>>,
    client: Client,
}

impl Leader {
    async fn start(connect: &str, timeout: Duration) -> Leader {
        let builder = Client::builder(connect).session_timeout(timeout).error_policy(ErrorPolicy::Session);
        let client = builder.connect().await.expect("a session");
        let outages: Arc<Mutex<Outages>> = Arc::default();
        let (mut states, told) = (client.connection_states(), Arc::clone(&outages));
        tokio::spawn(async move {
            while let Some(Ok(state)) = states.next().await {
                let mut told = told.lock().unwrap();
                match state {
                    ConnectionState::Suspended => drop(told.began.get_or_insert_with(Instant::now)),
                    ConnectionState::Reconnected => {
                        let lasted = told.began.take().map(|began| began.elapsed());
                        told.lasted.extend(lasted);
                    }
                    _ => {}
                }
            }
        });
        let latch = LeaderLatch::builder(&client, unique_path("outages")).start().expect("a latch");
        let mut leader = Leader { latch, leadership: None, outages, client };
        leader.lead().await;
        leader
    }

    async fn lead(&mut self) {
        let leadership = within("leadership", SETTLED, self.latch.wait_for_leadership()).await;
        self.leadership = Some(leadership.expect("leadership"));
    }

    /// Returns how long the outage was, if there was one, and whether the leadership has outlasted it.
    async fn settle(&mut self) -> Option<(Duration, bool)> {
        until("it is connected", SETTLED, || async { self.client.connection_state().is_connected().then_some(()) })
            .await;
        let survived = self.leadership.as_ref().is_some_and(Leadership::is_held);
        if !survived {
            self.leadership = None;
            self.lead().await;
        }
        let lasted = std::mem::take(&mut self.outages.lock().unwrap().lasted);
        Some((lasted.into_iter().reduce(|all, one| all + one)?, survived))
    }
}

/// A command that runs under a lock.
struct Run {
    connect: String,
    timeout: Duration,
    child: Child,
}

impl Run {
    fn start(connect: &str, timeout: Duration) -> Run {
        let mut command = zkr(connect, &["lock", &unique_path("outages"), "--", "sleep", "100000"]);
        command.env_remove("ZKR_TICK_TIME").env("ZKR_SESSION_TIMEOUT", format!("{}s", timeout.as_secs()));
        Run { connect: connect.to_owned(), timeout, child: command.spawn().expect("it starts") }
    }

    /// Returns whether the command runs on. One that does not is started again.
    fn settle(&mut self) -> bool {
        let survived = matches!(self.child.try_wait(), Ok(None));
        if !survived {
            *self = Run::start(&self.connect, self.timeout);
        }
        survived
    }
}

/// Of a fault and a session timeout.
#[derive(Default)]
struct Row {
    hit: usize,
    /// Of an outage shorter than half the session timeout.
    short: usize,
    survived: usize,
    commands: usize,
    commands_survived: usize,
    longest: Duration,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { hit, short, survived, commands, commands_survived, longest } = self;
        write!(f, "{hit:>4} hit, {short:>4} shorter than T/2: {survived:>4} leaderships survived; ")?;
        write!(f, "{commands_survived:>4} of {commands:>4} commands; longest outage {longest:.1?}")
    }
}

async fn play(servers: Servers, faults: &[What], rows: &mut BTreeMap<(&'static str, What, Duration), Row>) {
    let rounds = std::env::var("OUTAGE_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let (connect, name) = (servers.connect_string(), if matches!(servers, Servers::One(_)) { "one" } else { "three" });
    let timeouts = || TIMEOUTS.into_iter().flat_map(|timeout| [timeout; HOLDERS]);
    let mut leaders = join_all(timeouts().map(|timeout| Leader::start(&connect, timeout))).await;
    let mut runs: Vec<Run> = timeouts().map(|timeout| Run::start(&connect, timeout)).collect();
    for what in faults {
        for round in 0..rounds {
            servers.play(*what, round).await;
            let outages = join_all(leaders.iter_mut().map(Leader::settle)).await;
            for (timeout, outage) in timeouts().zip(&outages) {
                let Some((lasted, survived)) = outage else { continue };
                let row = rows.entry((name, *what, timeout)).or_default();
                row.hit += 1;
                row.longest = row.longest.max(*lasted);
                if *lasted < timeout / 2 {
                    row.short += 1;
                    row.survived += usize::from(*survived);
                }
            }
            // Those of `zkr` with the same session timeout have had about the same outages.
            let longest = |timeout: Duration| {
                let same = timeouts().zip(&outages).filter(|(of, _)| *of == timeout);
                same.filter_map(|(_, outage)| Some(outage.as_ref()?.0)).max()
            };
            for run in &mut runs {
                let survived = run.settle();
                if longest(run.timeout).is_some_and(|longest| longest < run.timeout / 2) {
                    let row = rows.entry((name, *what, run.timeout)).or_default();
                    row.commands += 1;
                    row.commands_survived += usize::from(survived);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_outlasts_an_outage_of_less_than_half_the_session_timeout() {
    let mut rows = BTreeMap::new();
    let one = ZooKeeper::builder().tick_time(TICK).start().await;
    play(Servers::One(one), &[What::Restart, What::Kill], &mut rows).await;
    let three = Ensemble::start_with(|_, settings| settings.tick_time(TICK)).await;
    play(Servers::Three(three), &[What::Restart, What::Kill, What::LeaderChange], &mut rows).await;
    for ((servers, what, timeout), row) in &rows {
        println!("{servers:>5} {what:<12?} T = {timeout:>3?}: {row}");
    }
    assert!(rows.values().map(|row| row.hit).sum::<usize>() > 0, "no fault had an effect");
    // With the longer session timeout there is time enough, on a machine that is not too busy.
    let sum = |of: fn(&Row) -> usize| -> usize {
        rows.iter().filter(|((_, _, timeout), _)| *timeout == TIMEOUTS[1]).map(|(_, row)| of(row)).sum()
    };
    let (leaderships, survived) = (sum(|row| row.short), sum(|row| row.survived));
    assert!(survived + 1 + leaderships / 20 >= leaderships, "{survived} of {leaderships} leaderships");
    let (commands, survived) = (sum(|row| row.commands), sum(|row| row.commands_survived));
    assert!(survived + 2 + commands / 20 >= commands, "{survived} of {commands} commands");
}
