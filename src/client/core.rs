//! The state that all handles and tasks of one client share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};

use super::deletion::Deletion;
use super::error::{Error, ErrorKind};
use super::lease::{Lease, LeaseOptions};
use super::parents::Made;
use super::requests::RequestLog;
use super::retry::RetryPolicy;
use super::runtime::Runtime;
use super::session::{EndReason, Session};
use super::state::{ConnectionState, ErrorPolicy, StatePublisher};
use crate::engine::Ensemble;
use crate::metrics::{Label, Meter, table};
use crate::util::backoff::Backoff;
use crate::util::clock::{Clock, Instant};
use crate::util::mutex::{Mutex, MutexGuard};
use crate::util::path::Namespace;
use crate::util::random::Random;
use crate::util::znode::Acl;

/// How the client extends the lease of a session. The default is [`Sync`](Self::Sync).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Heartbeat {
    /// By a sync, which only the leader of the ensemble answers. A leader that does not know it was deposed may still
    /// answer syncs for a moment. The guarantees assume that it stops within 1.5 ticks of its successor's start. (A
    /// leader steps down when a majority has not answered its pings for `syncLimit` ticks; a successor needs an
    /// election first.)
    ///
    /// After a reconnect, the first heartbeats are transactions even here: until a quorum has answered, and for a
    /// session timeout if an earlier attempt was sent and not answered.
    #[default]
    Sync,
    /// By a transaction that changes nothing, which a quorum of the servers must have seen. It needs no such
    /// assumption, and costs one more log write every sixth of a session timeout. Syncs that recipes send do not extend
    /// the lease then.
    Quorum,
}

/// What a client depends on: its ensemble, runtime, clock and source of randomness.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) ensemble: Arc<Ensemble>,
    pub(crate) runtime: Runtime,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
}

/// The options that the client was built with.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) servers: String,
    pub(crate) namespace: Namespace,
    pub(crate) session_timeout: Duration,
    pub(crate) connection_timeout: Duration,
    pub(crate) tick: Duration,
    pub(crate) min_session_timeout: Option<Duration>,
    pub(crate) retry: RetryPolicy,
    pub(crate) error_policy: ErrorPolicy,
    /// Whether the client only reads, and may do so on a read-only server.
    pub(crate) read_only: bool,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) acls: Vec<Acl>,
    pub(crate) max_request_bytes: usize,
    /// Records what the client and its recipes do.
    pub(crate) meter: Arc<Meter>,
}

impl Config {
    /// Returns the lease of a session that is about to be opened.
    pub(crate) fn new_lease(&self, clock: Clock) -> Arc<Lease> {
        let options = LeaseOptions {
            tick: self.tick,
            least_timeout: self.min_session_timeout,
            ends_with_connection: self.read_only || self.error_policy == ErrorPolicy::Standard,
            always_needs_quorum: self.heartbeat == Heartbeat::Quorum,
        };
        Arc::new(Lease::new(clock, options))
    }
}

/// The current session.
#[derive(Debug, Clone)]
pub(crate) enum Current {
    Live(Arc<Session>),
    /// Between two sessions.
    None,
    /// There will be no more sessions.
    Closed(Ending),
}

/// Why there will be no more sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The client was closed, or its last handle dropped.
    Closed,
    /// The runtime that kept its sessions has ended, and the last session with it.
    RuntimeGone,
}

impl Ending {
    fn error(self) -> Error {
        match self {
            Ending::Closed => Error::closed("client"),
            Ending::RuntimeGone => {
                let why = "the tokio runtime on which the client was connected has ended, and its session with it; \
                           connect another client, on a runtime that lives longer";
                Error::new(ErrorKind::Closed, why)
            }
        }
    }
}

/// How long the lease is kept after its last user left, so that the next user finds it valid.
const LINGER: Duration = Duration::from_secs(5);

/// The recipes and calls that depend on the lease.
#[derive(Debug, Default)]
struct Users {
    now: usize,
    /// When the last user left.
    gone: Option<Instant>,
}

impl Users {
    /// Returns whether there is a user, or was one a moment ago.
    fn keep_the_lease(&self, now: Instant) -> bool {
        self.now > 0 || self.gone.is_some_and(|gone| now.since(gone) < LINGER)
    }
}

