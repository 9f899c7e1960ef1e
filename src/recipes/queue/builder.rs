//! The options of a queue.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::{DistributedQueue, Options};
use crate::client::{Client, RetryPolicy};
use crate::layout::queue::Paths;
use crate::util::serializer::Serializer;

/// More would keep too many items from other consumers, and too much in memory.
const MOST_PREFETCH: usize = 1_000;

/// Configures a [`DistributedQueue`]; see [`DistributedQueue::builder`].
///
/// ```no_run
/// use std::time::Duration;
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::queue::{DistributedQueue, Error, Utf8};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let queue = DistributedQueue::builder(&client, "/my-service/orders", Utf8)
///     .claims_path("/my-service/orders-locks") // Curator's lock path
///     .max_items(10_000)
///     .max_deliveries(5)
///     .grace_period(Duration::from_secs(10))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "there is no queue before build()"]
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

    /// Sets the directory of the claims, which Curator calls the lock path. Default: the path of the queue followed by
    /// `-claims`. All consumers of a queue must use the same directory, and no other queue may use it, because items of
    /// different queues have the same names. If consumers of Curator are in use, set it even if it equals the default:
    /// only then does a returned item wake them.
    #[doc(alias = "lockPath")]
    pub fn claims_path(mut self, path: impl Into<String>) -> Self {
        self.claims = Some(path.into());
        self
    }

    /// Sets the maximum number of items in the queue, for the producers of this object: a put waits for room. Default:
    /// no maximum. A claimed item counts, and items put [as one node](super::Producer::put_many) count once. For the
    /// length that Java clients can list, see the [limits](super#limits).
    ///
    /// One producer never exceeds the maximum. Several producers together can exceed it by one batch (64 items, or
    /// `items` if that is less) for each producer but one, because no producer knows what the others are about to put.
    /// To ensure this, a producer has one batch in flight; without a maximum it has four.
    ///
    /// A producer that finds the queue full watches it, which needs ZooKeeper 3.6 and the permission to read the items.
    /// When an item leaves, each producer that waits counts the items after a random time of up to 4 ms for each other
    /// producer, but no more than a second; so few of them count. Without that permission it notices room only after a
    /// minute, and counts the items every 50 to 100 ms from then on; with earlier servers it does so from the
    /// beginning.
    #[doc(alias = "maxItems")]
    pub fn max_items(mut self, items: usize) -> Self {
        self.max_items = Some(items);
        self
    }

    /// Sets the number of failed deliveries after which an item becomes a dead letter. Default: no limit. The item
    /// becomes a dead letter when its last delivery [fails](super::Delivery::nack), with the reason.
    ///
    /// A claim that ended with its session counts as a failed delivery, because its item may have crashed the consumer.
    /// If the last one ended so, the next consumer that claims the item makes the dead letter, with the last error that
    /// was reported. Items that were claimed [in advance](Self::prefetch) when their consumer crashed count, too: with
    /// prefetch, choose a greater number. At the end of a process, [close](super::Consumer::close) its consumers before
    /// the client.
    ///
    /// Items that were returned unhandled have not failed: by a [release](super::Delivery::release) or a dropped
    /// delivery, by a [close](super::Consumer::close), at the end of the [grace period](Self::grace_period), or because
    /// the claim was lost while its session continued. So report a failure with [`nack`](super::Delivery::nack); a
    /// reason needs a handler, or [`reject`](super::Delivery::reject).
    ///
    /// Each consumer applies its own number, so configure the same for all.
    #[doc(alias = "max_attempts")]
    pub fn max_deliveries(mut self, deliveries: u32) -> Self {
        self.options.max_deliveries = Some(deliveries);
        self
    }

    /// Sets how many items a consumer claims in advance, beyond those that callers wait for. Default: 0. At most 1 000.
    /// Other consumers do not get these items until the consumer is closed, even if no caller takes them. Such an item
    /// counts for [`max_deliveries`](Self::max_deliveries) only if the session ends before it is returned.
    pub fn prefetch(mut self, items: usize) -> Self {
        self.options.prefetch = items;
        self
    }

    /// Sets the delay before an item is delivered again whose handler failed in [`consume`](super::Consumer::consume).
    /// Default: 100 ms, doubling up to 30 s, without a limit. The policy gets the number of earlier deliveries,
    /// including those to other consumers. If the policy gives up at that number, the item becomes a dead letter. A
    /// time limit of the policy has no effect, because it is not known when the item first failed.
    ///
    /// A delay of more than 30 days ends after 30 days. Its end is a time of day in the item's data, to which all
    /// consumers keep; see [items that fail](super#items-that-fail).
    #[doc(alias = "ErrorMode")]
    pub fn retry_delay(mut self, policy: RetryPolicy) -> Self {
        self.options.retry_delay = policy;
        self
    }

    /// Sets how long [`consume_until`](super::Consumer::consume_until) lets handlers finish after its shutdown.
    /// Default: 20 s, less than the 30 s that Kubernetes gives a process, so that there is time to
    /// [close](super::Consumer::close).
    #[doc(alias = "finalFlushTimeInMs")]
    pub fn grace_period(mut self, time: Duration) -> Self {
        self.options.grace = time;
        self
    }

    /// Creates the queue object. Sends no request; the first put or take does.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path;
    /// [`Error::InvalidOption`]; [`Error::Closed`] if the client has been closed.
    #[doc(alias = "buildQueue")]
    pub fn build(self) -> Result<DistributedQueue<S>, Error> {
        let name: Arc<str> = self.path.as_str().into();
        for path in [Some(&self.path), self.claims.as_ref()].into_iter().flatten() {
            self.client.open_path(path).map_err(|error| Error::client(&name, error))?;
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
        let paths = Arc::new(Paths::new(&self.path, self.claims.as_deref(), |path| core.full_path(path)));
        let below =
            |dir: &str| paths.claims.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if let Some((_, what)) = paths.own_directories().into_iter().find(|(dir, _)| below(dir)) {
            let why = format!("claims_path: the queue keeps {what} there; claims need a separate directory");
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
