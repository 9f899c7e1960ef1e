//! Leaving: everybody's node goes, the lowest one's last, and `ready` with it.
//!
//! The lowest waits for the highest, again and again until it is alone. Everybody else deletes its node first, and then
//! waits for the gate to turn, which is the end of the round; and for the lowest, whose part somebody else must take if it
//! is gone before that.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::error::Error;
use super::member::{LONG, Member, Trouble, fired, over};
use super::site::{Gate, View, commit};
use crate::backend::{self, Event, Op, Watch};

/// Why a wait ended.
enum Wake {
    /// The gate turned: the round is over.
    Over,
    /// Something changed: look again.
    Changed,
    TimeOver,
}

impl Member {
    /// Leaves; false if the time was over before all others had left. Dropped at an await, [`withdraw`](Self::withdraw) is to
    /// follow.
    pub(super) async fn leave(&mut self, patience: Option<Instant>) -> Result<bool, Error> {
        loop {
            let connection = match self.session.connected().await {
                Ok(connection) => connection,
                Err(reason) => return Err(self.ended("leave", reason)),
            };
            match self.leave_on(connection, patience).await {
                Ok(all_left) => {
                    self.loose_ends = false;
                    return Ok(all_left);
                }
                Err(trouble) => self.bear("leave", connection, trouble).await?,
            }
        }
    }

    async fn leave_on(&mut self, connection: u64, patience: Option<Instant>) -> Result<bool, Trouble> {
        let mut gate: Option<Watch> = None;
        loop {
            let Some(view) = self.who_is_there().await? else { return Ok(true) };
            if view.others.is_empty() {
                if self.be_the_last(&view).await? {
                    return Ok(true);
                }
                continue;
            }
            let lowest_is_own = view.own && self.name < view.others[0];
            let mut other = if lowest_is_own {
                let highest = self.site.child(&view.others[view.others.len() - 1]);
                watched(self.session.watch_data(&highest).await)?
            } else {
                match self.step_out(&view, &mut gate).await? {
                    Some(lowest) => lowest,
                    None => return Ok(true),
                }
            };
            if other.is_none() {
                continue;
            }
            match self.await_others(&mut gate, &mut other, connection, patience).await? {
                Wake::Over => return Ok(true),
                Wake::Changed => {}
                Wake::TimeOver => return self.part().await,
            }
        }
    }

    /// Who is there; nothing if the round is over, as far as a member without a node can tell.
    async fn who_is_there(&mut self) -> Result<Option<View>, Trouble> {
        let view = match self.site.view(&self.session, &self.name).await {
            Ok(view) => Some(view),
            Err(backend::Error::NoNode) => None,
            Err(error) => return Err(error.into()),
        };
        match view {
            Some(view) if view.own => {
                self.round = Some(view.gate());
                Ok(Some(view))
            }
            view => {
                let stepped_out = self.stepped_out;
                self.gone();
                if !stepped_out {
                    return Err(Trouble::NodeDeleted);
                }
                Ok(view.filter(|view| Some(view.gate()) == self.round))
            }
        }
    }

    /// Nobody else is there: ends the round. False if that is no longer so.
    async fn be_the_last(&mut self, view: &View) -> Result<bool, backend::Error> {
        if !view.own {
            // Whoever should have done it has crashed.
            return Ok(!view.ready || self.site.remove_ready(&self.session, &view.stat, None).await?);
        }
        let mut ops = vec![
            self.site.turn(&self.session, &view.stat).await?,
            Op::Delete { path: self.path.to_string(), version: Some(self.version) },
        ];
        if view.ready {
            ops.push(Op::Delete { path: self.site.ready.to_string(), version: None });
        }
        self.stepped_out = true;
        if commit(&self.session, ops).await? {
            self.gone();
            return Ok(true);
        }
        // Somebody may have joined the round by writing to our node: then we are not the last.
        self.stepped_out = false;
        if let Some(stat) = self.session.exists(&self.path).await? {
            self.version = stat.version;
        }
        Ok(false)
    }

    /// Deletes the node, unless that is done, and watches the gate and the lowest of the others, in one flight: `Some` with the
    /// watch of the lowest, if it is there. `None` says that the round is over.
    async fn step_out(
        &mut self,
        view: &View,
        gate: &mut Option<Watch>,
    ) -> Result<Option<Option<Watch>>, backend::Error> {
        let lowest = self.site.child(&view.others[0]);
        let watch_gate = gate.is_none().then(|| self.session.watch_data(&self.site.dir));
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
        match deleted {
            Some(Ok(()) | Err(backend::Error::NoNode)) => self.gone(),
            Some(Err(error)) => return Err(error),
            None => {}
        }
        match watched_gate {
            Some(Ok((_, stat, watch))) => {
                // While our node stood, the round was on.
                if view.own {
                    self.round = Some(Gate::of(&stat));
                }
                if self.round != Some(Gate::of(&stat)) {
                    return Ok(None);
                }
                *gate = Some(watch);
            }
            Some(Err(backend::Error::NoNode)) => return Ok(None),
            Some(Err(error)) => return Err(error),
            None => {}
        }
        Ok(Some(watched(lowest)?))
    }

    async fn await_others(
        &mut self,
        gate: &mut Option<Watch>,
        other: &mut Option<Watch>,
        connection: u64,
        patience: Option<Instant>,
    ) -> Result<Wake, backend::Error> {
        let begun = Instant::now();
        let mut own = self.node.as_mut().and_then(|node| node.watch().take());
        let wake = loop {
            tokio::select! {
                biased;
                event = fired(gate) => {
                    *gate = None;
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
                () = self.disturbed(connection) => return Err(backend::Error::ConnectionLoss),
                () = over(patience) => break Wake::TimeOver,
                // The lowest may be waiting for one who waits for the next round, if its own node was deleted by somebody.
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

    /// Leaves without the others; true if they have left by now.
    async fn part(&mut self) -> Result<bool, Trouble> {
        let delete = self.node.is_some().then(|| self.session.delete(&self.path, None));
        self.stepped_out = true;
        let (session, site, name) = (Arc::clone(&self.session), Arc::clone(&self.site), self.name.clone());
        // Handed over behind the delete, so whoever deletes last sees that nobody is left.
        let list = session.list_children(&site.dir);
        if let Some(deleted) = delete {
            match deleted.await {
                Ok(()) | Err(backend::Error::NoNode) => self.gone(),
                Err(error) => return Err(error.into()),
            }
        }
        let view = match list.await {
            Ok((children, stat)) => View::new(children, stat, &name),
            Err(backend::Error::NoNode) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        if Some(view.gate()) != self.round {
            return Ok(true);
        }
        if view.others.is_empty() && view.ready {
            // Refused, somebody else has done it, or comes for the next round.
            self.site.remove_ready(&session, &view.stat, None).await?;
        }
        Ok(view.others.is_empty())
    }
}

/// The watch; none if there is no such node.
fn watched<T, S>(watched: Result<(T, S, Watch), backend::Error>) -> Result<Option<Watch>, backend::Error> {
    match watched {
        Ok((_, _, watch)) => Ok(Some(watch)),
        Err(backend::Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}
