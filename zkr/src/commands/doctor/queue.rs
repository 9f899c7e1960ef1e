//! What can be wrong with queues: items that no consumer takes, and dead letters.

use std::time::{Duration, SystemTime};

use zookeeper_recipes::inspect::{Queue, Tree};

use super::finding::{Finding, argument, rounded};
use super::problem::Problem;
use crate::output::count;

impl Finding {
    /// Reports items that have been ready for long while none is claimed.
    pub fn unread(path: &str, queue: &Queue, tree: &Tree, now: SystemTime, limit: Duration) -> Option<Finding> {
        let item = queue.oldest.as_ref().filter(|_| queue.claims.is_empty() && may_see_claims(path, &tree.denied))?;
        // A node that a session owns is the lock of a Curator consumer, which has the name of its item.
        let stat = item.stat.filter(|stat| stat.session_id.is_none())?;
        // A consumer of this library writes to an item when it claims it.
        let since = item.ready_since()?.max(stat.modified());
        let age = now.duration_since(since).ok().filter(|age| *age >= limit)?;
        let (items, name) = (count(queue.depth, "item", "items"), item.name());
        let what = format!(
            "{items}, none claimed; {name} has been ready for {}: there is no consumer, or too few",
            rounded(age)
        );
        let next = format!(
            "start a consumer, or look at the log of one: it may lack permissions, or wait after failures (claims \
             outside {path}-claims are not seen, such as those in a lock path of Curator; an item that was returned \
             with a delay seems ready until then: see `retry` in its data)"
        );
        Some(Finding::warning(Problem::NoConsumer, path, what, next))
    }

    /// Reports items that consumers have given up on: they stay until a person handles them.
    pub fn dead_letters(path: &str, queue: &Queue) -> Option<Finding> {
        let letters = queue.dead_letters.len();
        let items = count(letters, "dead letter: an item", "dead letters: items");
        let what = format!("{items} that consumers have given up");
        let path_argument = argument(path);
        let next = format!(
            "look at them (zkr queue dead ls {path_argument}), then put them back (zkr queue dead retry --all \
             {path_argument}) or delete them (dead drop)"
        );
        (letters > 0).then(|| Finding::warning(Problem::DeadLetters, path, what, next))
    }
}

/// Returns whether nothing is hidden where a queue has its claims.
fn may_see_claims(path: &str, denied: &[String]) -> bool {
    let claims = [format!("{path}-claims"), format!("{}/taken", path.trim_end_matches('/'))];
    let hides = |denied: &str, claims: &str| {
        denied.strip_prefix(claims).is_some_and(|below| below.is_empty() || below.starts_with('/'))
    };
    !denied.iter().any(|denied| claims.iter().any(|claims| hides(denied, claims)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_seen_unless_their_own_directory_is_hidden() {
        let may_see = |path: &str, denied: &[&str]| {
            may_see_claims(path, &denied.iter().map(|denied| (*denied).to_owned()).collect::<Vec<_>>())
        };
        assert!(may_see("/q", &[]));
        for hidden in ["/q-claims", "/q-claims/queue-0000000001", "/q/taken", "/q/taken/queue-0000000001"] {
            assert!(!may_see("/q", &[hidden]), "{hidden}");
            assert!(!may_see("/q", &["/other", hidden]), "{hidden}");
        }
        for other in ["/q-claims-old", "/q-claims-old/a", "/q/takeno", "/other-claims", "/q-dead"] {
            assert!(may_see("/q", &[other]), "{other}");
        }
        assert!(!may_see("/", &["/taken"]));
    }
}
