//! Counts the steps that the tasks of a world take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use futures::task::AtomicWaker;

/// A counter of steps, and a task that waits for one.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    count: AtomicUsize,
    awaited: AtomicUsize,
    waiter: AtomicWaker,
}

impl Steps {
    /// Returns a counter, and the callback for each step.
    pub(crate) fn counter() -> (Arc<Steps>, impl Fn() + Send + Sync + 'static) {
        let steps = Arc::new(Steps::default());
        let counted = Arc::clone(&steps);
        let count = move || {
            let count = counted.count.fetch_add(1, Ordering::SeqCst) + 1;
            if count == counted.awaited.load(Ordering::SeqCst) {
                counted.waiter.wake();
            }
        };
        (steps, count)
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Resolves when this many steps have been taken. For one waiter at a time.
    pub(crate) async fn reach(&self, count: usize) {
        self.awaited.store(count, Ordering::SeqCst);
        std::future::poll_fn(|cx| {
            self.waiter.register(cx.waker());
            if self.count() >= count { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
