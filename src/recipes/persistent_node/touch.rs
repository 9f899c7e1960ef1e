//! The child that keeps a node with a time to live alive: it is written again before the time is over, as Curator's
//! `PersistentTtlNode` does. A write of the child does not fire the data watches of the node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::client::session::Session;
use crate::engine;
use crate::layout::persistent_node::TOUCH;
use crate::util::path::join;
use crate::util::znode::{Acl, CreateMode};

/// How many times the child is written in a time to live.
const FACTOR: u32 = 2;

#[derive(Debug)]
pub(super) struct Touch {
    ttl: Duration,
    /// When to write the child next.
    at: Instant,
    /// The child exists, as far as that is known.
    is_there: bool,
    /// The last attempt was refused.
    pub(super) is_failing: bool,
}

impl Touch {
    pub(super) fn new(ttl: Duration) -> Self {
        Touch { ttl, at: Instant::now(), is_there: false, is_failing: false }
    }

    /// Returns the path of the child of this node.
    pub(super) fn path(node: &str) -> Arc<str> {
        join(node, TOUCH).into()
    }

    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// Starts over for another node: its child is created at once.
    pub(super) fn restart(&mut self) {
        (self.at, self.is_there) = (Instant::now(), false);
    }

    /// Records a refusal. The write is retried after this delay, or at the usual interval if that is shorter.
    pub(super) fn failed(&mut self, delay: Duration) {
        (self.at, self.is_failing) = (Instant::now() + delay.min(self.ttl / FACTOR), true);
    }

    /// Retries at once after a refusal.
    pub(super) fn retry(&mut self) {
        if self.is_failing {
            self.at = Instant::now();
        }
    }

    /// Writes the child, or creates it. Repeating this after a lost answer has the same result. Returns whether this
    /// ends a series of refusals.
    pub(super) async fn touch(
        &mut self,
        session: &Arc<Session>,
        child: &str,
        acls: &[Acl],
    ) -> Result<bool, engine::Error> {
        let begun = Instant::now();
        if self.is_there {
            match session.set_data(child, &[], None).await {
                Ok(_) => return Ok(self.touched(begun)),
                Err(engine::Error::NoNode) => self.is_there = false,
                Err(error) => return Err(error),
            }
        }
        match session.create(child, &[], CreateMode::PersistentTtl(self.ttl), acls).await {
            Ok(_) => {}
            Err(engine::Error::NodeExists) => {
                // The next call writes it at once, as its time may be nearly over.
                self.is_there = true;
                return Ok(false);
            }
            // The node itself is gone, which its watch reports.
            Err(engine::Error::NoNode) => {}
            Err(error) => return Err(error),
        }
        self.is_there = true;
        Ok(self.touched(begun))
    }

    fn touched(&mut self, begun: Instant) -> bool {
        self.at = begun + (self.ttl / FACTOR).max(Duration::from_millis(1));
        std::mem::take(&mut self.is_failing)
    }
}
