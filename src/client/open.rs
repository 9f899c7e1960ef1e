//! The first session of a client, and the tasks that keep the client alive.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::clock::{Clock, Instant};
use super::core::{Config, Core};
use super::runtime::Runtime;
use super::supervisor::Supervisor;
use super::{Client, Owner, janitor};
use crate::backend::{self, Ensemble, Opened};

/// Between two attempts to open the first session.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens the first session and starts the tasks that keep the client alive.
pub(super) async fn open(
    ensemble: Arc<dyn Ensemble>,
    config: Config,
    runtime: Runtime,
    closed: watch::Sender<Option<bool>>,
) -> Result<Client, backend::Error> {
    // Where the session is opened is where the client crate's own task will run.
    let first = runtime.spawn_system(first_session(Arc::clone(&ensemble), config.connection_timeout));
    let (first, begun) = match AbortOnDrop(first).wait().await {
        Ok(opened) => opened?,
        Err(panic) => return Err(backend::Error::Other(format!("opening the session failed: {panic}"))),
    };
    let (janitor, jobs) = mpsc::unbounded_channel();
    let (closing, asked_to_close) = watch::channel(false);
    let core = Core::new(config, runtime, janitor, closing);
    let told = closed.subscribe();
    let supervisor = Supervisor { core: Arc::clone(&core), ensemble, closing: asked_to_close, closed };
    let session = supervisor.install(&first, begun);
    core.runtime.spawn_system(supervisor.run(session, first.events));
    core.runtime.spawn_system(janitor::run(Arc::clone(&core), jobs));
    Ok(Client { owner: Arc::new(Owner { core, told }) })
}

/// Tries until a session is open or the time is over. The clock starts anew with each attempt, as that is when the
/// server may have begun to count.
async fn first_session(ensemble: Arc<dyn Ensemble>, within: Duration) -> Result<(Opened, Instant), backend::Error> {
    let attempts = async {
        loop {
            let begun = Clock.now();
            match ensemble.open().await {
                Ok(opened) => return Ok((opened, begun)),
                Err(backend::Error::ConnectionLoss | backend::Error::SessionEnded) => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    };
    tokio::time::timeout(within, attempts).await.unwrap_or(Err(backend::Error::ConnectionLoss))
}

/// A task that ends with whoever waits for it.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn wait(mut self) -> Result<T, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
