//! The participant's side of a request to resign: the node that the request is written into, and the time until the
//! participant gives up its place.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::client::core::Core;
use crate::client::owned_node::{DeletionTarget, OwnedNode};
use crate::client::parents;
use crate::client::session::Session;
use crate::contender::Hold;
use crate::engine;
use crate::layout::latch::{RESIGN_FOR_PRIORITY, asks_to_resign, request_of};
use crate::util::backoff::{AFTER_DELETION, AFTER_REFUSAL, Backoff};
use crate::util::path::split;
use crate::util::wait::{fired, forever};
use crate::util::znode::CreateMode;

/// What the participant has to do.
#[derive(Debug)]
pub(super) enum Notice {
    /// It was asked to resign: its leader is to be told.
    Asked,
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
    Open(BoxFuture<'static, Request>),
    /// It was asked. The node of requests stays until the place is given up.
    Asked { request: Request, due: Due },
}

/// A request that was read.
struct Request {
    _node: OwnedNode,
    /// It is of a participant that is to lead because of its priority.
    is_for_priority: bool,
}

/// When the participant gives up its place.
enum Due {
    /// Its leader was not told yet.
    Untold,
    At(Instant),
    /// When its leader says so: the grace period is longer than the clock counts.
    Never,
}

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
                Stage::Open(Box::pin(Inbox::new(&self.core, session, &self.path, node).requested()))
            }
            None => Stage::Closed,
        };
    }

    /// Waits for the next notice. If it is dropped, the next call resumes it.
    pub(super) async fn next(&mut self) -> Notice {
        match &mut self.stage {
            Stage::Open(requested) => {
                let request = requested.await;
                self.stage = Stage::Asked { request, due: Due::Untold };
                Notice::Asked
            }
            Stage::Asked { due: Due::At(at), .. } => {
                self.core.runtime.sleep(*at - Instant::now()).await;
                Notice::Due
            }
            Stage::Closed | Stage::Asked { .. } => forever().await,
        }
    }

    /// Tells the leader, if the participant leads, and starts its grace period. Otherwise there is nothing to finish.
    pub(super) fn start_grace(&mut self, term: Option<&Hold>) {
        let grace = term.and(self.grace).unwrap_or_default();
        if let Stage::Asked { due, .. } = &mut self.stage {
            *due = Instant::now().checked_add(grace).map_or(Due::Never, Due::At);
        }
        self.tell(term);
    }

    /// Returns whether a participant that gives up its place now claims no precedence until it has led again. It keeps
    /// its claim if it makes room for one with a lower priority: that one leads before it anyway.
    pub(super) fn gives_way(&self) -> bool {
        !matches!(&self.stage, Stage::Asked { request, .. } if request.is_for_priority)
    }

    /// Tells the leader of a term that it was asked to resign, if that was so. A term may begin after the request: one
    /// that a suspension ended goes on with the same node.
    pub(super) fn tell(&self, term: Option<&Hold>) {
        if let (Stage::Asked { .. }, Some(term)) = (&self.stage, term) {
            term.revoke();
        }
    }
}

/// The node that a request is written into. It is kept in existence until a request is there.
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

    /// Waits for a request. Never resolves once the session is over.
    async fn requested(mut self) -> Request {
        loop {
            let began = self.core.clock.now();
            let Ok(connection) = self.session.connected().await else { return forever().await };
            if self.seen_on.replace(connection).is_some_and(|before| before != connection) {
                // After a reconnect, not all participants of a session read at once.
                self.session.spread_out(&self.core.random).await;
            }
            let looked = if self.exists { self.look(connection).await } else { self.create().await };
            match looked {
                Ok(None) => {}
                Ok(Some(data)) => {
                    if let Some(node) = self.node.take() {
                        return Request { _node: node, is_for_priority: data == RESIGN_FOR_PRIORITY };
                    }
                }
                // Another client deleted it.
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
    async fn create(&mut self) -> Result<Option<Vec<u8>>, engine::Error> {
        let (session, acls) = (&self.session, &self.core.config.acls);
        let owned = || OwnedNode::of(session, &self.core.janitor, DeletionTarget::Path(Arc::clone(&self.path)));
        self.node.get_or_insert_with(owned);
        match session.create(&self.path, &[], CreateMode::Ephemeral, acls).await {
            Ok(_) | Err(engine::Error::NodeExists) => self.exists = true,
            Err(engine::Error::NoNode) => drop(parents::try_create(session, split(&self.path).0, acls).await?),
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// Reads the node, and waits until it may have changed. Returns the request, if it has one.
    async fn look(&mut self, connection: u64) -> Result<Option<Vec<u8>>, engine::Error> {
        let (data, _, watch) = self.session.watch_data(&self.path).await?;
        let Some(node) = &mut self.node else { return Ok(None) };
        *node.watch() = Some(watch);
        if asks_to_resign(&data) {
            return Ok(Some(data));
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
