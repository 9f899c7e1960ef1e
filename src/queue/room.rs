//! How many more items may be put: up to the maximum that was asked for, or as many as can be listed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::error::Error;
use super::names::Places;
use crate::backend;
use crate::client;
use crate::client::core::Core;
use crate::client::session::{Condition, Session};

/// Without a maximum of its own a queue is looked at once in so many puts at most.
const MOST_AT_ONCE: usize = 1_024;

/// What is known of the room in a queue, to one producer. Others put as well: together they may go over the maximum by what
/// each of them was sure of.
#[derive(Debug)]
pub(super) struct Room {
    max_items: Option<usize>,
    /// How many can be listed.
    limit: usize,
    /// So many fit without another look.
    left: usize,
}

impl Room {
    pub(super) fn new(max_items: Option<usize>, limit: usize) -> Self {
        Room { max_items, limit, left: 0 }
    }

    /// Takes the place of one item; waits for it if there is a maximum. `pending` tells how many were taken and may not have
    /// been put yet; `full` is told whether there was room at the last look.
    pub(super) async fn take(
        &mut self,
        core: &Core,
        places: &Places,
        pending: &watch::Sender<usize>,
        full: &AtomicBool,
    ) -> Result<(), Error> {
        // Only when a look has shown that there is no room is it waited for.
        let mut full_at_last_look = false;
        while self.left == 0 {
            let limit = self.max_items.unwrap_or(self.limit);
            let session = core.connected_session().await.map_err(|error| Error::client(&places.path, error))?;
            let Ok(connection) = session.connected().await else { continue };
            // Before the look: what is settled after it was not seen, and is pending no more.
            let on_their_way = *pending.borrow();
            let looked = if full_at_last_look {
                wait(&session, connection, places, limit, pending.subscribe()).await
            } else {
                count(&session, places).await.map(Some)
            };
            let items = match looked {
                Ok(Some(items)) => items,
                Ok(None) => {
                    full_at_last_look = false;
                    continue;
                }
                Err(error) if error.is_passing() => {
                    // The next round looks at what came of it.
                    let _ = session.connected_after_loss(connection).await;
                    continue;
                }
                Err(error) => {
                    let error = client::Error::from_backend("look for room in", &places.path, error);
                    return Err(Error::client(&places.path, error));
                }
            };
            self.left = self.share(limit.saturating_sub(items + on_their_way));
            full_at_last_look = self.left == 0;
            full.store(full_at_last_look, Ordering::Release);
            if full_at_last_look && self.max_items.is_none() {
                return Err(Error::ListingLimit { path: Arc::clone(&places.path), items, limit });
            }
        }
        self.left -= 1;
        Ok(())
    }

    /// Of what is free, as much as is taken before the next look. The others look as well.
    fn share(&self, free: usize) -> usize {
        free.div_ceil(2).min(MOST_AT_ONCE)
    }
}

/// How many items there are.
async fn count(session: &Arc<Session>, places: &Places) -> Result<usize, backend::Error> {
    let stat = session.exists(&places.items).await?;
    Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
}

/// As `count`; if there is no room besides what is on its way, `None` when something has changed.
async fn wait(
    session: &Arc<Session>,
    connection: u64,
    places: &Places,
    limit: usize,
    mut pending: watch::Receiver<usize>,
) -> Result<Option<usize>, backend::Error> {
    let on_their_way = *pending.borrow_and_update();
    let (children, _, watch) = match session.watch_children(&places.items).await {
        Err(backend::Error::NoNode) => return Ok(Some(0)),
        watched => watched?,
    };
    if children.len() + on_their_way < limit {
        return Ok(Some(children.len()));
    }
    let mut conditions = session.conditions();
    tokio::select! {
        biased;
        _ = watch => {}
        _ = conditions.wait_for(|condition| *condition != Condition::Connected(connection)) => {}
        // What failed on its way leaves room, of which no watch tells.
        _ = pending.changed() => {}
    }
    Ok(None)
}
