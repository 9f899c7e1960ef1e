//! The writes of one handle: each is carried out once, or not at all.
//!
//! The handle has a node of its own in each session, below that of the number. The version of that node counts the
//! handle's transactions (see `client/sequence.rs`), so after a lost answer it shows whether the last one was carried
//! out. As a child it also ties the handle to this very node. A node that was deleted and created again has no such
//! child, so what is remembered of the first is never written into the second, although versions start again.

use std::sync::Arc;

use super::error::Error;
use super::value::{Change, decode, encode};
use crate::client::core::Core;
use crate::client::ops::write_failed;
use crate::client::sequence::{Sequence, Ticket};
use crate::client::session::{Condition, Session};
use crate::client::{self, ErrorKind};
use crate::engine::{self, Multi, Op, OpResult};

/// The version that a server takes for any.
const ANY_VERSION: i32 = -1;

/// The writes of one handle and its clones.
#[derive(Debug)]
pub(super) struct Writer {
    core: Arc<Core>,
    path: Arc<str>,
    full: String,
    registered: Option<Registered>,
}

/// The handle's node in one session.
#[derive(Debug)]
struct Registered {
    sequence: Sequence,
    /// A transaction that was handed over, whose outcome is not known: its caller is gone.
    sent: Option<Ticket>,
    /// The node after the last own write, or as it was read; `None` once another client's write was noticed.
    known: Option<Content>,
}

/// What the node holds.
#[derive(Debug, Clone)]
struct Content {
    data: Vec<u8>,
    version: i32,
}

/// A number before and after a change; `None` is no number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed {
    pub(super) before: Option<i64>,
    /// `None` if nothing was to be written.
    pub(super) written: Option<i64>,
}

/// How one transaction ended.
enum End {
    Written,
    /// It was not carried out, because another client wrote first.
    Refused,
    /// It was not carried out, for a reason that passes.
    Again,
}

impl Writer {
    pub(super) fn new(core: &Arc<Core>, path: &Arc<str>) -> Self {
        let full = core.full_path(path);
        Writer { core: Arc::clone(core), path: Arc::clone(path), full, registered: None }
    }

    /// Returns whether there is a node of the handle; then there is the node of the number too.
    pub(super) fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    /// Attempts a change until another client's write comes between. `None` then: nothing was written.
    pub(super) async fn attempt(&mut self, change: Change) -> Result<Option<Changed>, Error> {
        // Only what the ensemble has now may decide that nothing is written.
        let mut synced = false;
        loop {
            self.register(change).await?;
            let content = match self.content(change, synced).await {
                Ok(content) => content,
                Err(error) if error.is_passing() => continue,
                Err(engine::Error::NoNode) => {
                    // With its children, so also that of the handle. The next round creates both.
                    self.registered = None;
                    continue;
                }
                Err(error) => return Err(self.error("read", error)),
            };
            let changed = match self.next(change, content.as_ref()) {
                Ok(changed) if changed.written.is_some() => changed,
                decided if synced => return decided.map(Some),
                _ => {
                    synced = true;
                    continue;
                }
            };
            match self.write(change, changed, content.map(|content| content.version)).await? {
                End::Written => return Ok(Some(changed)),
                End::Refused => return Ok(None),
                End::Again => {}
            }
        }
    }

    /// Returns what a change makes of what the node holds.
    fn next(&self, change: Change, content: Option<&Content>) -> Result<Changed, Error> {
        let before = match content {
            Some(content) if content.version == ANY_VERSION => {
                return Err(Error::VersionOverflow { path: Arc::clone(&self.path) });
            }
            Some(content) => decode(&self.path, &content.data)?,
            None => None,
        };
        Ok(Changed { before, written: change.of(&self.path, before)? })
    }

    /// Ensures that the handle has a node in the current session, and that no transaction before this is in doubt.
    async fn register(&mut self, change: Change) -> Result<(), Error> {
        loop {
            let session = self.core.session_in_time(change.verb(), &self.path).await;
            let session = session.map_err(|error| Error::client(&self.path, error))?;
            if let Some(registered) = &mut self.registered
                && Arc::ptr_eq(&registered.sequence.session, &session)
                && registered.settle().await
            {
                return Ok(());
            }
            self.registered = None;
            match Sequence::create(&self.core, &session, &self.full).await {
                Ok(sequence) => self.registered = Some(Registered { sequence, sent: None, known: None }),
                // The next session can create it.
                Err(error) if error.is_passing() => {}
                Err(engine::Error::NoAuth) => return Err(self.denied("create a child of")),
                Err(error) => return Err(self.error("create a child of", error)),
            }
        }
    }

