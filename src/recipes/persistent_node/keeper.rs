//! Keeps the node there in one session: creates or adopts it, writes its data, and waits for what happens to it.

use std::sync::Arc;

use futures::future::{OptionFuture, join};
use tokio::sync::watch;
use tokio::time::Instant;

use super::NodeMode;
use super::deletions::Deletions;
use super::duty::Duty;
use super::look::{Seen, Sight, find_numbered, look};
use super::spec::Spec;
use super::state::{NodeState, Shared, Wanted};
use super::touch::Touch;
use crate::client::core::Core;
use crate::client::session::{Condition, Session};
use crate::client::{Error, ErrorKind, parents};
use crate::engine::{self, Event, Watch};
use crate::layout::parts;
use crate::util::backoff::Backoff;
use crate::util::path::join as join_path;
use crate::util::wait::{fired, forever, sleep_until_opt};
use crate::util::znode::{CreateMode, Stat};

/// Why keeping the node in one session ended.
#[derive(Debug)]
pub(super) enum End {
    SessionOver,
    Failed(Error),
}

/// The node from session to session. Each of its futures may be dropped at any await: what has to be deleted is in
/// `duty` before it is waited for.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) core: Arc<Core>,
    pub(super) shared: Arc<Shared>,
    spec: Spec,
    pub(super) failures: Backoff,
    /// The path on the server, once it is known.
    path: Option<Arc<str>>,
    duty: Duty,
    /// The prefix of the numbered node that was requested last.
    prefix: String,
    sight: Sight,
    /// Of the node at the path. `None`: to be armed, or rearmed.
    watch: Option<Watch>,
    /// The node must be read, as events may be missing since the last connection.
    is_stale: bool,
    /// The number of the data that our node has; 0 if that is not known.
    written: u64,
    pub(super) wanted: watch::Receiver<Wanted>,
    /// The number of the latest data that was wanted when the present step began, which a failure of it concerns.
    tried: u64,
    /// The data that was refused, by its number, and when to write it again.
    refused: Option<(u64, Instant)>,
    /// Present if the node has a time to live.
    touch: Option<Touch>,
    deletions: Deletions,
    /// When to create again after a deletion.
    create_at: Option<Instant>,
}

impl Keeper {
    pub(super) fn new(core: &Arc<Core>, shared: &Arc<Shared>, spec: Spec, failures: Backoff) -> Self {
        let is_unique = spec.is_unique;
        let touch = match spec.mode {
            NodeMode::Ttl(ttl) => Some(Touch::new(ttl)),
            _ => None,
        };
        Keeper {
            core: Arc::clone(core),
            shared: Arc::clone(shared),
            path: spec.path.clone(),
            spec,
            failures,
            duty: Duty::new(core, shared, is_unique),
            prefix: String::new(),
            sight: Sight::Unknown,
            watch: None,
            is_stale: true,
            written: 0,
            wanted: shared.wanted.subscribe(),
            tried: 0,
            refused: None,
            touch,
            deletions: Deletions::new(),
            create_at: None,
        }
    }

    /// Keeps the node there until the session ends, or a request fails for good.
    pub(super) async fn keep(&mut self, session: &Arc<Session>) -> End {
        if !self.duty.enter(session, self.path.as_ref()) {
            (self.sight, self.watch) = (Sight::Unknown, None);
        }
        let mut conditions = session.conditions();
        loop {
            let condition = *conditions.borrow_and_update();
            match condition {
                Condition::Ended(_) => return End::SessionOver,
                Condition::Suspended => {
                    self.shared.tell(NodeState::Suspended);
                    // The sender is in the session.
                    let _ = conditions.changed().await;
                }
                Condition::Connected(connection) => tokio::select! {
                    biased;
                    _ = conditions.changed() => {}
                    error = self.attend(session, connection) => return End::Failed(error),
                },
            }
        }
    }

    /// Does what there is to do on this connection. Returns the error that does not pass by itself.
    async fn attend(&mut self, session: &Arc<Session>, connection: u64) -> Error {
        self.is_stale = true;
        self.refused = None;
        self.touch.iter_mut().for_each(Touch::retry);
        loop {
            if session.connected().await.is_err() {
                // The condition tells.
                forever::<()>().await;
            }
            if let Err(error) = self.step(session).await
                && let Err(error) = session.outlast(error, connection).await
            {
                return self.error(error);
            }
        }
    }

