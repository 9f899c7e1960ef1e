//! The server, its clients and what runs beside them.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::target::Target;
use super::{Task, TestingServerBuilder};
use crate::backend::memory::{MemoryEnsemble, Options};
use crate::client::builder::{ClientBuilder, Host};
use crate::client::open::Ground;
use crate::client::random::Random;
use crate::client::runtime::Runtime;
use crate::client::{Client, Error};
use crate::clock::Clock;
use crate::scheduler::{AfterStep, Scheduler, WORLD};

/// How long [`TestingServer::until`] waits.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(1);

/// A ZooKeeper ensemble in memory. Clones are handles on the same one; see the [module](super).
#[derive(Debug, Clone)]
pub struct TestingServer {
    pub(super) ensemble: MemoryEnsemble,
    pub(super) scheduler: Scheduler,
    seed: u64,
    tick: Duration,
    start: tokio::time::Instant,
    _levers: Arc<Levers>,
}

/// What all handles of a server share.
#[derive(Debug)]
struct Levers {
    ensemble: MemoryEnsemble,
    scheduler: Scheduler,
}

/// Nobody can thaw a client any more: those that are frozen go on, so that they, and with them the world, can end.
impl Drop for Levers {
    fn drop(&mut self) {
        for process in self.scheduler.frozen() {
            self.ensemble.thaw(process);
            self.scheduler.thaw(process);
        }
    }
}

impl TestingServer {
    /// Starts one server on the runtime this is called on.
    ///
    /// # Panics
    /// Outside a tokio runtime, and on one without timers.
    #[track_caller]
    pub fn start() -> Self {
        TestingServer::builder().start()
    }

    /// The options of a server: seed, number of servers, delays.
    pub fn builder() -> TestingServerBuilder {
        TestingServerBuilder::new()
    }

    #[track_caller]
    pub(super) fn start_with(options: Options, after_step: Option<AfterStep>) -> Self {
        let (seed, tick) = (options.seed, Duration::from_millis(options.tick));
        let (scheduler, driver) = Scheduler::new(seed, after_step);
        if let Err(why) = Runtime::host(driver) {
            panic!("TestingServer::start: {why}");
        }
        let ensemble = MemoryEnsemble::start_with(options, |driver| scheduler.spawn(WORLD, driver));
        let levers = Arc::new(Levers { ensemble: ensemble.clone(), scheduler: scheduler.clone() });
        TestingServer { ensemble, scheduler, seed, tick, start: tokio::time::Instant::now(), _levers: levers }
    }

    /// A client with a session timeout of 10 s; [`Client::builder_for`] has all options.
    ///
    /// # Errors
    /// [`ErrorKind::ConnectionLoss`](crate::ErrorKind::ConnectionLoss) while the server is stopped or refuses.
    ///
    /// # Cancel safety
    /// Cancel safe: a session that was being opened is closed again, or expires.
    pub async fn client(&self) -> Result<Client, Error> {
        Client::builder_for(self).session_timeout(Duration::from_secs(10)).connect().await
    }

    /// The seed of this history.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs `work` in the process of `client`: it takes turns with the client's own tasks in the order of the seed, and stands
    /// still while the client is [frozen](Self::freeze_client).
    ///
    /// # Panics
    /// If the client is not one of this server.
    pub fn spawn<T: Send + 'static>(&self, client: &Client, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        let (task, work) = Task::new(work);
        let process = Target::from(client).process(&self.scheduler).map_or(WORLD, |process| process.id);
        self.scheduler.spawn(process, work);
        task
    }

    /// Waits until `condition` holds, looking once a millisecond.
    ///
    /// # Panics
    /// If it does not hold within ten minutes, by tokio's clock; or if the simulation has ended. The message names the place
    /// of the call.
    ///
    /// # Cancel safety
    /// Cancel safe: it only looks.
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

    /// What tasks of this server's clients panicked with, and the check [after a step](TestingServerBuilder::after_each_step):
    /// a test finds none.
    pub fn panics(&self) -> Vec<String> {
        self.scheduler.panics()
    }
}

impl Host for TestingServer {
    fn ground(&self, session_timeout: Duration) -> Ground {
        let (process, clock) = (self.scheduler.process(), Clock::Tokio(self.start));
        Ground {
            ensemble: self.ensemble.for_group(process.id, session_timeout, clock),
            // Far apart, so that no two clients draw the same.
            random: Random::seeded(
                self.seed.rotate_left(32) ^ u64::from(process.id).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ),
            clock,
            runtime: Runtime::simulated(process),
        }
    }
}

impl Client {
    /// The options of a client for a server in memory. Each client that is connected is a process of its own, which can be
    /// [frozen](TestingServer::freeze_client); [`dedicated_runtime`](ClientBuilder::dedicated_runtime), credentials and
    /// encryption have no effect.
    pub fn builder_for(server: &TestingServer) -> ClientBuilder {
        ClientBuilder::at_host(Arc::new(server.clone())).tick_time(server.tick)
    }
}
