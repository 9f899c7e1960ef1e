//! Where the tasks of a client run. No other file starts a task.

use std::sync::Arc;
use std::thread;

#[cfg(feature = "testing")]
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::error::{Error, ErrorKind};
use crate::engine;

/// Runs tasks in place of tokio: a simulated process does.
#[cfg(feature = "testing")]
pub(crate) trait Spawn: std::any::Any + std::fmt::Debug + Send + Sync {
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// A tokio runtime or a simulated process.
#[derive(Debug, Clone)]
enum Spawner {
    Tokio(Handle),
    #[cfg(feature = "testing")]
    Simulated(Arc<dyn Spawn>),
}

impl Spawner {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Spawner::Tokio(handle) => drop(handle.spawn(task)),
            #[cfg(feature = "testing")]
            Spawner::Simulated(process) => process.spawn(Box::pin(task)),
        }
    }
}

/// The runtime of the caller, and the one that keeps the session alive: the same one, or a thread of its own.
#[derive(Debug, Clone)]
pub(crate) struct Runtime {
    user: Spawner,
    system: Spawner,
}

impl Runtime {
    /// Returns the runtime that this is called on, for both.
    pub(crate) fn shared() -> Result<Self, Error> {
        let user = Handle::try_current()
            .map_err(|_| Error::new(ErrorKind::InvalidArgument, "a client must be connected inside a tokio runtime"))?;
        let user = Spawner::Tokio(user);
        Ok(Runtime { system: user.clone(), user })
    }

    /// Starts a thread of its own for session, heartbeat and janitor, so that a caller who blocks the runtime keeps the
    /// session. The thread ends when `until` resolves.
    pub(crate) fn dedicated(until: impl Future<Output = ()> + Send + 'static) -> Result<Self, Error> {
        let user = Runtime::shared()?.user;
        let failed =
            |error: std::io::Error| Error::new(ErrorKind::Other, format!("starting the client's own runtime: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let system = Spawner::Tokio(runtime.handle().clone());
        thread::Builder::new()
            .name("zookeeper-recipes".into())
            .spawn(move || runtime.block_on(until))
            .map_err(failed)?;
        Ok(Runtime { user, system })
    }

    /// Returns a simulated process, for both.
    #[cfg(feature = "testing")]
    pub(crate) fn simulated(process: impl Spawn) -> Self {
        let user = Spawner::Simulated(Arc::new(process));
        Runtime { system: user.clone(), user }
    }

    /// Runs the driver of a simulation on the runtime this is called on. Returns what that runtime lacks, if it cannot.
    #[cfg(feature = "testing")]
    pub(crate) fn host(driver: BoxFuture<'static, ()>) -> Result<(), &'static str> {
        let no_runtime = "there is no tokio runtime here; call it inside one: in a #[tokio::test] or #[tokio::main] \
                          function, in Runtime::block_on, or after Runtime::enter";
        let handle = Handle::try_current().map_err(|_| no_runtime)?;
        // There is no other way to ask. tokio's own panic says the same, but not where it was called.
        let has_timers = std::panic::catch_unwind(|| drop(tokio::time::sleep(std::time::Duration::ZERO))).is_ok();
        if !has_timers {
            return Err("the tokio runtime here has no timers; build it with enable_time() or enable_all()");
        }
        drop(handle.spawn(driver));
        Ok(())
    }

    /// Returns the simulated process, if it is one of this type.
    #[cfg(feature = "testing")]
    pub(crate) fn process<P: Spawn>(&self) -> Option<&P> {
        match &self.user {
            Spawner::Simulated(process) => {
                let process: &dyn std::any::Any = &**process;
                process.downcast_ref()
            }
            Spawner::Tokio(_) => None,
        }
    }

    /// Runs a task of a recipe or a listener on the runtime of the caller.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.user.spawn(task);
    }

    /// Runs a task on the runtime of the session.
    pub(crate) fn spawn_system(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.system.spawn(task);
    }

    /// As [`spawn_system`](Self::spawn_system), for the layer below.
    pub(crate) fn system_spawner(&self) -> engine::Spawner {
        let system = self.system.clone();
        Arc::new(move |task| system.spawn(task))
    }
}
