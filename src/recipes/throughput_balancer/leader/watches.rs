//! The watches of the leader.

use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;

use crate::engine::Watch;

/// How long changes are collected before members are listed, because members join and acknowledge in bunches.
const COLLECT: Duration = Duration::from_millis(10);

/// The leader's watches. Each is `None` once it has fired: then there is something to read.
#[derive(Default)]
pub(super) struct Watches {
    pub(super) maximum: Option<Watch>,
    pub(super) members: Option<Watch>,
    pub(super) acks: Option<Watch>,
}

impl Watches {
    /// Waits for a change. Everything that has changed by then is read together, so no kind of change delays another.
    pub(super) async fn changed(&mut self) {
        self.fired().await;
        if self.maximum.is_some() {
            tokio::time::sleep(COLLECT).await;
            self.fired().now_or_never();
        }
    }

    /// Resolves when a watch has fired, and removes all watches that have fired.
    pub(super) async fn fired(&mut self) {
        std::future::poll_fn(|cx| {
            let mut any = Poll::Pending;
            for watch in [&mut self.maximum, &mut self.members, &mut self.acks] {
                if watch.as_mut().is_some_and(|watch| watch.poll_unpin(cx).is_ready()) {
                    *watch = None;
                    any = Poll::Ready(());
                }
            }
            any
        })
        .await;
    }
}
