//! The failed deliveries of an item, recorded in the item's own node, where all consumers read them.
//!
//! Each claim raises the data version of the item. A consumer that returns the item writes a record into it: how many
//! deliveries have failed as of the version that this write makes. Every version above that is a claim that ended
//! without a record, with its session, so it counts as failed. An item without a record has had only such claims. The
//! record also has the time before which no consumer claims the item again, and the delay that ends then. The time is
//! one of the clock of the consumer that wrote it, so a reader waits no longer than the delay, however wrong the time.
//!
//! The record is text after the end mark of the items, where neither Curator nor earlier versions of this library read.
//! It names the transaction that created the item: in a copy of the item, which Curator makes after a failure, it does
//! not apply.

use std::time::Duration;

use super::dead_letter::one_line;
use super::{envelope, time};

/// The beginning of a record. It cannot occur again within the record, because an error is one line.
const BEGIN: &[u8] = b"\nfailures: ";
/// The longest delay of an item that is returned. A longer one in a record is not of this library, and is ignored.
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The failed deliveries of an item, as of a claim on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct History {
    /// The number of bytes before the record.
    pub(super) body: usize,
    /// The number of failed deliveries.
    pub(super) failures: u32,
    /// How many of these, the last ones, ended with their sessions.
    unrecorded: u32,
    /// The error of the last delivery that was reported as failed.
    error: Option<String>,
    /// Until when no consumer claims the item.
    pub(super) retry: Option<Retry>,
}

/// Until when no consumer claims an item that was returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retry {
    /// The time of day, in milliseconds since 1970.
    pub(super) at: i64,
    /// The delay that ends then. A record that was edited by hand may have none.
    pub(super) delay: Option<Duration>,
}

impl Retry {
    /// Returns how long a consumer waits that first reads this now, in milliseconds since 1970. Returns `None` if it is
    /// longer than any delay may be.
    pub(super) fn left(&self, now: i64) -> Option<Duration> {
        let left = time::between(now, self.at);
        let delay = self.delay.unwrap_or(left);
        (delay <= LONGEST_DELAY).then_some(left.min(delay))
    }
}

/// What a record says.
#[derive(Debug, Default)]
struct Record {
    failures: u32,
    /// The data version that it applies to.
    version: i32,
    error: Option<String>,
    retry: Option<Retry>,
}

impl History {
    /// Reads the history from the data of an item's node, which the transaction `created` created and which has the
    /// data version `version`.
    pub(super) fn read(node: &[u8], created: i64, version: i32) -> Self {
        let end = envelope::length(node).unwrap_or(node.len());
        let begin = node[end..].windows(BEGIN.len()).rposition(|bytes| bytes == BEGIN).map(|at| end + at);
        let body = begin.unwrap_or(node.len());
        let recorded = recorded(&node[body..], created).filter(|record| record.version <= version);
        let Record { failures, version: at, error, retry } = recorded.unwrap_or_default();
        let unrecorded = u32::try_from(version.wrapping_sub(at)).unwrap_or(u32::MAX);
        History { body, failures: failures.saturating_add(unrecorded), unrecorded, error, retry }
    }

    /// Returns the history after one more delivery, which failed with this error. No consumer is to claim the item
    /// before `retry` is over.
    pub(super) fn failed(&self, error: &str, retry: Option<Retry>) -> Self {
        let (failures, error) = (self.failures.saturating_add(1), Some(one_line(error)));
        History { failures, error, retry, ..self.clone() }
    }

    /// Returns the history after a delivery that does not count. Its claim shows that the delay is over.
    pub(super) fn unhandled(&self) -> Self {
        History { retry: None, ..self.clone() }
    }

    /// Returns the record for a write that makes the data version `version`.
    pub(super) fn record(&self, created: i64, version: i32) -> Vec<u8> {
        let History { failures, error, retry, .. } = self;
        let retry = retry.map_or(String::new(), |Retry { at, delay }| {
            let delay =
                delay.map_or(String::new(), |delay| format!("delay: {}\n", delay.as_nanos().div_ceil(1_000_000)));
            format!("retry: {at}\n{delay}")
        });
        let error = error.as_ref().map_or(String::new(), |error| format!("error: {error}\n"));
        format!("\nfailures: {failures}\nversion: {version}\nitem: {created:#x}\n{retry}{error}").into_bytes()
    }

    /// Returns why the item is not delivered any more: the last error that was reported, if there was one.
    pub(super) fn reason(&self) -> String {
        match (&self.error, self.unrecorded) {
            (Some(error), 0) => error.clone(),
            (Some(error), later) => {
                format!("{error} (then it was claimed {later} times, up to the end of the session)")
            }
            (None, _) => format!("it was claimed {} times, up to the end of the session", self.failures),
        }
    }
}

