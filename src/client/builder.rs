//! The options of a client, and its first connection.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Client;
use super::checks::{at_least, has_entries, in_range};
use super::connect::connect;
use super::core::{Config, Environment, Heartbeat};
use super::error::{Error, ErrorKind};
use super::platform::{Host, Platform};
use super::retry::RetryPolicy;
use super::security::{Sasl, Tls};
use super::server_list::ServerList;
use super::state::ErrorPolicy;
use crate::engine;
use crate::engine::connect_string::ConnectString;
use crate::engine::{Ensemble, Options};
use crate::metrics::Meter;
use crate::util::path::Namespace;
use crate::util::znode::Acl;

/// The most that servers with the default settings grant: 20 ticks of 2 s.
const DEFAULT_SESSION_TIMEOUT: Duration = Duration::from_secs(40);
/// The servers keep the timeout as an `i32` of milliseconds.
const LONGEST_SESSION_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

/// ZooKeeper's default for the largest request.
const JUTE_MAX_BUFFER: usize = 0xf_ffff;

/// What the recipes' own requests need, in bytes.
const LEAST_REQUEST: usize = 1024;
/// Large enough for any event, which is little longer than its path. An event that is too long would break the
/// connection, because it does not belong to a request that could fail instead.
const LEAST_RESPONSE: usize = 64 * 1024;

/// What the client connects to.
#[derive(Debug, Clone)]
enum Endpoint {
    ConnectString(String),
    Host(Arc<dyn Host>),
}

/// The options of a [`Client`], made by [`Client::builder`].
///
/// ```no_run
/// use std::time::Duration;
/// use zookeeper_recipes::{Client, ErrorPolicy, RetryPolicy};
///
/// # async fn example() -> Result<(), zookeeper_recipes::Error> {
/// let client = Client::builder("zk1:2181,zk2:2181,zk3:2181/apps")
///     .namespace("my-service")
///     .session_timeout(Duration::from_secs(10))
///     .error_policy(ErrorPolicy::Session)
///     .retry(RetryPolicy::n_times(3, Duration::from_millis(500)))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "CuratorFrameworkFactory")]
#[derive(Clone)]
#[must_use = "nothing happens before connect()"]
pub struct ClientBuilder {
    endpoint: Endpoint,
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
    read_only: bool,
    ensemble_tracker: bool,
    server_list: Option<ServerList>,
    dedicated_runtime: bool,
    metric_paths: Vec<String>,
    tls: Option<Tls>,
    sasl: Option<Sasl>,
}

impl fmt::Debug for ClientBuilder {
    // Credentials stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("endpoint", &self.endpoint)
            .field("namespace", &self.namespace)
            .field("session_timeout", &self.session_timeout)
            .field("connection_timeout", &self.connection_timeout)
            .finish_non_exhaustive()
    }
}

impl ClientBuilder {
    pub(super) fn new(connect_string: &str) -> Self {
        ClientBuilder::to(Endpoint::ConnectString(connect_string.to_owned()))
    }

    pub(crate) fn at_host(host: Arc<dyn Host>) -> Self {
        ClientBuilder::to(Endpoint::Host(host))
    }

    fn to(endpoint: Endpoint) -> Self {
        ClientBuilder {
            endpoint,
            namespace: String::new(),
            session_timeout: DEFAULT_SESSION_TIMEOUT,
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
            read_only: false,
            ensemble_tracker: false,
            server_list: None,
            dedicated_runtime: false,
            metric_paths: Vec::new(),
            tls: None,
            sasl: None,
        }
    }

