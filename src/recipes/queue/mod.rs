//! A queue into which many processes put items and from which many processes take them, compatible with Curator's
//! `DistributedQueue`, `DistributedPriorityQueue`, `DistributedDelayQueue` and `DistributedIdQueue`.
//!
//! Each item is a sequential node with the same name and data as in Curator's queues. Java services that use Curator's
//! queue on the same path put items for consumers of this library, and consume the items that its producers put.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::queue::{DistributedQueue, Utf8};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let queue = DistributedQueue::builder(&client, "/my-service/orders", Utf8)
//!     .max_deliveries(5)
//!     .build()?;
//!
//! let producer = queue.producer();
//! producer.put("one order").await?;
//!
//! let consumer = queue.consumer();
//! let delivery = consumer.take().await?;
//! println!("{}, attempt {}", delivery.item(), delivery.attempt());
//! delivery.ack().await?; // if dropped instead, the item is returned
//! # Ok(())
//! # }
//! ```
//!
//! With a handler, four items at a time:
//!
//! ```no_run
//! # use zookeeper_recipes::queue::{ClaimHandle, Consumer, Error, Utf8};
//! # async fn ship(order: String) -> Result<(), std::io::Error> { Ok(()) }
//! # async fn example(consumer: Consumer<Utf8>) -> Result<(), Error> {
//! consumer
//!     .consume(4, |order: String, _: ClaimHandle| ship(order))
//!     .await
//! # }
//! ```
//!
//! # Guarantees of a producer
//!
//! When [`put`](Producer::put) has returned, the item was put into the queue exactly once, even if answers were lost. A
//! transaction that creates items also raises a number in the producer's node, so of two copies of one transaction only
//! one succeeds. Puts keep their order, however many are in flight. The outcome of a put is unknown only if the session
//! ends, or if another client deletes or writes the producer's node; then the error reports that.
//!
//! # Guarantees of a consumer
//!
//! An item is delivered at least once. A consumer claims it with an ephemeral node, and the item stays in the queue
//! until [`ack`](Delivery::ack). A consumer that crashes or is cut off loses its claims, no later than its session.
//! Then other consumers get the items, without any further put. So an item may be delivered twice.
//! [`Delivery::is_held`] compares the clock at each call, and turns false before another consumer can have the item.
//!
//! Each claim on an item has a greater number than the one before: the data version of the item, which the claim's
//! transaction writes. Once an item has been claimed again, the ensemble refuses every ack, nack, dead letter, and
//! write with the [`fence`](Delivery::fence) of an earlier claim. It does so whatever the clocks say, and even if the
//! claim was deleted by hand. (The exception is a settlement [whose answer is lost](Delivery::ack), which may be
//! reported as done.) For other stores there is a [fencing token](Delivery::fencing_token).
//!
//! With [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard), the default, a claim is lost as soon as the connection
//! is suspended. Its node remains until the delivery is settled or dropped. Until then no other consumer gets the item,
//! and an ack that arrives in time counts.
//!
//! To deliver at most once, [`take`](Consumer::take) an item, acknowledge it, and then work on the items that
//! [`ack`](Delivery::ack) returns.
//!
//! # When things fail
//!
//! T is the session timeout that the servers granted.
//!
//! | event | what happens |
//! |---|---|
//! | connection `Suspended`: put | The put waits, and continues after the connection is back. |
//! | `Suspended`: claim, [`Standard`] | The delivery is lost. The claim's node remains until a settlement or drop. |
//! | | Until then no other consumer gets the item, and an ack still counts. |
//! | `Suspended`: claim, [`Session`] | The delivery lasts until the lease is over, never longer than T. |
//! | `Reconnected`, same session: put | The number in the producer's node shows which puts were carried out. |
//! | | The others are sent again, in order. |
//! | `Reconnected`, same session: claim | The claim's node still exists. |
//! | session `Lost`: put | Puts in flight return `OutcomeUnknown`. Later ones continue with the next session. |
//! | session `Lost`: claim | The claim is lost, and settling it returns an error. |
//! | | Others get the item when the ensemble expires the session, without any put. |
//! | claim's node deleted | `lost()` resolves, and `run()` drops its work. |
//! | | An ack and fenced writes are refused, also after the item was claimed again. |
//! | producer's node deleted | The producer creates another one. Unanswered puts return `OutcomeUnknown`. |
//! | reply lost: put | The producer's number shows the outcome. An item is never put twice. |
//! | reply lost: claim, ack, nack, dead letter | Sent again. The item's version lets only one copy succeed. |
//! | put larger than the servers read | It fails; the puts beside it do not. |
//! | claim, dead letter larger than that | The item stays in the queue, and the error is reported. |
//! | process stopped for longer than T | After it resumes, the first `is_held()` is false, and an ack is refused. |
//! | | A handler is dropped before it is polled again. |
//!
//! [`Standard`]: crate::ErrorPolicy::Standard
//! [`Session`]: crate::ErrorPolicy::Session
//!
//! # Items that fail
//!
//! After a delivery that failed ([`nack`](Delivery::nack), or an error of a handler) or was released, the item is at
//! its old place, under its name. The item becomes a [dead letter](DistributedQueue::dead_letters), with the reason,
//! after [`max_deliveries`](DistributedQueueBuilder::max_deliveries) that failed, or if it cannot be decoded. A dead
//! letter can be [retried](DistributedQueue::retry). A claim that ended with its session counts as a failed delivery,
//! so an item that crashes its consumers becomes a dead letter in the end. Items that are returned unhandled do not
//! count. [`Consumer::events`] reports what no call returns, such as a dead letter that [`consume`](Consumer::consume)
//! made.
//!
//! The item's node keeps the count. The transaction that returns an item writes a record behind the end mark of its
//! data, where Curator does not read: the number of failed deliveries as of the data version that this write makes, the
//! last error, and the end of the delay. Each claim raises the version and leaves the record as it is. So each version
//! above the record's is a claim that ended without a record, with its session. It counts as failed, as does a write by
//! hand. A dead letter has the data without the record. If the item is larger than a producer of this library would
//! put, no record is written, and each claim counts.
//!
//! No consumer claims an item before its [delay](Delivery::nack_after) is over. Each consumer that wants items reads
//! the record once, and then waits with a timer. It waits no longer than the delay from then on, even if the record was
//! written by a clock that is fast; see [times](self#times). A delay of more than 30 days in a record is ignored, and
//! logged (`event="retry_ignored"`). A record that is edited by hand applies at once, except to a consumer that is not
//! connected at that time. The delay is kept only by the consumer that returned the item if there is no room for the
//! record, and not at all by consumers of Curator and of earlier versions of this library.
//!
//! # Order
//!
//! The order is by [priority](Producer::priority), the lower number first. An item without one has the priority 0.
//! Among items of the same priority, those with a [time](Producer::after) that has come are first, by their times, and
//! the others follow in the order of their puts. Items with the same time are in the order of their puts as well. An
//! item with a time that has not come is not available, and neither is one that was returned with a delay. In a queue
//! that has only items of one of these kinds, that is the order of Curator's consumers.
//!
//! A consumer takes the first available item that has no claim. An item that it returns without a delay is its next
//! one; an item that was returned with a delay is skipped until the delay is over, and then is at its old place.
//! Consumers that claim at the same moment take turns, so that they do not all try for the same item. Each reserves as
//! many of the oldest items for the others as they usually claim meanwhile, and claims these items itself if the others
//! do not. So with n busy consumers a few times n other items may overtake an item. An item that is put before others
//! by its priority is taken next, even if a consumer has read the data of another one already, but not before those
//! that a consumer has claimed [in advance](DistributedQueueBuilder::prefetch). It may be reserved for other consumers
//! as any item: then it waits for one of them, for a second at most.
//!
//! Items are claimed in order, but not processed in order: two consumers work on two items at once. To process one item
//! at a time in order, let a single consumer [`take`](Consumer::take) and ack in turn, for example in the leader of a
//! [`LeaderLatch`](crate::leader_latch). Let it answer a failure with [`nack`](Delivery::nack), after which it gets the
//! same item next.
//!
//! Turns divide a backlog evenly. While items come more slowly than they are handled, one consumer claims almost all of
//! them as long as it has free slots, because the others reserve them for it. That costs the fewest requests, but the
//! work is not divided evenly among the processes. To divide it, give each [`consume`](Consumer::consume) a single
//! slot: a consumer that is busy claims nothing, and the next item goes to another one.
//!
//! # Times
//!
//! The time of an item, and the end of a delay after a failure, are times of day, in whole milliseconds. The producer,
//! or the consumer that returned the item, computes it by the clock of its machine. Each consumer compares it with the
//! clock of its own machine. So an item is delivered too early or too late by as much as two clocks differ: keep them
//! synchronized, and do not rely on times where an early delivery does harm. A clock that is set back or forward is
//! noticed with the next event or timer, after ten minutes at most; then items that became available too early wait
//! again, unless they have been claimed.
//!
//! An item that waits for its time holds up no other, and costs no request. It is in the memory of the servers, and
//! counts for [`max_items`](DistributedQueueBuilder::max_items). A consumer has one timer, for the earliest time.
//!
//! # Costs
//!
//! A put is one request; up to 64 puts that wait at the same time share one. Taking an item is two requests (a read and
//! the claim), acknowledging it is one. While an item is handled, the consumer reads the next one, and it sends the ack
//! of one item together with the claim of the next. Among four consumers that only take and ack, an item costs half a
//! request more, for reads and claims where another consumer was faster. Consumers do not poll. Two watches of
//! ZooKeeper 3.6 (persistent and recursive, on items and claims) report every put, claim and settlement to each of
//! them, in about ten small messages for each item. They list once for each connection, and again after ten minutes
//! while they want items. An item that was returned with a delay costs each consumer that wants items one read, and
//! another one when the delay is over; while what is read turns out to be delayed, up to 64 reads are sent at once.
//! [`remove`](DistributedQueue::remove) makes and deletes a claim for a moment, which consumers count as a claim of a
//! rival: while many items are removed, they wait longer for their turns. Consumers need the permission to read all
//! items and claims, because servers report nothing about others. A producer that waits for room
//! ([`max_items`](DistributedQueueBuilder::max_items)) watches the items, and requests nothing while none leaves the
//! queue.
//!
//! # Nodes
//!
//! ```text
//! <path>             the items, as Curator names them: queue-0000000000, ...
//!                    each with a record of its failed deliveries, if any;
//!                    with a priority  queue-1000000050000000000
//!                    with a time      queue-|19F9A4A7A00|0000000000
//!                    with an id       queue-|order-7|0000000000
//! <path>-claims      an ephemeral node for each claimed item (Curator: lock path)
//! <path>-producers   an ephemeral node for each producer, with the number and
//!                    id of its last transaction
//! <path>-dead        the dead letters
//! ```
//!
//! If the queue's own node is deleted and created again (by hand, or by the servers if Curator created it as a
//! container and it was empty), the servers assign the same names again. Consumers notice that. Before they repeat a
//! request after a lost connection, they check that it still refers to the same item. A request that is sent for the
//! first time can reach another item of the same name, so delete the node only while no consumer is running.
//!
//! An item that is deleted by hand has left the queue. Its holder learns of it at the settlement ([`Error::Lost`]),
//! unless the answer to that was lost; then the item counts as settled. A claim that is deleted by hand frees its item
//! at once, although its holder may still be working on it.
//!
//! # Together with Curator
//!
//! Producers of both may be mixed. Consumers may be mixed if all of them use the same lock path
//! ([`claims_path`](DistributedQueueBuilder::claims_path)); Curator's consumers then deliver at least once as well.
//! Curator's consumers watch the items, not the locks. So an item that was locked when they looked waits for the next
//! change of the queue. If the lock path was set, returning an item is such a change; the crash of a consumer is not.
//! Curator's consumers do not count deliveries and do not make dead letters. Without a lock path they take items at
//! most once and ignore claims: do not mix such consumers with others.
//!
//! Items with a priority, a time or an id have the names of Curator's `DistributedPriorityQueue`,
//! `DistributedDelayQueue` and `DistributedIdQueue`. A consumer of this library takes all of them, and plain items. Of
//! Curator's classes use the one for the items of the queue, because the others read the names differently:
//!
//! | Curator's class | items of the other kinds |
//! |---|---|
//! | `DistributedQueue` | It takes all in the order of their text, and delayed items before their time. |
//! | `DistributedPriorityQueue` | Likewise; plain items come before those with priorities. |
//! | `DistributedDelayQueue` | All are due at once, before those with times. |
//! | `DistributedIdQueue` | It takes all, and delayed items before their time. |
//!
//! Curator writes times and ids in the same way. A consumer of this library takes 11 digits and capitals up to F,
//! without a 0 in front, for a time (from 2004 to 2527). If that is more than ten years away, the item waits and is
//! reported as [`Event::FarAhead`]: it may be an id such as `79991234567`, which [`Producer::id`] refuses and Curator
//! does not. 13 to 16 digits with a capital are a time that never comes, such as Java's `Long.MAX_VALUE`: the item is
//! ignored, and reported as [`Event::Skipped`]. Everything else is an id, which makes no difference to the delivery. So
//! a time of Curator's from 2527 to 10889 is taken for an id, and its item is delivered at once.
//! [`remove`](DistributedQueue::remove) finds all of them by the text between the lines. When Curator returns an item
//! that has failed, the copy has lost its priority or time.
//!
//! A node whose name begins with `queue-` and that none of these classes has put is ignored, and reported as
//! [`Event::Skipped`].
//!
//! # Limits
//!
//! ZooKeeper keeps all data in memory. With the servers' defaults a node holds slightly less than a megabyte
//! ([`Error::TooLarge`]). The queue is made for coordinating work, not for streams of data.
//!
//! Java clients, and so Curator's consumers, do not read an answer of more than a megabyte (their `jute.maxbuffer`). So
//! they cannot list a queue of more than 52 428 items. When a producer sees that the queue has become longer, it logs a
//! warning (`event="too_long_for_java"`) and continues. Items with longer names fill a listing earlier. Where Java
//! clients consume, choose a lower [`max_items`](DistributedQueueBuilder::max_items).

