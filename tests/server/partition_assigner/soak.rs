//! Members in processes of their own that are killed, stopped and restarted at random, on three servers that are
//! killed, frozen and cut off at random. A judge outside of the recipe notes who held what and when.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};
use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::partition_assigner::{Owned, PartitionAssigner};

use super::fixture::{PARTITIONS, SOON, builder};
use super::judge::{Judge, Span, Verdict};
use crate::lease::moment::Moment;
use crate::support::elsewhere::{Elsewhere, ordered};
use crate::support::{Ensemble, Observer, unique_path};

const TEST: &str = concat!(module_path!(), "::under_all_faults_no_partition_ever_has_two_owners");
const MEMBERS: usize = 5;
const SESSION: Duration = Duration::from_secs(2);
/// Below the base.
const DIRS: [&str; 4] = ["members", "assignments", "owned", "leader"];
/// How often each piece of work writes to the judge.
const BEAT: Duration = Duration::from_millis(10);
/// How long faults last where `ASSIGNER_SOAK` does not ask for minutes.
const SHORT: Duration = Duration::from_secs(12);
/// Fewer hand-overs prove nothing.
const ENOUGH: usize = PARTITIONS;
/// After so many faults of one kind, all partitions must be owned again.
const FAULTS: usize = 8;

/// With `ASSIGNER_SOAK=20`, faults last for 20 minutes. `SEED` repeats their order. With `RUST_LOG`, the
/// members log to the standard error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_all_faults_no_partition_ever_has_two_owners() {
    if let Some(order) = ordered() {
        return take_part(order).await;
    }
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let length = number("ASSIGNER_SOAK").map_or(SHORT, |minutes| Duration::from_secs(60 * minutes));
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={seed}");
    let (end, mut rng) = (Instant::now() + length, Rng::with_seed(seed));
    let (mut all, mut counts) = (Verdict::default(), Counts::default());
    while Instant::now() < end || all.writes == 0 {
        let mut soak = Soak::start(rng.fork()).await;
        soak.run(end).await;
        all.merge(soak.judge.verdict());
        counts.merge(&soak.counts);
    }
    println!(
        "{length:?}: {} grants, {} hand-overs, {} overlaps, {} writes, {} stale tokens refused; {counts:?}",
        all.grants,
        all.hand_overs,
        all.overlaps.len(),
        all.writes,
        all.stale,
    );
    assert!(all.overlaps.is_empty(), "{:#?}", all.overlaps);
    assert!(all.disorders.is_empty(), "{:#?}", all.disorders);
    assert!(all.hand_overs >= ENOUGH, "only {} hand-overs", all.hand_overs);
}

/// How often each thing was done.
#[derive(Debug, Default)]
struct Counts {
    killed: usize,
    stopped: usize,
    left: usize,
    restarted: usize,
    servers: usize,
    quorums: usize,
    /// The servers had different nodes, and were replaced.
    disagreed: usize,
}

impl Counts {
    fn merge(&mut self, other: &Counts) {
        self.killed += other.killed;
        self.stopped += other.stopped;
        self.left += other.left;
        self.restarted += other.restarted;
        self.servers += other.servers;
        self.quorums += other.quorums;
        self.disagreed += other.disagreed;
    }
}

struct Soak {
    ensemble: Ensemble,
    judge: Judge,
    members: Members,
    rng: Rng,
    counts: Counts,
}

/// The processes of the members.
struct Members {
    processes: Vec<Elsewhere>,
    order: [String; 3],
    started: u64,
}

impl Members {
    fn start(ensemble: &Ensemble, base: &str, judge: &Judge) -> Members {
        let order = [ensemble.connect_string(), base.to_owned(), judge.addr().to_string()];
        let mut members = Members { processes: Vec::new(), order, started: 0 };
        for number in 0..MEMBERS {
            let process = members.process(number);
            members.processes.push(process);
        }
        members
    }

    /// Starts a process for a member, which has the same id each time.
    fn process(&mut self, number: usize) -> Elsewhere {
        self.started += 1;
        let [servers, base, judge] = &self.order;
        Elsewhere::start(TEST, &[servers, base, judge, &number.to_string(), &self.started.to_string()])
    }

    /// Starts another process for a member. Returns the earlier one.
    fn replace(&mut self, number: usize) -> Elsewhere {
        let next = self.process(number);
        std::mem::replace(&mut self.processes[number], next)
    }
}

impl Soak {
    async fn start(rng: Rng) -> Soak {
        let (ensemble, judge) = (Ensemble::start().await, Judge::start().await);
        let members = Members::start(&ensemble, &unique_path("soak"), &judge);
        Soak { ensemble, judge, members, rng, counts: Counts::default() }
    }

