//! The limiter that follows a member's share, where the feature `limiter` is there and a member has one.

#[cfg(feature = "limiter")]
use crate::limiter::{Reins, ShareLimiter};
#[cfg(feature = "limiter")]
use crate::util::mutex::Mutex;

/// What is limited to a share: one limiter, or nothing.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    #[cfg(feature = "limiter")]
    reins: Mutex<Option<Reins>>,
}

impl Limited {
    #[cfg(feature = "limiter")]
    pub(crate) fn new(limiter: Option<&ShareLimiter>) -> Result<Self, crate::limiter::Error> {
        Ok(Limited { reins: Mutex::new(limiter.map(ShareLimiter::reins).transpose()?) })
    }

    /// Once this returns, the limiter grants only what the share is `worth` at each moment: less as soon as its lease
    /// is over, even if no task of this process has run since.
    #[cfg_attr(not(feature = "limiter"), allow(unused_variables))]
    pub(crate) fn follow(&self, worth: impl Fn() -> u64 + Send + Sync + 'static) {
        #[cfg(feature = "limiter")]
        if let Some(reins) = &*self.reins.lock() {
            reins.follow(worth);
        }
    }

    /// Once this returns, the limiter grants nothing until its user sets a rate, which is allowed from now on.
    pub(crate) fn let_go(&self) {
        #[cfg(feature = "limiter")]
        drop(self.reins.lock().take());
    }
}
