//! Leaving: all members delete their nodes, the lowest one last, together with `ready`.
//!
//! The lowest member waits for the highest, repeatedly, until it is alone. Every other member deletes its node first,
//! and then waits for the generation to change, which is the end of the round. It also watches the lowest member,
//! because another member must end the round if the lowest one is gone before that.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::error::Error;
use super::member::{AttemptError, LONG, Member};
use super::znodes::{Generation, View, commit};
use crate::engine::{self, Event, Op, Watch};
use crate::util::wait::{fired, sleep_until_opt};

/// Why a wait ended.
enum Wake {
    /// The generation changed: the round is over.
    Over,
    /// Something changed: look again.
    Changed,
    TimeOver,
}

impl Member {
    /// Leaves. Returns false if the time was up before all others had left. If the future is dropped, the caller must
    /// call [`withdraw`](Self::withdraw).
    pub(super) async fn leave(&mut self, patience: Option<Instant>) -> Result<bool, Error> {
        loop {
            let connection = match self.session.connected().await {
                Ok(connection) => connection,
                Err(reason) => return Err(self.ended("leave", reason)),
            };
            match self.leave_on(connection, patience).await {
                Ok(all_left) => {
                    self.ready_needs_cleanup = false;
                    return Ok(all_left);
                }
                Err(cause) => self.retry_or_fail("leave", connection, cause).await?,
            }
        }
    }

    async fn leave_on(&mut self, connection: u64, patience: Option<Instant>) -> Result<bool, AttemptError> {
        let mut generation: Option<Watch> = None;
        loop {
            let Some(view) = self.list_members().await? else { return Ok(true) };
            if view.others.is_empty() {
                if self.end_round(&view).await? {
                    return Ok(true);
                }
                continue;
            }
            let lowest_is_own = view.own && self.name < view.others[0];
            let mut other = if lowest_is_own {
                let highest = self.znodes.child(&view.others[view.others.len() - 1]);
                watched(self.session.watch_data(&highest).await)?
            } else {
                match self.step_out(&view, &mut generation).await? {
                    Some(lowest) => lowest,
                    None => return Ok(true),
                }
            };
            if other.is_none() {
                continue;
            }
            match self.await_others(&mut generation, &mut other, connection, patience).await? {
                Wake::Over => return Ok(true),
                Wake::Changed => {}
                Wake::TimeOver => return self.leave_early().await,
            }
        }
    }

    /// Lists the members; `None` if the round is over, as far as a member without a node can tell.
    async fn list_members(&mut self) -> Result<Option<View>, AttemptError> {
        let view = match self.znodes.view(&self.session, &self.name).await {
            Ok(view) => Some(view),
            Err(engine::Error::NoNode) => None,
            Err(error) => return Err(error.into()),
        };
        match view {
            Some(view) if view.own => {
                self.round = Some(view.generation());
                Ok(Some(view))
            }
            view => {
                let stepped_out = self.stepped_out;
                self.gone();
                if !stepped_out {
                    return Err(AttemptError::NodeDeleted);
                }
                Ok(view.filter(|view| Some(view.generation()) == self.round))
            }
        }
    }

    /// Ends the round as the last member. Returns false if another member has appeared.
    async fn end_round(&mut self, view: &View) -> Result<bool, engine::Error> {
        if !view.own {
            // The member that should have ended the round has crashed.
            return Ok(!view.ready || self.znodes.remove_ready(&self.session, &view.stat, None).await?);
        }
        let mut ops = vec![
            self.znodes.advance_generation(&self.session, &view.stat).await?,
            Op::Delete { path: self.path.to_string(), version: Some(self.version) },
        ];
        if view.ready {
            ops.push(Op::Delete { path: self.znodes.ready.to_string(), version: None });
        }
        self.stepped_out = true;
        if commit(&self.session, ops).await? {
            self.gone();
            return Ok(true);
        }
        // Another member may have joined the round by writing to our node. Then we are not the last.
        self.stepped_out = false;
        if let Some(stat) = self.session.exists(&self.path).await? {
            self.version = stat.version;
        }
        Ok(false)
    }

