//! The limiter that follows a member's share, if the member has one.

use crate::limiter::{RateDriver, ShareLimiter};
use crate::util::mutex::Mutex;

/// The limiter that follows a share, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    driver: Mutex<Option<RateDriver>>,
}

impl Limited {
    pub(crate) fn new(limiter: Option<&ShareLimiter>) -> Result<Self, crate::limiter::Error> {
        Ok(Limited { driver: Mutex::new(limiter.map(ShareLimiter::drive).transpose()?) })
    }

    /// Makes the limiter grant what the share is `worth` at each moment. The change has taken effect when this returns.
    /// The rate drops as soon as the lease is over, even if no task of this process has run since.
    pub(crate) fn follow(&self, worth: impl Fn() -> u64 + Send + Sync + 'static) {
        if let Some(driver) = &*self.driver.lock() {
            driver.follow(worth);
        }
    }

    /// Lets the user set the rate again. When it returns, the limiter grants nothing until the user does.
    pub(crate) fn release_limiter(&self) {
        drop(self.driver.lock().take());
    }
}
