//! Runs the user's work on each partition that a member holds.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tracing::Instrument;

use super::changes::Snapshot;
use super::events::{Event, Publisher};
use super::owned::{Owned, Phase, Working};
use crate::client::core::Core;
use crate::util::panic::{caught, panic_text};
use crate::util::wait::run_while_held;
use crate::util::work::WorkResult;

/// The partitions on which work runs. Dropping this drops the work: each task notices that its sender is gone.
#[derive(Default)]
struct Works {
    running: BTreeMap<Arc<str>, (Owned, watch::Sender<()>)>,
}

/// The holds end before the work is dropped, so that a later call does not begin to work on them.
impl Drop for Works {
    fn drop(&mut self) {
        self.running.values().for_each(|(partition, _)| partition.end());
    }
}

impl Works {
    /// Starts the work on a partition, unless it runs already. Returns what ends with it.
    fn start<F, Fut>(
        &mut self,
        core: &Core,
        path: &str,
        partition: &Owned,
        work: &Arc<F>,
    ) -> Option<impl Future<Output = (Arc<str>, Ended)> + use<F, Fut>>
    where
        F: Fn(Owned) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: WorkResult,
    {
        let name = Arc::clone(partition.partition());
        if self.running.contains_key(&name) {
            return None;
        }
        if partition.phase() != Phase::Held {
            // No work runs on it, so there is none to wait for.
            partition.release();
            return None;
        }
        let (only, dropped) = watch::channel(());
        self.running.insert(Arc::clone(&name), (partition.clone(), only));
        let (done, end) = oneshot::channel();
        let span = tracing::info_span!("partition", path, partition = %name, token = partition.fencing_token());
        let work = on_one(Arc::clone(work), partition.clone(), partition.work(), dropped, span);
        core.runtime.spawn(async move {
            // The call may have been dropped.
            let _ = done.send(work.await);
        });
        Some(async move { (name, end.await) })
    }
}

/// How the task of a partition ended.
type Ended = Result<Option<Event>, oneshot::error::RecvError>;

/// Runs until the member has left, and the work on its last partition has ended.
pub(super) async fn run<F, Fut>(core: &Arc<Core>, mut snapshots: watch::Receiver<Snapshot>, events: Publisher, work: F)
where
    F: Fn(Owned) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: WorkResult,
{
    let work = Arc::new(work);
    let (mut works, mut ends) = (Works::default(), FuturesUnordered::new());
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        ends.extend(snapshot.holds.values().filter_map(|partition| works.start(core, events.path(), partition, &work)));
        // Until there is another snapshot, only what has ended can be started again.
        loop {
            if snapshot.is_last && ends.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                Some((name, end)) = ends.next() => {
                    works.running.remove(&name);
                    // A task ends without an outcome only with its runtime.
                    let Ok(event) = end else { return };
                    event.into_iter().for_each(|event| events.report(event));
                    let again = snapshot.holds.get(&name);
                    ends.extend(again.and_then(|partition| works.start(core, events.path(), partition, &work)));
                }
                changed = snapshots.changed(), if !snapshot.is_last => {
                    if changed.is_err() {
                        return;
                    }
                    break;
                }
            }
        }
    }
}

/// Works on one partition until the work ends, the partition is lost, or the sender of `dropped` is gone. `working` is
/// dropped last: then the partition may be handed over. Returns the event to report, unless the partition was lost
/// first.
async fn on_one<F, Fut>(
    work: Arc<F>,
    partition: Owned,
    working: Working,
    mut dropped: watch::Receiver<()>,
    span: tracing::Span,
) -> Option<Event>
where
    F: Fn(Owned) -> Fut,
    Fut: Future,
    Fut::Output: WorkResult,
{
    let name = Arc::clone(partition.partition());
    let future = {
        let partition = partition.clone();
        async move { work(partition).await.into_work_result() }
    };
    let mut future = Box::pin(AssertUnwindSafe(future.instrument(span)).catch_unwind());
    let lost = async {
        tokio::select! {
            biased;
            () = partition.lost() => {}
            _ = dropped.changed() => {}
        }
    };
    let done = run_while_held(|| partition.is_held(), lost, &mut future).await;
    let dropped = caught(move || drop(future));
    let phase = partition.phase();
    let is_by_itself = phase == Phase::Held && partition.has_lease();
    let is_overdue = matches!(phase, Phase::Revoking(by) if Instant::now() >= by) && partition.has_lease();
    drop(working);
    let why = match (done, dropped) {
        (Some(Ok(Err(error))), _) => Some(caught(|| error.to_string()).unwrap_or_else(|panic| panic)),
        (Some(Err(panic)), _) => Some(panic_text(panic)),
        (_, Err(panic)) => Some(panic),
        (Some(Ok(Ok(()))), _) if is_by_itself => None,
        (None, Ok(())) if is_overdue => return Some(Event::WorkDropped { partition: name.to_string() }),
        // It was asked to end, or has seen by itself that the partition was lost.
        (Some(Ok(Ok(()))) | None, Ok(())) => return None,
    };
    Some(Event::WorkEnded { partition: name.to_string(), why })
}
