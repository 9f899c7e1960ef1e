//! Plain reads and writes for users of a client.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::core::Core;
use super::error::{CREATE, Error, ErrorKind};
use super::session::Session;
use super::{Client, parents};
use crate::engine::{Error as Refusal, Reply};
use crate::util::path;
use crate::util::znode::{Acl, CreateMode, Stat};

impl Client {
    /// Returns the data of a node, and its stat.
    ///
    /// # Errors
    /// [`ErrorKind::NoNode`] if the node does not exist; the text says so if the root that the connect string names is
    /// missing. [`ErrorKind::InvalidPath`]. A loss of the connection is retried as the client's
    /// [`RetryPolicy`](crate::RetryPolicy) allows.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is left behind.
    #[doc(alias = "getData")]
    pub async fn get(&self, path: &str) -> Result<(Vec<u8>, Stat), Error> {
        self.core().read("get", path, |session, path| session.get_data(path)).await
    }

    /// Returns the stat of a node, or `None` if the node does not exist.
    ///
    /// # Errors
    /// As [`get`](Self::get), without [`ErrorKind::NoNode`].
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is left behind.
    #[doc(alias = "checkExists")]
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.core().read("look for", path, |session, path| session.exists(path)).await
    }

    /// Returns the names of a node's children, in no particular order.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is left behind.
    #[doc(alias = "getChildren")]
    pub async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        let (children, _) =
            self.core().read("list the children of", path, |session, path| session.list_children(path)).await?;
        Ok(children)
    }

    /// Returns the access control list of a node: who may do what with it.
    ///
    /// The servers hide the hash in the id of a `digest` (they return `user:x`) from a client without the
    /// [`ADMIN`](crate::Permissions::ADMIN) permission there.
    ///
    /// ```no_run
    /// # async fn example(client: zookeeper_recipes::Client) -> Result<(), zookeeper_recipes::Error> {
    /// for entry in client.acl("/my-service").await? {
    ///     println!("{entry}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get). [`ErrorKind::NoAuth`] if this client may neither read the node nor change its ACL.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is left behind.
    #[doc(alias = "getACL")]
    pub async fn acl(&self, path: &str) -> Result<Vec<Acl>, Error> {
        let (acl, _) = self.core().read("read the ACL of", path, |session, path| session.get_acl(path)).await?;
        Ok(acl)
    }

    /// Sets the data of a node, and returns its new stat. If a `version` is given, the node must have that version.
    ///
    /// # Errors
    /// [`ErrorKind::NoNode`], [`ErrorKind::BadVersion`]; [`ErrorKind::InvalidArgument`] for version -1, which is not a
    /// version, and for data above the [limit](crate::ClientBuilder::max_request_bytes); [`ErrorKind::OutcomeUnknown`]
    /// if the connection broke before the answer, or the answer does not say what happened. A set is not retried,
    /// because a retry could overwrite the write of another client.
    ///
    /// # Cancel safety
    /// A set that was sent before the future was dropped may still be carried out.
    #[doc(alias = "setData")]
    pub async fn set(&self, path: &str, data: impl AsRef<[u8]>, version: Option<i32>) -> Result<Stat, Error> {
        let data = data.as_ref();
        check_version("set", path, version)?;
        self.core().check_data("set", path, data)?;
        let write = |session: &Arc<Session>, full: &str| session.set_data(full, data, version);
        self.core().write("set", path, write).await
    }

    /// Creates a node with the client's ACL, and returns its path, with the number that the server appended if `mode`
    /// is sequential. The parent must exist; see [`create_containers`](Self::create_containers).
    ///
    /// # Errors
    /// [`ErrorKind::NodeExists`], [`ErrorKind::NoNode`] if the parent is missing; [`ErrorKind::InvalidArgument`] for
    /// data above the [limit](crate::ClientBuilder::max_request_bytes); [`ErrorKind::OutcomeUnknown`] if the connection
    /// broke before the answer, or the answer does not say what happened.
    ///
    /// # Cancel safety
    /// A create that was sent before the future was dropped may still be carried out.
    pub async fn create(&self, path: &str, data: impl AsRef<[u8]>, mode: CreateMode) -> Result<String, Error> {
        let data = data.as_ref();
        let core = self.core();
        core.check_data("create", path, data)?;
        let acls = &core.config.acls;
        let write = |session: &Arc<Session>, full: &str| session.create(full, data, mode, acls);
        let (created, _) = core.write(CREATE, path, write).await?;
        Ok(core.config.namespace.strip(&created).to_owned())
    }

    /// Creates the node and all missing nodes above it as containers, which the server removes once they are empty
    /// again, or as persistent nodes if the server does not support containers. Existing nodes are left unchanged.
    ///
    /// # Errors
    /// [`ErrorKind::NoAuth`], [`ErrorKind::InvalidPath`]; [`ErrorKind::NoNode`] if the root that the connect string
    /// names does not exist.
    ///
    /// # Cancel safety
    /// Cancel safe: some of the nodes may have been created.
    #[doc(alias = "createContainers")]
    #[doc(alias = "creatingParentContainersIfNeeded")]
    pub async fn create_containers(&self, path: &str) -> Result<(), Error> {
        path::validate_or_root(path)?;
        let core = self.core();
        core.check_writes("create", path)?;
        let full = core.full_path(path);
        let mut retry = Retry::new(core);
        loop {
            let session = core.session_in_time("create", path).await?;
            match parents::create(&session, &full, &core.config.acls).await {
                Ok(_) => return Ok(()),
                // A parent can be deleted between two steps.
                Err(error) => {
                    let again = |error: &Refusal| error.is_transient() || *error == Refusal::NoNode;
                    retry.pause_after("create", path, error, again).await?;
                }
            }
        }
    }
}

