//! A test's other half in a process of its own, to be killed or stopped. The process is the test binary once more: an
//! environment variable tells the test to take the other part.

use std::fmt::Display;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::waiting::{eventually, within};

/// The arguments of the other process.
const ORDER: &str = "ZOOKEEPER_RECIPES_ELSEWHERE";
/// Before everything that it says to its parent, as the test harness prints lines as well.
const MARK: &str = "elsewhere: ";
const PATIENCE: Duration = Duration::from_secs(60);

/// Called at the start of a test: the arguments of this process, if it is the other one.
pub fn ordered<const WORDS: usize>() -> Option<[String; WORDS]> {
    let order = std::env::var(ORDER).ok()?;
    let words: Vec<String> = order.split(' ').map(str::to_owned).collect();
    Some(words.try_into().unwrap_or_else(|words| panic!("{WORDS} words, not {words:?}")))
}

/// Says something to the parent.
pub fn say(word: impl Display) {
    println!("\n{MARK}{word}");
}

/// The other process; killed on drop.
#[derive(Debug)]
pub struct Elsewhere {
    child: Child,
    orders: ChildStdin,
    words: Lines<BufReader<ChildStdout>>,
}

impl Elsewhere {
    /// Starts a test of this binary in another process, with words that hold no space. `test` is the test's path, from
    /// the crate on: `concat!(module_path!(), "::name")`.
    pub fn start(test: &str, order: &[&str]) -> Elsewhere {
        // The harness names tests without their crate.
        let (_, test) = test.split_once("::").expect("a path that begins with the crate");
        let binary = std::env::current_exe().expect("the path of this test binary");
        let mut command = Command::new(binary);
        command
            .args(["--exact", test, "--nocapture"])
            .env(ORDER, order.join(" "))
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
    pub async fn word(&mut self) -> String {
        let word = within("the other process says something", PATIENCE, self.next_word()).await;
        word.expect("the other process is running")
    }

    /// The next word, if it comes in time; `None` at the end.
    pub async fn word_within(&mut self, time: Duration) -> Option<String> {
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
    pub async fn tell(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.expect("the pipe takes it");
        self.orders.flush().await.expect("the pipe takes it");
    }

    /// With the end of its input; it is expected to end in good order.
    pub async fn end(self) {
        let Elsewhere { mut child, orders, words: _words } = self;
        drop(orders);
        let status = within("the other process ends", PATIENCE, child.wait()).await;
        assert!(status.is_ok_and(|status| status.success()), "in good order");
    }

    /// Kills it with SIGKILL; returns its earlier output.
    pub async fn kill(mut self) -> Vec<String> {
        self.child.kill().await.expect("it is killed");
        let mut words = Vec::new();
        while let Some(word) = within("its last words", PATIENCE, self.next_word()).await {
            words.push(word);
        }
        words
    }

    /// With SIGSTOP. It stops a moment later: [`stop`](Self::stop) waits for that.
    pub fn order_to_stop(&self) {
        self.signal("-STOP");
    }

    /// With SIGSTOP; returns when no thread of it runs any more.
    pub async fn stop(&self) {
        self.order_to_stop();
        let tasks = format!("/proc/{}/task", self.child.id().expect("the process was not waited for"));
        let is_stopped = |stat: String| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'));
        eventually("every thread is stopped", PATIENCE, || async {
            let threads = std::fs::read_dir(&tasks).expect("the process is running");
            threads.flatten().all(|thread| std::fs::read_to_string(thread.path().join("stat")).is_ok_and(&is_stopped))
        })
        .await;
    }

    /// With SIGCONT.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().expect("the process was not waited for").to_string();
        let sent = std::process::Command::new("kill").args([signal, &pid]).status().expect("kill runs");
        assert!(sent.success(), "kill {signal}");
    }
}
