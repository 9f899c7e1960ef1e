//! A JVM with Curator's recipes.

use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::support::curator::java;

const LOCKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/interop/curator/CuratorPeer.java");
#[cfg(feature = "leader-latch")]
const LATCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/interop/curator/LatchPeer.java");
#[cfg(feature = "service-discovery")]
const DISCOVERY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/interop/curator/DiscoveryPeer.java");
#[cfg(feature = "queue")]
const QUEUES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/interop/curator/QueuePeer.java");

/// A JVM that obeys commands; see the programs. Killed on drop.
#[derive(Debug)]
pub(crate) struct Curator {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Curator {
    /// Starts one that has so many participants, each with a session of its own.
    pub(crate) async fn start(connect_string: &str, judge: SocketAddr, participants: usize) -> Curator {
        Curator::run(LOCKS, &[connect_string, &judge.to_string(), &participants.to_string()]).await
    }

    /// Starts one that can take part in an election.
    #[cfg(feature = "leader-latch")]
    pub(crate) async fn latch(connect_string: &str, path: &str, id: &str) -> Curator {
        Curator::run(LATCH, &[connect_string, path, id]).await
    }

    /// Starts one that registers and finds instances; see the program for its arguments.
    #[cfg(feature = "service-discovery")]
    pub(crate) async fn discovery(args: &[&str]) -> Curator {
        Curator::run(DISCOVERY, args).await
    }

    /// Starts one that puts items into queues, and takes them.
    #[cfg(feature = "queue")]
    pub(crate) async fn queues(connect_string: &str) -> Curator {
        Curator::run(QUEUES, &[connect_string]).await
    }

    async fn run(program: &str, args: &[&str]) -> Curator {
        let java = java(program).unwrap_or_else(|why| panic!("Curator is needed: {why}"));
        let mut java = Command::from(java);
        java.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = java.spawn().unwrap_or_else(|error| panic!("a JDK is needed: {error}"));
        let commands = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut curator = Curator { child, commands, answers };
        assert_eq!(curator.answer().await, "ready");
        curator
    }

    /// Gives a command, and waits for the answer.
    pub(crate) async fn ask(&mut self, command: &str) -> String {
        self.tell(command).await;
        self.answer().await
    }

    /// Gives a command.
    pub(crate) async fn tell(&mut self, command: &str) {
        self.commands.write_all(format!("{command}\n").as_bytes()).await.expect("the JVM runs");
    }

    /// Waits for the answer to a command. Cancel safe.
    pub(crate) async fn answer(&mut self) -> String {
        let line = self.answers.next_line().await.expect("the JVM can be read");
        line.expect("the JVM answers; otherwise its standard error says why it does not")
    }

    /// Kills the JVM with SIGKILL.
    #[cfg(feature = "service-discovery")]
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it is killed");
    }
}
