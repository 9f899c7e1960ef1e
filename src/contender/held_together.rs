//! Several holds with one guard: of several locks, or of several permits.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, join_all, select_all};

use super::held::Held;
use crate::client::{Error, Fence};
use crate::util::wait::run_while_held;

/// At least one hold, in the order in which they were acquired. A drop releases all of them, the last one first.
#[derive(Debug)]
pub(crate) struct HeldTogether(Vec<Held>);

/// Why a release failed, and the path of the recipe's instance.
pub(crate) enum NotReleased {
    /// One of them was lost before.
    Lost(Arc<str>),
    /// A node may not be deleted yet.
    Failed(Arc<str>, Error),
}

impl HeldTogether {
    pub(crate) fn new(held: Vec<Held>) -> Self {
        HeldTogether(held)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Held> {
        self.0.iter()
    }

    /// Returns whether all are still held.
    pub(crate) fn is_held(&self) -> bool {
        self.0.iter().all(Held::is_held)
    }

    /// Waits until one is lost. From the first call on the nodes are watched.
    pub(crate) async fn lost(&self) {
        self.watch();
        self.one_lost().await;
    }

    /// Runs `work` while all are held. Returns `None` if one is lost first; then `work` is not polled again.
    pub(crate) async fn run<F: Future>(&self, work: F) -> Option<F::Output> {
        self.watch();
        run_while_held(|| self.is_held(), self.one_lost(), work).await
    }

    /// Resolves with true when another client asks for one of them, and with false when one is lost.
    pub(crate) async fn revoked(&self) -> bool {
        self.watch();
        let requests: Vec<BoxFuture<'_, bool>> = self.0.iter().map(|one| one.hold.revoked().boxed()).collect();
        tokio::select! {
            biased;
            () = self.one_lost() => false,
            (asked, ..) = select_all(requests) => asked,
        }
    }

    /// Returns a fence that is refused once the node of one of them is gone.
    pub(crate) fn fence(&self) -> Fence {
        Fence::of_all(self.0.iter().map(|one| one.hold.fence()))
    }

    /// Returns the paths of the nodes as the client names them.
    pub(crate) fn node_paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(Held::node_path)
    }

    /// Releases all, the last one first, and returns when the server has deleted the nodes. The deletes are sent
    /// together.
    pub(crate) async fn release(mut self) -> Result<(), NotReleased> {
        let lost = self.0.iter().find(|one| !one.is_held()).map(|one| Arc::clone(&one.path));
        let releases: Vec<_> = std::mem::take(&mut self.0).into_iter().rev().map(release).collect();
        let released = join_all(releases).await;
        // Even if a node could not be deleted: the janitor reports that, and only this call reports the loss.
        match lost {
            Some(path) => Err(NotReleased::Lost(path)),
            None => released.into_iter().collect(),
        }
    }

    fn watch(&self) {
        for one in &self.0 {
            one.watch();
        }
    }

    async fn one_lost(&self) {
        let losses: Vec<BoxFuture<'_, ()>> = self.0.iter().map(|one| one.hold.lost().boxed()).collect();
        select_all(losses).await;
    }
}

async fn release(one: Held) -> Result<(), NotReleased> {
    let path = Arc::clone(&one.path);
    one.release().await.map_err(|error| NotReleased::Failed(path, error))
}

/// Hands over the deletes, the last one first.
impl Drop for HeldTogether {
    fn drop(&mut self) {
        while let Some(last) = self.0.pop() {
            drop(last);
        }
    }
}
