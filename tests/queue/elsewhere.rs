//! A consumer in a process of its own, to be killed or stopped. It is this test binary once more: an environment variable tells
//! it to consume instead of to test.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::words::SOON;
use crate::support::{eventually, within};

/// The server and the queue.
const ORDER: &str = "ZOOKEEPER_RECIPES_QUEUE_CONSUMER";
/// Before everything that the process says to its parent, as the test harness prints lines as well.
const MARK: &str = "queue-consumer: ";

/// To be asked at the start of a test: the server and the queue, if this process is to be a consumer.
pub(crate) fn ordered() -> Option<(String, String)> {
    let order = std::env::var(ORDER).ok()?;
    let (server, path) = order.split_once(' ').expect("a server and a path");
    Some((server.to_owned(), path.to_owned()))
}

/// Says something to the parent.
pub(crate) fn say(word: impl std::fmt::Display) {
    println!("\n{MARK}{word}");
}

/// The other process; killed on drop.
pub(crate) struct Elsewhere {
    child: Child,
    orders: ChildStdin,
    words: Lines<BufReader<ChildStdout>>,
}

impl Elsewhere {
    /// Starts `test` of this binary as a consumer.
    pub(crate) fn start(test: &str, server: &str, path: &str) -> Elsewhere {
        let binary = std::env::current_exe().expect("the path of this test binary");
        let mut command = Command::new(binary);
        command
            .args(["--exact", test, "--nocapture"])
            .env(ORDER, format!("{server} {path}"))
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

    /// The next word, which is expected to come.
    pub(crate) async fn word(&mut self) -> String {
        let word = within("the other process says something", SOON * 2, self.next_word()).await;
        word.expect("the other process lives")
    }

    /// The next word, if it comes in time; `None` at the end.
    pub(crate) async fn word_within(&mut self, time: Duration) -> Option<String> {
        tokio::time::timeout(time, self.next_word()).await.ok().flatten()
    }

    /// Cancel safe, as reading lines is.
    async fn next_word(&mut self) -> Option<String> {
        loop {
            let line = self.words.next_line().await.ok().flatten()?;
            if let Some((_, word)) = line.split_once(MARK) {
                return Some(word.to_owned());
            }
        }
    }

    /// A line for it to read.
    pub(crate) async fn tell(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.expect("the pipe takes it");
        self.orders.flush().await.expect("the pipe takes it");
    }

    /// With SIGKILL; what it had said before.
    pub(crate) async fn kill(mut self) -> Vec<String> {
        self.child.kill().await.expect("it is killed");
        let mut words = Vec::new();
        while let Some(word) = within("its last words", SOON, self.next_word()).await {
            words.push(word);
        }
        words
    }

    /// With SIGSTOP; returns when no thread of it runs any more: a signal is obeyed a moment after it was sent.
    pub(crate) async fn stop(&self) {
        self.signal("-STOP");
        let tasks = format!("/proc/{}/task", self.child.id().expect("the process was not waited for"));
        let stands = |stat: String| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'));
        eventually("every thread stands still", SOON, || async {
            let threads = std::fs::read_dir(&tasks).expect("the process lives");
            threads.flatten().all(|thread| std::fs::read_to_string(thread.path().join("stat")).is_ok_and(&stands))
        })
        .await;
    }

    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().expect("the process was not waited for").to_string();
        let sent = std::process::Command::new("kill").args([signal, &pid]).status().expect("kill runs");
        assert!(sent.success(), "kill {signal}");
    }
}
