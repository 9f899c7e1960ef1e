//! A place in the line: waits for the node before ours, holds, and handles a lost connection in both.

use std::sync::Arc;

use futures::FutureExt;

use super::enter::Entered;
use super::hold::Term;
use super::{End, Line, State};
use crate::backend::{Event, Watch};
use crate::client::core::{Core, KeepAlive};
use crate::client::owned_node::OwnedNode;
use crate::client::session::{Condition, Contending, Session};

/// Our position, as far as it is known.
#[derive(Debug)]
pub(super) enum Position {
    /// The line must be listed.
    Unknown,
    /// No contender is before us.
    Head,
    /// A contender is before us.
    Behind(Predecessor),
}

#[derive(Debug)]
pub(super) struct Predecessor {
    pub(super) path: String,
    /// It was the first of the line: when it is gone, we are first.
    pub(super) was_head: bool,
    /// `None`: to be armed, or rearmed.
    pub(super) watch: Option<Watch>,
}

/// The state that was reported last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Entered,
    Behind,
    Unproven,
    Held,
    Suspended,
}

/// Why a check of the line was cut short.
pub(super) enum Broken {
    /// The connection failed, at either end.
    Connection,
    End(End),
}

/// A node in the line, and what is known about it.
#[derive(Debug)]
pub(super) struct Place {
    // Dropped first: what is held ends before anything else happens to the node.
    term: Option<Term>,
    pub(super) core: Arc<Core>,
    pub(super) session: Arc<Session>,
    pub(super) line: Arc<Line>,
    pub(super) node: OwnedNode,
    pub(super) path: Arc<str>,
    czxid: i64,
    /// The children, if there is a list that was made after our create.
    pub(super) children: Option<Vec<String>>,
    /// The connection on which our node was last seen.
    pub(super) verified: u64,
    /// A request failed on this connection: none is sent until more is known about it.
    failed_on: Option<u64>,
    pub(super) position: Position,
    /// Present while the lease must be extended, see [`stands`](Self::stands).
    keep_alive: Option<KeepAlive>,
    /// Whether the node is watched also while no contender is before it.
    pub(super) watch_own: bool,
    /// We were asked to release.
    revoked: bool,
    /// The log has reported that the directory's counter is nearly exhausted.
    pub(super) exhaustion_told: bool,
    told: Told,
    news: Option<State>,
    _contending: Contending,
}

impl Place {
    pub(super) fn new(core: &Arc<Core>, session: &Arc<Session>, line: &Arc<Line>, entered: Entered) -> Self {
        Place {
            term: None,
            core: Arc::clone(core),
            session: Arc::clone(session),
            line: Arc::clone(line),
            node: entered.node,
            path: entered.path,
            czxid: entered.czxid,
            children: entered.children,
            verified: entered.connection,
            failed_on: None,
            position: Position::Unknown,
            keep_alive: None,
            watch_own: line.watch_own,
            revoked: false,
            exhaustion_told: false,
            told: Told::Entered,
            news: None,
            _contending: session.contender(),
        }
    }

    /// Watches the node from now on, also while no contender is before it.
    pub(super) fn insist_on_watch(&mut self) {
        self.watch_own = true;
    }

    /// Waits for the next change of state, or the end. If it is dropped at an await, the next call resumes it.
    pub(super) async fn next(&mut self) -> Result<State, End> {
        let session = Arc::clone(&self.session);
        let mut conditions = session.conditions();
        loop {
            if let Some(state) = self.news.take() {
                return Ok(state);
            }
            // Created before the lease is read, so no extension is missed.
            let extended = session.lease().extended();
            let condition = *conditions.borrow_and_update();
            match condition {
                Condition::Ended(_) => return Err(End::SessionOver),
                Condition::Suspended => self.doubt(),
                Condition::Connected(connection) if self.failed_on == Some(connection) => {
                    // The next round checks the outcome. A holder is told then, and not only after a reconnect.
                    session.loss_known(connection).await;
                    self.failed_on = None;
                    continue;
                }
                Condition::Connected(connection) => {
                    let attended = tokio::select! {
                        biased;
                        _ = conditions.changed() => continue,
                        attended = self.attend(connection) => attended,
                    };
                    match attended {
                        Ok(()) => {}
                        Err(Broken::End(end)) => return Err(end),
                        Err(Broken::Connection) => {
                            self.failed_on = Some(connection);
                            self.doubt();
                            continue;
                        }
                    }
                }
            }
            if self.news.is_some() {
                continue;
            }
            let first = matches!(self.position, Position::Head);
            tokio::select! {
                biased;
                event = fired(self.node.watch()) => {
                    if let Some(end) = self.own_changed(event) {
                        return Err(end);
                    }
                }
                event = predecessor_event(&mut self.position) => {
                    if let Some(end) = self.predecessor_changed(event, condition) {
                        return Err(end);
                    }
                }
                _ = conditions.changed() => {}
                // The lease may be proven now, or may have lapsed unnoticed before: `hold` checks both.
                () = extended, if first => {}
            }
        }
    }

