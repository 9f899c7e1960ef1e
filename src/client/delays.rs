//! Delays that grow.

use std::time::Duration;

use super::core::Core;
use crate::clock::Instant;

/// What lasted so long starts the delays anew.
const CALM: Duration = Duration::from_secs(10);

/// Delays that double, with jitter, until things have been calm for a while.
#[derive(Debug, Clone)]
pub(crate) struct Delays {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Delays {
    pub(crate) const fn new((first, most): (Duration, Duration)) -> Self {
        Delays { first, most, next: first }
    }

    /// The delay after something that began then and has failed now.
    pub(crate) fn next(&mut self, core: &Core, began: Instant) -> Duration {
        if core.clock.now().since(began) >= CALM {
            self.next = self.first;
        }
        let delay = self.next;
        self.next = (delay * 2).min(self.most);
        delay.mul_f64(0.5 + core.random.unit() / 2.0)
    }
}
