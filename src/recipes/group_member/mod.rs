//! Membership in a group of processes: all members see each member and its data until it leaves or fails. Compatible
//! with Curator's `GroupMember` and kazoo's `Party`.
//!
//! ```no_run
//! use zookeeper_recipes::Client;
//! use zookeeper_recipes::group_member::{Change, GroupMember};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("localhost:2181").connect().await?;
//! let member =
//!     GroupMember::join(&client, "/services/api", "api-1", "10.0.0.1:80").await?;
//! let mut changes = member.changes();
//! for (id, data) in changes.start() {
//!     println!("{id} is at {}", String::from_utf8_lossy(&data));
//! }
//! while let Some(change) = changes.next().await {
//!     match change {
//!         Change::Joined { id, .. } => println!("{id} has joined"),
//!         Change::Left { id, .. } if id == "api-0" => break,
//!         Change::Left { id, .. } => println!("{id} has left"),
//!         other => println!("{other:?}"),
//!     }
//! }
//! member.leave().await?;
//! # Ok(())
//! # }
//! ```
//!
//! It combines a [`PersistentNode`](crate::persistent_node) for the member itself with a [`Cache`](crate::cache) of the
//! group. To look at a group without joining it, use [`Cache::children`](crate::cache::Cache::children).
//!
//! # What it does not promise
//!
//! The members come from a [`Snapshot`]: they are as of a moment in the past. Two members may see different groups for
//! a while, and a process that has failed is a member until its session has expired. So do not rely on it for what must
//! not be done twice: use a [lock](crate::mutex), a [leader](crate::leader_latch) or a
//! [balancer](crate::throughput_balancer) for that.
//!
//! [`members`](GroupMember::members) always contains this member itself until it has left, as in Curator, even while
//! its session is lost and its node does not exist.
//!
//! # One member for each id and client
//!
//! A member's node belongs to a session, not to the object. So two members of one client with the same id share one
//! node: the second [`join`](GroupMember::join) does not wait, and the data that was written last stays. When one of
//! them leaves, the node is deleted and the other one creates it again: the group sees a member leave and join. Use one
//! member for each id and client. Only in kazoo's parties does each member have its own node, as the names are random;
//! even then, [`members`](GroupMember::members) has the id once. See also
//! [persistent nodes](crate::persistent_node#one-object-for-each-path-and-client).
//!
//! # When things fail
//!
//! | event | what happens |
//! |---|---|
//! | connection `Suspended` | The members stay as they were. The [`snapshot`](GroupMember::snapshot) grows older. |
//! | `Reconnected`, same session | The group is compared with the servers. Missed changes are reported once. |
//! | session `Lost` | The others see this member leave. In the next session it joins again, under the same name. |
//! | own node deleted by another client | It is created again at once; after repeated deletions, after up to 5 s. |
//! | reply lost | The node is recognized as this session's. There are never two. |
//! | process stopped for longer than the session timeout | As a lost session. |
//! | no permission to create the node | `join` fails. Later, the state is `Failed`, and the create is retried. |
//! | no permission to list the group | `members` may lack others: see [`Snapshot::unlistable`]. |
//! | no permission to read a member's node | Its data is empty; in a `Party` the member is left out. |
//! | a subscriber is too slow | It receives [`Lagged`](Change::Lagged), with the members to continue from. |
//! | client closed | The changes end, and calls that wait return [`Error::Closed`]. |
//! | another session has the id | `join` returns [`Error::Taken`], which names that session and its data, |
//! | | or [waits](GroupMemberBuilder::wait) until its node is gone. The state of a member that had joined |
//! | | is [`Waiting`](NodeState::Waiting) until then. |
//! | a persistent node has the id | It is adopted: [`OtherKind`](NodeState::OtherKind). It outlives a crash. |
//!
//! # What it costs
//!
//! A join takes two requests for the member's node, four to watch and list the group, and one read per member; a few
//! more if the group has to be created. After that, each member that joins or writes its data costs every member one
//! event and one read, itself included. A member that leaves costs the others only the event, and itself three
//! requests. After a reconnect, one small request per member shows what differs. The session sends six heartbeats per
//! session timeout until the member is dropped.
//!
//! Every member keeps the data of all in memory. [`members`](GroupMember::members) copies it at each call;
//! [`snapshot`](GroupMember::snapshot) copies nothing. For servers before 3.6 see the
//! [cache](crate::cache#what-it-costs).
//!
//! # The znodes
//!
//! | znode | kind | data |
//! |---|---|---|
//! | the group, and the directories above | container, if they were missing | empty |
//! | `<group>/<id>` ([`Format::GroupMember`]) | ephemeral | the member's data |
//! | `<group>/<32 hex digits>__party__` ([`Format::Party`]) | ephemeral | the id |
//! | `<group>/<32 hex digits>-<id>` ([`Format::ShallowParty`]) | ephemeral | empty |
//!
//! Data that was not set is empty; Curator uses the address of the host.

mod builder;
mod change;
mod error;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::builder::GroupMemberBuilder;
pub use self::change::{Change, Changes};
pub use self::error::Error;
use crate::StateReceiver;
use crate::cache::{Cache, Node, Snapshot};
use crate::client::Client;
pub use crate::layout::group_member::Format;
use crate::persistent_node::{self, NodeState, PersistentNode};
use crate::util::mutex::Mutex;

/// The data of each member, by its id.
pub type Members = BTreeMap<String, Vec<u8>>;

