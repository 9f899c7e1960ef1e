//! The limiter that follows a member's share, if the feature `limiter` is enabled and the member has one.

#[cfg(feature = "limiter")]
use crate::limiter::{RateDriver, ShareLimiter};
#[cfg(feature = "limiter")]
use crate::util::mutex::Mutex;

/// The limiter that follows a share, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    #[cfg(feature = "limiter")]
    driver: Mutex<Option<RateDriver>>,
}

impl Limited {
    #[cfg(feature = "limiter")]
    pub(crate) fn new(limiter: Option<&ShareLimiter>) -> Result<Self, crate::limiter::Error> {
        Ok(Limited { driver: Mutex::new(limiter.map(ShareLimiter::drive).transpose()?) })
    }

    /// Makes the limiter grant what the share is `worth` at each moment. It has taken effect when it returns. The rate
    /// drops as soon as the lease is over, even if no task of this process has run since.
    #[cfg_attr(not(feature = "limiter"), allow(unused_variables))]
    pub(crate) fn follow(&self, worth: impl Fn() -> u64 + Send + Sync + 'static) {
        #[cfg(feature = "limiter")]
        if let Some(driver) = &*self.driver.lock() {
            driver.follow(worth);
        }
    }

    /// Lets the user set the rate again. When it returns, the limiter grants nothing until the user does.
    pub(crate) fn release_limiter(&self) {
        #[cfg(feature = "limiter")]
        drop(self.driver.lock().take());
    }
}
