//! What `zkr postmortem` tells of a known history: a thousand holds on a real server, with processes that are killed
//! and stopped, nodes that are deleted by hand, and sessions that are closed.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use tokio::sync::Mutex;
use zookeeper_recipes::ErrorPolicy;

use super::support::elsewhere::{Elsewhere, ordered, say};
use super::*;

/// Locks that are held in turn, and how often each is.
const LOCKS: usize = 20;
const TURNS: usize = 44;
/// Processes that hold locks until they are killed or stopped, and how many locks each.
const PROCESSES: usize = 6;
const HELD: usize = 10;
/// The session timeout of those.
const T: Duration = Duration::from_secs(2);

/// What is known about a node: its session, the transaction that created it, whether it held, how it ended, and which
/// other session deleted it.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    session: String,
    created: String,
    held: bool,
    end: &'static str,
    by: Option<String>,
}

/// The history so far, by the paths of the nodes.
type History = Arc<Mutex<BTreeMap<String, Known>>>;

fn hex(id: i64) -> String {
    format!("{id:#x}")
}

fn session(client: &Client) -> String {
    hex(client.session_id().expect("a session"))
}

async fn connect_with(servers: &str, timeout: Duration) -> Client {
    let client = Client::builder(servers).session_timeout(timeout).tick_time(Duration::from_millis(500));
    // What is held outlasts the change of the leader.
    let client = client.error_policy(ErrorPolicy::Session).connect();
    within("a client connects", SOON, client).await.expect("it connects")
}

/// Holds a lock again and again, and ends that in each way.
async fn take_turns(servers: String, path: String, operator: Client, history: History, first: usize) {
    let mut client = connect_with(&servers, Duration::from_secs(10)).await;
    for turn in 0..TURNS / 2 {
        let mutex = InterProcessMutex::new(&client, &path).expect("a good path");
        let guard = within("it is acquired", SOON, mutex.acquire()).await.expect("it is acquired");
        let (node, token) = (guard.node_path().to_owned(), guard.fencing_token());
        let mut known = Known { session: session(&client), created: hex(token), held: true, end: "released", by: None };
        match (first + turn) % 8 {
            0 => {
                operator.delete(&node, None).await.expect("it is deleted");
                within("it is lost", SOON, guard.lost()).await;
                (known.end, known.by) = ("deleted", Some(session(&operator)));
            }
            1 => {
                within("it closes", SOON, client.close()).await.expect("it is closed");
                known.end = "session-closed";
                client = connect_with(&servers, Duration::from_secs(10)).await;
            }
            _ => guard.release().await.expect("it is released"),
        }
        history.lock().await.insert(node, known);
    }
    client.close().await.expect("it is closed");
}

/// The part of a process that holds locks until it ends.
async fn hold_until_the_end(servers: &str, path: &str, first: usize) {
    let mut held = Vec::new();
    for number in first..first + HELD {
        let client = connect_with(servers, T).await;
        let mutex = InterProcessMutex::new(&client, format!("{path}/left-{number}")).expect("a good path");
        let guard = within("it is acquired", SOON, mutex.acquire()).await.expect("it is acquired");
        say(format_args!("{} {} {}", guard.node_path(), session(&client), hex(guard.fencing_token())));
        held.push((client, guard));
    }
    let wait = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    wait.await.expect("it waits").expect("its input ends");
}

/// Starts a process that holds, and notes what it holds.
async fn start(test: &str, servers: &str, path: &str, number: usize, history: &History) -> Elsewhere {
    let mut process = Elsewhere::start(test, &[servers, path, &(number * HELD).to_string()]);
    for _ in 0..HELD {
        let word = process.word().await;
        let [node, session, created] = word.split(' ').collect::<Vec<_>>()[..] else { panic!("{word}") };
        let (session, created) = (session.to_owned(), created.to_owned());
        let known = Known { session, created, held: true, end: "session-expired", by: None };
        history.lock().await.insert(node.to_owned(), known);
    }
    process
}

