//! Where the tasks of a client run. No other file starts a task.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::error::{Error, ErrorKind};
use crate::engine;

/// Runs tasks instead of tokio, as a simulated process does.
pub(crate) trait Spawn: std::any::Any + std::fmt::Debug + Send + Sync {
    fn spawn(&self, task: BoxFuture<'static, ()>);
}

/// A tokio runtime or a simulated process.
#[derive(Debug, Clone)]
enum Spawner {
    Tokio(Handle),
    Simulated(Arc<dyn Spawn>),
}

impl Spawner {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match self {
            Spawner::Tokio(handle) => drop(handle.spawn(task)),
            Spawner::Simulated(process) => process.spawn(Box::pin(task)),
        }
    }
}

/// The runtime of the caller, and the runtime that keeps the session alive: the same one, or one on its own thread.
#[derive(Debug, Clone)]
pub(crate) struct Runtime {
    user: Spawner,
    system: Spawner,
}

impl Runtime {
    /// Uses the runtime on which this is called for both.
    pub(crate) fn shared() -> Result<Self, Error> {
        let user = Handle::try_current()
            .map_err(|_| Error::new(ErrorKind::InvalidArgument, "a client must be connected inside a tokio runtime"))?;
        let user = Spawner::Tokio(user);
        Ok(Runtime { system: user.clone(), user })
    }

    /// Starts a separate thread for session, heartbeat and janitor, so that a caller that blocks its runtime does not
    /// lose the session. The thread ends when `until` resolves.
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

    /// Uses a simulated process for both.
    pub(crate) fn simulated(process: impl Spawn) -> Self {
        let user = Spawner::Simulated(Arc::new(process));
        Runtime { system: user.clone(), user }
    }

    /// Runs the driver of a simulation on the runtime on which this is called. Returns what that runtime lacks if it
    /// cannot run it.
    pub(crate) fn host(driver: BoxFuture<'static, ()>) -> Result<(), &'static str> {
        let no_runtime = "there is no tokio runtime here; call it inside one: in a #[tokio::test] or #[tokio::main] \
                          function, in Runtime::block_on, or after Runtime::enter";
        let handle = Handle::try_current().map_err(|_| no_runtime)?;
        // There is no other way to find out. tokio's own panic has the same reason, but not the place of the call.
        let has_timers = std::panic::catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok();
        if !has_timers {
            return Err("the tokio runtime here has no timers; build it with enable_time() or enable_all()");
        }
        drop(handle.spawn(driver));
        Ok(())
    }

    /// Returns the simulated process, if it is one of this type.
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

    /// Waits on the runtime of the session, so the caller needs no timers of its own. Returns false, at once, if that
    /// runtime has ended.
    pub(crate) async fn sleep(&self, duration: Duration) -> bool {
        let (mut over, slept) = oneshot::channel();
        self.spawn_system(async move {
            tokio::select! {
                biased;
                () = over.closed() => {}
                () = tokio::time::sleep(duration) => drop(over.send(())),
            }
        });
        slept.await.is_ok()
    }

    /// Returns [`spawn_system`](Self::spawn_system) as a function, for the engine.
    pub(crate) fn system_spawner(&self) -> engine::Spawner {
        let system = self.system.clone();
        Arc::new(move |task| system.spawn(task))
    }
}
