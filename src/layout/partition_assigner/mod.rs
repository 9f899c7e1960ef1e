//! The znodes of a partition assigner: their paths, names and data.
//!
//! ```text
//! <base>/leader                            the latch of the leader
//! <base>/epoch                             written by a leader when it takes over
//! <base>/config                            what operators have set: pins, drained members
//! <base>/members/<id>~<registration>       ephemeral: the member is present
//! <base>/assignments/<id>                  what the leader has assigned to the member, and what the member holds
//! <base>/owned/<partition>~<registration>.<n>    ephemeral: a partition that a member holds
//! ```
//!
//! A registration is 16 random hexadecimal digits. A member draws them each time it creates its node, so a listing
//! shows that a member has come back.

#[cfg(any(feature = "partition-assigner", feature = "inspect"))]
mod record;

#[cfg(any(feature = "partition-assigner", feature = "inspect"))]
pub(crate) use self::record::{Assignment, Config, Presence};
use crate::util::path::join;

/// Names below the base.
pub(crate) const LEADER: &str = "leader";
pub(crate) const EPOCH: &str = "epoch";
pub(crate) const CONFIG: &str = "config";
pub(crate) const MEMBERS: &str = "members";
pub(crate) const ASSIGNMENTS: &str = "assignments";
pub(crate) const OWNED: &str = "owned";

/// The names of kazoo's `SetPartitioner` below its path. Nothing else is there.
pub(crate) const KAZOO: [&str; 2] = ["locks", "party"];

/// The length of a registration.
const REGISTRATION_BYTES: usize = 16;
/// Separates the id of a member, or the name of a partition, from what makes the name of the node unique.
const UNIQUE: char = '~';

/// The paths of one assigner, as the server names them. Only `base` and `latch` are as the client names them.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The base as the user gave it, for messages.
    pub(crate) base: String,
    /// The base as the server names it.
    pub(crate) root: String,
    /// The directory of the latch, as the user would name it.
    pub(crate) latch: String,
    pub(crate) epoch: String,
    pub(crate) config: String,
    pub(crate) members: String,
    pub(crate) assignments: String,
    pub(crate) owned: String,
}

impl Paths {
    /// `base` has been validated; `full` converts a path of the caller to a path on the server.
    pub(crate) fn new(base: &str, full: impl Fn(&str) -> String) -> Self {
        let root = full(base);
        Paths {
            base: base.to_owned(),
            latch: join(base, LEADER),
            epoch: join(&root, EPOCH),
            config: join(&root, CONFIG),
            members: join(&root, MEMBERS),
            assignments: join(&root, ASSIGNMENTS),
            owned: join(&root, OWNED),
            root,
        }
    }

    /// Returns the path of the node that shows that a member is present.
    pub(crate) fn member(&self, id: &str, registration: &str) -> String {
        format!("{}/{id}{UNIQUE}{registration}", self.members)
    }

    /// Returns the path of a member's assignment.
    pub(crate) fn assignment(&self, id: &str) -> String {
        join(&self.assignments, id)
    }

    /// Returns the path of the node of a partition that is held. `claim` is the member's count of its claims.
    pub(crate) fn owned(&self, partition: &str, registration: &str, claim: u64) -> String {
        format!("{}/{partition}{UNIQUE}{registration}.{claim}", self.owned)
    }
}

/// Parses the name of a member's node: its id and its registration. Returns `None` for any other name.
pub(crate) fn read_member(name: &str) -> Option<(&str, &str)> {
    let (id, registration) = name.rsplit_once(UNIQUE)?;
    (!id.is_empty() && is_registration(registration)).then_some((id, registration))
}

/// Parses the name of a node of a partition that is held: the partition, and the registration of the member. Returns
/// `None` for any other name.
pub(crate) fn read_owned(name: &str) -> Option<(&str, &str)> {
    let (partition, tenure) = name.rsplit_once(UNIQUE)?;
    let (registration, claim) = tenure.split_once('.')?;
    let is_claim = !claim.is_empty() && claim.bytes().all(|byte| byte.is_ascii_digit());
    (!partition.is_empty() && is_claim && is_registration(registration)).then_some((partition, registration))
}

fn is_registration(text: &str) -> bool {
    text.len() == REGISTRATION_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRATION: &str = "0123456789abcdef";

    #[test]
    fn names_are_read_as_they_were_written() {
        let paths = Paths::new("/jobs", str::to_owned);
        let member = paths.member("eu~west", REGISTRATION);
        assert_eq!(member, "/jobs/members/eu~west~0123456789abcdef");
        assert_eq!(member.strip_prefix("/jobs/members/").and_then(read_member), Some(("eu~west", REGISTRATION)));
        let owned = paths.owned("7~8", REGISTRATION, 3);
        assert_eq!(owned, "/jobs/owned/7~8~0123456789abcdef.3");
        assert_eq!(owned.strip_prefix("/jobs/owned/").and_then(read_owned), Some(("7~8", REGISTRATION)));
    }

    #[test]
    fn other_names_are_not_read() {
        for other in ["", "7", "7~", "7~12", "~0123456789abcdef", "7~0123456789abcdeg"] {
            assert_eq!(read_member(other), None, "{other}");
        }
        for other in ["7~0123456789abcdef", "7~0123456789abcdef.", "7~0123456789abcdef.-1", "~0123456789abcdef.1"] {
            assert_eq!(read_owned(other), None, "{other}");
        }
    }
}
