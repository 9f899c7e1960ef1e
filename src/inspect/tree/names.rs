//! The names of nodes, and what of a node is read because of its name.
//!
//! They are those of the recipes, which are in higher layers. The tests create each of these nodes by its recipe.

use super::super::role::Role;
use crate::contender::order::number_of;

/// Of a semaphore, below its path.
pub(super) const LOCKS: &str = "locks";
pub(super) const LEASES: &str = "leases";
const LEASE: &str = "lease-";
/// Of kazoo's semaphore, beside its path. Its leases are in the path itself.
pub(super) const KAZOO_LOCKS: &str = "-__lock__";

/// Of a double barrier.
pub(super) const READY: &str = "ready";

/// Of a queue. The directories are beside its path.
pub(super) const CLAIMS: &str = "-claims";
pub(super) const PRODUCERS: &str = "-producers";
pub(super) const DEAD: &str = "-dead";
const ITEM: &str = "queue-";
/// Of kazoo's `Queue`, in its path, and of its `LockingQueue`, in directories below its path.
const ENTRY: &str = "entry-";
pub(super) const ENTRIES: &str = "entries";
pub(super) const TAKEN: &str = "taken";
const LETTER: &str = "letter-";

/// Of a throughput balancer, below its path.
pub(super) const LEADER: &str = "leader";
pub(super) const CONFIG: &str = "global-config";
pub(super) const MAXIMUM: &str = "max-throughput";
pub(super) const MEMBERS: &str = "client";
pub(super) const ACKS: &str = "ack";
pub(super) const EPOCH: &str = "epoch";
const MEMBER: &str = "client-";
const ACKNOWLEDGED: char = '~';

/// The length of the number that a server appends.
const NUMBER_BYTES: usize = 10;
/// The sign and the hexadecimal digits of a priority, in the names of Curator's `DistributedPriorityQueue`.
const PRIORITY_BYTES: usize = 9;
/// The hexadecimal digits of a time in milliseconds, from 2004 to 10889.
const TIME_DIGITS: std::ops::RangeInclusive<usize> = 11..=12;
/// The digits of a priority, in the names of kazoo's queues.
const KAZOO_PRIORITY_BYTES: usize = 3;
/// The lengths of the parts of a UUID.
const UUID: [usize; 5] = [8, 4, 4, 4, 12];
/// The length of a UUID as kazoo writes it.
const HEX_BYTES: usize = 32;

/// What is read of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing: its name tells enough.
    Nothing,
    /// Its data first, as it is expected to have no children.
    Data,
    /// Its children first.
    Children,
}

impl Reading {
    /// Returns what is read of a child with this name. `among_claims` tells whether it may be a claim on an item.
    pub(super) fn of(name: &str, among_claims: bool) -> Reading {
        if is_item(name) {
            if among_claims { Reading::Data } else { Reading::Nothing }
        } else if is_letter(name) || is_ack(name) {
            Reading::Nothing
        } else if Role::of(name).is_some()
            || is_lease(name)
            || is_balancer_member(name)
            || is_uuid(name)
            || name == MAXIMUM
        {
            Reading::Data
        } else {
            Reading::Children
        }
    }
}

/// Returns whether it is a lease of a semaphore.
pub(super) fn is_lease(name: &str) -> bool {
    number_of(name, &[LEASE]).is_some()
}

/// Returns whether it is an item of a queue: the base and a number, and between them what Curator's queues by priority,
/// with a delay, and with ids write there, or kazoo's queues.
pub(super) fn is_item(name: &str) -> bool {
    is_entry(name) || is_item_of_curator(name)
}

fn is_entry(name: &str) -> bool {
    let priority = name.strip_prefix(ENTRY).and_then(before_number).and_then(|priority| priority.strip_suffix('-'));
    priority
        .is_some_and(|digits| digits.len() == KAZOO_PRIORITY_BYTES && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_item_of_curator(name: &str) -> bool {
    let parts = name.strip_prefix(ITEM).and_then(before_number);
    parts.is_some_and(|between| {
        let is_priority =
            between.len() == PRIORITY_BYTES && between.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
        let is_marked = between.len() > 2 && between.starts_with('|') && between.ends_with('|');
        between.is_empty() || is_priority || is_marked
    })
}

/// Returns when the delay ends that the name of an item has: in milliseconds since 1970, in hexadecimal digits, as
/// Curator's `DistributedDelayQueue` writes it. In a queue with ids, an id of such digits and capitals looks the same.
pub(super) fn delayed_until_ms(name: &str) -> Option<i64> {
    let marked = name.strip_prefix(ITEM).and_then(before_number)?;
    let digits = marked.strip_prefix('|')?.strip_suffix('|')?;
    let is_time = TIME_DIGITS.contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte));
    is_time.then(|| i64::from_str_radix(digits, 16).ok()).flatten()
}

/// Returns what is less the longer an item has been ready: the end of its delay, or the number that the server gave it.
pub(super) fn age_of(name: &str) -> (Option<i64>, Option<u64>) {
    let number = name.len().checked_sub(NUMBER_BYTES).and_then(|at| name.get(at..)?.parse().ok());
    (delayed_until_ms(name), number)
}

/// Returns whether it is a dead letter of a queue.
pub(super) fn is_letter(name: &str) -> bool {
    let letter = name.strip_prefix(LETTER).and_then(before_number);
    letter.and_then(|item| item.strip_suffix('-')).is_some_and(is_item)
}

/// Returns whether it is the record of a member of a throughput balancer.
pub(super) fn is_balancer_member(name: &str) -> bool {
    name.strip_prefix(MEMBER).and_then(before_number) == Some("")
}

