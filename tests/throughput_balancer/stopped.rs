//! A process that leads is stopped (SIGSTOP) for longer than its session, or killed. The process is this test binary once
//! more: an environment variable tells it to be a member instead of to test.

use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use zookeeper_recipes::limiter::ShareLimiter;
use zookeeper_recipes::throughput_balancer::{ThroughputBalancer, set_max_throughput};

use super::words::{SOON, Scene, builder, connect, have, member, nodes, throughputs};
use crate::support::{eventually, within};

/// `server base`.
const ORDER: &str = "ZOOKEEPER_RECIPES_BALANCER_MEMBER";
/// Before everything that the process says to its parent, as the test harness prints lines as well.
const MARK: &str = "balancer-member: ";
const SESSION: Duration = Duration::from_secs(2);
/// It is stopped while it waits for others to come.
const QUIET: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_stopped_has_nothing_when_it_wakes_and_changes_nothing() {
    if let Ok(order) = std::env::var(ORDER) {
        return take_part(&order).await;
    }
    let scene = Scene::new("stopped").await;
    let base = scene.path.as_str();
    let client = scene.client().await;
    set_max_throughput(&client, base, 1_000).await.expect("set");
    let mut stopped = Elsewhere::start(&format!("{} {base}", scene.server.connect_string()));
    assert_eq!(stopped.word().await, "1000 1000 true");

    // It is about to make room for another one.
    let other = member(&client, base).await;
    stopped.signal("-STOP");
    stopped.stands_still().await;
    have(&[&other], &[1000], 1000).await;
    assert!(other.is_leader());
    set_max_throughput(&client, base, 600).await.expect("set");
    have(&[&other], &[600], 1000).await;
    let epoch = scene.observer.stat(&format!("{base}/epoch")).await.expect("somebody leads");

    // What it is to say first is waiting for it when it wakes.
    stopped.say("look").await;
    stopped.signal("-CONT");
    assert_eq!(stopped.word().await, "0 0 false", "share, limiter and leadership at the first look");
    have(&[&other], &[300], 600).await;
    assert!(other.is_leader());
    let (node, now) = (
        format!("{base}/client/{}", other.member_id().expect("registered")),
        scene.observer.stat(&format!("{base}/epoch")).await,
    );
    assert_eq!(now.map(|now| now.mzxid), Some(epoch.mzxid), "nobody else has taken over");
    let record = String::from_utf8(scene.observer.data(&node).await.expect("it is there")).expect("text");
    assert!(record.contains(&format!(r#""epoch":{},"#, epoch.mzxid)), "{record}");
    eventually("it is there again", SOON, || async { nodes(&scene, base).await == [2, 2, 2] }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_process_that_leads_is_killed_another_one_leads_and_has_its_share() {
    let scene = Scene::new("killedleader").await;
    let base = scene.path.as_str();
    let client = scene.client().await;
    set_max_throughput(&client, base, 1_000).await.expect("set");
    let mut killed = Elsewhere::start(&format!("{} {base}", scene.server.connect_string()));
    assert_eq!(killed.word().await, "1000 1000 true");
    let (one, two) = (member(&client, base).await, member(&scene.client().await, base).await);
    have(&[&one, &two], &[333, 333], 667).await;
    killed.say("look").await;
    assert_eq!(killed.word().await, "333 333 true");
    // In the middle of a lowering, or not.
    set_max_throughput(&client, base, 900).await.expect("set");
    killed.child.kill().await.expect("it is killed");
    have(&[&one, &two], &[450, 450], 900).await;
    assert!(one.is_leader() && !two.is_leader());
    assert_eq!(nodes(&scene, base).await, [2, 2, 2]);
}

/// In the other process.
async fn take_part(order: &str) {
    let (server, base) = order.split_once(' ').expect("a server and a path");
    let client = connect(builder(server, SESSION)).await;
    let limiter = ShareLimiter::new(0);
    let options = ThroughputBalancer::builder(&client, base).debounce(QUIET, QUIET).limiter(&limiter);
    let member = within("it joins", SOON, options.join()).await.expect("it joins");
    have(&[&member], &[1000], 1000).await;
    loop {
        println!("\n{MARK}{} {} {}", throughputs(&[&member])[0], limiter.rate(), member.is_leader());
        let order = tokio::task::spawn_blocking(|| std::io::stdin().lines().next().is_some());
        if !order.await.expect("no panic") {
            return;
        }
    }
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
            "throughput_balancer::stopped::a_leader_that_was_stopped_has_nothing_when_it_wakes_and_changes_nothing";
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
