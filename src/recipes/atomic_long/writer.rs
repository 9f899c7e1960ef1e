//! The writes of one handle: each is carried out once, or not at all.
//!
//! The handle has its own node in each session, below the number's node. The version of the handle's node counts the
//! handle's transactions (see `client/sequence.rs`), so after a lost answer it shows whether the last one was carried
//! out. As a child it also ties the handle to this very node of the number: a node that was deleted and created again
//! has no such child, so a number derived from the first is never written into the second, although versions start
//! again.

use std::sync::Arc;

use super::error::Error;
use super::value::{Change, decode, encode};
use crate::client::core::Core;
use crate::client::ops::write_failed;
use crate::client::sequence::{Sequence, Ticket};
use crate::client::session::{Condition, Session};
use crate::client::{self, ErrorKind};
use crate::engine::{self, Multi, Op, OpResult};

/// The version that a server takes to mean any version.
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
    /// A transaction that was handed over and whose outcome is unknown because its caller is gone.
    sent: Option<Ticket>,
    /// The node after the last own write, or as it was read; `None` once another client's write was noticed.
    known: Option<Content>,
}

/// The data of the number's node.
#[derive(Debug, Clone)]
struct Content {
    data: Vec<u8>,
    version: i32,
}

/// A number before and after a change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed {
    /// `None` if the node was missing or empty.
    pub(super) before: Option<i64>,
    /// `None` if there was nothing to write.
    pub(super) written: Option<i64>,
}

/// How one transaction ended.
enum End {
    Written,
    /// It was not carried out, because another client wrote first.
    Refused,
    /// It was not carried out, for a transient reason.
    Again,
}

impl Writer {
    pub(super) fn new(core: &Arc<Core>, path: &Arc<str>) -> Self {
        let full = core.full_path(path);
        Writer { core: Arc::clone(core), path: Arc::clone(path), full, registered: None }
    }

    /// Returns whether the handle has a node; then the number's node exists too.
    pub(super) fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    /// Attempts a change. Returns `None` if another client's write came first and nothing was written.
    pub(super) async fn attempt(&mut self, change: Change) -> Result<Option<Changed>, Error> {
        // Only a current value may decide that nothing is written.
        let mut synced = false;
        loop {
            self.register(change).await?;
            let content = match self.content(change, synced).await {
                Ok(content) => content,
                Err(error) if error.is_transient() => continue,
                Err(engine::Error::NoNode) => {
                    // The handle's node, a child, is gone as well. The next round creates both.
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

    /// Applies a change to the data of the node.
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

    /// Ensures that the handle has a node in the current session, and that no earlier transaction has an unknown
    /// outcome.
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
                Err(error) if error.is_transient() => {}
                Err(engine::Error::NoAuth) => return Err(self.denied("create a child of")),
                Err(error) => return Err(self.error("create a child of", error)),
            }
        }
    }

    /// Returns the data of the node, as remembered or as read now. `None` if the change does not depend on it.
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
            // Without a sync, the server is at least as new as its last answer to a write, even a refused one.
            if synced { session.get_data_synced(&self.full).await } else { session.get_data(&self.full).await }
        };
        let (data, stat) = session.retry_while_transient(read).await?;
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
                // It was answered, and a retry would get the same answer.
                Some(false) if !error.is_transient() => Err(self.error(change.verb(), error.clone())),
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
            // Another client deleted the handle's node, alone or with the number's node, or wrote it.
            Ok(Multi::Refused { error: engine::Error::NoNode | engine::Error::BadVersion, .. }) => {
                self.registered = None;
                Ok(End::Refused)
            }
            Ok(Multi::Refused { error: engine::Error::NoAuth, .. }) | Err(engine::Error::NoAuth) => {
                Err(self.denied(change.verb()))
            }
            Ok(Multi::Refused { error, .. }) => Err(self.error(change.verb(), error)),
            // It was not sent, or not processed.
            Err(error) if error.is_transient() => {
                if let Condition::Connected(connection) = condition {
                    session.wait_for_disconnect(connection).await;
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
        let why = "no permission; writing a number takes READ, WRITE, CREATE and DELETE at its node, for a child that \
                   counts the writes, and CREATE above it if it is missing";
        Error::client(&self.path, client::Error::at(ErrorKind::NoAuth, doing, &self.path, why))
    }
}

impl Registered {
    /// Settles a transaction whose caller is gone. Returns false if this node cannot show its outcome, so that another
    /// node has to be used.
    async fn settle(&mut self) -> bool {
        match self.sent {
            Some(ticket) => self.was_carried_out(ticket).await.is_some(),
            None => true,
        }
    }

    /// Returns whether an unanswered transaction was carried out. If it was not, it never will be, because later
    /// requests of this session have been answered. `None` if that cannot be known.
    async fn was_carried_out(&mut self, ticket: Ticket) -> Option<bool> {
        let last = self.sequence.read(&[ticket]).await?;
        self.sent = None;
        Some(ticket.number <= last)
    }
}
