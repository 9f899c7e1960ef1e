//! Watches of nodes for users of a client: they report what happened, and when to read everything again.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, StreamExt, unfold};

use super::Client;
use super::error::{Error, ErrorKind};
use super::session::Session;
use crate::engine::{self, Event, PersistentEvent, PersistentWatch, WatchMode};
use crate::util::path;

/// What a [watch](Client::watch) reports. Paths are as the client names them, without its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case", tag = "event"))]
#[non_exhaustive]
pub enum WatchEvent {
    /// Read everything that you keep of the watched nodes: earlier changes are not reported, or not completely. This is
    /// the first event of a watch. It comes again after each reconnect, in each new session, and when more than 4 096
    /// events were not read in time.
    ReadAgain,
    /// The node was created.
    Created {
        /// The path of the node.
        path: String,
    },
    /// The data of the node was written, possibly with the same bytes.
    DataChanged {
        /// The path of the node.
        path: String,
    },
    /// A child of the node was created or deleted. Only [`WatchMode::Persistent`] reports it, of the watched node.
    ChildrenChanged {
        /// The path of the node.
        path: String,
    },
    /// The node was deleted.
    Deleted {
        /// The path of the node.
        path: String,
    },
}

impl WatchEvent {
    fn of(event: Event, path: String) -> Option<Self> {
        match event {
            Event::NodeCreated => Some(WatchEvent::Created { path }),
            Event::NodeDataChanged => Some(WatchEvent::DataChanged { path }),
            Event::NodeChildrenChanged => Some(WatchEvent::ChildrenChanged { path }),
            Event::NodeDeleted => Some(WatchEvent::Deleted { path }),
            Event::SessionEnded => None,
        }
    }

    /// Returns the path of the node that changed; `None` for [`ReadAgain`](Self::ReadAgain).
    pub fn path(&self) -> Option<&str> {
        match self {
            WatchEvent::ReadAgain => None,
            WatchEvent::Created { path }
            | WatchEvent::DataChanged { path }
            | WatchEvent::ChildrenChanged { path }
            | WatchEvent::Deleted { path } => Some(path),
        }
    }
}

/// The events of a [watch](Client::watch), in order. Dropping it removes the watch.
///
/// An error ends it: [`ErrorKind::Unimplemented`] from servers before 3.6, or another error that is not transient. It
/// also ends when the client is closed.
///
/// # Cancel safety
/// Dropping the future of `next` loses no event.
#[must_use = "nothing is watched before the first event is awaited"]
pub struct WatchEvents {
    events: BoxStream<'static, Result<WatchEvent, Error>>,
}

impl futures::Stream for WatchEvents {
    type Item = Result<WatchEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(cx)
    }
}

impl fmt::Debug for WatchEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchEvents").finish_non_exhaustive()
    }
}

impl Client {
    /// Watches a node, which need not exist, or the tree below it. Returns a stream that reports what happened there,
    /// and when to [read again](WatchEvent::ReadAgain). It also reports the changes that this client makes.
    ///
    /// The watch is permanent: it is restored after a reconnect, and armed again in the next session. It reports *that*
    /// something happened, not what the data is now. A read after an event returns the state at the event or a later
    /// one; a read after `ReadAgain` returns at least what the ensemble had confirmed when the watch was armed or the
    /// connection was restored. One read may be enough for several events of the same node. For a copy of the data that
    /// is kept up to date, use a `cache`.
    ///
    /// It costs two requests when the first event is awaited and in each new session, one after each reconnect, and
    /// none for an event.
    ///
    /// ```no_run
    /// use futures::StreamExt;
    /// use zookeeper_recipes::{Client, WatchEvent, WatchMode};
    ///
    /// # async fn example(client: Client) -> Result<(), zookeeper_recipes::Error> {
    /// let path = "/my-service/limits";
    /// let mut events = client.watch(path, WatchMode::Persistent)?;
    /// while let Some(event) = events.next().await {
    ///     match event? {
    ///         WatchEvent::ChildrenChanged { .. } => {}
    ///         _ => match client.get(path).await {
    ///             Ok((data, _)) => println!("{} bytes", data.len()),
    ///             Err(error) => println!("{error}"),
    ///         },
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidPath`]; [`ErrorKind::Closed`] if the client has been closed. A server drops events of nodes
    /// that this client may not read (ZooKeeper 3.9.2 and later).
    #[doc(alias = "addWatch")]
    #[doc(alias = "watchers")]
    pub fn watch(&self, path: &str, mode: WatchMode) -> Result<WatchEvents, Error> {
        path::validate_or_root(path)?;
        if self.is_closed() {
            return Err(Error::closed("client"));
        }
        let watcher = Watcher { client: self.clone(), path: path.to_owned(), mode, armed: None };
        let events = unfold(Some(watcher), |watcher| async {
            let mut watcher = watcher?;
            match watcher.next().await {
                Ok(event) => Some((Ok(event), Some(watcher))),
                Err(error) if error.kind() == ErrorKind::Closed => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(WatchEvents { events: events.fuse().boxed() })
    }
}

/// A watch, from session to session.
struct Watcher {
    client: Client,
    path: String,
    mode: WatchMode,
    /// The session with its watch, which survives a loss of the connection.
    armed: Option<(Arc<Session>, PersistentWatch)>,
}

impl Watcher {
    async fn next(&mut self) -> Result<WatchEvent, Error> {
        let core = self.client.core();
        let full = core.full_path(&self.path);
        loop {
            let synced = match &mut self.armed {
                None => {
                    let session = core.connected_session().await?;
                    let armed = session.retry_while_transient(|| arm(&session, &full, self.mode)).await;
                    armed.map(|watch| self.armed = Some((session, watch)))
                }
                Some((session, watch)) => match watch.next().await {
                    Some(PersistentEvent::Node { path, event }) => {
                        let path = core.config.namespace.strip(&path).to_owned();
                        match WatchEvent::of(event, path) {
                            Some(event) => return Ok(event),
                            None => continue,
                        }
                    }
                    // The new server may lag behind the old one.
                    Some(PersistentEvent::Resync) => session.retry_while_transient(|| session.sync(&full)).await,
                    None => Err(engine::Error::SessionEnded),
                },
            };
            match synced {
                Ok(()) => return Ok(WatchEvent::ReadAgain),
                Err(engine::Error::SessionEnded) => self.armed = None,
                Err(error) => return Err(Error::from_engine("watch", &self.path, error)),
            }
        }
    }
}

/// Arms the watch after a sync, so the server has caught up. Both requests leave in one write.
async fn arm(session: &Arc<Session>, full: &str, mode: WatchMode) -> Result<PersistentWatch, engine::Error> {
    let (synced, armed) = session.together(|| (session.sync(full), session.watch_persistent(full, mode)));
    let (synced, armed) = futures::join!(synced, armed);
    synced.and(armed)
}
