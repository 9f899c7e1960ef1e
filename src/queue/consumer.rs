//! Whoever takes items out of a queue.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt};
use tokio::sync::{mpsc, oneshot};

use super::Options;
use super::claimer::{Claimer, Order};
use super::delivery::Delivery;
use super::error::Error;
use super::names::Places;
use super::serializer::Serializer;
use super::shelf::Shelf;
use crate::client::Client;

/// Takes items out of a queue. Cheap to clone; all clones share one stock of claimed items, and any number of tasks may
/// [`take`](Self::take) from it.
///
/// Nothing is claimed before somebody asks. From then on a few items are
/// [claimed ahead](super::DistributedQueueBuilder::prefetch); when nobody has asked for a second they are given back. Also when
/// the last clone is dropped, which leaves alone what was delivered already.
///
/// While it exists the client keeps its lease, at the cost of six small requests a session timeout. With a client that nothing
/// else used for long, the first take waits until the lease is proven: the length of a tick of the servers.
pub struct Consumer<S: Serializer> {
    inner: Arc<Inner<S>>,
}

struct Inner<S: Serializer> {
    client: Client,
    places: Arc<Places>,
    shelf: Arc<Shelf<S::Item>>,
    orders: mpsc::UnboundedSender<Order>,
}

impl<S: Serializer> Consumer<S> {
    pub(super) fn new(client: &Client, places: &Arc<Places>, serializer: &Arc<S>, options: Options) -> Self {
        let core = client.core();
        let (orders, ordered) = mpsc::unbounded_channel();
        let shelf = Arc::new(Shelf::new(options.at_most_once()));
        let claimer = Claimer::new(core, places, options, serializer, &shelf, ordered);
        core.runtime.spawn(claimer.run());
        let inner = Inner { client: client.clone(), places: Arc::clone(places), shelf, orders };
        Consumer { inner: Arc::new(inner) }
    }

    /// The next item, claimed: nobody else gets it until it is settled, or the session that claimed it is over. Waits as long
    /// as it takes, also through the loss of a session.
    ///
    /// # Errors
    /// [`Error::Client`] if the queue could not be seen or an item not be claimed, such as for want of permission; the next
    /// call tries again. [`Error::Closed`] if the consumer or the client was closed. At most once:
    /// [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) if an item may have been lost, as the session ended before
    /// it was known to have left the queue.
    ///
    /// # Cancel safety
    /// Cancel safe: what was claimed for it goes to the next call, or back into the queue. At most once, an item that has left
    /// the queue goes to the next call; it is lost if there is none.
    pub async fn take(&self) -> Result<Delivery<S::Item>, Error> {
        // A loop over items that are there must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let inner = &*self.inner;
        let (ready, grant) = inner.shelf.take().await?;
        let parts = (ready.claim, ready.items);
        Ok(Delivery::new(&inner.client, &inner.places, parts, grant, inner.orders.clone()))
    }

    /// The items as a stream: of each [`take`](Self::take) one, until the consumer or the client is closed. Between two polls
    /// nothing is asked for.
    pub fn deliveries(&self) -> Deliveries<S> {
        let taken = futures::stream::unfold(Some(self.clone()), |consumer| async move {
            let consumer = consumer?;
            match consumer.take().await {
                Err(Error::Closed { .. }) => None,
                taken => Some((taken, Some(consumer))),
            }
        });
        Deliveries { taken: taken.boxed() }
    }

    /// Claims no more items, and gives back those that nobody has taken; then [`take`](Self::take) says
    /// [`Error::Closed`]. What was delivered can still be settled. Waits until everything is settled of which that was asked
    /// before, as long as that takes: also for a permission that is missing. Closing twice is fine.
    ///
    /// # Cancel safety
    /// Once polled, the consumer is closed also if the future is dropped.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        // The task is gone with its runtime only.
        let _ = self.inner.orders.send(Order::Close(Some(done)));
        let _ = closed.await;
    }

    /// The path of the queue.
    pub fn path(&self) -> &str {
        &self.inner.places.path
    }
}

impl<S: Serializer> Drop for Inner<S> {
    fn drop(&mut self) {
        // The task is gone with its runtime only.
        let _ = self.orders.send(Order::Close(None));
    }
}

impl<S: Serializer> Clone for Consumer<S> {
    fn clone(&self) -> Self {
        Consumer { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Serializer> fmt::Debug for Consumer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The items of a queue, as they are taken; see [`Consumer::deliveries`].
pub struct Deliveries<S: Serializer> {
    taken: BoxStream<'static, Result<Delivery<S::Item>, Error>>,
}

impl<S: Serializer> Stream for Deliveries<S> {
    type Item = Result<Delivery<S::Item>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.taken.poll_next_unpin(cx)
    }
}

impl<S: Serializer> fmt::Debug for Deliveries<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliveries").finish_non_exhaustive()
    }
}