/// The shared state of a client.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) ensemble: Arc<Ensemble>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) runtime: Runtime,
    pub(crate) states: Arc<StatePublisher>,
    pub(crate) log: Arc<RequestLog>,
    pub(crate) janitor: mpsc::UnboundedSender<Deletion>,
    pub(crate) current: watch::Sender<Current>,
    pub(crate) closing: watch::Sender<bool>,
    users: Mutex<Users>,
    pub(crate) first_user: Notify,
    last_error: Mutex<Option<Error>>,
    pub(crate) made: Made,
    /// The root that the connect string names is known to exist, or the connect string names none.
    pub(crate) has_seen_root: AtomicBool,
    /// Completed once the client has logged that the servers granted another session timeout than it asked for.
    pub(crate) other_timeout: Once,
}

impl Core {
    pub(crate) fn new(
        config: Config,
        environment: Environment,
        state: ConnectionState,
        janitor: mpsc::UnboundedSender<Deletion>,
        closing: watch::Sender<bool>,
    ) -> Arc<Self> {
        let Environment { ensemble, runtime, clock, random } = environment;
        let meter = Arc::clone(&config.meter);
        for reason in [EndReason::Expired, EndReason::GivenUp, EndReason::Replaced, EndReason::Refused] {
            meter.announce(&table::SESSIONS_ENDED, &[Label::Is(reason.name())]);
        }
        Arc::new(Core {
            config,
            has_seen_root: AtomicBool::new(!ensemble.has_root()),
            ensemble,
            clock,
            random,
            runtime,
            states: StatePublisher::new(&meter, state),
            log: Arc::new(RequestLog::new(&meter)),
            janitor,
            current: watch::Sender::new(Current::None),
            closing,
            users: Mutex::default(),
            first_user: Notify::new(),
            last_error: Mutex::new(None),
            made: Made::default(),
            other_timeout: Once::new(),
        })
    }

    /// Keeps the lease of the current session, and of its successors, extended until the result is dropped. Every
    /// recipe in use has one.
    pub(crate) fn keep_alive(self: &Arc<Self>) -> KeepAlive {
        let mut users = self.users();
        // Read under the lock: by an earlier time the lease could seem kept when the session has stopped keeping it.
        let now = self.clock.now();
        // No wake-up if the lease is kept anyway: otherwise every acquire would cause one.
        let is_kept = users.keep_the_lease(now);
        users.now += 1;
        if !is_kept {
            self.first_user.notify_one();
        }
        KeepAlive(Arc::clone(self))
    }

    /// Returns whether anything depends on the lease, or did so a moment ago.
    pub(crate) fn is_in_use(&self, now: Instant) -> bool {
        self.users().keep_the_lease(now)
    }