    /// Faults until then. Ends early if the servers disagree.
    async fn run(&mut self, end: Instant) {
        let mut is_owned = self.all_are_owned().await;
        // On a slow machine, there are few faults in a short time.
        while is_owned && (Instant::now() < end || self.judge.verdict().hand_overs < ENOUGH) {
            self.faults(end.max(Instant::now() + SHORT / 3)).await;
            is_owned = self.all_are_owned().await;
        }
        let verdict = self.judge.verdict();
        let is_right = is_owned && verdict.overlaps.is_empty() && verdict.disorders.is_empty();
        if is_right || self.servers_agree().await {
            assert!(is_right, "{verdict:#?}");
            return;
        }
        // Servers that lose their leader may keep transactions that the next leader does not have (ZOOKEEPER-4712,
        // ZOOKEEPER-4785). Clients of different servers then see different nodes, for good.
        println!("the servers disagree, and are replaced");
        self.counts.disagreed += 1;
    }

    /// Waits until every partition is owned from now on: by someone who says so after this moment.
    async fn all_are_owned(&self) -> bool {
        let (moment, late) = (Moment::now(), Instant::now() + SOON * 2);
        while Instant::now() < late {
            if self.judge.unowned_since(moment, PARTITIONS).is_empty() {
                return true;
            }
            sleep(BEAT).await;
        }
        println!("{:?} had no owner for {:?}", self.judge.unowned_since(moment, PARTITIONS), SOON * 2);
        self.describe().await;
        false
    }

    /// Returns whether all servers have the same nodes, at some time within a while.
    async fn servers_agree(&self) -> bool {
        let mut observers = Vec::new();
        for server in 0..self.ensemble.size() {
            observers.push(Observer::connect(&self.ensemble.member(server).connect_string()).await);
        }
        let base = &self.members.order[1];
        for _ in 0..20 {
            let mut listings = BTreeSet::new();
            for observer in &observers {
                observer.sync(base).await;
                let mut names = Vec::new();
                for dir in DIRS {
                    names.extend(observer.children(&format!("{base}/{dir}")).await);
                }
                names.sort();
                listings.insert(names);
            }
            if listings.len() == 1 {
                return true;
            }
            sleep(Duration::from_millis(100)).await;
        }
        false
    }

    /// Prints all nodes, and what was seen so far.
    async fn describe(&self) {
        println!("{:?}\n{:?}", self.counts, self.judge.verdict());
        let observer = Observer::connect(&self.ensemble.connect_string()).await;
        let base = &self.members.order[1];
        for dir in DIRS {
            let mut names = observer.children(&format!("{base}/{dir}")).await;
            names.sort();
            for name in names {
                let path = format!("{base}/{dir}/{name}");
                let (data, owner) = (observer.data(&path).await.unwrap_or_default(), observer.owner(&path).await);
                println!("{path} of {:x}: {}", owner.unwrap_or_default(), String::from_utf8_lossy(&data));
            }
        }
    }

    /// Faults of members and of servers at the same time.
    async fn faults(&mut self, end: Instant) {
        let mut rng = self.rng.fork();
        let Soak { ensemble, members, rng: other, counts, .. } = self;
        let mut of_members = Counts::default();
        let ((), ()) = tokio::join!(
            async {
                for _ in 0..FAULTS {
                    if Instant::now() < end {
                        fault_of_a_member(members, &mut rng, &mut of_members).await;
                    }
                }
            },
            async {
                for _ in 0..FAULTS / 4 {
                    if Instant::now() < end {
                        fault_of_a_server(ensemble, other, counts).await;
                    }
                }
            }
        );
        counts.merge(&of_members);
    }
}

/// Returns a time of at most so many milliseconds.
fn up_to(rng: &mut Rng, millis: u64) -> Duration {
    Duration::from_millis(rng.u64(..millis))
}

async fn fault_of_a_member(members: &mut Members, rng: &mut Rng, counts: &mut Counts) {
    sleep(up_to(rng, 1_000)).await;
    let number = rng.usize(..MEMBERS);
    match rng.u8(..4) {
        0 => {
            counts.killed += 1;
            members.replace(number).kill().await;
        }
        1 => {
            counts.stopped += 1;
            let process = &members.processes[number];
            process.stop().await;
            // Up to twice the session.
            sleep(up_to(rng, 4_000)).await;
            process.go_on();
        }
        leave => {
            let word = if leave == 2 { "leave" } else { "restart" };
            *(if leave == 2 { &mut counts.left } else { &mut counts.restarted }) += 1;
            members.processes[number].tell(word).await;
            // While there is no quorum it cannot leave, and is killed.
            sleep(up_to(rng, 1_000)).await;
            members.replace(number).kill().await;
        }
    }
}

