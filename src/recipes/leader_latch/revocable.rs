//! The participant's side of a request to resign: the node that the request is written into, and the time until the
//! participant gives up its place.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use crate::client::core::Core;
use crate::client::owned_node::{DeletionTarget, OwnedNode};
use crate::client::parents;
use crate::client::session::Session;
use crate::contender::Hold;
use crate::engine;
use crate::layout::latch::{Asker, asker_of, request_of};
use crate::util::backoff::{AFTER_DELETION, AFTER_REFUSAL, Backoff};
use crate::util::clock::Instant;
use crate::util::path::split;
use crate::util::wait::{fired, forever, known};
use crate::util::znode::CreateMode;

/// What the participant has to do.
#[derive(Debug)]
pub(super) enum Notice {
    /// It was asked to resign, or is now asked by an operator too: its leader is to be told.
    Asked(Asker),
    /// It must give up its place.
    Due,
}

/// The requests for the present node of a participant.
pub(super) struct Requests {
    core: Arc<Core>,
    /// The path of the election, for the log.
    path: Arc<str>,
    /// How long a leader may still lead when it is asked. `None` if the participant cannot be asked.
    grace: Option<Duration>,
    /// The participant's node.
    node: Option<Arc<str>>,
    stage: Stage,
}

/// How far a request for the present node has come.
enum Stage {
    /// It cannot be asked: it has no node.
    Closed,
    /// The participant waits for a request.
    Open(Requested),
    /// It was asked. The node of requests stays until the place is given up: an operator may ask after that.
    Asked {
        by: Asker,
        /// When it gives up its place. `None` until its leader is told.
        due: Option<Instant>,
        requested: Requested,
    },
}

/// Resolves with the node of requests and with who asks.
type Requested = BoxFuture<'static, (Inbox, Asker)>;

impl Requests {
    pub(super) fn new(core: &Arc<Core>, path: &Arc<str>, grace: Option<Duration>) -> Self {
        Requests { core: Arc::clone(core), path: Arc::clone(path), grace, node: None, stage: Stage::Closed }
    }

    /// Accepts requests for this node, and for no earlier one. Without a node it cannot be asked.
    pub(super) fn follow(&mut self, place: Option<(&Arc<Session>, &Arc<str>)>) {
        let node = place.map(|(_, node)| node);
        if self.grace.is_none() || node == self.node.as_ref() {
            return;
        }
        self.node = node.cloned();
        self.stage = match place {
            Some((session, node)) => {
                Stage::Open(Box::pin(Inbox::new(&self.core, session, &self.path, node).requested(None)))
            }
            None => Stage::Closed,
        };
    }

    /// Waits for the next notice. If it is dropped, the next call resumes it.
    pub(super) async fn next(&mut self) -> Notice {
        match &mut self.stage {
            Stage::Open(requested) => {
                let (inbox, by) = requested.await;
                let requested = Box::pin(inbox.requested(Some(by)));
                self.stage = Stage::Asked { by, due: None, requested };
                Notice::Asked(by)
            }
            Stage::Asked { by, due, requested } => {
                let (core, due) = (&self.core, known(*due));
                let sleep = due.then(|due| core.runtime.sleep(due.since(core.clock.now())));
                let (inbox, later) = tokio::select! {
                    biased;
                    later = &mut *requested => later,
                    _ = sleep => return Notice::Due,
                };
                (*by, *requested) = (later, Box::pin(inbox.requested(Some(later))));
                Notice::Asked(later)
            }
            Stage::Closed => forever().await,
        }
    }

    /// Tells the leader, if the participant leads, and starts its grace period, unless that runs already. Otherwise
    /// there is nothing to finish.
    pub(super) fn start_grace(&mut self, term: Option<&Hold>) {
        let grace = term.and(self.grace).unwrap_or_default();
        if let Stage::Asked { due, .. } = &mut self.stage {
            due.get_or_insert(self.core.clock.now() + grace);
        }
        self.tell(term);
    }

    /// Returns who has asked, if the participant was asked.
    pub(super) fn asker(&self) -> Option<Asker> {
        match self.stage {
            Stage::Asked { by, .. } => Some(by),
            Stage::Closed | Stage::Open(_) => None,
        }
    }