/// Returns whether it is the acknowledgement of a member of a throughput balancer.
pub(super) fn is_ack(name: &str) -> bool {
    let parts = name.split_once(ACKNOWLEDGED);
    parts.is_some_and(|(member, decision)| {
        let is_decision =
            |(epoch, sequence): (&str, &str)| epoch.parse::<i64>().is_ok() && sequence.parse::<u64>().is_ok();
        is_balancer_member(member) && decision.split_once('.').is_some_and(is_decision)
    })
}

/// Returns whether it is a UUID and nothing else: a member of a double barrier, or a producer of a queue.
pub(super) fn is_uuid(name: &str) -> bool {
    let parts = name.split('-').map(str::len);
    is_hex_uuid(name) || (parts.eq(UUID) && name.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()))
}

/// Returns whether it is a UUID without hyphens: a member of kazoo's double barrier, or a lease of its semaphore.
pub(super) fn is_hex_uuid(name: &str) -> bool {
    name.len() == HEX_BYTES && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns what is before the number at the end of a name.
fn before_number(name: &str) -> Option<&str> {
    let (before, number) = name.split_at_checked(name.len().checked_sub(NUMBER_BYTES)?)?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(before)
}

/// Returns the path of kazoo's semaphore whose line this directory may have.
pub(super) fn kazoo_semaphore_of(directory: &str) -> Option<&str> {
    directory.strip_suffix(KAZOO_LOCKS).filter(|path| !path.is_empty() && !path.ends_with('/'))
}

/// Returns the path of the queue whose claims, producers or dead letters this directory may have.
pub(super) fn queue_of(directory: &str) -> Option<&str> {
    let queue = [CLAIMS, PRODUCERS, DEAD].iter().find_map(|suffix| directory.strip_suffix(suffix))?;
    (!queue.is_empty() && !queue.ends_with('/')).then_some(queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_of_a_node() {
        let uuid = "8d2b5a0e-6a86-4c3c-8a27-3f1f5f4c9a01";
        let names = [
            ("queue-0000000001".to_owned(), Reading::Nothing),
            ("queue-1000000FF0000000002".to_owned(), Reading::Nothing),
            ("queue-|19F9A4A7A00|0000000001".to_owned(), Reading::Nothing),
            ("letter-queue-0000000001-0000000009".to_owned(), Reading::Nothing),
            ("client-0000000003~12.7".to_owned(), Reading::Nothing),
            (format!("_c_{uuid}-lock-0000000001"), Reading::Data),
            (format!("_c_{uuid}-lease-0000000001"), Reading::Data),
            ("client-0000000003".to_owned(), Reading::Data),
            ("max-throughput".to_owned(), Reading::Data),
            (uuid.to_owned(), Reading::Data),
            (uuid.replace('-', ""), Reading::Data),
            ("entry-100-0000000001".to_owned(), Reading::Nothing),
            ("entry-0000000001".to_owned(), Reading::Children),
            ("entry-10-0000000001".to_owned(), Reading::Children),
            (format!("{}__party__", uuid.replace('-', "")), Reading::Children),
            (format!("queue-{uuid}"), Reading::Children),
            ("queue-".to_owned(), Reading::Children),
            ("queue-äöü00000000".to_owned(), Reading::Children),
            ("letter-0000000001".to_owned(), Reading::Children),
            ("letter-of-mine".to_owned(), Reading::Children),
            ("client-3".to_owned(), Reading::Children),
            ("client-0000000003~x".to_owned(), Reading::Children),
            ("ready".to_owned(), Reading::Children),
            (String::new(), Reading::Children),
        ];
        for (name, reading) in names {
            assert_eq!(Reading::of(&name, false), reading, "{name}");
        }
        assert_eq!(Reading::of("queue-0000000001", true), Reading::Data);
    }

    #[test]
    fn the_delay_in_the_name_of_an_item() {
        assert_eq!(delayed_until_ms("queue-|19F9A4A7A00|0000000001"), Some(0x19f_9a4a_7a00));
        let others =
            ["|user-7|", "|-19F9A4A7A0|", "|19f9a4a7a00|", "|1|", "||", "", "|7FFFFFFFFFFFFFFF|", "|+19F9A4A7A00|"];
        for between in others {
            assert_eq!(delayed_until_ms(&format!("queue-{between}0000000001")), None, "{between}");
        }
    }

    #[test]
    fn the_item_that_is_ready_first() {
        let oldest = |names: &[&'static str]| names.iter().copied().min_by_key(|name| age_of(name));
        let [urgent, late] = ["queue-0FFFFFFFF0000000009", "queue-1000000FF0000000002"];
        assert_eq!(oldest(&[urgent, late]), Some(late), "whatever its priority");
        assert_eq!(oldest(&["entry-100-0000000003", "entry-200-0000000002"]), Some("entry-200-0000000002"));
        let [soon, later] = ["queue-|19F9A4A7A00|0000000009", "queue-|19F9A4A7A01|0000000002"];
        assert_eq!(oldest(&[later, soon]), Some(soon));
    }

    #[test]
    fn the_queue_of_a_directory_beside_it() {
        assert_eq!(["/q-claims", "/a/q-dead", "/q-producers"].map(queue_of), [Some("/q"), Some("/a/q"), Some("/q")]);
        assert_eq!(["/q", "/-claims", "/a/-dead", "-dead", "/"].map(queue_of), [None; 5]);
        assert_eq!(
            ["/s-__lock__", "/s", "/-__lock__", "/a/-__lock__"].map(kazoo_semaphore_of),
            [Some("/s"), None, None, None]
        );
    }
}
