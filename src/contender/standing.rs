//! A contender from session to session: when it loses its place, it takes a new one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::enter::Entry;
use super::place::Place;
use super::{End, Hold, Line, State};
use crate::backend;
use crate::client::core::Core;
use crate::client::delays::Delays;
use crate::client::owned_node::HandedOver;
use crate::client::{Error, ErrorKind};
use crate::clock;

/// Delays before entering again after an error that is not transient, and after another client deleted the node: each twice
/// the one before, up to the second value.
const AFTER_FAILURE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
const AFTER_DELETION: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// What happens to a contender.
#[derive(Debug)]
pub(crate) enum News {
    /// Its node is being created.
    Entering,
    /// It has a node, at this path on the server.
    Entered(Arc<str>),
    /// Another contender is before it.
    Behind,
    /// No contender is before it, but the lease is not proven yet.
    Unproven,
    /// It is first, and its session is known to be alive.
    Held(Hold),
    /// The connection is in doubt: what was held is given up; the node is kept.
    Suspended,
    /// Its place is lost, with the session or because another client deleted the node. It takes a new one.
    Lost,
    /// It could not enter, or read the line. It retries with growing delays.
    Failed(Error),
    /// The client was closed: no more news follows.
    Closed,
}

/// The stage of a contender.
#[derive(Debug)]
enum Stage {
    /// Not in the line; it enters at this time, or at once.
    Out(Option<Instant>),
    Entering(Box<Entry>),
    Inside(Box<Place>),
}

/// A contender, which keeps a place in a line until told to leave. A drop leaves in the background, through the janitor.
#[derive(Debug)]
pub(crate) struct Standing {
    stage: Stage,
    core: Arc<Core>,
    line: Arc<Line>,
    failures: Delays,
    deletions: Delays,
    began: clock::Instant,
    /// A node of an earlier place may still exist; the janitor deletes it.
    left_behind: bool,
}

impl Standing {
    /// Nothing happens before the first [`next`](Self::next).
    pub(crate) fn new(core: &Arc<Core>, line: &Arc<Line>) -> Self {
        Standing {
            stage: Stage::Out(None),
            core: Arc::clone(core),
            line: Arc::clone(line),
            failures: Delays::new(AFTER_FAILURE),
            deletions: Delays::new(AFTER_DELETION),
            began: core.clock.now(),
            left_behind: false,
        }
    }

    /// Waits for the next news. If it is dropped at an await, the next call resumes it; without a call nothing progresses.
    pub(crate) async fn next(&mut self) -> News {
        let end = match &mut self.stage {
            Stage::Out(at) => {
                if let Some(at) = *at {
                    tokio::time::sleep_until(at).await;
                }
                self.began = self.core.clock.now();
                if let Some(error) = self.line.left_behind.refusal() {
                    return self.failed(error);
                }
                let Ok(session) = self.core.connected_session().await else { return News::Closed };
                self.began = self.core.clock.now();
                self.stage = Stage::Entering(Box::new(Entry::new(&self.core, session, &self.line)));
                return News::Entering;
            }
            Stage::Entering(entry) => match entry.enter().await {
                Ok(entered) => {
                    let path = Arc::clone(&entered.path);
                    let place = Place::new(&self.core, &entry.session, &self.line, entered);
                    self.stage = Stage::Inside(Box::new(place));
                    return News::Entered(path);
                }
                Err(end) => end,
            },
            Stage::Inside(place) => match place.next().await {
                Ok(State::Behind) => return News::Behind,
                Ok(State::Unproven) => return News::Unproven,
                Ok(State::Held(hold)) => {
                    // The first of the line has no node before it, so none of its own either.
                    self.left_behind = false;
                    return News::Held(hold);
                }
                Ok(State::Suspended) => return News::Suspended,
                Err(end) => end,
            },
        };
        self.thrown_out(end)
    }

    /// Watches our node from now on, also while no contender is before it.
    pub(crate) fn insist_on_watch(&mut self) {
        if let Stage::Inside(place) = &mut self.stage {
            place.insist_on_watch();
        }
    }

    /// Takes the event of our node that may already be known, if [`next`](Self::next) is not awaited. Returns whether it must
    /// be awaited from now on to learn more.
    pub(crate) fn glance(&mut self) -> bool {
        match &mut self.stage {
            Stage::Inside(place) => place.glance(),
            _ => false,
        }
    }

    /// Ends what is held, so that its holder can be told; the node stays until [`leave`](Self::leave).
    pub(crate) fn relinquish(&mut self) {
        if let Stage::Inside(place) = &mut self.stage {
            place.relinquish();
        }
    }

    /// Leaves the line and gives up what is held: deletes the node and waits until the server has done so. Fails if the
    /// session ends first: the janitor then deletes the node, as it does after a drop at an await.
    pub(crate) async fn leave(&mut self) -> Result<(), backend::Error> {
        self.leave_after(None).await
    }

    /// As [`leave`](Self::leave), when the delete of the node may have been handed over already.
    pub(crate) async fn leave_after(&mut self, handed: Option<HandedOver>) -> Result<(), backend::Error> {
        self.relinquish();
        let node = match std::mem::replace(&mut self.stage, Stage::Out(None)) {
            Stage::Out(_) => None,
            Stage::Entering(entry) => entry.give_up().await,
            Stage::Inside(place) => Some(place.into_node()),
        };
        if let Some(mut node) = node
            && let Err(error) = node.delete(handed).await
        {
            if error == backend::Error::NoAuth {
                self.line
                    .left_behind
                    .add(node, &Error::from_backend("leave the line at", &self.line.dir, error.clone()));
            }
            return Err(error);
        }
        if self.left_behind { Err(backend::Error::SessionEnded) } else { Ok(()) }
    }

    fn thrown_out(&mut self, end: End) -> News {
        let stage = std::mem::replace(&mut self.stage, Stage::Out(None));
        if let End::NodeGone = end {
            tracing::warn!(dir = &*self.line.dir, "our node was deleted by another client");
            if let Stage::Inside(place) = stage {
                place.into_node().gone();
            }
            let delay = self.deletions.next(&self.core, self.began);
            self.enter_after(delay);
            return News::Lost;
        }
        let node = match stage {
            Stage::Out(_) => None,
            Stage::Entering(entry) => entry.into_node(),
            Stage::Inside(place) => Some(place.into_node()),
        };
        self.left_behind |= node.is_some();
        match (end, node) {
            (End::Failed(error), Some(node)) if error.kind() == ErrorKind::NoAuth => {
                let error = self.line.left_behind.add(node, &error);
                self.failed(error)
            }
            (End::Failed(error), _) => self.failed(error),
            _ => News::Lost,
        }
    }

    fn failed(&mut self, error: Error) -> News {
        let delay = self.failures.next(&self.core, self.began);
        self.enter_after(delay);
        News::Failed(error)
    }

    /// Enters again after this delay.
    fn enter_after(&mut self, delay: Duration) {
        self.stage = Stage::Out(Some(Instant::now() + delay));
    }
}
