//! Limits a rate that can change while it is used. A change of the rate causes no burst.
//!
//! [`ShareLimiter`] grants permits at a rate of so many a second, first come first served. It is made for a share of a
//! cluster-wide maximum, which another process may change at any moment. It needs no server and can be used for any
//! other rate. A member of a throughput balancer drives it by itself (`ThroughputBalancerBuilder::limiter`).
//!
//! ```
//! use zookeeper_recipes::limiter::ShareLimiter;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = ShareLimiter::new(100); // permits a second
//! let start = tokio::time::Instant::now();
//! for _ in 0..10 {
//!     limiter.acquire(1).await?;
//! }
//! assert_eq!(start.elapsed().as_millis(), 100);
//!
//! // Takes effect at once, also for tasks that already wait.
//! limiter.set_rate(50)?;
//! limiter.acquire(1).await?;
//! assert_eq!(start.elapsed().as_millis(), 120);
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! * In any d seconds it grants at most `rate · d` permits plus, once, its capacity: the
//!   [burst](ShareLimiter::with_burst) and what the rate brings in 10 ms. Without those 10 ms the rate would never be
//!   reached, because timers tick in milliseconds and fire late on a busy machine.
//! * Permits come from time alone. A new limiter has none, and neither has one whose rate was 0. A raised rate grants
//!   nothing for the time before. What had accumulated is kept, up to the new capacity. After a lowered rate, a task
//!   that waits for the rest of a permit waits for the same rest, at the new rate.
//! * [`set_rate`](ShareLimiter::set_rate) is not async and has taken effect when it returns. Code that has to confirm a
//!   lowered share can do so then.
//! * At a rate of 0 it grants nothing. Tasks that wait are not rejected: they wait for the next rate, in their order.
//! * [`close`](ShareLimiter::close) ends it for good. Waiting and later calls return an error.
//! * While a member of a throughput balancer drives it, no other code can set its rate. A higher rate would exceed the
//!   member's share, and so the cluster's maximum, without any notice.
//!
//! # Why not an existing crate
//!
//! This is the generic cell rate algorithm (GCRA), kept in permits and not in a point of time, so that a change of the
//! rate leaves it as it is. The crate `governor` has the same algorithm for a rate that is fixed when its limiter is
//! created. Changing that rate takes a new limiter, which starts with a full burst and does not know the tasks that
//! wait.
//!
//! # Time
//!
//! Time is that of tokio: a paused clock pauses the limiter. With the feature `tower`, a `ShareLimitLayer` limits a
//! service.

mod bucket;
mod error;
#[cfg(feature = "tower")]
mod layer;

use std::fmt;
use std::sync::Arc;

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout};

use self::bucket::{Bucket, Wait};
pub use self::error::Error;
#[cfg(feature = "tower")]
pub use self::layer::{BoxError, ShareLimit, ShareLimitLayer};
use crate::util::mutex::{Mutex, MutexGuard};

/// Grants permits at a rate that can be changed at any time; see the [module](self).
///
/// Cheap to clone; all clones are the same limiter.
///
/// ```
/// use zookeeper_recipes::limiter::ShareLimiter;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = ShareLimiter::with_burst(100, 20)?;
/// tokio::time::sleep(std::time::Duration::from_secs(1)).await;
/// limiter.acquire(20).await?; // accumulated
/// assert_eq!((limiter.rate(), limiter.burst()), (100, 20));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "RateLimiter")]
#[derive(Clone)]
pub struct ShareLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    burst: u64,
    state: Mutex<State>,
    /// One permit, held by the first task that waits; the others follow in their order. Closed with the limiter.
    front: Semaphore,
    /// Notifies the first waiting task of a new rate, or that there will be none.
    changed: Notify,
}

struct State {
    bucket: Bucket,
    /// Returns the rate whenever it is needed; `None` if the rate is as it was set.
    source: Option<Box<Source>>,
    /// Whether there are [`Reins`]; if not, the user sets the rate.
    is_driven: bool,
    /// How many tasks wait. Later calls are not served before them.
    waiting: usize,
}

type Source = dyn Fn() -> u64 + Send + Sync;

impl ShareLimiter {
    /// Returns a limiter of `rate` permits a second with a burst of 1: permits are acquired one by one.
    pub fn new(rate: u64) -> Self {
        ShareLimiter::of(rate, 1)
    }

    /// Returns a limiter of `rate` permits a second, of which up to `burst` can be acquired at once.
    ///
    /// Unused permits accumulate up to `burst` plus what the rate brings in 10 ms.
    ///
    /// # Errors
    /// [`Error::NoBurst`] if `burst` is 0: nothing could ever be acquired.
    pub fn with_burst(rate: u64, burst: u64) -> Result<Self, Error> {
        if burst == 0 {
            return Err(Error::NoBurst);
        }
        Ok(ShareLimiter::of(rate, burst))
    }

