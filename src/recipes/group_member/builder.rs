//! The options of a group member.

use std::sync::Arc;

use super::error::Error;
use super::{GroupMember, Own};
use crate::cache::{Cache, Snapshot};
use crate::client::Client;
use crate::layout::group_member::Format;
use crate::persistent_node::{self, Foreign, NodeState, PersistentNode};
use crate::util::mutex::Mutex;
use crate::util::path::join;
use crate::util::wait::forever;

/// Configures a [`GroupMember`]; see [`GroupMember::builder`].
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::group_member::{Error, Format, GroupMember};
///
/// # async fn example(client: &Client) -> Result<(), Error> {
/// // Joins the same group as Python services that use kazoo's Party.
/// let member = GroupMember::builder(client, "/services/api", "rust-1")
///     .format(Format::Party)
///     .join()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "there is no member before join()"]
pub struct GroupMemberBuilder {
    client: Client,
    path: String,
    id: String,
    data: Vec<u8>,
    format: Format,
    waits: bool,
}

impl GroupMemberBuilder {
    pub(super) fn new(client: &Client, path: String, id: String) -> Self {
        GroupMemberBuilder {
            client: client.clone(),
            path,
            id,
            data: Vec::new(),
            format: Format::default(),
            waits: false,
        }
    }

    /// Sets the data of the member, such as its address. Empty by default; a member of a kazoo party has none.
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Sets the format of the nodes, which all clients of the group must share. Default [`Format::GroupMember`].
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Makes [`join`](Self::join) wait while another session has the id, as long as it takes. By default, it fails with
    /// [`Error::Taken`]. Set this for processes that restart with the same id: after a crash, the old node stays for up
    /// to a session timeout.
    pub fn wait(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Joins the group, and waits until the member's node exists and the other members are known: as long as it takes,
    /// even across losses of the connection and of the session.
    ///
    /// # Errors
    /// [`Error::Taken`] if another session has the id, unless [`wait`](Self::wait) is set.
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path or id; and
    /// [`Error::Client`] if the node cannot be created, for example without permission, or the group cannot be read for
    /// another reason that is not transient. Without permission to list the group, the call succeeds, and
    /// [`members`](GroupMember::members) has only this member: see [`Snapshot::unlistable`]. [`Error::InvalidOption`];
    /// [`Error::Closed`] if the client has been closed.
    ///
    /// # Cancel safety
    /// Cancel safe: the node is deleted in the background.
    pub async fn join(self) -> Result<GroupMember, Error> {
        let path: Arc<str> = self.path.into();
        let invalid = |why: String| Error::InvalidOption { path: Arc::clone(&path), why };
        self.client.open_path(&path).map_err(|error| Error::client(&path, error))?;
        if self.id.is_empty() || (self.format.names_the_id() && self.id.contains('/')) {
            let why = format!("an id of {:?}; it must be the name of a node: not empty, and without '/'", self.id);
            return Err(invalid(why));
        }
        if !self.format.has_data() && !self.data.is_empty() {
            let why = format!("{} bytes of data; a member of a kazoo party has only its id", self.data.len());
            return Err(invalid(why));
        }
        let (name, data) = self.format.node(&self.id, self.data.clone(), self.client.core().random.uuid());
        let node = PersistentNode::builder(&self.client, join(&path, &name))
            .data(data)
            .start()
            .map_err(|error| Error::node(&path, error))?;
        let cache = Cache::children(&self.client, &*path).start();
        let joined = async {
            let created = async { node.created().await.map_err(|error| Error::node(&path, error)) };
            let copied = async { cache.await.map_err(|error| Error::cache(&path, error)) };
            let (own_path, cache) = futures::try_join!(created, copied)?;
            // The changes after this must not start with our own join. Without permission to list, the cache never has
            // our node.
            let sees_itself = |now: &Snapshot<_>| now.get(&own_path).is_some() || now.unlistable().next().is_some();
            tokio::select! {
                biased;
                seen = cache.wait_for(sees_itself) => drop(seen.map_err(|error| Error::cache(&path, error))?),
                // If another client deletes the node meanwhile, it may be impossible to create it again.
                error = failed(&node) => return Err(Error::node(&path, error)),
            }
            Ok(cache)
        };
        let cache = tokio::select! {
            biased;
            joined = joined => joined?,
            foreign = node.foreign(), if !self.waits => {
                let Foreign { session, data } = foreign.map_err(|error| Error::node(&path, error))?;
                return Err(Error::Taken { path: Arc::clone(&path), id: self.id, session, data });
            }
        };
        let own = Mutex::new(Some(Own { id: self.id, data: self.data }));
        Ok(GroupMember { path, format: self.format, node, cache, own })
    }
}

/// Waits until the node cannot be maintained.
async fn failed(node: &PersistentNode) -> persistent_node::Error {
    let mut state = node.state();
    match state.wait_for(|state| state.error().is_some()).await.as_ref().map(NodeState::error) {
        Ok(Some(error)) => error.clone(),
        // The client is closed, which the cache reports.
        _ => forever().await,
    }
}
