//! The engine: sessions with ZooKeeper servers.
//!
//! | file | what |
//! |---|---|
//! | `connect_string` | where the ensemble is |
//! | `hosts` | which host is tried next and when, and the outcomes |
//! | `configuration` | the hosts that the ensemble itself names |
//! | `connect` | a connection to one host: TCP, TLS |
//! | `frames` | frames out of the byte stream |
//! | `question` | whether a server serves, before a session is handed to it |
//! | `handshake` | the exchange on a connection before it takes requests |
//! | `sasl` | authentication by user and password |
//! | `tls` | TLS on an established connection |
//! | `environment` | what all sessions share |
//! | `link` | the writing of requests |
//! | `outstanding` | the requests without an answer |
//! | `watches` | the watches of a session |
//! | `serve` | a connection that takes requests |
//! | `state` | the state of a session that only its task uses |
//! | `session` | the task of a session |
//! | `shared` | the state of a session outside its task |
//! | `requests` | the session as its holder sees it: the requests |
//! | `errors` | what the error codes of the wire mean |

mod configuration;
mod connect;
pub(crate) mod connect_string;
mod environment;
mod errors;
mod frames;
mod handshake;
mod hosts;
mod link;
mod outstanding;
mod question;
mod requests;
#[cfg(feature = "sasl-digest-md5")]
pub(crate) mod sasl;
mod serve;
mod session;
mod shared;
mod state;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
pub(crate) mod tls;
mod watches;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use futures::stream::BoxStream;
use tokio::sync::oneshot;

pub(crate) use self::connect::Connector;
use self::connect::Network;
#[cfg(feature = "testing")]
pub(crate) use self::connect::Stream;
use self::connect_string::ConnectString;
#[cfg(feature = "testing")]
pub(crate) use self::connect_string::Endpoint;
use self::environment::Environment;
#[cfg(feature = "testing")]
pub(crate) use self::errors::refusal;
use self::hosts::Hosts;
pub(crate) use self::requests::Session;
use self::session::Task;
use super::lacking_operations::LackingOperations;
use super::request_limit::RequestLimit;
use super::{Error, Observer, SessionEvent, Spawner};
use crate::util::clock::Clock;
use crate::util::mutex::Mutex;

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
    /// The longest request that the client itself sends, for the errors of those that the servers do not read.
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

    fn silence(&self, granted: Duration) -> Duration {
        // The servers may have granted less than what was asked for.
        self.silence.map_or(granted.mul_f64(SILENCE), |silence| silence.min(granted))
    }
}

/// A session just opened, and its events.
pub(crate) struct Opened {
    pub(crate) session: Arc<Session>,
    pub(crate) events: BoxStream<'static, SessionEvent>,
}

/// An ensemble, as its connector reaches it.
#[derive(Clone)]
pub(crate) struct Ensemble {
    environment: Environment,
    /// What is wrong with the options.
    fault: Option<Error>,
}

impl fmt::Debug for Ensemble {
    // Credentials stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ensemble").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

impl Ensemble {
    pub(crate) fn new(options: Options) -> Self {
        let endpoints = options.connect_string.endpoints();
        #[cfg(feature = "tls")]
        let encrypts = options.tls.is_some();
        #[cfg(not(feature = "tls"))]
        let encrypts = false;
        let wants = endpoints.iter().find(|endpoint| endpoint.encrypted == Some(true) && !encrypts);
        let fault = wants.map(|endpoint| {
            let host = &endpoint.host;
            Error::BadArguments(format!("{host} is to be reached by TLS, for which no options are given"))
        });
        #[cfg(feature = "tls")]
        let fault = fault.or_else(|| {
            let mut encrypted = endpoints.iter().filter(|endpoint| encrypts && endpoint.encrypted != Some(false));
            let unnamed = encrypted.find_map(|endpoint| tls::server_name(&endpoint.host).err());
            unnamed.map(|error| Error::BadArguments(error.to_string()))
        });
        let network = Network {
            #[cfg(feature = "tls")]
            tls: options.tls.clone(),
        };
        Ensemble { fault, ..Self::with_connector(options, Arc::new(network)) }
    }

    pub(crate) fn with_connector(options: Options, connector: Arc<dyn Connector>) -> Self {
        let hosts = Hosts::new(options.connect_string.endpoints(), &*options.jitter);
        let request_limit = Arc::new(RequestLimit::new(options.max_request_bytes));
        let hosts = Arc::new(Mutex::new(hosts));
        let lacking = Arc::new(LackingOperations::default());
        let environment = Environment { options: Arc::new(options), connector, hosts, request_limit, lacking };
        Ensemble { environment, fault: None }
    }

    /// Opens one session, however long it takes. Returns only errors that do not pass by themselves.
    pub(crate) fn open(
        &self,
        observer: Arc<dyn Observer>,
    ) -> impl Future<Output = Result<Opened, Error>> + Send + use<> {
        let Ensemble { environment, fault } = self.clone();
        async move {
            if let Some(fault) = fault {
                return Err(fault);
            }
            let (opened, outcome) = oneshot::channel();
            let spawn = Arc::clone(&environment.options.spawn);
            spawn(Task::new(environment, observer, opened).run().boxed());
            // Without an answer the runtime of the task has ended.
            outcome.await.unwrap_or(Err(Error::SessionEnded))
        }
    }

    /// Returns the errors of the latest attempts to connect, server by server; empty if there are none.
    pub(crate) fn causes(&self) -> String {
        self.environment.hosts.lock().causes()
    }

    /// Returns the servers, as an operator would write them.
    pub(crate) fn servers(&self) -> String {
        self.environment.options.connect_string.to_string()
    }

    /// Returns whether the paths of sessions are below a root, which may be missing.
    pub(crate) fn has_root(&self) -> bool {
        self.environment.options.connect_string.chroot().is_some()
    }
}

/// Describes a server that was silent for so long.
fn silent(patience: Duration) -> String {
    format!("no answer for {patience:?}")
}
