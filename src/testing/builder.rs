//! The options of a server, and how it is started.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use super::{Dialect, TestingServer};
use crate::testing::ensemble::{Options, millis};
use crate::testing::scheduler::AfterStep;

/// The longest session timeout is 20 ticks, and a server stores it in 31 bits of milliseconds.
const LONGEST_TICK: Duration = Duration::from_millis(i32::MAX as u64 / 20);

impl TestingServer {
    /// Starts one server on the current runtime, with the default options.
    ///
    /// # Panics
    /// Outside a tokio runtime, and on one without timers.
    #[track_caller]
    pub fn start() -> Self {
        TestingServer::builder().start()
    }

    /// Returns the options of a server: seed, number of servers, delays.
    pub fn builder() -> TestingServerBuilder {
        TestingServerBuilder::new()
    }
}

/// The options of a [`TestingServer`]; see [`TestingServer::builder`].
///
/// ```
/// use std::time::Duration;
/// use zookeeper_recipes::testing::TestingServer;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), zookeeper_recipes::Error> {
/// // Three servers, each of which may lag by up to 50 ms.
/// let server = TestingServer::builder()
///     .seed(4711)
///     .servers(3)
///     .lag(Duration::ZERO..=Duration::from_millis(50))
///     .start();
/// assert_eq!(server.servers(), 3);
/// let client = server.client().await?;
/// client.close().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing happens before start()"]
pub struct TestingServerBuilder {
    options: Options,
    after_step: Option<AfterStep>,
}

impl TestingServerBuilder {
    fn new() -> Self {
        TestingServerBuilder { options: Options::default(), after_step: None }
    }

    /// Sets the seed, which determines every delay and the order in which tasks run. Default 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Sets which servers the ensemble imitates. Default [`Dialect::ZooKeeper`].
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.options.dialect = dialect;
        self
    }

    /// Sets the time of day at the start, in whole milliseconds. The times in the stats of nodes count from there.
    ///
    /// Transaction numbers start from it, too, so that a client of an earlier run finds its session expired. If they
    /// were lower than those that the client has seen, the servers would close its connection instead.
    ///
    /// The default is a moment in 2023, the same in every run, with transactions numbered from 1.
    pub fn starts_at(mut self, time: SystemTime) -> Self {
        let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.options.epoch = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
        // More numbers for each millisecond than the servers can use up.
        self.options.zxid = self.options.epoch.saturating_mul(1 << 20);
        self
    }

    /// Sets how many servers the ensemble has. Default 1. With more than one, a client reads from a server that may
    /// lag.
    ///
    /// # Panics
    /// If `servers` is zero.
    #[doc(alias = "TestingCluster")]
    #[track_caller]
    pub fn servers(mut self, servers: usize) -> Self {
        assert!(servers > 0, "an ensemble needs at least one server");
        self.options.servers = servers;
        self
    }

    /// Sets how long a server may take to apply what is committed, in whole milliseconds. Default zero.
    ///
    /// A delay is drawn for each transaction and server. A write is answered once its own server has applied it.
    ///
    /// # Panics
    /// If the range is empty.
    #[track_caller]
    pub fn lag(mut self, lag: RangeInclusive<Duration>) -> Self {
        self.options.lag = in_millis("lag", lag);
        self
    }

    /// Sets how long a message takes between a client and a server, in whole milliseconds. Default 0 to 2 ms.
    ///
    /// A delay is drawn for each message.
    ///
    /// # Panics
    /// If the range is empty.
    #[track_caller]
    pub fn latency(mut self, latency: RangeInclusive<Duration>) -> Self {
        self.options.latency = in_millis("latency", latency);
        self
    }

    /// Sets the servers' `tickTime`, in whole milliseconds. Default 2 s, as in ZooKeeper.
    ///
    /// The servers grant session timeouts of 2 to 20 ticks.
    ///
    /// # Panics
    /// If it is below 1 ms or above 29.8 h: a server stores the longest session timeout, 20 ticks, in 31 bits.
    #[doc(alias = "tickTime")]
    #[track_caller]
    pub fn tick_time(mut self, tick: Duration) -> Self {
        assert!(
            (Duration::from_millis(1)..=LONGEST_TICK).contains(&tick),
            "a tick time of {tick:?}: must be at least 1ms and at most {LONGEST_TICK:?}"
        );
        let tick = millis(tick);
        self.options.tick = tick;
        self.options.least_timeout = tick * 2;
        self.options.most_timeout = tick * 20;
        self
    }

    /// Sets how often the servers look for containers without children, and for nodes whose time to live has passed, in
    /// whole milliseconds. Default one minute, as in ZooKeeper.
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.options.container_check = millis(interval);
        self
    }

    /// Sets whether the servers answer the four-letter words, such as `srvr`. Default true. Otherwise they close the
    /// connection without an answer, like a proxy that only lets sessions through.
    #[doc(alias = "4lw.commands.whitelist")]
    pub fn four_letter_words(mut self, answered: bool) -> Self {
        self.options.four_letter_words = answered;
        self
    }

    /// Sets whether requests and answers are split into small pieces, as a network may do. Default false.
    pub fn split_bytes(mut self, split: bool) -> Self {
        self.options.split_bytes = split;
        self
    }

    /// Sets whether the servers support persistent watches, and reads of several nodes in one request, as servers since
    /// 3.6 do. Default true.
    pub fn persistent_watches(mut self, known: bool) -> Self {
        self.options.persistent_watches = known;
        self
    }

    /// Sets whether the servers permit nodes with a [time to live](crate::CreateMode::PersistentTtl). Default `true`; a
    /// real server does so only with its option `zookeeper.extendedTypesEnabled`.
    #[doc(alias = "extendedTypesEnabled")]
    pub fn extended_types(mut self, enabled: bool) -> Self {
        self.options.extended_types = enabled;
        self
    }

    /// Sets whether a server that is [cut off](TestingServer::cut_off) serves reads once it has noticed, to clients
    /// that are [`read_only`](crate::ClientBuilder::read_only). It knows only the sessions that it has opened then, as
    /// real servers with `localSessionsEnabled`. Default false, as in ZooKeeper.
    #[doc(alias = "readonlymode.enabled")]
    pub fn read_only_mode(mut self, enabled: bool) -> Self {
        self.options.read_only_mode = enabled;
        self
    }

    /// Calls `check` after each step of each task of the clients, and of the tasks of [`TestingServer::spawn`]. By
    /// default there is no check.
    ///
    /// Use it to assert what must hold at every moment. A panic in `check` ends the simulation and is among the
    /// [`panics`](TestingServer::panics).
    pub fn after_each_step(mut self, check: impl Fn() + Send + Sync + 'static) -> Self {
        self.after_step = Some(Box::new(check));
        self
    }

    /// Starts the server on the current runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime, and on one without timers.
    #[track_caller]
    pub fn start(self) -> TestingServer {
        TestingServer::start_with(self.options, self.after_step)
    }
}

impl std::fmt::Debug for TestingServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestingServerBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

#[track_caller]
fn in_millis(what: &str, range: RangeInclusive<Duration>) -> RangeInclusive<u64> {
    assert!(!range.is_empty(), "{what}: {range:?} is empty: the start must not be above the end");
    millis(*range.start())..=millis(*range.end())
}
