//! How many watches a session may have.
//!
//! After a reconnect the crate restores all watches; when their path names pass 128 KiB it needs several requests,
//! gives all of them the same number and then takes the second answer for a protocol error: it reconnects again and
//! again until the session expires. So a watch too many is refused before it is armed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::backend::Error;

/// Bytes of watched path names in a session, with what the wire adds; 8 KiB below the crate's limit.
const LIMIT: usize = 120 * 1024;
/// A path is sent with its length.
const LENGTH_PREFIX: usize = 4;

/// The paths a session watches. A path watched twice is restored once, so it counts once.
#[derive(Debug)]
pub(in crate::backend) struct WatchBudget {
    chroot: usize,
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    bytes: usize,
    paths: HashMap<Arc<str>, usize>,
}

impl WatchBudget {
    /// `chroot`: bytes that every path is longer by on the wire.
    pub(in crate::backend) fn new(chroot: usize) -> Self {
        WatchBudget { chroot, watched: Mutex::default() }
    }

    pub(in crate::backend) fn reserve(budget: &Arc<Self>, path: &str) -> Result<WatchPermit, Error> {
        let mut watched = budget.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let path: Arc<str> = match watched.paths.get_key_value(path) {
            Some((known, _)) => Arc::clone(known),
            None => {
                let bytes = watched.bytes + budget.cost(path);
                if bytes > LIMIT {
                    return Err(Error::TooManyWatches { limit: LIMIT });
                }
                watched.bytes = bytes;
                Arc::from(path)
            }
        };
        *watched.paths.entry(Arc::clone(&path)).or_insert(0) += 1;
        Ok(WatchPermit { path, budget: Arc::clone(budget) })
    }

    fn cost(&self, path: &str) -> usize {
        self.chroot + path.len() + LENGTH_PREFIX
    }
}

/// The right to watch one path; given back when dropped.
#[derive(Debug)]
pub(in crate::backend) struct WatchPermit {
    path: Arc<str>,
    budget: Arc<WatchBudget>,
}

impl Drop for WatchPermit {
    fn drop(&mut self) {
        let mut watched = self.budget.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = watched.paths.get_mut(&self.path) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            watched.paths.remove(&self.path);
            watched.bytes -= self.budget.cost(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_counts_once_and_comes_back_when_its_last_watch_goes() {
        let budget = Arc::new(WatchBudget::new(0));
        let first = WatchBudget::reserve(&budget, "/a").unwrap();
        let second = WatchBudget::reserve(&budget, "/a").unwrap();
        assert_eq!(budget.watched.lock().unwrap().bytes, 6);
        drop(first);
        assert_eq!(budget.watched.lock().unwrap().bytes, 6);
        drop(second);
        assert_eq!(budget.watched.lock().unwrap().bytes, 0);
    }

    #[test]
    fn a_watch_too_many_is_refused_and_room_that_was_made_is_used() {
        let budget = Arc::new(WatchBudget::new(8));
        let name = |n: usize| format!("/{n:0>91}");
        let mut permits: Vec<_> = (0..).map_while(|n| WatchBudget::reserve(&budget, &name(n)).ok()).collect();
        assert_eq!(permits.len(), LIMIT / (92 + 8 + LENGTH_PREFIX));
        assert_eq!(WatchBudget::reserve(&budget, &name(9_999)).unwrap_err(), Error::TooManyWatches { limit: LIMIT });
        permits.pop();
        assert!(WatchBudget::reserve(&budget, &name(9_999)).is_ok());
    }
}
