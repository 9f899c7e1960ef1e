//! A contender that lasts from session to session: when it loses its place, it takes a new one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Span;

use super::entry::{Entered, Entry};
use super::place::Place;
use super::{End, Spec, State};
use crate::client::core::Core;
use crate::client::owned_node::HandedOver;
use crate::client::session::Session;
use crate::client::{Error, ErrorKind};
use crate::engine;
use crate::util::backoff::{AFTER_DELETION, AFTER_REFUSAL, Backoff};
use crate::util::clock;

/// The stage of a contender.
#[derive(Debug)]
enum Stage {
    /// Not in the line; it enters at this time, or at once.
    Out(Option<Instant>),
    Entering(Box<Entry>),
    Inside(Box<Place>),
}

/// A contender, which keeps a place in a line until it is asked to leave. If it is dropped, it leaves in the
/// background, through the janitor.
#[derive(Debug)]
pub(crate) struct Contender {
    stage: Stage,
    core: Arc<Core>,
    spec: Arc<Spec>,
    /// What the name of its next node states before the base.
    label: String,
    failures: Backoff,
    deletions: Backoff,
    began: clock::Instant,
    /// A node of an earlier place may still exist. The janitor deletes it.
    left_behind: bool,
    /// The span of the call that waits. There is none outside of calls, and none once it holds.
    span: Span,
}

impl Contender {
    /// Creates a contender. It does nothing before the first [`next`](Self::next).
    pub(crate) fn new(core: &Arc<Core>, spec: &Arc<Spec>) -> Self {
        Contender {
            stage: Stage::Out(None),
            core: Arc::clone(core),
            spec: Arc::clone(spec),
            label: String::new(),
            failures: Backoff::new(AFTER_REFUSAL),
            deletions: Backoff::new(AFTER_DELETION),
            began: core.clock.now(),
            left_behind: false,
            span: Span::none(),
        }
    }

    /// Records its nodes in this span of a call, until it holds.
    pub(crate) fn record_in(&mut self, span: Span) {
        self.span = span;
    }

    /// Waits for the next state. If the future is dropped at an await, the next call resumes it. Nothing progresses
    /// without a call.
    pub(crate) async fn next(&mut self) -> State {
        let end = match &mut self.stage {
            Stage::Out(at) => {
                if let Some(at) = *at {
                    self.core.runtime.sleep(at - Instant::now()).await;
                }
                self.began = self.core.clock.now();
                if let Some(error) = self.spec.left_behind.refusal() {
                    return self.failed(error);
                }
                let Ok(session) = self.core.connected_session().await else { return State::Closed };
                self.began = self.core.clock.now();
                let entry = Entry::new(&self.core, session, &self.spec, &self.label);
                self.stage = Stage::Entering(Box::new(entry));
                return State::Entering;
            }
            Stage::Entering(entry) => match entry.enter().await {
                Ok(entered) => {
                    let path = Arc::clone(&entered.path);
                    let entered = Entered { span: self.span.clone(), ..entered };
                    let place = Place::new(&self.core, &entry.session, &self.spec, entered);
                    self.stage = Stage::Inside(Box::new(place));
                    return State::Entered(path);
                }
                Err(end) => end,
            },
            Stage::Inside(place) => match place.next().await {
                Ok(state) => {
                    if let State::Held(_) = state {
                        // No node is ahead of the first in line, so no earlier node of our own is either.
                        self.left_behind = false;
                        self.span = Span::none();
                    }
                    return state;
                }
                Err(end) => end,
            },
        };
        self.on_place_lost(end)
    }

    /// Watches our node from now on, even while no contender is ahead of it.
    pub(crate) fn watch_own_node(&mut self) {
        if let Stage::Inside(place) = &mut self.stage {
            place.watch_own_node();
        }
    }

    /// From its next entry on, the name of its node states this before the base. That changes nothing in the line.
    pub(crate) fn set_label(&mut self, label: String) {
        self.label = label;
    }