    /// Sets a path that the client prepends to every path it uses. The leading slash may be omitted, as in Curator.
    /// Recipes and [`create_containers`](Client::create_containers) create it when needed. Default: none.
    #[doc(alias = "usingNamespace")]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets how long the ensemble keeps the session without hearing from it. Default 40 s: servers with the default
    /// settings grant no more, even if Curator asks them for its default of 60 s.
    ///
    /// The servers may grant more or less (by default they allow 2 to 20 of their ticks), and another value on each
    /// connection. The lease uses the smallest value granted in the session. If a grant differs from the value asked
    /// for, the client logs a warning, once. A shorter timeout means a faster takeover from a crashed process, and more
    /// sessions lost to a slow network.
    #[doc(alias = "sessionTimeoutMs")]
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Sets how long [`connect`](Self::connect), and any plain operation, waits for a connection. Default 15 s, as in
    /// Curator.
    ///
    /// The first attempts share this time equally among the servers, or a third of the session timeout if that is less.
    /// Each attempt gets at least one second.
    #[doc(alias = "connectionTimeoutMs")]
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = timeout;
        self
    }

    /// Sets the servers' `tickTime`. Default 2 s, as in ZooKeeper.
    ///
    /// Followers report to their leader twice in a tick, so the tick bounds how old the leader's knowledge of a session
    /// can be. The value must not be less than the servers' value: a smaller one voids the guarantee of the lease. A
    /// larger one only shortens the lease, unless a server grants less than two of these ticks: in that case set
    /// [`min_session_timeout`](Self::min_session_timeout). A value above a quarter of the granted session timeout
    /// counts as a quarter, which is enough while the granted session timeout is at least two of the servers' ticks.
    pub fn tick_time(mut self, tick_time: Duration) -> Self {
        self.tick_time = tick_time;
        self
    }

    /// Sets the smallest `minSessionTimeout` of all servers. Default two ticks, as in ZooKeeper.
    ///
    /// While a request to reconnect is unanswered, a server may already have granted this little. So under
    /// [`ErrorPolicy::Session`] holds end by then, and the client first asks a server whether it serves. A request that
    /// was given up may also reach its server late. So for a session timeout after the next attempt, under either
    /// policy, a lease ends at most this long after the latest answered heartbeat was sent, and the client sends three
    /// heartbeats per such interval, each a log write. With a larger minimum, locks survive longer interruptions.
    ///
    /// The value must not exceed the minimum of any server: a larger one voids the guarantee of the lease until a
    /// server grants less. From then on the default applies to that session, and a warning names both values.
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.min_session_timeout = Some(timeout);
        self
    }

    /// Sets how plain operations are retried after a loss of the connection. Default [`RetryPolicy::default`]: delays
    /// from 100 ms to 3 s, for 15 s.
    #[doc(alias = "retryPolicy")]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Sets which connection states end what recipes hold. Default [`ErrorPolicy::Standard`].
    #[doc(alias = "connectionStateErrorPolicy")]
    pub fn error_policy(mut self, policy: ErrorPolicy) -> Self {
        self.error_policy = policy;
        self
    }

    /// Sets how the lease of the session is extended. Default [`Heartbeat::Sync`].
    pub fn heartbeat(mut self, heartbeat: Heartbeat) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Adds credentials, as ZooKeeper's `addauth` does. The client presents them on every connection. May be called
    /// several times. Default: none.
    #[doc(alias = "authorization")]
    #[doc(alias = "addauth")]
    pub fn auth(mut self, scheme: impl Into<String>, auth: impl Into<Vec<u8>>) -> Self {
        self.auths.push((scheme.into(), auth.into()));
        self
    }

    /// Sets the ACL of every node that this client creates, including missing parents. Default [`Acl::anyone_all`].
    #[doc(alias = "aclProvider")]
    pub fn acls(mut self, acls: impl Into<Vec<Acl>>) -> Self {
        self.acls = acls.into();
        self
    }

    /// Sets the size of the largest request, in bytes; it should be the servers' `jute.maxbuffer`. Default 1 048 575,
    /// as in ZooKeeper; at least 1 KiB. A server closes the connection when a request is larger, so the client refuses
    /// it before it is sent. If the servers' limit is lower, a request between the two limits costs the connection.
    /// After the second time the client refuses all that are as long, and sends one of them after a minute, later after
    /// up to an hour.
    #[doc(alias = "jute.maxbuffer")]
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// Sets the longest answer that the client reads, in bytes. A longer answer fails its request. Default: no limit,
    /// because the servers do not limit their answers; at least 64 KiB. The client allocates memory as bytes arrive,
    /// never by an announced length.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Sets how long a server that owes an answer may be silent before the connection counts as lost and the client
    /// tries the next server. Default 0.4 of the granted session timeout, for any number of servers; at most the
    /// session timeout.
    pub fn silence_timeout(mut self, timeout: Duration) -> Self {
        self.silence_timeout = Some(timeout);
        self
    }

    /// Sets whether the client waits for a random time of up to 100 ms before the first attempt after a lost
    /// connection. Useful for large fleets, whose clients would otherwise all reconnect at once. Default false.
    pub fn spread_reconnects(mut self, spread: bool) -> Self {
        self.spread_reconnects = spread;
        self
    }

    /// Sets whether the client only reads, and may do so on a read-only server: one in contact with no majority of the
    /// ensemble, started with `readonlymode.enabled`. Default false: such servers are avoided.
    ///
    /// The client holds and writes nothing, on any server: [`ErrorKind::ReadOnly`] says so, without a request. A
    /// [`Cache`](crate::cache), a shared value or a discovery of services can be built on it. What it reads while it is
    /// [`ReadOnly`](crate::ConnectionState::ReadOnly) may be old. It looks for another server, every half a minute
    /// or so in the end, and moves there. Curator's `canBeReadOnly` clients also write while they can: use two here.
    #[doc(alias = "canBeReadOnly")]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Sets whether the client follows the ensemble's dynamic configuration (`/zookeeper/config`), which an operator
    /// changes by `reconfig`. Its servers then replace the ones in the connect string, at the start and after each
    /// change. A session whose server is no longer among them moves to one that is, as with a [`ServerList`]. This
    /// costs one read per session, and one per change. Default false.
    ///
    /// Curator's `withEnsembleTracker` is on by default. Here it is off because the addresses in the configuration are
    /// often reachable only for the servers. While none of them can be reached, the client also tries those of the
    /// connect string. It does not follow a configuration without client ports, and logs that: write
    /// `server.1=host:2888:3888;2181` instead of `clientPort`. The option cannot be combined with TLS, as the
    /// configuration names only ports without TLS.
    #[doc(alias = "withEnsembleTracker")]
    #[doc(alias = "reconfig")]
    pub fn ensemble_tracker(mut self, follow: bool) -> Self {
        self.ensemble_tracker = follow;
        self
    }

    /// Takes the servers from a list that may change, in place of those of the connect string, which then has only the
    /// root: `Client::builder("/apps").server_list(&servers)`. Default: none. See [`ServerList`].
    pub fn server_list(mut self, servers: &ServerList) -> Self {
        self.server_list = Some(servers.clone());
        self
    }

    /// Sets whether the session, its heartbeats and the background deletes run on a separate thread. The session then
    /// survives in programs that block their runtime. Guards report correctly whether they are held in both cases.
    /// Default false.
    pub fn dedicated_runtime(mut self, dedicated: bool) -> Self {
        self.dedicated_runtime = dedicated;
        self
    }

    /// Sets templates that replace the paths which match them, in the label `path` of [the
    /// metrics](crate::metrics#the-labels). In a template `{name}` matches any element: `/orders/{id}` matches
    /// `/orders/4711`. The first match counts. Default: none, and the label is the path itself, for up to a hundred
    /// paths per metric.
    ///
    /// Templates are without the [namespace](Self::namespace), although the label has it. For a semaphore at
    /// `/jobs/4711` give two: `/jobs/{job}`, and `/jobs/{job}/locks` for its line.
    #[cfg(feature = "metrics")]
    pub fn metric_paths<T: Into<String>>(mut self, templates: impl IntoIterator<Item = T>) -> Self {
        self.metric_paths = templates.into_iter().map(Into::into).collect();
        self
    }

    /// Encrypts the connections to all hosts except those after `tcp://`. Default: no encryption; a host after
    /// `tcp+tls://` requires this option.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Authenticates by SASL. Default: no SASL.
    pub fn sasl(mut self, sasl: Sasl) -> Self {
        self.sasl = Some(sasl);
        self
    }

    /// Checks the options without connecting. [`connect`](Self::connect) checks them too.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] or [`ErrorKind::InvalidPath`]; the message names the value and what is allowed.
    pub fn validate(&self) -> Result<(), Error> {
        if let Endpoint::ConnectString(connect_string) = &self.endpoint {
            let connect_string = self.connect_string(connect_string)?;
            self.check_tracker(&connect_string)?;
        }
        self.config("").map(drop)
    }

    /// Opens the first session, and returns the client. Must be called inside a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] or [`ErrorKind::InvalidPath`] if an option is invalid;
    /// [`ErrorKind::ConnectionLoss`] if no server answered within the connection timeout; [`ErrorKind::AuthFailed`].
    ///
    /// # Cancel safety
    /// Cancel safe: a session that was being opened is closed again, or expires.
    #[doc(alias = "blockUntilConnected")]
    pub async fn connect(self) -> Result<Client, Error> {
        self.validate()?;
        let (closed, _) = watch::channel(None);
        let environment = self.environment(closed.subscribe())?;
        let config = self.config(&environment.ensemble.servers())?;
        let (servers, within) = (config.servers.clone(), config.connection_timeout);
        let ensemble = Arc::clone(&environment.ensemble);
        connect(environment, config, closed).await.map_err(|error| match error {
            engine::Error::Unreachable(causes) => {
                let causes = if causes.is_empty() { format!("none of {servers} answered") } else { causes };
                Error::new(ErrorKind::ConnectionLoss, format!("connect: not connected within {within:?}: {causes}"))
            }
            error => Error::of_session("connect to", &servers, &ensemble.causes(), error),
        })
    }

    fn environment(&self, closed: watch::Receiver<Option<bool>>) -> Result<Environment, Error> {
        let Platform { connect_string, connector, runtime, clock, random } = match &self.endpoint {
            Endpoint::Host(host) => host.platform(),
            Endpoint::ConnectString(connect_string) => {
                Platform::network(self.connect_string(connect_string)?, self.dedicated_runtime, closed)?
            }
        };
        let drawn = random.clone();
        let jitter = Arc::new(move || drawn.unit());
        let mut options = Options {
            silence: self.silence_timeout,
            max_request_bytes: self.max_request_bytes,
            longest_answer: self.max_response_bytes,
            connection_timeout: self.connection_timeout,
            spread_reconnects: self.spread_reconnects,
            read_only: self.read_only,
            auths: self.auths.clone(),
            servers: self.server_list.as_ref().map(ServerList::subscribe),
            ..Options::new(connect_string, self.session_timeout, clock, runtime.system_spawner(), jitter)
        };
        let ensemble = match connector {
            Some(connector) => Ensemble::with_connector(options, connector),
            None => {
                options.follows_configuration = self.ensemble_tracker;
                options.tls = self.tls.as_ref().map(Tls::client_config).transpose()?;
                options.sasl = self.sasl.as_ref().map(Sasl::to_mechanism);
                Ensemble::new(options)
            }
        };
        Ok(Environment { ensemble: Arc::new(ensemble), runtime, clock, random })
    }

    fn connect_string(&self, connect_string: &str) -> Result<ConnectString, Error> {
        let invalid = |why| Error::new(ErrorKind::InvalidArgument, why);
        let whole = match &self.server_list {
            None => Cow::Borrowed(connect_string),
            Some(servers) if connect_string.is_empty() || connect_string.starts_with('/') => {
                Cow::Owned(format!("{servers}{connect_string}"))
            }
            Some(_) => {
                return Err(invalid(format!(
                    "connect string {connect_string:?}: names servers although a server list is given; give only the \
                     root, as in \"/apps\", or nothing"
                )));
            }
        };
        let connect_string = ConnectString::parse(&whole).map_err(|error| invalid(error.to_string()))?;
        if let Some(name) = connect_string.srv().filter(|_| !cfg!(feature = "srv")) {
            return Err(invalid(format!("connect string: srv://{name} needs the feature `srv` of zookeeper-recipes")));
        }
        self.check_tls(&connect_string)?;
        Ok(connect_string)
    }

    /// Refuses the tracker with TLS: the ensemble's configuration names the ports without TLS, which servers may have
    /// closed.
    fn check_tracker(&self, connect_string: &ConnectString) -> Result<(), Error> {
        let asked = connect_string.hosts().iter().any(|host| host.starts_with("tcp+tls://"));
        let encrypts = asked || self.tls.is_some();
        if self.ensemble_tracker && encrypts {
            let message =
                "ensemble tracker: cannot be used with TLS, because the ensemble's configuration names no TLS port";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        Ok(())
    }

    /// Checks that there are authorities to trust, if `tls` or `tcp+tls://` before a host requires encryption.
    fn check_tls(&self, connect_string: &ConnectString) -> Result<(), Error> {
        if let Some(tls) = &self.tls {
            return tls.check();
        }
        match connect_string.hosts().iter().find(|host| host.starts_with("tcp+tls://")) {
            None => Ok(()),
            Some(host) => Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "connect string: {host} requires encryption; call tls() with the authorities to \
                     trust (feature `tls`)"
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
        has_entries(&self.acls)?;
        Ok(Config {
            servers: servers.to_owned(),
            namespace: Namespace::new(&self.namespace)?,
            session_timeout: self.session_timeout,
            connection_timeout: self.connection_timeout,
            tick: self.tick_time,
            min_session_timeout: self.min_session_timeout,
            retry: self.retry.clone(),
            error_policy: self.error_policy,
            read_only: self.read_only,
            heartbeat: self.heartbeat,
            acls: self.acls.clone(),
            max_request_bytes: self.max_request_bytes,
            meter: Arc::new(self.meter()?),
        })
    }

    fn meter(&self) -> Result<Meter, Error> {
        let paths = crate::metrics::Paths::new(Namespace::new(&self.namespace)?, &self.metric_paths);
        paths.map(Meter::new).map_err(|error| Error::new(ErrorKind::InvalidPath, format!("metric paths: {error}")))
    }
}
