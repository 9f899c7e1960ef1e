//! A command is over before the next one starts, whatever happens to the `zkr` that runs it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;

use crate::contender::{Contender, SOON, T, zkr};
use crate::judge::{Judge, Temper};
use crate::support::{Fault, Observer, Proxy, ZooKeeper, unique_path, until};

/// How many cases are played of each fault and temper, unless `ZKR_ROUNDS` says it.
const ROUNDS: usize = 1;
/// How many are played at a time.
const AT_ONCE: usize = 6;
/// How long the next holder may wait: for the session of the first, and as long for its command.
const TURN: Duration = Duration::from_secs(30);

/// What happens to the holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// Its connection carries nothing any more.
    Cut,
    /// Its connection is closed, and it gets no other one.
    Refused,
    SupervisorStoppedAndCut,
    KeeperStopped,
    SupervisorKilled,
    KeeperKilled,
    /// An administrator ends its session, and its connection breaks.
    SessionEnded,
    /// As that, and it is cut off: it does not hear of it.
    SessionEndedAndCut,
    NodeDeleted,
    /// SIGTERM, which is passed on.
    Terminated,
}

const ALL: [What; 10] = [
    What::Cut,
    What::Refused,
    What::SupervisorStoppedAndCut,
    What::KeeperStopped,
    What::SupervisorKilled,
    What::KeeperKilled,
    What::SessionEnded,
    What::SessionEndedAndCut,
    What::NodeDeleted,
    What::Terminated,
];

impl What {
    /// The status of the holder; `None` if it is killed, or was stopped for too long to say.
    fn status(self, temper: Temper) -> Option<i32> {
        match self {
            What::SupervisorKilled | What::SupervisorStoppedAndCut => None,
            // It ignores the signal that is passed on.
            What::Terminated if temper == Temper::Polite => Some(143),
            What::Terminated => None,
            _ => Some(123),
        }
    }
}

/// A lock, the `zkr` that holds it, and the one that waits.
struct Scene {
    observer: Observer,
    proxy: Proxy,
    path: String,
}

impl Scene {
    fn contend(&self, connect: &str, command: &[String]) -> Command {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        zkr(connect, &[&["lock", &self.path, "--grace", "300ms", "--"], &command[..]].concat())
    }

    /// The node of the holder.
    async fn first(&self) -> String {
        let number = |name: &str| name[name.len() - 10..].parse::<u32>().expect("a number");
        let names = self.observer.children(&self.path).await;
        let first = names.iter().min_by_key(|name| number(name)).expect("a node");
        format!("{}/{first}", self.path)
    }

    async fn play(&self, what: What, holder: &Contender) {
        let tell = |pid: Pid, signal| kill(pid, signal).expect("it can be told");
        match what {
            What::Cut => self.proxy.set(Fault::BlackHole).await,
            What::Refused => self.proxy.set(Fault::Refuse).await,
            What::SupervisorStoppedAndCut => {
                tell(holder.supervisor(), Signal::SIGSTOP);
                self.proxy.set(Fault::BlackHole).await;
            }
            What::KeeperStopped => tell(holder.keeper().await, Signal::SIGSTOP),
            What::SupervisorKilled => tell(holder.supervisor(), Signal::SIGKILL),
            What::KeeperKilled => tell(holder.keeper().await, Signal::SIGKILL),
            What::SessionEnded => {
                self.proxy.kill_session().await;
                self.proxy.reset_once().await;
            }
            What::SessionEndedAndCut => {
                self.proxy.set(Fault::BlackHole).await;
                self.proxy.kill_session().await;
            }
            What::NodeDeleted => self.observer.delete(&self.first().await).await,
            What::Terminated => holder.signal(Signal::SIGTERM),
        }
    }
}

async fn case(server: &ZooKeeper, what: What, temper: Temper) {
    let observer = Observer::connect(&server.connect_string()).await;
    let scene = Scene { observer, proxy: Proxy::start(server.addr()).await, path: unique_path("zkr-fault") };
    let judge = Judge::new();
    let holder = Contender::start(scene.contend(&scene.proxy.connect_string(), &judge.command(temper)));
    judge.has_started(1, SOON).await;
    let keeper = holder.keeper().await;
    let next = Contender::start(scene.contend(&server.connect_string(), &judge.command(Temper::Polite)));
    scene.observer.wait_for_children(&scene.path, 2).await;

    scene.play(what, &holder).await;
    if what == What::Terminated && temper == Temper::Stubborn {
        // Its command ignores that, so nothing ends.
        tokio::time::sleep(T / 2).await;
        assert_eq!(judge.started().len(), 1, "it runs on");
        scene.observer.delete(&scene.first().await).await;
    }
    judge.has_started(2, TURN).await;
    judge.assert_one_at_a_time();

    // What was stopped goes on, and finds that all is over.
    for process in [holder.supervisor(), keeper] {
        let _ = kill(process, Signal::SIGCONT);
    }
    let ended = holder.ended().await;
    if let Some(status) = what.status(temper) {
        ended.with(status);
    }
    next.signal(Signal::SIGTERM);
    next.ended().await.with(143);
    judge.assert_none_is_left(SOON).await;
    judge.assert_one_at_a_time();
    assert_eq!(judge.started().len(), 2);
    until("all nodes are gone", SOON, || async { scene.observer.children(&scene.path).await.is_empty().then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_is_alive_when_the_next_one_starts() {
    let rounds = std::env::var("ZKR_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let server = ZooKeeper::start().await;
    let cases =
        (0..rounds).flat_map(|_| ALL.into_iter().flat_map(|what| [(what, Temper::Polite), (what, Temper::Stubborn)]));
    let played = stream::iter(cases.map(|(what, temper)| {
        let server = &server;
        async move {
            case(server, what, temper).await;
            what
        }
    }));
    let mut counts = BTreeMap::new();
    let mut played = played.buffer_unordered(AT_ONCE);
    while let Some(what) = played.next().await {
        *counts.entry(what).or_insert(0) += 1;
    }
    println!("no overlap: {counts:?}");
    assert_eq!(counts.len(), ALL.len());
}

/// All contenders lose their server at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_are_over_while_no_server_is_there_and_go_on_when_it_is_back() {
    let server = ZooKeeper::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let observer = Observer::connect(&server.connect_string()).await;
    let scene = Scene { observer, proxy, path: unique_path("zkr-server") };
    let judge = Judge::new();
    let contend = || Contender::start(scene.contend(&scene.proxy.connect_string(), &judge.command(Temper::Stubborn)));
    let holder = contend();
    judge.has_started(1, SOON).await;
    let next = contend();
    scene.observer.wait_for_children(&scene.path, 2).await;
    server.kill().await;
    holder.ended().await.with(123);
    judge.assert_none_is_left(SOON).await;
    assert_eq!(judge.started().len(), 1);
    server.start_again().await;
    server.wait_until_serving().await;
    judge.has_started(2, TURN).await;
    judge.assert_one_at_a_time();
    drop(next);
    judge.assert_none_is_left(SOON).await;
}
