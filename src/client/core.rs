//! What all handles and tasks of one client share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};

use super::clock::Clock;
use super::error::{Error, ErrorKind};
use super::janitor::Job;
use super::random::Random;
use super::requests::RequestLog;
use super::retry::RetryPolicy;
use super::runtime::Runtime;
use super::session::{EndReason, Session};
use super::state::{ConnectionState, ErrorPolicy, StatePublisher};
use crate::path::Namespace;
use crate::types::Acl;

/// How the lease of a session is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Heartbeat {
    /// A sync: answered by the leader of the ensemble alone. A leader that was deposed without knowing it may answer one
    /// for a moment; the promises assume that it steps down within T/6 + one tick of its successor's start.
    #[default]
    Sync,
    /// A transaction that changes nothing, which a quorum of the servers must have seen: no such assumption, at the cost
    /// of one more log write every sixth of a session timeout.
    Quorum,
}

/// What was asked for when the client was built.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) servers: String,
    pub(crate) namespace: Namespace,
    pub(crate) connection_timeout: Duration,
    pub(crate) tick: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) error_policy: ErrorPolicy,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) acls: Vec<Acl>,
    pub(crate) max_request_bytes: usize,
}

/// The session to use now.
#[derive(Debug, Clone)]
pub(crate) enum Current {
    Live(Arc<Session>),
    /// Between two sessions.
    None,
    /// There will be no more.
    Closed(Ending),
}

/// Why there will be no more sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The client was closed, or its last handle dropped.
    Closed,
    /// What kept its sessions is gone, and the last one with it: its runtime has ended.
    RuntimeGone,
}

impl Ending {
    fn error(self) -> Error {
        match self {
            Ending::Closed => Error::closed("client"),
            Ending::RuntimeGone => {
                let why = "the tokio runtime on which the client was connected has ended, and its session with it; connect \
                           another client, on a runtime that lasts";
                Error::new(ErrorKind::Closed, why)
            }
        }
    }
}

/// The shared heart of a client.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) runtime: Runtime,
    pub(crate) states: Arc<StatePublisher>,
    pub(crate) log: Arc<RequestLog>,
    pub(crate) janitor: mpsc::UnboundedSender<Job>,
    pub(crate) current: watch::Sender<Current>,
    pub(crate) closing: watch::Sender<bool>,
    users: AtomicUsize,
    pub(crate) first_user: Notify,
    last_error: Mutex<Option<Error>>,
}

impl Core {
    pub(crate) fn new(
        config: Config,
        clock: Clock,
        random: Random,
        runtime: Runtime,
        janitor: mpsc::UnboundedSender<Job>,
        closing: watch::Sender<bool>,
    ) -> Arc<Self> {
        Arc::new(Core {
            config,
            clock,
            random,
            runtime,
            states: StatePublisher::new(),
            log: Arc::default(),
            janitor,
            current: watch::Sender::new(Current::None),
            closing,
            users: AtomicUsize::new(0),
            first_user: Notify::new(),
            last_error: Mutex::new(None),
        })
    }

    /// Keeps the lease of whatever session there is alive until dropped: every recipe in use holds one.
    pub(crate) fn keep_alive(self: &Arc<Self>) -> KeepAlive {
        if self.users.fetch_add(1, Ordering::AcqRel) == 0 {
            self.first_user.notify_one();
        }
        KeepAlive(Arc::clone(self))
    }

    /// Whether anything depends on the lease.
    pub(crate) fn is_in_use(&self) -> bool {
        self.users.load(Ordering::Acquire) > 0
    }

    /// The session to use; waits, as long as it takes, until one is connected.
    pub(crate) async fn connected_session(&self) -> Result<Arc<Session>, Error> {
        let mut current = self.current.subscribe();
        loop {
            let now = current.borrow_and_update().clone();
            match now {
                Current::Closed(ending) => return Err(ending.error()),
                Current::None => {}
                Current::Live(session) => {
                    tokio::select! {
                        biased;
                        connected = session.connected() => {
                            if connected.is_ok() {
                                return Ok(session);
                            }
                        }
                        _ = current.changed() => continue,
                    }
                }
            }
            if current.changed().await.is_err() {
                return Err(Error::closed("client"));
            }
        }
    }

    /// Ends everything, unless that is done: what keeps the sessions of this client is gone without a word. Whoever waits,
    /// and whoever comes later, on whatever runtime, is told so instead of waiting for ever.
    pub(crate) fn abandon(&self) {
        let now = self.current.borrow().clone();
        match now {
            Current::Closed(_) => return,
            Current::Live(session) => session.end(EndReason::Closed),
            Current::None => {}
        }
        let asked = self.closing.send_replace(true);
        let ending = if asked { Ending::Closed } else { Ending::RuntimeGone };
        if !asked {
            self.report(ending.error());
        }
        self.current.send_replace(Current::Closed(ending));
        self.states.publish(ConnectionState::Lost);
        self.states.end();
    }

    /// Remembers an error that no caller awaits.
    pub(crate) fn report(&self, error: Error) {
        tracing::warn!(%error, kind = ?error.kind(), "background error");
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(crate) fn last_error(&self) -> Option<Error> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The path on the server.
    pub(crate) fn full_path(&self, path: &str) -> String {
        self.config.namespace.full(path)
    }
}

/// See [`Core::keep_alive`].
#[derive(Debug)]
pub(crate) struct KeepAlive(Arc<Core>);

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}
