//! A future that is polled only when it asked for it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

/// A future under the control of a test. Dropping this drops it.
pub(crate) struct Polls<F> {
    future: Pin<Box<F>>,
    asked: Arc<Asked>,
}

/// Whether the future asked to be polled, and who wants to know.
#[derive(Default)]
struct Asked {
    flag: AtomicBool,
    waiter: AtomicWaker,
}

impl Wake for Asked {
    fn wake(self: Arc<Self>) {
        self.flag.store(true, Ordering::SeqCst);
        self.waiter.wake();
    }
}

impl<F: Future> Polls<F> {
    pub(crate) fn new(future: F) -> Self {
        Polls { future: Box::pin(future), asked: Arc::default() }
    }

    /// Polls it once.
    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        self.asked.flag.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.asked));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Whether it has asked to be polled since its last poll.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked.flag.load(Ordering::SeqCst)
    }

    /// Resolves when it has asked to be polled again; meanwhile the world continues.
    pub(crate) async fn asked(&self) {
        std::future::poll_fn(|cx| {
            self.asked.waiter.register(cx.waker());
            if self.has_asked() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
