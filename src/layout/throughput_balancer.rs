//! The znodes of a throughput balancer: their paths and names.
//!
//! ```text
//! <base>/leader                           the latch of the leader
//! <base>/global-config/max-throughput     the maximum that is divided
//! <base>/client/client-<number>           the record of a member, with its share
//! <base>/ack/<member>~<epoch>.<sequence>  the decision that a member has acknowledged
//! <base>/epoch                            written by a leader when it takes over
//! ```

use super::parts::before_number;
use crate::util::path::join;

/// Names below the base.
pub(crate) const LEADER: &str = "leader";
pub(crate) const CONFIG: &str = "global-config";
pub(crate) const MEMBERS: &str = "client";
pub(crate) const ACKS: &str = "ack";
pub(crate) const EPOCH: &str = "epoch";
/// The name below [`CONFIG`].
pub(crate) const MAXIMUM: &str = "max-throughput";

/// The name of a member's node, before its number.
const MEMBER: &str = "client-";
/// Separates a member's name from the decision that it has acknowledged.
const ACKNOWLEDGED: char = '~';

/// Identifies a decision of a leader. Later decisions are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Decision {
    /// The transaction by which the leader took over.
    pub(crate) epoch: i64,
    /// The leader's count of its decisions.
    pub(crate) sequence: u64,
}

/// The paths of one balancer, as the server names them. Only `base` and `latch` are as the client names them.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The base as the user gave it, for messages.
    pub(crate) base: String,
    /// The directory of the latch, as the user would name it.
    pub(crate) latch: String,
    pub(crate) config: String,
    pub(crate) maximum: String,
    pub(crate) members: String,
    pub(crate) acks: String,
    pub(crate) epoch: String,
}

impl Paths {
    /// `base` has been validated; `full` converts a path of the caller to a path on the server.
    pub(crate) fn new(base: &str, full: impl Fn(&str) -> String) -> Self {
        let full = &full(base);
        let config = join(full, CONFIG);
        Paths {
            base: base.to_owned(),
            latch: join(base, LEADER),
            maximum: join(&config, MAXIMUM),
            config,
            members: join(full, MEMBERS),
            acks: join(full, ACKS),
            epoch: join(full, EPOCH),
        }
    }

    /// Returns the path of a member's node.
    pub(crate) fn member(&self, name: &str) -> String {
        join(&self.members, name)
    }

    /// Returns the path of the node by which a member acknowledges a decision.
    pub(crate) fn ack(&self, name: &str, decision: Decision) -> String {
        format!("{}/{name}{ACKNOWLEDGED}{}.{}", self.acks, decision.epoch, decision.sequence)
    }
}

/// Returns the name of a member's node.
pub(crate) fn member_name(number: u32) -> String {
    format!("{MEMBER}{number:010}")
}

/// Parses the name of an acknowledgement: the member, and the decision that it has acknowledged. Returns `None` for any
/// other name.
pub(crate) fn read_ack(name: &str) -> Option<(&str, Decision)> {
    let (member, decision) = name.rsplit_once(ACKNOWLEDGED)?;
    let (epoch, sequence) = decision.split_once('.')?;
    Some((member, Decision { epoch: epoch.parse().ok()?, sequence: sequence.parse().ok()? }))
}

/// Returns whether this is the name of a member's record.
pub(crate) fn is_member(name: &str) -> bool {
    name.strip_prefix(MEMBER).and_then(before_number) == Some("")
}

/// Returns whether this is the name of a member's acknowledgement.
pub(crate) fn is_ack(name: &str) -> bool {
    read_ack(name).is_some_and(|(member, _)| is_member(member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_is_read_as_it_was_written() {
        let decision = Decision { epoch: 12, sequence: 7 };
        assert_eq!(read_ack("client-0000000003~12.7"), Some(("client-0000000003", decision)));
        assert!(decision > Decision { epoch: 11, sequence: 900 } && decision > Decision { epoch: 12, sequence: 6 });
        for other in ["", "~", "client-0000000003", "client-0000000003~12", "client-0000000003~a.7", "x~1.-1"] {
            assert_eq!(read_ack(other), None, "{other}");
        }
    }
}
