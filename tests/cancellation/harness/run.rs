//! One run of a scenario: a world of its own, one call that is cut off, and a check of what is left.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::testing::{Loss, Operation, RecordKind, Target, TestingServer};
use zookeeper_recipes::{Client, CreateMode};

use super::outage::Outage;
use super::plan::{Fault, Plan, Unit};
use super::steps::Steps;
use crate::polls::Polls;

/// The session timeout of all clients.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The tick of the servers, with which they grant this timeout.
const TICK: Duration = Duration::from_millis(500);
/// A future that does not ask for a poll for this time waits for something that will not happen.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time after a drop within which whatever was under way has happened.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// The time within which all that must happen in the end has happened.
const IN_THE_END: Duration = Duration::from_secs(60);

/// How far the future got.
#[derive(Debug)]
pub(crate) enum Cut<T> {
    /// It was dropped after its last poll.
    Dropped,
    /// It waited for something that did not happen, and was dropped.
    Idle,
    /// It was ready before.
    Done(T),
}

impl<T> Cut<T> {
    pub(crate) fn done(self) -> Option<T> {
        match self {
            Cut::Done(output) => Some(output),
            Cut::Dropped | Cut::Idle => None,
        }
    }
}

/// The outcome of the one call of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// It was dropped before it was ready and before it stopped asking to be polled.
    pub(crate) dropped: bool,
    /// The fault struck. A fault that loses a request strikes only if there is a request.
    pub(crate) struck: bool,
}

/// The world of a scenario.
#[derive(Debug)]
pub(crate) struct Run {
    plan: Plan,
    pub(super) server: TestingServer,
    /// Faults hit the first one.
    pub(super) clients: Vec<Client>,
    may_stay: BTreeSet<String>,
    steps: Arc<Steps>,
    /// The fault that is still to strike.
    fault: Option<(Fault, usize)>,
    struck: bool,
    /// The outage that outlasts the call, and the client's session when it began.
    pub(super) outage: Option<(Outage, i64)>,
    /// The session that the client gave up in the outage.
    pub(super) given_up: Option<i64>,
    /// The requests that the first client had handed over when the call was cut off.
    requests: u64,
    outcome: Option<Outcome>,
}

fn in_millis(first: u64, last: u64) -> RangeInclusive<Duration> {
    Duration::from_millis(first)..=Duration::from_millis(last)
}

impl Run {
    pub(super) fn new(plan: Plan) -> Self {
        let (steps, count) = Steps::counter();
        let builder = TestingServer::builder().seed(plan.seed).tick_time(TICK).after_each_step(count);
        // Every other seed has servers that lag behind each other, and slow connections.
        let builder = match plan.seed % 2 {
            0 => builder.servers(3).lag(in_millis(0, 20)).latency(in_millis(0, 20)),
            _ => builder,
        };
        Run {
            plan,
            server: builder.start(),
            steps,
            clients: Vec::new(),
            may_stay: BTreeSet::new(),
            fault: plan.fault,
            struck: false,
            outage: None,
            given_up: None,
            requests: 0,
            outcome: None,
        }
    }

    pub(crate) fn server(&self) -> &TestingServer {
        &self.server
    }

    /// Connects the first client, which faults hit.
    pub(crate) async fn client(&mut self) -> Client {
        assert!(self.clients.is_empty(), "the first client is the one that faults hit");
        self.other_client().await
    }

    /// Returns the first client.
    pub(crate) fn first(&self) -> &Client {
        self.clients.first().expect("there is a client")
    }

    /// Connects another client.
    pub(crate) async fn other_client(&mut self) -> Client {
        let client = Client::builder_for_testing(&self.server).session_timeout(SESSION_TIMEOUT).tick_time(TICK);
        let client = client.connection_timeout(Duration::from_secs(5)).connect().await.expect("a client connects");
        self.clients.push(client.clone());
        client
    }

    /// Creates a node before the scenario begins; it may be left behind.
    pub(crate) fn directory(&mut self, path: &str) {
        self.server.create_by_hand(path, "", CreateMode::Persistent).expect("the node is created");
        self.may_stay(path);
    }

    /// Allows a node to be left behind: a parent that others may need, too.
    pub(crate) fn may_stay(&mut self, path: &str) {
        self.may_stay.insert(path.to_owned());
    }

    /// Returns whether the future is polled at all.
    pub(crate) fn is_polled(&self) -> bool {
        self.plan.end > 0
    }

    /// Returns whether there is no fault but the drop.
    pub(crate) fn is_calm(&self) -> bool {
        self.plan.fault.is_none()
    }

    /// Returns whether no fault ends the session of the first client.
    pub(crate) fn keeps_its_session(&self) -> bool {
        !matches!(self.plan.fault, Some((Fault::Expiry, _)))
    }

    /// Polls the future as often as the plan of this run says, whenever it asks for it, lets the fault of the plan
    /// strike in between, and drops the future. Then waits until whatever was under way has happened, and heals all
    /// faults.
    pub(crate) async fn cut<F: Future>(&mut self, future: F) -> Cut<F::Output> {
        assert!(self.outcome.is_none(), "one call is cut off in a run");
        let cut = self.drive(future).await;
        self.requests = self.requests_now();
        sleep(UNDER_WAY).await;
        let losses_of_outage = self.outage.map_or(0, |(outage, _)| outage.losses());
        self.struck |= self.server.lost_replies() > losses_of_outage;
        self.end_outage().await;
        self.server.heal();
        self.outcome = Some(Outcome { dropped: matches!(cut, Cut::Dropped), struck: self.struck });
        cut
    }