mod builder;
mod consumer;
mod dead_letter;
mod envelope;
mod error;
mod events;
mod history;
mod producer;
mod remove;
mod sizes;
mod time;
mod transaction;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::builder::DistributedQueueBuilder;
pub use self::consumer::{ClaimHandle, ClaimLost, Consumer, Deliveries, Delivery, Failure, QueueHandler, Spawned};
pub use self::dead_letter::DeadLetter;
pub use self::error::Error;
pub use self::events::{Event, Events};
use self::history::History;
pub use self::producer::{Enqueued, Producer};
pub use self::time::is_due;
use crate::client::session::Session;
use crate::client::{Client, ErrorKind, RetryPolicy};
use crate::layout::queue::{self, Paths};
use crate::util::path::join;
#[cfg(feature = "json")]
pub use crate::util::serializer::Json;
pub use crate::util::serializer::{BoxError, RawBytes, Serializer, Utf8};

/// The options of a consumer.
#[derive(Debug, Clone)]
struct Options {
    max_deliveries: Option<u32>,
    prefetch: usize,
    retry_delay: RetryPolicy,
    grace: Duration,
}

/// The first and the longest delay before the consumer claims a failed item again.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
const GRACE: Duration = Duration::from_secs(20);

impl Default for Options {
    fn default() -> Self {
        let (first, most) = RETRY_DELAY;
        Options {
            max_deliveries: None,
            prefetch: 0,
            // The bounds are valid, so there is no error.
            retry_delay: RetryPolicy::exponential(first, most).unwrap_or_default(),
            grace: GRACE,
        }
    }
}

