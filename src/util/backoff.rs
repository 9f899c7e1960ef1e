//! Growing delays between retries.

use std::time::Duration;

use super::clock::{Clock, Instant};
use super::random::Random;

/// The first and the longest delay.
pub(crate) type Delays = (Duration, Duration);

/// After the servers refused a request. Usually an operator must change something.
pub(crate) const AFTER_REFUSAL: Delays = (Duration::from_secs(1), Duration::from_secs(30));
/// After another client deleted our node. It may do so again.
pub(crate) const AFTER_DELETION: Delays = (Duration::from_millis(50), Duration::from_secs(5));
/// After another client wrote the same node first.
pub(crate) const AFTER_CONFLICT: Delays = (Duration::from_millis(2), Duration::from_millis(250));

/// A period of this length without a failure resets the delays.
const CALM: Duration = Duration::from_secs(10);

/// Delays with jitter that double after each failure, and start over after [`CALM`] without one.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new((first, most): Delays) -> Self {
        Backoff { first, most, next: first }
    }

    /// Resets the delays: the next one is the first delay again.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// Returns the delay after an attempt that began at `began` and has just failed.
    pub(crate) fn next(&mut self, clock: Clock, random: &Random, began: Instant) -> Duration {
        if clock.now().since(began) >= CALM {
            self.next = self.first;
        }
        let delay = self.next;
        self.next = (delay * 2).min(self.most);
        delay.mul_f64(0.5 + random.unit() / 2.0)
    }
}