/// Rejects version -1, which ZooKeeper treats as any version, so it would check nothing. Other negative versions are
/// valid: nodes that were written more than 2^31 times have them.
pub(crate) fn check_version(doing: &str, path: &str, version: Option<i32>) -> Result<(), Error> {
    match version {
        Some(-1) => {
            let why = "on the wire, version -1 means any version; pass None for that";
            Err(Error::at(ErrorKind::InvalidArgument, doing, path, why))
        }
        _ => Ok(()),
    }
}

/// The attempts of one call.
pub(crate) struct Retry<'a> {
    core: &'a Core,
    started: crate::util::clock::Instant,
    attempt: u32,
}

impl<'a> Retry<'a> {
    pub(crate) fn new(core: &'a Core) -> Self {
        Retry { core, started: core.clock.now(), attempt: 0 }
    }

    /// Waits before the next attempt, or returns the error if it may not be repeated or the policy allows no more
    /// attempts.
    pub(crate) async fn pause_after(
        &mut self,
        doing: &str,
        path: &str,
        error: Refusal,
        may_repeat: impl Fn(&Refusal) -> bool,
    ) -> Result<(), Error> {
        let repeat = may_repeat(&error);
        let failed = Error::of_any_session(doing, path, error);
        let elapsed = self.core.clock.now().since(self.started);
        let delay = self.core.config.retry.delay(self.attempt, elapsed, self.core.random.unit());
        let Some(delay) = delay.filter(|_| repeat) else {
            return Err(failed);
        };
        let attempt = self.attempt;
        tracing::debug!(event = "retrying", doing, path, attempt, ?delay, error = %failed, "retrying");
        self.attempt += 1;
        tokio::time::sleep(delay).await;
        Ok(())
    }
}

/// The size of a request without its paths and data: its header, ACLs, lengths.
const REQUEST_OVERHEAD: usize = 512;

