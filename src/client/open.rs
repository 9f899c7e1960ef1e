//! The first session of a client, and the tasks that keep the client alive.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::clock::{Clock, Instant};
use super::core::{Config, Core};
use super::random::Random;
use super::runtime::Runtime;
use super::supervisor::Supervisor;
use super::{Client, Owner, janitor};
use crate::backend::{self, Ensemble, Opened};

/// Between two attempts to open the first session.
const PAUSE: Duration = Duration::from_millis(100);

/// What a client stands on.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) ensemble: Arc<dyn Ensemble>,
    pub(crate) runtime: Runtime,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
}

/// Opens the first session and starts the tasks that keep the client alive.
pub(super) async fn open(
    ground: Ground,
    config: Config,
    closed: watch::Sender<Option<bool>>,
) -> Result<Client, backend::Error> {
    let Ground { ensemble, runtime, clock, random } = ground;
    // Where the session is opened is where the client crate's own task will run.
    let first = runtime.run_system(first_session(Arc::clone(&ensemble), clock, config.connection_timeout)).await;
    let gone =
        || backend::Error::Other("opening the session failed: its task panicked, or its runtime ended".to_owned());
    let (first, begun) = first.ok_or_else(gone)??;
    let (janitor, jobs) = mpsc::unbounded_channel();
    let (closing, asked_to_close) = watch::channel(false);
    let core = Core::new(config, clock, random, runtime, janitor, closing);
    let told = closed.subscribe();
    let supervisor = Supervisor { core: Arc::clone(&core), ensemble, closing: asked_to_close, closed };
    let session = supervisor.install(&first, begun);
    core.runtime.spawn_system(supervisor.run(session, first.events));
    core.runtime.spawn_system(janitor::run(Arc::clone(&core), jobs));
    Ok(Client { owner: Arc::new(Owner { core, told }) })
}

/// Tries until a session is open or the time is over. The clock starts anew with each attempt, as that is when the
/// server may have begun to count.
async fn first_session(
    ensemble: Arc<dyn Ensemble>,
    clock: Clock,
    within: Duration,
) -> Result<(Opened, Instant), backend::Error> {
    let attempts = async {
        loop {
            let begun = clock.now();
            match ensemble.open().await {
                Ok(opened) => return Ok((opened, begun)),
                Err(backend::Error::ConnectionLoss | backend::Error::SessionEnded) => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    };
    tokio::time::timeout(within, attempts).await.unwrap_or(Err(backend::Error::ConnectionLoss))
}