    /// Does one step, or waits until there is one to do.
    async fn step(&mut self, session: &Arc<Session>) -> Result<(), engine::Error> {
        let wanted = self.wanted.borrow_and_update().clone();
        self.tried = wanted.number;
        let Some(path) = self.path.clone() else { return self.create_numbered(session).await };
        if self.watch.is_some() && !self.is_stale {
            return self.rest(session, &path, wanted).await;
        }
        match self.sight {
            Sight::Unknown => self.create(session, &path).await,
            Sight::Ours { .. } | Sight::Foreign => {
                let seen = look(session, &path, self.is_lasting()).await;
                self.saw(session, &path, seen).await
            }
        }
    }

    /// Waits for an event of the node, or for something to write. Events come first: where the node is gone, a write
    /// would hit the node of another session that has the same version.
    async fn rest(&mut self, session: &Arc<Session>, path: &Arc<str>, wanted: Wanted) -> Result<(), engine::Error> {
        let is_ours = matches!(self.sight, Sight::Ours { .. });
        // Newer data is tried at once.
        let write_at = self.refused.filter(|(number, _)| *number == wanted.number).map(|(_, at)| at);
        let is_due = is_ours && self.written < wanted.number && write_at.is_none();
        // A node that ends with the session has no children.
        let touch_at = self.touch.as_ref().filter(|_| is_ours && self.duty.outlasts()).map(Touch::at);
        tokio::select! {
            biased;
            event = fired(&mut self.watch) => {
                self.watch = None;
                match event {
                    Event::NodeDeleted if is_ours => self.deleted(),
                    Event::NodeDeleted => self.sight = Sight::Unknown,
                    _ => {}
                }
            }
            () = std::future::ready(()), if is_due => return self.write(session, path, wanted).await,
            // The sender is in `shared`.
            _ = self.wanted.changed(), if is_ours => {}
            () = sleep_until_opt(write_at), if is_ours => self.refused = None,
            () = sleep_until_opt(touch_at) => return self.touch(session, path).await,
        }
        Ok(())
    }