/// Waits behind holders whose processes end; each second one gives up.
async fn wait_behind(servers: String, path: String, history: History, number: usize) {
    let client = connect_with(&servers, Duration::from_secs(10)).await;
    let lock = format!("{path}/left-{number}");
    if number.is_multiple_of(2) {
        let (node, stat) = within("it is created", SOON, async {
            let node = client.create(&format!("{lock}/lock-"), "waits", CreateMode::EphemeralSequential).await;
            let node = node.expect("it is created");
            let stat = client.exists(&node).await.expect("it is read").expect("it is there");
            client.delete(&node, None).await.expect("it is deleted");
            (node, stat)
        })
        .await;
        let known =
            Known { session: session(&client), created: hex(stat.czxid), held: false, end: "released", by: None };
        history.lock().await.insert(node, known);
    }
    let mutex = InterProcessMutex::new(&client, &lock).expect("a good path");
    let guard = within("it is acquired", SOON, mutex.acquire()).await.expect("it is acquired");
    let known =
        Known { session: session(&client), created: hex(guard.fencing_token()), held: true, end: "released", by: None };
    history.lock().await.insert(guard.node_path().to_owned(), known);
    guard.release().await.expect("it is released");
}

/// Plays all of it.
async fn play(test: &str, servers: &str, path: &str, history: &History) {
    let operator = connect_with(servers, Duration::from_secs(10)).await;
    let mut processes = Vec::new();
    for number in 0..PROCESSES {
        processes.push(start(test, servers, path, number, history).await);
    }
    let waiting: Vec<_> = (0..PROCESSES * HELD)
        .map(|number| tokio::spawn(wait_behind(servers.to_owned(), path.to_owned(), Arc::clone(history), number)))
        .collect();
    let turns: Vec<_> = (0..LOCKS * 2)
        .map(|number| {
            let lock = format!("{path}/turns-{}", number / 2);
            tokio::spawn(take_turns(servers.to_owned(), lock, operator.clone(), Arc::clone(history), number))
        })
        .collect();
    let mut stopped = Vec::new();
    for (number, process) in processes.into_iter().enumerate() {
        if number.is_multiple_of(2) {
            process.kill().await;
        } else {
            process.stop().await;
            stopped.push(process);
        }
    }
    for task in waiting.into_iter().chain(turns) {
        task.await.expect("it plays its part");
    }
    operator.close().await.expect("it is closed");
    // They find that their sessions are over.
    for process in stopped {
        process.go_on();
        process.end().await;
    }
}

/// What is told of a node.
fn of_hold(value: &Value) -> (String, Known) {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let end = text(&value["end"]);
    let ends = ["released", "session-closed", "session-expired", "deleted"];
    let end = ends.into_iter().find(|known| *known == end).unwrap_or_else(|| panic!("{value}"));
    let known = Known {
        session: text(&value["session_id"]),
        created: text(&value["joined"]["zxid"]),
        held: !value["granted"].is_null(),
        end,
        by: (end == "deleted").then(|| text(&value["ended_by"])),
    };
    (text(&value["path"]), known)
}

fn zxid(moment: &Value) -> i64 {
    let text = moment["zxid"].as_str().expect("a transaction");
    i64::from_str_radix(text.trim_start_matches("0x"), 16).expect("hexadecimal digits")
}

