//! Who sends a request, and what the ACLs of nodes permit.

use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use crate::protocol::ErrorCode;
use crate::util::znode::{Acl, Permissions};

/// Who sends a request.
#[derive(Debug, Clone)]
pub(crate) enum Identity {
    /// The ensemble itself, or a change by hand. ACLs do not apply.
    Hand,
    /// A client at this address, with the users whose passwords it has sent, as ACLs name them: `user:hash`.
    Client { address: IpAddr, users: Vec<String> },
}

impl Identity {
    /// Adds the user of an authentication request with the scheme `digest`. The scheme `ip` adds nothing.
    pub(crate) fn add(&mut self, scheme: &str, auth: &[u8]) -> Result<(), ErrorCode> {
        let user = match scheme {
            "ip" => return Ok(()),
            "digest" => digest(auth),
            _ => return Err(ErrorCode::AuthFailed),
        };
        if let Identity::Client { users, .. } = self
            && !users.contains(&user)
        {
            users.push(user);
        }
        Ok(())
    }

    /// Returns the address and the users, each with its scheme.
    pub(crate) fn names(&self) -> Vec<Vec<String>> {
        let Identity::Client { address, users } = self else { return Vec::new() };
        let name = |scheme: &str, name: String| vec![scheme.to_owned(), name];
        let users = users.iter().filter_map(|user| Some(name("digest", user.split(':').next()?.to_owned())));
        std::iter::once(name("ip", address.to_string())).chain(users).collect()
    }

    /// Returns whether one of the entries of an ACL grants the `wanted` permissions.
    pub(crate) fn may(&self, acls: &[Acl], wanted: Permissions) -> bool {
        let Identity::Client { address, users } = self else { return true };
        let is_meant = |acl: &Acl| match acl.scheme() {
            "world" => true,
            "digest" => users.iter().any(|user| user == acl.id()),
            "ip" => is_in(acl.id(), *address),
            _ => false,
        };
        acls.iter().any(|acl| acl.permissions().contains(wanted) && is_meant(acl))
    }

    /// Returns an ACL with the users of this identity in place of `auth`.
    pub(crate) fn resolve(&self, acls: &[Acl]) -> Vec<Acl> {
        let Identity::Client { users, .. } = self else { return acls.to_vec() };
        let own = |acl: &Acl| match acl.scheme() {
            "auth" => users.iter().map(|user| Acl::new(acl.permissions(), "digest", user.clone())).collect(),
            _ => vec![acl.clone()],
        };
        acls.iter().flat_map(own).collect()
    }
}

/// Hashes `user:password` for ACLs: `user:base64(sha1(user:password))`, as `DigestAuthenticationProvider` does.
fn digest(auth: &[u8]) -> String {
    let text = String::from_utf8_lossy(auth);
    let user = text.split(':').next().unwrap_or_default();
    format!("{user}:{}", STANDARD.encode(Sha1::digest(text.as_bytes())))
}

/// Returns the first address of a network and the mask of the bits that count. The network is written as an address,
/// optionally followed by a slash and the number of bits. Only IPv4, as in 3.9.
pub(crate) fn network(id: &str) -> Option<(Ipv4Addr, u32)> {
    let (start, bits) = id.split_once('/').unwrap_or((id, "32"));
    let bits = bits.parse::<u32>().ok().filter(|bits| *bits <= 32)?;
    Some((start.parse().ok()?, u32::MAX.checked_shl(32 - bits).unwrap_or(0)))
}

fn is_in(id: &str, address: IpAddr) -> bool {
    let (Some((start, mask)), IpAddr::V4(address)) = (network(id), address.to_canonical()) else { return false };
    start.to_bits() & mask == address.to_bits() & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_hashed_as_a_server_does() {
        // As in ZooKeeper's guide to ACLs.
        assert_eq!(digest(b"super:admin"), "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");
    }

    #[test]
    fn an_address_is_in_its_networks() {
        let here: IpAddr = "10.1.2.3".parse().unwrap();
        for (network, expected) in [
            ("10.1.2.3", true),
            ("10.1.2.4", false),
            ("10.0.0.0/8", true),
            ("10.1.2.0/31", false),
            ("0.0.0.0/0", true),
            ("10.1.2.3/33", false),
            ("::/0", false),
        ] {
            assert_eq!(is_in(network, here), expected, "{network}");
        }
    }
}
