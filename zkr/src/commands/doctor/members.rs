//! Who may create nodes in a directory, and what ACLs permit them to do.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use zookeeper_recipes::{Acl, Permissions};

/// Those who may create nodes in a directory, each once.
pub struct Members<'a>(Vec<Member<'a>>);

/// An identity that an entry of an ACL names.
#[derive(Clone, Copy)]
struct Member<'a>(&'a Acl);

impl<'a> Members<'a> {
    /// Returns who may create nodes in a directory with this ACL.
    pub fn of(acl: &'a [Acl]) -> Self {
        let mut members: Vec<Member<'_>> = Vec::new();
        for member in acl.iter().filter(|entry| entry.permissions().contains(Permissions::CREATE)).map(Member) {
            if !members.iter().any(|known| known.0.scheme() == member.0.scheme() && known.0.id() == member.0.id()) {
                members.push(member);
            }
        }
        Members(members)
    }

    /// Returns the members to whom an ACL does not permit this; `None` if it permits this to all.
    pub fn without(&self, wanted: Permissions, acl: &[Acl]) -> Option<String> {
        let without: Vec<String> =
            self.0.iter().filter(|member| !member.may(wanted, acl)).map(|member| self.name(*member)).collect();
        (!without.is_empty()).then(|| without.join(", "))
    }

    /// Returns the name of a member, without the hash of a digest.
    fn name(&self, member: Member<'_>) -> String {
        let is_like = self.0.iter().filter(|other| other.to_string() == member.to_string()).count() > 1;
        if is_like { format!("{member} (with one of its passwords)") } else { member.to_string() }
    }
}

impl Member<'_> {
    /// Returns whether an ACL permits this to a client that has only this identity.
    fn may(self, wanted: Permissions, acl: &[Acl]) -> bool {
        acl.iter().any(|entry| self.is_meant_by(entry) && entry.permissions().contains(wanted))
    }

    fn is_meant_by(self, entry: &Acl) -> bool {
        let (scheme, id) = (entry.scheme(), entry.id());
        let is_covered = || match scheme {
            "digest" => is_hidden_as(self.0.id(), id),
            "ip" => is_within(self.0.id(), id),
            _ => false,
        };
        scheme == "world" || (scheme == self.0.scheme() && (id == self.0.id() || is_covered()))
    }
}

/// Returns whether two digests are of the same user, and the servers have hidden the hash of one of them.
fn is_hidden_as(one: &str, other: &str) -> bool {
    match (one.split_once(':'), other.split_once(':')) {
        (Some((user, hash)), Some((other_user, other_hash))) => {
            user == other_user && (hash == "x" || other_hash == "x")
        }
        _ => false,
    }
}

/// Returns whether all addresses that an id of the scheme `ip` means, `10.0.0.7` or `10.0.0.0/8`, are in another one.
fn is_within(id: &str, other: &str) -> bool {
    let network = |id: &str| id.parse::<IpNet>().ok().or_else(|| id.parse::<IpAddr>().ok().map(IpNet::from));
    network(other).zip(network(id)).is_some_and(|(other, id)| other.contains(&id))
}

/// Shows a member without the hash of a digest.
impl fmt::Display for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, id) = (self.0.scheme(), self.0.id());
        match scheme {
            "world" => f.write_str("anyone"),
            "digest" => write!(f, "digest:{}", id.split(':').next().unwrap_or(id)),
            _ => write!(f, "{scheme}:{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_a_network_has() {
        for (id, other) in [("10.1.2.3", "10.0.0.0/8"), ("10.1.0.0/16", "10.0.0.0/8"), ("2001:db8::7", "2001:db8::/32")]
        {
            assert!(is_within(id, other) && !is_within(other, id), "{id} {other}");
        }
        assert!(is_within("10.0.0.7", "10.0.0.7/32"));
        for (id, other) in [("11.0.0.1", "10.0.0.0/8"), ("::1", "0.0.0.0/0"), ("10.0.0.1", "10.0.0.0/33"), ("", "x")] {
            assert!(!is_within(id, other), "{id} {other}");
        }
    }
}