/// Each one holds only once the one before has ended.
fn check_order(holds: &[Value], lock: &str) -> usize {
    let of_lock = |value: &&Value| {
        let path = value["path"].as_str().expect("a path");
        path.rsplit_once('/').is_some_and(|(dir, _)| dir == lock)
    };
    let mut held: Vec<_> = holds.iter().filter(of_lock).filter(|value| !value["granted"].is_null()).collect();
    held.sort_by_key(|value| zxid(&value["granted"]));
    for pair in held.windows(2) {
        assert!(zxid(&pair[0]["ended"]) <= zxid(&pair[1]["granted"]), "{} and {}", pair[0], pair[1]);
    }
    held.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_holds_with_kills_stops_and_deletes_by_hand() {
    let test = concat!(module_path!(), "::a_thousand_holds_with_kills_stops_and_deletes_by_hand");
    if let Some([servers, path, first]) = ordered::<3>() {
        return hold_until_the_end(&servers, &path, first.parse().expect("a number")).await;
    }
    let server = ZooKeeper::start().await;
    let (servers, path) = (server.connect_string(), unique_path("history"));
    let history = History::default();
    play(test, &servers, &path, &history).await;
    let directory = tempfile::tempdir().expect("a directory");
    let (holds, others) = told_of(&[keep(directory.path(), server.logs().await)], &path, 0).await;
    let found: BTreeMap<_, _> = holds.iter().map(of_hold).collect();
    let history = Arc::into_inner(history).expect("all have played their parts").into_inner();
    for (node, known) in &history {
        assert_eq!(found.get(node), Some(known), "{node}");
    }
    assert_eq!((found.len(), holds.len()), (history.len(), history.len()), "nothing else is told");
    let held: usize = (0..LOCKS)
        .map(|number| check_order(&holds, &format!("{path}/turns-{number}")))
        .chain((0..PROCESSES * HELD).map(|number| check_order(&holds, &format!("{path}/left-{number}"))))
        .sum();
    assert_eq!(held, LOCKS * TURNS + 2 * PROCESSES * HELD, "a thousand");
    let (overlaps, summary): (Vec<_>, Vec<_>) = others.into_iter().partition(|value| value["kind"] == "overlap");
    for overlap in &overlaps {
        let first = &history[overlap["first"].as_str().expect("a path")];
        assert_eq!((first.end, &first.by), ("deleted", &history_by(overlap)), "{overlap}");
    }
    let [summary] = &summary[..] else { panic!("one summary: {summary:?}") };
    let expired = PROCESSES * HELD;
    assert_eq!(summary["holds"]["session_expired"], expired, "{summary}");
    assert_eq!((&summary["is_complete"], &summary["problems"]), (&Value::from(true), &Value::from(0)), "{summary}");
}

/// Keeps the files of a server in a directory.
fn keep(directory: &Path, files: Vec<(String, Vec<u8>)>) -> String {
    assert!(files.iter().any(|(name, _)| name.starts_with("log.")), "it has logs");
    for (name, contents) in files {
        std::fs::write(directory.join(name), contents).expect("it is written");
    }
    directory.to_str().expect("text").to_owned()
}

/// The holds that are told of these directories, and what else is told.
async fn told_of(directories: &[String], path: &str, status: i32) -> (Vec<Value>, Vec<Value>) {
    let mut arguments = vec!["--json", "postmortem"];
    arguments.extend(directories.iter().map(String::as_str));
    arguments.push(path);
    let told = ended(zkr(&arguments).spawn().expect("it starts")).await;
    assert_eq!(told.status, status, "{}", told.err);
    let lines = told.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"));
    lines.partition(|value| value["kind"] == "hold")
}

/// The leader is cut off. It logs one more transaction, which is never committed; the others go on under another
/// leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_logs_of_an_ensemble_that_loses_its_leader() {
    let ensemble = Ensemble::start().await;
    let (servers, path) = (ensemble.connect_string(), unique_path("ensemble"));
    let client = connect_with(&servers, Duration::from_secs(20)).await;
    let mutex = InterProcessMutex::new(&client, &path).expect("a good path");
    let acquire = async || within("it is acquired", SOON, mutex.acquire()).await.expect("it is acquired");
    let mut tokens = Vec::new();
    let guard = acquire().await;
    tokens.push(hex(guard.fencing_token()));
    guard.release().await.expect("it is released");
    let guard = acquire().await;
    tokens.push(hex(guard.fencing_token()));

    let leader = ensemble.leader().await;
    let cut_off = connect_with(&ensemble.member(leader).connect_string(), Duration::from_secs(20)).await;
    ensemble.isolate(leader).await;
    let late = format!("{path}/late-lock-");
    let create = tokio::spawn(async move { cut_off.create(&late, "", CreateMode::EphemeralSequential).await });
    ensemble.member(leader).wait_until_not_serving().await;
    ensemble.kill(leader).await;
    ensemble.wait_for_quorum().await;
    let released = async || within("it answers", SOON, client.get("/")).await.is_ok();
    eventually("the client is at another server", SOON, released).await;
    guard.release().await.expect("it is released");
    let guard = acquire().await;
    tokens.push(hex(guard.fencing_token()));
    guard.release().await.expect("it is released");
    create.abort();

    let directories: Vec<_> = (0..ensemble.size()).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let mut names = Vec::new();
    for (number, directory) in directories.iter().enumerate() {
        names.push(keep(directory.path(), ensemble.member(number).logs().await));
    }
    let (holds, others) = told_of(&names, &path, 1).await;
    let created: Vec<_> = holds.iter().map(|hold| hold["joined"]["zxid"].as_str().expect("it is text")).collect();
    assert_eq!(created, tokens, "what was committed: {holds:?}");
    assert!(holds.iter().all(|hold| hold["end"] == "released"), "{holds:?}");
    let [summary] = &others[..] else { panic!("no gap, no damage, no overlap: {others:?}") };
    assert_eq!(summary["is_complete"], false, "what was left out may have been committed: {summary}");
    assert!(summary["uncommitted"].as_u64().is_some_and(|number| number >= 1), "{summary}");
    let (alone, _) = told_of(&names[leader..=leader], &path, 0).await;
    let late = |hold: &Value| hold["path"].as_str().is_some_and(|path| path.contains("late-lock-"));
    assert!(alone.iter().any(late), "the leader has logged it: {alone:?}");
}

