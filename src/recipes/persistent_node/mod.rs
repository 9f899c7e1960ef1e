//! A node that is kept in existence: Curator's `PersistentNode`.
//!
//! The usual use is a registration: a process keeps an ephemeral node with its address as long as it runs. The node is
//! created again after a lost session and after a deletion by hand, with its parents if they are missing. The other
//! kinds are the *lasting* ones, which belong to no session: persistent, container, and with a time to live.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::persistent_node::PersistentNode;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let node = PersistentNode::builder(&client, "/services/api/a")
//!     .data("10.0.0.1:80")
//!     .start()?;
//! println!("registered as {}", node.created().await?);
//! node.set_data("10.0.0.1:81").await?;
//! // ...
//! node.close().await?; // the node is gone
//! # Ok(())
//! # }
//! ```
//!
//! # What it does not promise
//!
//! A state of [`Present`](NodeState::Present) is as of the last answer or event. This is not a lock: the node's
//! existence proves nothing. Use a [lock](crate::mutex) or a [leadership](crate::leader_latch) for mutual exclusion. So
//! the recipe sends no heartbeats; the client's pings keep the session.
//!
//! Data that another client writes into the node is not repaired, as in Curator. The next
//! [`set_data`](PersistentNode::set_data), and the next creation, write this process's data.
//!
//! A server compares the version of a node, but not which node it is. So if an operator deletes the node by hand while
//! a write or a delete is under way, that request can hit a node that another process creates at the path at that
//! moment. So can a write that was not answered before its session was given up, if the object is closed, or its
//! process ends, before the servers have ended that session. A [protected](PersistentNodeBuilder::protected) name
//! belongs to one process alone.
//!
//! # One object for each path and client
//!
//! A node belongs to a session, not to the object that keeps it. So two objects of one client at the same path share
//! one node: each adopts it and writes its own data, and the latest write stays. When one of them closes, it deletes
//! the node. The other one logs `node_deleted` and creates the node again, with its own data. A lasting node belongs to
//! no session, and is shared in the same way by objects of several clients.
//!
//! Use one object for each path and client. If you need several, make them
//! [protected](PersistentNodeBuilder::protected) or [sequential](NodeMode::EphemeralSequential): then each has its own
//! name and node, like each waiter for a [lock](crate::mutex).
//!
//! # If a node exists already
//!
//! | at the path is | what happens |
//! |---|---|
//! | an ephemeral node of this client's session | It is adopted, and gets our data if it has other data. |
//! | the same, and a lasting one is wanted | Likewise; state [`OtherKind`](NodeState::OtherKind). |
//! | an ephemeral node of another session | It is left alone. State [`Waiting`](NodeState::Waiting) until it is gone. |
//! | a persistent node, and a lasting one is wanted | It is adopted, and gets our data if it has other data. |
//! | a persistent node, and an ephemeral one is wanted | Likewise; state [`OtherKind`](NodeState::OtherKind). |
//!
//! If several processes keep an ephemeral node at the same path, one has it and the others wait. (Curator's instances
//! overwrite each other's data.) A persistent node that was adopted in place of an ephemeral one does not end with the
//! session; `close` deletes it. A stat does not show whether a node is a container, or has a time to live.
//!
//! # When things fail
//!
//! T is the session timeout that the servers granted.
//!
//! | event | what happens |
//! |---|---|
//! | connection suspended | State `Suspended`. The servers keep an ephemeral node for T. |
//! | reconnected in the same session | The node is looked at with a watch, and created again if it is missing. |
//! | session lost | An ephemeral node is created again in the next session, at the same path, numbers included. |
//! | session lost, and its node is still there | State `Waiting` until it is gone. A protected one is deleted. |
//! | node deleted by another client | It is created again at once; after repeated deletions, after up to 5 s. |
//! | parents deleted | They are created again, as containers. |
//! | data written by another client | Not repaired, except by the write after a lost one, see below. |
//! | reply to a create lost | The create is repeated and finds its node. In one session there are never two. |
//! | reply to a write lost | The node is looked at, and written again if it does not have the data. |
//! | the same, and the client gave up the session | The node is written once more if the lost write could replace it. |
//! | reply to a delete lost | `close` repeats the delete until the node is gone. |
//! | data larger than the servers read | State `Failed`. The next `set_data` is tried at once. |
//! | process stopped for longer than T | The node is gone meanwhile, and created again afterwards. |
//! | no permission to create, read or write | `created` and `set_data` fail. Retried with growing delays. |
//! | client closed | State `Closed`. A node that does not belong to the session stays. |
//!
//! A client gives up a session if it had no contact for T: the servers may still have the session, and may carry out a
//! write that was held up on its way. A write names the version that it replaces, so the servers refuse it once the
//! node is past that version, even if only the same data was written again.
//!
//! # What it costs
//!
//! Creating the node takes two requests in one round trip; writing it takes one, or two if it is lasting. A close takes
//! three, or one if the node is protected. A reconnect costs one, a new session two; a node that existed already, one
//! more. Missing parents are created one by one. An unchanged node, and one that waits for another session, cost
//! nothing; one with a time to live is renewed twice in that time. A write that was not answered before its session was
//! given up costs another one in the next session, and one read after it can no longer arrive.
//!
//! # The znodes
//!
//! | znode | kind | data |
//! |---|---|---|
//! | the path | as [`NodeMode`] says | as set |
//! | [protected](PersistentNodeBuilder::protected): `_c_<uuid>-<last element>` | the same | the same |
//! | [sequential](NodeMode::EphemeralSequential): that and ten digits | ephemeral | the same |
//! | with [`Ttl`](NodeMode::Ttl): `touch` below the node | with the same time to live | empty |
//! | the directories above | container, if they were missing | empty |
//!
//! These are Curator's names. Unlike Curator, data that was not set is empty, not the address of the host.

