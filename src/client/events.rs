//! The events of a recipe, sent to all its readers.

use futures::future::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// How many events a reader may fall behind.
const CAPACITY: usize = 1_024;

/// Sends events to every stream that exists at the time.
#[derive(Debug, Clone)]
pub(crate) struct Broadcaster<E> {
    events: broadcast::Sender<E>,
}

impl<E: Clone + Send + 'static> Broadcaster<E> {
    pub(crate) fn new() -> Self {
        Broadcaster { events: broadcast::Sender::new(CAPACITY) }
    }

    pub(crate) fn send(&self, event: E) {
        // There may be no readers.
        let _ = self.events.send(event);
    }

    /// Returns the events from now on, until `finished` resolves. `missed` creates the event that reports how many
    /// events a slow reader has lost.
    pub(crate) fn subscribe(
        &self,
        finished: impl Future<Output = ()> + Send + 'static,
        missed: impl Fn(u64) -> E + Copy + Send + 'static,
    ) -> BoxStream<'static, E> {
        let here = (self.events.subscribe(), finished.boxed());
        let events = futures::stream::unfold(here, move |(mut events, mut finished)| async move {
            let next = tokio::select! {
                biased;
                next = events.recv() => next,
                () = &mut finished => Err(RecvError::Closed),
            };
            let event = match next {
                Ok(event) => event,
                Err(RecvError::Lagged(lost)) => missed(lost),
                Err(RecvError::Closed) => return None,
            };
            Some((event, (events, finished)))
        });
        events.fuse().boxed()
    }
}
