//! The options of a shared value.

use std::fmt;
use std::sync::Arc;

use super::SharedValue;
use super::error::Error;
use crate::cache::Cache;
use crate::client::Client;
use crate::util::serializer::{RawBytes, Serializer};

/// Configures a [`SharedValue`]; see [`SharedValue::builder`].
#[must_use = "there is no value before start()"]
pub struct SharedValueBuilder<S = RawBytes> {
    client: Client,
    path: String,
    serializer: S,
    /// The seed as bytes, or why it has none.
    seed: Option<Result<Vec<u8>, String>>,
}

impl SharedValueBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        SharedValueBuilder { client: client.clone(), path, serializer: RawBytes, seed: None }
    }
}

impl<S: Serializer> SharedValueBuilder<S> {
    /// Sets the serializer, which converts the value to bytes and back. Default [`RawBytes`], the bytes as they are. A
    /// [seed](Self::seed) that was set before stays as the bytes that it was converted to.
    #[doc(alias = "serializer")]
    #[doc(alias = "encode")]
    pub fn decode<D: Serializer>(self, serializer: D) -> SharedValueBuilder<D> {
        let SharedValueBuilder { client, path, seed, .. } = self;
        SharedValueBuilder { client, path, serializer, seed }
    }

    /// Sets the value with which the node is created if it is missing. An existing value stays. Default: none; the node
    /// is not created.
    #[doc(alias = "seedValue")]
    pub fn seed(mut self, value: impl Into<S::Item>) -> Self {
        self.seed = Some(self.serializer.serialize(&value.into()).map_err(|error| error.to_string()));
        self
    }

    /// Creates the node with the [seed](Self::seed) if it is missing, and its parents as containers. Waits until the
    /// node was read.
    ///
    /// The creation is retried as the client's [`RetryPolicy`](crate::RetryPolicy) allows. The first read waits as long
    /// as necessary, even across losses of the connection and of the session, but only until the first error that is
    /// not transient.
    ///
    /// # Errors
    /// [`Error::Client`] if the path is malformed, the seed is too large, or a request failed, for example without
    /// permission; [`Error::Unserializable`]; [`Error::Closed`]. If the value cannot be decoded or read,
    /// [`get`](SharedValue::get) returns the error, not this call.
    ///
    /// # Cancel safety
    /// If the future was polled, the node may be created. Otherwise nothing is left.
    pub async fn start(self) -> Result<SharedValue<S::Item>, Error> {
        let path: Arc<str> = self.path.into();
        let failed = |error| Error::client(&path, error);
        self.client.open_path_to_read(&path).map_err(failed)?;
        if let Some(seed) = self.seed {
            let core = self.client.core();
            let seed = seed.map_err(|why| Error::Unserializable { path: Arc::clone(&path), why })?;
            core.check_data("create", &path, &seed).map_err(failed)?;
            core.ensure_node("create", &path, &seed).await.map_err(failed)?;
        }
        let serializer = Arc::new(self.serializer);
        let copy = Cache::node(&self.client, &*path).decode(Arc::clone(&serializer)).start().await;
        let copy = copy.map_err(|error| Error::cache(&path, error))?;
        Ok(SharedValue::new(self.client, path, copy, serializer))
    }
}

impl<S> fmt::Debug for SharedValueBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedValueBuilder").field("path", &self.path).finish_non_exhaustive()
    }
}
