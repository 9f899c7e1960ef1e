//! Entering: create the member's node, then wait for `ready`, and create it if enough members have arrived.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep_until};

use super::error::Error;
use super::member::{AttemptError, LONG, Member};
use super::znodes::{View, commit};
use crate::client::owned_node::OwnedNode;
use crate::client::{parents, protection};
use crate::engine::{self, Event, Op, Watch};
use crate::layout::double_barrier::READY;
use crate::util::wait::{fired, sleep_until_opt};
use crate::util::znode::{CreateMode, Stat};

/// Several members can see that enough have arrived. The last to arrive opens the round; the others give it this much
/// time to do so.
const HEAD_START: Duration = Duration::from_millis(100);

/// What a member sees after it has created its node.
pub(super) struct Look {
    pub(super) view: View,
    /// `ready`, if it existed.
    pub(super) ready: Option<Stat>,
    /// Fires when `ready` appears, if it did not exist.
    watch: Watch,
}

/// Why a wait ended.
enum Wake {
    Opened,
    /// Something changed: look again.
    Changed,
    /// The member that should open the round has had its time.
    OpenerLate,
    TimeOver,
}

impl Member {
    /// Enters. Returns false if the time was up first; then there is no node. If the future is dropped, the caller must
    /// call [`withdraw`](Self::withdraw).
    pub(super) async fn enter(&mut self, patience: Option<Instant>) -> Result<bool, Error> {
        let mut asked = false;
        loop {
            let Some(connection) = self.connection(patience).await? else {
                return match (&self.leftover, asked) {
                    (Some(_), _) => Err(Error::left_behind(&self.znodes.path)),
                    (None, true) => Ok(false),
                    (None, false) => Err(Error::no_server_asked(&self.znodes.path)),
                };
            };
            asked = true;
            match self.enter_on(connection, patience).await {
                Ok(entered) => return Ok(entered),
                // The directory was deleted, and our node with it.
                Err(AttemptError::Request(engine::Error::NoNode)) => self.start_over(),
                Err(cause) => self.retry_or_fail("enter", connection, cause).await?,
            }
        }
    }

    /// Waits for a connection; `None` if the time was up first. Without a node any session will do, and `patience`
    /// limits the wait. With a node only its session will do, and only the caller limits the wait.
    async fn connection(&mut self, patience: Option<Instant>) -> Result<Option<u64>, Error> {
        loop {
            let reason = match &self.node {
                Some(_) => match self.session.connected().await {
                    Ok(connection) => return Ok(Some(connection)),
                    Err(reason) => return Err(self.ended("enter", reason)),
                },
                None => tokio::select! {
                    biased;
                    connected = self.session.connected() => match connected {
                        Ok(connection) => return Ok(Some(connection)),
                        Err(reason) => reason,
                    },
                    () = sleep_until_opt(patience) => return Ok(None),
                },
            };
            tracing::debug!(
                event = "session_ended_before_entry",
                path = &*self.znodes.path,
                ?reason,
                "the session ended before there was a node"
            );
            tokio::select! {
                biased;
                session = self.znodes.core.connected_session() => {
                    self.session = session.map_err(|error| Error::client(&self.znodes.path, error))?;
                }
                () = sleep_until_opt(patience) => return Ok(None),
            }
        }
    }

    async fn enter_on(&mut self, connection: u64, patience: Option<Instant>) -> Result<bool, AttemptError> {
        self.delete_leftover().await?;
        loop {
            let look = match (&self.node, self.czxid) {
                (None, _) => match self.arrive().await? {
                    Some(look) => look,
                    None => continue,
                },
                (Some(_), None) => {
                    self.recover().await?;
                    continue;
                }
                (Some(_), Some(_)) => match self.look().await {
                    Err(engine::Error::NoNode) => {
                        self.start_over();
                        continue;
                    }
                    look => look?,
                },
            };
            if !look.view.own {
                self.start_over();
                continue;
            }
            let entered = match look.ready {
                Some(ready) if Some(ready.czxid) > self.czxid => true,
                Some(ready) => self.join_open_round(&look.view, &ready).await?,
                None => match self.await_opening(look, connection, patience).await? {
                    Some(false) => return Ok(false),
                    opened => opened.is_some(),
                },
            };
            if entered {
                self.confirm_lease().await?;
                return Ok(true);
            }
        }
    }

