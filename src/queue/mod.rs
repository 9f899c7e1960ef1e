//! A queue that many processes put into and many take from: Curator's `DistributedQueue`.
//!
//! Each item is a node, in the order of its number, and holds what Curator's would: Java services that use Curator's
//! queue on the same path put for our consumers, and consume what we put.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::queue::{DistributedQueue, Utf8};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let queue = DistributedQueue::builder(&client, "/my-service/orders", Utf8).max_deliveries(5).start()?;
//!
//! let producer = queue.producer();
//! producer.put("one order").await?;
//!
//! let consumer = queue.consumer();
//! let delivery = consumer.take().await?;
//! println!("{}, attempt {}", delivery.item(), delivery.attempt());
//! delivery.ack().await?; // or drop it: it goes back into the queue
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
//! consumer.consume(4, |order: String, _claim: ClaimHandle| async move { ship(order).await }).await
//! # }
//! ```
//!
//! # What a producer may believe
//!
//! When [`put`](Producer::put) has returned, the item is in the queue, once, also if answers were lost on the way: a
//! transaction that creates items raises a number of the producer's too, and of two copies of it only one can do so.
//! Puts keep their order, however many are under way. Only the end of a session leaves a doubt, or another client that
//! deletes or writes the producer's node, and then the error says so.
//!
//! # What a consumer may believe
//!
//! At least once: an item is claimed by a node that goes with the session, and stays in the queue until
//! [`ack`](Delivery::ack). A consumer that crashes or is cut off loses its claims, no later than its session; then
//! others get the items, without any put. So an item may come twice. A [`Delivery`] compares the clock whenever it is
//! [asked](Delivery::is_held): it says no before another consumer can have the item.
//!
//! Each claim on an item has a number, which grows: the data version of the item, which is written with each claim in
//! the same transaction. [`attempt`](Delivery::attempt) tells it. An ack, a nack, a dead letter and every write with
//! the [`fence`](Delivery::fence) of a claim are refused by the ensemble once there was a later claim, whatever the
//! clocks say, and also after the claim was deleted by hand ([but for one whose answer is lost](Delivery::ack), which
//! may be told as done). For other stores there is a [fencing
//! token](Delivery::fencing_token).
//!
//! With [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) a claim is lost as soon as the connection is in doubt;
//! its node stays until the delivery is settled or dropped, so no other consumer has the item before, and an ack that
//! comes in time counts.
//!
//! At most once: acknowledge first, then work on what [`ack`](Delivery::ack) returns, or let
//! [`consume`](Consumer::consume) do so with [`AckMode::BeforeHandling`].
//!
//! # What cannot be handled
//!
//! A delivery that failed ([`nack`](Delivery::nack), an error of a handler) or was released leaves the item where it
//! was, under its name. After [`max_deliveries`](DistributedQueueBuilder::max_deliveries), and if it cannot be decoded,
//! it goes to the [dead letters](DistributedQueue::dead_letters), with the reason, from where it can be [put
//! back](DistributedQueue::put_back). Deliveries that ended in a crash count too: an item that kills its consumers is a
//! dead letter in the end. An item is counted by its data version: one that was written by hand counts one delivery
//! more for each write. What no call returns, such as a dead letter that was made inside
//! [`consume`](Consumer::consume), is told by [`Consumer::events`].
//!
//! # Order
//!
//! A consumer takes the oldest item that has no claim, and an item that it returns without a delay is its next one; one
//! with a delay is passed over meanwhile. Consumers that claim at the same moment take turns, so that they do not all
//! try for the same item: each leaves as many to the others as they usually claim meanwhile, and takes them itself if
//! they do not. So with n busy consumers an item is overtaken by a few times n others.
//! [`strict_order`](DistributedQueueBuilder::strict_order) waits instead.
//!
//! # Costs
//!
//! A put is one request; puts that wait at the same time share one, up to 64. To take an item is two (a read and the
//! claim), to ack it is one. While an item is handled the next one is read, and the ack of one leaves together with the
//! claim of the next. Among four consumers that do nothing but take and ack, an item costs half a request more, for
//! reads and claims that others were faster at. Consumers do not poll: two watches of ZooKeeper 3.6 (persistent and
//! recursive, on items and claims) tell each of them of every put, claim and end, in about ten small messages an item.
//! They list once a connection, and again after ten minutes while they want items. Consumers need the permission to
//! read all items and claims: servers tell nothing of others. A producer that waits for room
//! ([`max_items`](DistributedQueueBuilder::max_items)) asks for the number of items, in about 120 bytes, every 1 to 100
//! ms.
//!
//! # Nodes
//!
//! ```text
//! <path>                  the items, as Curator names them: queue-0000000000, ...
//! <path>-claims           a node for each item that is claimed, ephemeral: what Curator calls the lock path
//! <path>-producers        a node for each producer, ephemeral: number and id of its last transaction
//! <path>-dead             the dead letters
//! ```
//!
//! When the queue's own node is deleted and made again (by hand, or by the servers if Curator made it as a container
//! and it was empty), the servers give the same names again. Consumers notice that, and what they send again after a
//! lost connection they compare with the item that was meant. What is sent for the first time can meet another item of
//! the same name: delete the node while no consumer is at work.
//!
//! An item that is deleted by hand is out of the queue: its holder learns it at the settlement ([`Error::Lost`]),
//! unless the answer to that was lost; then the item counts as settled. A claim that is deleted by hand frees its item
//! at once, though its holder may still be at work.
//!
//! # Together with Curator
//!
//! Producers of both may be mixed. Consumers may be, if all name the same lock path
//! ([`claims_path`](DistributedQueueBuilder::claims_path)); Curator's then delivers at least once as well. What
//! Curator's consumers do not notice by themselves: they watch the items, not the locks, so an item that was locked
//! when they looked waits for the next change of the queue. What our consumers return changes it, if the lock path was
//! named; what a crashed consumer had does not. Curator's consumers count no deliveries and make no dead letters.
//! Without a lock path they take items at most once, and respect no claims: do not mix those with others.
//!
//! Items of Curator's other queues (by priority, with a delay, with ids) have more in their names. They are left alone,
//! and told of by [`Event::Skipped`].
//!
//! # Limits
//!
//! ZooKeeper keeps everything in memory: with the servers' defaults a node holds a megabyte less a little
//! ([`Error::TooLarge`]). It is a queue for work to be coordinated, not for a stream of data.
//!
//! Java clients, and so Curator's consumers, read no answer of more than a megabyte (their `jute.maxbuffer`): they
//! cannot list a queue of more than 52 428 items. When a producer sees that the queue has become longer it logs a
//! warning (`event="too_long_for_java"`), and puts on. Where Java clients consume, choose a lower
//! [`max_items`](DistributedQueueBuilder::max_items).

