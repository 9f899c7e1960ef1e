//! The task of the leader: watches the members and the maximum, and writes the shares that change.
//!
//! While this member is elected, it runs one [`Term`] after another. A term (`lead.rs`) takes over, and reads, decides
//! and writes until something fails.

mod holding;
mod lead;
mod look;
mod plan;
mod report;
mod term;
mod view;
mod watches;
mod writer;

use std::convert::Infallible;
use std::sync::Arc;

use self::term::Term;
use super::Options;
use super::error::Error;
use super::events::{Event, Publisher};
use super::member::registration::Registrar;
use crate::client;
use crate::client::core::Core;
use crate::client::session::Session;
use crate::engine::Op;
use crate::leader_latch::LeaderLatch;
use crate::recipes::elected::{End, Leading};

pub(super) struct Leader {
    pub(super) registrar: Registrar,
    pub(super) latch: Arc<LeaderLatch>,
    pub(super) options: Arc<Options>,
    pub(super) events: Publisher,
}

impl Leading for Leader {
    const DOING: &'static str = "divide the throughput in";

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
        self.events.report(Event::Failed { error: Error::client(&self.registrar.paths.base, error) });
    }

    fn ended(&self) {
        self.events.clear_invalid_maximum();
    }
}