    /// Takes a new name after the node was deleted, alone or with the directory.
    fn start_over(&mut self) {
        tracing::warn!(
            event = "node_deleted",
            path = &*self.znodes.path,
            node = &*self.path,
            "another client deleted our node; creating a new one"
        );
        self.gone();
        self.take_name();
    }

    /// Deletes our node of an earlier session, which would count as another member.
    async fn delete_leftover(&mut self) -> Result<(), engine::Error> {
        if let Some(leftover) = &self.leftover {
            match self.session.delete(leftover, None).await {
                Ok(_) | Err(engine::Error::NoNode) => self.leftover = None,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Creates the node and looks at the barrier, in one flight. Returns `None` if the directory had to be created
    /// first, or if the outcome of the create has to be looked up.
    async fn arrive(&mut self) -> Result<Option<Look>, engine::Error> {
        let (znodes, session) = (&self.znodes, &self.session);
        self.node = Some(OwnedNode::expected(session, &znodes.core.janitor, &znodes.dir, self.name.clone()));
        self.ready_needs_cleanup = true;
        let acls = &znodes.core.config.acls;
        let create = session.create(&self.path, &znodes.data, CreateMode::Ephemeral, acls);
        let (list, ready) = (session.list_children(&znodes.dir), session.watch_exists(&znodes.ready));
        let (created, listed, ready) = futures::join!(create, list, ready);
        match created {
            Ok((_, stat)) => self.created(stat.czxid),
            // Names are unique, so it is ours, from an attempt whose answer was lost.
            Err(engine::Error::NodeExists) => return Ok(None),
            Err(error) if error.leaves_outcome_unknown() => return Err(error),
            Err(error) => {
                self.gone();
                if error != engine::Error::NoNode {
                    return Err(error);
                }
                let (session, znodes) = (&self.session, &self.znodes);
                return parents::try_create(session, &znodes.dir, &znodes.core.config.acls).await.map(|_| None);
            }
        }
        let ((ready, watch), (children, stat)) = (ready?, listed?);
        Ok(Some(Look { view: View::new(children, stat, &self.name), ready, watch }))
    }

    fn created(&mut self, czxid: i64) {
        self.czxid = Some(czxid);
        if let Some(node) = &mut self.node {
            node.created(self.path.clone());
        }
    }

    /// Looks for the node of an unanswered create. The node counts only if our current session owns it.
    async fn recover(&mut self) -> Result<(), engine::Error> {
        let found = protection::find(&self.session, &self.znodes.dir, &self.name).await?;
        let stat = match found {
            Some(_) => self.session.exists(&self.path).await?,
            None => None,
        };
        match stat {
            Some(stat) if stat.ephemeral_owner == self.session.id() => self.created(stat.czxid),
            // Others may have seen the node before it was gone, so the next one gets another name.
            _ => {
                self.gone();
                self.take_name();
            }
        }
        Ok(())
    }

    /// Looks at the barrier, in one flight. The list comes first, because every decision checks the generation number
    /// that came with it. That check notices a change after the list. If `ready` were read before the list, a change in
    /// between would go unnoticed.
    async fn look(&self) -> Result<Look, engine::Error> {
        let list = self.session.list_children(&self.znodes.dir);
        let ready = self.session.watch_exists(&self.znodes.ready);
        let (listed, ready) = futures::join!(list, ready);
        let ((children, stat), (ready, watch)) = (listed?, ready?);
        Ok(Look { view: View::new(children, stat, &self.name), ready, watch })
    }

    /// Waits until the round is open, or opens it if enough members have arrived, and returns `Some(true)`. Returns
    /// `Some(false)` if the time was up and the node is gone, and `None` if the caller has to look again.
    async fn await_opening(
        &mut self,
        look: Look,
        connection: u64,
        patience: Option<Instant>,
    ) -> Result<Option<bool>, engine::Error> {
        let Look { view, watch, .. } = look;
        let mut ready = Some(watch);
        let enough = view.others.len() + 1 >= self.znodes.members;
        // The directory's last change is our create, so all others arrived before us.
        let last = Some(view.stat.pzxid) == self.czxid;
        let wake = match enough && last {
            true => Wake::OpenerLate,
            false => self.wait(&mut ready, connection, patience, enough).await?,
        };
        let done = match wake {
            Wake::Opened => return Ok(Some(true)),
            Wake::Changed => return Ok(None),
            Wake::OpenerLate => self.open(&view).await?.then_some(true),
            Wake::TimeOver => self.give_up(&view).await?.then_some(false),
        };
        // If a change on this connection caused the refusal, its event came before the refusal.
        Ok(done.or_else(|| (fired(&mut ready).now_or_never() == Some(Event::NodeCreated)).then_some(true)))
    }

    /// Waits for the next event. `enough` means that enough members have arrived, so one is about to open the round.
    async fn wait(
        &mut self,
        ready: &mut Option<Watch>,
        connection: u64,
        patience: Option<Instant>,
        enough: bool,
    ) -> Result<Wake, engine::Error> {
        let begun = Instant::now();
        // Returned to the node afterwards: deleting the node ends the watch at no cost.
        let mut own = self.node.as_mut().and_then(|node| node.watch().take());
        let wake = loop {
            tokio::select! {
                biased;
                event = fired(ready) => {
                    break if event == Event::NodeCreated { Wake::Opened } else { Wake::Changed };
                }
                () = self.session.disconnected(connection) => return Err(engine::Error::ConnectionLoss),
                _ = fired(&mut own) => {
                    own = None;
                    break Wake::Changed;
                }
                () = sleep_until(begun + HEAD_START), if enough => break Wake::OpenerLate,
                () = sleep_until_opt(patience) => break Wake::TimeOver,
                () = sleep_until(begun + LONG), if own.is_none() => {
                    match self.session.watch_data(&self.path).await {
                        Ok((_, _, watch)) => own = Some(watch),
                        Err(engine::Error::NoNode) => break Wake::Changed,
                        Err(error) => return Err(error),
                    }
                }
            }
        };
        if let Some(node) = &mut self.node {
            *node.watch() = own;
        }
        Ok(wake)
    }

    /// Opens the round, if the counted members still exist and the generation has not changed since.
    async fn open(&self, view: &View) -> Result<bool, engine::Error> {
        let counted = view.others.iter().take(self.znodes.members - 1).chain([&self.name]);
        let mut ops: Vec<Op> = counted.map(|name| Op::Check { path: self.znodes.child(name), version: None }).collect();
        ops.push(self.znodes.advance_generation(&self.session, &view.stat).await?);
        let acls = self.znodes.core.config.acls.clone();
        ops.push(Op::Create {
            path: self.znodes.ready.to_string(),
            data: Vec::new(),
            mode: CreateMode::Persistent,
            acls,
        });
        let opened = commit(&self.session, ops).await?;
        tracing::debug!(
            event = "round_opening",
            path = &*self.znodes.path,
            opened,
            members = view.others.len() + 1,
            "this member tried to create `{READY}`"
        );
        Ok(opened)
    }

    /// Deletes the node, if no round has opened since this view, which showed none.
    async fn give_up(&mut self, view: &View) -> Result<bool, engine::Error> {
        let ops = vec![
            Op::Check { path: self.znodes.dir.to_string(), version: Some(view.stat.version) },
            Op::Delete { path: self.path.to_string(), version: None },
        ];
        let gone = commit(&self.session, ops).await?;
        if gone {
            self.gone();
            self.ready_needs_cleanup = false;
        }
        Ok(gone)
    }

    /// Asks the servers to confirm the session if the lease is over: a process that was stopped may learn of an opening
    /// long after its session has expired.
    async fn confirm_lease(&self) -> Result<(), engine::Error> {
        if self.session.grant().is_none() {
            self.session.exists(&self.path).await?;
        }
        Ok(())
    }
}
