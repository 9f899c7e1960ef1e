//! The options of a queue.

use std::sync::Arc;

use super::error::Error;
use super::names::Places;
use super::serializer::Serializer;
use super::{DeliveryMode, DistributedQueue, Options};
use crate::client::Client;
use crate::path;

/// What is claimed ahead by default: enough to hide a round trip, few enough not to keep items from others.
const PREFETCH: usize = 8;
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
        let options =
            Options { mode: DeliveryMode::AtLeastOnce, max_attempts: None, prefetch: PREFETCH, strict_order: false };
        DistributedQueueBuilder { client: client.clone(), path, serializer, claims: None, max_items: None, options }
    }

    /// The directory of the claims: what Curator calls the lock path. All consumers of a queue must name the same one. By
    /// default the path of the queue with `-claims` after it.
    pub fn claims_path(mut self, path: impl Into<String>) -> Self {
        self.claims = Some(path.into());
        self
    }

    /// How many items the queue may hold, for the producers of this object: a put waits for room. Each producer is sure of half
    /// of what it saw free, so several together may go over it. Not bounded by default, except that a queue that cannot be
    /// listed in one answer of the servers (52 428 items with their defaults) takes no more: [`Error::ListingLimit`]. An item that is
    /// claimed counts, and what is put [as one](super::Producer::put_many) counts once.
    pub fn max_items(mut self, items: usize) -> Self {
        self.max_items = Some(items);
        self
    }

    /// After so many failed attempts an item goes to the dead letters. By default there is no end of attempts. Not for
    /// [`DeliveryMode::AtMostOnce`], where there is one.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.options.max_attempts = Some(attempts);
        self
    }

    /// What a consumer that crashes does to the items it has. Default: [`DeliveryMode::AtLeastOnce`].
    pub fn delivery_mode(mut self, mode: DeliveryMode) -> Self {
        self.options.mode = mode;
        self
    }

    /// How many items a consumer claims beyond those that are asked for, so that the next one is at hand. Others do not get
    /// them meanwhile, and an item that goes [back](super::Delivery::nack) comes after them: with 0 it is the next. At most
    /// 1 000. Default 8.
    pub fn prefetch(mut self, items: usize) -> Self {
        self.options.prefetch = items;
        self
    }

    /// Consumers that are at work together each try the first item first, at the price of more tries in vain; by default each
    /// starts somewhere among the first. A consumer that is alone takes items in order in any case, but for those that go back
    /// while others are [claimed ahead](Self::prefetch).
    pub fn strict_order(mut self, strict: bool) -> Self {
        self.options.strict_order = strict;
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
        if self.options.max_attempts == Some(0) {
            return invalid("max_attempts of 0: nothing could be delivered; at least 1 is needed".into());
        }
        if self.options.at_most_once() && self.options.max_attempts.is_some() {
            return invalid(
                "max_attempts: at most once there is one attempt, and what fails is a dead letter at once".into(),
            );
        }
        if self.options.prefetch > MOST_PREFETCH {
            return invalid(format!("prefetch of {}; at most {MOST_PREFETCH} is allowed", self.options.prefetch));
        }
        let core = self.client.core();
        if *core.closing.borrow() {
            return Err(Error::Closed { path: name });
        }
        let places = Arc::new(Places::new(&self.path, self.claims.as_deref(), |path| core.full_path(path)));
        let below =
            |dir: &str| places.claims.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if let Some((_, what)) = places.taken().into_iter().find(|(dir, _)| below(dir)) {
            let why =
                format!("claims_path: the queue keeps {what} there; claims need a directory of their own, beside it");
            return invalid(why);
        }
        Ok(DistributedQueue {
            client: self.client,
            places,
            serializer: Arc::new(self.serializer),
            max_items: self.max_items,
            options: self.options,
        })
    }
}