mod builder;
mod consumer;
mod dead_letter;
mod envelope;
mod error;
mod events;
mod producer;
mod serializer;
mod sizes;
mod znodes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use self::builder::DistributedQueueBuilder;
pub use self::consumer::{AckMode, ClaimHandle, ClaimLost, Consumer, Deliveries, Delivery, Failure, QueueHandler};
pub use self::dead_letter::DeadLetter;
pub use self::error::Error;
pub use self::events::{Event, Events};
pub use self::producer::{Enqueued, Producer};
#[cfg(feature = "json")]
pub use self::serializer::Json;
pub use self::serializer::{BoxError, RawBytes, Serializer, Utf8};
use self::znodes::Paths;
use crate::client::{Client, ErrorKind, RetryPolicy};
use crate::path::join;

/// What a consumer goes by.
#[derive(Debug, Clone)]
struct Options {
    max_deliveries: Option<u32>,
    prefetch: usize,
    strict_order: bool,
    ack_mode: AckMode,
    retry_delay: RetryPolicy,
    grace: Duration,
}

/// Delays before an item that failed is claimed again by the same consumer.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
const GRACE: Duration = Duration::from_secs(20);

impl Default for Options {
    fn default() -> Self {
        let (first, most) = RETRY_DELAY;
        Options {
            max_deliveries: None,
            prefetch: 0,
            strict_order: false,
            ack_mode: AckMode::default(),
            // The bounds are in order.
            retry_delay: RetryPolicy::exponential(first, most).unwrap_or_default(),
            grace: GRACE,
        }
    }
}