/// The session that deleted the node, as the overlap has it.
fn history_by(overlap: &Value) -> Option<String> {
    overlap["cause"]["deleted"]["session_id"].as_str().map(str::to_owned)
}

/// The recorded log of a real server, with its history.
fn recorded(version: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recorded/logs").join(version);
    path.to_str().expect("text").to_owned()
}

async fn postmortem(arguments: &[&str]) -> Told {
    ended(zkr(&[&["postmortem"], arguments].concat()).spawn().expect("it starts")).await
}

#[tokio::test]
async fn a_time_line_and_what_was_at_a_moment() {
    let logs = recorded("3.9");
    let told = postmortem(&[&logs, "/history/mutex"]).await;
    assert_eq!((told.status, &*told.err), (0, ""));
    let last = told.out.lines().last().expect("a summary");
    assert!(last.contains("transactions in") && last.contains("holds (") && last.contains(" expired"), "{last}");
    assert!(!told.out.contains('\x1b'), "without a terminal there are no colours");
    let first = told.out.lines().next().expect("the first hold");
    let time = first.split(' ').next().expect("a time");
    // The second has begun before the hold.
    for (at, status, why) in [(time, 0, ""), (&time[11..19], 1, "/history/mutex: nothing was held there then")] {
        let then = postmortem(&[&logs, "/history/mutex", "--at", at]).await;
        assert!(then.status == status && then.err.contains(why), "{at}: {}", then.err);
        assert!(then.out.lines().all(|line| !line.contains("released")), "{}", then.out);
    }
    let then = postmortem(&[&logs, "/history/mutex", "--at", time]).await;
    assert!(then.out.contains("  holds  ") && then.out.contains("\"host-0\""), "{}", then.out);
    let json = postmortem(&["--json", &logs, "/history/mutex", "--until", time]).await;
    let kinds: Vec<Value> = json.out.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert!(kinds.iter().any(|value| value["kind"] == "hold" && value["end"] == "remains"), "{}", json.out);
    assert_eq!(kinds.last().expect("a summary")["kind"], "summary");
    let early = postmortem(&[&logs, "/history", "--at", "2001-01-01T00:00:00Z"]).await;
    assert_eq!(early.status, 125);
    assert!(
        early.err.starts_with("zkr: --at: the logs do not cover 2001-01-01T00:00:00.000Z; they have "),
        "{}",
        early.err
    );
}

#[tokio::test]
async fn the_addresses_of_a_servers_text_log() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("zookeeper.log");
    let log = log.to_str().expect("text");
    let logs = recorded("3.8");
    let told = postmortem(&["--json", &logs, "/history/mutex"]).await;
    let hold: Value = serde_json::from_str(told.out.lines().next().expect("a hold")).expect("it is JSON");
    let id = hold["session_id"].as_str().expect("a session");
    let line = format!("INFO Established session {id} with negotiated timeout 1000 for client /10.0.0.7:40512\n");
    std::fs::write(log, line).expect("it is written");
    let told = postmortem(&[&logs, "/history/mutex", "--server-log", log]).await;
    assert!(told.out.contains(&format!("session {id} from 10.0.0.7:40512 ")), "{}", told.out);
    std::fs::write(log, "nothing\n").expect("it is written");
    let told = postmortem(&[&logs, "/history/mutex", "--server-log", log]).await;
    assert!(told.status == 125 && told.err.contains("it must be the text log of a server"), "{}", told.err);
}

