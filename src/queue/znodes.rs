//! The znodes of a queue: where they are, what they are called, and in which order they come.
//!
//! Other kinds of queue (by priority, with a delay, with ids) differ from this one only in what stands between base and
//! number: that is decided here and nowhere else.

use std::sync::Arc;

use crate::path::join;

/// What the names of items begin with: Curator's.
const BASE: &str = "queue-";
/// What the names of dead letters begin with: another queue may have its items where this one has its letters.
const LETTER: &str = "letter-";
/// What the names of children begin with that are created only to be deleted.
const WAKE: &str = "wake-";
/// As long as the server's number is.
const NUMBER_BYTES: usize = 10;
/// What a listing has for each name besides its bytes: a length.
const LISTED_BYTES: usize = 4;

/// Where a queue keeps what; paths on the server but for the first.
#[derive(Debug)]
pub(super) struct Paths {
    /// The queue as its user calls it.
    pub(super) path: Arc<str>,
    pub(super) items: String,
    pub(super) claims: String,
    pub(super) producers: String,
    pub(super) dead: String,
    /// Consumers of Curator's use the same claims.
    pub(super) shared_with_curator: bool,
}

impl Paths {
    /// `full` makes a path of the server's of one of the user's.
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

    /// What a new item is created as; the server appends its number.
    pub(super) fn new_item(&self) -> String {
        join(&self.items, BASE)
    }

    /// A child of the queue that comes and goes when an item is returned.
    pub(super) fn wake(&self, name: &str) -> String {
        join(&self.items, &format!("{WAKE}{name}"))
    }

    /// The dead letters, as the user of this client would call them.
    pub(super) fn dead_letters(&self) -> String {
        format!("{}-dead", self.path)
    }

    /// One of them.
    pub(super) fn dead_letter(&self, name: &str) -> String {
        join(&self.dead_letters(), name)
    }

    /// What the dead letter of an item is created as; the server appends a number, as an item of the same name may have
    /// died before.
    pub(super) fn new_dead(&self, item: &str) -> String {
        join(&self.dead, &letter_of(item))
    }

    /// Where the queue keeps what is no claim, and for what.
    pub(super) fn taken(&self) -> [(&str, &'static str); 3] {
        [(&self.items, "its items"), (&self.producers, "its producers"), (&self.dead, "its dead letters")]
    }
}

/// What the name of an item's dead letter begins with.
pub(super) fn letter_of(item: &str) -> String {
    format!("{LETTER}{item}-")
}

/// The letters among the children of a directory, by when they were written.
pub(super) fn letters(mut children: Vec<String>) -> Vec<String> {
    children.retain(|name| name.starts_with(LETTER));
    children.sort_by(|one, other| one.rsplit('-').next().cmp(&other.rsplit('-').next()));
    children
}

/// Whether a node is an item of this kind of queue: the base and a number, nothing in between.
pub(super) fn is_item(name: &str) -> bool {
    let number = name.strip_prefix(BASE);
    number.is_some_and(|number| number.len() == NUMBER_BYTES && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a node is an item of another kind of queue: Curator's by priority, with a delay, with ids have more in their
/// names.
pub(super) fn is_foreign(name: &str) -> bool {
    name.starts_with(BASE) && !is_item(name)
}

/// The items among the children of a queue, the first one first.
pub(super) fn in_order(mut children: Vec<String>) -> Vec<String> {
    children.retain(|name| is_item(name));
    children.sort_unstable();
    children
}

/// How many items can be listed in an answer of so many bytes.
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