/// A queue that processes share. Cheap to clone; it holds only its options until a producer or a consumer is created.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::queue::{DistributedQueue, Error, Utf8};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let queue = DistributedQueue::builder(&client, "/my-service/orders", Utf8)
///     .max_items(10_000)
///     .max_deliveries(5)
///     .build()?;
/// println!("{} items", queue.len().await?);
/// for letter in queue.dead_letters().await? {
///     println!("{}: {}", letter.item, letter.reason);
///     queue.retry(&letter).await?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct DistributedQueue<S: Serializer> {
    client: Client,
    paths: Arc<Paths>,
    serializer: Arc<S>,
    max_items: Option<usize>,
    options: Options,
}

impl<S: Serializer> DistributedQueue<S> {
    /// Returns a builder for a queue at `path`, whose items `serializer` converts to bytes and back.
    #[doc(alias = "QueueBuilder")]
    pub fn builder(client: &Client, path: impl Into<String>, serializer: S) -> DistributedQueueBuilder<S> {
        DistributedQueueBuilder::new(client, path.into(), serializer)
    }

    /// Creates a new producer. The puts of one producer keep their order among themselves.
    pub fn producer(&self) -> Producer<S> {
        Producer::new(&self.client, &self.paths, &self.serializer, self.max_items)
    }