    fn of(rate: u64, burst: u64) -> Self {
        let state =
            State { bucket: Bucket::new(rate, burst, Instant::now()), source: None, is_driven: false, waiting: 0 };
        let (front, changed) = (Semaphore::new(1), Notify::new());
        ShareLimiter { shared: Arc::new(Shared { burst, state: Mutex::new(state), front, changed }) }
    }

    /// Takes `permits` as soon as they are available, after all earlier calls.
    ///
    /// Taking 0 returns at once. While the rate is 0 it waits, forever if no other rate is set.
    ///
    /// # Errors
    /// [`Error::TooMany`], at once, if `permits` is more than the burst: that many are never available.
    /// [`Error::Closed`] once the limiter is [closed](Self::close), also while it waits, and also for 0 permits.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is taken, and later calls move up. A future that is neither polled nor dropped holds them
    /// up.
    pub async fn acquire(&self, permits: u64) -> Result<(), Error> {
        // A loop over permits that are available must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        if self.try_acquire(permits)? {
            return Ok(());
        }
        let waiting = Waiting::new(&self.shared);
        let _front = self.shared.front.acquire().await.map_err(|_| Error::Closed)?;
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed, not even one before the wait.
            changed.as_mut().enable();
            let wait = match self.shared.open()?.take(permits) {
                Ok(()) => break,
                Err(wait) => wait,
            };
            match wait {
                // Whichever comes first, the next round decides.
                Wait::For(time) => timeout(time, changed).await.unwrap_or_default(),
                Wait::ForRate => changed.await,
            }
        }
        drop(waiting);
        Ok(())
    }

    /// Takes `permits` if they are available and no other call waits for any. Returns whether it did.
    ///
    /// # Errors
    /// [`Error::TooMany`] if `permits` is more than the burst: that many are never available. [`Error::Closed`] once
    /// the limiter is [closed](Self::close).
    pub fn try_acquire(&self, permits: u64) -> Result<bool, Error> {
        let mut state = self.shared.open()?;
        let burst = self.shared.burst;
        if permits > burst {
            return Err(Error::TooMany { permits, burst });
        }
        Ok(permits == 0 || (state.waiting == 0 && state.take(permits).is_ok()))
    }

    /// Sets the rate to `rate` permits a second; at 0 all calls wait for the next rate. Has taken effect when it
    /// returns.
    ///
    /// # Errors
    /// After an error nothing has changed. [`Error::Driven`] while a member of a throughput balancer drives the
    /// limiter, until that member leaves or is dropped. [`Error::Closed`] once the limiter is [closed](Self::close).
    pub fn set_rate(&self, rate: u64) -> Result<(), Error> {
        self.shared.set(false, |state| state.fix(rate))
    }

    /// Sets the rate as [`set_rate`](Self::set_rate) does, for as long as `lease` returns true.
    ///
    /// `lease` is called each time permits are to be granted and must not use the limiter itself. While it returns
    /// false, the rate is 0 and what had accumulated is gone.
    ///
    /// Waiting calls do not notice by themselves that a lease which was over is valid again: set the rate again.
    ///
    /// # Errors
    /// As [`set_rate`](Self::set_rate).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use zookeeper_recipes::limiter::ShareLimiter;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let lease = Arc::new(AtomicBool::new(true));
    /// let limiter = ShareLimiter::new(0);
    /// let holds = Arc::clone(&lease);
    /// limiter.set_rate_while(100, move || holds.load(Ordering::SeqCst))?;
    /// limiter.acquire(1).await?;
    ///
    /// lease.store(false, Ordering::SeqCst);
    /// assert_eq!(limiter.rate(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_rate_while(&self, rate: u64, lease: impl Fn() -> bool + Send + Sync + 'static) -> Result<(), Error> {
        self.shared.set(false, |state| state.follow(move || if lease() { rate } else { 0 }))
    }

    /// Sets the rate as [`set_rate`](Self::set_rate) does, until `deadline`. From then on the rate is 0.
    ///
    /// # Errors
    /// As [`set_rate`](Self::set_rate).
    pub fn set_rate_until(&self, rate: u64, deadline: Instant) -> Result<(), Error> {
        self.set_rate_while(rate, move || Instant::now() < deadline)
    }

    /// Closes the limiter and all its clones for good, as [`Semaphore::close`](tokio::sync::Semaphore::close) does.
    ///
    /// Nothing is granted from now on, even if a member of a throughput balancer drives it. Waiting and later calls
    /// return [`Error::Closed`]. This is for shutting down; to stop for a while, set a rate of 0. Closing twice is
    /// allowed.
    ///
    /// ```
    /// use zookeeper_recipes::limiter::{Error, ShareLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let limiter = ShareLimiter::new(0);
    /// let worker = limiter.clone();
    /// let work = tokio::spawn(async move {
    ///     while worker.acquire(1).await.is_ok() {
    ///         // ... one piece of work ...
    ///     }
    /// });
    /// limiter.close();
    /// work.await.expect("it has ended by itself");
    /// assert_eq!(limiter.set_rate(100), Err(Error::Closed));
    /// # }
    /// ```
    pub fn close(&self) {
        // First, so that a call that locks the state after it finds the limiter closed.
        self.shared.front.close();
        let old = self.shared.state().fix(0);
        // As in `Shared::set`.
        drop(old);
        self.shared.changed.notify_waiters();
    }

    /// Returns whether the limiter was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared.front.is_closed()
    }

    /// Returns how many permits a second are granted: 0 also when the lease is over or the limiter is closed.
    pub fn rate(&self) -> u64 {
        self.shared.state().rate()
    }

    /// Returns how many permits can be acquired at once.
    pub fn burst(&self) -> u64 {
        self.shared.burst
    }

    /// Returns the right to set the rate from now on, unless it is taken or the limiter is closed.
    #[cfg(feature = "throughput-balancer")]
    pub(crate) fn reins(&self) -> Result<Reins, Error> {
        let mut state = self.shared.open()?;
        if std::mem::replace(&mut state.is_driven, true) {
            return Err(Error::Driven);
        }
        Ok(Reins { limiter: self.clone() })
    }
}