    /// Tells the leader of a term that it was asked to resign, if that was so. A term may begin after the request: one
    /// that a suspension ended goes on with the same node.
    pub(super) fn tell(&self, term: Option<&Hold>) {
        if let (Stage::Asked { .. }, Some(term)) = (&self.stage, term) {
            term.revoke();
        }
    }
}

/// The node that a request is written into. It is kept in existence.
struct Inbox {
    core: Arc<Core>,
    session: Arc<Session>,
    /// The path of the election, for the log.
    election: Arc<str>,
    path: Arc<str>,
    /// Present from before the first create is handed over.
    node: Option<OwnedNode>,
    /// The node was created and not deleted since, as far as is known.
    exists: bool,
    /// The connection on which it was created or read last.
    seen_on: Option<u64>,
    refusals: Backoff,
    deletions: Backoff,
}

impl Inbox {
    fn new(core: &Arc<Core>, session: &Arc<Session>, election: &Arc<str>, participant: &str) -> Self {
        Inbox {
            core: Arc::clone(core),
            session: Arc::clone(session),
            election: Arc::clone(election),
            path: request_of(participant).into(),
            node: None,
            exists: false,
            seen_on: None,
            refusals: Backoff::new(AFTER_REFUSAL),
            deletions: Backoff::new(AFTER_DELETION),
        }
    }

    /// Waits for a request that says more than the `known` one. Never resolves once the session is over.
    async fn requested(mut self, known: Option<Asker>) -> (Self, Asker) {
        loop {
            let began = self.core.clock.now();
            let Ok(connection) = self.session.connected().await else { return forever().await };
            if self.seen_on.replace(connection).is_some_and(|before| before != connection) {
                // After a reconnect, not all participants of a session read at once.
                self.session.spread_out(&self.core.random).await;
            }
            let looked = match self.exists {
                true => self.look(connection, known).await,
                false => self.create().await.map(|()| None),
            };
            match looked {
                Ok(None) => {}
                Ok(Some(asker)) => return (self, asker),
                // Another client deleted it, or its directory.
                Err(engine::Error::NoNode) => {
                    self.exists = false;
                    let delay = self.core.next_delay(&mut self.deletions, began);
                    self.session.sleep(delay).await;
                }
                Err(error) => {
                    if let Err(error) = self.session.wait_if_transient(error, connection).await {
                        let delay = self.core.next_delay(&mut self.refusals, began);
                        let (path, node) = (&*self.election, &*self.path);
                        tracing::warn!(
                            event = "cannot_be_asked",
                            path,
                            node,
                            ?error,
                            "a participant cannot be asked to resign"
                        );
                        self.session.sleep(delay).await;
                    }
                }
            }
        }
    }

    /// Creates the node, and its directory if that is missing. Its name contains a UUID of our own, so a node that
    /// exists is of an attempt whose answer was lost.
    async fn create(&mut self) -> Result<(), engine::Error> {
        let (session, acls) = (&self.session, &self.core.config.acls);
        let owned = || OwnedNode::of(session, &self.core.janitor, DeletionTarget::Path(Arc::clone(&self.path)));
        self.node.get_or_insert_with(owned);
        let create = || session.create(&self.path, &[], CreateMode::Ephemeral, acls);
        let mut created = create().await;
        if let Err(engine::Error::NoNode) = created {
            parents::try_create(session, split(&self.path).0, acls).await?;
            created = create().await;
        }
        match created {
            Ok(_) | Err(engine::Error::NodeExists) => self.exists = true,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads the node, and waits until it may have changed. Returns who asks, if that is news.
    async fn look(&mut self, connection: u64, known: Option<Asker>) -> Result<Option<Asker>, engine::Error> {
        let (data, _, watch) = self.session.watch_data(&self.path).await?;
        let Some(node) = &mut self.node else { return Ok(None) };
        *node.watch() = Some(watch);
        let news = asker_of(&data).filter(|asker| asker.is_news_after(known));
        if news.is_some() {
            return Ok(news);
        }
        tokio::select! {
            biased;
            _ = fired(node.watch()) => {}
            () = self.session.disconnected(connection) => {}
        }
        *node.watch() = None;
        Ok(None)
    }
}
