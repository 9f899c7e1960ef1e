//! Places in the line of a lock.

use std::time::Duration;

use uuid::Uuid;

/// A pause before each measurement, in every column: a waiter reports that it waits before its last watch is armed, and
/// that request must not be measured.
pub(crate) const SETTLE: Duration = Duration::from_millis(1);

/// The part of a reader's name just before its number.
const READ: &str = "-__READ__";

/// How many permits a semaphore has.
pub(crate) const LEASES: u32 = 3;

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    Read,
    Write,
    /// A permit of a semaphore.
    Lease,
}

impl Kind {
    /// Returns the path of a node to create, without its number.
    pub(crate) fn prefix(self, dir: &str) -> String {
        let base = match self {
            Kind::Mutex => "-lock-",
            Kind::Read => READ,
            Kind::Write => "-__WRIT__",
            Kind::Lease => "-lease-",
        };
        format!("{dir}/_c_{}{base}", Uuid::new_v4())
    }

    /// Returns the name of the node ahead, and whether `node` holds once that one is deleted; `None` if `node` holds. A
    /// writer behind a writer lists again, because the one ahead may have become a reader.
    pub(crate) fn before(self, mut children: Vec<String>, node: &str) -> Option<(String, bool)> {
        children.sort_by(|one, other| number(one).cmp(number(other)));
        let at = children.iter().position(|child| node.ends_with(child.as_str())).expect("our own node");
        children.truncate(at);
        if self == Kind::Read {
            children.retain(|name| !name.contains(READ));
        }
        let before = children.pop()?;
        let is_last = children.is_empty() && (self != Kind::Write || before.contains(READ));
        Some((before, is_last))
    }
}

fn number(name: &str) -> &str {
    name.get(name.len().saturating_sub(10)..).unwrap_or(name)
}
