//! The share of a member, and how far its listeners have applied it.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::{Notify, watch};

use super::member::limiter::Limited;
use crate::client::lease::Grant;
use crate::client::session::Session;
use crate::layout::throughput_balancer::Decision;
use crate::metrics::Level;
use crate::util::mutex::{Mutex, MutexGuard, RwLock};

/// Sets what a member applies when it is no longer certain of its share, because the connection is in doubt
/// ([`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard)) or the lease is over. The default is
/// [`Zero`](OnSuspended::Zero).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnSuspended {
    /// Applies nothing. The default, and the only choice that adds no exception to [what the balancer
    /// guarantees](super#never-more-than-the-maximum).
    #[default]
    Zero,
    /// Applies its last share. Once the session of a member that is cut off is over, the others get that share. For as
    /// long as the outage lasts, all members together may exceed the maximum by the share of each such member.
    Keep,
    /// Applies at most this much, and no more than its last share. Nothing is reserved for this: once the session of a
    /// member that is cut off is over, the others get its share. For as long as the outage lasts, all members together
    /// may exceed the maximum by this much for each such member.
    AtMost(u64),
}

/// The share of a member.
///
/// A share compares the clock and later shares at each call: [`throughput`](Self::throughput) returns what may be
/// applied at that moment. If you keep a share, it never grants more than at first, and less as soon as the member has
/// less.
///
/// ```no_run
/// # fn example(
/// #     member: &zookeeper_recipes::throughput_balancer::ThroughputBalancer,
/// # ) {
/// let share = member.share().get();
/// if share.is_current() && share.throughput() > 0 {
///     println!("leader {} gave {}", share.epoch(), share.throughput());
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct Share {
    worth: Worth,
    decision: Decision,
    /// Counts the published shares.
    pub(super) number: u64,
    /// The newest share of the member.
    newest: Arc<RwLock<Worth>>,
}

/// A number, and what backs it.
#[derive(Clone)]
struct Worth {
    throughput: u64,
    backing: Backing,
    policy: OnSuspended,
}

/// What backs a share.
#[derive(Clone)]
enum Backing {
    /// A session and its lease, which may be over by now.
    Lease(Arc<Session>, Grant),
    /// There is no session yet, or it is gone or in doubt, or the node was deleted.
    Over,
    /// The member has left.
    Left,
}

impl Worth {
    fn now(&self) -> u64 {
        match &self.backing {
            Backing::Lease(..) if self.backing.is_valid() => self.throughput,
            Backing::Lease(..) | Backing::Over => self.without_lease(),
            Backing::Left => 0,
        }
    }

    fn without_lease(&self) -> u64 {
        match self.policy {
            OnSuspended::Zero => 0,
            OnSuspended::Keep => self.throughput,
            OnSuspended::AtMost(most) => most.min(self.throughput),
        }
    }
}

impl Backing {
    fn is_valid(&self) -> bool {
        matches!(self, Backing::Lease(session, grant) if session.lease().is_valid(*grant))
    }
}

impl Share {
    /// Returns what may be applied at this instant. Call it at each use: each call compares the clock and the newest
    /// share of the member.
    pub fn throughput(&self) -> u64 {
        let newest = self.newest.read().now();
        newest.min(self.worth.now())
    }

    /// Returns whether the session that carries this share is known to be alive at this instant.
    ///
    /// If it is not, [`OnSuspended`] decides what is applied. Before the first registration and after leaving, nothing
    /// is applied. To wait for the first decision of a leader:
    /// `share().wait_for(|share| share.is_current() && share.epoch() > 0)`.
    pub fn is_current(&self) -> bool {
        self.worth.backing.is_valid()
    }

    /// Returns the epoch of the leader that gave the share: the id of the transaction that took over. It grows with
    /// each change of leader and is 0 before the first decision.
    pub fn epoch(&self) -> i64 {
        self.decision.epoch
    }

    /// Returns the number of the decision. Each leader counts its own.
    pub fn sequence(&self) -> u64 {
        self.decision.sequence
    }

    /// Returns whether the member has left, so that no other share follows.
    pub(super) fn is_last(&self) -> bool {
        matches!(self.backing(), Backing::Left)
    }

    fn backing(&self) -> &Backing {
        &self.worth.backing
    }

