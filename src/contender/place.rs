//! A place in the line: waits for the node before ours, holds, and handles a lost connection in both.

use std::mem::discriminant;
use std::sync::Arc;

use futures::future::{FutureExt, OptionFuture, TryFutureExt, join};

use super::downgrade::Downgrade;
use super::entry::Entered;
use super::hold::Hold;
use super::hold::HoldOwner;
use super::measure::Takeover;
use super::position::{Position, Predecessor};
use super::{End, Rule, Spec, State, queue};
use crate::client::Error;
use crate::client::core::{Core, KeepAlive};
use crate::client::owned_node::OwnedNode;
use crate::client::session::{Condition, Contending, Session};
use crate::engine::{self, Event, Watch};
use crate::layout::line::REVOKED;
use crate::util::wait::fired;
use crate::util::znode::Stat;

/// Why a check of the line was cut short.
enum CheckEnd {
    /// The connection failed, at either end.
    Connection,
    End(End),
}

type Read = Result<(Vec<u8>, Stat, Option<Watch>), engine::Error>;

/// The request to send for our own node.
enum Own {
    Leave,
    Read,
    Watch,
}

/// A node in the line, and our knowledge of it.
#[derive(Debug)]
pub(super) struct Place {
    // Dropped first: the hold ends before anything else happens to the node.
    owner: Option<HoldOwner>,
    core: Arc<Core>,
    session: Arc<Session>,
    spec: Arc<Spec>,
    node: OwnedNode,
    path: Arc<str>,
    czxid: i64,
    /// The children, if there is a list that was made after our create.
    children: Option<Vec<String>>,
    /// The connection on which our node was last seen.
    verified: u64,
    /// A request failed on this connection. No other is sent until more is known about it.
    failed_on: Option<u64>,
    position: Position,
    /// Present while the lease must be extended, see [`set_position`](Self::set_position).
    keep_alive: Option<KeepAlive>,
    /// Whether the node is watched even while no contender is before it.
    watch_own: bool,
    /// We were asked to release.
    revoked: bool,
    /// The log has reported that the directory's counter is nearly exhausted.
    exhaustion_logged: bool,
    state: State,
    /// Whether [`next`](Self::next) has returned this state.
    returned: bool,
    takeover: Takeover,
    _contending: Contending,
}

impl Place {
    pub(super) fn new(core: &Arc<Core>, session: &Arc<Session>, spec: &Arc<Spec>, entered: Entered) -> Self {
        let position = if let Rule::Counted = spec.rule { Position::NotAdmitted } else { Position::Unknown };
        Place {
            owner: None,
            core: Arc::clone(core),
            session: Arc::clone(session),
            spec: Arc::clone(spec),
            node: entered.node,
            path: Arc::clone(&entered.path),
            czxid: entered.czxid,
            children: entered.children,
            verified: entered.connection,
            failed_on: None,
            position,
            keep_alive: None,
            watch_own: spec.watch_own,
            revoked: false,
            exhaustion_logged: false,
            state: State::Entered(Arc::clone(&entered.path)),
            returned: true,
            takeover: Takeover::new(entered.span, &entered.path),
            _contending: session.contender(),
        }
    }

    /// Watches the node from now on, even while no contender is ahead of it.
    pub(super) fn watch_own_node(&mut self) {
        self.watch_own = true;
    }

