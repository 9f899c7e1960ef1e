//! Observes the leader, for participants and for other clients.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt};

use super::error::Error;
use crate::client::{Client, ErrorKind};
use crate::contender::observe::Observer;
use crate::contender::participants::Participant;
use crate::layout::line;
use crate::util::path;

/// Returns a stream of the leader at `path`, now and after every change. The client need not be a participant. An item
/// is `None` while there is no leader.
///
/// The stream always yields the latest leader. It may skip one that led only for a moment, and it yields a change once
/// the server that the client is connected to knows of it. It yields nothing while there is no connection. An error
/// that is not transient is the last item.
///
/// ```no_run
/// use futures::StreamExt;
/// use zookeeper_recipes::{Client, leader_latch};
///
/// # async fn example(
/// #     client: Client,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let path = "/my-service/leader";
/// let mut leaders = leader_latch::observe_leader(&client, path)?;
/// while let Some(leader) = leaders.next().await {
///     match leader? {
///         Some(leader) => println!("{} leads", leader.id),
///         None => println!("there is no leader"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Client`] if the path is malformed.
pub fn observe_leader(client: &Client, path: impl Into<String>) -> Result<LeaderStream, Error> {
    let path = path.into();
    path::validate(&path).map_err(|error| Error::client(&path, error.into()))?;
    Ok(stream(client.clone(), path.into()))
}

/// A stream of the leader; see [`observe_leader`].
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
    let observer = Observer::new(client.core(), &path, line::LATCH);
    // The stream keeps the client alive.
    let leaders = futures::stream::unfold(Some((client, observer, None)), move |state| {
        let path = Arc::clone(&path);
        async move {
            let (client, mut observer, last) = state?;
            loop {
                let leader = match observer.first().await {
                    Ok(leader) => leader,
                    Err(error) if error.kind() == ErrorKind::Closed => return None,
                    Err(error) => return Some((Err(Error::client(&path, error)), None)),
                };
                let node = Some(leader.as_ref().map(|leader| leader.path.clone()));
                if node != last {
                    return Some((Ok(leader), Some((client, observer, node))));
                }
            }
        }
    });
    LeaderStream { leaders: leaders.fuse().boxed() }
}