impl Core {
    /// Refuses a request that is too large, because a server would close the whole connection.
    pub(crate) fn check_size(&self, doing: &str, path: &str, bytes: usize) -> Result<(), Error> {
        let limit = self.config.max_request_bytes;
        let request = bytes + path.len() + REQUEST_OVERHEAD;
        if request <= limit {
            return Ok(());
        }
        let why = format!(
            "a request of about {request} bytes; servers accept at most {limit} (their jute.maxbuffer; see \
             ClientBuilder::max_request_bytes)"
        );
        Err(Error::at(ErrorKind::InvalidArgument, doing, path, why))
    }

    /// Refuses data that makes the request to create or write the node too large.
    pub(crate) fn check_data(&self, doing: &str, path: &str, data: &[u8]) -> Result<(), Error> {
        let namespace = self.full_path(path).len().saturating_sub(path.len());
        self.check_size(doing, path, namespace + Acl::request_bytes(&self.config.acls) + data.len())
    }

    /// Returns the current session once it is connected. Fails if that takes longer than the connection timeout.
    pub(crate) async fn session_in_time(&self, doing: &str, path: &str) -> Result<Arc<Session>, Error> {
        let within = self.config.connection_timeout;
        match tokio::time::timeout(within, self.connected_session()).await {
            Ok(session) => session,
            Err(_) => {
                let why =
                    format!("no connection to {} within {within:?}{}", self.config.servers, self.why_not_connected());
                Err(Error::at(ErrorKind::ConnectionLoss, doing, path, why))
            }
        }
    }

    /// Sends a read, and retries it as the retry policy allows.
    pub(crate) async fn read<T, Fut>(
        &self,
        doing: &str,
        path: &str,
        request: impl Fn(&Arc<Session>, &str) -> Fut,
    ) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, Refusal>>,
    {
        path::validate_or_root(path)?;
        // A loop over calls that fail at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let full = self.full_path(path);
        let mut retry = Retry::new(self);
        loop {
            let session = self.session_in_time(doing, path).await?;
            let within = self.config.connection_timeout;
            match tokio::time::timeout(within, request(&session, &full)).await {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => {
                    let error = self.with_root(&session, error).await;
                    retry.pause_after(doing, path, error, Refusal::is_transient).await?;
                }
                Err(_) => {
                    let why = format!("no answer from {} within {within:?}", self.config.servers);
                    return Err(Error::at(ErrorKind::ConnectionLoss, doing, path, why));
                }
            }
        }
    }

    /// Creates a persistent node with this data, if it is missing, and its parents as containers. It does not matter
    /// which client or attempt creates it, so this is retried like a read.
    pub(crate) async fn ensure_node(&self, doing: &str, path: &str, data: &[u8]) -> Result<(), Error> {
        let ensure = |session: &Arc<Session>, full: &str| {
            let (session, full) = (Arc::clone(session), full.to_owned());
            async move {
                if self.config.read_only {
                    return session.exists(&full).await?.map(drop).ok_or(Refusal::ReadOnly);
                }
                let ensured = parents::ensure(&session, &full, data, &self.config.acls).await;
                if ensured != Err(Refusal::NoAuth) {
                    return ensured;
                }
                // The servers check the permission before they check whether the node exists. If the client may not
                // even ask that, the node exists.
                match session.exists(&full).await {
                    Ok(Some(_)) | Err(Refusal::NoAuth) => Ok(()),
                    Ok(None) => ensured,
                    Err(error) => Err(error),
                }
            }
        };
        self.read(doing, path, ensure).await
    }

