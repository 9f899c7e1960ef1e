//! A process that holds the lock is stopped (SIGSTOP) for longer than its session. The process is this test binary once more:
//! an environment variable tells it to hold instead of to test.

use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use zookeeper_recipes::ErrorKind;

use super::words::{SOON, Scene, acquired, builder, connect, mutex};
use crate::support::{eventually, unique_path, within};

/// `server lock resource`.
const ORDER: &str = "ZOOKEEPER_RECIPES_MUTEX_HOLDER";
/// Before everything that the process says to its parent, as the test harness prints lines as well.
const MARK: &str = "mutex-holder: ";
const SESSION: Duration = Duration::from_secs(2);

/// A resource outside ZooKeeper that refuses older tokens than it has seen.
#[derive(Default)]
struct Resource {
    newest: i64,
}

impl Resource {
    fn write(&mut self, token: i64) -> bool {
        let accepted = token >= self.newest;
        self.newest = self.newest.max(token);
        accepted
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_was_stopped_wakes_without_the_lock_and_no_fenced_write_of_it_is_accepted() {
    if let Ok(order) = std::env::var(ORDER) {
        return hold(&order).await;
    }
    let scene = Scene::with_directory("stopped").await;
    let node = unique_path("resource");
    scene.observer.create(&node, b"").await;
    let order = format!("{} {} {node}", scene.server.connect_string(), scene.path);
    let mut stopped = Elsewhere::start(&order);
    let mut resource = Resource::default();
    let token: i64 = stopped.word().await.parse().expect("a token");
    assert!(resource.write(token), "the holder writes");

    // What it is to do next is waiting for it when it wakes.
    stopped.signal("-STOP");
    stopped.stands_still().await;
    stopped.say("write").await;
    let client = scene.client().await;
    let next = acquired(&mutex(&client, &scene.path)).await;
    assert!(next.fencing_token() > token);
    assert!(resource.write(next.fencing_token()));
    let fenced = client.transaction().check(&next.fence()).set_data(&node, b"next", None);
    fenced.commit().await.expect("the holder writes");

    stopped.signal("-CONT");
    let word = stopped.word().await;
    let [held, fenced, unfenced] = &word.split(' ').collect::<Vec<_>>()[..] else { panic!("{word}") };
    assert_eq!(*held, "false", "is_held at the first look, in {word}");
    assert!(["SessionLost", "Fenced"].contains(fenced), "a fenced write: {fenced}");
    assert_eq!(*unfenced, "accepted", "nothing stops a write without a fence");
    assert!(!resource.write(token), "its token is too old");
    assert_eq!(scene.observer.data(&node).await.as_deref(), Some(&b"unfenced"[..]));
    assert!(next.is_held());
}

/// In the process that is stopped.
async fn hold(order: &str) {
    let [server, path, node] = &order.split(' ').collect::<Vec<_>>()[..] else { panic!("{order}") };
    let client = connect(builder(server, SESSION)).await;
    let guard = acquired(&mutex(&client, path)).await;
    println!("\n{MARK}{}", guard.fencing_token());
    let order = tokio::task::spawn_blocking(|| std::io::stdin().lines().next().is_some());
    assert!(order.await.expect("no panic"), "the parent lives");
    let held = guard.is_held();
    let fenced = client.transaction().check(&guard.fence()).set_data(node, "fenced", None).commit().await;
    let fenced = fenced.map_or_else(|error| format!("{:?}", error.kind()), |_| "accepted".into());
    // A client of its own, so that the end of a session cannot come in between.
    let fresh = connect(builder(server, SESSION)).await;
    let unfenced = match fresh.set(node, "unfenced", None).await {
        Ok(_) => "accepted".into(),
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => "unknown".into(),
        Err(error) => format!("{:?}", error.kind()),
    };
    println!("\n{MARK}{held} {fenced} {unfenced}");
}

/// The other process; killed on drop.
struct Elsewhere {
    child: Child,
    orders: ChildStdin,
    words: tokio::io::Lines<BufReader<ChildStdout>>,
}

impl Elsewhere {
    fn start(order: &str) -> Elsewhere {
        let test =
            "mutex::stopped::a_holder_that_was_stopped_wakes_without_the_lock_and_no_fenced_write_of_it_is_accepted";
        let binary = std::env::current_exe().expect("the path of this test binary");
        let mut command = tokio::process::Command::new(binary);
        command
            .args(["--exact", test, "--nocapture"])
            .env(ORDER, order)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // If this process is killed, the kernel ends a stopped process only in a group of its own.
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().expect("the test binary starts once more");
        let orders = child.stdin.take().expect("piped");
        let words = BufReader::new(child.stdout.take().expect("piped")).lines();
        Elsewhere { child, orders, words }
    }

    async fn word(&mut self) -> String {
        within("the other process says something", SOON * 2, async {
            loop {
                let line = self.words.next_line().await.expect("a line").expect("the other process lives");
                if let Some((_, word)) = line.split_once(MARK) {
                    return word.to_owned();
                }
            }
        })
        .await
    }

    async fn say(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.expect("the pipe takes it");
        self.orders.flush().await.expect("the pipe takes it");
    }

    /// Waits until no thread of it runs any more: a signal is obeyed a moment after it was sent.
    async fn stands_still(&self) {
        let tasks = format!("/proc/{}/task", self.child.id().expect("the process was not waited for"));
        let stands = |stat: String| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'));
        eventually("every thread stands still", SOON, || async {
            let threads = std::fs::read_dir(&tasks).expect("the process lives");
            threads.flatten().all(|thread| std::fs::read_to_string(thread.path().join("stat")).is_ok_and(&stands))
        })
        .await;
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().expect("the process was not waited for").to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill runs");
        assert!(sent.success(), "kill {signal}");
    }
}