    /// Creates a new consumer.
    pub fn consumer(&self) -> Consumer<S> {
        Consumer::new(&self.client, &self.paths, &self.serializer, self.options.clone())
    }

    /// Returns the number of the queue's child nodes, including claimed items and nodes that are not items. Costs one
    /// small request.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    #[doc(alias = "getLastMessageCount")]
    #[expect(clippy::len_without_is_empty, reason = "the number is outdated when it is returned")]
    pub async fn len(&self) -> Result<usize, Error> {
        let stat = self.client.exists(&self.paths.path).await.map_err(|error| self.error(error))?;
        let Some(stat) = stat else {
            self.client.core().check_root().await.map_err(|error| self.error(error))?;
            return Ok(0);
        };
        Ok(usize::try_from(stat.num_children).unwrap_or(0))
    }

    /// Removes all items with this [id](Producer::id) that are in the queue and that no consumer has claimed, and
    /// returns how many: an item may be claimed by the time of the call, and several may have the same id. Items put as
    /// one node count as one. The id is changed as by the put.
    ///
    /// Each item is removed in a transaction that fails if the item has a claim. So an item that was removed is not
    /// delivered, and one that was not removed is. It costs a listing of the queue, and one request for each item.
    ///
    /// # Errors
    /// [`Error::Client`]; items that were removed before the error stay so. With [`ErrorKind::OutcomeUnknown`] an
    /// answer was lost, and it is not known whether an item was removed, or delivered, or is still in the queue.
    ///
    /// # Cancel safety
    /// Once polled, items may be removed even if the future is dropped.
    pub async fn remove(&self, id: &str) -> Result<usize, Error> {
        remove::remove(self.client.core(), &self.paths, id).await
    }