#[tokio::test]
async fn what_cannot_be_told_is_an_error_in_one_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
    std::fs::write(at("other.log"), "2026-11-30 it has started\n").expect("it is written");
    std::fs::create_dir(at("empty")).expect("it is created");
    let logs = recorded("3.9");
    let (other, empty, none) = (at("other.log"), at("empty"), at("none"));
    for (arguments, status, why) in [
        (&[&other, "/l"][..], 125, "it begins with \"2026-11-\", and a transaction log of ZooKeeper with ZKLG"),
        (&[&empty, "/l"], 125, "neither log.* nor snapshot.* in it, nor in version-2 below it"),
        (&[&none, "/l"], 125, "No such file or directory"),
        (&[&logs, "/none"], 1, "/none: nothing was held there in these logs; check the path"),
        (&[&logs, "none"], 125, "it must be /name or /name/name"),
        (&[&logs, "/l", "--at", "noon"], 125, "it must be HH:MM or HH:MM:SS (UTC)"),
        (&[&logs, "/l", "--connect", "zk:2181"], 125, "--connect is for clients, and postmortem reads files"),
    ] {
        let told = postmortem(arguments).await;
        assert_eq!((told.status, told.out.contains("hold (")), (status, false), "{arguments:?}: {}", told.err);
        assert!(told.err.contains(why), "{arguments:?}: {}", told.err);
    }
    let mut bytes = std::fs::read(Path::new(&logs).join("log.1")).expect("a log");
    bytes[3000] ^= 1;
    std::fs::write(at("log.1"), bytes).expect("it is written");
    let told = postmortem(&[&at("log.1"), "/history"]).await;
    assert_eq!(told.status, 1, "{}", told.err);
    assert!(told.err.contains("log.1: damaged at byte ") && told.err.lines().count() == 2, "{}", told.err);
    assert!(told.err.contains("what is told to hold at the end may have ended"), "{}", told.err);
    assert!(told.out.contains("holds") && told.out.contains("released"), "what is before is told: {}", told.out);
}

/// Removes some transactions of a log, and splits it there.
fn split_log(log: &[u8], gap: std::ops::Range<usize>) -> [Vec<u8>; 2] {
    let (header, mut rest) = log.split_at(16);
    let mut parts = [header.to_vec(), header.to_vec()];
    for number in 0.. {
        let length =
            rest.get(8..12).map_or(0, |word| u32::from_be_bytes(word.try_into().expect("four bytes")) as usize);
        if length == 0 {
            break;
        }
        // The checksum and the length come before it, and a mark after it.
        let (transaction, after) = rest.split_at(12 + length + 1);
        if !gap.contains(&number) {
            parts[usize::from(number >= gap.end)].extend(transaction);
        }
        rest = after;
    }
    parts
}

/// The time of a transaction: the fourth field of its header.
fn time_of(transaction: &[u8]) -> i64 {
    i64::from_be_bytes(transaction[32..40].try_into().expect("eight bytes"))
}

#[tokio::test]
async fn in_a_gap_the_holders_of_before_are_told_as_unknown() {
    let directory = tempfile::tempdir().expect("a directory");
    let whole = postmortem(&["--json", &recorded("3.9"), "/history/mutex"]).await;
    let hold: Value = serde_json::from_str(whole.out.lines().next().expect("a hold")).expect("it is JSON");
    // From the transaction after the first one that holds on.
    let granted = usize::try_from(zxid(&hold["granted"])).expect("a small number");
    let log = std::fs::read(Path::new(&recorded("3.9")).join("log.1")).expect("a log");
    let [before, after] = split_log(&log, granted..granted + 8);
    let at = time_of(&after[16..]) - 1;
    std::fs::write(directory.path().join("log.1"), before).expect("it is written");
    std::fs::write(directory.path().join("log.2"), after).expect("it is written");
    let logs = directory.path().to_str().expect("text");
    let told = postmortem(&[logs, "/history/mutex", "--at", &at.to_string()]).await;
    let path = hold["path"].as_str().expect("a path").trim_start_matches("/history/mutex/");
    let row = told.out.lines().find(|line| line.contains(path)).unwrap_or_default();
    assert!(told.status == 1 && row.contains("  unknown  "), "{}{}", told.out, told.err);
    assert!(told.err.contains("transactions are missing from"), "{}", told.err);
}

#[tokio::test]
async fn times_that_the_logs_do_not_cover() {
    let logs = recorded("3.9");
    let late = "2100-01-01T00:00:00Z";
    let told = postmortem(&[&logs, "/history", "--from", late]).await;
    assert!(told.status == 125 && told.err.contains("--from: the logs do not cover 2100-01-01"), "{}", told.err);
    let told = postmortem(&[&logs, "/history", "--at", late]).await;
    assert!(told.status == 125 && told.err.contains("without --at it tells who holds at the end"), "{}", told.err);
    // Nothing is held for longer than the logs tell, and all of them is told.
    let [late, all] = [postmortem(&[&logs, "/history", "--until", late]).await, postmortem(&[&logs, "/history"]).await];
    assert_eq!((late.status, &late.out), (0, &all.out), "{}", late.err);
}