    /// Returns how many recipes and calls depend on the lease.
    pub(crate) fn users_now(&self) -> usize {
        self.users().now
    }

    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock()
    }

    /// Returns the lease of a session that is about to be opened.
    pub(crate) fn new_lease(&self) -> Arc<Lease> {
        self.config.new_lease(self.clock)
    }

    /// Returns the current session. Waits without a limit until one is connected.
    pub(crate) async fn connected_session(&self) -> Result<Arc<Session>, Error> {
        self.connected().await.map(|(session, _)| session)
    }

    /// Returns the current session and its connection. Waits without a limit until one is connected.
    pub(crate) async fn connected(&self) -> Result<(Arc<Session>, u64), Error> {
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
                            if let Ok(connection) = connected {
                                return Ok((session, connection));
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

    /// Closes the client, unless it is closed already, after the task that keeps its sessions was dropped. Present and
    /// later callers, on any runtime, get an error instead of waiting forever.
    pub(crate) fn abandon(&self) {
        let now = self.current.borrow().clone();
        match now {
            Current::Closed(_) => return,
            Current::Live(session) => {
                session.end(EndReason::Closed);
                self.count_end(EndReason::Closed);
            }
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

    /// Counts a session that has ended.
    pub(crate) fn count_end(&self, reason: EndReason) {
        self.meter().count(&table::SESSIONS_ENDED, &[Label::Is(reason.name())], 1);
    }

    /// Returns the recorder of the metrics.
    pub(crate) fn meter(&self) -> &Arc<Meter> {
        &self.config.meter
    }

    /// Returns the delay before a retry of an attempt that began at `began` and has just failed.
    pub(crate) fn next_delay(&self, backoff: &mut Backoff, began: Instant) -> Duration {
        backoff.next(self.clock, &self.random, began)
    }

    /// Remembers an error that no caller awaits.
    pub(crate) fn report(&self, error: Error) {
        let (text, kind) = (error.to_string(), error.kind());
        if kind == ErrorKind::Closed {
            // Most processes end without closing their client.
            tracing::info!(event = "background_error", error = text, ?kind, "interrupted by the end of the client");
        } else {
            tracing::warn!(event = "background_error", error = text, ?kind, "background error");
        }
        self.meter().count(&table::BACKGROUND_ERRORS, &[Label::Is(error.kind().name())], 1);
        *self.last_error.lock() = Some(error);
    }

    /// Returns why the latest attempts to connect failed, while there is no connection.
    fn causes(&self) -> Option<String> {
        let causes = if self.states.latest().is_connected() { String::new() } else { self.ensemble.causes() };
        (!causes.is_empty()).then_some(causes)
    }

    /// Returns these causes as a suffix for the text of an error; empty if there are none.
    pub(crate) fn why_not_connected(&self) -> String {
        self.causes().map_or(String::new(), |causes| format!("; not connected: {causes}"))
    }

    pub(crate) fn last_error(&self) -> Option<Error> {
        if let Some(causes) = self.causes() {
            return Some(Error::new(ErrorKind::ConnectionLoss, format!("not connected: {causes}")));
        }
        self.last_error.lock().clone()
    }

    /// Returns an error if the client only reads.
    pub(crate) fn check_writes(&self, doing: &str, path: &str) -> Result<(), Error> {
        if self.config.read_only { Err(Error::read_only(doing, path)) } else { Ok(()) }
    }

    /// Returns the path on the server.
    pub(crate) fn full_path(&self, path: &str) -> String {
        self.config.namespace.full(path)
    }
}

/// See [`Core::keep_alive`].
#[derive(Debug)]
pub(crate) struct KeepAlive(Arc<Core>);

impl Drop for KeepAlive {
    fn drop(&mut self) {
        let mut users = self.0.users();
        users.now -= 1;
        if users.now == 0 {
            users.gone = Some(self.0.clock.now());
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::sync::atomic::Ordering;
    use std::sync::mpsc;

    use futures::FutureExt;
    use tokio::runtime::Builder;

    use super::*;
    use crate::testing::{Operation, TestingServer};

    #[tokio::test(start_paused = true)]
    async fn a_look_for_the_root_that_gets_no_answer_does_not_count_as_one_that_found_it() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let core = client.core();
        core.has_seen_root.store(false, Ordering::Relaxed);
        server.fail_reads("/", Operation::Exists);
        core.check_root().await.expect_err("it is not known");
        server.heal();
        core.check_root().await.expect("it is there");
        assert!(core.has_seen_root.load(Ordering::Relaxed));
    }

    /// With an earlier time the user would find the lease kept, and send no wake-up to a session that has just stopped
    /// keeping it.
    #[test]
    fn a_user_that_arrives_as_the_lease_is_given_up_compares_the_time_at_which_it_counts() {
        let world = Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        let _in_world = world.enter();
        let core = world.block_on(async {
            let server = TestingServer::start();
            let client = server.client().await.expect("a client");
            client.close().await.expect("closed");
            Arc::clone(client.core())
        });
        let is_woken = || core.first_user.notified().now_or_never().is_some();
        drop(core.keep_alive());
        assert!(is_woken());
        drop(core.keep_alive());
        assert!(!is_woken(), "the lease is still kept");

        let users = core.users();
        let runtime = Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        let (clock, arriving) = (world.handle().clone(), Arc::clone(&core));
        let (begun, begins) = mpsc::channel();
        let arrived = runtime.spawn(async move {
            let _in_world = clock.enter();
            begun.send(()).expect("the test waits");
            arriving.keep_alive()
        });
        begins.recv().expect("it begins");
        // Long enough for the other thread to reach the lock. If it does not, this test proves nothing.
        std::thread::sleep(Duration::from_millis(50));
        world.block_on(tokio::time::advance(LINGER));
        drop(users);
        let _user = world.block_on(arrived).expect("no panic");
        assert!(is_woken());
    }
}
