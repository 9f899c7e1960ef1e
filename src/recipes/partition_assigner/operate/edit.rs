//! The changes that operators make to the configuration of an assigner. No I/O.

use std::sync::Arc;

use super::super::name::{check_member, check_partition};
use crate::layout::partition_assigner::Config;

/// A change of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// The member should have the partition while it is present.
    Pin { partition: Arc<str>, member: String },
    /// The strategy decides again which member has the partition.
    Unpin { partition: Arc<str> },
    /// The member gets nothing.
    Drain { member: String },
    /// The member gets partitions again.
    Undrain { member: String },
    /// What absent members had is moved at once.
    Rebalance,
}

impl Edit {
    /// Returns whether `now` is as the change would leave it. A rebalance is visible once the count is above `since`,
    /// which was read earlier in the same call: then a leader acts on a request that is later than the call.
    pub(super) fn is_visible(&self, now: &Config, since: u64) -> bool {
        match self {
            Edit::Pin { partition, member } => now.pins.get(partition) == Some(member),
            Edit::Unpin { partition } => !now.pins.contains_key(partition),
            Edit::Drain { member } => now.drained.contains(member),
            Edit::Undrain { member } => !now.drained.contains(member),
            Edit::Rebalance => now.rebalances > since,
        }
    }

    /// Returns whether a write that this call has sent, at a version whose next one was read now, was surely not
    /// carried out, if the change is not visible in what was read.
    ///
    /// Most changes can be undone by a later write. A count only grows, as long as the node is the same.
    pub(super) fn is_refused(&self, now: &Config, since: u64, writes_since: i64) -> bool {
        match self {
            Edit::Rebalance => now.rebalances == since,
            _ => writes_since <= 1,
        }
    }

    /// Makes the change.
    pub(super) fn apply(&self, config: &mut Config) {
        match self {
            Edit::Pin { partition, member } => drop(config.pins.insert(Arc::clone(partition), member.clone())),
            Edit::Unpin { partition } => drop(config.pins.remove(partition)),
            Edit::Drain { member } => drop(config.drained.insert(member.clone())),
            Edit::Undrain { member } => drop(config.drained.remove(member)),
            Edit::Rebalance => config.rebalances = config.rebalances.saturating_add(1),
        }
    }

    /// Checks the names. The error names the value and what is allowed.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Edit::Pin { partition, member } => check_partition(partition).and_then(|()| check_member(member)),
            Edit::Unpin { partition } => check_partition(partition),
            Edit::Drain { member } | Edit::Undrain { member } => check_member(member),
            Edit::Rebalance => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition_assigner::name::MOST_ID_BYTES;

    fn edits() -> [Edit; 5] {
        let (partition, member) = (Arc::from("7"), "a".to_owned());
        [
            Edit::Pin { partition: Arc::clone(&partition), member: member.clone() },
            Edit::Unpin { partition },
            Edit::Drain { member: member.clone() },
            Edit::Undrain { member },
            Edit::Rebalance,
        ]
    }

    #[test]
    fn a_change_is_visible_where_it_was_made_and_nowhere_else() {
        let with = Config::parse(br#"{"pins":{"7":"a"},"drained":["a"],"rebalances":4,"later":1}"#).expect("a config");
        let other = Config::parse(br#"{"pins":{"7":"b"},"drained":["b"],"rebalances":3}"#).expect("a config");
        let visible = |config: &Config| edits().map(|edit| edit.is_visible(config, 3));
        assert_eq!(visible(&with), [true, false, true, false, true]);
        assert_eq!(visible(&other), [false, false, false, true, false]);
        assert_eq!(visible(&Config::default()), [false, true, false, true, false]);
        for edit in edits() {
            for config in [&with, &other, &Config::default()] {
                let mut changed = config.clone();
                edit.apply(&mut changed);
                assert!(edit.is_visible(&changed, config.rebalances), "{edit:?}");
                assert_eq!(changed.others, config.others, "{edit:?}");
            }
        }
    }

    #[test]
    fn a_write_of_another_client_shows_that_ours_was_refused() {
        let now = Config { rebalances: 3, ..Config::default() };
        let refused = |writes| edits().map(|edit| edit.is_refused(&now, 3, writes));
        assert_eq!(refused(1), [true; 5]);
        assert_eq!(refused(2), [false, false, false, false, true]);
        assert!(!Edit::Rebalance.is_refused(&now, 4, 0), "the node is another one");
    }

    #[test]
    fn names_that_no_node_can_have_are_refused_and_named() {
        for (name, why) in [
            ("", r#""": must not be empty"#),
            ("a/b", r#""a/b": must not contain '/'"#),
            (".", r#"".": must not contain "." or ".." as an element"#),
            ("a\u{1}", "control characters"),
        ] {
            let [pin, unpin, drain, ..] = [
                Edit::Pin { partition: name.into(), member: "a".to_owned() },
                Edit::Unpin { partition: name.into() },
                Edit::Drain { member: name.to_owned() },
                Edit::Undrain { member: name.to_owned() },
                Edit::Pin { partition: "7".into(), member: name.to_owned() },
            ]
            .map(|edit| edit.check().expect_err("it is refused"));
            for (error, what) in [(pin, "partition "), (unpin, "partition "), (drain, "member ")] {
                assert!(error.starts_with(what) && error.contains(why), "{error}");
            }
        }
        let long = Edit::Drain { member: "a".repeat(MOST_ID_BYTES + 1) };
        assert!(long.check().is_err_and(|why| why.contains("257 bytes; at most 256")));
        assert!(edits().iter().all(|edit| edit.check().is_ok()));
    }
}
