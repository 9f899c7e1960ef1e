//! A member's share, and how those who follow it say that they do.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll};

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::{Notify, watch};

use super::limited::Limited;
use super::record::Stamp;
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
    /// What it had. Others are given this share once the member's session is over, so together they may exceed the maximum
    /// for as long as the outage lasts.
    Keep,
    /// So much, or what it had if that is less. For one session timeout after the member's nodes went, for whatever reason, the
    /// leader gives it to nobody; an outage that lasts longer, or a change of leader in that time, may let all together exceed
    /// the maximum by it.
    Fallback(u64),
}

/// A member's share. It goes on heeding the clock and what came after it: [`throughput`](Self::throughput) is what may be
/// applied when it is asked. One that is kept grants at most what it was given as, and less as soon as the member has less.
#[derive(Clone)]
pub struct Share {
    worth: Worth,
    stamp: Stamp,
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
            OnSuspended::Fallback(fallback) => fallback.min(self.throughput),
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
        self.stamp.epoch
    }

    /// The number of the decision, counted by that leader.
    pub fn sequence(&self) -> u64 {
        self.stamp.sequence
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
    /// Follows each share before anybody else can see it, let alone acknowledge it.
    limited: Limited,
}

impl Channel {
    /// `initial` is what the member applies until its first share.
    pub(super) fn new(initial: u64, policy: OnSuspended, limited: Limited) -> Self {
        let worth = Worth { throughput: initial, backing: Backing::Start, policy };
        let newest = Arc::new(RwLock::new(worth.clone()));
        let start = Share { worth, stamp: Stamp::default(), number: 0, newest };
        limited.follow(&start);
        Channel { shares: watch::Sender::new(start), followers: Arc::default(), limited }
    }

    /// Publishes a share for as long as the grant is good.
    pub(super) fn publish(&self, throughput: u64, stamp: Stamp, session: &Arc<Session>, grant: Grant) {
        self.send(|_| Some((throughput, stamp, Backing::Lease(Arc::clone(session), grant))));
    }

    /// What the node says, while the lease is not proven. Told once.
    pub(super) fn doubt(&self, throughput: u64, stamp: Stamp) {
        self.send(|latest| {
            let is_told = latest.stamp == stamp && matches!(latest.backing(), Backing::Over);
            (!is_told).then_some((throughput, stamp, Backing::Over))
        });
    }

    /// The lease is over, or in doubt. Told once.
    pub(super) fn suspend(&self) {
        self.send(|latest| {
            let has_lease = matches!(latest.backing(), Backing::Lease(..));
            has_lease.then_some((latest.worth.throughput, latest.stamp, Backing::Over))
        });
    }

    /// Zero, and whatever is told from now on, there will be no more shares. Told once.
    pub(super) fn leave(&self) {
        self.send(|latest| Some((latest.worth.throughput, latest.stamp, Backing::Left)));
    }

    /// Publishes what follows from the latest share, if anything does.
    fn send(&self, next: impl FnOnce(&Share) -> Option<(u64, Stamp, Backing)>) {
        self.shares.send_if_modified(|latest| {
            if matches!(latest.backing(), Backing::Left) {
                return false;
            }
            let Some((throughput, stamp, backing)) = next(latest) else { return false };
            latest.worth = Worth { throughput, backing, ..latest.worth };
            (latest.stamp, latest.number) = (stamp, latest.number + 1);
            // Those that were kept fall with it, and the limiter follows, before anybody can acknowledge it.
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

    /// Resolves when all who follow have applied what has been published by now.
    pub(super) async fn applied(&self) {
        let number = self.latest().number;
        loop {
            let changed = self.followers.changed.notified();
            if self.followers.applied() >= number {
                return;
            }
            changed.await;
        }
    }

    /// See [`Shares`].
    pub(super) fn stream(&self) -> Shares {
        let reading = Reading { shares: self.subscribe(), follower: self.followers.join(), last: None };
        let shares = futures::stream::unfold(reading, |mut reading| async move {
            if let Some(number) = reading.last {
                // Asking for the next one says that this one is applied.
                reading.follower.has_applied(number);
                let left = matches!(reading.shares.borrow().backing(), Backing::Left);
                if (left && !reading.shares.has_changed().unwrap_or(false)) || reading.shares.changed().await.is_err() {
                    return None;
                }
            }
            if reading.last.is_none() {
                // From here on what is published waits for this reader.
                reading.follower.has_applied(0);
            }
            let share = reading.shares.borrow_and_update().clone();
            if reading.last.is_none() {
                // Whoever reads its first share has applied none before.
                reading.follower.has_applied(share.number);
            }
            reading.last = Some(share.number);
            Some((share, reading))
        });
        Shares { shares: shares.boxed() }
    }
}

/// The interest of whoever is, or wants to be, a member: with it the share goes, at once.
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
    follower: Follower,
    /// The number of the share it was given last.
    last: Option<u64>,
}

/// The shares of a member: the present one, then every change; of several at once only the newest. Asking for the next one
/// tells the leader that the one before is applied, so a lowered share counts as soon as this stream is polled again. Keep
/// polling it, or drop it. It ends after the zero with which the member leaves.
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

/// Those whose word an acknowledgement waits for.
#[derive(Debug, Default)]
struct Followers {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    joined: u64,
    /// What each has applied; those that were given nothing yet hold up nothing.
    applied: BTreeMap<u64, u64>,
}

impl Followers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(self: &Arc<Self>) -> Follower {
        let mut state = self.lock();
        state.joined += 1;
        let id = state.joined;
        state.applied.insert(id, u64::MAX);
        Follower { id, all: Arc::clone(self) }
    }

    fn applied(&self) -> u64 {
        self.lock().applied.values().copied().min().unwrap_or(u64::MAX)
    }
}

/// One of them; with it goes its say.
#[derive(Debug)]
struct Follower {
    id: u64,
    all: Arc<Followers>,
}

impl Follower {
    fn has_applied(&self, number: u64) {
        self.all.lock().applied.insert(self.id, number);
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
    /// The share is another one now. Ask [`Share::throughput`] for what it is worth whenever it is used.
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

    #[test]
    fn a_share_is_applied_when_the_reader_asks_for_the_next() {
        let channel = Channel::new(7, OnSuspended::Zero, Limited::default());
        assert!(channel.applied().now_or_never().is_some(), "nobody follows");
        let mut idle = channel.stream();
        let mut shares = channel.stream();
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
    fn a_share_that_was_kept_falls_with_the_newest_and_does_not_rise_with_it() {
        let channel = Channel::new(7, OnSuspended::Keep, Limited::default());
        let first = channel.latest();
        channel.doubt(9, Stamp { epoch: 1, sequence: 1 });
        let second = channel.latest();
        assert_eq!((first.throughput(), second.throughput()), (7, 9));
        channel.doubt(3, Stamp { epoch: 1, sequence: 2 });
        assert_eq!((first.throughput(), second.throughput()), (3, 3));
        channel.leave();
        assert_eq!((first.throughput(), second.throughput()), (0, 0));
    }

    #[test]
    fn a_reader_that_goes_holds_up_nobody() {
        let channel = Channel::new(0, OnSuspended::Zero, Limited::default());
        let mut shares = channel.stream();
        assert!(shares.next().now_or_never().is_some());
        channel.leave();
        assert!(channel.applied().now_or_never().is_none());
        drop(shares);
        assert!(channel.applied().now_or_never().is_some());
    }
}
