//! The options of a queue.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::serializer::Serializer;
use super::znodes::Paths;
use super::{AckMode, DistributedQueue, Options};
use crate::client::{Client, RetryPolicy};
use crate::path;

/// More would keep too much from others, and in memory.
const MOST_PREFETCH: usize = 1_000;

/// The options of a [`DistributedQueue`]; see [`DistributedQueue::builder`].
#[derive(Debug, Clone)]
#[must_use = "there is no queue before start()"]
pub struct DistributedQueueBuilder<S> {
    client: Client,
    path: String,
    serializer: S,
    claims: Option<String>,
    max_items: Option<usize>,
    options: Options,
}

impl<S: Serializer> DistributedQueueBuilder<S> {
    pub(super) fn new(client: &Client, path: String, serializer: S) -> Self {
        let options = Options::default();
        DistributedQueueBuilder { client: client.clone(), path, serializer, claims: None, max_items: None, options }
    }

    /// The directory of the claims: what Curator calls the lock path. All consumers of a queue must name the same one,
    /// and no other queue may use it, as its items have the same names. By default the path of the queue with `-claims`
    /// after it. Next to consumers of Curator's name it here too, also if it is the default: only then does an item
    /// that is returned wake them.
    pub fn claims_path(mut self, path: impl Into<String>) -> Self {
        self.claims = Some(path.into());
        self
    }

    /// How many items the queue may hold, for the producers of this object: a put waits for room. An item that is
    /// claimed counts, and what is put [as one](super::Producer::put_many) counts once. Not bounded by default; of what
    /// Java clients cannot list see the [limits](super#limits).
    ///
    /// One producer never goes over it. Several can together, by one batch (64 items, or `items` if that is less) for
    /// each producer but one, as none knows of what the others are about to put. To keep to that a producer has one
    /// batch under way, where without a maximum it has four. A producer that found the queue full looks again after 1
    /// to 2 ms, and less and less often while it stays full, up to every 100 ms.
    pub fn max_items(mut self, items: usize) -> Self {
        self.max_items = Some(items);
        self
    }

    /// After so many deliveries without success an item becomes a dead letter: with the reason, when the last of them
    /// [fails](super::Delivery::nack); or by the next consumer that claims it, also when its consumers crashed. A
    /// delivery that was [released](super::Delivery::release), or whose claim was lost, counts too, and so does a claim
    /// that no caller took: one that was made [ahead](Self::prefetch), or for a call that was dropped. So it bounds
    /// claims, not failures: with [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) each doubt about the
    /// connection costs the deliveries of that moment; for work that takes long choose
    /// [`ErrorPolicy::Session`](crate::ErrorPolicy::Session), or a greater number. Each consumer goes by its own
    /// number: give all the same. By default there is no end of deliveries.
    #[doc(alias = "max_attempts")]
    pub fn max_deliveries(mut self, deliveries: u32) -> Self {
        self.options.max_deliveries = Some(deliveries);
        self
    }

    /// How many items a consumer claims beyond those that are asked for, so that the next one is at hand. Others do not
    /// get them until the consumer is closed, also if no caller ever takes them. Each is a delivery that counts towards
    /// [`max_deliveries`](Self::max_deliveries), also if `close` returns it: with prefetch every restart of a process
    /// uses up one of each item that it had claimed. At most 1 000. Default 0.
    pub fn prefetch(mut self, items: usize) -> Self {
        self.options.prefetch = items;
        self
    }

    /// Whether a consumer never claims an item while it may claim an older one. Default: false, and the oldest item is
    /// claimed first all the same, but for consumers that claim at the same moment: each expects as many claims of the
    /// others before its own as usual, and leaves as many of the oldest items to them. If one of these is not claimed
    /// within about two round trips for each, it claims it itself. With strict order it waits for that and claims
    /// nothing else meanwhile: four busy consumers together get an item in two to three round trips.
    ///
    /// Passed over are items that are claimed, and those that this consumer leaves alone for a time: after [a
    /// failure](Self::retry_delay), [`nack_after`](super::Delivery::nack_after), or a settlement that was refused. It
    /// is the order of the claims, not of the work: two consumers work on two items at once. For one item at a time,
    /// let one consumer [`take`](super::Consumer::take) and ack in turn, as the leader of a
    /// [`LeaderLatch`](crate::leader_latch), say, and answer a failure by [`nack`](super::Delivery::nack), whose item
    /// is its next one.
    pub fn strict_order(mut self, strict: bool) -> Self {
        self.options.strict_order = strict;
        self
    }

    /// When [`consume`](super::Consumer::consume) acknowledges an item. Default: [`AckMode::AfterHandling`].
    pub fn ack_mode(mut self, mode: AckMode) -> Self {
        self.options.ack_mode = mode;
        self
    }

    /// After which delay [`consume`](super::Consumer::consume) claims an item again that its handler failed at, by how
    /// often it was delivered before, also elsewhere. When the policy gives up by that number, the item becomes a dead
    /// letter; a limit of the policy in time has no effect, as it is not known when the item failed first. Default:
    /// from 100 ms, doubling up to 30 s, for ever.
    ///
    /// The delay is that of the consumer whose handler failed; any other consumer may claim the item at once. So `n`
    /// consumers may use up `n` deliveries without any delay: with [`max_deliveries`](Self::max_deliveries) choose a
    /// multiple of that.
    pub fn retry_delay(mut self, policy: RetryPolicy) -> Self {
        self.options.retry_delay = policy;
        self
    }

    /// How long [`consume_until`](super::Consumer::consume_until) lets handlers finish after its shutdown. Default 20
    /// s: less than the 30 s that Kubernetes gives a process, so that there is time to [close](super::Consumer::close).
    pub fn grace_period(mut self, time: Duration) -> Self {
        self.options.grace = time;
        self
    }

    /// The queue. Nothing is sent before the first put or take.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path;
    /// [`Error::InvalidOption`]; [`Error::Closed`] if the client has been closed.
    pub fn start(self) -> Result<DistributedQueue<S>, Error> {
        let name: Arc<str> = self.path.as_str().into();
        for path in [Some(&self.path), self.claims.as_ref()].into_iter().flatten() {
            path::validate(path).map_err(|error| Error::client(&name, error.into()))?;
        }
        let invalid = |why: String| Err(Error::InvalidOption { path: Arc::clone(&name), why });
        if self.max_items == Some(0) {
            return invalid("max_items of 0: nothing could be put; at least 1 is needed".into());
        }
        if self.options.max_deliveries == Some(0) {
            return invalid("max_deliveries of 0: nothing could be delivered; at least 1 is needed".into());
        }
        if self.options.prefetch > MOST_PREFETCH {
            return invalid(format!("prefetch of {}; at most {MOST_PREFETCH} is allowed", self.options.prefetch));
        }
        let core = self.client.core();
        if *core.closing.borrow() {
            return Err(Error::Closed { path: name });
        }
        let paths = Arc::new(Paths::new(&self.path, self.claims.as_deref(), |path| core.full_path(path)));
        let below =
            |dir: &str| paths.claims.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if let Some((_, what)) = paths.taken().into_iter().find(|(dir, _)| below(dir)) {
            let why =
                format!("claims_path: the queue keeps {what} there; claims need a directory of their own, beside it");
            return invalid(why);
        }
        Ok(DistributedQueue {
            client: self.client,
            paths,
            serializer: Arc::new(self.serializer),
            max_items: self.max_items,
            options: self.options,
        })
    }
}