    /// Returns the items of the first node without taking them; `None` if there is none. They may be claimed already.
    /// Items that were put with a time that has not come yet are left out, and so are those that were returned with a
    /// delay that is not over. It costs a listing, and one read for each of the latter that would come first.
    ///
    /// # Errors
    /// [`Error::Client`]; [`Error::Undecodable`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn peek(&self) -> Result<Option<Vec<S::Item>>, Error> {
        let core = self.client.core();
        let names = dead_letter::children(core, &self.paths.path).await.map_err(|error| self.error(error))?;
        let now = time::millis_at(core.clock.time_of_day());
        for name in queue::in_order(names).into_iter().filter(|name| queue::is_due(name, now)) {
            let (data, stat) =
                match core.read("read", &join(&self.paths.path, &name), |session, path| session.get_data(path)).await {
                    Ok(read) => read,
                    // It has been taken meanwhile, so the next item is the first.
                    Err(error) if error.kind() == ErrorKind::NoNode => continue,
                    Err(error) => return Err(self.error(error)),
                };
            let retry = History::read(&data, stat.czxid, stat.version).retry;
            if retry.and_then(|retry| retry.left(now)).is_some_and(|left| left > Duration::ZERO) {
                continue;
            }
            let path = Arc::clone(&self.paths.path);
            let items = dead_letter::items(&*self.serializer, &data);
            return items.map(Some).map_err(|why| Error::Undecodable { path, name, why });
        }
        Ok(None)
    }

    /// Returns the dead letters, the oldest first.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, Error> {
        dead_letter::list(self.client.core(), &self.paths).await
    }

    /// Retries the item of a dead letter: puts it into the queue again, as a new item without any attempts, and with
    /// its priority or id if it had one. It is moved only once, even if an answer is lost. If another client drops the
    /// letter at that moment, it is taken for moved.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::NoNode`] if the letter does not exist any more; with
    /// [`ErrorKind::OutcomeUnknown`] if no answer came in time.
    ///
    /// # Cancel safety
    /// Once polled, the item may be moved even if the future is dropped.
    pub async fn retry(&self, letter: &DeadLetter) -> Result<(), Error> {
        dead_letter::retry(self.client.core(), &self.paths, letter).await
    }

    /// Drops a dead letter: deletes it together with its item. Succeeds if the letter does not exist any more.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Once polled, the letter may be deleted even if the future is dropped.
    pub async fn drop(&self, letter: &DeadLetter) -> Result<(), Error> {
        // No other letter ever has its name, so a delete that may have been carried out is repeated.
        let delete = |session: &Arc<Session>, full: &str| session.delete(full, None);
        match self.client.core().read("delete", &self.paths.dead_letter(&letter.name), delete).await {
            Err(error) if error.kind() != ErrorKind::NoNode => Err(self.error(error)),
            _ => Ok(()),
        }
    }

    /// Returns the path of the queue.
    pub fn path(&self) -> &str {
        &self.paths.path
    }

    fn error(&self, error: crate::client::Error) -> Error {
        Error::client(&self.paths.path, error)
    }
}

impl<S: Serializer> Clone for DistributedQueue<S> {
    fn clone(&self) -> Self {
        DistributedQueue {
            client: self.client.clone(),
            paths: Arc::clone(&self.paths),
            serializer: Arc::clone(&self.serializer),
            max_items: self.max_items,
            options: self.options.clone(),
        }
    }
}

impl<S: Serializer> fmt::Debug for DistributedQueue<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributedQueue")
            .field("path", &self.paths.path)
            .field("serializer", &self.serializer)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
