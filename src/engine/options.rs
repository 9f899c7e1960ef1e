//! The options of an ensemble.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::watch;

use super::connect_string::{ConnectString, Endpoint};
use super::sasl::SaslMechanism;
use super::tls;
use crate::util::clock::Clock;

/// Spawns a task on the runtime that runs the client's sessions.
pub(crate) type Spawner = Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// Draws numbers, uniform in 0..1.
pub(crate) type Jitter = Arc<dyn Fn() -> f64 + Send + Sync>;

/// How long a server may be silent before the connection is dropped, as a fraction of the session timeout.
const SILENCE: f64 = 0.4;

/// How to reach an ensemble, which credentials to present, and what the sessions run on.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) connect_string: ConnectString,
    /// The servers, if they can change. They replace those of the connect string.
    pub(crate) servers: Option<watch::Receiver<Vec<Endpoint>>>,
    /// The timeout that each connection requests. The servers may grant another one.
    pub(crate) session_timeout: Duration,
    /// How long a caller waits for a new session, at most.
    pub(crate) connection_timeout: Duration,
    /// Schemes and credentials, presented on each connection.
    pub(crate) auths: Vec<(String, Vec<u8>)>,
    /// Encrypts the connections to all hosts except those prefixed with `tcp://`.
    pub(crate) tls: Option<Arc<tls::ClientConfig>>,
    /// Authenticates each connection.
    pub(crate) sasl: Option<Arc<dyn SaslMechanism>>,
    /// How long a server that owes an answer may be silent. The default is 0.4 of the session timeout.
    pub(crate) silence: Option<Duration>,
    /// The client's own limit for requests. Only shown in the error of a request that the servers do not read.
    pub(crate) max_request_bytes: usize,
    /// The longest answer in bytes. A request with a longer answer fails.
    pub(crate) longest_answer: usize,
    /// Waits up to 100 ms before the first attempt after a lost connection, so that the clients of a large fleet do not
    /// all reconnect at once.
    pub(crate) spread_reconnects: bool,
    /// Whether a server that only answers reads will do, until another one is found.
    pub(crate) read_only: bool,
    /// Replaces the hosts by those in the ensemble's configuration, now and whenever it changes.
    pub(crate) follows_configuration: bool,
    pub(crate) clock: Clock,
    pub(crate) spawn: Spawner,
    pub(crate) jitter: Jitter,
}

impl Options {
    /// Returns these options, with defaults for all others. `spawn` must use a runtime with I/O and time.
    pub(crate) fn new(
        connect_string: ConnectString,
        session_timeout: Duration,
        clock: Clock,
        spawn: Spawner,
        jitter: Jitter,
    ) -> Self {
        Options {
            connect_string,
            servers: None,
            session_timeout,
            connection_timeout: session_timeout,
            auths: Vec::new(),
            tls: None,
            sasl: None,
            silence: None,
            max_request_bytes: usize::MAX,
            // Servers do not limit the length of their answers.
            longest_answer: i32::MAX as usize,
            spread_reconnects: false,
            read_only: false,
            follows_configuration: false,
            clock,
            spawn,
            jitter,
        }
    }

    pub(super) fn silence(&self, granted: Duration) -> Duration {
        // The servers may have granted less than requested.
        self.silence.map_or(granted.mul_f64(SILENCE), |silence| silence.min(granted))
    }
}
