//! The runtime of each process of `zkr`.

use tokio::runtime::Builder;

use crate::ending::Ending;

/// Runs a future on this thread only: the system kills a command when the thread that started it ends.
pub fn block_on(work: impl Future<Output = Ending>) -> Ending {
    // Polls the sockets after each step, so that a client that keeps a server busy does not shut out the others.
    let runtime = match Builder::new_current_thread().enable_all().event_interval(1).build() {
        Ok(runtime) => runtime,
        Err(error) => return Ending::failed(error),
    };
    let ending = runtime.block_on(work);
    // Does not wait for a thread that still reads the standard input, or writes to a full pipe.
    runtime.shutdown_background();
    ending
}
