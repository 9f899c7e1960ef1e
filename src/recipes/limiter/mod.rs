//! Limits work to a rate that can change at any time. A change of the rate causes no burst.
//!
//! [`ShareLimiter`] grants permits at a rate per second, first come first served. It is made for a share of a
//! cluster-wide maximum, which another process may change at any moment. It needs no server and can be used for any
//! other rate. A member of a throughput balancer can drive it (`ThroughputBalancerBuilder::limiter`).
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
//! // Takes effect at once, even for tasks that already wait.
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
//!   [burst](ShareLimiter::with_burst) and what the rate adds in 10 ms. Without those 10 ms the rate would never be
//!   reached, because timers tick in milliseconds and fire late on a busy machine.
//! * Only time adds permits. A new limiter has none, and neither has one whose rate was 0. A raised rate adds nothing
//!   for the time before. Accumulated permits are kept, up to the new capacity. After the rate is lowered, a task that
//!   waits for the rest of a permit waits for the same rest, at the new rate.
//! * [`set_rate`](ShareLimiter::set_rate) is not async and has taken effect when it returns. Code that must confirm a
//!   lowered share can do so then.
//! * At a rate of 0 it grants nothing. Tasks that wait are not rejected: they wait for the next rate, in their order.
//! * A waiting future that is no longer polled does not delay others: its permits are set aside when its turn comes. It
//!   gets them at its next poll; if it is dropped, others get them.
//! * [`close`](ShareLimiter::close) is final. Waiting and later calls return an error.
//! * While a member of a throughput balancer drives it, no other code can set its rate. A higher rate would exceed the
//!   member's share, and so the cluster's maximum, unnoticed.
//!
//! # Why not an existing crate
//!
//! This is the generic cell rate algorithm (GCRA). Its state is a number of permits, not a point in time, so a change
//! of the rate does not affect it. The crate `governor` has the same algorithm for a rate that is fixed when its
//! limiter is created. Changing that rate takes a new limiter, which starts with a full burst and does not know the
//! waiting tasks.
//!
//! # Time
//!
//! The limiter uses tokio's clock: a paused clock pauses it. With the feature `tower`, a `ShareLimitLayer` limits a
//! service.

mod bucket;
mod error;
#[cfg(feature = "tower")]
mod layer;
mod line;
mod source;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use self::bucket::{Bucket, Wait};
pub use self::error::Error;
#[cfg(feature = "tower")]
pub use self::layer::{BoxError, ShareLimit, ShareLimitLayer};
use self::line::Line;
use self::source::Source;
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
}

struct State {
    bucket: Bucket,
    /// Returns the current rate; `None` if the rate is fixed.
    source: Option<Arc<Source>>,
    /// Whether there is a [`RateDriver`]; if not, the user sets the rate.
    is_driven: bool,
    is_closed: bool,
    /// The waiting calls. Later calls are served after them.
    line: Line,
}

impl ShareLimiter {
    /// Returns a limiter of `rate` permits a second with a burst of 1: permits are acquired one by one.
    pub fn new(rate: u64) -> Self {
        ShareLimiter::of(rate, 1)
    }