    /// Returns a function that returns, at each call, what may be applied then.
    fn follower(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let share = self.clone();
        move || share.throughput()
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share")
            .field("throughput", &self.throughput())
            .field("epoch", &self.epoch())
            .field("sequence", &self.sequence())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Share {
    /// Shows what may be applied at this instant.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let current = if self.is_current() { "" } else { ", not current" };
        write!(f, "{} (epoch {}, sequence {}{current})", self.throughput(), self.epoch(), self.sequence())
    }
}

/// Serializes the share as it is at this instant: `throughput`, `is_current`, `epoch` and `sequence`.
#[cfg(feature = "serde")]
impl serde::Serialize for Share {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let mut share = serializer.serialize_struct("Share", 4)?;
        share.serialize_field("throughput", &self.throughput())?;
        share.serialize_field("is_current", &self.is_current())?;
        share.serialize_field("epoch", &self.epoch())?;
        share.serialize_field("sequence", &self.sequence())?;
        share.end()
    }
}

/// Publishes the shares of one member.
#[derive(Debug)]
pub(super) struct Channel {
    shares: watch::Sender<Share>,
    followers: Arc<Followers>,
    /// Follows each share before it is visible, and thus before it can be acknowledged.
    limited: Limited,
    measured: Level,
}

impl Channel {
    /// Until its first share, the member applies nothing.
    pub(super) fn new(policy: OnSuspended, limited: Limited, measured: Level) -> Self {
        let worth = Worth { throughput: 0, backing: Backing::Over, policy };
        let newest = Arc::new(RwLock::new(worth.clone()));
        let start = Share { worth, decision: Decision::default(), number: 0, newest };
        limited.follow(start.follower());
        measured.set(start.throughput() as f64);
        Channel { shares: watch::Sender::new(start), followers: Arc::default(), limited, measured }
    }

    /// Publishes a share for as long as the grant is valid.
    pub(super) fn publish(&self, throughput: u64, decision: Decision, session: &Arc<Session>, grant: Grant) {
        self.send(|_| Some((throughput, decision, Backing::Lease(Arc::clone(session), grant))));
    }

    /// Publishes the share in the node, once, while the lease is not proven.
    pub(super) fn publish_unproven(&self, throughput: u64, decision: Decision) {
        self.send(|latest| {
            let is_published = latest.decision == decision && matches!(latest.backing(), Backing::Over);
            (!is_published).then_some((throughput, decision, Backing::Over))
        });
    }

    /// Publishes, once, that the lease is over or in doubt.
    pub(super) fn suspend(&self) {
        self.send(|latest| {
            let has_lease = matches!(latest.backing(), Backing::Lease(..));
            has_lease.then_some((latest.worth.throughput, latest.decision, Backing::Over))
        });
    }

    /// Publishes zero, once. No share is published after it.
    pub(super) fn leave(&self) {
        self.send(|latest| Some((latest.worth.throughput, latest.decision, Backing::Left)));
    }

    /// Publishes what `next` returns for the latest share, if anything.
    fn send(&self, next: impl FnOnce(&Share) -> Option<(u64, Decision, Backing)>) {
        let sent = self.shares.send_if_modified(|latest| {
            if latest.is_last() {
                return false;
            }
            let Some((throughput, decision, backing)) = next(latest) else { return false };
            latest.worth = Worth { throughput, backing, ..latest.worth };
            (latest.decision, latest.number) = (decision, latest.number + 1);
            // Older shares drop with it, and the limiter follows, before it can be acknowledged.
            *latest.newest.write() = latest.worth.clone();
            match latest.backing() {
                Backing::Left => self.limited.release_limiter(),
                _ => self.limited.follow(latest.follower()),
            }
            true
        });
        if sent {
            // Outside the lock: the recorder is user code, which may read the share.
            self.measured.set(self.latest().throughput() as f64);
        }
    }

