//! Where the tasks of a client run. No other file starts a task.

use std::thread;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::error::{Error, ErrorKind};

/// The runtime of the caller, and the one that keeps the session alive: the same, or a thread of its own.
#[derive(Debug, Clone)]
pub(crate) struct Runtime {
    user: Handle,
    system: Handle,
}

impl Runtime {
    /// The runtime this is called on, for both.
    pub(crate) fn shared() -> Result<Self, Error> {
        let user = Handle::try_current()
            .map_err(|_| Error::new(ErrorKind::InvalidArgument, "a client must be connected inside a tokio runtime"))?;
        Ok(Runtime { system: user.clone(), user })
    }

    /// A thread of its own for session, heartbeat and janitor, so that a caller who blocks the runtime keeps the session.
    /// The thread ends when `until` resolves.
    pub(crate) fn dedicated(until: impl Future<Output = ()> + Send + 'static) -> Result<Self, Error> {
        let user = Runtime::shared()?.user;
        let failed =
            |error: std::io::Error| Error::new(ErrorKind::Other, format!("starting the client's own runtime: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let system = runtime.handle().clone();
        thread::Builder::new()
            .name("zookeeper-recipes".into())
            .spawn(move || runtime.block_on(until))
            .map_err(failed)?;
        Ok(Runtime { user, system })
    }

    /// Runs a task on the runtime of the caller: recipes and listeners.
    pub(crate) fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.user.spawn(task)
    }

    /// Runs a task beside the session.
    pub(crate) fn spawn_system<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.system.spawn(task)
    }
}
