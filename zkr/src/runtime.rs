//! The runtime of each process of `zkr`.

use tokio::runtime::Builder;

use crate::ending::Ending;

/// Runs a future on this thread alone: the system kills a command when the thread that has started it ends.
pub fn block_on(work: impl Future<Output = Ending>) -> Ending {
    // Sockets are looked at after each step: where one client keeps a server at work, another one is heard too.
    let runtime = match Builder::new_current_thread().enable_all().event_interval(1).build() {
        Ok(runtime) => runtime,
        Err(error) => return Ending::failed(error),
    };
    let ending = runtime.block_on(work);
    // A thread that still reads the standard input, or writes to a pipe that is full, is not waited for.
    runtime.shutdown_background();
    ending
}