    async fn drive<F: Future>(&mut self, future: F) -> Cut<F::Output> {
        let (mut polled, mut polls) = (Polls::new(future), 0);
        let first_step = self.steps.count();
        loop {
            let progress = match self.plan.unit {
                Unit::Steps => self.steps.count() - first_step,
                Unit::Polls | Unit::PollsAndAWake => polls,
            };
            if let Some((fault, _)) = self.fault.take_if(|(_, at)| progress >= *at) {
                self.strike(fault);
            }
            if progress >= self.plan.end {
                break;
            }
            if polls == 0 || polled.has_asked() {
                polls += 1;
                if let Poll::Ready(output) = polled.poll() {
                    return Cut::Done(output);
                }
                continue;
            }
            let next = self.fault.map_or(self.plan.end, |(_, at)| at.min(self.plan.end));
            let something = async {
                tokio::select! {
                    biased;
                    () = self.steps.reach(first_step + next), if self.plan.unit == Unit::Steps => {}
                    () = polled.asked() => {}
                }
            };
            if timeout(PATIENCE, something).await.is_err() {
                return Cut::Idle;
            }
        }
        if self.plan.unit == Unit::PollsAndAWake && polls > 0 {
            // It may not ask again.
            drop(timeout(UNDER_WAY, polled.asked()).await);
        }
        Cut::Dropped
    }

    fn strike(&mut self, fault: Fault) {
        let server = &self.server;
        let Some(client) = self.clients.first() else {
            // No client is connected yet, so only a connection can break.
            self.struck = server.disconnect(Target::ALL) > 0;
            return;
        };
        match fault {
            Fault::ReplyLost => server.lose_next_reply(client, None, Loss::Applied),
            Fault::RequestLost => server.lose_next_reply(client, None, Loss::NotApplied),
            Fault::Disconnect => self.struck = server.disconnect(client) > 0,
            Fault::Expiry => self.struck = server.expire_session(client),
        }
    }

    /// Returns how many requests the first client has sent, except those that keep its lease and its watches.
    fn requests_now(&self) -> u64 {
        use Operation::{Create, Delete, Exists, GetData, List, Multi, SetData};
        let Some(client) = self.clients.first() else { return 0 };
        let all = [Create, Delete, Exists, GetData, List, Multi, SetData];
        let all: u64 = all.iter().map(|operation| self.server.count(client, *operation)).sum();
        // A new connection is confirmed by a transaction that changes nothing. The first client has the number 1.
        let confirms = |what: &RecordKind| match what {
            RecordKind::Request { client: 1, operation: Multi, path } => path == "/",
            _ => false,
        };
        all - self.server.records().iter().filter(|record| confirms(&record.what)).count() as u64
    }

    /// Checks that the call that was cut off has sent nothing since.
    pub(crate) async fn is_silent(&self) {
        sleep(Duration::from_secs(5)).await;
        assert_eq!(self.requests_now(), self.requests, "a call that was dropped keeps sending requests");
    }

    pub(crate) async fn is_silent_if_calm(&self) {
        if self.is_calm() {
            self.is_silent().await;
        }
    }

    /// Does something to the server after this time: while the call waits, if it does.
    pub(crate) fn later(&self, client: &Client, after: Duration, act: impl FnOnce(&TestingServer) + Send + 'static) {
        let server = self.server.clone();
        drop(self.server.spawn(client, async move {
            sleep(after).await;
            act(&server);
        }));
    }

    /// Returns how many watches there are once whatever was begun is done.
    pub(crate) async fn settled_watches(&self) -> usize {
        sleep(UNDER_WAY).await;
        self.server.watches()
    }

    /// Checks that only the watches that others had before are left in the end. Call this while the nodes of others
    /// still exist, as a watch ends with its node.
    pub(crate) async fn only_watches_of_others_are_left(&self, others: usize) {
        self.in_the_end("no watch is left", || self.server.watches() == others).await;
    }

    /// Waits until `holds` returns true, as it must in the end.
    pub(crate) async fn in_the_end(&self, what: &str, holds: impl Fn() -> bool) {
        self.in_time(what, IN_THE_END, holds).await;
    }

    /// Waits until `holds` returns true, which must happen within this time.
    pub(crate) async fn in_time(&self, what: &str, within: Duration, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            let (nodes, watches) = (self.left(), self.server.watches());
            assert!(begun.elapsed() < within, "{what}: not within {within:?}; nodes {nodes:?}, {watches} watches");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the nodes that should not exist.
    fn left(&self) -> Vec<String> {
        let mut paths = self.server.paths();
        paths.retain(|path| !self.may_stay.contains(path));
        paths
    }

    /// Asserts the invariants that hold after every scenario.
    pub(super) async fn finish(mut self) -> Outcome {
        let outcome = self.outcome.expect("a scenario cuts a call off");
        self.in_the_end("no node is left", || self.left().is_empty()).await;
        self.only_watches_of_others_are_left(0).await;
        for client in self.clients.iter().filter(|client| !client.is_closed()) {
            client.exists("/").await.expect("the client still reads");
            client.create("/still-works", "", CreateMode::Ephemeral).await.expect("the client still writes");
            client.delete("/still-works", None).await.expect("the client still deletes");
            assert_eq!(client.last_error(), None);
            client.close().await.expect("the client still closes");
        }
        self.clients.clear();
        self.in_the_end("no session is left", || self.server.sessions().is_empty()).await;
        assert_eq!(self.server.panics(), [""; 0]);
        outcome
    }
}
