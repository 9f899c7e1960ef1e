//! The requests of a place: it reads its position, and watches the nodes on which that depends.

use std::time::Duration;

use futures::future::{FutureExt, OptionFuture, TryFutureExt, join};

use super::place::{Broken, Place, Position, Predecessor};
use super::{End, queue};
use crate::backend::{self, Watch};
use crate::client::Error;
use crate::client::core::Heartbeat;
use crate::path;
use crate::types::Stat;

/// After a reconnect every contender reads its nodes. This spreads a hundred contenders of the session over 50 ms.
const LOOK_AGAIN_SPREAD: Duration = Duration::from_micros(500);

type Read = Result<(Vec<u8>, Stat, Option<Watch>), backend::Error>;

/// What to do about our own node.
enum Own {
    Leave,
    Read,
    Watch,
}

impl Place {
    /// Checks after a reconnect that our node and the one before it still exist. The session's first heartbeat is ahead of
    /// these reads on the connection, so they are not older than the reconnect.
    pub(super) async fn verify(&mut self, connection: u64) -> Result<(), Broken> {
        let spread = LOOK_AGAIN_SPREAD * u32::try_from(self.session.contenders()).unwrap_or(u32::MAX);
        if spread > LOOK_AGAIN_SPREAD {
            tokio::time::sleep(spread.mul_f64(self.core.random.unit())).await;
        }
        let own = if self.watches_own() { Own::Watch } else { Own::Read };
        self.read_nodes(own, matches!(self.position, Position::Behind(_))).await?;
        self.verified = connection;
        Ok(())
    }

    /// Arms the missing watches. Afterwards the position may be unknown.
    pub(super) async fn watch(&mut self) -> Result<(), Broken> {
        let own = if self.watches_own() && self.node.watch().is_none() { Own::Watch } else { Own::Leave };
        let predecessor = matches!(self.position, Position::Behind(Predecessor { watch: None, .. }));
        self.read_nodes(own, predecessor).await
    }

    /// Whether to watch our node. A waiter that lists the line before it holds does not, as the list shows the node.
    fn watches_own(&self) -> bool {
        match &self.position {
            Position::Unknown => false,
            Position::Head => self.watch_own,
            Position::Behind(before) => before.was_head,
        }
    }

    /// Reads our node, and the one before it with a watch, in one round trip.
    async fn read_nodes(&mut self, own: Own, predecessor: bool) -> Result<(), Broken> {
        let (own, predecessor) = self.session.together(|| {
            let own = match own {
                Own::Leave => None,
                Own::Read => {
                    let read = self.session.get_data(&self.path);
                    Some(read.map_ok(|(data, stat)| (data, stat, None)).left_future())
                }
                Own::Watch => {
                    let read = self.session.watch_data(&self.path);
                    Some(read.map_ok(|(data, stat, watch)| (data, stat, Some(watch))).right_future())
                }
            };
            let predecessor = match &self.position {
                Position::Behind(before) if predecessor => Some(self.session.watch_data(&before.path)),
                _ => None,
            };
            (own, predecessor)
        });
        if let Some(own) = own {
            let answer = own.await;
            self.own_seen(answer)?;
        }
        if let (Some(answer), Position::Behind(before)) = (predecessor, &mut self.position) {
            match answer.await {
                Ok((_, _, watch)) => before.watch = Some(watch),
                // It was deleted while it was not watched: list again.
                Err(backend::Error::NoNode) => self.stands(Position::Unknown),
                Err(error) => return Err(self.broken(error)),
            }
        }
        Ok(())
    }

    /// Checks that our node exists and that our session owns it.
    fn own_seen(&mut self, answer: Read) -> Result<(), Broken> {
        match answer {
            Ok((data, stat, watch)) if stat.ephemeral_owner == self.session.id() => {
                if watch.is_some() {
                    *self.node.watch() = watch;
                }
                self.note_data(&data);
                Ok(())
            }
            Ok(_) | Err(backend::Error::NoNode) => Err(Broken::End(End::NodeGone)),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Finds our position in the line.
    pub(super) async fn look(&mut self) -> Result<(), Broken> {
        let children = match self.children.take() {
            Some(children) => children,
            None => self.list().await?,
        };
        let queue = queue(&self.session, &self.line.dir, children, &self.line.bases()).await;
        let queue = queue.map_err(|error| self.broken(error))?;
        self.note_exhaustion(queue.is_near_exhaustion());
        let name = self.node.name();
        let Some(position) = queue.position(name) else {
            return Err(Broken::End(End::NodeGone));
        };
        self.stands(match queue.predecessor_of(name) {
            None => Position::Head,
            Some(before) => Position::Behind(Predecessor {
                path: path::join(&self.line.dir, before),
                was_head: position == 1,
                watch: None,
            }),
        });
        Ok(())
    }

    /// Lists the directory. If it does not exist, another client deleted both it and our node.
    ///
    /// The list may show that we are first. If nothing has extended the lease until now, it is proven in the same round trip:
    /// both requests are handed over before either is awaited.
    async fn list(&self) -> Result<Vec<String>, Broken> {
        let (proof, listed) = self.session.together(|| {
            let proof = self.session.grant().is_none().then(|| match self.core.config.heartbeat {
                Heartbeat::Sync => self.session.heartbeat(),
                Heartbeat::Quorum => self.session.quorum_heartbeat(),
            });
            (proof, self.session.list_children(&self.line.dir))
        });
        // If the proof fails, the lease gives no grant, so nothing is held.
        let (listed, _) = join(listed, OptionFuture::from(proof)).await;
        match listed {
            Ok((children, _)) => Ok(children),
            Err(backend::Error::NoNode) => Err(Broken::End(End::NodeGone)),
            Err(error) => Err(self.broken(error)),
        }
    }

    fn note_exhaustion(&mut self, near: bool) {
        let made = near.then(|| self.core.made.by(&self.line.dir)).flatten();
        if near && !self.exhaustion_told {
            let how = match made {
                Some(_) => "that is tried whenever a participant leaves",
                None => "delete it when it has no participants: this client does not, as it has not made it",
            };
            tracing::warn!(
                dir = &*self.line.dir,
                how,
                "the counter of this directory nears 2^31 and cannot go on; it starts again when the directory is deleted"
            );
        }
        self.exhaustion_told = near;
        self.node.set_restart_counter(made);
    }

    /// Sorts the failure of a request: one that passes with the connection, or one that does not.
    fn broken(&self, error: backend::Error) -> Broken {
        if error.is_passing() {
            return Broken::Connection;
        }
        Broken::End(End::Failed(Error::from_backend("stand in line at", &self.line.dir, error)))
    }
}