    /// Takes the event that the watch of our node may already have, for a holder whose place is not awaited. Returns whether
    /// that was a change, which has spent the watch: only a read of the node rearms it.
    pub(super) fn glance(&mut self) -> bool {
        let Some(event) = fired(self.node.watch()).now_or_never() else { return false };
        let gone = self.own_changed(event).is_some();
        if gone {
            self.term = None;
        }
        !gone
    }

    /// Gives up the place and what is held with it. Returns the node.
    pub(super) fn into_node(self) -> OwnedNode {
        drop(self.term);
        self.node
    }

    /// Ends what is held; the node stays.
    pub(super) fn relinquish(&mut self) {
        self.term = None;
    }

    /// Records our position. The first of the line keeps the lease extended, and so does the one behind it, which will be
    /// first without another request. All others prove the lease together with their next list, so a line of any length costs
    /// the heartbeats of two.
    pub(super) fn stands(&mut self, position: Position) {
        let warm = match &position {
            Position::Head => true,
            Position::Behind(before) => before.was_head,
            Position::Unknown => self.keep_alive.is_some(),
        };
        if !warm {
            self.keep_alive = None;
        } else if self.keep_alive.is_none() {
            self.keep_alive = Some(self.core.keep_alive());
        }
        self.position = position;
    }

    /// Handles a connection in doubt: what was held may have ended.
    fn doubt(&mut self) {
        if !self.holds() {
            self.term = None;
            self.tell(Told::Suspended, State::Suspended);
        }
    }

    fn holds(&self) -> bool {
        self.term.as_ref().is_some_and(|term| term.hold.is_held())
    }

    /// Updates what we know on this connection, and holds if we are first. Returns as soon as there is news; the next call
    /// continues from there.
    async fn attend(&mut self, connection: u64) -> Result<(), Broken> {
        if !self.holds() {
            // A lapse may be over before it is seen here. The end of what was held waits for no answer.
            self.term = None;
        }
        if connection != self.verified {
            self.verify(connection).await?;
        }
        loop {
            while matches!(self.position, Position::Unknown) {
                self.look().await?;
            }
            match self.position {
                Position::Head => self.hold(),
                _ => self.tell(Told::Behind, State::Behind),
            }
            if self.news.is_some() {
                return Ok(());
            }
            self.watch().await?;
            if !matches!(self.position, Position::Unknown) {
                return Ok(());
            }
        }
    }

    /// Holds, if that is not done yet and the lease is valid. Otherwise the next extension of the lease leads back here.
    fn hold(&mut self) {
        if self.holds() {
            return;
        }
        self.term = None;
        let Some(grant) = self.session.grant() else {
            self.tell(Told::Unproven, State::Unproven);
            return;
        };
        let term = Term::new(&self.core, &self.session, &self.path, self.czxid, grant);
        if self.revoked {
            term.revoke();
        }
        self.told = Told::Held;
        self.news = Some(State::Held(term.hold.clone()));
        self.term = Some(term);
    }

    /// Handles an event of our node: it was changed, or deleted by another client.
    fn own_changed(&mut self, event: Event) -> Option<End> {
        *self.node.watch() = None;
        (event == Event::NodeDeleted).then_some(End::NodeGone)
    }

    /// Handles an event of the node before ours. Only its deletion moves us, and only if it was seen on the connection on
    /// which both nodes were verified. Anything else is read again.
    fn predecessor_changed(&mut self, event: Event, condition: Condition) -> Option<End> {
        let Position::Behind(predecessor) = &mut self.position else {
            return None;
        };
        predecessor.watch = None;
        let trusted = condition == Condition::Connected(self.verified) && self.session.condition() == condition;
        if event != Event::NodeDeleted || !trusted {
            return None;
        }
        // Both events come over one connection: if our own node was deleted too, its event came first.
        if let Some(Event::NodeDeleted) = fired(self.node.watch()).now_or_never() {
            return Some(End::NodeGone);
        }
        let position = if predecessor.was_head { Position::Head } else { Position::Unknown };
        self.stands(position);
        None
    }

    /// Takes in the data of our node, whenever it is read.
    pub(super) fn note_data(&mut self, data: &[u8]) {
        if data == super::REVOKED && !self.revoked {
            self.revoked = true;
            if let Some(term) = &self.term {
                term.revoke();
            }
        }
    }

    fn tell(&mut self, told: Told, state: State) {
        if self.told != told {
            self.told = told;
            self.news = Some(state);
        }
    }
}

/// Resolves when a watch fires; never without one.
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
