//! Which nodes count, and what each of them is.

use super::super::line::is_session;
use super::super::role::Role;
use crate::layout::{kazoo, queue, semaphore};
use crate::util::path::{join, split};

/// The path that is examined: the nodes there and below, and the directories that a recipe has beside it.
#[derive(Debug)]
pub(super) struct Scope {
    path: String,
}

/// What a node is, by its path and owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A place in the line of its directory.
    Place(Role),
    /// A permit of the semaphore at this path.
    Permit {
        semaphore: String,
    },
    Item,
    /// A claim on the item at this path.
    Claim {
        item: String,
    },
    /// The dead letter of the item at this path.
    Letter {
        item: String,
    },
    /// Any other ephemeral node.
    Node,
    /// Nothing that a session holds.
    Other,
}

impl Scope {
    pub(super) fn new(path: &str) -> Scope {
        Scope { path: if path == "/" { String::new() } else { path.to_owned() } }
    }

    pub(super) fn contains(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(&*self.path) else { return false };
        let beside = [queue::CLAIMS, queue::PRODUCERS, queue::DEAD, kazoo::SEMAPHORE_LINE];
        let rest = beside.iter().find_map(|suffix| rest.strip_prefix(suffix)).unwrap_or(rest);
        rest.is_empty() || rest.starts_with('/')
    }
}

/// Returns what a node is.
pub(super) fn kind(path: &str, owner: i64) -> Kind {
    let (dir, name) = split(path);
    let is_ephemeral = is_session(owner);
    if let Some(role) = Role::of_node(name, is_ephemeral) {
        return Kind::Place(role);
    }
    if let Some(semaphore) = semaphore_of_leases(dir).filter(|_| semaphore::is_lease(name)) {
        return Kind::Permit { semaphore: semaphore.to_owned() };
    }
    if queue::is_item_of_any_kind(name) {
        return match items_of_claims(dir) {
            Some(items) => Kind::Claim { item: join(&items, name) },
            // No producer puts an item that ends with a session: it is the lock of one, at a path of its own.
            None if is_ephemeral => Kind::Node,
            None => Kind::Item,
        };
    }
    match dir.strip_suffix(queue::DEAD).zip(queue::item_of_letter(name)) {
        Some((items, item)) => Kind::Letter { item: join(items, item) },
        None if is_ephemeral => Kind::Node,
        None => Kind::Other,
    }
}

/// Returns the session that owns a node, if it is one.
pub(super) fn session(owner: i64) -> Option<i64> {
    Some(owner).filter(|owner| is_session(*owner))
}

/// Returns the semaphore whose leases are in this directory.
fn semaphore_of_leases(dir: &str) -> Option<&str> {
    let (semaphore, name) = split(dir);
    (name == semaphore::LEASES).then_some(semaphore)
}

/// Returns the semaphore whose line may be in this directory: of Curator, of this library, or of kazoo.
pub(super) fn semaphore_of_line(dir: &str) -> Option<&str> {
    let (semaphore, name) = split(dir);
    if name == semaphore::LINE { Some(semaphore) } else { kazoo::semaphore_of(dir) }
}

/// Returns the directory of the items whose claims are in this directory.
fn items_of_claims(dir: &str) -> Option<String> {
    let (above, name) = split(dir);
    if name == kazoo::TAKEN {
        Some(join(above, kazoo::ENTRIES))
    } else {
        dir.strip_suffix(queue::CLAIMS).map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_at_a_path_and_below_and_beside_it() {
        let scope = Scope::new("/a/q");
        for path in ["/a/q", "/a/q/x/y", "/a/q-claims/queue-0000000001", "/a/q-dead", "/a/q-__lock__/x__lock__1"] {
            assert!(scope.contains(path), "{path}");
        }
        for path in ["/a", "/a/qq", "/b/a/q", "/a/q-other/x", "/"] {
            assert!(!scope.contains(path), "{path}");
        }
        assert!(Scope::new("/").contains("/any"));
    }

    #[test]
    fn what_a_node_is() {
        let item = || "/q/queue-0000000001".to_owned();
        for (path, owner, expected) in [
            ("/l/_c_x-lock-0000000001", 1, Kind::Place(Role::Lock)),
            ("/l/by-hand-lock-0000000001", 0, Kind::Place(Role::Lock)),
            ("/l/db-lock-1", 0, Kind::Other),
            ("/s/leases/_c_x-lease-0000000001", 1, Kind::Permit { semaphore: "/s".to_owned() }),
            ("/q/queue-0000000001", 0, Kind::Item),
            ("/q-claims/queue-0000000001", 1, Kind::Claim { item: item() }),
            ("/q-dead/letter-queue-0000000001-0000000000", 0, Kind::Letter { item: item() }),
            ("/k/taken/entry-100-0000000001", 1, Kind::Claim { item: "/k/entries/entry-100-0000000001".to_owned() }),
            ("/locks/queue-0000000001", 1, Kind::Node),
            ("/controller", 1, Kind::Node),
            ("/config", 0, Kind::Other),
            ("/container", i64::MIN, Kind::Other),
        ] {
            assert_eq!(kind(path, owner), expected, "{path}");
        }
        assert_eq!(["/s/locks", "/k-__lock__", "/l"].map(semaphore_of_line), [Some("/s"), Some("/k"), None]);
    }
}
