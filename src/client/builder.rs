//! The options of a client, and its first connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Client;
use super::core::{Config, Heartbeat};
use super::error::{Error, ErrorKind};
use super::open::{Ground, open};
use super::random::Random;
use super::retry::RetryPolicy;
use super::runtime::Runtime;
#[cfg(feature = "sasl-digest-md5")]
use super::security::Sasl;
#[cfg(feature = "tls")]
use super::security::Tls;
use super::state::ErrorPolicy;
use crate::backend;
use crate::backend::zookeeper::connect_string::ConnectString;
use crate::backend::zookeeper::{Options, ZooKeeperEnsemble};
use crate::clock::Clock;
use crate::path::Namespace;
use crate::types::Acl;

/// The server's own limit is an i32 of milliseconds.
const LONGEST_SESSION_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// ZooKeeper's default for the largest request.
const JUTE_MAX_BUFFER: usize = 0xf_ffff;

/// What the recipes' own requests need.
const LEAST_REQUEST: usize = 1024;
/// An event belongs to no request that could fail instead of the connection; it is not much longer than its path.
const LEAST_RESPONSE: usize = 64 * 1024;

/// Somewhere else than a real ensemble.
pub(crate) trait Host: fmt::Debug + Send + Sync {
    /// What one new client stands on. Inside a tokio runtime.
    fn ground(&self, session_timeout: Duration) -> Ground;
}

/// What the client connects to.
#[derive(Debug, Clone)]
enum Whereto {
    ConnectString(String),
    #[cfg_attr(not(feature = "testing"), allow(dead_code))]
    Host(Arc<dyn Host>),
}

/// The options of a [`Client`]; see [`Client::builder`].
#[derive(Clone)]
#[must_use = "nothing happens before connect()"]
pub struct ClientBuilder {
    whereto: Whereto,
    namespace: String,
    session_timeout: Duration,
    connection_timeout: Duration,
    tick_time: Duration,
    min_session_timeout: Option<Duration>,
    retry: RetryPolicy,
    error_policy: ErrorPolicy,
    heartbeat: Heartbeat,
    auths: Vec<(String, Vec<u8>)>,
    acls: Vec<Acl>,
    max_request_bytes: usize,
    max_response_bytes: usize,
    silence_timeout: Option<Duration>,
    spread_reconnects: bool,
    ensemble_tracker: bool,
    dedicated_runtime: bool,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
    #[cfg(feature = "sasl-digest-md5")]
    sasl: Option<Sasl>,
}

impl fmt::Debug for ClientBuilder {
    // Credentials stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("whereto", &self.whereto)
            .field("namespace", &self.namespace)
            .field("session_timeout", &self.session_timeout)
            .field("connection_timeout", &self.connection_timeout)
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    pub(super) fn new(connect_string: &str) -> Self {
        ClientBuilder::to(Whereto::ConnectString(connect_string.to_owned()))
    }

    #[cfg(feature = "testing")]
    pub(crate) fn at_host(host: Arc<dyn Host>) -> Self {
        ClientBuilder::to(Whereto::Host(host))
    }