async fn fault_of_a_server(ensemble: &Ensemble, rng: &mut Rng, counts: &mut Counts) {
    sleep(up_to(rng, 1_000)).await;
    let (one, two) = (rng.usize(..ensemble.size()), rng.usize(1..ensemble.size()));
    let two = (one + two) % ensemble.size();
    let time = up_to(rng, 4_000);
    counts.servers += 1;
    match rng.u8(..5) {
        0 => {
            ensemble.kill(one).await;
            sleep(time).await;
            ensemble.start_again(one).await;
        }
        1 => {
            ensemble.pause(one).await;
            sleep(time).await;
            ensemble.unpause(one).await;
        }
        2 => {
            ensemble.isolate(one).await;
            sleep(time).await;
            ensemble.rejoin(one).await;
        }
        kind => {
            counts.quorums += 1;
            if kind == 3 {
                ensemble.kill(one).await;
                ensemble.kill(two).await;
                sleep(time).await;
                ensemble.start_again(one).await;
                ensemble.start_again(two).await;
            } else {
                ensemble.pause(one).await;
                ensemble.pause(two).await;
                sleep(time).await;
                ensemble.unpause(one).await;
                ensemble.unpause(two).await;
            }
        }
    }
    ensemble.wait_for_quorum().await;
}

/// In the process of a member: works on what it holds, until it is told to leave.
async fn take_part([servers, base, judge, number, process]: [String; 5]) {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    let (number, process): (u64, u64) = (number.parse().expect("a number"), process.parse().expect("a number"));
    let policy = if process % 2 == 0 { ErrorPolicy::Standard } else { ErrorPolicy::Session };
    let client = loop {
        // There may be no quorum.
        match builder(&servers, SESSION).error_policy(policy).connect().await {
            Ok(client) => break client,
            Err(error) if error.is_retryable() => sleep(BEAT).await,
            Err(error) => panic!("{error}"),
        }
    };
    let member = PartitionAssigner::builder(&client, &base)
        .partitions(0..PARTITIONS as u32)
        .id(format!("member-{number}"))
        .debounce(Duration::from_millis(20), Duration::from_millis(100))
        .grace_period(Duration::from_millis(300))
        // Each leader has its own.
        .rebalance_delay(Duration::from_millis(500 * (number % 3)))
        .join()
        .await
        .expect("it joins");
    let (writes, written) = unbounded_channel();
    tokio::spawn(write(judge, written));
    let work = move |partition| work(partition, process, writes.clone());
    let order = tokio::task::spawn_blocking(|| std::io::stdin().lines().next().and_then(Result::ok));
    tokio::select! {
        ended = member.run(work) => panic!("{ended:?}"),
        order = order => match order.expect("no panic").as_deref() {
            Some("restart") => member.leave_for_restart().await,
            _ => member.leave().await,
        },
    }
}

/// Writes to the judge until the partition is lost, or for a while after it is revoked, sometimes longer than allowed.
async fn work(partition: Owned, process: u64, writes: UnboundedSender<String>) {
    static HOLDS: AtomicU64 = AtomicU64::new(0);
    let hold = HOLDS.fetch_add(1, Ordering::Relaxed);
    let mut begin = None;
    let write = async {
        loop {
            let end = Moment::now();
            if !partition.is_held() {
                return;
            }
            // One answer proves nothing: the process may be stopped between the answer and the clock.
            if let Some(begin) = begin {
                let span = Span { holder: (process, hold), token: partition.fencing_token(), begin, end };
                if writes.send(span.line(partition.id())).is_err() {
                    return;
                }
            } else {
                begin = Some(Moment::now());
            }
            sleep(BEAT).await;
        }
    };
    let finish = async {
        partition.revoked().await;
        sleep(Duration::from_millis(fastrand::u64(..400))).await;
    };
    tokio::select! {
        () = write => {}
        () = finish => {}
    }
}

async fn write(judge: String, mut lines: UnboundedReceiver<String>) {
    let mut stream = TcpStream::connect(judge).await.expect("the judge listens");
    while let Some(line) = lines.recv().await {
        let mut all = line;
        while let Ok(line) = lines.try_recv() {
            all.push_str(&line);
        }
        stream.write_all(all.as_bytes()).await.expect("the judge listens");
    }
}
