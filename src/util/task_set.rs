//! Futures that run in one task. All are polled at each wake, in the order in which they were added, so that the
//! requests that they send after a common event, such as a new connection, always have the same order.

use std::collections::VecDeque;
use std::fmt;
use std::task::Poll;

use futures::future::{BoxFuture, FutureExt};

enum Slot<T> {
    UnderWay(BoxFuture<'static, T>),
    Done(T),
}

/// A set of futures; see the module.
pub(crate) struct TaskSet<T> {
    slots: VecDeque<Slot<T>>,
}

impl<T> TaskSet<T> {
    pub(crate) fn new() -> Self {
        TaskSet { slots: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, work: impl Future<Output = T> + Send + 'static) {
        self.slots.push_back(Slot::UnderWay(work.boxed()));
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the output of any future that is done. Pending while there is none.
    pub(crate) async fn next(&mut self) -> T {
        self.first_of(usize::MAX).await
    }

    /// Returns the output of the oldest future. Pending while there is none.
    pub(crate) async fn next_in_order(&mut self) -> T {
        self.first_of(1).await
    }

    /// Returns the output of a finished future among the `oldest`.
    async fn first_of(&mut self, oldest: usize) -> T {
        std::future::poll_fn(|cx| {
            for slot in &mut self.slots {
                if let Slot::UnderWay(work) = slot
                    && let Poll::Ready(outcome) = work.as_mut().poll(cx)
                {
                    *slot = Slot::Done(outcome);
                }
            }
            let done = self.slots.iter().take(oldest).position(|slot| matches!(slot, Slot::Done(_)));
            match done.and_then(|at| self.slots.remove(at)) {
                Some(Slot::Done(outcome)) => Poll::Ready(outcome),
                _ => Poll::Pending,
            }
        })
        .await
    }
}

impl<T> fmt::Debug for TaskSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSet").field("under_way", &self.len()).finish()
    }
}