    fn to(whereto: Whereto) -> Self {
        ClientBuilder {
            whereto,
            namespace: String::new(),
            session_timeout: Duration::from_secs(60),
            connection_timeout: Duration::from_secs(15),
            tick_time: Duration::from_secs(2),
            min_session_timeout: None,
            retry: RetryPolicy::default(),
            error_policy: ErrorPolicy::default(),
            heartbeat: Heartbeat::default(),
            auths: Vec::new(),
            acls: vec![Acl::anyone_all()],
            max_request_bytes: JUTE_MAX_BUFFER,
            max_response_bytes: i32::MAX as usize,
            silence_timeout: None,
            spread_reconnects: false,
            ensemble_tracker: false,
            dedicated_runtime: false,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "sasl-digest-md5")]
            sasl: None,
        }
    }

    /// A path that is put before every path of this client; the leading slash may be left out, as in Curator. Recipes and
    /// [`create_containers`](Client::create_containers) create it when needed. None by default.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// How long the ensemble keeps the session without hearing of it; the servers may grant more or less, by default two to
    /// twenty of their ticks, and another value on each connection. What is held is measured by the smallest that was granted
    /// in the session. Default 60 s, as Curator's. Shorter means a faster takeover from a crashed process, and more sessions lost to a slow network.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How long [`connect`](Self::connect), and any plain operation, waits for a connection. Default 15 s, as Curator's. The
    /// first attempts share it: each server has its part of it to answer, or of a third of the session timeout if that is less,
    /// but at least a second.
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = timeout;
        self
    }

    /// The servers' `tickTime`: followers report to their leader twice in a tick, so it bounds how old the leader's
    /// knowledge of a session can be. Never less than the servers': a smaller one voids the promise of the lease, a larger one
    /// only shortens it. Default 2 s, as ZooKeeper's; what is above a quarter of the granted session timeout counts as a
    /// quarter.
    pub fn tick_time(mut self, tick_time: Duration) -> Self {
        self.tick_time = tick_time;
        self
    }

    /// The servers' `minSessionTimeout`, the smallest of all of them. While a request to reconnect is unanswered, a server may
    /// have granted as little: under [`ErrorPolicy::Session`] what is held ends by then. Never more than that of any server: a
    /// larger one voids the promise of the lease, until a server grants less than it. From then on the default applies to that
    /// session, and a warning names both figures. Default two ticks, as ZooKeeper's; where all servers have a larger one,
    /// naming it lets locks survive longer interruptions.
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.min_session_timeout = Some(timeout);
        self
    }

    /// How plain operations are repeated after a loss of the connection. Default [`RetryPolicy::default`].
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Which connection states end what recipes hold. Default [`ErrorPolicy::Standard`].
    pub fn error_policy(mut self, policy: ErrorPolicy) -> Self {
        self.error_policy = policy;
        self
    }

    /// How the lease of the session is kept. Default [`Heartbeat::Sync`].
    pub fn heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Credentials, as in ZooKeeper's `addauth`; presented again on every connection. May be called several times.
    pub fn auth(mut self, scheme: impl Into<String>, auth: impl Into<Vec<u8>>) -> Self {
        self.auths.push((scheme.into(), auth.into()));
        self
    }

    /// The ACL of every node that this client creates, also of missing parents. Default: everybody may do everything.
    pub fn acls(mut self, acls: impl Into<Vec<Acl>>) -> Self {
        self.acls = acls.into();
        self
    }

    /// The servers' `jute.maxbuffer`: what is larger they answer by cutting the connection, so it is refused here. Default
    /// 1 048 575, as ZooKeeper's; at least 1 KiB.
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// The longest answer that is read; a longer one is an error of its request. Default: no limit, as the servers have none for
    /// what they answer; at least 64 KiB. Memory is taken as the bytes arrive, and never by an announced length.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// How long a server that owes an answer may be silent before the connection counts as lost and the next server is tried.
    /// Default 0.4 of the granted session timeout, whatever the number of servers; at most the session timeout.
    pub fn silence_timeout(mut self, timeout: Duration) -> Self {
        self.silence_timeout = Some(timeout);
        self
    }

    /// Waits a random time of up to 100 ms before the first attempt after a lost connection: for large fleets, whose clients
    /// would all come at once. Default false.
    pub fn spread_reconnects(mut self, spread: bool) -> Self {
        self.spread_reconnects = spread;
        self
    }

    /// Follows the servers of the ensemble's own configuration (`/zookeeper/config`), which an operator changes by `reconfig`:
    /// they replace those of the connect string, now and after each change. A connection that stands is kept. Costs one read a
    /// session, and one a change. Default false.
    ///
    /// It is off by default, where Curator's `withEnsembleTracker` is on, as the addresses are often ones that only the servers
    /// can reach. While none of them can be reached, those of the connect string are tried as well. A configuration without
    /// client ports is not followed, which is logged: write `server.1=host:2888:3888;2181` instead of `clientPort`. Not together
    /// with TLS, as the configuration names ports without it only.
    #[doc(alias = "withEnsembleTracker")]
    #[doc(alias = "reconfig")]
    pub fn ensemble_tracker(mut self, follow: bool) -> Self {
        self.ensemble_tracker = follow;
        self
    }

    /// Runs the session, its heartbeat and the clean-up on a thread of their own, for programs that block their runtime:
    /// the session then survives. What is held is judged rightly in both cases. Default false.
    pub fn dedicated_runtime(mut self, dedicated: bool) -> Self {
        self.dedicated_runtime = dedicated;
        self
    }

    /// Encrypts connections.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Authenticates by SASL.
    #[cfg(feature = "sasl-digest-md5")]
    pub fn sasl(mut self, sasl: Sasl) -> Self {
        self.sasl = Some(sasl);
        self
    }

    /// Checks the options without connecting; [`connect`](Self::connect) does the same first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] or [`ErrorKind::InvalidPath`], naming the value and what is allowed.
    pub fn validate(&self) -> Result<(), Error> {
        if let Whereto::ConnectString(connect_string) = &self.whereto {
            let connect_string = self.connect_string(connect_string)?;
            self.check_tracker(&connect_string)?;
        }
        self.config("").map(drop)
    }

    /// Opens the first session. Inside a tokio runtime with time enabled.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`], [`ErrorKind::InvalidPath`] for bad options; [`ErrorKind::ConnectionLoss`] if no
    /// server answered within the connection timeout; [`ErrorKind::AuthFailed`].
    ///
    /// # Cancel safety
    /// Cancel safe: a session that was being opened is closed again, or expires.
    pub async fn connect(self) -> Result<Client, Error> {
        self.validate()?;
        let (closed, _) = watch::channel(None);
        let ground = self.ground(closed.subscribe())?;
        let config = self.config(&ground.ensemble.servers())?;
        let (servers, within) = (config.servers.clone(), config.connection_timeout);
        open(ground, config, closed).await.map_err(|error| match error {
            backend::Error::Unreachable(causes) => {
                let causes = if causes.is_empty() { format!("none of {servers} answered") } else { causes };
                Error::new(ErrorKind::ConnectionLoss, format!("connect: not connected within {within:?}: {causes}"))
            }
            error => Error::from_backend("connect to", &servers, error),
        })
    }

    fn ground(&self, mut closed: watch::Receiver<Option<bool>>) -> Result<Ground, Error> {
        let connect_string = match &self.whereto {
            Whereto::Host(host) => return Ok(host.ground(self.session_timeout)),
            Whereto::ConnectString(connect_string) => connect_string,
        };
        let connect_string = self.connect_string(connect_string)?;
        let runtime = if self.dedicated_runtime {
            Runtime::dedicated(async move {
                // It ends as well when the client could not be built, and the sender is gone.
                let _ = closed.wait_for(|closed| closed.is_some()).await;
            })?
        } else {
            Runtime::shared()?
        };
        let (clock, random) = (Clock::default(), Random::default());
        let drawn = random.clone();
        let jitter = Arc::new(move || drawn.unit());
        let ensemble = ZooKeeperEnsemble::new(Options {
            auths: self.auths.clone(),
            #[cfg(feature = "tls")]
            tls: self.tls.as_ref().map(Tls::client_config).transpose()?,
            #[cfg(feature = "sasl-digest-md5")]
            sasl: self.sasl.as_ref().map(Sasl::credentials),
            silence: self.silence_timeout,
            longest_answer: self.max_response_bytes,
            connection_timeout: self.connection_timeout,
            spread_reconnects: self.spread_reconnects,
            follows_configuration: self.ensemble_tracker,
            ..Options::new(connect_string, self.session_timeout, clock, runtime.system_spawner(), jitter)
        });
        Ok(Ground { ensemble: Arc::new(ensemble), runtime, clock, random })
    }

    fn connect_string(&self, connect_string: &str) -> Result<ConnectString, Error> {
        let connect_string = ConnectString::parse(connect_string)
            .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))?;
        self.check_tls(&connect_string)?;
        Ok(connect_string)
    }

    /// The ensemble's configuration names the ports without TLS, which servers may have closed.
    fn check_tracker(&self, connect_string: &ConnectString) -> Result<(), Error> {
        let encrypts = connect_string.hosts().iter().any(|host| host.starts_with("tcp+tls://"));
        #[cfg(feature = "tls")]
        let encrypts = encrypts || self.tls.is_some();
        if self.ensemble_tracker && encrypts {
            let message =
                "ensemble tracker: cannot be used with TLS, as the ensemble's configuration names no port with TLS";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        Ok(())
    }

    /// Encryption is asked for by `tls` or by `tcp+tls://` before a host; both need to know whom to trust.
    fn check_tls(&self, connect_string: &ConnectString) -> Result<(), Error> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.check();
        }
        match connect_string.hosts().iter().find(|host| host.starts_with("tcp+tls://")) {
            None => Ok(()),
            Some(host) => Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "connect string: {host} asks for encryption; call tls() with the authorities to trust (feature `tls`)"
                ),
            )),
        }
    }

    fn config(&self, servers: &str) -> Result<Config, Error> {
        in_range("session timeout", self.session_timeout, Duration::from_millis(1), LONGEST_SESSION_TIMEOUT)?;
        in_range("connection timeout", self.connection_timeout, Duration::from_millis(1), LONGEST_SESSION_TIMEOUT)?;
        in_range("tick time", self.tick_time, Duration::from_millis(1), LONGEST_SESSION_TIMEOUT)?;
        if let Some(timeout) = self.min_session_timeout {
            in_range("minimum session timeout", timeout, Duration::from_millis(1), LONGEST_SESSION_TIMEOUT)?;
        }
        if let Some(timeout) = self.silence_timeout {
            in_range("silence timeout", timeout, Duration::from_millis(1), self.session_timeout)?;
        }
        at_least("max request bytes", self.max_request_bytes, LEAST_REQUEST)?;
        at_least("max response bytes", self.max_response_bytes, LEAST_RESPONSE)?;
        if self.acls.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "acls: an empty list; give at least one entry, such as Acl::anyone_all()",
            ));
        }
        Ok(Config {
            servers: servers.to_owned(),
            namespace: Namespace::new(&self.namespace)?,
            connection_timeout: self.connection_timeout,
            tick: self.tick_time,
            min_session_timeout: self.min_session_timeout,
            retry: self.retry.clone(),
            error_policy: self.error_policy,
            heartbeat: self.heartbeat,
            acls: self.acls.clone(),
            max_request_bytes: self.max_request_bytes,
        })
    }
}

fn at_least(what: &str, value: usize, least: usize) -> Result<(), Error> {
    if value >= least {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidArgument, format!("{what} of {value}: must be at least {least}")))
}

fn in_range(what: &str, value: Duration, least: Duration, most: Duration) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let message = format!("{what} of {value:?}: must be at least {least:?} and at most {most:?}");
    Err(Error::new(ErrorKind::InvalidArgument, message))
}
