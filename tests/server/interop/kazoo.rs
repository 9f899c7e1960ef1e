//! Contenders and editors in Python.

use std::net::SocketAddr;

use super::python::python;

const SCRIPT: &str = include_str!("kazoo_lock.py");
const READ_WRITE: &str = include_str!("kazoo_read_write_lock.py");
#[cfg(feature = "cache")]
const EDIT: &str = include_str!("kazoo_edit.py");
#[cfg(feature = "group-member")]
const PARTY: &str = include_str!("kazoo_party.py");
#[cfg(feature = "partition-assigner")]
const PARTITIONER: &str = include_str!("kazoo_partitioner.py");

/// A Python process with kazoo; killed on drop.
#[derive(Debug)]
pub(crate) struct Kazoo(tokio::process::Child);

impl Kazoo {
    /// Starts it: takes the lock `turns` times and tells the judge each time.
    pub(crate) fn contend(connect_string: &str, path: &str, judge: SocketAddr, turns: usize) -> Kazoo {
        let mut command = tokio::process::Command::new(python());
        command.args(["-c", SCRIPT, connect_string, path, &judge.to_string(), &turns.to_string()]);
        Kazoo(command.kill_on_drop(true).spawn().expect("python starts"))
    }

    /// Starts it: reads three times of four, and writes otherwise, and tells the judge each time.
    pub(crate) fn read_and_write(connect_string: &str, path: &str, judge: SocketAddr, turns: usize) -> Kazoo {
        let mut command = tokio::process::Command::new(python());
        command.args(["-c", READ_WRITE, connect_string, path, &judge.to_string(), &turns.to_string()]);
        Kazoo(command.kill_on_drop(true).spawn().expect("python starts"))
    }

    /// Starts it: creates, writes and deletes nodes below `path`, which exists.
    #[cfg(feature = "cache")]
    pub(crate) fn edit(connect_string: &str, path: &str) -> Kazoo {
        let mut command = tokio::process::Command::new(python());
        command.args(["-c", EDIT, connect_string, path]);
        Kazoo(command.kill_on_drop(true).spawn().expect("python starts"))
    }

    /// Starts it: is in this kind of party as `kazoo-1` until it has seen the other member come and go.
    #[cfg(feature = "group-member")]
    pub(crate) fn party(connect_string: &str, path: &str, kind: &str, other: &str) -> Kazoo {
        let mut command = tokio::process::Command::new(python());
        command.args(["-c", PARTY, connect_string, path, kind, other]);
        Kazoo(command.kill_on_drop(true).spawn().expect("python starts"))
    }

    /// Starts it: has all of a set by a `SetPartitioner`, until its input ends.
    #[cfg(feature = "partition-assigner")]
    pub(crate) fn partitioner(connect_string: &str, path: &str) -> (Kazoo, tokio::process::ChildStdin) {
        let mut command = tokio::process::Command::new(python());
        command.args(["-c", PARTITIONER, connect_string, path]).stdin(std::process::Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().expect("python starts");
        let input = child.stdin.take().expect("piped");
        (Kazoo(child), input)
    }

    /// Waits until it has had all its turns, or has made all its edits.
    pub(crate) async fn ends(mut self) {
        let status = self.0.wait().await.expect("python ends");
        assert!(status.success(), "kazoo: {status}");
    }
}
