//! ZooKeeper's own terms: nodes and their access control lists.

use std::fmt::{self, Write};
use std::time::Duration;

/// The metadata that ZooKeeper keeps for a node.
///
/// ```no_run
/// # async fn example(client: zookeeper_recipes::Client)
/// # -> Result<(), zookeeper_recipes::Error> {
/// if let Some(stat) = client.exists("/my-service").await? {
///     println!("version {}, {} bytes", stat.version, stat.data_length);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stat {
    /// The transaction that created the node. It increases with every transaction of the ensemble.
    pub czxid: i64,
    /// The transaction that last changed its data.
    pub mzxid: i64,
    /// The transaction that last changed its children.
    pub pzxid: i64,
    /// When it was created, in milliseconds since 1970.
    pub ctime: i64,
    /// When its data was last changed, in milliseconds since 1970.
    pub mtime: i64,
    /// The number of changes of its data.
    pub version: i32,
    /// The number of changes of its children.
    pub cversion: i32,
    /// The number of changes of its ACL.
    pub aversion: i32,
    /// The id of the session that owns it; 0 unless it is ephemeral. The feature `serde` writes it as text, as in logs
    /// (`0x…`), and 0 as none.
    #[cfg_attr(feature = "serde", serde(serialize_with = "hexadecimal"))]
    pub ephemeral_owner: i64,
    /// The number of bytes of its data.
    pub data_length: i32,
    /// The number of its children.
    pub num_children: i32,
}

#[cfg(feature = "serde")]
fn hexadecimal<S: serde::Serializer>(session: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    let text = (*session != 0).then(|| format!("{session:#x}"));
    serde::Serialize::serialize(&text, serializer)
}

/// How long a node exists, and whether the server appends a number to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// Exists until it is deleted.
    Persistent,
    /// Exists until it is deleted; the server appends a ten-digit counter to the name.
    PersistentSequential,
    /// Exists until its session ends.
    Ephemeral,
    /// Exists until its session ends; the server appends a ten-digit counter to the name.
    EphemeralSequential,
    /// Exists until the server finds it empty after it had children (ZooKeeper 3.5 and later).
    Container,
    /// Exists until the server finds that it has no children and was not written for this time (ZooKeeper 3.6 and
    /// later). The servers refuse it unless their option `zookeeper.extendedTypesEnabled` is `true`.
    ///
    /// In whole milliseconds, from 1 to [`MAX_TTL`](Self::MAX_TTL).
    #[doc(alias = "PERSISTENT_WITH_TTL")]
    PersistentTtl(Duration),
}

impl CreateMode {
    /// The longest time to live of a node: 2^40 - 1 milliseconds, about 35 years.
    pub const MAX_TTL: Duration = Duration::from_millis(0xff_ffff_ffff);

    /// Returns whether the server appends a number to the name.
    pub fn is_sequential(self) -> bool {
        matches!(self, CreateMode::PersistentSequential | CreateMode::EphemeralSequential)
    }

    /// Returns whether the node is deleted when its session ends.
    pub fn is_ephemeral(self) -> bool {
        matches!(self, CreateMode::Ephemeral | CreateMode::EphemeralSequential)
    }
}

/// The operations that an [`Acl`] allows on a node: the sum of [`READ`](Permissions::READ) and its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permissions(pub(crate) u8);

impl Permissions {
    /// Permits reading the data and listing the children.
    pub const READ: Permissions = Permissions(1);
    /// Permits setting the data.
    pub const WRITE: Permissions = Permissions(2);
    /// Permits creating children.
    pub const CREATE: Permissions = Permissions(4);
    /// Permits deleting children.
    pub const DELETE: Permissions = Permissions(8);
    /// Permits changing the ACL.
    pub const ADMIN: Permissions = Permissions(16);
    /// Permits all of these.
    pub const ALL: Permissions = Permissions(31);

    /// Returns whether all of `other` is granted.
    pub fn contains(self, other: Permissions) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for Permissions {
    /// Writes the letters of ZooKeeper's shell, such as `cdrwa`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters =
            [(Self::CREATE, 'c'), (Self::DELETE, 'd'), (Self::READ, 'r'), (Self::WRITE, 'w'), (Self::ADMIN, 'a')];
        letters.iter().filter(|(one, _)| self.contains(*one)).try_for_each(|(_, letter)| f.write_char(*letter))
    }
}

impl std::ops::BitOr for Permissions {
    type Output = Permissions;

    fn bitor(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }
}

/// One entry of an access control list: an identity, and its permissions.
///
/// ```
/// use zookeeper_recipes::{Acl, Permissions};
///
/// let read_only = Acl::new(Permissions::READ, "world", "anyone");
/// assert_eq!(read_only.to_string(), "world:anyone:r");
/// assert_eq!(Acl::creator_all().scheme(), "auth");
/// ```
#[doc(alias = "ACL")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acl {
    pub(crate) permissions: Permissions,
    pub(crate) scheme: String,
    pub(crate) id: String,
}

/// The bytes of an entry in a request besides the two strings: the permissions and the lengths.
const ENTRY_BYTES: usize = 12;

impl Acl {
    /// Returns an entry for `id` under ZooKeeper's authentication `scheme` (`world`, `auth`, `digest`, `ip`, `sasl`,
    /// `x509`).
    pub fn new(permissions: Permissions, scheme: impl Into<String>, id: impl Into<String>) -> Self {
        Acl { permissions, scheme: scheme.into(), id: id.into() }
    }

    /// Returns the entry that grants all permissions to every client: the default of a client.
    #[doc(alias = "OPEN_ACL_UNSAFE")]
    pub fn anyone_all() -> Self {
        Acl::new(Permissions::ALL, "world", "anyone")
    }

    /// Returns the entry that grants all permissions to the identities with which the creator was authenticated.
    #[doc(alias = "CREATOR_ALL_ACL")]
    pub fn creator_all() -> Self {
        Acl::new(Permissions::ALL, "auth", "")
    }

    /// Returns the permissions.
    pub fn permissions(&self) -> Permissions {
        self.permissions
    }

    /// Returns the authentication scheme.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the identity, in the terms of the scheme.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the bytes that these entries take in a request.
    pub(crate) fn request_bytes(acls: &[Acl]) -> usize {
        acls.iter().map(|acl| acl.scheme.len() + acl.id.len() + ENTRY_BYTES).sum()
    }
}

impl fmt::Display for Acl {
    /// Writes the entry as `setAcl` of ZooKeeper's shell takes it, such as `world:anyone:cdrwa`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.scheme, self.id, self.permissions)
    }
}
