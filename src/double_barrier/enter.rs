//! Entering: create the own node, then wait for `ready`, and create it if enough are there.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep_until};

use super::error::Error;
use super::member::{LONG, Member, Trouble, fired, over};
use super::site::{READY, View, commit};
use crate::backend::{self, Event, Op, Watch};
use crate::client::owned_node::OwnedNode;
use crate::client::{parents, protection};
use crate::types::{CreateMode, Stat};

/// Several can see that enough are there. The last to come opens; the others leave it this time for that.
const HEAD_START: Duration = Duration::from_millis(100);

/// What a member sees after it has created its node.
pub(super) struct Look {
    pub(super) view: View,
    /// The `ready` that was there, if one was.
    pub(super) ready: Option<Stat>,
    /// Fires when it appears, if there was none.
    watch: Watch,
}

/// Why a wait ended.
enum Wake {
    Opened,
    /// Something changed: look again.
    Changed,
    /// The one who should open has had its time.
    NobodyOpened,
    TimeOver,
}

impl Member {
    /// Enters; false if the time was over first, and then there is no node. Dropped at an await, [`withdraw`](Self::withdraw)
    /// is to follow.
    pub(super) async fn enter(&mut self, patience: Option<Instant>) -> Result<bool, Error> {
        let mut asked = false;
        loop {
            let Some(connection) = self.connection(patience).await? else {
                return match (&self.ghost, asked) {
                    (Some(_), _) => Err(Error::left_behind(&self.site.path)),
                    (None, true) => Ok(false),
                    (None, false) => Err(Error::no_server_asked(&self.site.path)),
                };
            };
            asked = true;
            match self.enter_on(connection, patience).await {
                Ok(entered) => return Ok(entered),
                // The directory was deleted, and our node with it.
                Err(Trouble::Request(backend::Error::NoNode)) => self.start_over(),
                Err(trouble) => self.bear("enter", connection, trouble).await?,
            }
        }
    }

