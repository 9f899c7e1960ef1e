//! What happens in a recipe, told to those that listen.

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

/// How many events a reader may fall behind.
const CAPACITY: usize = 1_024;

/// Tells events to every stream that exists at the time.
#[derive(Debug, Clone)]
pub(crate) struct Broadcaster<E> {
    events: broadcast::Sender<E>,
}

impl<E: Clone + Send + 'static> Broadcaster<E> {
    pub(crate) fn new() -> Self {
        Broadcaster { events: broadcast::Sender::new(CAPACITY) }
    }

    pub(crate) fn tell(&self, event: E) {
        // It is fine if there is no reader.
        let _ = self.events.send(event);
    }

    /// The events from now on, until `finished` says so or its sender is dropped. `missed` makes the event which says that so many
    /// were lost, as the reader was too slow.
    pub(crate) fn subscribe(
        &self,
        finished: watch::Receiver<bool>,
        missed: impl Fn(u64) -> E + Copy + Send + 'static,
    ) -> BoxStream<'static, E> {
        let here = (self.events.subscribe(), finished);
        let events = futures::stream::unfold(here, move |(mut events, mut finished)| async move {
            let next = tokio::select! {
                biased;
                next = events.recv() => next,
                _ = finished.wait_for(|finished| *finished) => Err(RecvError::Closed),
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
