//! The znodes of a group's members: their names and their data.

use uuid::Uuid;

/// In the name of each node of a kazoo `Party`.
const PARTY: &str = "__party__";

/// The format of the members' nodes that other clients of the group expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Format {
    /// Curator's `GroupMember`: the name of the node is the id, and its data is the member's data. This is the default.
    #[default]
    GroupMember,
    /// Kazoo's `Party`: the node is named `<32 hex digits>__party__`, and its data is the id. There is no other data.
    /// Children with other names are not members.
    ///
    /// A `Party` object of kazoo creates the group once and expects it to stay, while a container is removed when it is
    /// empty. So let kazoo create the group, or create it as a persistent node.
    Party,
    /// Kazoo's `ShallowParty`: the node is named `<32 hex digits>-<id>`, and is empty. What [`Party`](Self::Party) says
    /// about the group's node also applies here.
    ShallowParty,
}

impl Format {
    /// Returns the name of the node of a new member, and its data. Kazoo's names contain a random UUID.
    pub(crate) fn node(self, id: &str, data: Vec<u8>, random: Uuid) -> (String, Vec<u8>) {
        let unique = random.simple();
        match self {
            Format::GroupMember => (id.to_owned(), data),
            Format::Party => (format!("{unique}{PARTY}"), id.as_bytes().to_vec()),
            Format::ShallowParty => (format!("{unique}-{id}"), Vec::new()),
        }
    }

    /// Returns the id and the data of the member whose node has this name and this data; `data` is `None` if it may not
    /// be read. Returns `None` if the node is not a member, or its id is not known.
    pub(crate) fn member(self, name: &str, data: Option<&[u8]>) -> Option<(String, Vec<u8>)> {
        match self {
            Format::GroupMember => Some((name.to_owned(), data.unwrap_or_default().to_vec())),
            Format::Party if !name.contains(PARTY) => None,
            Format::Party => Some((String::from_utf8_lossy(data?).into_owned(), Vec::new())),
            // As kazoo does: without a hyphen, the id is the whole name.
            Format::ShallowParty => Some((name.split_once('-').map_or(name, |(_, id)| id).to_owned(), Vec::new())),
        }
    }

    /// Returns whether a member has data besides its id.
    pub(crate) fn has_data(self) -> bool {
        self == Format::GroupMember
    }

    /// Returns whether the id is a part of the node's name.
    pub(crate) fn names_the_id(self) -> bool {
        self != Format::Party
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curators_members_are_named_as_their_ids() {
        assert_eq!(Format::GroupMember.node("m1", b"x".to_vec(), Uuid::nil()), ("m1".into(), b"x".to_vec()));
        assert_eq!(Format::GroupMember.member("m1", Some(b"x")), Some(("m1".into(), b"x".to_vec())));
    }

    #[test]
    fn kazoos_nodes_are_read_and_written_as_kazoo_does() {
        let (name, data) = Format::Party.node("m-1", Vec::new(), Uuid::nil());
        assert!(name.len() == 32 + PARTY.len() && name.ends_with(PARTY), "{name}");
        assert_eq!(data, b"m-1");
        assert_eq!(Format::Party.member(&name, Some(&data)), Some(("m-1".into(), Vec::new())));
        assert_eq!(Format::Party.member("other", Some(b"m-1")), None);
        let (name, data) = Format::ShallowParty.node("m-1", Vec::new(), Uuid::nil());
        assert_eq!((name.len(), data.len()), (32 + 1 + 3, 0));
        assert_eq!(Format::ShallowParty.member(&name, Some(b"")), Some(("m-1".into(), Vec::new())));
        assert_eq!(Format::ShallowParty.member("plain", Some(b"")), Some(("plain".into(), Vec::new())));
    }
}