    /// Waits until it has a node.
    pub(crate) async fn entered(&mut self) -> Result<(), Error> {
        while self.node().is_none() {
            match self.next().await {
                State::Failed(error) => return Err(error),
                State::Closed => return Err(Error::closed("client")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the path of its node on the server, if it has one.
    pub(crate) fn node(&self) -> Option<&Arc<str>> {
        match &self.stage {
            Stage::Inside(place) => Some(place.path()),
            _ => None,
        }
    }

    /// Returns the same, if its node is one of this session.
    pub(crate) fn node_of(&self, session: &Arc<Session>) -> Option<&Arc<str>> {
        match &self.stage {
            Stage::Inside(place) if Arc::ptr_eq(place.session(), session) => Some(place.path()),
            _ => None,
        }
    }

    /// Returns its session and the path of its node on the server, if it has one.
    pub(crate) fn place(&self) -> Option<(&Arc<Session>, &Arc<str>)> {
        match &self.stage {
            Stage::Inside(place) => Some((place.session(), place.path())),
            _ => None,
        }
    }

    /// Admits it under [`Rule::Counted`](super::Rule::Counted): from now on it holds while the lease is valid.
    pub(crate) fn admit(&mut self) {
        if let Stage::Inside(place) = &mut self.stage {
            place.admit();
        }
    }

    /// Takes notice that its node is missing in a list that was asked for when it was there: another client has deleted
    /// it. The next call of [`next`](Self::next) enters again.
    pub(crate) fn missing(&mut self) {
        if let Stage::Inside(_) = self.stage {
            self.on_place_lost(End::NodeGone);
        }
    }

    /// Takes notice that its recipe was refused what it needs. Returns the error of the call.
    pub(crate) fn refused(&mut self, error: Error) -> Error {
        match self.on_place_lost(End::Failed(error.clone())) {
            State::Failed(error) => error,
            _ => error,
        }
    }

    /// Takes the event of our node that may already be known, if [`next`](Self::next) is not awaited. Returns whether
    /// it must be awaited from now on to learn more.
    pub(crate) fn poll_own_watch(&mut self) -> bool {
        match &mut self.stage {
            Stage::Inside(place) => place.poll_own_watch(),
            _ => false,
        }
    }

    /// Exchanges the hold, and its node, for one in the line of `spec`, at the same place. `None` if it was lost. Then,
    /// and after an error, the contender is to be dropped.
    pub(crate) async fn downgrade(&mut self, spec: &Arc<Spec>) -> Result<Option<super::Hold>, Error> {
        let Stage::Inside(place) = &mut self.stage else { return Ok(None) };
        match place.downgrade(spec).await {
            Ok(hold) => {
                self.spec = Arc::clone(spec);
                Ok(Some(hold))
            }
            Err(End::Failed(error)) => Err(error),
            Err(End::SessionOver | End::NodeGone) => Ok(None),
        }
    }

    /// Ends the hold, so that its holder can be notified. The node stays until [`leave`](Self::leave).
    pub(crate) fn relinquish(&mut self) {
        if let Stage::Inside(place) = &mut self.stage {
            place.relinquish();
        }
    }

    /// Leaves the line and gives up the hold: deletes the node and waits until the server has done so. Fails if the
    /// session ends first. The janitor then deletes the node, as it does after a drop at an await.
    pub(crate) async fn leave(&mut self) -> Result<(), engine::Error> {
        self.leave_after(None).await
    }

    /// Leaves like [`leave`](Self::leave), when the delete of the node may have been handed over already.
    pub(crate) async fn leave_after(&mut self, handed: Option<HandedOver>) -> Result<(), engine::Error> {
        self.relinquish();
        let node = match std::mem::replace(&mut self.stage, Stage::Out(None)) {
            Stage::Out(_) => None,
            Stage::Entering(entry) => entry.give_up().await,
            Stage::Inside(place) => Some(place.into_node()),
        };
        if let Some(mut node) = node
            && let Err(error) = node.delete(handed).await
        {
            if error == engine::Error::NoAuth {
                let failed = Error::from_engine("withdraw from", &self.spec.dir, error.clone());
                self.spec.left_behind.add(node, &failed);
            }
            return Err(error);
        }
        if self.left_behind { Err(engine::Error::SessionEnded) } else { Ok(()) }
    }

    fn on_place_lost(&mut self, end: End) -> State {
        let stage = std::mem::replace(&mut self.stage, Stage::Out(None));
        if let End::NodeGone = end {
            let path = self.core.config.namespace.strip(&self.spec.dir);
            tracing::warn!(event = "node_deleted", path, "our node was deleted by another client");
            if let Stage::Inside(place) = stage {
                place.into_node().gone();
            }
            let delay = self.core.next_delay(&mut self.deletions, self.began);
            self.enter_after(delay);
            return State::Lost;
        }
        let node = match stage {
            Stage::Out(_) => None,
            Stage::Entering(entry) => entry.into_node(),
            Stage::Inside(place) => Some(place.into_node()),
        };
        self.left_behind |= node.is_some();
        match (end, node) {
            (End::Failed(error), Some(node)) if error.kind() == ErrorKind::NoAuth => {
                let error = self.spec.left_behind.add(node, &error);
                self.failed(error)
            }
            (End::Failed(error), _) => self.failed(error),
            _ => State::Lost,
        }
    }

    fn failed(&mut self, error: Error) -> State {
        let delay = self.core.next_delay(&mut self.failures, self.began);
        self.enter_after(delay);
        State::Failed(error)
    }

    /// Enters again after this delay.
    fn enter_after(&mut self, delay: Duration) {
        self.stage = Stage::Out(Some(Instant::now() + delay));
    }
}