    /// Sends a write. Retries only what was certainly not done.
    async fn write<T: Send + 'static>(
        &self,
        doing: &'static str,
        path: &str,
        request: impl FnMut(&Arc<Session>, &str) -> Reply<T>,
    ) -> Result<T, Error> {
        self.answer_to_write(doing, path, request).await?.map_err(|error| write_failed(doing, path, error))
    }

    /// Sends a write as [`write`](Self::write) does, but returns the engine's error for the request itself.
    pub(crate) async fn answer_to_write<T: Send + 'static>(
        &self,
        doing: &'static str,
        path: &str,
        mut request: impl FnMut(&Arc<Session>, &str) -> Reply<T>,
    ) -> Result<Result<T, Refusal>, Error> {
        path::validate(path)?;
        self.check_writes(doing, path)?;
        // A loop over calls that fail at once must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let full = self.full_path(path);
        let mut retry = Retry::new(self);
        loop {
            let session = self.session_in_time(doing, path).await?;
            match self.bounded(doing, path, request(&session, &full)).await? {
                Ok(value) => return Ok(Ok(value)),
                Err(error @ (Refusal::NotConnected | Refusal::Throttled)) => {
                    retry.pause_after(doing, path, error, Refusal::is_transient).await?;
                }
                Err(error) => return Ok(Err(self.with_root(&session, error).await)),
            }
        }
    }

    /// Returns the error of a request, but [`Refusal::NoRoot`] instead of [`Refusal::NoNode`] if the root that the
    /// connect string names is missing. Costs a request until that root was seen.
    pub(crate) async fn with_root(&self, session: &Session, error: Refusal) -> Refusal {
        if error != Refusal::NoNode || self.has_seen_root.load(Ordering::Relaxed) {
            return error;
        }
        match tokio::time::timeout(self.config.connection_timeout, session.exists("/")).await {
            Ok(Ok(None)) => return Refusal::NoRoot,
            Ok(Ok(Some(_)) | Err(Refusal::NoAuth)) => self.has_seen_root.store(true, Ordering::Relaxed),
            _ => {}
        }
        error
    }

    /// Returns an error if the root that the connect string names is missing, so that it is not taken for an empty
    /// tree. Costs a request until that root was seen.
    pub(crate) async fn check_root(&self) -> Result<(), Error> {
        if self.has_seen_root.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.read("look for", "/", |session, _| session.exists("/")).await {
            Ok(None) => return Err(Error::no_root()),
            Err(error) if error.kind() != ErrorKind::NoAuth => return Err(error),
            Ok(Some(_)) | Err(_) => self.has_seen_root.store(true, Ordering::Relaxed),
        }
        Ok(())
    }

    /// Waits for the answer to a write, but no longer than the connection timeout. After that a task waits for the
    /// answer and logs the outcome.
    pub(crate) async fn bounded<T: Send + 'static>(
        &self,
        doing: &'static str,
        path: &str,
        mut answer: Reply<T>,
    ) -> Result<Result<T, Refusal>, Error> {
        if let Ok(outcome) = tokio::time::timeout(self.config.connection_timeout, &mut answer).await {
            return Ok(outcome);
        }
        let late = path.to_owned();
        self.runtime.spawn(async move {
            let outcome = answer.await.map(drop);
            tracing::warn!(event = "late_outcome", doing, path = late, ?outcome, "late answer to a write");
        });
        Err(outcome_unknown(doing, path))
    }
}

/// The text that is appended to an error if the answer to a write does not say whether it was carried out.
pub(crate) const MAYBE_DONE: &str = "; the write may have been carried out";

/// Returns the error of a write that was handed over.
pub(crate) fn write_failed(doing: &str, path: &str, error: Refusal) -> Error {
    match error {
        Refusal::ConnectionLoss | Refusal::SessionEnded => outcome_unknown(doing, path),
        error if error.leaves_outcome_unknown() => Error::from_engine(doing, path, error).outcome_unknown(MAYBE_DONE),
        error => Error::from_engine(doing, path, error),
    }
}

pub(crate) fn outcome_unknown(doing: &str, path: &str) -> Error {
    let why = "handed over, but no answer arrived; it may or may not have been carried out, so read before you retry";
    Error::at(ErrorKind::OutcomeUnknown, doing, path, why)
}
