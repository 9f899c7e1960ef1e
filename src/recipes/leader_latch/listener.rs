//! Listeners of a latch.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};

use super::Leadership;
use super::state::LatchState;
use crate::client::ListenerHandle;
use crate::client::core::Core;
use crate::client::listener::{self, Deliver};
use crate::contender::Hold;
use crate::util::boxed::boxed_listener;
use crate::util::mutex::Mutex;

/// Is notified when leadership is gained and when it is lost, in this order, on a task of its own.
///
/// A slow listener is notified late, so check the leadership before you act on it. A listener that panics is logged and
/// removed.
///
/// ```no_run
/// use zookeeper_recipes::leader_latch::{
///     LeaderLatch, LeaderLatchListener, Leadership,
/// };
///
/// struct Log;
///
/// impl LeaderLatchListener for Log {
///     async fn is_leader(&self, leadership: Leadership) {
///         println!("leading with token {}", leadership.fencing_token());
///     }
///     async fn not_leader(&self) {
///         println!("no longer leading");
///     }
/// }
///
/// # fn example(latch: &LeaderLatch) {
/// let handle = latch.add_listener(Log);
/// // Later:
/// handle.remove();
/// # }
/// ```
pub trait LeaderLatchListener: Send + Sync + 'static {
    /// Is called when leadership was gained.
    #[doc(alias = "isLeader")]
    fn is_leader(&self, leadership: Leadership) -> impl Future<Output = ()> + Send;
    /// Is called when leadership was lost, or given up with
    /// [`CloseMode::NotifyLeader`](super::CloseMode::NotifyLeader).
    #[doc(alias = "notLeader")]
    fn not_leader(&self) -> impl Future<Output = ()> + Send;
}

boxed_listener! {
    /// Holds a [`LeaderLatchListener`] of any type, for a collection of listeners or one that is chosen at run time.
    ///
    /// To add one listener to several latches, put it in an [`Arc`]: that is a listener too.
    ///
    /// ```no_run
    /// use zookeeper_recipes::leader_latch::{
    ///     BoxLeaderLatchListener, LeaderLatch, LeaderLatchListener, Leadership,
    /// };
    ///
    /// struct Log;
    ///
    /// impl LeaderLatchListener for Log {
    ///     async fn is_leader(&self, leadership: Leadership) {
    ///         println!("{} leads {}", leadership.id(), leadership.path());
    ///     }
    ///     async fn not_leader(&self) {
    ///         println!("leads no more");
    ///     }
    /// }
    /// # struct Gauge;
    /// # impl LeaderLatchListener for Gauge {
    /// #     async fn is_leader(&self, _: Leadership) {}
    /// #     async fn not_leader(&self) {}
    /// # }
    ///
    /// # fn example(latch: &LeaderLatch) {
    /// let listeners = vec![
    ///     BoxLeaderLatchListener::new(Log),
    ///     BoxLeaderLatchListener::new(Gauge),
    /// ];
    /// for listener in listeners {
    ///     latch.add_listener(listener);
    /// }
    /// # }
    /// ```
    pub struct BoxLeaderLatchListener: LeaderLatchListener {
        fn is_leader(&self, leadership: Leadership) -> ();
        fn not_leader(&self) -> ();
    }
}

/// A message to a listener.
#[derive(Debug)]
enum News {
    IsLeader(Hold),
    /// The sender, if any, is dropped when the listener has returned.
    NotLeader(Option<oneshot::Sender<()>>),
}

/// The listeners of one latch.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    news: Mutex<Vec<mpsc::UnboundedSender<News>>>,
}

impl Listeners {
    pub(super) fn add(
        &self,
        core: &Arc<Core>,
        state: &watch::Sender<LatchState>,
        listener: impl LeaderLatchListener,
    ) -> ListenerHandle {
        let (sender, mut news) = mpsc::unbounded_channel();
        {
            // No message is sent under this lock, so the listener misses none and gets none twice.
            let mut all = self.news.lock();
            if let Some(hold) = state.borrow().term() {
                // The receiver still exists.
                let _ = sender.send(News::IsLeader(hold.clone()));
            }
            all.push(sender);
        }
        let news = futures::stream::poll_fn(move |cx| news.poll_recv(cx));
        listener::spawn_listener(core, "leader latch listener", news, Follower(listener))
    }

    /// Publishes the state and sends the listeners the resulting messages, as one step.
    pub(super) fn publish(&self, state: &watch::Sender<LatchState>, new: LatchState) {
        let mut all = self.news.lock();
        let gained = new.term().cloned();
        let old = state.send_replace(new);
        if old.term().is_some() {
            all.retain(|listener| listener.send(News::NotLeader(None)).is_ok());
        }
        if let Some(hold) = gained {
            all.retain(|listener| listener.send(News::IsLeader(hold.clone())).is_ok());
        }
    }

    /// Publishes a state without leadership. The future resolves when every listener that had to be notified has
    /// returned.
    pub(super) fn publish_and_wait(
        &self,
        state: &watch::Sender<LatchState>,
        new: LatchState,
    ) -> BoxFuture<'static, ()> {
        let mut all = self.news.lock();
        let old = state.send_replace(new);
        let mut pending = Vec::new();
        if old.term().is_some() {
            all.retain(|listener| {
                let (done, returned) = oneshot::channel();
                pending.push(returned);
                listener.send(News::NotLeader(Some(done))).is_ok()
            });
        }
        Box::pin(async move {
            for returned in pending {
                // Dropped when the listener has returned, or was removed.
                let _ = returned.await;
            }
        })
    }

    /// Removes all listeners.
    pub(super) fn clear(&self) {
        self.news.lock().clear();
    }
}

struct Follower<L>(L);

impl<L: LeaderLatchListener> Deliver<News> for Follower<L> {
    async fn deliver(&self, news: News) {
        match news {
            News::IsLeader(hold) => self.0.is_leader(Leadership::new(hold)).await,
            News::NotLeader(done) => {
                self.0.not_leader().await;
                drop(done);
            }
        }
    }
}
