//! Reports a handler that is dropped before it has finished.

use super::handle::ClaimHandle;
use crate::queue::events::{Event, Publisher};

/// Publishes an event if it is dropped before [`finished`](Self::finished) is called: the claim was lost, the grace
/// period ended, or the future of `consume` was dropped. No call returns this.
pub(super) struct Running<'a> {
    events: &'a Publisher,
    claim: &'a ClaimHandle,
    is_finished: bool,
}

impl<'a> Running<'a> {
    pub(super) fn new(events: &'a Publisher, claim: &'a ClaimHandle) -> Self {
        Running { events, claim, is_finished: false }
    }

    pub(super) fn finished(mut self) {
        self.is_finished = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let item = self.claim.name().to_owned();
        let (attempt, claim_lost) = (self.claim.attempt(), !self.claim.is_held());
        self.events.publish(Event::Interrupted { item, attempt, claim_lost });
    }
}
