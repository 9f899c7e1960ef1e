//! Leaders in a process of their own, which can be stopped. The process is this test binary once more: an environment
//! variable tells it to lead instead of to test.

use std::io::BufRead;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;

use super::holders::{Here, Holders, Place, Report};
use super::moment::Moment;
use super::sampler::{Span, Stretch, Timeline};
use crate::support::within;

/// `servers timeout-in-ms`, the servers of the holders separated by commas.
const ORDER: &str = "ZOOKEEPER_RECIPES_LEASE_HOLDERS";
/// Before everything that the process says to its parent, as the test harness prints lines as well.
const MARK: &str = "lease-holders: ";
const PATIENCE: Duration = Duration::from_secs(60);

/// A group of leaders in another process; killed on drop.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    child: Child,
    orders: Option<ChildStdin>,
    words: mpsc::UnboundedReceiver<String>,
    places: Vec<Place>,
}

impl Elsewhere {
    /// Starts the process, which runs `test` of this binary; returns when all its holders lead.
    pub(crate) async fn lead(test: &str, servers: &[String], timeout: Duration) -> Elsewhere {
        let binary = std::env::current_exe().expect("the path of this test binary");
        let mut command = tokio::process::Command::new(binary);
        command
            .args(["--exact", test, "--nocapture"])
            .env(ORDER, format!("{} {}", servers.join(","), timeout.as_millis()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // If this process is killed, the kernel ends a stopped process only in a group of its own.
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("the test binary starts once more: {error}"));
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let (said, words) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some((_, word)) = line.split_once(MARK) {
                    let _ = said.send(word.to_owned());
                }
            }
        });
        let mut elsewhere = Elsewhere { orders: child.stdin.take(), child, words, places: Vec::new() };
        for _ in servers {
            let word = elsewhere.word().await;
            let (election, node) = word.split_once(' ').expect("an election and a node");
            elsewhere.places.push(Place { election: election.to_owned(), node: node.to_owned() });
        }
        elsewhere
    }

    async fn word(&mut self) -> String {
        let word = within("the holders' process answers", PATIENCE, self.words.recv()).await;
        word.expect("the holders' process lives")
    }

    /// Stops the process.
    pub(crate) fn stop(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().expect("the process was not waited for").to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill {signal} works");
    }
}

impl Holders for Elsewhere {
    fn places(&self) -> &[Place] {
        &self.places
    }

    async fn report(&mut self) -> Report {
        let orders = self.orders.as_mut().expect("open until the end");
        let ordered = async {
            orders.write_all(b"report\n").await?;
            orders.flush().await
        };
        ordered.await.expect("the holders' process lives");
        let mut report = Report { timelines: Vec::new(), nodes: Vec::new() };
        for _ in 0..self.places.len() {
            let word = self.word().await;
            let mut parts = word.split(' ');
            let node = parts.next().filter(|node| !node.is_empty());
            report.nodes.push(node.map(str::to_owned));
            report.timelines.push(Timeline { stretches: parts.map(read).collect() });
        }
        report
    }

    async fn close(mut self) {
        // The end of its input is the end of the process.
        drop(self.orders.take());
        let status = within("the holders' process ends", PATIENCE, self.child.wait()).await;
        assert!(status.is_ok_and(|status| status.success()), "in good order");
    }
}

fn write(stretch: &Stretch) -> String {
    let moments = [stretch.first.begin, stretch.first.end, stretch.last.begin, stretch.last.end];
    let moments = moments.map(|moment| moment.0.to_string());
    format!("{},{}", stretch.answer, moments.join(","))
}

fn read(stretch: &str) -> Stretch {
    let mut parts = stretch.split(',');
    let answer = parts.next() == Some("true");
    let mut moment = || Moment(parts.next().and_then(|nanos| nanos.parse().ok()).expect("a moment"));
    let mut span = || Span { begin: moment(), end: moment() };
    Stretch { answer, first: span(), last: span() }
}

/// What this process was ordered to lead, if it was started for that.
pub(crate) fn order() -> Option<(Vec<String>, Duration)> {
    let order = std::env::var(ORDER).ok()?;
    let (servers, millis) = order.split_once(' ').expect("servers and a timeout");
    let servers = servers.split(',').map(str::to_owned).collect();
    Some((servers, Duration::from_millis(millis.parse().expect("milliseconds"))))
}

/// Leads as ordered, and reports when asked, until its input ends.
pub(crate) async fn obey((servers, timeout): (Vec<String>, Duration)) {
    let here = Here::lead(&servers, timeout).await;
    for place in here.places() {
        println!("{MARK}{} {}", place.election, place.node);
    }
    let obeying = tokio::task::spawn_blocking(move || {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
            let report = here.report_now();
            for (timeline, node) in report.timelines.iter().zip(report.nodes) {
                let stretches: Vec<String> = timeline.stretches.iter().map(write).collect();
                println!("{MARK}{} {}", node.unwrap_or_default(), stretches.join(" "));
            }
        }
        here
    });
    obeying.await.expect("reporting works").close().await;
}
