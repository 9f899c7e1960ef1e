//! What a place asks the server: where it stands, and watches on what that depends on.

use std::time::Duration;

use super::place::{Broken, Place, Position, Predecessor};
use super::{End, queue};
use crate::backend::{self, Watch};
use crate::client::Error;
use crate::path::join;
use crate::types::Stat;

/// After a reconnect every contender looks at its nodes: spread over 50 ms a hundred contenders of the session.
const LOOK_AGAIN_SPREAD: Duration = Duration::from_micros(500);

type Read = Result<(Vec<u8>, Stat, Watch), backend::Error>;

impl Place {
    /// After a reconnect: are our node and the one before it still there? The session's first heartbeat, a sync, is ahead
    /// of these reads on the connection, so they are not older than the reconnect.
    pub(super) async fn verify(&mut self, connection: u64) -> Result<(), Broken> {
        let spread = LOOK_AGAIN_SPREAD * u32::try_from(self.session.contenders()).unwrap_or(u32::MAX);
        if spread > LOOK_AGAIN_SPREAD {
            tokio::time::sleep(spread.mul_f64(self.core.random.unit())).await;
        }
        self.read_nodes(true, matches!(self.position, Position::Behind(_))).await?;
        self.verified = connection;
        Ok(())
    }

    /// Arms the watches that should be there and are not. Afterwards the position may be unknown.
    pub(super) async fn watch(&mut self) -> Result<(), Broken> {
        let behind = matches!(self.position, Position::Behind(_));
        let own = (behind || self.watch_own) && self.node.watch().is_none();
        let predecessor = matches!(self.position, Position::Behind(Predecessor { watch: None, .. }));
        self.read_nodes(own, predecessor).await
    }

    /// Reads our node and the one before it, with watches, in one flight.
    async fn read_nodes(&mut self, own: bool, predecessor: bool) -> Result<(), Broken> {
        let own = own.then(|| self.session.watch_data(&self.path));
        let predecessor = match &self.position {
            Position::Behind(before) if predecessor => Some(self.session.watch_data(&before.path)),
            _ => None,
        };
        if let Some(own) = own {
            let answer = own.await;
            self.own_seen(answer)?;
        }
        if let (Some(answer), Position::Behind(before)) = (predecessor, &mut self.position) {
            match answer.await {
                Ok((_, _, watch)) => before.watch = Some(watch),
                // It is gone, and there was nothing to tell us: look again.
                Err(backend::Error::NoNode) => self.position = Position::Unknown,
                Err(error) => return Err(self.broken(error)),
            }
        }
        Ok(())
    }

    /// Our node is there, and it is ours.
    fn own_seen(&mut self, answer: Read) -> Result<(), Broken> {
        match answer {
            Ok((data, stat, watch)) if stat.ephemeral_owner == self.session.id() => {
                *self.node.watch() = Some(watch);
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
            None => {
                let listed = self.session.list_children(&self.line.dir).await;
                listed.map_err(|error| self.broken(error))?.0
            }
        };
        let queue = queue(&self.session, &self.line.dir, children, &self.line.bases()).await;
        let queue = queue.map_err(|error| self.broken(error))?;
        self.note_exhaustion(queue.is_near_exhaustion());
        let name = self.node.name();
        let Some(position) = queue.position(name) else {
            return Err(Broken::End(End::NodeGone));
        };
        self.position = match queue.predecessor_of(name) {
            None => Position::Head,
            Some(before) => Position::Behind(Predecessor {
                path: join(&self.line.dir, before),
                was_head: position == 1,
                watch: None,
            }),
        };
        Ok(())
    }

    fn note_exhaustion(&mut self, near: bool) {
        if near && !self.node.restarts_counter() {
            tracing::warn!(
                dir = &*self.line.dir,
                "the counter of this directory nears 2^31 and cannot go on; it starts anew when the directory is deleted, \
                 which is tried whenever a holder leaves"
            );
        }
        self.node.set_restart_counter(near);
    }

    /// Sorts the failure of a request: what passes with the connection, and what does not.
    fn broken(&self, error: backend::Error) -> Broken {
        if error.is_passing() {
            return Broken::Connection;
        }
        Broken::End(End::Failed(Error::from_backend("stand in line at", &self.line.dir, error)))
    }
}
