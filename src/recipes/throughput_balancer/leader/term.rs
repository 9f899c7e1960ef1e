//! A term: what a leader knows, from one look at everything to the first failure.

use std::sync::Arc;

use super::debounce::Debounce;
use super::holding::Held;
use super::view::View;
use super::watches::Watches;
use super::{Epoch, Leader};
use crate::client::session::Session;
use crate::engine::{self, Op};
use crate::metrics::{Label, Level, table};
use crate::throughput_balancer::member::registration::Registrar;

/// Why a term is over.
#[derive(Debug)]
pub(super) enum End {
    /// Another member leads.
    Fenced,
    /// The epoch was written, because the maximum was created or by hand, or a directory was deleted: read everything
    /// again.
    Again,
    /// A request got no answer, or was refused: read everything again.
    Failed(engine::Error),
}

/// The maximum, as last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Maximum {
    Unread,
    Good { value: u64, version: i32 },
    Missing,
    Bad(String),
}

/// A leader with everything that it knows.
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
    pub(super) told: Told,
    pub(super) measured: Measured,
}

/// What the metrics show while this member leads.
#[derive(Debug)]
pub(super) struct Measured {
    maximum: Level,
    applied: Level,
    members: Level,
}

impl Measured {
    fn new(leader: &Leader) -> Self {
        let Registrar { core, paths } = &leader.registrar;
        let label = [Label::Path(&paths.base)];
        let level = |metric| core.meter().level(metric, &label);
        Measured {
            maximum: level(&table::BALANCER_MAXIMUM),
            applied: level(&table::BALANCER_APPLIED),
            members: level(&table::BALANCER_MEMBERS),
        }
    }

    pub(super) fn tell(&self, maximum: u64, applied: u128, members: usize) {
        self.maximum.set(maximum as f64);
        self.applied.set(applied as f64);
        self.members.set(members as f64);
    }
}

/// What was reported last.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The maximum, the members and their sum, if everything was settled.
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
            told: Told::default(),
            measured: Measured::new(leader),
        }
    }
}
