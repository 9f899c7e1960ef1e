//! Access control entries and create modes on the wire.

use super::jute::{Decode, Encode, Malformed, Problem, Reader, Writer};
use crate::util::znode::{Acl, CreateMode, Permissions};

impl Encode for Acl {
    fn encode(&self, to: &mut Writer<'_>) {
        to.int(i32::from(self.permissions.0));
        to.ustring(&self.scheme);
        to.ustring(&self.id);
    }
}

impl<'a> Decode<'a> for Acl {
    const MIN_LEN: usize = 12;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (permissions, scheme) = (Permissions::decode(from)?, String::decode(from)?);
        // Some clients write an empty id as null.
        let id = from.ustring_or_null()?.unwrap_or_default().to_owned();
        Ok(Acl { permissions, scheme, id })
    }
}

impl<'a> Decode<'a> for Permissions {
    const MIN_LEN: usize = 4;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let start = from.position();
        let bits = from.int()?;
        match u8::try_from(bits) {
            Ok(known) if Permissions::ALL.contains(Permissions(known)) => Ok(Permissions(known)),
            _ => Err(from.malformed(start, Problem::Value(bits))),
        }
    }
}

/// Returns the flags of a create request for a mode.
pub(crate) fn create_flags(mode: CreateMode) -> i32 {
    match mode {
        CreateMode::Persistent => 0,
        CreateMode::Ephemeral => 1,
        CreateMode::PersistentSequential => 2,
        CreateMode::EphemeralSequential => 3,
        CreateMode::Container => 4,
        CreateMode::PersistentTtl(_) => 5,
    }
}

/// Returns the mode that the flags mean, or `None` if they need more: 5 and 6 mean a time to live, which they lack.
pub(crate) fn create_mode(flags: i32) -> Option<CreateMode> {
    match flags {
        0 => Some(CreateMode::Persistent),
        1 => Some(CreateMode::Ephemeral),
        2 => Some(CreateMode::PersistentSequential),
        3 => Some(CreateMode::EphemeralSequential),
        4 => Some(CreateMode::Container),
        _ => None,
    }
}
