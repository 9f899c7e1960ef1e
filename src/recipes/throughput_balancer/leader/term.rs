//! A term: what a leader knows, from its take-over to the first failure.

use std::sync::Arc;

use super::Leader;
use super::debounce::Debounce;
use super::end::End;
use super::holding::Held;
use super::view::View;
use super::watches::Watches;
use crate::client::session::Session;
use crate::engine::{self, Multi, Op, OpResult};
use crate::metrics::{Label, Level, table};
use crate::throughput_balancer::member::registration::Registrar;

/// The maximum, as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Maximum {
    Unread,
    Good { value: u64, version: i32 },
    Missing,
    Bad(String),
}

/// A take-over: its number, and the version of the node that it wrote.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    pub(super) number: i64,
    pub(super) version: i32,
    /// When it happened, by the servers' clock in milliseconds.
    pub(super) began: i64,
}

/// A leader, and everything that it knows.
pub(super) struct Term<'a> {
    pub(super) leader: &'a Leader,
    pub(super) session: Arc<Session>,
    pub(super) fence: Op,
    pub(super) epoch: Epoch,
    /// Counts the decisions.
    pub(super) sequence: u64,
    pub(super) view: View,
    pub(super) maximum: Maximum,
    pub(super) watches: Watches,
    pub(super) debounce: Debounce,
    /// What cannot be divided because slow members or ignored nodes hold it.
    pub(super) withheld: Held,
    /// Whether the last decision gave shares.
    pub(super) is_divided: bool,
    pub(super) reported: Reported,
    pub(super) gauges: Gauges,
}

/// What the metrics show while this member leads.
#[derive(Debug)]
pub(super) struct Gauges {
    pub(super) maximum: Level,
    pub(super) applied: Level,
    pub(super) members: Level,
}

impl Gauges {
    fn new(Registrar { core, paths }: &Registrar) -> Self {
        let level = |metric| core.meter().level(metric, &[Label::Path(&paths.base)]);
        Gauges {
            maximum: level(&table::BALANCER_MAXIMUM),
            applied: level(&table::BALANCER_APPLIED),
            members: level(&table::BALANCER_MEMBERS),
        }
    }
}

/// What was reported last.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// The maximum, the number of members and the sum of their shares, if everything was settled.
    pub(super) settled: Option<(u64, usize, u64)>,
    /// By how much the maximum was exceeded.
    pub(super) exceeded: u64,
    /// How many members had a share of 0.
    pub(super) without_share: usize,
}

impl<'a> Term<'a> {
    pub(super) fn new(leader: &'a Leader, session: &Arc<Session>, fence: Op, epoch: Epoch) -> Self {
        let options = &leader.options;
        Term {
            leader,
            session: Arc::clone(session),
            fence,
            epoch,
            sequence: 0,
            view: View::default(),
            maximum: Maximum::Unread,
            watches: Watches::default(),
            debounce: Debounce::new(options.quiet, options.at_most),
            withheld: Held::default(),
            is_divided: false,
            reported: Reported::default(),
            gauges: Gauges::new(&leader.registrar),
        }
    }
}

impl Leader {
    /// Writes the node that every write of a leader depends on. From then on, servers refuse the writes of earlier
    /// leaders.
    pub(super) async fn take_over(&self, session: &Arc<Session>, fence: &Op) -> Result<Epoch, End> {
        let path = &self.registrar.paths.epoch;
        let set = Op::SetData { path: path.clone(), data: self.latch.id().as_bytes().to_vec(), version: None };
        loop {
            match session.multi(vec![fence.clone(), set.clone()]).await.map_err(End::Failed)? {
                Multi::Committed(results) => match results.last() {
                    Some(OpResult::SetData { stat }) => {
                        return Ok(Epoch { number: stat.mzxid, version: stat.version, began: stat.mtime });
                    }
                    _ => return Err(End::Superseded),
                },
                Multi::Refused { index: 0, error: engine::Error::NoNode | engine::Error::BadVersion } => {
                    return Err(End::Fenced);
                }
                Multi::Refused { index: 1, error: engine::Error::NoNode } => {
                    self.registrar.directories(session).await.map_err(End::Failed)?;
                }
                Multi::Refused { error, .. } => return Err(End::Failed(error)),
            }
        }
    }
}
