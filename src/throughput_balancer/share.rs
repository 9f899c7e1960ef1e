//! A member's share, and what of it those who enforce it have applied.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll};

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::{Notify, watch};

use super::member::limiter::Limited;
use super::record::Decision;
use crate::client::lease::Grant;
use crate::client::session::Session;

/// What a member applies when it is no longer certain of its share: the connection is in doubt
/// ([`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard)), or its lease is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnSuspended {
    /// Nothing: the only one that adds no exception to [what the balancer promises](super#never-more-than-the-maximum).
    #[default]
    Zero,
    /// What it had. Once the session of a member that is cut off is over, the others are given its share, and together they may
    /// exceed the maximum by that share for each such member, for as long as the outage lasts.
    Keep,
    /// At most this much, and no more than it had. Nothing is reserved for it: once the session of a member that is cut off is
    /// over, the others are given its share, and together they may exceed the maximum by this much for each such member, for
    /// as long as the outage lasts.
    AtMost(u64),
}

/// A member's share. It goes on heeding the clock and what came after it: [`throughput`](Self::throughput) is what may be
/// applied when it is asked. One that is kept grants at most what it was given as, and less as soon as the member has less.
#[derive(Clone)]
pub struct Share {
    worth: Worth,
    decision: Decision,
    /// Counts what was published.
    pub(super) number: u64,
    /// What the member has by now.
    newest: Arc<RwLock<Worth>>,
}

/// A number, and what it rests on.
#[derive(Clone)]
struct Worth {
    throughput: u64,
    backing: Backing,
    policy: OnSuspended,
}

/// What a share rests on.
#[derive(Clone)]
enum Backing {
    /// Nothing was ever promised: what the member began with is applied.
    Start,
    /// A session that lives, as far as this goes.
    Lease(Arc<Session>, Grant),
    /// The session is gone, or in doubt, or the node was deleted.
    Over,
    /// The member has left.
    Left,
}

