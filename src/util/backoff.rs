//! Delays that grow.

use std::time::Duration;

use super::clock::{Clock, Instant};
use super::random::Random;

/// A period of this length without a failure resets the delays.
const CALM: Duration = Duration::from_secs(10);

/// Delays with jitter that double after each failure, until there was none for [`CALM`].
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) const fn new((first, most): (Duration, Duration)) -> Self {
        Backoff { first, most, next: first }
    }

    /// The next delay is the first again.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// Returns the delay after something that began then and has failed now.
    pub(crate) fn next(&mut self, clock: Clock, random: &Random, began: Instant) -> Duration {
        if clock.now().since(began) >= CALM {
            self.next = self.first;
        }
        let delay = self.next;
        self.next = (delay * 2).min(self.most);
        delay.mul_f64(0.5 + random.unit() / 2.0)
    }
}
