//! The commands that ask or tell, as processes at a real ZooKeeper server.

mod faults;
mod latch;
mod nodes;
mod partitions;
mod postmortem;
mod queue;
mod serve;
mod services;
#[path = "../../../tests/support/mod.rs"]
mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::queue::{DistributedQueue, Utf8};
use zookeeper_recipes::throughput_balancer::ThroughputBalancer;
use zookeeper_recipes::{Acl, Client, CreateMode, ErrorKind};

use support::{Ensemble, ZooKeeper, eventually, unique_path, within};

/// How long a command may take on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// The shared server, a client beside the commands, and a path of the test's own.
struct Fixture {
    server: Arc<ZooKeeper>,
    client: Client,
    path: String,
}

/// What a command has printed, and its status.
struct Told {
    status: i32,
    out: String,
    err: String,
}

impl Fixture {
    async fn new(prefix: &str) -> Fixture {
        let server = ZooKeeper::shared().await;
        let client = connect(&server).await;
        Fixture { server, client, path: unique_path(prefix) }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        command_at(&self.server.connect_string(), arguments)
    }

    fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().expect("it starts")
    }

    async fn zkr(&self, arguments: &[&str]) -> Told {
        ended(self.start(arguments)).await
    }

    /// The output of a command that succeeds without a complaint.
    async fn answer(&self, arguments: &[&str]) -> String {
        let Told { status, out, err } = self.zkr(arguments).await;
        assert_eq!((status, &*err), (0, ""), "{arguments:?}: {out}");
        out
    }

    /// The values that a command prints.
    async fn values(&self, arguments: &[&str]) -> Vec<Value> {
        let out = self.zkr(&[&["--json"], arguments].concat()).await.out;
        out.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    }
}

/// A command at these servers.
fn command_at(hosts: &str, arguments: &[&str]) -> Command {
    zkr(&[&["--connect", hosts, "--tick-time", "500ms"], arguments].concat())
}