    pub(super) fn latest(&self) -> Share {
        self.shares.borrow().clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Share> {
        self.shares.subscribe()
    }

    /// Resolves when all listeners have applied what was published before this call.
    pub(super) async fn applied(&self) {
        let number = self.latest().number;
        self.followers.reach(|applied| applied.is_none_or(|(applied, _)| applied >= number).then_some(())).await;
    }

    /// Resolves when all listeners have applied a decision after `acked`, and returns the newest that all have applied.
    pub(super) async fn followed_after(&self, acked: Decision) -> Decision {
        let newest = || self.shares.borrow().decision;
        let followed = |applied: Option<Applied>| Some(applied.map_or_else(newest, |(_, decision)| decision));
        self.followers.reach(|applied| followed(applied).filter(|decision| *decision > acked)).await
    }

    /// See [`Shares`].
    pub(super) fn stream(&self) -> Shares {
        Shares { shares: self.read(None) }
    }

    /// Returns the shares for a listener: an acknowledgement waits until the listener asks for the next one.
    pub(super) fn followed(&self) -> BoxStream<'static, Share> {
        self.read(Some(self.followers.join()))
    }

    fn read(&self, follower: Option<Follower>) -> BoxStream<'static, Share> {
        let reading = Reading { shares: self.subscribe(), follower, last: None };
        futures::stream::unfold(reading, Reading::next).boxed()
    }
}

/// Belongs to the handle of a member, or to the call that joins. Dropping it ends the share at once.
#[derive(Debug)]
pub(super) struct Interest(pub(super) Arc<Channel>);

impl std::ops::Deref for Interest {
    type Target = Channel;

    fn deref(&self) -> &Channel {
        &self.0
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The reader of a stream.
struct Reading {
    shares: watch::Receiver<Share>,
    follower: Option<Follower>,
    /// The share that it was given last, if any.
    last: Option<Applied>,
}

impl Reading {
    async fn next(mut self) -> Option<(Share, Self)> {
        match self.last {
            Some(last) => {
                // Asking for the next share confirms that this one is applied.
                self.has_applied(last);
                let left = self.shares.borrow().is_last();
                if (left && !self.shares.has_changed().unwrap_or(false)) || self.shares.changed().await.is_err() {
                    return None;
                }
            }
            // From here on acknowledgements wait for this reader.
            None => self.has_applied(Applied::default()),
        }
        let share = self.shares.borrow_and_update().clone();
        let given = (share.number, share.decision);
        if self.last.is_none() {
            // It has applied no share before its first one.
            self.has_applied(given);
        }
        self.last = Some(given);
        Some((share, self))
    }

    fn has_applied(&self, applied: Applied) {
        if let Some(follower) = &self.follower {
            follower.has_applied(applied);
        }
    }
}

/// The shares of a member: the current one, then every change. If several changes are pending, it returns only the
/// newest. It ends after the zero that is published when the member leaves.
///
/// The stream is for observing. No acknowledgement waits for its reader, which calls [`Share::throughput`] of the
/// latest share at each use. A reader that keeps the number and enforces it later uses
/// [`on_share`](super::ThroughputBalancer::on_share) instead.
pub struct Shares {
    shares: BoxStream<'static, Share>,
}

impl futures::Stream for Shares {
    type Item = Share;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Share>> {
        self.shares.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}

/// The number of a share, and its decision.
type Applied = (u64, Decision);

/// The listeners for which acknowledgements wait.
#[derive(Debug, Default)]
struct Followers {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    joined: u64,
    /// What each listener has applied; `None` for a listener that has not received a share yet.
    applied: BTreeMap<u64, Option<Applied>>,
}

impl Followers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn join(self: &Arc<Self>) -> Follower {
        let mut state = self.lock();
        state.joined += 1;
        let id = state.joined;
        state.applied.insert(id, None);
        Follower { id, all: Arc::clone(self) }
    }

    /// Waits until `reached` returns something. Its argument is what all listeners have applied: `None` if there is no
    /// listener to wait for.
    async fn reach<T>(&self, reached: impl Fn(Option<Applied>) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            let applied = self.lock().applied.values().filter_map(|applied| *applied).min();
            if let Some(reached) = reached(applied) {
                return reached;
            }
            changed.await;
        }
    }
}

/// One listener. Once it is dropped, no acknowledgement waits for it.
#[derive(Debug)]
struct Follower {
    id: u64,
    all: Arc<Followers>,
}

impl Follower {
    fn has_applied(&self, applied: Applied) {
        self.all.lock().applied.insert(self.id, Some(applied));
        self.all.changed.notify_waiters();
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.all.lock().applied.remove(&self.id);
        self.all.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
