//! How an example is asked to end.

use tokio::sync::Notify;

use crate::Result;

/// Notified when the reader of the standard output has closed it.
pub(crate) static OUTPUT_CLOSED: Notify = Notify::const_new();

/// Resolves when the program is asked to end: by Ctrl-C, or by SIGTERM as a service is.
#[cfg(unix)]
pub(crate) async fn asked_to_end() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        biased;
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Resolves when the program is asked to end by Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn asked_to_end() -> Result<()> {
    Ok(tokio::signal::ctrl_c().await?)
}
