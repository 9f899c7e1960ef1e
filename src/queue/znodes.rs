//! The znodes of a queue: their paths, names and order.
//!
//! Other kinds of queue (by priority, with a delay, with ids) differ from this one only in the part of the name between
//! base and number. This module alone decides that.

use std::sync::Arc;

use crate::path::join;

/// The prefix of the names of items, the same as Curator's.
const BASE: &str = "queue-";
/// The prefix of the names of dead letters: another queue may keep its items where this one keeps its letters.
const LETTER: &str = "letter-";
/// The prefix of the names of children that are created only to be deleted.
const WAKE: &str = "wake-";
/// The length of the number that the server appends.
const NUMBER_BYTES: usize = 10;
/// Bytes of a listing for each name besides the name itself: its length.
const LISTED_BYTES: usize = 4;

/// The paths of a queue; all but the first are paths on the server.
#[derive(Debug)]
pub(super) struct Paths {
    /// The path of the queue as the caller gave it.
    pub(super) path: Arc<str>,
    pub(super) items: String,
    pub(super) claims: String,
    pub(super) producers: String,
    pub(super) dead: String,
    /// Whether consumers of Curator use the same claims.
    pub(super) shared_with_curator: bool,
}

impl Paths {
    /// `full` converts a path of the caller to a path on the server.
    pub(super) fn new(path: &str, claims: Option<&str>, full: impl Fn(&str) -> String) -> Self {
        let beside = |what: &str| format!("{path}-{what}");
        Paths {
            path: path.into(),
            items: full(path),
            claims: full(claims.unwrap_or(&beside("claims"))),
            producers: full(&beside("producers")),
            dead: full(&beside("dead")),
            shared_with_curator: claims.is_some(),
        }
    }

    pub(super) fn item(&self, name: &str) -> String {
        join(&self.items, name)
    }

    pub(super) fn claim(&self, name: &str) -> String {
        join(&self.claims, name)
    }

    /// Returns the path with which a new item is created; the server appends its number.
    pub(super) fn new_item(&self) -> String {
        join(&self.items, BASE)
    }

    /// Returns the path of the child of the queue that is created and deleted when an item is returned.
    pub(super) fn wake(&self, name: &str) -> String {
        join(&self.items, &format!("{WAKE}{name}"))
    }

    /// Returns the directory of the dead letters, as a path of the caller.
    pub(super) fn dead_letters(&self) -> String {
        format!("{}-dead", self.path)
    }

    /// Returns the path of a dead letter, as a path of the caller.
    pub(super) fn dead_letter(&self, name: &str) -> String {
        join(&self.dead_letters(), name)
    }

    /// Returns the path with which the dead letter of an item is created. The server appends a number, because there
    /// may already be a dead letter of an item of the same name.
    pub(super) fn new_dead(&self, item: &str) -> String {
        join(&self.dead, &letter_of(item))
    }

    /// Returns the directories of the queue other than that of the claims, each with its use.
    pub(super) fn taken(&self) -> [(&str, &'static str); 3] {
        [(&self.items, "its items"), (&self.producers, "its producers"), (&self.dead, "its dead letters")]
    }
}

/// Returns the prefix of the name of an item's dead letter.
pub(super) fn letter_of(item: &str) -> String {
    format!("{LETTER}{item}-")
}

/// Returns the letters among the children of a directory, in the order in which they were written.
pub(super) fn letters(mut children: Vec<String>) -> Vec<String> {
    children.retain(|name| name.starts_with(LETTER));
    children.sort_by(|one, other| one.rsplit('-').next().cmp(&other.rsplit('-').next()));
    children
}

/// Returns whether a node is an item of this kind of queue: the base and a number, and nothing in between.
pub(super) fn is_item(name: &str) -> bool {
    let number = name.strip_prefix(BASE);
    number.is_some_and(|number| number.len() == NUMBER_BYTES && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether a node is an item of another kind of queue: Curator's queues by priority, with a delay, and with ids
/// have longer names.
pub(super) fn is_foreign(name: &str) -> bool {
    name.starts_with(BASE) && !is_item(name)
}

/// Returns the items among the children of a queue, the oldest first.
pub(super) fn in_order(mut children: Vec<String>) -> Vec<String> {
    children.retain(|name| is_item(name));
    children.sort_unstable();
    children
}

/// Returns how many items an answer of this many bytes can list.
pub(super) fn listable(bytes: usize) -> usize {
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
}
