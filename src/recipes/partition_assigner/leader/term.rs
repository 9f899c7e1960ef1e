//! A term: what a leader knows, from its take-over to the first failure.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use super::Leader;
use super::measure::Measured;
use super::view::{Overdue, View};
use crate::client::session::Session;
use crate::engine::{Op, Watch};
use crate::layout::partition_assigner::Config;
use crate::partition_assigner::events::Event;
use crate::partition_assigner::partitions::Names;
use crate::recipes::elected::{Debounce, End, Epoch, take_over};

/// How many records one transaction contains at most.
pub(super) const MOST_WRITES: usize = 1_000;

/// The leader's watches. Each is `None` once it has fired: then there is something to read.
#[derive(Default)]
pub(super) struct Watches {
    pub(super) members: Option<Watch>,
    pub(super) config: Option<Watch>,
    /// Of the node that names the partitions.
    pub(super) source: Option<Watch>,
    /// Of the directory of the partitions that are held. It is set only while the leader waits for what is there.
    pub(super) owned: Option<Watch>,
    /// Of the records that wait for their members.
    pub(super) records: FuturesUnordered<RecordWatch>,
    /// The ids of these.
    pub(super) watched: BTreeSet<String>,
}

/// The watch of a member's record. Resolves with the id of the member.
pub(super) struct RecordWatch {
    pub(super) id: String,
    pub(super) watch: Watch,
}

impl Future for RecordWatch {
    type Output = String;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<String> {
        self.watch.poll_unpin(cx).map(|_| std::mem::take(&mut self.id))
    }
}

/// What was reported last.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// How many members and partitions there were, if everything was settled.
    pub(super) settled: Option<(usize, usize)>,
    /// How many partitions had no member.
    pub(super) unassigned: usize,
    /// Since when sessions have held partitions that no record names.
    pub(super) elsewhere: Option<Overdue>,
}

/// A leader, and everything that it knows.
pub(super) struct Term<'a> {
    pub(super) leader: &'a Leader,
    pub(super) session: Arc<Session>,
    pub(super) fence: Op,
    pub(super) epoch: Epoch,
    pub(super) view: View,
    /// The partitions; `None` if there was no valid set in this term.
    pub(super) set: Option<Names>,
    /// What operators have set; `None` before it was read.
    pub(super) config: Option<Config>,
    /// An operator wants to have moved at once what absent members had.
    pub(super) is_rebalance_due: bool,
    pub(super) watches: Watches,
    pub(super) debounce: Debounce,
    /// Whether there was a decision in this term.
    pub(super) is_decided: bool,
    pub(super) reported: Reported,
    pub(super) measured: Measured,
    /// How many records one transaction contains at most. Fewer while members write theirs all the time.
    pub(super) most_writes: usize,
}

impl<'a> Term<'a> {
    /// Takes over and leads, until something fails.
    pub(super) async fn run(leader: &'a Leader, session: &Arc<Session>, fence: Op) -> Result<Infallible, End> {
        let registrar = &leader.registrar;
        let create = || registrar.directories(session);
        let epoch = take_over(session, &fence, &registrar.paths.epoch, leader.latch.id(), create).await?;
        leader.events.report(Event::TookOver { epoch: epoch.number });
        let mut term = Term::new(leader, session, fence, epoch);
        // What is read after the answer to the take-over is not older than the take-over.
        term.list_records().await?;
        loop {
            term.look().await?;
            let now = Instant::now();
            term.expire(now);
            term.read_owned().await?;
            if term.debounce.is_over(now) {
                term.decide();
            }
            // Reads again at once after a write.
            if !term.write_changes(now).await? {
                term.report(now);
                term.wait(now).await;
            }
        }
    }

    fn new(leader: &'a Leader, session: &Arc<Session>, fence: Op, epoch: Epoch) -> Self {
        let most_bytes = leader.registrar.core.config.max_request_bytes;
        Term {
            leader,
            session: Arc::clone(session),
            fence,
            epoch,
            view: View::default(),
            // The builder has checked what does not depend on a node.
            set: crate::partition_assigner::partitions::names(&leader.options.source, most_bytes).ok().flatten(),
            config: None,
            is_rebalance_due: false,
            watches: Watches::default(),
            debounce: Debounce::new(leader.options.quiet, leader.options.at_most),
            is_decided: false,
            reported: Reported::default(),
            most_writes: MOST_WRITES,
            measured: Measured::new(&leader.registrar.core, &leader.registrar.paths.base),
        }
    }
}
