//! A term: what a leader knows, from its take-over to the first failure.

use std::sync::Arc;

use super::Leader;
use super::holding::Held;
use super::view::View;
use super::watches::Watches;
use crate::client::session::Session;
use crate::engine::Op;
use crate::metrics::{Label, Level, table};
use crate::recipes::elected::{Debounce, Epoch};
use crate::throughput_balancer::member::registration::Registrar;

/// The maximum, as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Maximum {
    Unread,
    Good { value: u64, version: i32 },
    Missing,
    Bad(String),
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
