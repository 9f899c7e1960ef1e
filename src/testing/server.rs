//! The server, its clients and the tasks that run with them.

use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Task;
use super::target::Target;
use crate::client::builder::ClientBuilder;
use crate::client::platform::{Host, Platform};
use crate::client::runtime::Runtime;
use crate::client::{Client, Error};
use crate::engine::connect_string::ConnectString;
use crate::testing::ensemble::{MemoryEnsemble, Options};
use crate::testing::scheduler::{AfterStep, Scheduler, WORLD};
use crate::util::clock::Clock;
use crate::util::random::Random;

/// How long [`TestingServer::until`] waits.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it checks.
const LOOK: Duration = Duration::from_millis(1);

/// A ZooKeeper ensemble in memory; see the [module](super). Clones are handles to the same ensemble.
///
/// ```
/// use std::time::Duration;
/// use zookeeper_recipes::CreateMode;
/// use zookeeper_recipes::testing::{Data, TestingServer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), zookeeper_recipes::Error> {
/// let server = TestingServer::start();
/// server.create_by_hand("/config", "blue", CreateMode::Persistent)?;
/// let client = server.client().await?;
///
/// // An outage of 3 s, which takes no time under a paused clock.
/// server.stop();
/// tokio::time::sleep(Duration::from_secs(3)).await;
/// server.restart(Data::Kept);
/// server.until(|| server.sessions()[0].connected).await;
/// assert_eq!(server.get("/config").as_deref(), Some(&b"blue"[..]));
/// client.close().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "TestingCluster")]
#[derive(Debug, Clone)]
pub struct TestingServer {
    pub(super) ensemble: MemoryEnsemble,
    pub(super) scheduler: Scheduler,
    seed: u64,
    tick: Duration,
    clock: Clock,
    _levers: Arc<Levers>,
}

/// The state that all handles of a server share.
#[derive(Debug)]
struct Levers {
    scheduler: Scheduler,
}

/// Thaws all frozen clients, so that they and the world can end: nothing else can thaw them any more.
impl Drop for Levers {
    fn drop(&mut self) {
        for process in self.scheduler.frozen() {
            self.scheduler.thaw(process);
        }
    }
}

impl TestingServer {
    #[track_caller]
    pub(super) fn start_with(options: Options, after_step: Option<AfterStep>) -> Self {
        let (seed, tick) = (options.seed, Duration::from_millis(options.tick));
        let time_of_day = Duration::from_millis(options.epoch.unsigned_abs());
        let (scheduler, driver) = Scheduler::new(seed, after_step);
        if let Err(why) = Runtime::host(driver) {
            panic!("TestingServer::start: {why}");
        }
        let ensemble = MemoryEnsemble::start_with(options, |driver| scheduler.spawn(WORLD, driver));
        let levers = Arc::new(Levers { scheduler: scheduler.clone() });
        let clock = Clock::Tokio { start: tokio::time::Instant::now(), time_of_day };
        TestingServer { ensemble, scheduler, seed, tick, clock, _levers: levers }
    }

    /// Connects a client with a session timeout of 10 s. [`Client::builder_for_testing`] has all options.
    ///
    /// # Errors
    /// [`ErrorKind::ConnectionLoss`](crate::ErrorKind::ConnectionLoss) while the server is stopped or refuses
    /// connections.
    ///
    /// # Cancel safety
    /// Cancel safe: a session that was being opened is closed again, or expires.
    pub async fn client(&self) -> Result<Client, Error> {
        Client::builder_for_testing(self).session_timeout(Duration::from_secs(10)).connect().await
    }

    /// Returns the seed of this history.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the time of day in this history: for the servers, and for all clients. It begins at a [fixed
    /// moment](super::TestingServerBuilder::starts_at) and continues with tokio's clock.
    pub fn time_of_day(&self) -> SystemTime {
        self.clock.time_of_day()
    }

    /// Runs `work` in the process of `client`.
    ///
    /// It is scheduled together with the client's own tasks, in an order that the seed determines, and pauses while the
    /// client is [frozen](Self::freeze_client).
    ///
    /// # Panics
    /// If the client does not belong to this server.
    pub fn spawn<T: Send + 'static>(&self, client: &Client, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        let (task, work) = Task::new(work);
        let process = Target::from(client).process(&self.scheduler).map_or(WORLD, |process| process.id);
        self.scheduler.spawn(process, work);
        task
    }

    /// Waits until `condition` holds, checking once a millisecond.
    ///
    /// # Panics
    /// If it does not hold within ten minutes of tokio's clock, or if the simulation has ended. The message names the
    /// location of the call.
    ///
    /// # Cancel safety
    /// Cancel safe: it only checks.
    #[track_caller]
    pub fn until<C: Fn() -> bool>(&self, condition: C) -> impl Future<Output = ()> + use<'_, C> {
        let caller = Location::caller();
        async move {
            let begun = tokio::time::Instant::now();
            while !condition() {
                assert!(!self.scheduler.is_over(), "{caller}: the simulation has ended: {:?}", self.panics());
                assert!(begun.elapsed() < PATIENCE, "{caller}: the condition did not hold within {PATIENCE:?}");
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Returns the messages of panics in tasks of this server's clients, and in the check [after a
    /// step](super::TestingServerBuilder::after_each_step). A test asserts that there are none.
    pub fn panics(&self) -> Vec<String> {
        self.scheduler.panics()
    }
}

impl Host for TestingServer {
    fn platform(&self) -> Platform {
        let process = self.scheduler.process();
        // The seeds are far apart, so that no two clients draw the same random numbers.
        let seed = self.seed.rotate_left(32) ^ u64::from(process.id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Platform {
            connect_string: ConnectString::parse(&self.ensemble.connect_string()).expect("names of servers"),
            connector: Some(self.ensemble.network(process.id)),
            runtime: Runtime::simulated(process),
            clock: self.clock,
            random: Random::seeded(seed),
        }
    }
}

impl Client {
    /// Returns the options of a client for a server in memory.
    ///
    /// Each connected client is a separate process, which can be [frozen](TestingServer::freeze_client).
    /// [`dedicated_runtime`](ClientBuilder::dedicated_runtime), [`ensemble_tracker`](ClientBuilder::ensemble_tracker),
    /// encryption and SASL have no effect.
    pub fn builder_for_testing(server: &TestingServer) -> ClientBuilder {
        ClientBuilder::at_host(Arc::new(server.clone())).tick_time(server.tick)
    }
}
