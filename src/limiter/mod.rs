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
//! limiter.set_rate(50);
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
//! * Permits come from time alone: a new limiter has none, and neither has one that was closed. A raised rate grants nothing
//!   for the time before; what had accumulated is kept, up to the new capacity. After a lowered rate whoever waits for the
//!   rest of a permit waits for the same rest, at the new rate.
//! * [`set_rate`](ShareLimiter::set_rate) is not async and has taken effect when it returns: whoever has to confirm a lowered
//!   share can do so then.
//! * A rate of 0 is a closed limiter. Nobody is turned away, all wait for the next rate, in their order.
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

use tokio::sync::{self, Notify};
use tokio::time::{Instant, timeout};

use self::bucket::{Bucket, Wait};
pub use self::error::Error;
#[cfg(feature = "tower")]
pub use self::layer::{ShareLimit, ShareLimitLayer};

/// Grants permits at a rate that can be changed at any time; see the [module](self). Cheap to clone; all clones are one limiter.
#[derive(Clone)]
pub struct ShareLimiter {
    shared: Arc<Shared>,
}

struct Shared {
    burst: u64,
    state: Mutex<State>,
    /// Held by the first of those who wait; tokio's mutex lets the others follow in their order.
    front: sync::Mutex<()>,
    /// Tells the first one of a new rate.
    changed: Notify,
}

struct State {
    bucket: Bucket,
    /// Says what the rate is, whenever it matters; none if it is as it was set.
    source: Option<Box<Source>>,
    /// Counts those who were given the [`Reins`].
    #[cfg(feature = "throughput-balancer")]
    drivers: u64,
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
        let state = State {
            bucket: Bucket::new(rate, burst, Instant::now()),
            source: None,
            #[cfg(feature = "throughput-balancer")]
            drivers: 0,
            waiting: 0,
        };
        let (front, changed) = (sync::Mutex::new(()), Notify::new());
        ShareLimiter { shared: Arc::new(Shared { burst, state: Mutex::new(state), front, changed }) }
    }

    /// Takes `permits` as soon as they are there, after all who came before. To take 0 returns at once. While the rate is 0 it
    /// waits, for ever if no other rate comes.
    ///
    /// # Errors
    /// [`Error::TooMany`], at once, if they are more than the burst: so many are never there.
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
        let _front = self.shared.front.lock().await;
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // From here on a change is not missed, also if it comes before the wait.
            changed.as_mut().enable();
            let wait = match self.shared.state().take(permits) {
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
    /// [`Error::TooMany`] if they are more than the burst: so many are never there.
    pub fn try_acquire(&self, permits: u64) -> Result<bool, Error> {
        let burst = self.shared.burst;
        if permits > burst {
            return Err(Error::TooMany { permits, burst });
        }
        let mut state = self.shared.state();
        Ok(permits == 0 || (state.waiting == 0 && state.take(permits).is_ok()))
    }

    /// From now on `rate` permits a second; 0 closes the limiter until the next rate. It has taken effect when this returns.
    ///
    /// Not for a limiter that a member of a throughput balancer drives: it would override the share, and its lease, until the
    /// member's next share.
    pub fn set_rate(&self, rate: u64) {
        self.shared.set(|state| {
            state.bucket.set_rate(rate);
            state.source.take()
        });
    }

    /// As [`set_rate`](Self::set_rate), for as long as `lease` says yes. It is asked each time permits are to be granted and must
    /// not use the limiter itself. While it says no the limiter is closed, and what had accumulated is gone.
    ///
    /// Those who wait do not notice by themselves that a lease which was over holds again: set the rate anew.
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
    /// limiter.set_rate_while(100, move || holds.load(Ordering::SeqCst));
    /// limiter.acquire(1).await?;
    ///
    /// lease.store(false, Ordering::SeqCst);
    /// assert_eq!(limiter.rate(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_rate_while(&self, rate: u64, lease: impl Fn() -> bool + Send + Sync + 'static) {
        self.shared.set(|state| state.follow(move || if lease() { rate } else { 0 }));
    }

    /// As [`set_rate`](Self::set_rate), until `deadline`, from which on the limiter is closed.
    pub fn set_rate_until(&self, rate: u64, deadline: Instant) {
        self.set_rate_while(rate, move || Instant::now() < deadline);
    }

    /// Grants nothing from now on, until the next rate is set: the same as a rate of 0.
    pub fn close_until_next_rate(&self) {
        self.set_rate(0);
    }

    /// How many permits a second are granted: 0 while it is closed, or its lease is over.
    pub fn rate(&self) -> u64 {
        self.shared.state().rate()
    }

    /// How many permits can be acquired at once.
    pub fn burst(&self) -> u64 {
        self.shared.burst
    }

    /// The right to set the rate from now on, in the place of whoever had it.
    #[cfg(feature = "throughput-balancer")]
    pub(crate) fn reins(&self) -> Reins {
        let mut state = self.shared.state();
        state.drivers += 1;
        Reins { limiter: self.clone(), number: state.drivers }
    }
}

/// The right to set the rate of a limiter. It is void when somebody else has been given it: what a member that is on its way
/// out has to say is no rate for its successor.
#[cfg(feature = "throughput-balancer")]
#[derive(Debug)]
pub(crate) struct Reins {
    limiter: ShareLimiter,
    number: u64,
}

#[cfg(feature = "throughput-balancer")]
impl Reins {
    /// From now on the rate is what `source` says, whenever it matters. It may fall by itself, but not rise, as those who wait
    /// would not notice; and it must not use the limiter.
    pub(crate) fn follow(&self, source: impl Fn() -> u64 + Send + Sync + 'static) {
        self.limiter.shared.set(|state| if state.drivers == self.number { state.follow(source) } else { None });
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

    /// Changes the rate; what has come until now is of the old one. `change` returns what has become of no use.
    fn set(&self, change: impl FnOnce(&mut State) -> Option<Box<Source>>) {
        let mut state = self.state();
        state.pass();
        let old = change(&mut state);
        drop(state);
        // What a user's source owns may do as it likes when it is dropped.
        drop(old);
        self.changed.notify_waiters();
    }
}

impl State {
    fn rate(&self) -> u64 {
        self.source.as_ref().map_or(self.bucket.rate(), |source| source())
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
