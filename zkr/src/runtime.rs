//! The runtime of each process of `zkr`.

use tokio::runtime::{Builder, Runtime};

use crate::ending::Ending;

/// Runs a future on this thread only: the system kills a command when the thread that started it ends.
pub fn block_on(work: impl Future<Output = Ending>) -> Ending {
    // Polls the sockets after each step, so that a client that keeps a server busy does not shut out the others.
    match Builder::new_current_thread().enable_all().event_interval(1).build() {
        Ok(runtime) => Owned(Some(runtime)).block_on(work),
        Err(error) => Ending::failed(error),
    }
}

/// A runtime that is left without a wait for a thread that still reads the standard input, or writes to a full pipe:
/// also after a panic.
struct Owned(Option<Runtime>);

impl Owned {
    fn block_on(&self, work: impl Future<Output = Ending>) -> Ending {
        self.0.as_ref().map_or_else(|| Ending::failed("the runtime has ended"), |runtime| runtime.block_on(work))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
