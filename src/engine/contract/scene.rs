//! The ensemble and the node on which a scenario runs.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Ensemble, Event, Loss, Observer, Opened, Proof, Session, Watch};
use crate::testing::ensemble::{MemoryEnsemble, Options};
use crate::util::clock::{Clock, Instant};
use crate::util::znode::{Acl, CreateMode, Stat};

pub(super) const TIMEOUT: Duration = Duration::from_secs(6);
/// The longest time that a scenario waits for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// An ensemble, and a node in it for one scenario alone.
pub(super) struct Scene {
    pub(super) ensemble: Arc<Ensemble>,
    root: String,
    /// Keeps the ensemble running.
    _ground: Box<dyn std::any::Any + Send + Sync>,
}

/// Returns an ensemble in memory that resembles the test servers as closely as possible.
pub(super) fn memory(options: Options) -> MemoryEnsemble {
    MemoryEnsemble::start_with(options, |driver| {
        tokio::runtime::Handle::current().spawn(driver);
    })
}

#[cfg(feature = "integration")]
pub(super) fn real(servers: &str) -> Arc<Ensemble> {
    use crate::engine::Options;
    use crate::engine::connect_string::ConnectString;
    let connect_string = ConnectString::parse(servers).expect("the addresses of the servers");
    let runtime = tokio::runtime::Handle::current();
    let spawn = Arc::new(move |task| drop(runtime.spawn(task)));
    let options = Options::new(connect_string, TIMEOUT, Clock::default(), spawn, Arc::new(fastrand::f64));
    Arc::new(Ensemble::new(options))
}

/// An observer that ignores everything.
#[derive(Debug)]
struct Indifferent;

impl Observer for Indifferent {
    fn connecting(&self, _at: Instant) {}
    fn connected(&self, _granted: Duration) {}
    fn answered(&self, _sent: Instant, _proof: Proof) {}
    fn disconnected(&self, _loss: Loss) {}
}

pub(super) fn unobserved() -> Arc<dyn Observer> {
    Arc::new(Indifferent)
}

impl Scene {
    pub(super) async fn in_memory() -> Scene {
        let options = Options { container_check: 500, tick: 500, ..Options::default() };
        let memory = memory(options);
        let ensemble = memory.for_group(0, TIMEOUT, usize::MAX, Clock::tokio(tokio::time::Instant::now()));
        Scene::new(ensemble, "/contract".to_owned(), Box::new(memory)).await
    }

    #[cfg(feature = "integration")]
    pub(super) async fn on_real_servers() -> Scene {
        let server = crate::support::ZooKeeper::shared().await;
        let root = crate::support::unique_path("contract");
        Scene::new(real(&server.connect_string()), root, Box::new(server)).await
    }

    pub(super) async fn new(
        ensemble: Arc<Ensemble>,
        root: String,
        ground: Box<dyn std::any::Any + Send + Sync>,
    ) -> Scene {
        let scene = Scene { ensemble, root, _ground: ground };
        let session = scene.session().await;
        let anyone = [Acl::anyone_all()];
        session.create(&scene.root, b"", CreateMode::Persistent, &anyone).await.expect("the node of the scenario");
        soon(session.close()).await;
        scene
    }

    /// Returns the node of the scenario, or one below it.
    pub(super) fn path(&self, below: &str) -> String {
        match below {
            "" => self.root.clone(),
            below => format!("{}/{below}", self.root),
        }
    }

    pub(super) async fn open(&self) -> Opened {
        soon(self.ensemble.open(unobserved())).await.expect("a session")
    }

    pub(super) async fn session(&self) -> Arc<Session> {
        self.open().await.session
    }
}

/// Returns the output of `work`, which must not take long.
pub(super) async fn soon<F: Future>(work: F) -> F::Output {
    tokio::time::timeout(PATIENCE, work).await.expect("it ends in time")
}

/// Polls until the condition is true.
pub(super) async fn until<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    soon(async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Returns the event of a watch, if it has arrived already.
pub(super) fn already(watch: &mut Watch) -> Option<Event> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(watch).poll(&mut cx) {
        std::task::Poll::Ready(event) => Some(event),
        std::task::Poll::Pending => None,
    }
}

/// Creates a persistent node without data.
pub(super) async fn create(session: &Arc<Session>, path: &str) -> Stat {
    create_as(session, path, CreateMode::Persistent).await.1
}

pub(super) async fn create_as(session: &Arc<Session>, path: &str, mode: CreateMode) -> (String, Stat) {
    let created = soon(session.create(path, b"", mode, &[Acl::anyone_all()])).await;
    created.unwrap_or_else(|error| panic!("creating {path}: {error:?}"))
}