/// A command that reads nothing, and whose output is read; killed on drop.
fn zkr(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zkr"));
    command.args(arguments).env_remove("RUST_LOG").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn connect(server: &ZooKeeper) -> Client {
    let client = Client::builder(server.connect_string()).session_timeout(Duration::from_secs(10));
    let client = client.tick_time(Duration::from_millis(500)).connect();
    within("a client connects", SOON, client).await.expect("it connects")
}

async fn ended(child: Child) -> Told {
    let output: Output = within("it ends", SOON, child.wait_with_output()).await.expect("it has ended");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    let status = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    Told { status: status.expect("it has ended"), out: text(output.stdout), err: text(output.stderr) }
}

fn signal(child: &Child, signal: Signal) {
    let pid = child.id().expect("it runs").try_into().expect("a small number");
    kill(Pid::from_raw(pid), signal).expect("it can be told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leads_and_who_is_asked_to_release() {
    let fixture = Fixture::new("lines").await;
    let (election, lock) = (format!("{}/election", fixture.path), format!("{}/lock", fixture.path));
    let latch = LeaderLatch::builder(&fixture.client, &election).id("host-1").start().expect("it starts");
    within("it leads", SOON, latch.wait_for_leadership()).await.expect("it leads");
    let line = fixture.answer(&["latch", "ls", &election]).await;
    assert!(line.contains("1 hold, 0 wait") && line.contains("\"host-1\""), "{line}");
    let node = latch.our_path().expect("its node");
    let refused = fixture.zkr(&["revoke", &node]).await;
    assert_eq!(refused.status, 125);
    assert!(refused.err.contains("candidate"), "{}", refused.err);

    let mutex = InterProcessMutex::new(&fixture.client, &lock).expect("a good path");
    let guard = within("it is acquired", SOON, mutex.acquire()).await.expect("it is acquired");
    let node = guard.node_path().to_owned();
    let told = fixture.answer(&["revoke", &node]).await;
    assert_eq!(told, format!("{node}: its owner is asked to release it\n"));
    let line = fixture.answer(&["lock", "ls", &lock]).await;
    assert!(line.contains("asked to release"), "{line}");
    let waiter = fixture.client.create(&format!("{lock}/lock-"), "", CreateMode::EphemeralSequential).await;
    let waiter = waiter.expect("a node behind it");
    let waits = fixture.zkr(&["revoke", &waiter]).await;
    assert_eq!((waits.status, &*waits.out), (1, ""));
    assert!(waits.err.contains("holds nothing that it could release"), "{}", waits.err);
    assert!(fixture.client.get(&waiter).await.expect("its data").0.is_empty(), "it is not marked");
    guard.release().await.expect("it is released");
    let gone = fixture.zkr(&["revoke", &node]).await;
    assert_eq!(gone.status, 1);
    assert!(gone.err.starts_with(&format!("zkr: {node} does not exist")), "{}", gone.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circle_of_sessions_is_a_deadlock_and_a_problem() {
    let fixture = Fixture::new("circle").await;
    let path = fixture.path.as_str();
    let missing = fixture.zkr(&["doctor", path]).await;
    assert_eq!(missing.status, 1);
    assert!(missing.err.contains("check the path, --namespace and --connect"), "{}", missing.err);
    let clients = [connect(&fixture.server).await, connect(&fixture.server).await];
    let paths = ["a", "b"].map(|name| format!("{path}/{name}"));
    let mut held = Vec::new();
    for (client, lock) in clients.iter().zip(&paths) {
        let mutex = InterProcessMutex::new(client, lock).expect("a good path");
        held.push(within("it is acquired", SOON, mutex.acquire()).await.expect("it is acquired"));
    }
    assert_eq!(fixture.answer(&["deadlocks", path]).await, "no deadlock\n");
    assert_eq!(fixture.answer(&["doctor", path]).await, "no problem found in 2 lines\n");
    let mut waiting = Vec::new();
    for (client, lock) in clients.iter().zip(paths.iter().rev()) {
        let mutex = InterProcessMutex::new(client, lock).expect("a good path");
        waiting.push(tokio::spawn(async move { mutex.acquire().await }));
    }
    let is_found = async || fixture.zkr(&["deadlocks", path]).await.status == 1;
    eventually("the circle is found", SOON, is_found).await;
    let told = fixture.zkr(&["deadlocks", path]).await;
    assert!(told.out.starts_with("2 sessions wait in a circle\n") && told.err.is_empty(), "{}{}", told.out, told.err);
    let problem = fixture.zkr(&["doctor", path]).await;
    assert_eq!((problem.status, &*problem.err), (1, "zkr: 1 problem found in 2 lines\n"), "{}", problem.out);
    let findings = fixture.values(&["doctor", path]).await;
    let [finding] = &findings[..] else { panic!("one finding: {findings:?}") };
    assert_eq!(finding["severity"], "error");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_timeout_that_the_server_changes_and_a_node_without_a_session() {
    let fixture = Fixture::new("doctor").await;
    let path = fixture.path.as_str();
    fixture.client.create_containers(path).await.expect("it is created");
    for mode in [CreateMode::PersistentSequential, CreateMode::EphemeralSequential] {
        fixture.client.create(&format!("{path}/lock-"), "host", mode).await.expect("it is created");
    }
    let told = fixture.zkr(&["doctor", path, "--session-timeout", "90s"]).await;
    assert_eq!((told.status, told.out.lines().count()), (1, 4), "{}", told.out);
    assert!(told.out.starts_with(&format!("error: {path}/lock-0000000000: it has no session")), "{}", told.out);
    assert!(told.out.contains("grant a session timeout of 1m, and 1m 30s was asked for"), "{}", told.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_its_own_acls_hide_from_a_member() {
    let fixture = Fixture::new("hidden").await;
    let path = fixture.path.as_str();
    let connect_as = async |users: &[&str]| {
        let builder = Client::builder(fixture.server.addr().to_string()).acls([Acl::creator_all()]);
        let builder = users.iter().fold(builder, |builder, user| builder.auth("digest", format!("{user}:secret")));
        within("it connects", SOON, builder.connect()).await.expect("it connects")
    };
    connect_as(&["a", "b"]).await.create(path, "", CreateMode::Persistent).await.expect("it is created");
    let (one, other) = (connect_as(&["a"]).await, connect_as(&["b"]).await);
    let mutex = InterProcessMutex::new(&one, path).expect("a good path");
    let guard = within("it is acquired", SOON, mutex.acquire()).await.expect("it is acquired");
    let node = guard.node_path().rsplit('/').next().expect("a name").to_owned();
    let told = fixture.zkr(&["doctor", path, "--auth", "digest:a:secret"]).await;
    let what =
        format!("warning: {path}: digest:b may enter the line, but not read 1 node of it (READ), such as {node}: ");
    assert!(told.status == 1 && told.out.starts_with(&what), "{}{}", told.out, told.err);
    // What the finding says of such a member.
    let mutex = InterProcessMutex::new(&other, path).expect("a good path");
    let refused = within("it fails", SOON, mutex.acquire()).await.expect_err("it may not read the node before its own");
    assert_eq!(refused.kind(), ErrorKind::NoAuth, "{refused}");
    guard.release().await.expect("it is released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_servers_tell_of_themselves_is_compared_with_the_options_and_with_each_other() {
    let fixture = Fixture::new("servers").await;
    let (path, server) = (fixture.path.as_str(), fixture.server.addr().to_string());
    fixture.client.create(path, "", CreateMode::Persistent).await.expect("it is created");
    let told = fixture.zkr(&["doctor", path, "--min-session-timeout", "2s"]).await;
    assert_eq!((told.status, &*told.err), (1, "zkr: 1 problem found in 0 lines\n"), "{}", told.out);
    let least = format!("error: {server}: minSessionTimeout is 500ms there, and --min-session-timeout is 2s");
    assert!(told.out.starts_with(&least), "{}", told.out);
    // Also if nothing else can be told: it may be the reason.
    let missing = fixture.zkr(&["doctor", &format!("{path}/missing"), "--min-session-timeout", "2s"]).await;
    assert!(missing.status == 1 && missing.out.starts_with(&least), "{}", missing.out);
    assert!(missing.err.contains("check the path, --namespace and --connect"), "{}", missing.err);

    // One server that does not answer, and one that is another ensemble, permits few words, and has other times.
    let other = ZooKeeper::builder().tick_time(Duration::from_secs(1)).four_letter_words("srvr,conf").start().await;
    connect(&other).await.create(path, "", CreateMode::Persistent).await.expect("it is created");
    let silent = format!("127.0.0.1:{}", support::container::free_port());
    let hosts = format!("{server},{silent},{}", other.addr());
    let told = ended(command_at(&hosts, &["doctor", path]).spawn().expect("it starts")).await;
    assert_eq!(told.status, 1);
    let problems: Vec<&str> = told.out.lines().step_by(2).collect();
    let starts = [
        format!("error: {server},{}: Mode is standalone there", other.addr()),
        format!("error: {}: tickTime is 1s there, and --tick-time is 500ms: what is held may outlast", other.addr()),
        format!("warning: {silent}: it does not answer, while another server does: "),
        format!("warning: {hosts}: tickTime is not the same on all servers ({server} has 500ms, "),
    ];
    assert_eq!(problems.len(), starts.len(), "{}", told.out);
    for start in starts {
        assert!(problems.iter().any(|problem| problem.starts_with(&start)), "{start} is not in {}", told.out);
    }
    let not_examined = "zkr: not examined: watches (permit wchs: 4lw.commands.whitelist on the servers)\n";
    assert_eq!(told.err, format!("{not_examined}zkr: 4 problems found in 0 lines\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_quorum_is_a_problem_and_a_whole_ensemble_is_none() {
    let ensemble = Ensemble::start().await;
    let hosts = ensemble.connect_string();
    let doctor = async || ended(command_at(&hosts, &["doctor", "/"]).spawn().expect("it starts")).await;
    let Told { status, out, err } = doctor().await;
    assert_eq!(
        (status, &*out, &*err),
        (0, "no problem found; no locks, elections, semaphores or queues are in use at / or below\n", "")
    );
    let cut_off = ensemble.followers().await[0];
    ensemble.cut_follower_from_leader(cut_off).await;
    ensemble.member(cut_off).wait_until_not_serving().await;
    let told = doctor().await;
    assert_eq!((told.status, &*told.err), (1, "zkr: 1 problem found in 0 lines\n"), "{}", told.out);
    let problem = format!("error: {}: it does not serve clients", ensemble.member(cut_off).addr());
    assert!(told.out.starts_with(&problem), "{}", told.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_does_not_permit_is_a_note_of_the_doctor_and_an_error_where_it_is_asked_for() {
    let server = Arc::new(ZooKeeper::builder().four_letter_words("srvr").start().await);
    let fixture = Fixture { client: connect(&server).await, server, path: unique_path("refused") };
    let path = fixture.path.as_str();
    fixture.client.create(path, "", CreateMode::Persistent).await.expect("it is created");
    let not_examined = "zkr: not examined: tick times, session timeouts and watches (permit conf and wchs: \
                        4lw.commands.whitelist on the servers)\n";
    let told = fixture.zkr(&["doctor", path]).await;
    let nothing =
        format!("no problem found; no locks, elections, semaphores or queues are in use at {path} or below\n");
    assert_eq!((told.status, &*told.out, &*told.err), (0, &*nothing, not_examined));
    let told = fixture.zkr(&["doctor", path, "--json"]).await;
    let note = serde_json::json!({ "note": not_examined["zkr: ".len()..].trim_end() });
    assert_eq!((told.status, &*told.out, &*told.err), (0, "", &*format!("{note}\n")));
    let why = format!("zkr: --addresses: {} does not permit cons; add it to 4lw.", fixture.server.addr());
    for command in [&["inspect"][..], &["lock", "ls"], &["latch", "ls"]] {
        assert_eq!(fixture.zkr(&[command, &[path]].concat()).await.status, 0);
        let refused = fixture.zkr(&[command, &[path, "--addresses"]].concat()).await;
        assert_eq!((refused.status, &*refused.out), (125, ""));
        assert!(refused.err.starts_with(&why), "{}", refused.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_addresses_of_sessions_are_shown_where_they_are_asked_for() {
    let fixture = Fixture::new("addresses").await;
    let path = fixture.path.as_str();
    let mutex = InterProcessMutex::new(&fixture.client, path).expect("a good path");
    let guard = within("it is acquired", SOON, mutex.acquire()).await.expect("it is acquired");
    let session = format!("{:#x}", fixture.client.session_id().expect("a session"));
    let values = fixture.values(&["lock", "ls", path, "--addresses"]).await;
    let address = values[0]["addresses"][&session].as_str().expect("its address").to_owned();
    assert!(address.parse::<std::net::SocketAddr>().is_ok_and(|address| address.port() > 0), "{address}");
    assert_eq!(values[0]["places"][0]["path"], guard.node_path());
    let shown = format!("session {session} from {address}, ");
    for command in [&["inspect"][..], &["lock", "ls"], &["latch", "ls"]] {
        let with = fixture.answer(&[command, &[path, "--addresses"]].concat()).await;
        assert!(with.contains(&shown), "{with}");
        let without = fixture.answer(&[command, &[path]].concat()).await;
        assert!(without.contains(&format!("session {session}, ")) && !without.contains(" from "), "{without}");
        let values = fixture.values(&[command, &[path, "--addresses"]].concat()).await;
        assert_eq!(values[0]["addresses"], serde_json::json!({ session.as_str(): address.as_str() }));
        assert_eq!(fixture.values(&[command, &[path]].concat()).await[0].get("addresses"), None);
    }
    // A server that does not answer has no sessions to show.
    let hosts = format!("{},127.0.0.1:{}", fixture.server.addr(), support::container::free_port());
    let arguments = ["lock", "ls", path, "--addresses"];
    let told = ended(command_at(&hosts, &arguments).spawn().expect("it starts")).await;
    assert!(told.status == 0 && told.out.contains(&shown), "{}", told.out);
    assert!(told.err.starts_with("zkr: the addresses of sessions are not known for 127.0.0.1:"), "{}", told.err);
    guard.release().await.expect("it is released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_balancer_is_shown_set_and_watched() {
    let fixture = Fixture::new("balancer").await;
    let path = fixture.path.as_str();
    let missing = fixture.zkr(&["balancer", "show", path]).await;
    assert_eq!(missing.status, 1);
    assert!(missing.err.starts_with(&format!("zkr: {path}: no such node; check the path")), "{}", missing.err);
    let set = fixture.answer(&["balancer", "set-max", path, "1000"]).await;
    assert_eq!(set, format!("{path}: maximum 1000; there was none\n"));

    let mut watch = fixture.start(&["balancer", "watch", path]);
    let mut lines = BufReader::new(watch.stdout.take().expect("its output")).lines();
    let mut next = async |text: &str| loop {
        let line = within(text, SOON, lines.next_line()).await.expect("it is text").expect("a line");
        if line.contains(text) {
            break;
        }
    };
    next("maximum 1000, sum 0: no members").await;
    let member = within("it joins", SOON, ThroughputBalancer::builder(&fixture.client, path).join()).await;
    let member = member.expect("it joins");
    next("maximum 1000, sum 1000: client-0000000000* 1000").await;
    fixture.answer(&["balancer", "set-max", path, "600"]).await;
    next("maximum 600, sum 600: client-0000000000* 600").await;
    let values = fixture.values(&["balancer", "show", path]).await;
    assert_eq!((&values[0]["maximum"], &values[0]["members"][0]["throughput"]), (&600.into(), &600.into()));
    let table = fixture.answer(&["balancer", "show", path]).await;
    assert!(table.contains("client-0000000000    yes       1    0    -    600\nsum "), "{table}");
    drop(lines);
    member.leave().await;
    let ended = ended(watch).await;
    assert_eq!((ended.status, &*ended.err), (0, ""), "its output is closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_shows_something_until_ctrl_c_has_succeeded_then() {
    let fixture = Fixture::new("shown").await;
    let path = fixture.path.as_str();
    fixture.answer(&["balancer", "set-max", path, "1000"]).await;
    for command in [&["balancer", "watch", path][..], &["inspect", path, "--watch=1s"]] {
        let mut shown = fixture.start(command);
        let mut lines = BufReader::new(shown.stdout.take().expect("its output")).lines();
        within("it shows something", SOON, lines.next_line()).await.expect("it is text").expect("a line");
        signal(&shown, Signal::SIGINT);
        let told = ended(shown).await;
        assert_eq!((told.status, &*told.err), (0, ""), "{command:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_the_arguments_is_told() {
    let fixture = Fixture::new("wrong").await;
    for (arguments, why) in [
        (&["latch", "ls", "x"][..], "it must be /name"),
        (&["queue", "take", "/q", "--count", "0"], "1.."),
        (&["queue", "take", "/q", "--wait", "soon"], "such as 500ms, 30s or 2m"),
        (&["queue", "dead", "drop", "/q"], "--all"),
        (&["queue", "dead", "drop", "/q", "x", "--all"], "cannot be used with"),
        (&["balancer", "set-max", "/b", "9223372036854775808"], "9223372036854775807"),
        (&["ls", "/x"], "unrecognized subcommand"),
    ] {
        let told = fixture.zkr(arguments).await;
        assert_eq!(told.status, 125, "{arguments:?}");
        assert!(told.err.contains(why), "{arguments:?}: {}", told.err);
    }
    let missing = fixture.zkr(&["latch", "ls", "/no/such"]).await;
    assert_eq!(missing.status, 1);
    let why = "zkr: list the children of /no/such: no such node; check the path, --namespace and --connect \
               (a path that nothing uses is removed)\n";
    assert_eq!(missing.err, why);
}
