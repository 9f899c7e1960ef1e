//! Requests that wait for their replies.
//!
//! The crate ends a session when its last client is dropped, and a request that waits holds one. So `close` takes the
//! requests away from whoever holds them, polled or not.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use futures::future::{BoxFuture, FutureExt};
use zookeeper as zk;

use crate::backend::{Error, Reply};

/// The client of a session, and everything that was handed over and is not answered yet.
pub(super) struct Pending {
    state: Mutex<State>,
}

struct State {
    /// None when the session was closed.
    client: Option<zk::Client>,
    next: u64,
    waiting: BTreeMap<u64, Weak<dyn Abandon>>,
}

impl Pending {
    pub(super) fn new(client: zk::Client) -> Self {
        Pending { state: Mutex::new(State { client: Some(client), next: 0, waiting: BTreeMap::new() }) }
    }

    /// Hands a request over and returns the wait for its reply.
    pub(super) fn hand_over<T, F, Fut>(pending: &Arc<Self>, send: F) -> Reply<T>
    where
        T: Send + 'static,
        F: FnOnce(zk::Client) -> Fut,
        Fut: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mut state = pending.lock();
        let Some(client) = state.client.clone() else {
            return futures::future::ready(Err(Error::NotConnected)).boxed();
        };
        let mut reply = send(client).boxed();
        // The crate puts a request in its queue inside the call, so one poll is what hands it over; the waker that
        // counts is the one of the next poll.
        if let Poll::Ready(outcome) = reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return futures::future::ready(outcome).boxed();
        }
        let slot = Arc::new(Slot { held: Mutex::new(Held { reply: Some(reply), waker: None }) });
        let number = state.next;
        state.next += 1;
        let weak: Weak<dyn Abandon> = Arc::downgrade(&slot) as Weak<dyn Abandon>;
        state.waiting.insert(number, weak);
        Waiting { slot, number, pending: Arc::clone(pending) }.boxed()
    }

    /// Lets the client go, and every request with it: they fail with [`Error::SessionEnded`].
    pub(super) fn abandon(&self) {
        let (client, waiting) = {
            let mut state = self.lock();
            (state.client.take(), std::mem::take(&mut state.waiting))
        };
        for slot in waiting.into_values().filter_map(|slot| slot.upgrade()) {
            slot.abandon();
        }
        drop(client);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reply that can be taken away.
struct Slot<T> {
    held: Mutex<Held<T>>,
}

struct Held<T> {
    reply: Option<BoxFuture<'static, Result<T, Error>>>,
    /// Who to tell when it is taken away.
    waker: Option<Waker>,
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

trait Abandon: Send + Sync {
    fn abandon(&self);
}

impl<T> Abandon for Slot<T> {
    fn abandon(&self) {
        let (reply, waker) = {
            let mut held = self.lock();
            (held.reply.take(), held.waker.take())
        };
        drop(reply);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The wait for one reply.
struct Waiting<T> {
    slot: Arc<Slot<T>>,
    number: u64,
    pending: Arc<Pending>,
}

impl<T> Future for Waiting<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut held = self.slot.lock();
        let Some(reply) = held.reply.as_mut() else { return Poll::Ready(Err(Error::SessionEnded)) };
        let polled = reply.as_mut().poll(cx);
        if polled.is_pending() {
            held.waker = Some(cx.waker().clone());
        }
        polled
    }
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        self.pending.lock().waiting.remove(&self.number);
    }
}
