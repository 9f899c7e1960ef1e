//! Who leads, for anybody to see.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt};

use super::BASE;
use super::error::Error;
use crate::backend::{self, Watch};
use crate::client::session::{Condition, Session};
use crate::client::{self, Client};
use crate::contender;
use crate::contender::participants::Participant;
use crate::path;
use crate::path::join;

/// Who leads at `path`, now and after every change, for participants and bystanders alike: `None` while nobody does.
///
/// The latest leader always comes; one that led only for a moment may be left out, and a change is seen once the server
/// that is asked knows of it. While there is no connection nothing comes. An error that does not pass by itself comes as
/// the last item.
///
/// ```no_run
/// use futures::StreamExt;
/// use zookeeper_recipes::{Client, leader_latch};
///
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut leaders = leader_latch::observe_leader(&client, "/my-service/leader")?;
/// while let Some(leader) = leaders.next().await {
///     match leader? {
///         Some(leader) => println!("{} leads", leader.id),
///         None => println!("nobody leads"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Client`] for a malformed path.
pub fn observe_leader(client: &Client, path: impl Into<String>) -> Result<LeaderStream, Error> {
    let path = path.into();
    path::validate(&path).map_err(|error| Error::client(&path, error.into()))?;
    Ok(stream(client.clone(), path.into()))
}

/// See [`observe_leader`].
pub struct LeaderStream {
    leaders: BoxStream<'static, Result<Option<Participant>, Error>>,
}

impl Stream for LeaderStream {
    type Item = Result<Option<Participant>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.leaders.poll_next_unpin(cx)
    }
}

impl fmt::Debug for LeaderStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderStream").finish_non_exhaustive()
    }
}

pub(super) fn stream(client: Client, path: Arc<str>) -> LeaderStream {
    let dir: Arc<str> = client.core().full_path(&path).into();
    let observer = Watcher { client, path, dir, told: None, pending: None };
    let leaders = futures::stream::unfold(Some(observer), |observer| async move {
        let mut observer = observer?;
        match observer.next().await {
            Ok(leader) => Some((Ok(leader), Some(observer))),
            Err(Error::Closed { .. }) => None,
            Err(error) => Some((Err(error), None)),
        }
    });
    LeaderStream { leaders: leaders.fuse().boxed() }
}

/// Watches the head of the line.
struct Watcher {
    client: Client,
    path: Arc<str>,
    dir: Arc<str>,
    /// What was told last: the node of the leader, or nobody.
    told: Option<Option<String>>,
    pending: Option<Pending>,
}

/// What must happen before it is worth looking again.
struct Pending {
    session: Arc<Session>,
    connection: u64,
    watch: Watch,
}

impl Pending {
    async fn over(self) {
        let mut conditions = self.session.conditions();
        let here = Condition::Connected(self.connection);
        tokio::select! {
            biased;
            _ = self.watch => {}
            _ = conditions.wait_for(|condition| *condition != here) => {}
        }
    }
}

/// The head of the line at one moment.
struct Look {
    leader: Option<Participant>,
    watch: Watch,
}

impl Watcher {
    /// The next leader that differs from the one told last.
    async fn next(&mut self) -> Result<Option<Participant>, Error> {
        loop {
            if let Some(pending) = self.pending.take() {
                pending.over().await;
            }
            let session = self.client.core().connected_session().await.map_err(|error| self.error(error))?;
            let Ok(connection) = session.connected().await else {
                continue;
            };
            match self.look(&session).await {
                Ok(Some(Look { leader, watch })) => {
                    self.pending = Some(Pending { session, connection, watch });
                    let node = leader.as_ref().map(|leader| leader.path.clone());
                    if self.told.as_ref() != Some(&node) {
                        self.told = Some(node);
                        return Ok(leader);
                    }
                }
                // It changed while we looked.
                Ok(None) => {}
                Err(error) if error.is_passing() => {
                    // The next round looks at what came of it.
                    let _ = session.connected_after_loss(connection).await;
                }
                Err(error) => {
                    return Err(self.error(client::Error::from_backend("observe the leader at", &self.path, error)));
                }
            }
        }
    }

    fn error(&self, error: client::Error) -> Error {
        Error::client(&self.path, error)
    }

    /// After a sync, as the server may lag behind what was told already.
    async fn look(&self, session: &Arc<Session>) -> Result<Option<Look>, backend::Error> {
        let (sync, list) = (session.sync(&self.dir), session.list_children(&self.dir));
        let (sync, list) = futures::join!(sync, list);
        sync?;
        let children = match list {
            Ok((children, _)) => children,
            Err(backend::Error::NoNode) => return self.look_for_dir(session).await,
            Err(error) => return Err(error),
        };
        let queue = contender::queue(session, &self.dir, children, &[BASE]).await?;
        match queue.head() {
            Some(head) => self.look_at(session, head).await,
            None => self.look_for_children(session).await,
        }
    }

    async fn look_at(&self, session: &Arc<Session>, head: &str) -> Result<Option<Look>, backend::Error> {
        let full = join(&self.dir, head);
        match session.watch_data(&full).await {
            Ok((data, _, watch)) => {
                let leader = Participant::new(&data, join(&self.path, head), true);
                Ok(Some(Look { leader: Some(leader), watch }))
            }
            Err(backend::Error::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn look_for_children(&self, session: &Arc<Session>) -> Result<Option<Look>, backend::Error> {
        match session.watch_children(&self.dir).await {
            Ok((children, _, watch)) => {
                let nobody = children.iter().all(|name| contender::order::number_of(name, &[BASE]).is_none());
                Ok(nobody.then_some(Look { leader: None, watch }))
            }
            Err(backend::Error::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn look_for_dir(&self, session: &Arc<Session>) -> Result<Option<Look>, backend::Error> {
        let (found, watch) = session.watch_exists(&self.dir).await?;
        Ok(found.is_none().then_some(Look { leader: None, watch }))
    }
}
