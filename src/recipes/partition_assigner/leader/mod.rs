//! The task of the leader: watches the members and the settings, decides, and writes the assignments that change.

mod decide;
mod look;
mod measure;
mod plan;
mod report;
mod term;
mod view;
mod writer;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use self::term::Term;
use super::events::Publisher;
use super::member::registration::Registrar;
use super::partitions::Source;
use super::strategy::Strategy;
use crate::client;
use crate::client::core::Core;
use crate::client::session::Session;
use crate::engine::Op;
use crate::leader_latch::LeaderLatch;
use crate::recipes::elected::{End, Leading};

/// The options of a leader.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) source: Source,
    pub(super) strategy: Strategy,
    pub(super) quiet: Duration,
    pub(super) at_most: Duration,
    pub(super) rebalance_delay: Duration,
}

pub(super) struct Leader {
    pub(super) registrar: Registrar,
    pub(super) latch: Arc<LeaderLatch>,
    pub(super) options: Options,
    pub(super) events: Publisher,
}

impl Leading for Leader {
    const DOING: &'static str = "assign the partitions of";

    fn core(&self) -> &Core {
        &self.registrar.core
    }

    fn base(&self) -> &str {
        &self.registrar.paths.base
    }

    async fn term(&self, session: &Arc<Session>, fence: Op) -> Result<Infallible, End> {
        Term::run(self, session, fence).await
    }

    fn report_failure(&self, error: client::Error) {
        self.events.failed(error);
    }
}
