//! The options of an ensemble.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::connect_string::ConnectString;
#[cfg(feature = "sasl-digest-md5")]
use super::sasl;
use crate::util::clock::Clock;

/// Starts a task where the session of a client is kept.
pub(crate) type Spawner = Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// Draws numbers, uniform in 0..1.
pub(crate) type Jitter = Arc<dyn Fn() -> f64 + Send + Sync>;

/// Of the session timeout: a server that is silent for longer is left.
const SILENCE: f64 = 0.4;

/// How to reach an ensemble, which credentials to present, and what the sessions run on.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) connect_string: ConnectString,
    /// What each connection asks for; the servers may grant another.
    pub(crate) session_timeout: Duration,
    /// How long a caller waits for a new session, at most.
    pub(crate) connection_timeout: Duration,
    /// Schemes and credentials, presented on each connection.
    pub(crate) auths: Vec<(String, Vec<u8>)>,
    /// Encrypts the connections to all hosts but those after `tcp://`.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    #[cfg(feature = "sasl-digest-md5")]
    pub(crate) sasl: Option<sasl::Credentials>,
    /// How long a server that owes an answer may be silent; by default 0.4 of the session timeout.
    pub(crate) silence: Option<Duration>,
    /// The longest request that the client itself sends; named in the error of a request that the servers do not read.
    pub(crate) max_request_bytes: usize,
    /// A longer answer, in bytes, is an error of its request.
    pub(crate) longest_answer: usize,
    /// Waits up to 100 ms before the first attempt after a cut: for large fleets, whose clients would all come at once.
    pub(crate) spread_reconnects: bool,
    /// Replaces the hosts of the connect string by those of the ensemble's configuration, whenever that changes.
    pub(crate) follows_configuration: bool,
    pub(crate) clock: Clock,
    pub(crate) spawn: Spawner,
    pub(crate) jitter: Jitter,
}

impl Options {
    /// Returns options with the defaults for all others. `spawn` runs the sessions, on a runtime with I/O and time.
    pub(crate) fn new(
        connect_string: ConnectString,
        session_timeout: Duration,
        clock: Clock,
        spawn: Spawner,
        jitter: Jitter,
    ) -> Self {
        Options {
            connect_string,
            session_timeout,
            connection_timeout: session_timeout,
            auths: Vec::new(),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "sasl-digest-md5")]
            sasl: None,
            silence: None,
            max_request_bytes: usize::MAX,
            // Servers do not limit what they answer.
            longest_answer: i32::MAX as usize,
            spread_reconnects: false,
            follows_configuration: false,
            clock,
            spawn,
            jitter,
        }
    }

    pub(super) fn silence(&self, granted: Duration) -> Duration {
        // The servers may have granted less than what was asked for.
        self.silence.map_or(granted.mul_f64(SILENCE), |silence| silence.min(granted))
    }
}