/// A queue across processes. Cheap to clone; it holds nothing but its options until there is a producer or a consumer.
pub struct DistributedQueue<S: Serializer> {
    client: Client,
    paths: Arc<Paths>,
    serializer: Arc<S>,
    max_items: Option<usize>,
    options: Options,
}

impl<S: Serializer> DistributedQueue<S> {
    /// The options of a queue at `path`, whose items `serializer` turns into bytes and back.
    pub fn builder(client: &Client, path: impl Into<String>, serializer: S) -> DistributedQueueBuilder<S> {
        DistributedQueueBuilder::new(client, path.into(), serializer)
    }

    /// A producer of its own: its puts are in order among themselves.
    pub fn producer(&self) -> Producer<S> {
        Producer::new(&self.client, &self.paths, &self.serializer, self.max_items)
    }

    /// A consumer of its own.
    pub fn consumer(&self) -> Consumer<S> {
        Consumer::new(&self.client, &self.paths, &self.serializer, self.options.clone())
    }

    /// How many nodes the queue has, with those that are claimed, and with nodes that are no items. Costs one small
    /// request.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    #[expect(clippy::len_without_is_empty, reason = "by the time the answer is there it is no property of the queue")]
    pub async fn len(&self) -> Result<usize, Error> {
        let stat = self.client.exists(&self.paths.path).await.map_err(|error| self.error(error))?;
        Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
    }

    /// The items of the first node, which stays where it is; `None` if the queue is empty. They may be claimed already.
    ///
    /// # Errors
    /// [`Error::Client`]; [`Error::Undecodable`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn peek(&self) -> Result<Option<Vec<S::Item>>, Error> {
        let core = self.client.core();
        let names = match core.read("list", &self.paths.path, |session, path| session.list_children(path)).await {
            Ok((names, _)) => names,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(None),
            Err(error) => return Err(self.error(error)),
        };
        for name in znodes::in_order(names) {
            let data =
                match core.read("read", &join(&self.paths.path, &name), |session, path| session.get_data(path)).await {
                    Ok((data, _)) => data,
                    // It was taken since; the next one is the first.
                    Err(error) if error.kind() == ErrorKind::NoNode => continue,
                    Err(error) => return Err(self.error(error)),
                };
            let path = Arc::clone(&self.paths.path);
            let items = dead_letter::items(&*self.serializer, &data);
            return items.map(Some).map_err(|why| Error::Undecodable { path, name, why });
        }
        Ok(None)
    }

    /// The items that were given up, the oldest first.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn dead_letters(&self) -> Result<Vec<DeadLetter>, Error> {
        dead_letter::list(self.client.core(), &self.paths).await
    }

    /// Moves the item of a dead letter to the end of the queue, as a new item without any attempts, once: also if an
    /// answer is lost.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::NoNode`] if the letter is not there any more; with
    /// [`ErrorKind::OutcomeUnknown`] if no answer came in time.
    ///
    /// # Cancel safety
    /// Once polled it may happen all the same.
    pub async fn put_back(&self, letter: &DeadLetter) -> Result<(), Error> {
        dead_letter::put_back(self.client.core(), &self.paths, letter).await
    }

    /// Deletes a dead letter, and its item with it. One that is gone already is fine.
    ///
    /// # Errors
    /// [`Error::Client`].
    ///
    /// # Cancel safety
    /// Once polled it may happen all the same.
    pub async fn discard(&self, letter: &DeadLetter) -> Result<(), Error> {
        match self.client.delete(&self.paths.dead_letter(&letter.name), None).await {
            Err(error) if error.kind() != ErrorKind::NoNode => Err(self.error(error)),
            _ => Ok(()),
        }
    }

    /// The path of the queue.
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
