//! Waiting for a condition with a deadline, the only way the tests wait; and paths that no other test uses.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, sleep, timeout, timeout_at};

const PAUSE: Duration = Duration::from_millis(10);

/// Asks again and again until the answer is yes; panics with `what` when the deadline has passed.
pub async fn eventually<F>(what: &str, deadline: Duration, mut condition: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    until(what, deadline, || {
        let asked = condition();
        async { asked.await.then_some(()) }
    })
    .await;
}

/// Asks again and again until there is an answer; panics with `what` when the deadline has passed.
pub async fn until<T, F>(what: &str, deadline: Duration, mut question: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let end = Instant::now() + deadline;
    loop {
        match timeout_at(end, question()).await {
            Ok(Some(answer)) => return answer,
            Ok(None) if Instant::now() < end => sleep(PAUSE).await,
            _ => panic!("not within {deadline:?}: {what}"),
        }
    }
}

/// The output of `work`; panics with `what` when the deadline has passed.
pub async fn within<F: Future>(what: &str, deadline: Duration, work: F) -> F::Output {
    match timeout(deadline, work).await {
        Ok(output) => output,
        Err(_) => panic!("not within {deadline:?}: {what}"),
    }
}

/// A path at the root that no other call in any process returns; the node is not created.
pub fn unique_path(prefix: &str) -> String {
    format!("/{}-{}", prefix.trim_matches('/'), unique_suffix())
}

/// Letters, digits and dashes that no other call in any process returns.
pub fn unique_suffix() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970").as_millis();
    format!("{:x}-{:x}-{:x}", std::process::id(), now, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The last element of a path.
pub fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}
