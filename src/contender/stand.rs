//! Standing in a line: waiting for the node before ours, holding, and what a lost connection does to both.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;

use super::enter::{Entered, enter};
use super::hold::Term;
use super::{End, Line, Observer, State, queue};
use crate::backend::{self, Event, Watch};
use crate::client::Error;
use crate::client::core::Core;
use crate::client::owned_node::OwnedNode;
use crate::client::session::{Condition, Session};
use crate::path::join;

/// After a reconnect every contender looks at its nodes: spread over 50 ms a hundred contenders of the session.
const LOOK_AGAIN_SPREAD: Duration = Duration::from_micros(500);

/// A place that was left.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) end: End,
    /// The node, if it is still to be deleted; dropping it leaves that to the janitor.
    pub(crate) node: Option<OwnedNode>,
    /// The watch of the node: it ends with the node, at no cost; dropped before, it costs a request.
    pub(super) own_watch: Option<Watch>,
    /// The directory's counter is nearly used up.
    pub(super) near_exhaustion: bool,
}

/// Enters the line and stands in it until asked to stop, or until there is nothing left to stand for.
pub(crate) async fn stand(
    core: &Arc<Core>,
    session: &Arc<Session>,
    line: &Line,
    observer: &mut impl Observer,
    stop: &mut watch::Receiver<bool>,
) -> Left {
    let _contending = session.contender();
    observer.changed(State::Entering);
    let entered = match enter(core, session, line, stop).await {
        Ok(entered) => entered,
        Err((end, node)) => {
            return Left { end, node, own_watch: None, near_exhaustion: false };
        }
    };
    observer.entered(&entered.path);
    let Entered { node, path, czxid, children, connection } = entered;
    let mut place = Place {
        core,
        session,
        line,
        observer,
        name: node.name().to_owned(),
        path,
        czxid,
        children,
        verified: connection,
        position: Position::Unknown,
        own_watch: None,
        term: None,
        reported: Reported::Entering,
        near_exhaustion: false,
    };
    let end = place.stay(stop).await;
    let (own_watch, near_exhaustion) = (place.own_watch.take(), place.near_exhaustion);
    // What was held ends before anything else happens to the node.
    drop(place);
    let node = match end {
        End::NodeGone => {
            node.gone();
            None
        }
        _ => Some(node),
    };
    Left { end, node, own_watch, near_exhaustion }
}

/// Where we stand, as far as we know.
#[derive(Debug)]
enum Position {
    /// The line must be looked at.
    Unknown,
    /// Nobody is before us.
    Head,
    /// Somebody is.
    Behind(Predecessor),
}

#[derive(Debug)]
struct Predecessor {
    path: String,
    /// It was the first of the line: when it goes, we are.
    was_head: bool,
    /// None: to be armed again.
    watch: Option<Watch>,
}

/// What the observer was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reported {
    Entering,
    Waiting,
    Held,
    Suspended,
}

/// Why a look at the line was broken off.
enum Broken {
    /// The connection failed, on this side or that.
    Connection,
    End(End),
}

struct Place<'a, O> {
    core: &'a Arc<Core>,
    session: &'a Arc<Session>,
    line: &'a Line,
    observer: &'a mut O,
    name: String,
    path: Arc<str>,
    czxid: i64,
    /// The children, if a list is at hand that was made after our create.
    children: Option<Vec<String>>,
    /// The connection on which our node was last seen.
    verified: u64,
    position: Position,
    own_watch: Option<Watch>,
    term: Option<Term>,
    reported: Reported,
    near_exhaustion: bool,
}

