//! Listeners of a latch.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};

use super::Leadership;
use super::state::LatchState;
use crate::client::ListenerHandle;
use crate::client::core::Core;
use crate::client::listener::{self, Hearer};
use crate::contender::Hold;

/// Is told when leadership is gained and lost, in this order, on a task of its own. A slow listener hears late, so ask the
/// leadership before acting on it. A panicking listener is reported and removed.
pub trait LeaderLatchListener: Send + Sync + 'static {
    /// Leadership was gained.
    fn is_leader(&self, leadership: Leadership) -> impl Future<Output = ()> + Send;
    /// Leadership was lost, or given up with [`CloseMode::NotifyLeader`](super::CloseMode::NotifyLeader).
    fn not_leader(&self) -> impl Future<Output = ()> + Send;
}

/// Something to tell a listener.
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
            // Under this lock no news is told, so the listener misses none and hears none twice.
            let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(hold) = state.borrow().term() {
                // The receiver is at hand.
                let _ = sender.send(News::IsLeader(hold.clone()));
            }
            all.push(sender);
        }
        let news = futures::stream::poll_fn(move |cx| news.poll_recv(cx));
        listener::tell(core, "leader latch listener", news, Follower(listener))
    }

    /// Publishes the state and tells the listeners what it means for them, as one step.
    pub(super) fn publish(&self, state: &watch::Sender<LatchState>, new: LatchState) {
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let gained = new.term().cloned();
        let old = state.send_replace(new);
        if old.term().is_some() {
            all.retain(|listener| listener.send(News::NotLeader(None)).is_ok());
        }
        if let Some(hold) = gained {
            all.retain(|listener| listener.send(News::IsLeader(hold.clone())).is_ok());
        }
    }

    /// As `publish` of a state without leadership; resolves when every listener that had to hear of it has returned.
    pub(super) fn publish_and_wait(
        &self,
        state: &watch::Sender<LatchState>,
        new: LatchState,
    ) -> BoxFuture<'static, ()> {
        let mut all = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let old = state.send_replace(new);
        let mut heard = Vec::new();
        if old.term().is_some() {
            all.retain(|listener| {
                let (done, returned) = oneshot::channel();
                heard.push(returned);
                listener.send(News::NotLeader(Some(done))).is_ok()
            });
        }
        Box::pin(async move {
            for returned in heard {
                // Dropped when the listener has returned, or is gone.
                let _ = returned.await;
            }
        })
    }

    /// Lets all listeners go.
    pub(super) fn clear(&self) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

struct Follower<L>(L);

impl<L: LeaderLatchListener> Hearer<News> for Follower<L> {
    async fn hear(&self, news: News) {
        match news {
            News::IsLeader(hold) => self.0.is_leader(Leadership::new(hold)).await,
            News::NotLeader(done) => {
                self.0.not_leader().await;
                drop(done);
            }
        }
    }
}