/// Parses a record. Returns `None` if it does not belong to the item that the transaction `created` created. Lines that
/// other versions of this library have added are ignored.
fn recorded(record: &[u8], created: i64) -> Option<Record> {
    let record = std::str::from_utf8(record).ok()?;
    let line = |key: &str| record.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    let is_its_own = line("item")? == format!("{created:#x}");
    let recorded = Record {
        failures: line("failures")?.parse().ok()?,
        version: line("version")?.parse().ok()?,
        error: line("error").map(str::to_owned),
        retry: line("retry").and_then(|time| time.parse().ok()).map(|at| Retry {
            at,
            delay: line("delay").and_then(|delay| delay.parse().ok()).map(Duration::from_millis),
        }),
    };
    is_its_own.then_some(recorded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_record(body: &[u8], history: &History, created: i64, version: i32) -> Vec<u8> {
        [body, &history.record(created, version)].concat()
    }

    #[test]
    fn claims_without_a_record_count_and_what_is_recorded_replaces_their_number() {
        let body = envelope::encode(&["a", "b"]);
        let claimed_thrice = History::read(&body, 7, 3);
        assert_eq!((claimed_thrice.failures, claimed_thrice.body), (3, body.len()));
        // The fourth claim was released, which is a write too.
        let node = with_record(&body, &claimed_thrice, 7, 5);
        assert_eq!((History::read(&node, 7, 5).failures, History::read(&node, 7, 6).failures), (3, 4));
        let failed = History::read(&node, 7, 5).failed("no\nsuch street", None);
        let node = with_record(&body, &failed, 7, 7);
        let read = History::read(&node, 7, 7);
        assert_eq!((read.failures, read.body, read.reason()), (4, body.len(), "no such street".to_owned()));
        let crashed = History::read(&node, 7, 9);
        assert_eq!(crashed.failures, 6);
        assert!(crashed.reason().starts_with("no such street (then it was claimed 2 times"), "{}", crashed.reason());
        assert_eq!(envelope::decode(&node).expect("the items"), [b"a", b"b"], "the record is behind the end");
    }

    #[test]
    fn a_record_of_another_item_does_not_apply_and_is_replaced() {
        let body = envelope::encode(&["a"]);
        let node = with_record(&body, &History::default().failed("x", None), 7, 9);
        let copied = History::read(&node, 8, 1);
        assert_eq!((copied.failures, copied.body, &copied.error), (1, body.len(), &None));
        let long_ago = History::read(&node, 7, 2);
        assert_eq!(long_ago.failures, 2, "it was not written by a consumer");
    }

    #[test]
    fn other_bytes_behind_the_end_are_kept_and_a_record_that_cannot_be_read_is_none() {
        let body = [envelope::encode(&["\nfailures: 3"]), b"\nfailure: no\xff".to_vec()].concat();
        assert_eq!(
            History::read(&body, 7, 2),
            History { body: body.len(), failures: 2, unrecorded: 2, ..History::default() }
        );
        let node = with_record(&body, &History::default().failed("x", None), 7, 1);
        assert_eq!((History::read(&node, 7, 1).body, History::read(&node, 7, 1).failures), (body.len(), 1));
        for nonsense in [&b"nonsense\nfailures: 1\n"[..], b"", b"\nfailures: \nitem: 0x7\n"] {
            assert_eq!(
                (History::read(nonsense, 7, 2).failures, History::read(nonsense, 7, 2).body),
                (2, nonsense.len())
            );
        }
    }

    #[test]
    fn the_time_of_the_next_delivery_is_that_of_the_last_failure_and_other_lines_are_ignored() {
        let body = envelope::encode(&["a"]);
        let retry = Retry { at: i64::MAX, delay: Some(Duration::from_millis(1_500)) };
        let node = with_record(&body, &History::default().failed("retry: 5", Some(retry)), 7, 2);
        assert_eq!(History::read(&node, 7, 3).retry, Some(retry), "a claim keeps it");
        assert_eq!(History::read(&node, 7, 3).unhandled().retry, None, "whose claim is released");
        assert_eq!(History::read(&node, 8, 3).retry, None, "of a copy it is not the time");
        let again = with_record(&body, &History::read(&node, 7, 3).failed("x", None), 7, 4);
        assert_eq!(History::read(&again, 7, 4).retry, None);
        let earlier = b"\nfailures: 2\nversion: 5\nitem: 0x7\nerror: retry: 5\n";
        let read = History::read(&[&body[..], earlier].concat(), 7, 5);
        assert_eq!((read.failures, read.retry), (2, None), "of an earlier version of this library");
        let later = b"\nfailures: 2\nversion: 5\nitem: 0x7\nretry: soon\nmore: 3\n";
        let read = History::read(&[&body[..], later].concat(), 7, 5);
        assert_eq!((read.failures, read.retry), (2, None), "of a later one");
    }

    #[test]
    fn a_reader_waits_no_longer_than_the_delay_and_for_none_that_is_too_long() {
        let left = |at, delay: Option<u64>| Retry { at, delay: delay.map(Duration::from_secs) }.left(1_000);
        let secs = |secs| Some(Duration::from_secs(secs));
        let longest = LONGEST_DELAY.as_secs();
        assert_eq!([left(6_000, Some(9)), left(6_000, None), left(0, Some(9))], [secs(5), secs(5), secs(0)]);
        assert_eq!(left(i64::MAX, Some(9)), secs(9), "the clock of the writer is fast");
        assert_eq!(left(i64::MAX, Some(longest)), secs(longest));
        assert_eq!([left(i64::MAX, Some(longest + 1)), left(i64::MAX, None), left(0, Some(longest + 1))], [None; 3]);
    }
}
