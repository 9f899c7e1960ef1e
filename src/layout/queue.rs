//! The znodes of a queue: their paths, names and order.
//!
//! Other kinds of queue (by priority, with a delay, with ids) differ from this one only in the part of the name between
//! base and number. Only this module knows that part.

use std::sync::Arc;

use super::kazoo;
use super::parts::{NUMBER_BYTES, before_number};
use crate::util::path::join;

/// The prefix of the names of items, the same as Curator's.
const BASE: &str = "queue-";
/// The prefix of the names of dead letters. It differs from that of items, because another queue may keep its items
/// where this one keeps its letters.
const LETTER: &str = "letter-";
/// The prefix of the names of children that are created and deleted in one transaction, to wake consumers of Curator.
const WAKE: &str = "wake-";
/// The suffixes of the directories beside the queue.
pub(crate) const CLAIMS: &str = "-claims";
pub(crate) const PRODUCERS: &str = "-producers";
pub(crate) const DEAD: &str = "-dead";
/// The length of a priority in the names of Curator's `DistributedPriorityQueue`: a sign and hexadecimal digits.
const PRIORITY_BYTES: usize = 9;
/// How many hexadecimal digits a time in milliseconds has, from 2004 to 10889.
const TIME_DIGITS: std::ops::RangeInclusive<usize> = 11..=12;
/// The size of a name's length field in a listing, in bytes.
const LISTED_BYTES: usize = 4;

/// The paths of a queue; all but the first are paths on the server.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The path of the queue as the caller gave it.
    pub(crate) path: Arc<str>,
    pub(crate) items: String,
    pub(crate) claims: String,
    pub(crate) producers: String,
    pub(crate) dead: String,
    /// Whether consumers of Curator use the same claims.
    pub(crate) shared_with_curator: bool,
}

impl Paths {
    /// `full` converts a path of the caller to a path on the server.
    pub(crate) fn new(path: &str, claims: Option<&str>, full: impl Fn(&str) -> String) -> Self {
        let beside = |end: &str| format!("{path}{end}");
        Paths {
            path: path.into(),
            items: full(path),
            claims: full(claims.unwrap_or(&beside(CLAIMS))),
            producers: full(&beside(PRODUCERS)),
            dead: full(&beside(DEAD)),
            shared_with_curator: claims.is_some(),
        }
    }

    pub(crate) fn item(&self, name: &str) -> String {
        join(&self.items, name)
    }

    pub(crate) fn claim(&self, name: &str) -> String {
        join(&self.claims, name)
    }

    /// Returns the path with which a new item is created; the server appends its number.
    pub(crate) fn new_item(&self) -> String {
        join(&self.items, BASE)
    }

    /// Returns the path of the child of the queue that is created and deleted when an item is returned.
    pub(crate) fn wake(&self, name: &str) -> String {
        join(&self.items, &format!("{WAKE}{name}"))
    }

    /// Returns the directory of the dead letters, as a path of the caller.
    pub(crate) fn dead_letters(&self) -> String {
        format!("{}{DEAD}", self.path)
    }

    /// Returns the path of a dead letter, as a path of the caller.
    pub(crate) fn dead_letter(&self, name: &str) -> String {
        join(&self.dead_letters(), name)
    }

    /// Returns the path with which the dead letter of an item is created. The server appends a number, because there
    /// may already be a dead letter of an item with the same name.
    pub(crate) fn new_dead(&self, item: &str) -> String {
        join(&self.dead, &letter_of(item))
    }

    /// Returns the directories of the queue, except for the directory of the claims, each with its use.
    pub(crate) fn own_directories(&self) -> [(&str, &'static str); 3] {
        [(&self.items, "its items"), (&self.producers, "its producers"), (&self.dead, "its dead letters")]
    }
}

/// Returns the prefix of the name of an item's dead letter.
fn letter_of(item: &str) -> String {
    format!("{LETTER}{item}-")
}

/// Returns the dead letters among the children of a directory, in the order in which they were written.
pub(crate) fn letters(mut children: Vec<String>) -> Vec<String> {
    children.retain(|name| name.starts_with(LETTER));
    children.sort_by(|one, other| one.rsplit('-').next().cmp(&other.rsplit('-').next()));
    children
}

/// Returns whether a node is an item of this kind of queue: its name is the base and a number, with nothing in between.
pub(crate) fn is_item(name: &str) -> bool {
    between(name) == Some("")
}

/// Returns whether a node is an item of another kind of queue: the names in Curator's queues by priority, with a delay,
/// and with ids are longer.
pub(crate) fn is_foreign(name: &str) -> bool {
    name.starts_with(BASE) && !is_item(name)
}

/// Returns the items among the children of a queue, the oldest first.
pub(crate) fn in_order(mut children: Vec<String>) -> Vec<String> {
    children.retain(|name| is_item(name));
    children.sort_unstable();
    children
}

/// Returns the part between the base and the number in the name of an item.
fn between(name: &str) -> Option<&str> {
    before_number(name.strip_prefix(BASE)?)
}

/// Returns whether this is the name of an item in a queue of any kind: of this one, of Curator's with a priority, a
/// delay or ids, or of kazoo's.
pub(crate) fn is_item_of_any_kind(name: &str) -> bool {
    kazoo::is_entry(name) || is_item_of_curator(name)
}

fn is_item_of_curator(name: &str) -> bool {
    between(name).is_some_and(|between| {
        let is_priority =
            between.len() == PRIORITY_BYTES && between.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
        let is_marked = between.len() > 2 && between.starts_with('|') && between.ends_with('|');
        between.is_empty() || is_priority || is_marked
    })
}

/// Returns the end of the delay in the name of an item, in milliseconds since 1970. Curator's `DistributedDelayQueue`
/// writes it in hexadecimal digits. In a queue with ids, an id of such digits and capitals looks the same.
pub(crate) fn delayed_until_ms(name: &str) -> Option<i64> {
    let digits = between(name)?.strip_prefix('|')?.strip_suffix('|')?;
    let is_time = TIME_DIGITS.contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte));
    is_time.then(|| i64::from_str_radix(digits, 16).ok()).flatten()
}

