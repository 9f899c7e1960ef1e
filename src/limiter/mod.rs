//! A rate limiter for a share that changes: a rate that can be set while it is used, and whose change causes no burst.
//!
//! [`ShareLimiter`] grants permits at a rate of so many a second, first come first served. It is made for a share of a
//! cluster-wide maximum, which another process changes at any moment; it needs no server and can be used for any other rate.
//! A member of a throughput balancer drives it by itself (`ThroughputBalancerBuilder::limiter`).
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
//! // Holds from this line on, for those who wait already too.
//! limiter.set_rate(50)?;
//! limiter.acquire(1).await?;
//! assert_eq!(start.elapsed().as_millis(), 120);
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! * In any time of d seconds it grants at most `rate · d` permits, plus, once, its capacity: the
//!   [burst](ShareLimiter::with_burst) and what the rate brings in 10 ms, without which timers that tick in milliseconds, and
//!   wake late on a busy machine, would never let the rate be reached.
//! * Permits come from time alone: a new limiter has none, and neither has one whose rate was 0. A raised rate grants nothing
//!   for the time before; what had accumulated is kept, up to the new capacity. After a lowered rate whoever waits for the
//!   rest of a permit waits for the same rest, at the new rate.
//! * [`set_rate`](ShareLimiter::set_rate) is not async and has taken effect when it returns: whoever has to confirm a lowered
//!   share can do so then.
//! * At a rate of 0 it grants nothing. Nobody is turned away, all wait for the next rate, in their order.
//! * [`close`](ShareLimiter::close) ends it, for good: whoever waits, or comes later, is told so.
//! * While a member of a throughput balancer drives it nobody else sets its rate: that would be more than the member's share,
//!   and so more than the cluster's maximum, and nobody would hear of it.
//!
//! This is the generic cell rate algorithm (GCRA), kept in permits and not in a point of time, so that a change of the rate
//! leaves it as it is. The crate `governor` has the same algorithm for a rate that is fixed when its limiter is made: to
//! change it takes a new limiter, which starts with a fresh burst and knows none of those who wait. So this one is our own.
//!
//! Time is that of tokio: a paused clock pauses the limiter. With the feature `tower` a `ShareLimitLayer` limits a service.

mod bucket;
mod error;
#[cfg(feature = "tower")]
mod layer;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout};

use self::bucket::{Bucket, Wait};
pub use self::error::Error;
#[cfg(feature = "tower")]
pub use self::layer::{BoxError, ShareLimit, ShareLimitLayer};

/// Grants permits at a rate that can be changed at any time; see the [module](self). Cheap to clone; all clones are one limiter.
#[derive(Clone)]
pub struct ShareLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    burst: u64,
    state: Mutex<State>,
    /// One permit, held by the first of those who wait; the others follow in their order. It is closed with the limiter.
    front: Semaphore,
    /// Tells the first one of a new rate, or that there will be none.
    changed: Notify,
}

struct State {
    bucket: Bucket,
    /// Says what the rate is, whenever it matters; none if it is as it was set.
    source: Option<Box<Source>>,
    /// Whether somebody has the [`Reins`]; if not, the rate is the user's to set.
    is_driven: bool,
    /// How many wait. Nobody who comes later is served before them.
    waiting: usize,
}

type Source = dyn Fn() -> u64 + Send + Sync;

impl ShareLimiter {
    /// A limiter of `rate` permits a second, which are acquired one by one: with a burst of 1.
    pub fn new(rate: u64) -> Self {
        ShareLimiter::of(rate, 1)
    }

    /// A limiter of `rate` permits a second, of which up to `burst`, and what the rate brings in 10 ms, accumulate while nobody
    /// takes them, and up to `burst` can be acquired at once.
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

