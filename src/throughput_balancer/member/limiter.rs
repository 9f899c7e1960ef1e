//! The limiter that follows a member's share, where the feature `limiter` is there and a member has one.

#[cfg(feature = "limiter")]
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "limiter")]
use crate::limiter::{Reins, ShareLimiter};
use crate::throughput_balancer::share::Share;

/// What is limited to a share: one limiter, or nothing.
#[derive(Debug, Default)]
pub(in crate::throughput_balancer) struct Limited {
    #[cfg(feature = "limiter")]
    reins: Mutex<Option<Reins>>,
}

impl Limited {
    #[cfg(feature = "limiter")]
    pub(in crate::throughput_balancer) fn new(limiter: Option<&ShareLimiter>) -> Result<Self, crate::limiter::Error> {
        Ok(Limited { reins: Mutex::new(limiter.map(ShareLimiter::reins).transpose()?) })
    }

    /// When this returns nothing is granted any more but what `share` is worth at each moment: less as soon as its lease is
    /// over, also if no task of this process has run since.
    #[cfg_attr(not(feature = "limiter"), allow(unused_variables))]
    pub(in crate::throughput_balancer) fn follow(&self, share: &Share) {
        #[cfg(feature = "limiter")]
        if let Some(reins) = &*self.reins.lock().unwrap_or_else(PoisonError::into_inner) {
            let share = share.clone();
            reins.follow(move || share.throughput());
        }
    }

    /// When this returns nothing is granted any more, until the limiter's user sets a rate, who may do so from now on.
    pub(in crate::throughput_balancer) fn let_go(&self) {
        #[cfg(feature = "limiter")]
        drop(self.reins.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
