//! What a server finds wrong with a request.

use std::net::IpAddr;
use std::sync::Arc;

use crate::protocol::ErrorCode;
use crate::znode::Acl;

/// The server's check of the path of a new node.
pub(crate) fn new_path(path: &str) -> Result<(), ErrorCode> {
    if crate::path::validate(path).is_err() {
        return Err(ErrorCode::BadArguments);
    }
    Ok(())
}

/// The server's check of an ACL, for a session without credentials. Returns it as the server keeps it: each entry once.
pub(crate) fn acls(acls: &[Acl]) -> Result<Arc<[Acl]>, ErrorCode> {
    let known = |acl: &Acl| match acl.scheme() {
        "world" => acl.id() == "anyone",
        // Java passes over what is empty at the end.
        "digest" => acl.id().trim_end_matches(':').split(':').count() == 2,
        "ip" => is_network(acl.id()),
        _ => false,
    };
    if acls.is_empty() || !acls.iter().all(known) {
        return Err(ErrorCode::InvalidAcl);
    }
    let is_first = |(at, acl): &(usize, &Acl)| !acls[..*at].contains(acl);
    Ok(acls.iter().enumerate().filter(is_first).map(|(_, acl)| acl.clone()).collect())
}

/// Whether it is an address, perhaps with the number of the bits that count.
fn is_network(id: &str) -> bool {
    let (address, bits) = id.split_once('/').map_or((id, None), |(address, bits)| (address, Some(bits)));
    let most = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let is_less = |address| bits.is_none_or(|bits| bits.parse::<u32>().is_ok_and(|bits| bits <= most(address)));
    address.parse::<IpAddr>().is_ok_and(is_less)
}
