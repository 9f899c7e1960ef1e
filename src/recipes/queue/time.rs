//! Times of day in the names and records of items, in milliseconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::layout::queue;

/// Returns whether the node of a queue with this name is an item that may be delivered at this time: one that was put
/// without a time, or whose time has come. This is the rule of the consumers, for programs that list a queue.
///
/// The name does not say whether a consumer has claimed the item, nor whether it was returned with a delay that is not
/// over.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use zookeeper_recipes::queue::is_due;
///
/// let now = UNIX_EPOCH + Duration::from_millis(0x19f_9a4a_7a00);
/// assert!(is_due("queue-0000000001", now));
/// assert!(is_due("queue-|19F9A4A7A00|0000000001", now));
/// assert!(!is_due("queue-|19F9A4A7A01|0000000001", now), "a millisecond early");
/// assert!(!is_due("not-an-item", now));
/// ```
pub fn is_due(name: &str, now: SystemTime) -> bool {
    queue::is_due(name, millis_at(now))
}

/// Returns the last millisecond that has begun by `time`.
pub(super) fn millis_at(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        // A clock that was never set.
        Err(_) => 0,
    }
}

/// Returns the first millisecond in which `delay` is over that begins at `time`. It is rounded up, so that no item is
/// delivered too early.
pub(super) fn millis_after(time: SystemTime, delay: Duration) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(delay);
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    if since.subsec_nanos().is_multiple_of(1_000_000) { millis } else { millis.saturating_add(1) }
}

/// Returns the time from one millisecond to a later one.
pub(super) fn between(earlier: i64, later: i64) -> Duration {
    Duration::from_millis(later.saturating_sub(earlier).try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_never_rounded_to_an_earlier_one() {
        let at = |nanos| UNIX_EPOCH + Duration::from_nanos(nanos);
        assert_eq!((millis_at(at(2_999_999)), millis_at(at(3_000_000))), (2, 3));
        let after = |nanos, delay| millis_after(at(nanos), Duration::from_nanos(delay));
        assert_eq!([after(1, 0), after(0, 0), after(500_000, 500_000), after(500_000, 500_001)], [1, 0, 1, 2]);
        assert_eq!(millis_after(at(7), Duration::MAX), i64::MAX);
        assert_eq!(millis_at(UNIX_EPOCH - Duration::from_secs(1)), 0);
        assert_eq!([between(3, 5), between(5, 3)], [Duration::from_millis(2), Duration::ZERO]);
    }

    #[test]
    fn what_is_due_is_an_item_whose_time_has_come() {
        let now = UNIX_EPOCH + Duration::from_millis(0x19f_9a4a_7a00);
        for name in ["0000000001", "1000000050000000001", "|my-id|0000000001", "|19F9A4A7A00|0000000001"] {
            assert!(is_due(&format!("queue-{name}"), now), "{name}");
        }
        for name in ["|100000000042|0000000001", "|1785000000000|0000000001", "0FFFFFFFF0000000001"] {
            assert!(is_due(&format!("queue-{name}"), now), "{name}");
        }
        let never = "queue-|7FFFFFFFFFFFFFFF|0000000001";
        let foreign = ["queue-", "queue-1", "queue-x0000000001", "queue-||0000000001", "queue-|a0000000001"];
        let others = ["queue-|19F9A4A7A01|0000000001", never, "wake-queue-0000000001", "x"];
        for name in foreign.into_iter().chain(others) {
            assert!(!is_due(name, now), "{name}");
        }
    }
}
