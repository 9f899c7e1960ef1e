//! The znodes of a queue: their paths, names and order.

mod key;

use std::sync::Arc;

use self::key::BASE;
pub(crate) use self::key::{Key, Place, TIMES};
use super::kazoo;
use super::parts::{NUMBER_BYTES, before_number};
use crate::util::path::join;

/// The prefix of the names of dead letters. It differs from that of items, because another queue may keep its items
/// where this one keeps its letters.
const LETTER: &str = "letter-";
/// The prefix of the names of children that are created and deleted in one transaction, to wake consumers of Curator.
const WAKE: &str = "wake-";
/// The suffixes of the directories beside the queue.
pub(crate) const CLAIMS: &str = "-claims";
pub(crate) const PRODUCERS: &str = "-producers";
pub(crate) const DEAD: &str = "-dead";
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
    pub(crate) fn new_item(&self, key: &Key) -> String {
        join(&self.items, &format!("{BASE}{key}"))
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

/// Returns whether this is the name of an item: of Curator's `DistributedQueue`, or of its queues by priority, with a
/// delay or with ids.
pub(crate) fn is_item(name: &str) -> bool {
    Key::of(name).is_some()
}

/// Returns whether a node has a name that begins as that of an item, and is none.
pub(crate) fn is_foreign(name: &str) -> bool {
    name.starts_with(BASE) && !is_item(name)
}

/// Returns the items among the children of a queue, in the order of the queue.
pub(crate) fn in_order(mut children: Vec<String>) -> Vec<String> {
    children.retain(|name| is_item(name));
    children.sort_by_cached_key(|name| Place::of(name));
    children
}

/// Returns whether this is the name of an item in a queue of any kind: of one of Curator's, or of kazoo's.
pub(crate) fn is_item_of_any_kind(name: &str) -> bool {
    kazoo::is_entry(name) || is_item(name)
}

/// Returns whether this is the name of an item that may be delivered at this time, in milliseconds since 1970. The
/// delay of an item that was returned with one is not in its name.
pub(crate) fn is_due(name: &str, now: i64) -> bool {
    is_item(name) && delayed_until_ms(name).is_none_or(|time| time <= now)
}

/// Returns the end of the delay in the name of an item, in milliseconds since 1970. In a queue with ids, an id of
/// eleven digits and capitals up to F looks the same.
pub(crate) fn delayed_until_ms(name: &str) -> Option<i64> {
    match Key::of(name)? {
        Key::Time(time) => Some(time),
        Key::None | Key::Priority(_) | Key::Id(_) => None,
    }
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
        assert_eq!(paths.new_item(&Key::None), "/ns/g/q/queue-");
        assert_eq!(paths.new_item(&Key::Priority(5)), "/ns/g/q/queue-100000005");
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
    fn what_begins_as_an_item_and_is_none_is_foreign() {
        for name in
            ["queue-", "queue-x0000000001", "queue-||0000000001", "queue-5", "queue-|7FFFFFFFFFFFFFFF|0000000001"]
        {
            assert!(is_foreign(name) && in_order(vec![name.to_owned()]).is_empty(), "{name}");
        }
        for name in ["queue-0000000001", "lost+found", "wake-queue-0000000001", "queue-|my-id|0000000001"] {
            assert!(!is_foreign(name), "{name}");
        }
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