    /// Returns the path of the node.
    pub(super) fn path(&self) -> &Arc<str> {
        &self.path
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Admits a place under [`Rule::Counted`]: from now on it holds while the lease is valid.
    pub(super) fn admit(&mut self) {
        self.set_position(Position::Head);
    }

    /// Waits for the next change of state, or the end. If it is dropped at an await, the next call resumes it.
    pub(super) async fn next(&mut self) -> Result<State, End> {
        let session = Arc::clone(&self.session);
        let mut conditions = session.conditions();
        loop {
            if !std::mem::replace(&mut self.returned, true) {
                return Ok(self.state.clone());
            }
            // Created before the lease is read, so no extension is missed.
            let extended = session.lease().extended();
            let condition = *conditions.borrow_and_update();
            match condition {
                Condition::Ended(_) => return Err(End::SessionOver),
                Condition::Suspended => self.suspend_if_unheld(),
                Condition::Connected(connection) if self.failed_on == Some(connection) => {
                    // The next round checks the outcome. So a holder is notified now, and not only after a reconnect.
                    session.wait_for_disconnect(connection).await;
                    self.failed_on = None;
                    continue;
                }
                Condition::Connected(connection) => {
                    let advanced = tokio::select! {
                        biased;
                        _ = conditions.changed() => continue,
                        advanced = self.advance(connection) => advanced,
                    };
                    match advanced {
                        Ok(()) => {}
                        Err(CheckEnd::End(end)) => return Err(end),
                        Err(CheckEnd::Connection) => {
                            self.failed_on = Some(connection);
                            self.suspend_if_unheld();
                            continue;
                        }
                    }
                }
            }
            if !self.returned {
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
                event = self.position.event() => {
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

    /// Polls the watch of our node once, for a holder whose place is not awaited. Returns whether the node was changed:
    /// a change uses up the watch, and only a read of the node arms it again.
    pub(super) fn poll_own_watch(&mut self) -> bool {
        let Some(event) = fired(self.node.watch()).now_or_never() else { return false };
        let gone = self.own_changed(event).is_some();
        if gone {
            self.owner = None;
        }
        !gone
    }

    /// Gives up the place and the hold. Returns the node.
    pub(super) fn into_node(self) -> OwnedNode {
        drop(self.owner);
        self.node
    }

    /// Exchanges our node for one of the line of `spec` at the same place, and the hold for one of that. Its token
    /// stays the same. Fails if nothing is held; then the place is to be given up, as after a drop at an await.
    pub(super) async fn downgrade(&mut self, spec: &Arc<Spec>) -> Result<Hold, End> {
        let downgrade = Downgrade::new(&self.core, &self.session, &self.path, self.spec.base, spec);
        let (node, path, connection) = downgrade.run(|| self.holds()).await?;
        let Some(grant) = self.owner.take().filter(|owner| owner.hold.is_held()).map(|owner| owner.hold.grant()) else {
            return Err(End::SessionOver);
        };
        std::mem::replace(&mut self.node, node).gone();
        (self.path, self.spec, self.watch_own) = (path, Arc::clone(spec), spec.watch_own);
        self.verified = connection;
        // Whoever asked the writer to release has marked the other node.
        self.revoked = false;
        self.note_exhaustion(self.exhaustion_logged);
        let owner = HoldOwner::new(&self.core, &self.session, &self.spec, &self.path, self.czxid, grant);
        let hold = owner.hold.clone();
        self.owner = Some(owner);
        self.state = State::Held(hold.clone());
        Ok(hold)
    }

    /// Ends the hold; the node stays.
    pub(super) fn relinquish(&mut self) {
        self.owner = None;
    }

    /// Records our position. The first of the line keeps the lease extended. So does the one behind it, which will be
    /// first without another request. All others prove the lease together with their next list, so a line of any length
    /// costs the heartbeats of two.
    fn set_position(&mut self, position: Position) {
        let warm = match &position {
            Position::Head => true,
            Position::Behind(before) => before.is_last,
            Position::Unknown | Position::NotAdmitted => self.keep_alive.is_some(),
        };
        if !warm {
            self.keep_alive = None;
        } else if self.keep_alive.is_none() {
            self.keep_alive = Some(self.core.keep_alive());
        }
        if let Position::Behind(before) = &position {
            self.takeover.waits_for(&before.path);
        }
        self.position = position;
    }

    /// Ends the hold if the lease no longer covers it, and reports the suspension.
    fn suspend_if_unheld(&mut self) {
        if !self.holds() {
            self.owner = None;
            self.set_state(State::Suspended);
        }
    }

    fn holds(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.hold.is_held())
    }

    /// Updates the position on this connection, and holds if it is first. Returns as soon as there is a state to
    /// return; the next call continues from there.
    async fn advance(&mut self, connection: u64) -> Result<(), CheckEnd> {
        if !self.holds() {
            // A lapse of the lease may be over before it is noticed here. The end of the hold waits for no answer.
            self.owner = None;
        }
        if connection != self.verified {
            self.verify(connection).await?;
        }
        loop {
            while matches!(self.position, Position::Unknown) {
                self.refresh_position().await?;
            }
            match self.position {
                Position::Head => self.hold(),
                Position::NotAdmitted => self.set_state(State::Entered(Arc::clone(&self.path))),
                _ => self.set_state(State::Behind),
            }
            if !self.returned {
                return Ok(());
            }
            self.watch().await?;
            if !matches!(self.position, Position::Unknown) {
                return Ok(());
            }
        }
    }

    /// Holds, if that is not done yet and the lease is valid. Otherwise the next extension of the lease leads back
    /// here.
    fn hold(&mut self) {
        if self.holds() {
            return;
        }
        self.owner = None;
        let Some(grant) = self.session.grant() else {
            self.set_state(State::Unproven);
            return;
        };
        let owner = HoldOwner::new(&self.core, &self.session, &self.spec, &self.path, self.czxid, grant);
        if self.revoked {
            owner.revoke();
        }
        self.state = State::Held(owner.hold.clone());
        self.returned = false;
        self.owner = Some(owner);
        self.takeover.held(&self.core, &self.spec.dir);
    }

    /// Handles an event of our node: it was changed, or deleted by another client.
    fn own_changed(&mut self, event: Event) -> Option<End> {
        *self.node.watch() = None;
        (event == Event::NodeDeleted).then_some(End::NodeGone)
    }

    /// Handles an event of the node before ours. Only its deletion moves us, and only if it was seen on the connection
    /// on which both nodes were verified. Anything else is read again.
    fn predecessor_changed(&mut self, event: Event, condition: Condition) -> Option<End> {
        let Position::Behind(predecessor) = &mut self.position else {
            return None;
        };
        self.takeover.freed(event, predecessor.watch.take());
        let trusted = condition == Condition::Connected(self.verified) && self.session.condition() == condition;
        if event != Event::NodeDeleted || !trusted {
            return None;
        }
        // Both events come over one connection: if our own node was deleted too, its event came first.
        if let Some(Event::NodeDeleted) = fired(self.node.watch()).now_or_never() {
            return Some(End::NodeGone);
        }
        let position = if predecessor.is_last { Position::Head } else { Position::Unknown };
        self.set_position(position);
        None
    }

    /// Reads the mark of a revocation from the data of our node, whenever that is read.
    fn note_data(&mut self, data: &[u8]) {
        if self.spec.takes_mark && data == REVOKED && !self.revoked {
            self.revoked = true;
            if let Some(owner) = &self.owner {
                owner.revoke();
            }
        }
    }

    /// Sets the state that [`next`](Self::next) returns next, unless the last one was of the same kind.
    fn set_state(&mut self, state: State) {
        if discriminant(&self.state) != discriminant(&state) {
            self.state = state;
            self.returned = false;
        }
    }

    /// Checks after a reconnect that our node and the one before it still exist. The session's first heartbeat is ahead
    /// of these reads on the connection, so they are not older than the reconnect.
    async fn verify(&mut self, connection: u64) -> Result<(), CheckEnd> {
        self.session.spread_out(&self.core.random).await;
        let own = if self.watches_own() { Own::Watch } else { Own::Read };
        self.read_nodes(own, matches!(self.position, Position::Behind(_))).await?;
        self.verified = connection;
        Ok(())
    }

    /// Arms the missing watches. Afterwards the position may be unknown.
    async fn watch(&mut self) -> Result<(), CheckEnd> {
        let own = if self.watches_own() && self.node.watch().is_none() { Own::Watch } else { Own::Leave };
        let predecessor = matches!(self.position, Position::Behind(Predecessor { watch: None, .. }));
        self.read_nodes(own, predecessor).await
    }

    /// Returns whether to watch our node. A waiter that lists the line before it holds need not, as the list shows the
    /// node.
    fn watches_own(&self) -> bool {
        match &self.position {
            Position::Unknown | Position::NotAdmitted => false,
            Position::Head => self.watch_own,
            Position::Behind(before) => before.is_last,
        }
    }

    /// Reads our node, and the one before it with a watch, in one round trip.
    async fn read_nodes(&mut self, own: Own, predecessor: bool) -> Result<(), CheckEnd> {
        let (own, predecessor) = self.session.together(|| {
            let own = match own {
                Own::Leave => None,
                Own::Read => {
                    let read = self.session.get_data(&self.path);
                    Some(read.map_ok(|(data, stat)| (data, stat, None)).left_future())
                }
                Own::Watch => {
                    let read = self.session.watch_data(&self.path);
                    Some(read.map_ok(|(data, stat, watch)| (data, stat, Some(watch))).right_future())
                }
            };
            let predecessor = match &self.position {
                Position::Behind(before) if predecessor => Some(self.session.watch_data(&before.path)),
                _ => None,
            };
            (own, predecessor)
        });
        if let Some(own) = own {
            let answer = own.await;
            self.own_seen(answer)?;
        }
        if let (Some(answer), Position::Behind(before)) = (predecessor, &mut self.position) {
            match answer.await {
                Ok((_, _, watch)) => before.watch = Some(watch),
                // It was deleted while it was not watched: list again.
                Err(engine::Error::NoNode) => self.set_position(Position::Unknown),
                Err(error) => return Err(self.classify_error(error)),
            }
        }
        Ok(())
    }

    /// Checks that our node exists and that our session owns it.
    fn own_seen(&mut self, answer: Read) -> Result<(), CheckEnd> {
        match answer {
            Ok((data, stat, watch)) if stat.ephemeral_owner == self.session.id() => {
                if watch.is_some() {
                    *self.node.watch() = watch;
                }
                self.note_data(&data);
                Ok(())
            }
            Ok(_) | Err(engine::Error::NoNode) => Err(CheckEnd::End(End::NodeGone)),
            Err(error) => Err(self.classify_error(error)),
        }
    }

    /// Finds our position in the line.
    async fn refresh_position(&mut self) -> Result<(), CheckEnd> {
        let children = match self.children.take() {
            Some(children) => children,
            None => self.list().await?,
        };
        let queue = queue(&self.session, &self.spec.dir, children, &self.spec.bases()).await;
        let queue = queue.map_err(|error| self.classify_error(error))?;
        self.note_exhaustion(queue.is_near_exhaustion());
        if queue.is_outdated(&self.spec.rule) {
            return Ok(());
        }
        let name = self.node.name();
        let Some(turn) = queue.turn_of(name, &self.spec.rule) else {
            return Err(CheckEnd::End(End::NodeGone));
        };
        self.set_position(Position::of(turn, &self.spec.dir));
        Ok(())
    }

    /// Lists the directory. If it does not exist, another client deleted both it and our node.
    ///
    /// The list may show that we are first. If nothing has extended the lease until now, it is proven in the same round
    /// trip: both requests are handed over before either is awaited.
    async fn list(&self) -> Result<Vec<String>, CheckEnd> {
        let (proof, listed) = self.session.together(|| {
            let proof = self.session.grant().is_none().then(|| self.session.heartbeat());
            (proof, self.session.list_children(&self.spec.dir))
        });
        // If the proof fails, the lease gives no grant, so nothing is held.
        let (listed, _) = join(listed, OptionFuture::from(proof)).await;
        match listed {
            Ok((children, _)) => Ok(children),
            Err(engine::Error::NoNode) => Err(CheckEnd::End(End::NodeGone)),
            Err(error) => Err(self.classify_error(error)),
        }
    }

    fn note_exhaustion(&mut self, near: bool) {
        let made = near.then(|| self.core.made.by(&self.spec.dir)).flatten();
        if near && !self.exhaustion_logged {
            let how = match made {
                Some(_) => "that is tried whenever a participant leaves",
                None => "delete it when it has no participants: this client does not, as it has not made it",
            };
            tracing::warn!(
                event = "counter_nearly_exhausted",
                path = self.core.config.namespace.strip(&self.spec.dir),
                how,
                "the counter of this directory nears 2^31 and cannot go on; it starts again when the directory is \
                 deleted"
            );
        }
        self.exhaustion_logged = near;
        self.node.set_restart_counter(made);
    }

    /// Classifies the failure of a request: a transient one ends with the connection, any other ends this place.
    fn classify_error(&self, error: engine::Error) -> CheckEnd {
        if error.is_transient() {
            return CheckEnd::Connection;
        }
        CheckEnd::End(End::Failed(Error::from_engine("contend at", &self.spec.dir, error)))
    }
}