/// The exclusive right to set the rate of a limiter.
#[cfg(feature = "throughput-balancer")]
#[derive(Debug)]
pub(crate) struct Reins {
    limiter: ShareLimiter,
}

#[cfg(feature = "throughput-balancer")]
impl Reins {
    /// Makes the rate what `source` returns whenever it is needed. It may fall by itself but not rise, because waiting
    /// calls would not notice; and it must not use the limiter.
    pub(crate) fn follow(&self, source: impl Fn() -> u64 + Send + Sync + 'static) {
        // Refused if the limiter is closed, which grants nothing.
        let _ = self.limiter.shared.set(true, |state| state.follow(source));
    }
}

/// Dropping the reins sets the rate to 0 until the user sets another one.
#[cfg(feature = "throughput-balancer")]
impl Drop for Reins {
    fn drop(&mut self) {
        let mut state = self.limiter.shared.state();
        state.is_driven = false;
        let old = state.fix(0);
        drop(state);
        // As in `Shared::set`.
        drop(old);
    }
}

impl fmt::Debug for ShareLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareLimiter").field("rate", &self.rate()).field("burst", &self.burst()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Locks the state. A lease that panics leaves it as it was.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Locks the state, unless the limiter is closed. This is checked under the lock, which [`ShareLimiter::close`]
    /// takes too: once it has returned, no call is about to grant any more.
    fn open(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state();
        if self.front.is_closed() { Err(Error::Closed) } else { Ok(state) }
    }

    /// Changes the rate for the user or the driver, whichever has the right. What has accumulated until now comes from
    /// the old rate. `change` returns what is no longer used.
    fn set(&self, by_driver: bool, change: impl FnOnce(&mut State) -> Option<Box<Source>>) -> Result<(), Error> {
        let mut state = self.open()?;
        if state.is_driven != by_driver {
            return Err(Error::Driven);
        }
        state.pass();
        let old = change(&mut state);
        drop(state);
        // Dropping a user's source may run any code, so it happens outside the lock.
        drop(old);
        self.changed.notify_waiters();
        Ok(())
    }
}

impl State {
    fn rate(&self) -> u64 {
        self.source.as_ref().map_or(self.bucket.rate(), |source| source())
    }

    /// Sets a fixed rate. Returns the source of the rate until now, if it had one.
    fn fix(&mut self, rate: u64) -> Option<Box<Source>> {
        self.bucket.set_rate(rate);
        self.source.take()
    }

    /// Returns the source of the rate until now, if it had one.
    fn follow(&mut self, source: impl Fn() -> u64 + Send + Sync + 'static) -> Option<Box<Source>> {
        let old = self.source.replace(Box::new(source));
        self.pass();
        old
    }

    /// Fills the bucket up to now. When the rate fell in the meantime, the moment is unknown: all that accumulated
    /// since counts at the lower rate.
    fn pass(&mut self) {
        let (rate, now) = (self.rate(), Instant::now());
        if rate < self.bucket.rate() {
            self.bucket.set_rate(rate);
        }
        self.bucket.fill(now);
        self.bucket.set_rate(rate);
    }

    fn take(&mut self, permits: u64) -> Result<(), Wait> {
        self.pass();
        self.bucket.take(permits)
    }
}

/// Counts a waiting call until it is dropped.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.state().waiting += 1;
        Waiting(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}
