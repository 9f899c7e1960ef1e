//! Decides by a node's name how much of it is read.

use super::super::role::Role;
use crate::layout::parts::is_uuid;
use crate::layout::throughput_balancer::MAXIMUM;
use crate::layout::{partition_assigner, queue, semaphore, throughput_balancer};

/// What a directory may be, according to those beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Among {
    /// It has claims on items.
    Claims,
    /// It has the records of members of an assigner, whose names may be anything.
    Records,
    /// It has the partitions that members of an assigner hold.
    Owned,
}

/// What is read of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nothing: its name says enough.
    Nothing,
    /// Its data first, because it is expected to have no children.
    Data,
    /// Its children first.
    Children,
}

impl Reading {
    /// Returns what is read of a child with this name in such a directory.
    pub(super) fn of(name: &str, among: Option<Among>) -> Reading {
        if among == Some(Among::Records) {
            Reading::Data
        } else if among == Some(Among::Owned) && partition_assigner::read_owned(name).is_some() {
            Reading::Nothing
        } else if queue::is_item_of_any_kind(name) {
            if among == Some(Among::Claims) { Reading::Data } else { Reading::Nothing }
        } else if queue::is_letter(name) || throughput_balancer::is_ack(name) {
            Reading::Nothing
        } else if Role::of(name).is_some()
            || semaphore::is_lease(name)
            || throughput_balancer::is_member(name)
            || is_uuid(name)
            || name == MAXIMUM
        {
            Reading::Data
        } else {
            Reading::Children
        }
    }
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
            assert_eq!(Reading::of(&name, None), reading, "{name}");
        }
        assert_eq!(Reading::of("queue-0000000001", Some(Among::Claims)), Reading::Data);
        assert_eq!(Reading::of("queue-0000000001", Some(Among::Records)), Reading::Data);
        let owned = "7~0123456789abcdef.1";
        let of_owned = [Some(Among::Owned), None, Some(Among::Records)].map(|among| Reading::of(owned, among));
        assert_eq!(of_owned, [Reading::Nothing, Reading::Children, Reading::Data]);
        assert_eq!(Reading::of("7", Some(Among::Owned)), Reading::Children);
    }
}
