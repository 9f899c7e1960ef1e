//! Leaders in a process of their own, which can be stopped.

use std::io::BufRead;
use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

use super::holders::{Group, Here, Holders, Place, Policies, Report};
use super::moment::Moment;
use super::sampler::{Span, Stretch, Timeline};
use crate::support::elsewhere::{self, ordered, say};

/// A group of leaders in another process; killed on drop.
#[derive(Debug)]
pub(crate) struct Elsewhere {
    process: elsewhere::Elsewhere,
    places: Vec<Place>,
}

impl Elsewhere {
    /// Starts the process, which runs `test` of this binary; returns when all its holders lead.
    pub(crate) async fn lead(test: &str, servers: &[String], group: Group) -> Elsewhere {
        let [asked, granted] = [group.asked, group.granted].map(|timeout| timeout.as_millis().to_string());
        let policies = match group.policies {
            Policies::Mixed => "mixed",
            Policies::Only(ErrorPolicy::Session) => "session",
            Policies::Only(_) => "standard",
        };
        let mut process = elsewhere::Elsewhere::start(test, &[&servers.join(","), &asked, &granted, policies]);
        let mut places = Vec::new();
        for _ in servers {
            let word = process.word().await;
            let (election, node) = word.split_once(' ').expect("an election and a node");
            places.push(Place { election: election.to_owned(), node: node.to_owned() });
        }
        Elsewhere { process, places }
    }

    /// Stops the process, some moments after this returns.
    pub(crate) fn stop(&self) {
        self.process.order_to_stop();
    }

    /// Resumes it.
    pub(crate) fn go_on(&self) {
        self.process.go_on();
    }
}

impl Holders for Elsewhere {
    fn places(&self) -> &[Place] {
        &self.places
    }

    async fn report(&mut self) -> Report {
        self.process.tell("report").await;
        let mut report = Report { timelines: Vec::new(), nodes: Vec::new() };
        for _ in 0..self.places.len() {
            let word = self.process.word().await;
            let mut parts = word.split(' ');
            let node = parts.next().filter(|node| !node.is_empty());
            report.nodes.push(node.map(str::to_owned));
            report.timelines.push(Timeline { stretches: parts.map(read).collect() });
        }
        report
    }

    async fn close(self) {
        self.process.end().await;
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

/// The servers and the group that this process was started for, if any.
pub(crate) fn order() -> Option<(Vec<String>, Group)> {
    // The servers of the holders are separated by commas.
    let [servers, asked, granted, policies] = ordered()?;
    let servers = servers.split(',').map(str::to_owned).collect();
    let [asked, granted] = [asked, granted].map(|millis| Duration::from_millis(millis.parse().expect("milliseconds")));
    let policies = match policies.as_str() {
        "session" => Policies::Only(ErrorPolicy::Session),
        "standard" => Policies::Only(ErrorPolicy::Standard),
        _ => Policies::Mixed,
    };
    Some((servers, Group { asked, granted, policies }))
}

/// Leads as ordered, and reports when asked, until its input ends.
pub(crate) async fn obey((servers, group): (Vec<String>, Group)) {
    let here = Here::lead(&servers, group).await;
    for place in here.places() {
        say(format_args!("{} {}", place.election, place.node));
    }
    let obeying = tokio::task::spawn_blocking(move || {
        for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
            let report = here.report_now();
            for (timeline, node) in report.timelines.iter().zip(report.nodes) {
                let stretches: Vec<String> = timeline.stretches.iter().map(write).collect();
                say(format_args!("{} {}", node.unwrap_or_default(), stretches.join(" ")));
            }
        }
        here
    });
    obeying.await.expect("reporting works").close().await;
}
