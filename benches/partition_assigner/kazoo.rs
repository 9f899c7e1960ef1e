//! kazoo's members, in a process of their own.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::QUIET;
use crate::board::Gaps;
use crate::python::python;

const SCRIPT: &str = include_str!("kazoo.py");

/// The process; killed on drop.
pub(crate) struct Kazoo {
    _child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Kazoo {
    pub(crate) fn start(to: &str, path: &str, members: usize, partitions: u32) -> Kazoo {
        let boundary = QUIET.as_secs_f64().to_string();
        let mut command = Command::new(python());
        command.args(["-c", SCRIPT, to, path, &members.to_string(), &partitions.to_string(), &boundary]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("python starts");
        let orders = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stdout.take().expect("piped")).lines();
        Kazoo { _child: child, orders, answers }
    }

    /// Gives an order. Returns how long it takes until all is settled, and the gaps. The error says how far it has
    /// come.
    pub(crate) async fn step(&mut self, order: &str) -> Result<(Duration, Gaps), String> {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.expect("it reads");
        let answer = self.answers.next_line().await.expect("it answers").expect("it is running");
        let Some(figures) = answer.strip_prefix("settled ") else { return Err(format!("{order}: {answer}")) };
        let figures: Vec<f64> = figures.split(' ').map(|figure| figure.parse().expect("a number")).collect();
        let [settled, partitions, longest, sum] = figures[..] else { panic!("{answer}") };
        let [settled, longest, sum] = [settled, longest, sum].map(Duration::from_secs_f64);
        Ok((settled, Gaps { partitions: partitions as usize, longest, sum }))
    }
}