    /// Takes `permits` as soon as they are there, after all who came before. To take 0 returns at once. While the rate is 0 it
    /// waits, for ever if no other rate comes.
    ///
    /// # Errors
    /// [`Error::TooMany`], at once, if they are more than the burst: so many are never there. [`Error::Closed`] once the limiter
    /// is [closed](Self::close), also while it waits, and also for 0 permits.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is taken, and those behind move up. A future that is neither polled nor dropped holds them up.
    pub async fn acquire(&self, permits: u64) -> Result<(), Error> {
        // A loop over permits that are there must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        if self.try_acquire(permits)? {
            return Ok(());
        }
        let waiting = Waiting::new(&self.shared);
        let _front = self.shared.front.acquire().await.map_err(|_| Error::Closed)?;
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // From here on a change is not missed, also if it comes before the wait.
            changed.as_mut().enable();
            let wait = match self.shared.open()?.take(permits) {
                Ok(()) => break,
                Err(wait) => wait,
            };
            match wait {
                // Whichever comes first, the next look tells what to do.
                Wait::For(time) => timeout(time, changed).await.unwrap_or_default(),
                Wait::ForRate => changed.await,
            }
        }
        drop(waiting);
        Ok(())
    }

    /// Takes `permits` if they are there and nobody waits for any; says whether it did.
    ///
    /// # Errors
    /// [`Error::TooMany`] if they are more than the burst: so many are never there. [`Error::Closed`] once the limiter is
    /// [closed](Self::close).
    pub fn try_acquire(&self, permits: u64) -> Result<bool, Error> {
        let mut state = self.shared.open()?;
        let burst = self.shared.burst;
        if permits > burst {
            return Err(Error::TooMany { permits, burst });
        }
        Ok(permits == 0 || (state.waiting == 0 && state.take(permits).is_ok()))
    }

    /// From now on `rate` permits a second; at 0 all wait for the next rate. It has taken effect when this returns.
    ///
    /// # Errors
    /// Nothing has changed then. [`Error::Driven`] while a member of a throughput balancer drives the limiter: until that member
    /// leaves or is dropped. [`Error::Closed`] once the limiter is [closed](Self::close).
    pub fn set_rate(&self, rate: u64) -> Result<(), Error> {
        self.shared.set(false, |state| state.fix(rate))
    }

    /// As [`set_rate`](Self::set_rate), for as long as `lease` says yes. It is asked each time permits are to be granted and must
    /// not use the limiter itself. While it says no the rate is 0, and what had accumulated is gone.
    ///
    /// Those who wait do not notice by themselves that a lease which was over holds again: set the rate anew.
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

    /// As [`set_rate`](Self::set_rate), until `deadline`, from which on the rate is 0.
    ///
    /// # Errors
    /// As [`set_rate`](Self::set_rate).
    pub fn set_rate_until(&self, rate: u64, deadline: Instant) -> Result<(), Error> {
        self.set_rate_while(rate, move || Instant::now() < deadline)
    }

    /// Ends the limiter, and all its clones, for good, as [`Semaphore::close`] does: nothing is granted from now on, also if a
    /// member of a throughput balancer drives it, and whoever waits, or comes later, is told [`Error::Closed`]. For shutting
    /// down; to stop it for a while set a rate of 0. To close it twice is fine.
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
        // This first: whoever locks the state after it finds the limiter closed.
        self.shared.front.close();
        let old = self.shared.state().fix(0);
        // As in `Shared::set`.
        drop(old);
        self.shared.changed.notify_waiters();
    }

    /// Whether it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared.front.is_closed()
    }

    /// How many permits a second are granted: 0 also when its lease is over, or it is closed.
    pub fn rate(&self) -> u64 {
        self.shared.state().rate()
    }

    /// How many permits can be acquired at once.
    pub fn burst(&self) -> u64 {
        self.shared.burst
    }

    /// The right to set the rate from now on, unless somebody else has it or the limiter is closed.
    #[cfg(feature = "throughput-balancer")]
    pub(crate) fn reins(&self) -> Result<Reins, Error> {
        let mut state = self.shared.open()?;
        if std::mem::replace(&mut state.is_driven, true) {
            return Err(Error::Driven);
        }
        Ok(Reins { limiter: self.clone() })
    }
}

/// The right to set the rate of a limiter, which nobody else has meanwhile.
#[cfg(feature = "throughput-balancer")]
#[derive(Debug)]
pub(crate) struct Reins {
    limiter: ShareLimiter,
}

#[cfg(feature = "throughput-balancer")]
impl Reins {
    /// From now on the rate is what `source` says, whenever it matters. It may fall by itself, but not rise, as those who wait
    /// would not notice; and it must not use the limiter.
    pub(crate) fn follow(&self, source: impl Fn() -> u64 + Send + Sync + 'static) {
        // Refused if the limiter is closed: it grants nothing then.
        let _ = self.limiter.shared.set(true, |state| state.follow(source));
    }
}

/// Let go, the limiter stands at 0 until its user sets a rate.
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
    /// A lease that panics leaves the state as it was.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless the limiter is closed. That is looked at under the lock, which [`ShareLimiter::close`] takes too: when
    /// it has returned nobody is about to grant any more.
    fn open(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state();
        if self.front.is_closed() { Err(Error::Closed) } else { Ok(state) }
    }

    /// Changes the rate, for a user or the driver, whoever may; what has come until now is of the old one. `change` returns what
    /// has become of no use.
    fn set(&self, by_driver: bool, change: impl FnOnce(&mut State) -> Option<Box<Source>>) -> Result<(), Error> {
        let mut state = self.open()?;
        if state.is_driven != by_driver {
            return Err(Error::Driven);
        }
        state.pass();
        let old = change(&mut state);
        drop(state);
        // What a user's source owns may do as it likes when it is dropped.
        drop(old);
        self.changed.notify_waiters();
        Ok(())
    }
}

impl State {
    fn rate(&self) -> u64 {
        self.source.as_ref().map_or(self.bucket.rate(), |source| source())
    }

    /// A rate that stays as it is. Returns the source of the one until now, if it had one.
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

    /// The bucket fills up to now. When the rate fell in the meantime nobody knows when: what came since is of the lower one.
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

/// One who waits is counted until this is dropped.
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