mod builder;
mod deletions;
mod error;
mod keeper;
mod late;
mod late_writes;
mod look;
mod pending_deletes;
mod spec;
mod state;
mod task;
mod touch;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use self::builder::PersistentNodeBuilder;
pub use self::error::Error;
pub(crate) use self::state::Foreign;
pub use self::state::NodeState;
use self::state::{Progress, Shared};
use crate::client::Client;
use crate::client::task::Task;
use crate::util::state_receiver::StateReceiver;
use crate::util::znode::CreateMode;

/// The kind of a [`PersistentNode`]. [`Ephemeral`](Self::Ephemeral) is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum NodeMode {
    /// Ends with the session, and is created again in the next one. This is the default.
    #[default]
    Ephemeral,
    /// As `Ephemeral`; the server appends a ten-digit number to the name when it is created first. Later creations use
    /// the same name.
    EphemeralSequential,
    /// Exists until it is deleted, even after the end of this process.
    Persistent,
    /// As `Persistent`; the server deletes it when its last child is deleted, and it is created again then (ZooKeeper
    /// 3.5 and later).
    Container,
    /// Exists as long as this process renews it, and for about this time afterwards: unlike an ephemeral node, even if
    /// the session is lost. A child named `touch` is written twice in that time, as by Curator's `PersistentTtlNode`.
    /// In whole milliseconds, from 1 to [`CreateMode::MAX_TTL`]. Servers look for expired nodes once a minute by
    /// default.
    ///
    /// The servers (ZooKeeper 3.6 and later) need the option `zookeeper.extendedTypesEnabled=true`; otherwise
    /// [`created`](PersistentNode::created) fails with [`ErrorKind::Unimplemented`](crate::ErrorKind::Unimplemented).
    #[doc(alias = "PersistentTtlNode")]
    Ttl(Duration),
}

impl NodeMode {
    /// Returns whether the node outlasts the session.
    fn is_lasting(self) -> bool {
        !matches!(self, NodeMode::Ephemeral | NodeMode::EphemeralSequential)
    }

    /// Returns the mode to create the node with at a known path.
    fn create_mode(self) -> CreateMode {
        match self {
            NodeMode::Ephemeral | NodeMode::EphemeralSequential => CreateMode::Ephemeral,
            NodeMode::Persistent => CreateMode::Persistent,
            NodeMode::Container => CreateMode::Container,
            NodeMode::Ttl(ttl) => CreateMode::PersistentTtl(ttl),
        }
    }
}

/// A node that is kept in existence as long as this value lives; see the [module](self).
///
/// Dropping it deletes the node in the background. [`close`](Self::close) waits until that is done. If the runtime that
/// keeps the session has ended before, an ephemeral node stays until the session ends, and any other stays permanently.
/// The same applies if the last handle of the client is dropped at that time, which ends the session: close a lasting
/// node.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::persistent_node::{Error, NodeState, PersistentNode};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let node = PersistentNode::builder(&client, "/services/api/a")
///     .data("10.0.0.1:80")
///     .start()?;
/// let mut state = node.state();
/// // The present state first: `changed` waits for the next one.
/// let mut latest = Ok(state.get());
/// while let Ok(now) = latest {
///     match now {
///         NodeState::Failed(error) => println!("not registered: {error}"),
///         now => println!("{now}"),
///     }
///     latest = state.changed().await;
/// }
/// # Ok(())
/// # }
/// ```
#[doc(alias = "PersistentEphemeralNode")]
#[must_use = "dropped, the node is deleted"]
pub struct PersistentNode {
    client: Client,
    shared: Arc<Shared>,
    /// The number of the last failure that a call of `created` returned.
    reported_failures: AtomicU64,
    task: Task<Result<(), Error>>,
}

impl PersistentNode {
    /// Returns a builder for a node at `path`.
    pub fn builder(client: &Client, path: impl Into<String>) -> PersistentNodeBuilder {
        PersistentNodeBuilder::new(client, path.into())
    }