impl Worth {
    fn now(&self) -> u64 {
        match &self.backing {
            Backing::Start => self.throughput,
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
    /// What may be applied at this instant: compares the clock, and what the member has been given since, at each call. Ask
    /// whenever it is used.
    pub fn throughput(&self) -> u64 {
        let newest = self.newest.read().unwrap_or_else(PoisonError::into_inner).now();
        newest.min(self.worth.now())
    }

    /// Whether the session that carries this share is known to live at this instant. If not, [`OnSuspended`] decides; before the
    /// first registration it is [`initial`](super::ThroughputBalancerBuilder::initial) that is applied, after leaving nothing.
    /// To wait for the first decision of a leader: `share().wait_for(|share| share.is_current() && share.epoch() > 0)`.
    pub fn is_current(&self) -> bool {
        self.worth.backing.is_valid()
    }

    /// Which leader gave it: the transaction by which it took over. Grows with every change of leader; 0 before the first
    /// decision.
    pub fn epoch(&self) -> i64 {
        self.decision.epoch
    }

    /// The number of the decision, counted by that leader.
    pub fn sequence(&self) -> u64 {
        self.decision.sequence
    }

    fn backing(&self) -> &Backing {
        &self.worth.backing
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

/// Publishes the shares of one member.
#[derive(Debug)]
pub(super) struct Channel {
    shares: watch::Sender<Share>,
    followers: Arc<Followers>,
    /// Follows each share before it can be seen, let alone acknowledged.
    limited: Limited,
}

impl Channel {
    /// `initial` is what the member applies until its first share.
    pub(super) fn new(initial: u64, policy: OnSuspended, limited: Limited) -> Self {
        let worth = Worth { throughput: initial, backing: Backing::Start, policy };
        let newest = Arc::new(RwLock::new(worth.clone()));
        let start = Share { worth, decision: Decision::default(), number: 0, newest };
        limited.follow(&start);
        Channel { shares: watch::Sender::new(start), followers: Arc::default(), limited }
    }

    /// Publishes a share for as long as the grant is good.
    pub(super) fn publish(&self, throughput: u64, decision: Decision, session: &Arc<Session>, grant: Grant) {
        self.send(|_| Some((throughput, decision, Backing::Lease(Arc::clone(session), grant))));
    }

    /// What the node says, while the lease is not proven. Told once.
    pub(super) fn doubt(&self, throughput: u64, decision: Decision) {
        self.send(|latest| {
            let is_told = latest.decision == decision && matches!(latest.backing(), Backing::Over);
            (!is_told).then_some((throughput, decision, Backing::Over))
        });
    }

    /// The lease is over, or in doubt. Told once.
    pub(super) fn suspend(&self) {
        self.send(|latest| {
            let has_lease = matches!(latest.backing(), Backing::Lease(..));
            has_lease.then_some((latest.worth.throughput, latest.decision, Backing::Over))
        });
    }

    /// Zero, and whatever is told from now on, there will be no more shares. Told once.
    pub(super) fn leave(&self) {
        self.send(|latest| Some((latest.worth.throughput, latest.decision, Backing::Left)));
    }

    /// Publishes what follows from the latest share, if anything does.
    fn send(&self, next: impl FnOnce(&Share) -> Option<(u64, Decision, Backing)>) {
        self.shares.send_if_modified(|latest| {
            if matches!(latest.backing(), Backing::Left) {
                return false;
            }
            let Some((throughput, decision, backing)) = next(latest) else { return false };
            latest.worth = Worth { throughput, backing, ..latest.worth };
            (latest.decision, latest.number) = (decision, latest.number + 1);
            // Those that were kept fall with it, and the limiter follows, before it can be acknowledged.
            *latest.newest.write().unwrap_or_else(PoisonError::into_inner) = latest.worth.clone();
            match latest.backing() {
                Backing::Left => self.limited.let_go(),
                _ => self.limited.follow(latest),
            }
            true
        });
    }

    pub(super) fn latest(&self) -> Share {
        self.shares.borrow().clone()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Share> {
        self.shares.subscribe()
    }

    /// Resolves when all listeners have applied what has been published by now.
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

    /// The shares for a listener: an acknowledgement waits until it asks for the next one.
    pub(super) fn followed(&self) -> BoxStream<'static, Share> {
        self.read(Some(self.followers.join()))
    }

    fn read(&self, follower: Option<Follower>) -> BoxStream<'static, Share> {
        let reading = Reading { shares: self.subscribe(), follower, last: None };
        futures::stream::unfold(reading, Reading::next).boxed()
    }
}

/// Kept by the handle of a member, and while one joins: with it the share goes, at once.
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
    /// The share that it was given last.
    last: Option<Applied>,
}

impl Reading {
    async fn next(mut self) -> Option<(Share, Self)> {
        match self.last {
            Some(last) => {
                // Asking for the next one says that this one is applied.
                self.has_applied(last);
                let left = matches!(self.shares.borrow().backing(), Backing::Left);
                if (left && !self.shares.has_changed().unwrap_or(false)) || self.shares.changed().await.is_err() {
                    return None;
                }
            }
            // From here on what is published waits for this reader.
            None => self.has_applied(Applied::default()),
        }
        let share = self.shares.borrow_and_update().clone();
        let given = (share.number, share.decision);
        if self.last.is_none() {
            // Before its first share it has applied none.
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

/// The shares of a member: the present one, then every change; of several at once only the newest. It ends after the zero with
/// which the member leaves.
///
/// It is there to be looked at: nothing waits for its reader, who asks [`Share::throughput`] of the latest share whenever it is
/// used. A reader that keeps the number instead, and enforces it later, uses
/// [`on_share`](super::ThroughputBalancer::on_share).
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

/// The listeners, for which an acknowledgement waits.
#[derive(Debug, Default)]
struct Followers {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    joined: u64,
    /// What each has applied; none for those that were given nothing yet.
    applied: BTreeMap<u64, Option<Applied>>,
}

impl Followers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>) -> Follower {
        let mut state = self.lock();
        state.joined += 1;
        let id = state.joined;
        state.applied.insert(id, None);
        Follower { id, all: Arc::clone(self) }
    }

    /// Waits until `reached` says something of what all have applied; that is none if there is no listener to wait for.
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

/// One of them; when it is dropped nothing waits for it any more.
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

/// Is told every share, one after the other, on a task of its own: closures `Fn(Share) -> Future` are listeners. A lowered
/// share is acknowledged when the call has returned.
pub trait ShareListener: Send + Sync + 'static {
    /// The share, or what it rests on, is another one now. Ask [`Share::throughput`] for what it is worth whenever it is used.
    fn share_changed(&self, share: Share) -> impl Future<Output = ()> + Send;
}

impl<F, Fut> ShareListener for F
where
    F: Fn(Share) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    fn share_changed(&self, share: Share) -> impl Future<Output = ()> + Send {
        self(share)
    }
}

pub(super) struct Hearer<L>(pub(super) L);

impl<L: ShareListener> crate::client::listener::Hearer<Share> for Hearer<L> {
    fn hear(&self, share: Share) -> impl Future<Output = ()> + Send {
        self.0.share_changed(share)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn decision(sequence: u64) -> Decision {
        Decision { epoch: 1, sequence }
    }

    fn start(initial: u64, policy: OnSuspended) -> Channel {
        Channel::new(initial, policy, Limited::default())
    }

    #[test]
    fn a_share_is_applied_when_the_listener_asks_for_the_next() {
        let channel = start(7, OnSuspended::Zero);
        assert!(channel.applied().now_or_never().is_some(), "nobody follows");
        let mut idle = channel.followed();
        let mut shares = channel.followed();
        assert_eq!(shares.next().now_or_never().flatten().map(|share| share.throughput()), Some(7));
        channel.leave();
        assert!(channel.applied().now_or_never().is_none());
        assert_eq!(shares.next().now_or_never().flatten().map(|share| share.throughput()), Some(0));
        assert!(channel.applied().now_or_never().is_none(), "it has it in hand only");
        assert!(shares.next().now_or_never().is_some_and(|end| end.is_none()));
        assert!(channel.applied().now_or_never().is_some());
        assert_eq!(idle.next().now_or_never().flatten().map(|share| share.throughput()), Some(0));
    }

    #[test]
    fn a_listener_that_is_behind_says_how_far_it_is() {
        let channel = start(7, OnSuspended::Keep);
        let followed = |acked| channel.followed_after(decision(acked)).now_or_never();
        channel.doubt(6, decision(1));
        assert_eq!(followed(0), Some(decision(1)), "nobody applies it but those who ask");
        let mut shares = channel.followed();
        assert!(shares.next().now_or_never().is_some());
        channel.doubt(5, decision(2));
        assert_eq!((followed(0), followed(1)), (Some(decision(1)), None));
        assert!(shares.next().now_or_never().is_some());
        channel.doubt(4, decision(3));
        assert_eq!(followed(1), None, "it has the second one in hand only");
        assert!(shares.next().now_or_never().is_some());
        assert_eq!((followed(1), followed(2)), (Some(decision(2)), None));
    }

    #[test]
    fn a_share_that_was_kept_falls_with_the_newest_and_does_not_rise_with_it() {
        let channel = start(7, OnSuspended::Keep);
        let first = channel.latest();
        channel.doubt(9, decision(1));
        let second = channel.latest();
        assert_eq!((first.throughput(), second.throughput()), (7, 9));
        channel.doubt(3, decision(2));
        assert_eq!((first.throughput(), second.throughput()), (3, 3));
        channel.leave();
        assert_eq!((first.throughput(), second.throughput()), (0, 0));
    }

    #[test]
    fn neither_a_stream_nor_a_listener_that_is_gone_holds_anything_up() {
        let channel = start(0, OnSuspended::Zero);
        let (mut shares, mut listener) = (channel.stream(), channel.followed());
        assert!(shares.next().now_or_never().is_some());
        assert!(listener.next().now_or_never().is_some());
        channel.leave();
        assert!(channel.applied().now_or_never().is_none());
        drop(listener);
        assert!(channel.applied().now_or_never().is_some());
    }
}