/// Returns a key by which the item that has been ready for the longest time comes first: the end of its delay and the
/// number that the server appended.
pub(crate) fn age_of(name: &str) -> (Option<i64>, Option<u64>) {
    let number = name.len().checked_sub(NUMBER_BYTES).and_then(|at| name.get(at..)?.parse().ok());
    (delayed_until_ms(name), number)
}

/// Returns whether this is the name of a dead letter.
pub(crate) fn is_letter(name: &str) -> bool {
    item_of_letter(name).is_some()
}

/// Returns the name of the item whose dead letter has this name.
pub(crate) fn item_of_letter(name: &str) -> Option<&str> {
    let item = before_number(name.strip_prefix(LETTER)?)?.strip_suffix('-')?;
    is_item_of_any_kind(item).then_some(item)
}

/// Returns the path of the queue whose claims, producers or dead letters may be in this directory.
pub(crate) fn queue_of(directory: &str) -> Option<&str> {
    let queue = [CLAIMS, PRODUCERS, DEAD].iter().find_map(|suffix| directory.strip_suffix(suffix))?;
    (!queue.is_empty() && !queue.ends_with('/')).then_some(queue)
}

/// Returns how many items an answer of this many bytes can list.
pub(crate) fn listable(bytes: usize) -> usize {
    bytes / (BASE.len() + NUMBER_BYTES + LISTED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_curators_and_the_rest_is_beside_the_queue() {
        let paths = Paths::new("/g/q", None, |path| format!("/ns{path}"));
        assert_eq!(&*paths.path, "/g/q");
        assert_eq!(paths.new_item(), "/ns/g/q/queue-");
        assert_eq!(paths.item("queue-0000000001"), "/ns/g/q/queue-0000000001");
        assert_eq!(paths.claim("queue-0000000001"), "/ns/g/q-claims/queue-0000000001");
        assert_eq!(paths.producers, "/ns/g/q-producers");
        assert_eq!(paths.new_dead("queue-0000000001"), "/ns/g/q-dead/letter-queue-0000000001-");
        let paths = Paths::new("/g/q", Some("/g/locks"), str::to_owned);
        assert_eq!(paths.claim("queue-0000000001"), "/g/locks/queue-0000000001", "Curator's lock path");
    }

    #[test]
    fn items_come_in_the_order_of_their_names_and_foreign_nodes_do_not() {
        let children = ["queue-0000000010", "lost+found", "queue-0000000009", "qn-0000000001"];
        let items = in_order(children.map(str::to_owned).to_vec());
        assert_eq!(items, ["queue-0000000009", "queue-0000000010"]);
    }

    #[test]
    fn items_of_other_kinds_of_queue_are_none() {
        for name in ["queue-|1A200D23C4E|0000000001", "queue-1000000050000000001", "queue-|my-id|0000000001", "queue-"]
        {
            assert!(is_foreign(name) && in_order(vec![name.to_owned()]).is_empty(), "{name}");
        }
        assert!(!is_foreign("queue-0000000001") && !is_foreign("lost+found") && !is_foreign("wake-queue-0000000001"));
    }

    #[test]
    fn letters_come_in_the_order_of_their_numbers_and_are_no_items() {
        let children = ["letter-queue-0000000001-0000000009", "queue-0000000001", "letter-queue-0000000007-0000000002"];
        let letters = letters(children.map(str::to_owned).to_vec());
        assert_eq!(letters, ["letter-queue-0000000007-0000000002", "letter-queue-0000000001-0000000009"]);
        assert_eq!(in_order(letters), [""; 0]);
    }

    #[test]
    fn as_many_items_as_a_megabyte_lists() {
        assert_eq!(listable(0xf_ffff), 52_428);
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
    }
}