    /// Returns a limiter of `rate` permits a second, of which up to `burst` can be acquired at once.
    ///
    /// Unused permits accumulate up to `burst` plus what the rate adds in 10 ms.
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
        let bucket = Bucket::new(rate, burst, Instant::now());
        let state = State { bucket, source: None, is_driven: false, is_closed: false, line: Line::default() };
        ShareLimiter { shared: Arc::new(Shared { burst, state: Mutex::new(state) }) }
    }

    /// Takes `permits` as soon as they are available, after all earlier calls.
    ///
    /// Taking 0 returns at once. While the rate is 0, the call waits, forever if no other rate is set.
    ///
    /// # Errors
    /// [`Error::TooMany`], at once, if `permits` is more than the burst: that many are never available.
    /// [`Error::Closed`] once the limiter is [closed](Self::close), even while the call waits, and even for 0 permits.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is taken, and later calls move up. A future that is neither polled nor dropped keeps its
    /// place; its permits are set aside when its turn comes, and later calls continue.
    pub async fn acquire(&self, permits: u64) -> Result<(), Error> {
        // A caller that loops over available permits must still yield to other tasks.
        tokio::task::coop::consume_budget().await;
        if self.try_acquire(permits)? {
            return Ok(());
        }
        Waiting::new(&self.shared, permits)?.served().await
    }

    /// Takes `permits` if they are available and no other call waits for any. Returns whether it did.
    ///
    /// # Errors
    /// [`Error::TooMany`] if `permits` is more than the burst: that many are never available. [`Error::Closed`] once
    /// the limiter is [closed](Self::close).
    pub fn try_acquire(&self, permits: u64) -> Result<bool, Error> {
        let mut state = self.shared.advance()?;
        let burst = self.shared.burst;
        if permits > burst {
            return Err(Error::TooMany { permits, burst });
        }
        Ok(permits == 0 || (state.line.is_empty() && state.bucket.take(permits).is_ok()))
    }

    /// Sets the rate to `rate` permits a second. At 0, all calls wait for the next rate. The change has taken effect
    /// when this returns.
    ///
    /// # Errors
    /// After an error nothing has changed. [`Error::Driven`] while a member of a throughput balancer drives the
    /// limiter, until that member leaves or is dropped. [`Error::Closed`] once the limiter is [closed](Self::close).
    pub fn set_rate(&self, rate: u64) -> Result<(), Error> {
        self.shared.set(false, rate, None)
    }

    /// Sets the rate as [`set_rate`](Self::set_rate) does, for as long as `lease` returns true.
    ///
    /// The limiter calls `lease` before it grants permits. While `lease` returns false, the rate is 0, and accumulated
    /// permits are lost. `lease` may call [`rate`](Self::rate), which then returns the last known rate.
    ///
    /// When a lease that was over is valid again, set the rate again: waiting calls do not notice by themselves.
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
        let source = Source::new(move || if lease() { rate } else { 0 });
        self.shared.set(false, source.rate(0), Some(source))
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
    /// From now on it grants nothing, even if a member of a throughput balancer drives it. Waiting and later calls
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
        let mut state = self.shared.state.lock();
        state.is_closed = true;
        let old = state.replace(0, None);
        state.line.wake_all();
        drop(state);
        // As in `Shared::set`.
        drop(old);
    }

    /// Returns whether the limiter was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.shared.state.lock().is_closed
    }

    /// Returns how many permits a second are granted: 0 if the lease is over or the limiter is closed.
    pub fn rate(&self) -> u64 {
        let state = self.shared.state.lock();
        let (known, source) = (state.bucket.rate(), state.source.clone());
        drop(state);
        source.map_or(known, |source| source.rate(known))
    }

    /// Returns how many permits can be acquired at once.
    pub fn burst(&self) -> u64 {
        self.shared.burst
    }

    /// Returns the exclusive right to set the rate, unless a driver exists already or the limiter is closed.
    pub(crate) fn drive(&self) -> Result<RateDriver, Error> {
        let mut state = self.shared.state.lock();
        if state.is_closed {
            return Err(Error::Closed);
        }
        if std::mem::replace(&mut state.is_driven, true) {
            return Err(Error::Driven);
        }
        drop(state);
        Ok(RateDriver { limiter: self.clone() })
    }
}

/// The exclusive right to set the rate of a limiter.
#[derive(Debug)]
pub(crate) struct RateDriver {
    limiter: ShareLimiter,
}

impl RateDriver {
    /// Makes the limiter ask `source` for its rate at each use. What `source` returns may fall but not rise, because
    /// waiting calls would not notice.
    pub(crate) fn follow(&self, source: impl Fn() -> u64 + Send + Sync + 'static) {
        let source = Source::new(source);
        // A closed limiter refuses this, and grants nothing.
        let _ = self.limiter.shared.set(true, source.rate(0), Some(source));
    }
}

