//! The root that the connect string names. While the root of a cache is missing, it decides whether that is an empty
//! tree or an error.

use std::sync::Arc;

use futures::future::FutureExt;
use futures::stream::{self, BoxStream, StreamExt};

use crate::client::session::Session;
use crate::engine::{Error, Watch};
use crate::util::wait::forever;

/// What is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chroot {
    /// The root of the cache was there until now.
    Unknown,
    /// It exists, or the connect string names none.
    There,
    Missing,
    /// It is missing, and that was reported.
    Reported,
}

impl Chroot {
    pub(super) fn is_missing(self) -> bool {
        matches!(self, Chroot::Missing | Chroot::Reported)
    }

    /// Returns what is known after an answer.
    pub(super) fn found(self, is_there: bool) -> Self {
        match (is_there, self) {
            (true, _) => Chroot::There,
            (false, Chroot::Reported) => Chroot::Reported,
            (false, _) => Chroot::Missing,
        }
    }
}

/// Returns whether the root of the connect string exists: now, and after each event of it.
pub(super) fn follow(session: &Arc<Session>) -> BoxStream<'static, Result<bool, Error>> {
    let session = Arc::clone(session);
    let found = move |watch: Option<Watch>| {
        let session = Arc::clone(&session);
        async move {
            if let Some(watch) = watch {
                watch.await;
            }
            let never = || Watch::new(forever().boxed());
            let (found, watch) = match session.watch_exists("/").await {
                Ok((found, watch)) => (Ok(found.is_some()), watch),
                // It is there, but may not be read.
                Err(Error::NoAuth) => (Ok(true), never()),
                Err(error) => (Err(error), never()),
            };
            Some((found, Some(watch)))
        }
    };
    stream::unfold(None, found).boxed()
}
