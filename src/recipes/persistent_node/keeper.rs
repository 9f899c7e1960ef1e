//! Maintains the node in one session: creates or adopts it, writes its data, and reacts to what happens to it.

use std::sync::Arc;

use futures::future::{OptionFuture, join};
use tokio::sync::watch;
use tokio::time::Instant;

use super::NodeMode;
use super::deletions::Deletions;
use super::late_writes::LateWrites;
use super::look::{Ownership, Seen, find_numbered, look};
use super::pending_deletes::PendingDeletes;
use super::spec::Spec;
use super::state::{NodeState, Shared, Wanted};
use super::touch::Touch;
use crate::client::core::Core;
use crate::client::session::{Condition, Session};
use crate::client::{Error, parents};
use crate::engine::{self, Event, Watch};
use crate::layout::parts;
use crate::util::backoff::Backoff;
use crate::util::path::join as join_path;
use crate::util::wait::{fired, forever, sleep_until_opt};
use crate::util::znode::{CreateMode, Stat};

/// Why maintaining the node in one session ended.
#[derive(Debug)]
pub(super) enum End {
    SessionOver,
    Failed(Error),
}

/// The node from session to session. Each of its futures may be dropped at any await: what has to be deleted is
/// recorded in `deletes` before the first await.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) core: Arc<Core>,
    pub(super) shared: Arc<Shared>,
    spec: Spec,
    pub(super) failures: Backoff,
    /// The path on the server, once it is known.
    path: Option<Arc<str>>,
    deletes: PendingDeletes,
    /// The prefix of the numbered node that was requested last.
    prefix: String,
    ownership: Ownership,
    /// The watch on the node at the path. `None`: it has to be set.
    watch: Option<Watch>,
    /// The node must be looked at: it may differ from what is known.
    is_stale: bool,
    /// The number of the data that our node has; 0 if that is not known.
    written: u64,
    late_writes: LateWrites,
    pub(super) wanted: watch::Receiver<Wanted>,
    /// When the present step began.
    step_began: Instant,
    /// The number of the latest data that was wanted then. A failure of the step concerns it.
    tried: u64,
    /// The number of the data that was refused, and when to write it again.
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
            deletes: PendingDeletes::new(core, shared, is_unique),
            prefix: String::new(),
            ownership: Ownership::Unknown,
            watch: None,
            is_stale: true,
            written: 0,
            late_writes: LateWrites::default(),
            wanted: shared.wanted.subscribe(),
            step_began: Instant::now(),
            tried: 0,
            refused: None,
            touch,
            deletions: Deletions::new(),
            create_at: None,
        }
    }

    /// Maintains the node until the session ends, or a request fails with an error that is not transient.
    pub(super) async fn keep(&mut self, session: &Arc<Session>) -> End {
        self.late_writes.enter(session, &self.core);
        if !self.deletes.enter(session, self.path.as_ref()) {
            (self.ownership, self.watch) = (Ownership::Unknown, None);
        }
        let mut conditions = session.conditions();
        loop {
            let condition = *conditions.borrow_and_update();
            match condition {
                Condition::Ended(_) => return End::SessionOver,
                Condition::Suspended => {
                    self.shared.publish(NodeState::Suspended);
                    // The sender is in the session.
                    let _ = conditions.changed().await;
                }
                Condition::Connected(connection) => tokio::select! {
                    biased;
                    _ = conditions.changed() => {}
                    error = self.run_connected(session, connection) => return End::Failed(error),
                },
            }
        }
    }

    /// Does the work on this connection. Returns the first error that is not transient.
    async fn run_connected(&mut self, session: &Arc<Session>, connection: u64) -> Error {
        self.is_stale = true;
        self.refused = None;
        self.touch.iter_mut().for_each(Touch::retry);
        loop {
            if session.connected().await.is_err() {
                // `keep` sees it in the condition.
                forever::<()>().await;
            }
            if let Err(error) = self.step(session).await
                && let Err(error) = session.wait_if_transient(error, connection).await
            {
                return self.spec.error(self.path.as_deref(), error);
            }
        }
    }

    /// Does the next step, or waits until there is one.
    async fn step(&mut self, session: &Arc<Session>) -> Result<(), engine::Error> {
        let wanted = self.wanted.borrow_and_update().clone();
        (self.step_began, self.tried) = (Instant::now(), wanted.number);
        let Some(path) = self.path.clone() else { return self.create_numbered(session).await };
        if self.watch.is_some() && !self.is_stale {
            return self.wait(session, &path, wanted).await;
        }
        match self.ownership {
            Ownership::Unknown => self.create(session, &path).await,
            Ownership::Ours { .. } | Ownership::Foreign => {
                let seen = look(session, &path, self.watches_data()).await;
                self.handle_look(session, &path, seen).await
            }
        }
    }

    /// Waits for an event of the node, or for something to write. Events come first: if the node is gone, a write could
    /// hit the node of another session that has the same version.
    async fn wait(&mut self, session: &Arc<Session>, path: &Arc<str>, wanted: Wanted) -> Result<(), engine::Error> {
        let is_ours = matches!(self.ownership, Ownership::Ours { .. });
        // Newer data is tried at once.
        let write_at = self.refused.filter(|(number, _)| *number == wanted.number).map(|(_, at)| at);
        let is_due = is_ours && self.confirmed() < wanted.number && write_at.is_none();
        // A node that ends with the session has no children.
        let touch_at = self.touch.as_ref().filter(|_| is_ours && self.deletes.outlasts()).map(Touch::at);
        tokio::select! {
            biased;
            event = fired(&mut self.watch) => {
                self.watch = None;
                match event {
                    Event::NodeDeleted if is_ours => self.deleted(),
                    Event::NodeDeleted => self.ownership = Ownership::Unknown,
                    _ => {}
                }
            }
            () = std::future::ready(()), if is_due => return self.write(session, path, wanted).await,
            // The sender is in `shared`.
            _ = self.wanted.changed(), if is_ours => {}
            () = sleep_until_opt(write_at), if is_ours => self.refused = None,
            () = sleep_until_opt(self.late_writes.look_at()), if is_ours => self.is_stale = true,
            () = sleep_until_opt(touch_at) => return self.touch(session, path).await,
        }
        Ok(())
    }

    /// Renews the time to live.
    async fn touch(&mut self, session: &Arc<Session>, path: &Arc<str>) -> Result<(), engine::Error> {
        let Some(touch) = &mut self.touch else { return Ok(()) };
        let child = Touch::path(path);
        self.deletes.expect_child(&child);
        match touch.touch(session, &child, &self.core.config.acls).await {
            // After a recovery, the node is looked at, which publishes its state again.
            Ok(recovered) => self.is_stale |= recovered,
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                touch.failed(self.core.next_delay(&mut self.failures, self.core.clock.now()));
                self.failed(Error::from_engine("touch", &child, error));
            }
        }
        Ok(())
    }

    /// Creates the node and looks at it, in one flight. If an unanswered request is repeated, it finds the node of the
    /// first one, which belongs to our session.
    async fn create(&mut self, session: &Arc<Session>, path: &Arc<str>) -> Result<(), engine::Error> {
        self.shared.publish(NodeState::Creating);
        if let Some(at) = self.create_at {
            tokio::time::sleep_until(at).await;
        }
        self.create_at = None;
        let is_first = self.deletes.expect(session, path, self.spec.mode.is_lasting());
        let wanted = self.shared.wanted.borrow().clone();
        let (created, seen) = session.together(|| {
            let (mode, acls) = (self.spec.mode.create_mode(), &self.core.config.acls);
            (session.create(path, &wanted.data, mode, acls), look(session, path, self.watches_data()))
        });
        let (created, seen) = join(created, seen).await;
        match created {
            Ok((_, stat)) => self.created(session, path, &stat, wanted.number),
            // It is not ours, unless the look shows that it is.
            Err(engine::Error::NodeExists) if is_first => self.not_created(),
            Err(engine::Error::NodeExists) => {}
            Err(engine::Error::NoNode) => {
                self.not_created();
                return parents::try_create(session, &self.spec.dir, &self.core.config.acls).await.map(drop);
            }
            Err(error) => {
                if is_first && !error.leaves_outcome_unknown() {
                    self.not_created();
                }
                // The servers check the permission first, so the node may exist.
                if error.is_transient() || !matches!(seen, Ok(Some(_))) {
                    return Err(error);
                }
            }
        }
        self.handle_look(session, path, seen).await
    }

    /// Creates the numbered node. After that, its path is known and never changes.
    async fn create_numbered(&mut self, session: &Arc<Session>) -> Result<(), engine::Error> {
        self.shared.publish(NodeState::Creating);
        if self.deletes.is_present() {
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
        self.deletes.expect_numbered(session, &self.spec.dir, self.prefix.clone());
        let wanted = self.shared.wanted.borrow().clone();
        let (mode, acls) = (CreateMode::EphemeralSequential, &self.core.config.acls);
        match session.create(&requested, &wanted.data, mode, acls).await {
            Ok((path, stat)) => self.numbered(session, path, &stat, wanted.number),
            Err(engine::Error::NoNode) => {
                self.not_created();
                return parents::try_create(session, &self.spec.dir, &self.core.config.acls).await.map(drop);
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
        let path = Arc::clone(self.path.insert(path.into()));
        self.created(session, &path, stat, written);
    }

    /// Records that a create of ours was carried out.
    fn created(&mut self, session: &Arc<Session>, path: &Arc<str>, stat: &Stat, written: u64) {
        self.now_ours(session, path, stat, written);
        tracing::debug!(event = "node_created", path = self.stripped(path), czxid = stat.czxid, "the node was created");
    }

    fn now_ours(&mut self, session: &Arc<Session>, path: &Arc<str>, stat: &Stat, written: u64) {
        self.deletes.adopt(session, path, stat);
        self.ownership = Ownership::Ours { czxid: stat.czxid, version: stat.version };
        self.written = written;
        self.refused = None;
        if let Some(touch) = &mut self.touch {
            touch.restart();
        }
    }

    /// Records that nothing at the path is ours.
    fn not_created(&mut self) {
        self.deletes.forget_node();
        (self.ownership, self.watch) = (Ownership::Unknown, None);
    }

    /// Handles what a look at the path has shown.
    async fn handle_look(
        &mut self,
        session: &Arc<Session>,
        path: &Arc<str>,
        seen: Result<Option<Seen>, engine::Error>,
    ) -> Result<(), engine::Error> {
        let seen = seen?;
        self.late_writes.decided();
        let seen = match seen {
            Some(seen) if self.ownership.is_unchanged(&seen.stat) => Some(seen),
            Some(seen) => seen.with_data(session, path).await?,
            None => None,
        };
        let Some(Seen { data, stat, watch }) = seen else {
            match self.ownership {
                Ownership::Ours { .. } => self.deleted(),
                _ => self.not_created(),
            }
            return Ok(());
        };
        self.is_stale = false;
        if stat.ephemeral_owner != 0 && stat.ephemeral_owner != session.id() {
            if !self.deletes.is_former(stat.ephemeral_owner) {
                self.shared.set_foreign(stat.ephemeral_owner, data.unwrap_or_default());
            }
            return self.wait_for(session, path, watch).await;
        }
        self.watch = Some(watch);
        self.deletes.forget_former();
        match self.ownership {
            Ownership::Ours { czxid, .. } if czxid == stat.czxid => {
                self.ownership = Ownership::Ours { czxid, version: stat.version };
            }
            _ => {
                self.now_ours(session, path, &stat, 0);
                self.log_adopted(path, &stat);
            }
        }
        let wanted = self.wanted.borrow().clone();
        if data.as_deref().is_some_and(|data| self.late_writes.have_written(stat.version, data)) {
            self.written = 0;
        }
        self.late_writes.looked(self.step_began);
        if data.is_some_and(|data| *data == *wanted.data) {
            self.written = wanted.number;
            self.refused = self.refused.filter(|_| self.late_writes.may_replace(stat.version));
        }
        self.publish_ours(path);
        Ok(())
    }

    /// Returns the number of the data that our node has and keeps; 0 if a late write may replace it.
    fn confirmed(&self) -> u64 {
        match self.ownership {
            Ownership::Ours { version, .. } if !self.late_writes.may_replace(version) => self.written,
            _ => 0,
        }
    }

    /// Publishes that the node is ours, and which data it has.
    fn publish_ours(&mut self, path: &Arc<str>) {
        let is_other = self.spec.mode.is_lasting() != self.deletes.outlasts();
        let state = if is_other { NodeState::OtherKind } else { NodeState::Present };
        let is_well = self.refused.is_none() && self.touch.as_ref().is_none_or(|touch| !touch.is_failing);
        let confirmed = self.confirmed();
        if is_well && confirmed == self.wanted.borrow().number {
            self.failures.reset();
        }
        self.shared.publish_progress(self.stripped(path), confirmed, is_well.then_some(state));
    }

    /// Returns whether to watch the data and not the children: if the node may have children, as a watch on them would
    /// report more than its end.
    fn watches_data(&self) -> bool {
        self.spec.mode.is_lasting() || self.deletes.outlasts()
    }

    /// Leaves the node of another session alone until it is gone.
    async fn wait_for(&mut self, session: &Arc<Session>, path: &Arc<str>, watch: Watch) -> Result<(), engine::Error> {
        if let Ownership::Ours { .. } = self.ownership {
            self.deleted();
            self.create_at = None;
        }
        self.not_created();
        self.ownership = Ownership::Foreign;
        self.watch = Some(watch);
        if self.shared.publish(NodeState::Waiting) {
            tracing::info!(
                event = "waiting_for_owner",
                path = self.stripped(path),
                "another session owns the node; ours is created when that one is gone"
            );
        }
        if self.spec.is_unique {
            // With a unique name it can only be a node of a former session of this client.
            if let Err(error) = session.delete(path, None).await
                && error.is_transient()
            {
                self.is_stale = true;
                return Err(error);
            }
        }
        Ok(())
    }

    fn log_adopted(&self, path: &str, stat: &Stat) {
        let path = self.stripped(path);
        if self.spec.mode.is_lasting() == (stat.ephemeral_owner == 0) {
            tracing::debug!(event = "node_adopted", path, czxid = stat.czxid, "an existing node was adopted");
        } else {
            tracing::warn!(
                event = "node_of_other_kind",
                path,
                mode = ?self.spec.mode,
                owner = format_args!("{:#x}", stat.ephemeral_owner),
                "an existing node of another kind was adopted"
            );
        }
    }

    /// Handles a deletion by another client: the node is created again at once, or after growing delays if deletions
    /// are repeated.
    fn deleted(&mut self) {
        tracing::warn!(event = "node_deleted", path = &*self.shared.path, "another client deleted our node");
        self.not_created();
        self.create_at = self.deletions.record(&self.core);
    }

    /// Writes the data. That uses up a watch on the data, so the node is looked at in the same flight.
    async fn write(&mut self, session: &Arc<Session>, path: &Arc<str>, wanted: Wanted) -> Result<(), engine::Error> {
        let Ownership::Ours { version, .. } = self.ownership else { return Ok(()) };
        let looks = self.watches_data();
        self.late_writes.sent(session, version, &wanted.data);
        let (set, seen) = session.together(|| {
            let set = session.set_data(path, &wanted.data, Some(version));
            (set, OptionFuture::from(looks.then(|| look(session, path, looks))))
        });
        let (set, seen) = join(set, seen).await;
        if !set.as_ref().is_err_and(engine::Error::leaves_outcome_unknown) {
            self.late_writes.decided();
        }
        if looks {
            self.watch = None;
        }
        match set {
            Ok(Stat { czxid, version, .. }) => {
                if matches!(self.ownership, Ownership::Ours { czxid: ours, .. } if ours == czxid) {
                    self.ownership = Ownership::Ours { czxid, version };
                    self.refused = None;
                    self.written = wanted.number;
                } else {
                    self.is_stale = true;
                }
            }
            // Another client has written or deleted it: look again.
            Err(engine::Error::BadVersion | engine::Error::NoNode) => self.is_stale = true,
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                let delay = self.core.next_delay(&mut self.failures, self.core.clock.now());
                self.refused = Some((wanted.number, Instant::now() + delay));
                self.failed(Error::from_engine("set the data of", path, error));
            }
        }
        if let Some(seen) = seen {
            return self.handle_look(session, path, seen).await;
        }
        if !self.is_stale {
            self.publish_ours(path);
        }
        Ok(())
    }

    /// Publishes a failure of the present step.
    pub(super) fn failed(&self, error: Error) {
        self.shared.failed(error, self.tried);
    }

    /// Publishes what the end of a session means for the node.
    pub(super) fn session_over(&self) {
        self.shared.publish(if self.spec.mode.is_lasting() { NodeState::Suspended } else { NodeState::Creating });
    }

    /// See [`PendingDeletes::client_closed`].
    pub(super) fn client_closed(&mut self) -> Result<(), super::Error> {
        self.deletes.client_closed()
    }

    /// Deletes the node permanently.
    pub(super) async fn leave(&mut self) -> Result<(), super::Error> {
        // Kept until the node is gone: the deletion ends it at no cost.
        let _watch = self.watch.take();
        self.deletes.delete_all(self.path.as_ref()).await
    }

    fn stripped<'a>(&self, path: &'a str) -> &'a str {
        self.core.config.namespace.strip(path)
    }
}
