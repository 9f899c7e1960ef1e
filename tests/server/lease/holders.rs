//! Leaders of elections, one client and session each, in this process.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch};
use zookeeper_recipes::{Client, ErrorPolicy, Heartbeat};

use super::sampler::{Question, Sampler, Timeline};
use crate::support::{unique_path, within};

const PATIENCE: Duration = Duration::from_secs(60);
/// The tick of the servers.
const TICK: Duration = Duration::from_millis(500);

/// The error policies in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policies {
    /// Most keep their leadership through a lost connection, as they have only the lease.
    Mixed,
    Only(ErrorPolicy),
}

/// The configuration of the leaders of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// The session timeout that they ask for.
    pub(crate) asked: Duration,
    /// The one that the first server grants.
    pub(crate) granted: Duration,
    pub(crate) policies: Policies,
}

impl Group {
    /// Leaders that are granted what they ask for.
    pub(crate) fn granted(timeout: Duration) -> Group {
        Group { asked: timeout, granted: timeout, policies: Policies::Mixed }
    }

    /// The options of the n-th leader.
    pub(crate) fn options(&self, n: usize) -> (ErrorPolicy, Heartbeat) {
        let (policy, heartbeat) = match n % 8 {
            0 | 3 | 5 => (ErrorPolicy::Session, Heartbeat::Sync),
            1 | 4 | 6 => (ErrorPolicy::Session, Heartbeat::Quorum),
            2 => (ErrorPolicy::Standard, Heartbeat::Sync),
            _ => (ErrorPolicy::Standard, Heartbeat::Quorum),
        };
        match self.policies {
            Policies::Mixed => (policy, heartbeat),
            Policies::Only(policy) => (policy, heartbeat),
        }
    }
}

/// The election and the node of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) election: String,
    pub(crate) node: String,
}

/// The state of a group so far.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) timelines: Vec<Timeline>,
    /// The node each has now, if it has one.
    pub(crate) nodes: Vec<Option<String>>,
}

/// A group of leaders, in this process or another.
pub(crate) trait Holders {
    /// Their places when they began to lead.
    fn places(&self) -> &[Place];
    async fn report(&mut self) -> Report;
    async fn close(self);
}

#[derive(Debug)]
struct Holder {
    client: Client,
    latch: Arc<LeaderLatch>,
}

/// A group of leaders in this process.
#[derive(Debug)]
pub(crate) struct Here {
    holders: Vec<Holder>,
    places: Vec<Place>,
    sampler: Sampler,
}

impl Here {
    /// Each of them connects to one of `servers`, and only to that; returns when all lead.
    pub(crate) async fn lead(servers: &[String], group: Group) -> Here {
        let leading = servers.iter().enumerate().map(|(n, server)| async move {
            let (policy, heartbeat) = group.options(n);
            // Waits for nothing: a fault that hits them all is to meet each at another point between two heartbeats.
            tokio::time::sleep(group.granted / 6 * (n as u32) / (servers.len() as u32)).await;
            let client = Client::builder(server)
                .session_timeout(group.asked)
                .connection_timeout(PATIENCE)
                .tick_time(TICK)
                .error_policy(policy)
                .heartbeat(heartbeat)
                .connect()
                .await
                .unwrap_or_else(|error| panic!("a holder connects: {error}"));
            let election = unique_path("lease");
            let latch = LeaderLatch::builder(&client, &election).id("holder").start();
            let latch = latch.unwrap_or_else(|error| panic!("a holder enters {election}: {error}"));
            let leadership = within("a holder leads", PATIENCE, latch.wait_for_leadership()).await;
            let leadership = leadership.unwrap_or_else(|error| panic!("a holder leads {election}: {error}"));
            // There is none if the session is lost already.
            assert_eq!(client.session_timeout().unwrap_or(group.granted), group.granted, "the servers grant it");
            let latch = Arc::new(latch);
            // It may have lost its node already: then the witness finds none.
            let node = latch.our_path().unwrap_or_else(|| format!("{election}/none"));
            let asked = Arc::clone(&latch);
            // Both ways to ask; the old term must not come to life again either.
            let question: Question = Box::new(move || {
                let leads = asked.has_leadership();
                leadership.is_held() || leads
            });
            (Holder { client, latch }, Place { election, node }, question)
        });
        let mut here = (Vec::new(), Vec::new(), Vec::new());
        for (holder, place, question) in join_all(leading).await {
            here.0.push(holder);
            here.1.push(place);
            here.2.push(question);
        }
        Here { holders: here.0, places: here.1, sampler: Sampler::start(here.2) }
    }

    pub(crate) fn report_now(&self) -> Report {
        Report {
            timelines: self.sampler.timelines(),
            nodes: self.holders.iter().map(|holder| holder.latch.our_path()).collect(),
        }
    }
}

impl Holders for Here {
    fn places(&self) -> &[Place] {
        &self.places
    }

    async fn report(&mut self) -> Report {
        self.report_now()
    }

    async fn close(self) {
        drop(self.sampler);
        let closing = self.holders.iter().map(|holder| holder.client.close());
        // A session of whose end no server hears ends by itself.
        drop(within("the holders close", PATIENCE, join_all(closing)).await);
    }
}

/// Who waits behind the leaders, with one session that no fault reaches.
#[derive(Debug)]
pub(crate) struct Successors {
    client: Client,
    /// Kept: dropped, they would leave the line.
    latches: Vec<Arc<LeaderLatch>>,
    sampler: Sampler,
}

impl Successors {
    /// The second participants in these elections.
    pub(crate) async fn wait_behind(servers: &str, places: &[Place]) -> Successors {
        let client = Client::builder(servers)
            .session_timeout(Duration::from_secs(30))
            .connection_timeout(PATIENCE)
            .tick_time(TICK)
            .error_policy(ErrorPolicy::Session)
            .connect()
            .await
            .unwrap_or_else(|error| panic!("the successors connect: {error}"));
        let mut latches = Vec::new();
        let mut questions = Vec::new();
        for place in places {
            let latch = LeaderLatch::builder(&client, &place.election).id("successor").start();
            let latch = Arc::new(latch.unwrap_or_else(|error| panic!("a successor enters: {error}")));
            let asked = Arc::clone(&latch);
            questions.push(Box::new(move || asked.has_leadership()) as Question);
            latches.push(latch);
        }
        for latch in &latches {
            let mut states = latch.state();
            // It leads if the leader has lost its node before the fault, which the witness tells.
            let waiting =
                states.wait_for(|state| matches!(state.status(), LatchStatus::Waiting | LatchStatus::Leading));
            let waiting = within("a successor waits", PATIENCE, waiting).await;
            waiting.expect("the latch is open");
        }
        Successors { client, latches, sampler: Sampler::start(questions) }
    }

    pub(crate) fn timelines(&self) -> Vec<Timeline> {
        self.sampler.timelines()
    }

    pub(crate) async fn close(self) {
        drop(self.sampler);
        drop(self.latches);
        let _ = within("the successors close", PATIENCE, self.client.close()).await;
    }
}