    /// Deletes the node if it still exists, and watches the generation and the lowest of the others, in one flight.
    /// Returns the watch of the lowest, if its node exists. `None` means that the round is over.
    async fn step_out(
        &mut self,
        view: &View,
        generation: &mut Option<Watch>,
    ) -> Result<Option<Option<Watch>>, engine::Error> {
        let lowest = self.znodes.child(&view.others[0]);
        let watch_gate = generation.is_none().then(|| self.session.watch_data(&self.znodes.dir));
        let watch_lowest = self.session.watch_data(&lowest);
        let delete = self.node.is_some().then(|| self.session.delete(&self.path, None));
        self.stepped_out = true;
        let watch_gate = async {
            match watch_gate {
                Some(watched) => Some(watched.await),
                None => None,
            }
        };
        let delete = async {
            match delete {
                Some(deleted) => Some(deleted.await),
                None => None,
            }
        };
        let (watched_gate, lowest, deleted) = futures::join!(watch_gate, watch_lowest, delete);
        let was_there = matches!(deleted, Some(Ok(())));
        match deleted {
            Some(Ok(()) | Err(engine::Error::NoNode)) => self.gone(),
            Some(Err(error)) => return Err(error),
            None => {}
        }
        match watched_gate {
            Some(Ok((_, stat, watch))) => {
                // While our node existed, the round was open. If another client deleted it after it was listed, the
                // round may have ended since.
                if was_there {
                    self.round = Some(Generation::of(&stat));
                }
                if self.round != Some(Generation::of(&stat)) {
                    return Ok(None);
                }
                *generation = Some(watch);
            }
            Some(Err(engine::Error::NoNode)) => return Ok(None),
            Some(Err(error)) => return Err(error),
            None => {}
        }
        Ok(Some(watched(lowest)?))
    }

    async fn await_others(
        &mut self,
        generation: &mut Option<Watch>,
        other: &mut Option<Watch>,
        connection: u64,
        patience: Option<Instant>,
    ) -> Result<Wake, engine::Error> {
        let begun = Instant::now();
        let mut own = self.node.as_mut().and_then(|node| node.watch().take());
        let wake = loop {
            tokio::select! {
                biased;
                event = fired(generation) => {
                    *generation = None;
                    break match event {
                        Event::NodeDataChanged | Event::NodeDeleted => Wake::Over,
                        _ => Wake::Changed,
                    };
                }
                _ = fired(other) => break Wake::Changed,
                _ = fired(&mut own) => {
                    own = None;
                    break Wake::Changed;
                }
                () = self.session.disconnected(connection) => return Err(engine::Error::ConnectionLoss),
                () = sleep_until_opt(patience) => break Wake::TimeOver,
                // If another client deleted our node, the member that we wait for may already wait for the next round.
                () = sleep_until(begun + LONG), if self.node.is_some() && own.is_none() => {
                    own = watched(self.session.watch_data(&self.path).await)?;
                    if own.is_none() {
                        break Wake::Changed;
                    }
                }
            }
        };
        if let Some(node) = &mut self.node {
            *node.watch() = own;
        }
        Ok(wake)
    }

    /// Leaves without waiting for the others. Returns true if they have left by now.
    async fn leave_early(&mut self) -> Result<bool, AttemptError> {
        let delete = self.node.is_some().then(|| self.session.delete(&self.path, None));
        self.stepped_out = true;
        let (session, znodes, name) = (Arc::clone(&self.session), Arc::clone(&self.znodes), self.name.clone());
        // Sent after the delete, so the member that deletes last sees that no other is left.
        let list = session.list_children(&znodes.dir);
        if let Some(deleted) = delete {
            match deleted.await {
                Ok(()) | Err(engine::Error::NoNode) => self.gone(),
                Err(error) => return Err(error.into()),
            }
        }
        let view = match list.await {
            Ok((children, stat)) => View::new(children, stat, &name),
            Err(engine::Error::NoNode) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        if Some(view.generation()) != self.round {
            return Ok(true);
        }
        if view.others.is_empty() && view.ready {
            // If refused, another member has removed it, perhaps one that arrived for the next round.
            self.znodes.remove_ready(&session, &view.stat, None).await?;
        }
        Ok(view.others.is_empty())
    }
}

/// Returns the watch; `None` if the node does not exist.
fn watched<T, S>(watched: Result<(T, S, Watch), engine::Error>) -> Result<Option<Watch>, engine::Error> {
    match watched {
        Ok((_, _, watch)) => Ok(Some(watch)),
        Err(engine::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}