/// Sets the rate to 0 until the user sets another one.
impl Drop for RateDriver {
    fn drop(&mut self) {
        let mut state = self.limiter.shared.state.lock();
        state.is_driven = false;
        let old = state.replace(0, None);
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
    /// Locks the state, fills the bucket up to now and serves all calls whose turn has come; fails if the limiter is
    /// closed. It checks that under the lock, which [`ShareLimiter::close`] takes too: once `close` has returned, no
    /// call grants any more.
    ///
    /// The source of the rate is called outside the lock, as it is user code, which may use the limiter.
    fn advance(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut rate = None;
        loop {
            let mut state = self.state.lock();
            if state.is_closed {
                return Err(Error::Closed);
            }
            let known = state.bucket.rate();
            match (state.source.clone(), rate.take()) {
                (None, None) => state.advance(known, Instant::now()),
                (Some(source), Some((asked, rate, now))) if Arc::ptr_eq(&source, &asked) => state.advance(rate, now),
                // The source was replaced or removed while it was called.
                (source, _asked) => {
                    drop(state);
                    let now = Instant::now();
                    rate = source.map(|source| (Arc::clone(&source), source.rate(known), now));
                    continue;
                }
            }
            return Ok(state);
        }
    }

    /// Changes the rate if the caller, the user or the driver, has the right to. Permits up to now accumulate at the
    /// old rate.
    fn set(&self, by_driver: bool, rate: u64, source: Option<Arc<Source>>) -> Result<(), Error> {
        let mut state = self.advance()?;
        if state.is_driven != by_driver {
            return Err(Error::Driven);
        }
        let old = state.replace(rate, source);
        state.line.wake_all();
        drop(state);
        // Dropping a user's source may run any code, so it happens outside the lock.
        drop(old);
        Ok(())
    }
}

impl State {
    /// Sets the rate, and its source if it has one. Returns the previous source.
    fn replace(&mut self, rate: u64, source: Option<Arc<Source>>) -> Option<Arc<Source>> {
        self.bucket.set_rate(rate);
        std::mem::replace(&mut self.source, source)
    }

    /// Returns whether no unserved ticket is ahead of this one, and whether permits were lost because no call was
    /// polled.
    fn position(&self, number: u64) -> (bool, bool) {
        (self.line.is_first(number), self.bucket.overflows(Instant::now()))
    }

    /// Fills the bucket, where `rate` is the current rate, and serves the calls whose turn has come. If the rate fell
    /// since the bucket was last filled, it is unknown when: the lower rate counts for the whole time.
    fn advance(&mut self, rate: u64, now: Instant) {
        let known = self.bucket.rate();
        // Another call has asked for the rate more recently.
        let rate = if self.bucket.is_filled_past(now) { rate.min(known) } else { rate };
        self.bucket.set_rate(rate.min(known));
        self.bucket.fill(now);
        self.bucket.set_rate(rate);
        self.line.serve(&mut self.bucket);
    }
}

/// The ticket of a waiting call. It leaves the line when dropped.
struct Waiting<'a> {
    shared: &'a Shared,
    permits: u64,
    number: u64,
    wake: Arc<Notify>,
    /// The call has its permits.
    is_done: bool,
}

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared, permits: u64) -> Result<Self, Error> {
        let (number, wake) = shared.advance()?.line.enter(permits);
        Ok(Waiting { shared, permits, number, wake, is_done: false })
    }

    /// Waits until the ticket is served.
    ///
    /// Each call waits for its own turn, as the calls ahead may not be polled. If none of them was polled for so long
    /// that permits were lost, this call serves them from then on, one by one.
    async fn served(mut self) -> Result<(), Error> {
        let mut serves_others = false;
        loop {
            let (is_first, was_late) = self.shared.state.lock().position(self.number);
            serves_others |= was_late;
            match self.wait(serves_others)? {
                // In both cases, the loop then checks again.
                Some(Wait::For(time)) => timeout(time, self.wake.notified()).await.unwrap_or_default(),
                Some(Wait::ForRate) => self.wake.notified().await,
                None if is_first => break,
                // This call has served the calls ahead. They run first.
                None => break tokio::task::yield_now().await,
            }
        }
        self.is_done = true;
        Ok(())
    }

    /// Returns how long to wait before checking again; `None` once the ticket is served.
    fn wait(&self, serves_others: bool) -> Result<Option<Wait>, Error> {
        let state = self.shared.advance()?;
        let Some(own) = state.line.until_served(self.number) else { return Ok(None) };
        let permits = state.line.first().filter(|_| serves_others).unwrap_or(own);
        Ok(state.bucket.wait(permits).or(Some(Wait::For(Duration::ZERO))))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let mut state = self.shared.state.lock();
        if !state.line.leave(self.number) {
            state.bucket.give_back(self.permits);
            state.line.wake_first();
        }
    }
}