    /// Renews the time to live.
    async fn touch(&mut self, session: &Arc<Session>, path: &Arc<str>) -> Result<(), engine::Error> {
        let Some(touch) = &mut self.touch else { return Ok(()) };
        let child = Touch::path(path);
        self.duty.expect_child(&child);
        match touch.touch(session, &child, &self.core.config.acls).await {
            // Its state is published again.
            Ok(recovered) => self.is_stale |= recovered,
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                touch.failed(self.core.next_delay(&mut self.failures, self.core.clock.now()));
                self.failed(Error::from_engine("touch", &child, error));
            }
        }
        Ok(())
    }

    /// Creates the node and looks at it, in one flight. The same request again, after one that was not answered, finds
    /// the node of the first: it belongs to our session.
    async fn create(&mut self, session: &Arc<Session>, path: &Arc<str>) -> Result<(), engine::Error> {
        self.shared.tell(NodeState::Creating);
        if let Some(at) = self.create_at {
            tokio::time::sleep_until(at).await;
        }
        self.create_at = None;
        let is_first = self.duty.expect(session, path, self.spec.mode.is_lasting());
        let wanted = self.shared.wanted.borrow().clone();
        let (created, seen) = session.together(|| {
            let (mode, acls) = (self.spec.mode.create_mode(), &self.core.config.acls);
            (session.create(path, &wanted.data, mode, acls), look(session, path, self.is_lasting()))
        });
        let (created, seen) = join(created, seen).await;
        match created {
            Ok((_, stat)) => self.created(session, path, &stat, wanted.number),
            // Nothing of ours, unless it turns out to be.
            Err(engine::Error::NodeExists) if is_first => self.not_created(),
            Err(engine::Error::NodeExists) => {}
            Err(engine::Error::NoNode) => {
                self.not_created();
                return self.create_parents(session).await;
            }
            Err(error) => {
                if is_first && !error.leaves_outcome_unknown() {
                    self.not_created();
                }
                // The servers look at the permission first: a node may be there.
                if error.is_passing() || !matches!(seen, Ok(Some(_))) {
                    return Err(error);
                }
            }
        }
        self.saw(session, path, seen).await
    }

    /// Creates the numbered node. Afterwards its path is known and never changes.
    async fn create_numbered(&mut self, session: &Arc<Session>) -> Result<(), engine::Error> {
        self.shared.tell(NodeState::Creating);
        if self.duty.is_present() {
            // An earlier request was not answered. Its node counts only if our session owns it.
            let found = find_numbered(session, &self.spec.dir, &self.prefix).await?;
            if let Some((path, stat)) = found.filter(|(_, stat)| stat.ephemeral_owner == session.id()) {
                self.numbered(session, path, &stat, 0);
                return Ok(());
            }
            self.not_created();
        }
        self.prefix = parts::protection(self.core.random.uuid());
        let requested = join_path(&self.spec.dir, &format!("{}{}", self.prefix, self.spec.name));
        self.duty.expect_numbered(session, &self.spec.dir, self.prefix.clone());
        let wanted = self.shared.wanted.borrow().clone();
        let (mode, acls) = (CreateMode::EphemeralSequential, &self.core.config.acls);
        match session.create(&requested, &wanted.data, mode, acls).await {
            Ok((path, stat)) => self.numbered(session, path, &stat, wanted.number),
            Err(engine::Error::NoNode) => {
                self.not_created();
                return self.create_parents(session).await;
            }
            Err(error) => {
                if !error.leaves_outcome_unknown() {
                    self.not_created();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn numbered(&mut self, session: &Arc<Session>, path: String, stat: &Stat, written: u64) {
        let path: Arc<str> = path.into();
        self.path = Some(Arc::clone(&path));
        self.created(session, &path, stat, written);
    }

    /// Notes that a create of ours was carried out.
    fn created(&mut self, session: &Arc<Session>, path: &Arc<str>, stat: &Stat, written: u64) {
        self.now_ours(session, path, stat, written);
        tracing::debug!(event = "node_created", path = self.stripped(path), czxid = stat.czxid, "the node is created");
    }

    fn now_ours(&mut self, session: &Arc<Session>, path: &Arc<str>, stat: &Stat, written: u64) {
        self.duty.take_on(session, path, stat);
        self.sight = Sight::Ours { czxid: stat.czxid, version: stat.version };
        self.written = written;
        self.refused = None;
        if let Some(touch) = &mut self.touch {
            touch.restart();
        }
    }

    /// Notes that nothing at the path is ours.
    fn not_created(&mut self) {
        self.duty.relieve();
        (self.sight, self.watch) = (Sight::Unknown, None);
    }

    async fn create_parents(&self, session: &Arc<Session>) -> Result<(), engine::Error> {
        match parents::create(session, &self.spec.dir, &self.core.config.acls).await {
            // A parent can be deleted between two steps.
            Ok(_) | Err(engine::Error::NoNode) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Handles what was read at the path.
    async fn saw(
        &mut self,
        session: &Arc<Session>,
        path: &Arc<str>,
        seen: Result<Option<Seen>, engine::Error>,
    ) -> Result<(), engine::Error> {
        let seen = match seen? {
            Some(seen) if self.sight.is_unchanged(&seen.stat) => Some(seen),
            Some(seen) => seen.with_data(session, path).await?,
            None => None,
        };
        let Some(Seen { data, stat, watch }) = seen else {
            match self.sight {
                Sight::Ours { .. } => self.deleted(),
                _ => self.not_created(),
            }
            return Ok(());
        };
        self.is_stale = false;
        if stat.ephemeral_owner != 0 && stat.ephemeral_owner != session.id() {
            if !self.duty.is_former(stat.ephemeral_owner) {
                self.shared.saw_foreign(stat.ephemeral_owner, data.unwrap_or_default());
            }
            return self.wait_for(session, path, watch).await;
        }
        self.watch = Some(watch);
        self.duty.path_is_free();
        match self.sight {
            Sight::Ours { czxid, .. } if czxid == stat.czxid => {
                self.sight = Sight::Ours { czxid, version: stat.version };
            }
            _ => {
                self.now_ours(session, path, &stat, 0);
                self.log_adopted(path, &stat);
            }
        }
        let wanted = self.wanted.borrow().clone();
        if data.is_some_and(|data| *data == *wanted.data) {
            self.written = wanted.number;
            self.refused = None;
        }
        self.tell_ours(path);
        Ok(())
    }

    /// Publishes that the node is ours, and which data it has.
    fn tell_ours(&mut self, path: &Arc<str>) {
        let is_other = self.spec.mode.is_lasting() != self.duty.outlasts();
        let state = if is_other { NodeState::OtherKind } else { NodeState::Present };
        let is_well = self.refused.is_none() && self.touch.as_ref().is_none_or(|touch| !touch.is_failing);
        if is_well && self.written == self.wanted.borrow().number {
            self.failures.reset();
        }
        self.shared.achieved(self.stripped(path), self.written, is_well.then_some(state));
    }

    /// Returns whether the node may have children, and does not end with the session.
    fn is_lasting(&self) -> bool {
        self.spec.mode.is_lasting() || self.duty.outlasts()
    }

    /// Leaves the node of another session alone, until it is gone.
    async fn wait_for(&mut self, session: &Arc<Session>, path: &Arc<str>, watch: Watch) -> Result<(), engine::Error> {
        if let Sight::Ours { .. } = self.sight {
            self.deleted();
            self.create_at = None;
        }
        self.not_created();
        self.sight = Sight::Foreign;
        self.watch = Some(watch);
        if self.shared.tell(NodeState::Waiting) {
            tracing::info!(
                event = "waiting_for_owner",
                path = self.stripped(path),
                "another session owns the node, and ours can only be created when that one is gone"
            );
        }
        if self.spec.is_unique {
            // It can only be a node of a former session of this client.
            match session.delete(path, None).await {
                Err(error) if error.is_passing() => {
                    self.is_stale = true;
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn log_adopted(&self, path: &str, stat: &Stat) {
        let path = self.stripped(path);
        if self.spec.mode.is_lasting() == (stat.ephemeral_owner == 0) {
            tracing::debug!(event = "node_adopted", path, czxid = stat.czxid, "a node that was there is ours");
        } else {
            tracing::warn!(
                event = "node_of_other_kind",
                path,
                mode = ?self.spec.mode,
                owner = format_args!("{:#x}", stat.ephemeral_owner),
                "a node of another kind was there, and was adopted"
            );
        }
    }

    /// Handles a deletion by another client: the node is created again at once, after further ones with growing delays.
    fn deleted(&mut self) {
        let path = &*self.shared.path;
        tracing::warn!(event = "node_deleted", path, "our node was deleted by another client");
        self.not_created();
        self.create_at = self.deletions.another(&self.core);
    }

    /// Writes the data. A watch on them is used up by that, so the node is looked at, in the same flight.
    async fn write(&mut self, session: &Arc<Session>, path: &Arc<str>, wanted: Wanted) -> Result<(), engine::Error> {
        let Sight::Ours { version, .. } = self.sight else { return Ok(()) };
        let looks = self.is_lasting();
        let (set, seen) = session.together(|| {
            let set = session.set_data(path, &wanted.data, Some(version));
            (set, OptionFuture::from(looks.then(|| look(session, path, looks))))
        });
        let (set, seen) = join(set, seen).await;
        if looks {
            self.watch = None;
        }
        let refused = match set {
            Ok(Stat { czxid, version, .. }) => {
                if matches!(self.sight, Sight::Ours { czxid: ours, .. } if ours == czxid) {
                    (self.sight, self.written) = (Sight::Ours { czxid, version }, wanted.number);
                    self.refused = None;
                } else {
                    self.is_stale = true;
                }
                None
            }
            // It was written or deleted by another client: a look tells.
            Err(engine::Error::BadVersion | engine::Error::NoNode) => {
                self.is_stale = true;
                None
            }
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => Some(error),
        };
        if let Some(error) = refused {
            let error = Error::from_engine("set the data of", path, error);
            let delay = self.core.next_delay(&mut self.failures, self.core.clock.now());
            self.refused = Some((wanted.number, Instant::now() + delay));
            self.failed(error);
        }
        if let Some(seen) = seen {
            return self.saw(session, path, seen).await;
        }
        if !self.is_stale {
            self.tell_ours(path);
        }
        Ok(())
    }

    /// Publishes a failure of the present step.
    pub(super) fn failed(&self, error: Error) {
        self.shared.failed(error, self.tried);
    }

    /// Publishes what the end of a session means for the node.
    pub(super) fn session_over(&self) {
        self.shared.tell(if self.spec.mode.is_lasting() { NodeState::Suspended } else { NodeState::Creating });
    }

    /// See [`Duty::client_closed`].
    pub(super) fn client_closed(&mut self) -> Result<(), super::Error> {
        self.duty.client_closed()
    }

    /// Deletes the node for good.
    pub(super) async fn leave(&mut self) -> Result<(), super::Error> {
        // Held until the node is gone, with which it ends at no cost.
        let _watch = self.watch.take();
        self.duty.fulfil(self.path.as_ref()).await
    }

    fn stripped<'a>(&self, path: &'a str) -> &'a str {
        self.core.config.namespace.strip(path)
    }

    fn error(&self, error: engine::Error) -> Error {
        let path = self.path.as_deref().unwrap_or(&self.spec.dir);
        match (error, self.spec.mode) {
            (engine::Error::Unimplemented(_), NodeMode::Ttl(_)) => {
                let why = "the servers do not permit nodes with a time to live; set their option \
                           zookeeper.extendedTypesEnabled to true";
                Error::at(ErrorKind::Unimplemented, "keep a node at", path, why)
            }
            (error, _) => Error::from_engine("keep a node at", path, error),
        }
    }
}