    /// Waits for a connection; `None` if the time was over first. Without a node any session will do, and time matters; with
    /// one it is its session or none, and whoever waits decides how long.
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
                    () = over(patience) => return Ok(None),
                },
            };
            tracing::debug!(path = &*self.site.path, ?reason, "session over before there was a node");
            tokio::select! {
                biased;
                session = self.site.core.connected_session() => {
                    self.session = session.map_err(|error| Error::client(&self.site.path, error))?;
                }
                () = over(patience) => return Ok(None),
            }
        }
    }

    async fn enter_on(&mut self, connection: u64, patience: Option<Instant>) -> Result<bool, Trouble> {
        self.banish_ghost().await?;
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
                    Err(backend::Error::NoNode) => {
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
                Some(ready) => self.come_late(&look.view, &ready).await?,
                None => match self.await_opening(look, connection, patience).await? {
                    Some(false) => return Ok(false),
                    opened => opened.is_some(),
                },
            };
            if entered {
                self.prove().await?;
                return Ok(true);
            }
        }
    }

    /// The node, or the directory with it, is gone.
    fn start_over(&mut self) {
        tracing::warn!(path = &*self.path, "our node was deleted by somebody else; a new one is made");
        self.gone();
        self.take_name();
    }

    /// A node of ours of an earlier session would be counted as somebody else.
    async fn banish_ghost(&mut self) -> Result<(), backend::Error> {
        if let Some(ghost) = &self.ghost {
            match self.session.delete(ghost, None).await {
                Ok(_) | Err(backend::Error::NoNode) => self.ghost = None,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Creates the node and looks around, in one flight; nothing if the directory had to be made first, or the outcome is to
    /// be looked for.
    async fn arrive(&mut self) -> Result<Option<Look>, backend::Error> {
        let (site, session) = (&self.site, &self.session);
        self.node = Some(OwnedNode::expected(session, &site.core.janitor, &site.dir, self.name.clone()));
        self.loose_ends = true;
        let acls = &site.core.config.acls;
        let create = session.create(&self.path, &site.data, CreateMode::Ephemeral, acls);
        let (list, ready) = (session.list_children(&site.dir), session.watch_exists(&site.ready));
        let (created, listed, ready) = futures::join!(create, list, ready);
        match created {
            Ok((_, stat)) => self.created(stat.czxid),
            // Our own, of an attempt whose answer was lost: there is no such name twice.
            Err(backend::Error::NodeExists) => return Ok(None),
            Err(error) if error.leaves_outcome_unknown() => return Err(error),
            Err(error) => {
                self.gone();
                if error != backend::Error::NoNode {
                    return Err(error);
                }
                let (session, site) = (&self.session, &self.site);
                return match parents::create(session, &site.dir, &site.core.config.acls).await {
                    // A parent can be taken away between two steps.
                    Ok(_) | Err(backend::Error::NoNode) => Ok(None),
                    Err(error) => Err(error),
                };
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

    /// Looks for a node whose create was not answered. It counts only if our live session owns it.
    async fn recover(&mut self) -> Result<(), backend::Error> {
        let found = protection::find(&self.session, &self.site.dir, &self.name).await?;
        let stat = match found {
            Some(_) => self.session.exists(&self.path).await?,
            None => None,
        };
        match stat {
            Some(stat) if stat.ephemeral_owner == self.session.id() => self.created(stat.czxid),
            // It may have been there, and been seen: the next one is another.
            _ => {
                self.gone();
                self.take_name();
            }
        }
        Ok(())
    }

    /// Looks around, in one flight. The list comes first: whatever is decided compares the number of the gate that it tells,
    /// so what was seen after it need not be right any more, but what was seen before it would not be noticed to be wrong.
    async fn look(&self) -> Result<Look, backend::Error> {
        let list = self.session.list_children(&self.site.dir);
        let ready = self.session.watch_exists(&self.site.ready);
        let (listed, ready) = futures::join!(list, ready);
        let ((children, stat), (ready, watch)) = (listed?, ready?);
        Ok(Look { view: View::new(children, stat, &self.name), ready, watch })
    }

    /// Waits until the round is open, opening it if enough are there: `Some(true)`. `Some(false)` says that the time was over
    /// and the node is gone; `None` that it takes another look.
    async fn await_opening(
        &mut self,
        look: Look,
        connection: u64,
        patience: Option<Instant>,
    ) -> Result<Option<bool>, backend::Error> {
        let Look { view, watch, .. } = look;
        let mut ready = Some(watch);
        let enough = view.others.len() + 1 >= self.site.members;
        // The directory's last change is our create: all others were there before us.
        let last = Some(view.stat.pzxid) == self.czxid;
        let wake = match enough && last {
            true => Wake::NobodyOpened,
            false => self.wait(&mut ready, connection, patience, enough).await?,
        };
        let done = match wake {
            Wake::Opened => return Ok(Some(true)),
            Wake::Changed => return Ok(None),
            Wake::NobodyOpened => self.open(&view).await?.then_some(true),
            Wake::TimeOver => self.give_up(&view).await?.then_some(false),
        };
        // Of whatever got in the way on this connection, the event came before the refusal.
        Ok(done.or_else(|| (fired(&mut ready).now_or_never() == Some(Event::NodeCreated)).then_some(true)))
    }

    /// Waits for whatever comes next. `enough`: so many are there that somebody is about to open.
    async fn wait(
        &mut self,
        ready: &mut Option<Watch>,
        connection: u64,
        patience: Option<Instant>,
        enough: bool,
    ) -> Result<Wake, backend::Error> {
        let begun = Instant::now();
        // It goes back to the node afterwards, to end with it at no cost.
        let mut own = self.node.as_mut().and_then(|node| node.watch().take());
        let wake = loop {
            tokio::select! {
                biased;
                event = fired(ready) => {
                    break if event == Event::NodeCreated { Wake::Opened } else { Wake::Changed };
                }
                () = self.disturbed(connection) => return Err(backend::Error::ConnectionLoss),
                _ = fired(&mut own) => {
                    own = None;
                    break Wake::Changed;
                }
                () = sleep_until(begun + HEAD_START), if enough => break Wake::NobodyOpened,
                () = over(patience) => break Wake::TimeOver,
                () = sleep_until(begun + LONG), if own.is_none() => {
                    match self.session.watch_data(&self.path).await {
                        Ok((_, _, watch)) => own = Some(watch),
                        Err(backend::Error::NoNode) => break Wake::Changed,
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

    /// Opens the round, if those who were counted are there and nobody has turned the gate since.
    async fn open(&self, view: &View) -> Result<bool, backend::Error> {
        let counted = view.others.iter().take(self.site.members - 1).chain([&self.name]);
        let mut ops: Vec<Op> = counted.map(|name| Op::Check { path: self.site.child(name), version: None }).collect();
        ops.push(self.site.turn(&self.session, &view.stat).await?);
        let acls = self.site.core.config.acls.clone();
        ops.push(Op::Create {
            path: self.site.ready.to_string(),
            data: Vec::new(),
            mode: CreateMode::Persistent,
            acls,
        });
        let opened = commit(&self.session, ops).await?;
        tracing::debug!(path = &*self.site.path, opened, there = view.others.len() + 1, "{READY}");
        Ok(opened)
    }

    /// Takes the node away, if no round has opened since there was none in this view.
    async fn give_up(&mut self, view: &View) -> Result<bool, backend::Error> {
        let ops = vec![
            Op::Check { path: self.site.dir.to_string(), version: Some(view.stat.version) },
            Op::Delete { path: self.path.to_string(), version: None },
        ];
        let gone = commit(&self.session, ops).await?;
        if gone {
            self.gone();
            self.loose_ends = false;
        }
        Ok(gone)
    }

    /// A process that was stopped may learn of an opening long after its session was over: past the lease it asks first.
    async fn prove(&self) -> Result<(), backend::Error> {
        if self.session.grant().is_none() {
            self.session.exists(&self.path).await?;
        }
        Ok(())
    }
}