    /// Waits until the node was created, or adopted, for the first time. Returns its path, without the namespace of the
    /// client. Later calls return at once: [`state`](Self::state) shows whether the node exists now.
    ///
    /// # Errors
    /// [`Error::Client`] if the node could not be created, for example without permission. The create is retried with
    /// growing delays, and the next call waits for the next attempt. [`Error::Closed`] if the persistent node or its
    /// client was closed first, or its runtime has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    #[doc(alias = "waitForInitialCreate")]
    pub async fn created(&self) -> Result<String, Error> {
        // A loop over failures must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let reported = self.reported_failures.load(Ordering::Acquire);
        self.until(|progress| {
            if let Some(node) = &progress.node {
                return Some(Ok(node.to_string()));
            }
            let error = progress.error.clone().filter(|_| progress.failures > reported)?;
            self.reported_failures.fetch_max(progress.failures, Ordering::AcqRel);
            Some(Err(error))
        })
        .await
    }

    /// Replaces the data of the node, and waits until it is written. The data counts from the first poll on, even for
    /// later creations of the node, and while there is no connection. After several calls, the latest data counts.
    ///
    /// # Errors
    /// [`Error::Client`] if the data is above the [limit](crate::ClientBuilder::max_request_bytes), which changes
    /// nothing; or if the node could not be created or written. The data still counts then, and writing it is retried
    /// with growing delays. [`Error::Closed`] as with [`created`](Self::created).
    ///
    /// # Cancel safety
    /// Once it was polled, the data is written in the background even if the future is dropped.
    #[doc(alias = "setData")]
    pub async fn set_data(&self, data: impl Into<Vec<u8>>) -> Result<(), Error> {
        let number = self.want(data.into())?;
        self.written(number).await
    }

    /// Replaces the data, unless it is too large. Returns its number.
    pub(crate) fn want(&self, data: Vec<u8>) -> Result<u64, Error> {
        let sized = self.client.core().check_data("set the data of", &self.shared.path, &data);
        sized.map_err(|error| Error::client(&self.shared.path, error))?;
        Ok(self.shared.want(data))
    }

    /// Waits until the data of this number, or newer data, is written. Cancel safe: it only waits.
    pub(crate) async fn written(&self, number: u64) -> Result<(), Error> {
        self.until(|progress| {
            if progress.written >= number {
                return Some(Ok(()));
            }
            progress.error.clone().filter(|_| progress.failed >= number).map(Err)
        })
        .await
    }

    /// Returns the id of the client's session.
    pub(crate) fn session_id(&self) -> Option<i64> {
        self.client.session_id()
    }

    /// Waits until another session's node is seen at the path. Cancel safe: it only waits.
    pub(crate) async fn foreign(&self) -> Result<Foreign, Error> {
        self.until(|progress| progress.foreign.clone().map(Ok)).await
    }

    /// Waits for an outcome in the progress of the task, or its end.
    async fn until<T>(&self, outcome: impl Fn(&Progress) -> Option<Result<T, Error>>) -> Result<T, Error> {
        let mut progress = self.shared.progress.subscribe();
        loop {
            {
                let now = progress.borrow_and_update();
                if let Some(outcome) = outcome(&now) {
                    return outcome;
                }
                if now.closed {
                    return Err(self.shared.closed());
                }
            }
            tokio::select! {
                biased;
                _ = progress.changed() => {}
                // The task may also have ended with its runtime.
                _ = self.task.outcome() => return Err(self.shared.closed()),
            }
        }
    }

    /// Returns the path of the node as it was created, without the namespace of the client; `None` before that. It
    /// never changes. The node may not exist now: see [`state`](Self::state).
    #[doc(alias = "getActualPath")]
    pub fn path(&self) -> Option<String> {
        self.shared.progress.borrow().node.as_deref().map(str::to_owned)
    }

    /// Returns the state, to read it or to wait for changes.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     node: zookeeper_recipes::persistent_node::PersistentNode,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// node.state().wait_for(|state| state.is_present()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn state(&self) -> StateReceiver<NodeState> {
        StateReceiver::new(self.shared.state.subscribe(), |state| *state == NodeState::Closed)
    }

    /// Deletes the node and ends. Returns once the node is certainly gone, including a node whose create is under way,
    /// and one of a lost session, which is gone when the servers end that session. The node of another session, for
    /// which this one only waited, is left alone. It may be called twice.
    ///
    /// If the client gave up a session before the create of the node was answered, the create may be carried out
    /// afterwards. Then this takes a session timeout and a tick longer, until the servers have carried it out or refuse
    /// it; and if it was carried out, as long as they keep the node of that session.
    ///
    /// # Errors
    /// [`Error::Client`] if the node could not be deleted. Without permission the delete is retried in the background;
    /// a node with children stays. [`Error::Closed`] if the client was closed before: an ephemeral node then ends with
    /// its session, any other stays.
    ///
    /// # Cancel safety
    /// Once it was polled, the node is deleted in the background even if the future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.shared.close();
        self.task.outcome().await.unwrap_or_else(|| Err(self.shared.closed()))
    }
}

impl Drop for PersistentNode {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl fmt::Debug for PersistentNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentNode")
            .field("path", &self.shared.path)
            .field("state", &*self.shared.state.borrow())
            .finish_non_exhaustive()
    }
}
