//! Where the nodes of a balancer are.

use super::record::Decision;
use crate::client::core::Core;
use crate::path::join;

/// What a member's node is called, before its number.
const MEMBER: &str = "client-";
/// Separates a member's name from what it has acknowledged.
const ACKNOWLEDGED: char = '~';

/// The paths of one balancer as the server names them, except that of the latch, which is as the client names it.
#[derive(Debug)]
pub(super) struct Paths {
    /// The base as the user gave it, for messages.
    pub(super) base: String,
    /// The directory of the latch, as the user would name it.
    pub(super) latch: String,
    pub(super) config: String,
    pub(super) maximum: String,
    pub(super) members: String,
    pub(super) acks: String,
    pub(super) epoch: String,
}

impl Paths {
    /// `base` has been validated.
    pub(super) fn new(core: &Core, base: &str) -> Self {
        let full = core.full_path(base);
        let config = join(&full, "global-config");
        Paths {
            base: base.to_owned(),
            latch: join(base, "leader"),
            maximum: join(&config, "max-throughput"),
            config,
            members: join(&full, "client"),
            acks: join(&full, "ack"),
            epoch: join(&full, "epoch"),
        }
    }

    /// The node of a member.
    pub(super) fn member(&self, name: &str) -> String {
        join(&self.members, name)
    }

    /// The node that says how far a member follows.
    pub(super) fn ack(&self, name: &str, decision: Decision) -> String {
        format!("{}/{name}{ACKNOWLEDGED}{}.{}", self.acks, decision.epoch, decision.sequence)
    }
}

/// The name of a member's node.
pub(super) fn member_name(number: u32) -> String {
    format!("{MEMBER}{number:010}")
}

/// Returns whose acknowledgement a child of the directory is, and of which decision; `None` if it is something else.
pub(super) fn read_ack(name: &str) -> Option<(&str, Decision)> {
    let (member, decision) = name.rsplit_once(ACKNOWLEDGED)?;
    let (epoch, sequence) = decision.split_once('.')?;
    Some((member, Decision { epoch: epoch.parse().ok()?, sequence: sequence.parse().ok()? }))
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
