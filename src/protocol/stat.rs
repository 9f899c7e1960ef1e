//! A node's stat on the wire, where `pzxid` comes last.

use super::jute::{Decode, Encode, Malformed, Reader, Writer};
use crate::util::znode::Stat;

impl Encode for Stat {
    fn encode(&self, to: &mut Writer<'_>) {
        to.long(self.czxid);
        to.long(self.mzxid);
        to.long(self.ctime);
        to.long(self.mtime);
        to.int(self.version);
        to.int(self.cversion);
        to.int(self.aversion);
        to.long(self.ephemeral_owner);
        to.int(self.data_length);
        to.int(self.num_children);
        to.long(self.pzxid);
    }
}

impl<'a> Decode<'a> for Stat {
    const MIN_LEN: usize = 68;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        // A struct's fields are evaluated in the order in which they are written here.
        Ok(Stat {
            czxid: from.long()?,
            mzxid: from.long()?,
            ctime: from.long()?,
            mtime: from.long()?,
            version: from.int()?,
            cversion: from.int()?,
            aversion: from.int()?,
            ephemeral_owner: from.long()?,
            data_length: from.int()?,
            num_children: from.int()?,
            pzxid: from.long()?,
        })
    }
}
