//! The runtime of the rig. Every `#[tokio::test]` has a runtime of its own that ends with the test; what
//! tests share (containers, the Docker client, proxies) runs on this one.

use std::future::Future;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// The runtime that all container and proxy work runs on.
pub fn rig() -> &'static Runtime {
    static RIG: OnceLock<Runtime> = OnceLock::new();
    RIG.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("rig")
            .enable_all()
            .build()
            .expect("the rig's runtime starts")
    })
}

/// Runs `work` on the rig's runtime. Callable from any runtime; when the caller is cancelled the work still
/// ends.
pub async fn on_rig<F>(work: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match rig().spawn(work).await {
        Ok(output) => output,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(error) => panic!("the rig's runtime is gone: {error}"),
    }
}

/// Runs `work` on the rig's runtime from a `Drop`, and waits for it at most `limit`.
pub fn on_rig_blocking(work: impl Future<Output = ()> + Send + 'static, limit: Duration) {
    let (done, finished) = std::sync::mpsc::channel();
    rig().spawn(async move {
        work.await;
        let _ = done.send(());
    });
    // A worker of the rig must not wait for the rig.
    if Handle::try_current().is_ok_and(|current| current.id() == rig().handle().id()) {
        return;
    }
    let _ = finished.recv_timeout(limit);
}
