//! The options of a persistent node.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::error::Error;
use super::spec::Spec;
use super::state::Shared;
use super::{NodeMode, PersistentNode, task};
use crate::client::Client;
use crate::engine::check;

/// Configures a [`PersistentNode`]; see [`PersistentNode::builder`].
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::persistent_node::{Error, NodeMode, PersistentNode};
///
/// # fn example(client: &Client) -> Result<(), Error> {
/// let node = PersistentNode::builder(client, "/services/api/node-")
///     .data("10.0.0.1:80")
///     .mode(NodeMode::EphemeralSequential)
///     .start()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before start()"]
pub struct PersistentNodeBuilder {
    client: Client,
    path: String,
    data: Vec<u8>,
    mode: NodeMode,
    protected: Option<bool>,
}

impl PersistentNodeBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        let client = client.clone();
        PersistentNodeBuilder { client, path, data: Vec::new(), mode: NodeMode::default(), protected: None }
    }

    /// Sets the data of the node. Default: empty.
    pub fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// Sets the kind of the node. Default: [`NodeMode::Ephemeral`].
    pub fn mode(mut self, mode: NodeMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets whether the name of the node begins with `_c_<uuid>-`, as with Curator's protection, so that no other
    /// client, and no other object of this client, uses the same name. Default: `true` for
    /// [`NodeMode::EphemeralSequential`], which needs it to find its node again after a lost reply; `false` for all
    /// others.
    #[doc(alias = "useProtection")]
    #[doc(alias = "withProtection")]
    pub fn protected(mut self, protected: bool) -> Self {
        self.protected = Some(protected);
        self
    }

    /// Maintains the node from now on, in the background, and returns at once, even without a connection. It may be
    /// called outside a runtime, as the task runs on the runtime of the client.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if the path is malformed or the
    /// root, with [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the data is above the
    /// [limit](crate::ClientBuilder::max_request_bytes). [`Error::InvalidOption`] if a sequential node is not to be
    /// protected, or a time to live is out of its range. [`Error::Closed`] if the client has been closed.
    pub fn start(self) -> Result<PersistentNode, Error> {
        self.client.open_path(&self.path).map_err(|error| Error::client(&self.path, error))?;
        let path: Arc<str> = self.path.into();
        let core = self.client.core();
        core.check_data("create", &path, &self.data).map_err(|error| Error::client(&path, error))?;
        let sequential = self.mode == NodeMode::EphemeralSequential;
        let protected = self.protected.unwrap_or(sequential);
        if sequential && !protected {
            let why = "a sequential node must be protected: otherwise a node whose create was not answered could not \
                       be found again, and would remain next to the next one";
            return Err(Error::InvalidOption { path, why: why.into() });
        }
        if let NodeMode::Ttl(ttl) = self.mode {
            check::ttl(ttl).map_err(|why| Error::InvalidOption { path: Arc::clone(&path), why })?;
        }
        let spec = Spec::new(core, &path, self.mode, protected);
        let shared = Arc::new(Shared::new(path, self.data));
        let task = task::spawn(core, &shared, spec);
        Ok(PersistentNode { client: self.client, shared, reported_failures: AtomicU64::new(0), task })
    }
}