    /// Returns what the node holds: what is remembered, or what is read now. `None` if the change does not depend on
    /// it.
    async fn content(&mut self, change: Change, synced: bool) -> Result<Option<Content>, engine::Error> {
        let Some(registered) = &mut self.registered else { return Err(engine::Error::NoNode) };
        if matches!(change, Change::Set(_)) {
            return Ok(None);
        }
        if let Some(known) = &registered.known
            && !synced
        {
            return Ok(Some(known.clone()));
        }
        let session: &Session = &registered.sequence.session;
        let read = || async {
            // The last answer to a write, even to a refused one, made this server as new as that.
            if synced { session.get_data_synced(&self.full).await } else { session.get_data(&self.full).await }
        };
        let (data, stat) = session.retry_while_passing(read).await?;
        let content = Content { data, version: stat.version };
        registered.known = Some(content.clone());
        Ok(Some(content))
    }

    /// Hands over one transaction, and waits until it is known whether it was carried out.
    async fn write(&mut self, change: Change, changed: Changed, version: Option<i32>) -> Result<End, Error> {
        let (Some(registered), Some(number)) = (&mut self.registered, changed.written) else { return Ok(End::Again) };
        let Some(ticket) = registered.sequence.issue(0) else {
            // The numbers of this node are used up.
            self.registered = None;
            return Ok(End::Again);
        };
        let data = encode(number);
        let write = Op::SetData { path: self.full.clone(), data: data.clone(), version };
        registered.known = None;
        registered.sent = Some(ticket);
        let session = Arc::clone(&registered.sequence.session);
        let condition = session.condition();
        let outcome = session.multi(vec![registered.sequence.step(ticket), write]).await;
        if let Err(error) = &outcome
            && error.leaves_outcome_unknown()
        {
            return match registered.was_carried_out(ticket).await {
                Some(true) => Ok(End::Written),
                // It was answered, and the answer to another one would be the same.
                Some(false) if !error.is_passing() => Err(self.error(change.verb(), error.clone())),
                Some(false) => Ok(End::Again),
                None => {
                    self.registered = None;
                    Err(Error::client(&self.path, write_failed(change.verb(), &self.path, error.clone())))
                }
            };
        }
        registered.sent = None;
        match outcome {
            Ok(Multi::Committed(results)) => {
                registered.sequence.confirm(ticket);
                if let Some(OpResult::SetData { stat }) = results.last() {
                    registered.known = Some(Content { data, version: stat.version });
                }
                Ok(End::Written)
            }
            Ok(Multi::Refused { index: 1, error: engine::Error::BadVersion }) => Ok(End::Refused),
            // Other clients deleted the handle's node, with that of the number or alone, or wrote it.
            Ok(Multi::Refused { error: engine::Error::NoNode | engine::Error::BadVersion, .. }) => {
                self.registered = None;
                Ok(End::Refused)
            }
            Ok(Multi::Refused { error: engine::Error::NoAuth, .. }) | Err(engine::Error::NoAuth) => {
                Err(self.denied(change.verb()))
            }
            Ok(Multi::Refused { error, .. }) => Err(self.error(change.verb(), error)),
            // It was not sent, or not processed.
            Err(error) if error.is_passing() => {
                if let Condition::Connected(connection) = condition {
                    session.loss_known(connection).await;
                }
                Ok(End::Again)
            }
            Err(error) => Err(self.error(change.verb(), error)),
        }
    }

    fn error(&self, doing: &str, error: engine::Error) -> Error {
        Error::client(&self.path, client::Error::from_engine(doing, &self.path, error))
    }

    fn denied(&self, doing: &str) -> Error {
        let why = "no permission; who writes a number needs READ, WRITE, CREATE and DELETE at its node, for a child \
                   that counts the writes, and CREATE above it if it is missing";
        Error::client(&self.path, client::Error::at(ErrorKind::NoAuth, doing, &self.path, why))
    }
}

impl Registered {
    /// Settles a transaction whose caller is gone. False if this node cannot tell, so that another has to be used.
    async fn settle(&mut self) -> bool {
        match self.sent {
            Some(ticket) => self.was_carried_out(ticket).await.is_some(),
            None => true,
        }
    }

    /// Returns whether a transaction was carried out that was handed over and not answered. If it was not, it never
    /// will be, as this session has sent requests after it that are answered. `None` if that cannot be known.
    async fn was_carried_out(&mut self, ticket: Ticket) -> Option<bool> {
        let last = self.sequence.read(&[ticket]).await?;
        self.sent = None;
        Some(ticket.number <= last)
    }
}
