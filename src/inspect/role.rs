//! What the name of a node says: what its owner wants, and which other roles it excludes.

use std::fmt;

use crate::layout::kazoo;
use crate::layout::line::{self, number_of};
use crate::layout::parts::NUMBER_BYTES;

/// What the owner of a node in a line wants, according to the node's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Role {
    /// Wants to lead: `latch-N`, of a leader latch.
    Candidate,
    /// Wants to hold alone: `lock-N`, of a mutex, a leader selector, or the line of a semaphore.
    Lock,
    /// Wants to hold together with other readers: `__READ__N`, or kazoo's `__rlock__N`.
    Reader,
    /// Wants to hold alone, in the line of a read-write lock: `__WRIT__N`.
    Writer,
    /// Wants to hold alone: kazoo's `__lock__N`, which its `Lock`, its `WriteLock` and its `Election` all create. It
    /// also excludes mutexes, readers and writers, provided that each of them is configured to count its nodes.
    KazooLock,
}

/// The last part of a node's name before the number, and the role that it stands for.
const BASES: [(&str, Role); 6] = [
    (line::LATCH, Role::Candidate),
    (line::LOCK, Role::Lock),
    (line::READ, Role::Reader),
    (kazoo::READ, Role::Reader),
    (line::WRITE, Role::Writer),
    (kazoo::LOCK, Role::KazooLock),
];

/// Returns the bases of all roles, to order the nodes of a line.
pub(super) fn bases() -> [&'static str; 6] {
    BASES.map(|(base, _)| base)
}

impl Role {
    pub(super) const ALL: [Role; 5] = [Role::Candidate, Role::Lock, Role::Reader, Role::Writer, Role::KazooLock];

    /// Returns the role of a node with this name; `None` if it does not belong to a line.
    pub fn of(name: &str) -> Option<Role> {
        BASES.iter().find_map(|&(base, role)| number_of(name, &[base]).map(|_| role))
    }

    /// Returns the role of a node that has no children. A server appends ten digits. If the name has fewer, only an
    /// ephemeral node is a contender; any other is more likely the directory of a free lock, such as `db-lock-1`.
    pub(super) fn of_node(name: &str, is_ephemeral: bool) -> Option<Role> {
        Role::of(name).filter(|_| is_ephemeral || has_number_of_server(name))
    }

    /// Returns whether two nodes of one line with these roles never hold together.
    pub fn excludes(self, other: Role) -> bool {
        use Role::{Candidate, KazooLock, Lock, Reader, Writer};
        match (self, other) {
            (Candidate, Candidate) | (Lock, Lock) => true,
            (Candidate, _) | (_, Candidate) | (Reader, Reader) => false,
            (KazooLock, _) | (_, KazooLock) => true,
            // A mutex and a read-write lock at one path do not know each other.
            (Lock, _) | (_, Lock) => false,
            (Reader | Writer, Reader | Writer) => true,
        }
    }
}

/// Returns whether a server may have appended the number of this name: ten characters, including a sign.
fn has_number_of_server(name: &str) -> bool {
    let before = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name.len() - before.len() + usize::from(before.ends_with('-')) >= NUMBER_BYTES
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Candidate => "candidate",
            Role::Lock => "lock",
            Role::Reader => "reader",
            Role::Writer => "writer",
            Role::KazooLock => "kazoo lock",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_names_of_this_library_of_curator_and_of_kazoo() {
        let uuid = "8d2b5a0e-6a86-4c3c-8a27-3f1f5f4c9a01";
        let names = [
            (format!("_c_{uuid}-latch-0000000000"), Some(Role::Candidate)),
            (format!("_c_{uuid}-lock-0000000012"), Some(Role::Lock)),
            (format!("_c_{uuid}-__READ__0000000003"), Some(Role::Reader)),
            (format!("_c_{uuid}-__WRIT__0000000004"), Some(Role::Writer)),
            (format!("_c_{uuid}-lock--2147483648"), Some(Role::Lock)),
            ("8d2b5a0e6a864c3c8a273f1f5f4c9a01__lock__0000000005".to_owned(), Some(Role::KazooLock)),
            ("8d2b5a0e6a864c3c8a273f1f5f4c9a01__rlock__0000000006".to_owned(), Some(Role::Reader)),
            ("lock-latch-0000000001".to_owned(), Some(Role::Candidate)),
            (format!("_c_{uuid}-lease-0000000001"), None),
            ("queue-0000000001".to_owned(), None),
            ("client-0000000001".to_owned(), None),
            ("ready".to_owned(), None),
            ("lock-".to_owned(), None),
            (String::new(), None),
        ];
        for (name, role) in names {
            assert_eq!(Role::of(&name), role, "{name}");
        }
    }

    #[test]
    fn the_directory_of_a_lock_is_no_contender() {
        for name in ["db-lock-1", "my-latch-2025", "x__lock__1", "lock-12345678"] {
            assert_eq!((Role::of_node(name, true), Role::of_node(name, false)), (Role::of(name), None), "{name}");
        }
        for name in ["by-hand-lock-0000000001", "lock--2147483648", "x__lock__-000000001"] {
            assert_eq!((Role::of_node(name, false), Role::of(name).is_some()), (Role::of(name), true), "{name}");
        }
    }

    #[test]
    fn who_excludes_whom() {
        let excluded = |role: Role| Role::ALL.into_iter().filter(|&other| role.excludes(other)).collect::<Vec<_>>();
        assert_eq!(excluded(Role::Candidate), [Role::Candidate]);
        assert_eq!(excluded(Role::Lock), [Role::Lock, Role::KazooLock]);
        assert_eq!(excluded(Role::Reader), [Role::Writer, Role::KazooLock]);
        assert_eq!(excluded(Role::Writer), [Role::Reader, Role::Writer, Role::KazooLock]);
        assert_eq!(excluded(Role::KazooLock), [Role::Lock, Role::Reader, Role::Writer, Role::KazooLock]);
    }

    proptest! {
        #[test]
        fn any_name_has_at_most_one_role(
            name in "(_c_)?[a-z-]{0,6}(latch-|lock-|__READ__|__rlock__|__WRIT__|__lock__|x)?-?[0-9]{0,11}"
        ) {
            let fitting = BASES.iter().filter(|(base, _)| number_of(&name, &[base]).is_some()).count();
            prop_assert!(fitting <= 1);
            prop_assert_eq!(Role::of(&name).is_some(), fitting == 1);
            prop_assert_eq!(number_of(&name, &bases()).is_some(), fitting == 1);
        }
    }
}
