//! The first session of a client, and the tasks that keep the client alive.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::core::{Config, Core, Environment};
use super::error::ErrorKind;
use super::state::ConnectionState;
use super::supervisor::Supervisor;
use super::{Client, Owner, janitor};
use crate::engine;

/// Opens the first session and starts the tasks that keep the client alive.
pub(super) async fn connect(
    environment: Environment,
    config: Config,
    closed: watch::Sender<Option<bool>>,
) -> Result<Client, engine::Error> {
    let lease = config.new_lease(environment.clock);
    let opening = environment.ensemble.open(Arc::clone(&lease) as _);
    let opened = tokio::time::timeout(config.connection_timeout, opening);
    let first = opened.await.unwrap_or_else(|_| Err(engine::Error::Unreachable(environment.ensemble.causes())))?;
    let (janitor, jobs) = mpsc::unbounded_channel();
    let (closing, close_requested) = watch::channel(false);
    let state = if lease.is_read_only() { ConnectionState::ReadOnly } else { ConnectionState::Connected };
    let core = Core::new(config, environment, state, janitor, closing);
    let close_outcome = closed.subscribe();
    let supervisor = Supervisor { core: Arc::clone(&core), closing: close_requested, closed };
    let session = supervisor.install(&first, lease, state, None);
    core.runtime.spawn_system(supervisor.run(session, first.events));
    core.runtime.spawn_system(janitor::run(Arc::clone(&core), jobs));
    if core.ensemble.has_root() {
        core.runtime.spawn_system(check_root(Arc::clone(&core)));
    }
    Ok(Client { owner: Arc::new(Owner { core, closed: close_outcome }) })
}

/// Reports a missing root at once. Without this, most recipes would only wait below it.
async fn check_root(core: Arc<Core>) {
    if let Err(error) = core.check_root().await
        && error.kind() == ErrorKind::NoNode
    {
        core.report(error);
    }
}
