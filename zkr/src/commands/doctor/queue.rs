//! What can be wrong with queues: items that no consumer takes, and dead letters.

use std::time::{Duration, SystemTime};

use zookeeper_recipes::inspect::Queue;

use super::finding::{Finding, rounded};
use crate::output::count;

impl Finding {
    /// Items that have been there for long while no consumer has a claim.
    pub fn unread(path: &str, queue: &Queue, now: SystemTime, limit: Duration) -> Option<Finding> {
        let item = queue.first.as_ref().filter(|_| queue.claims.is_empty())?;
        // What a session owns is the lock of a consumer of Curator, which is named as the item that it is for.
        item.stat.filter(|stat| stat.session_id.is_none())?;
        let age = now.duration_since(item.ready_since()?).ok().filter(|age| *age >= limit)?;
        let items = count(queue.depth, "item", "items");
        let what = format!(
            "no consumer seems to read this queue of {items}: none is claimed, and {} has been ready for {}",
            item.name(),
            rounded(age)
        );
        let next = format!(
            "start a consumer, or look at the log of one: it may be refused or wait after a failure; zkr queue take \
             {path} takes an item by hand"
        );
        Some(Finding::warning(path, what, next))
    }

    /// Items that have failed too often: only a person takes them from there.
    pub fn dead_letters(path: &str, queue: &Queue) -> Option<Finding> {
        let letters = queue.dead_letters.len();
        let items = count(letters, "dead letter: an item", "dead letters: items");
        let what = format!("{items} that consumers have given up");
        let next = format!(
            "look at them (zkr queue dead ls {path}), then put them back (dead retry) or delete them (dead drop)"
        );
        (letters > 0).then(|| Finding::warning(path, what, next))
    }
}