impl<O: Observer> Place<'_, O> {
    async fn stay(&mut self, stop: &mut watch::Receiver<bool>) -> End {
        let session = Arc::clone(self.session);
        let mut conditions = session.conditions();
        loop {
            // Made before the lease is looked at, so no extension is missed.
            let extended = session.lease().extended();
            let condition = *conditions.borrow_and_update();
            match condition {
                Condition::Ended(_) => return End::SessionOver,
                Condition::Suspended => self.doubt(),
                Condition::Connected(connection) => {
                    let attended = tokio::select! {
                        biased;
                        _ = stop.wait_for(|stop| *stop) => return End::Asked,
                        _ = conditions.changed() => continue,
                        attended = self.attend(connection) => attended,
                    };
                    match attended {
                        Ok(()) => {}
                        Err(Broken::End(end)) => return end,
                        Err(Broken::Connection) => {
                            self.doubt();
                            tokio::select! {
                                biased;
                                _ = stop.wait_for(|stop| *stop) => return End::Asked,
                                // The next round looks at what came of it.
                                _ = session.connected_after_loss(connection) => continue,
                            }
                        }
                    }
                }
            }
            let first = matches!(self.position, Position::Head);
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return End::Asked,
                event = fired(&mut self.own_watch) => {
                    self.own_watch = None;
                    if event == Event::NodeDeleted {
                        return End::NodeGone;
                    }
                }
                event = predecessor_event(&mut self.position) => {
                    if let Some(end) = self.predecessor_changed(event, condition) {
                        return end;
                    }
                }
                _ = conditions.changed() => {}
                // The lease may be proven now, or may have lapsed unseen before this: `hold` looks at both.
                () = extended, if first => {}
            }
        }
    }

    /// The connection is in doubt: what was held may be over.
    fn doubt(&mut self) {
        let stands = self.term.as_ref().is_some_and(|term| term.hold.is_held());
        if !stands {
            self.term = None;
            self.report(Reported::Suspended);
        }
    }

    /// Brings what we know up to date on this connection, and holds if we are first.
    async fn attend(&mut self, connection: u64) -> Result<(), Broken> {
        if connection != self.verified {
            self.verify(connection).await?;
        }
        while matches!(self.position, Position::Unknown) {
            self.look().await?;
        }
        self.watch_predecessor_again().await?;
        if matches!(self.position, Position::Head) {
            self.hold();
            if self.line.watch_own {
                self.watch_own().await?;
            }
        } else {
            self.watch_own().await?;
            self.report(Reported::Waiting);
        }
        Ok(())
    }

    /// After a reconnect: are our node and the one before it still there? The session's first heartbeat, a sync, is ahead
    /// of these reads on the connection, so they are not older than the reconnect.
    async fn verify(&mut self, connection: u64) -> Result<(), Broken> {
        let spread = LOOK_AGAIN_SPREAD * u32::try_from(self.session.contenders()).unwrap_or(u32::MAX);
        if spread > LOOK_AGAIN_SPREAD {
            tokio::time::sleep(spread.mul_f64(self.core.random.unit())).await;
        }
        let own = self.session.watch_data(&self.path);
        let predecessor = match &self.position {
            Position::Behind(predecessor) => Some(self.session.watch_data(&predecessor.path)),
            _ => None,
        };
        self.own_watch = Some(self.seen_own(own.await)?);
        if let (Some(answer), Position::Behind(predecessor)) = (predecessor, &mut self.position) {
            match answer.await {
                Ok((_, _, watch)) => predecessor.watch = Some(watch),
                Err(backend::Error::NoNode) => self.position = Position::Unknown,
                Err(error) => return Err(self.broken(error)),
            }
        }
        self.verified = connection;
        Ok(())
    }

    /// Our node is there, and it is ours.
    fn seen_own(&self, answer: Result<(Vec<u8>, crate::types::Stat, Watch), backend::Error>) -> Result<Watch, Broken> {
        match answer {
            Ok((_, stat, watch)) if stat.ephemeral_owner == self.session.id() => Ok(watch),
            Ok(_) | Err(backend::Error::NoNode) => Err(Broken::End(End::NodeGone)),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Finds our position in the line, and watches what it depends on.
    async fn look(&mut self) -> Result<(), Broken> {
        let children = match self.children.take() {
            Some(children) => children,
            None => {
                let listed = self.session.list_children(&self.line.dir).await;
                listed.map_err(|error| self.broken(error))?.0
            }
        };
        let queue = queue(self.session, &self.line.dir, children, &self.line.bases()).await;
        let queue = queue.map_err(|error| self.broken(error))?;
        self.note_exhaustion(queue.is_near_exhaustion());
        let Some(position) = queue.position(&self.name) else {
            return Err(Broken::End(End::NodeGone));
        };
        let Some(before) = queue.predecessor_of(&self.name) else {
            self.position = Position::Head;
            return Ok(());
        };
        let path = join(&self.line.dir, before);
        let own = self.own_watch.is_none().then(|| self.session.watch_data(&self.path));
        let predecessor = self.session.watch_data(&path);
        if let Some(own) = own {
            self.own_watch = Some(self.seen_own(own.await)?);
        }
        match predecessor.await {
            Ok((_, _, watch)) => {
                self.position = Position::Behind(Predecessor { path, was_head: position == 1, watch: Some(watch) });
                Ok(())
            }
            // It went between the list and the watch: look again.
            Err(backend::Error::NoNode) => Ok(()),
            Err(error) => Err(self.broken(error)),
        }
    }

    fn note_exhaustion(&mut self, near: bool) {
        if near && !self.near_exhaustion {
            tracing::warn!(
                dir = &*self.line.dir,
                "the counter of this directory nears 2^31 and cannot go on; it starts anew when the directory is deleted, \
                 which is tried whenever a holder leaves"
            );
        }
        self.near_exhaustion = near;
    }

    /// Watches our node, if that is not done yet.
    async fn watch_own(&mut self) -> Result<(), Broken> {
        if self.own_watch.is_none() {
            let answer = self.session.watch_data(&self.path).await;
            self.own_watch = Some(self.seen_own(answer)?);
        }
        Ok(())
    }

    /// Watches the node before ours again, after its data changed.
    async fn watch_predecessor_again(&mut self) -> Result<(), Broken> {
        if let Position::Behind(predecessor) = &mut self.position
            && predecessor.watch.is_none()
        {
            match self.session.watch_data(&predecessor.path).await {
                Ok((_, _, watch)) => predecessor.watch = Some(watch),
                Err(backend::Error::NoNode) => {
                    self.position = Position::Unknown;
                    while matches!(self.position, Position::Unknown) {
                        self.look().await?;
                    }
                }
                Err(error) => return Err(self.broken(error)),
            }
        }
        Ok(())
    }

    /// Holds, if that is not done yet and the lease is valid; otherwise its next extension brings us back here.
    fn hold(&mut self) {
        if self.term.as_ref().is_some_and(|term| term.hold.is_held()) {
            return;
        }
        self.term = None;
        match self.session.grant() {
            Some(grant) => {
                let term = Term::new(self.core, self.session, &self.path, self.czxid, grant);
                let hold = term.hold.clone();
                self.term = Some(term);
                self.reported = Reported::Held;
                self.observer.changed(State::Held(hold));
            }
            None => self.report(Reported::Waiting),
        }
    }

    /// Only the deletion of the node before ours moves us, and only if it was seen on the connection on which both nodes
    /// were verified; anything else is looked at afresh.
    fn predecessor_changed(&mut self, event: Event, condition: Condition) -> Option<End> {
        let Position::Behind(predecessor) = &mut self.position else {
            return None;
        };
        predecessor.watch = None;
        let trusted = condition == Condition::Connected(self.verified) && self.session.condition() == condition;
        if event != Event::NodeDeleted || !trusted {
            return None;
        }
        // Both events come over one connection: that of our own node, if it was deleted too, came first.
        if let Some(Event::NodeDeleted) = self.own_watch.as_mut().and_then(FutureExt::now_or_never) {
            return Some(End::NodeGone);
        }
        self.position = if predecessor.was_head { Position::Head } else { Position::Unknown };
        None
    }

    /// Sorts the failure of a request: what passes with the connection, and what does not.
    fn broken(&self, error: backend::Error) -> Broken {
        if error.is_passing() {
            return Broken::Connection;
        }
        Broken::End(End::Failed(Error::from_backend("stand in line at", &self.line.dir, error)))
    }

    fn report(&mut self, reported: Reported) {
        if self.reported == reported {
            return;
        }
        self.reported = reported;
        self.observer.changed(match reported {
            Reported::Entering => State::Entering,
            Reported::Waiting => State::Waiting,
            Reported::Suspended => State::Suspended,
            Reported::Held => return,
        });
    }
}

/// Resolves when a watch fires; never if there is none.
async fn fired(watch: &mut Option<Watch>) -> Event {
    match watch {
        Some(watch) => watch.await,
        None => std::future::pending().await,
    }
}

async fn predecessor_event(position: &mut Position) -> Event {
    match position {
        Position::Behind(predecessor) => fired(&mut predecessor.watch).await,
        _ => std::future::pending().await,
    }
}