/// A member of a group; see the [module](self). Dropping it leaves the group, without waiting.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::group_member::{Error, GroupMember};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let member = GroupMember::join(&client, "/services/api", "api-1", "").await?;
/// // Waits until there are three.
/// let members = member.wait_for(|members| members.len() >= 3).await?;
/// println!("{:?}", members.keys());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the member leaves when it is dropped"]
pub struct GroupMember {
    path: Arc<str>,
    format: Format,
    node: PersistentNode,
    cache: Cache<Vec<u8>>,
    /// The member itself, until it leaves.
    own: Mutex<Option<Own>>,
}

/// The member itself.
#[derive(Debug)]
struct Own {
    id: String,
    data: Vec<u8>,
}

impl GroupMember {
    /// Joins the group at `path` as `id`, in Curator's format, and waits until the member's node exists and the other
    /// members are known.
    ///
    /// # Errors
    /// As [`GroupMemberBuilder::join`].
    ///
    /// # Cancel safety
    /// Cancel safe: the node is deleted in the background.
    pub async fn join(
        client: &Client,
        path: impl Into<String>,
        id: impl Into<String>,
        data: impl Into<Vec<u8>>,
    ) -> Result<GroupMember, Error> {
        GroupMember::builder(client, path, id).data(data).join().await
    }

    /// Returns a builder for a member with this id of the group at `path`.
    pub fn builder(client: &Client, path: impl Into<String>, id: impl Into<String>) -> GroupMemberBuilder {
        GroupMemberBuilder::new(client, path.into(), id.into())
    }

    /// Returns the path of the group.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the data of each member, by its id, without a request. It contains this member itself until it leaves,
    /// with its latest data, even while its node does not exist, unless another session has a node with its id.
    ///
    /// Members of a kazoo party that have the same id appear once.
    #[doc(alias = "getCurrentMembers")]
    pub fn members(&self) -> Members {
        self.with_own(&self.cache.snapshot())
    }

    fn with_own(&self, snapshot: &Snapshot<Vec<u8>>) -> Members {
        let mut members = members_of(snapshot, self.format);
        if let Some(own) = &*self.own.lock() {
            // The copy may not have our latest data yet.
            let session = self.node.session_id();
            let is_ours = |node: &Node<Vec<u8>>| Some(node.stat().ephemeral_owner) == session && node.name() == own.id;
            if !members.contains_key(&own.id) || snapshot.iter().any(is_ours) {
                members.insert(own.id.clone(), own.data.clone());
            }
        }
        members
    }

    /// Returns the copy of the group's nodes, with its [age](Snapshot::age).
    pub fn snapshot(&self) -> Snapshot<Vec<u8>> {
        self.cache.snapshot()
    }

    /// Returns the changes from now on, including those of this member. Start from [`Changes::start`]: members that
    /// were read before this call may lack changes in between.
    pub fn changes(&self) -> Changes {
        Changes::new(&self.path, self.format, self.cache.changes())
    }

    /// Waits until `condition` holds for the members, and returns them. Returns at once if it holds now.
    ///
    /// # Errors
    /// [`Error::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn wait_for(&self, mut condition: impl FnMut(&Members) -> bool) -> Result<Members, Error> {
        let mut found = Members::new();
        let holds = |snapshot: &Snapshot<Vec<u8>>| {
            found = self.with_own(snapshot);
            condition(&found)
        };
        self.cache.wait_for(holds).await.map_err(|error| Error::cache(&self.path, error))?;
        Ok(found)
    }

    /// Replaces the data of this member, and waits until it is written. The data applies from the first poll on. If
    /// several calls overlap, the latest data wins.
    ///
    /// # Errors
    /// [`Error::Client`] as [`PersistentNode::set_data`]; [`Error::InvalidOption`] in a kazoo party, whose members have
    /// no data; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Once it was polled, the data is written in the background even if the future is dropped.
    #[doc(alias = "setThisData")]
    pub async fn set_data(&self, data: impl Into<Vec<u8>>) -> Result<(), Error> {
        if !self.format.has_data() {
            let why = "data for a member of a kazoo party, which has only its id".to_owned();
            return Err(Error::InvalidOption { path: Arc::clone(&self.path), why });
        }
        let number = self.want(data.into()).map_err(|error| Error::node(&self.path, error))?;
        self.node.written(number).await.map_err(|error| Error::node(&self.path, error))
    }

    /// Replaces the data of the node and of [`members`](Self::members). Concurrent calls reach both in the same order.
    fn want(&self, data: Vec<u8>) -> Result<u64, persistent_node::Error> {
        let mut own = self.own.lock();
        let number = self.node.want(data.clone())?;
        if let Some(own) = &mut *own {
            own.data = data;
        }
        Ok(number)
    }

    /// Returns the state of the member's node, to read it or to wait for changes.
    pub fn state(&self) -> StateReceiver<NodeState> {
        self.node.state()
    }

    /// Leaves the group. Returns once the member's node is certainly gone. The other members can still be read. Leaving
    /// twice is allowed.
    ///
    /// # Errors
    /// As [`PersistentNode::close`].
    ///
    /// # Cancel safety
    /// Once it was polled, the node is deleted in the background even if the future is dropped.
    #[doc(alias = "close")]
    pub async fn leave(&self) -> Result<(), Error> {
        *self.own.lock() = None;
        self.node.close().await.map_err(|error| Error::node(&self.path, error))
    }
}

/// Returns the members in a copy of the group.
fn members_of(snapshot: &Snapshot<Vec<u8>>, format: Format) -> Members {
    snapshot.iter().filter_map(|node| format.member(node.name(), node.value().map(Vec::as_slice))).collect()
}
