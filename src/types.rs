//! ZooKeeper's own terms: what a node is and who may touch it.

use std::fmt;

/// The facts ZooKeeper keeps about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stat {
    /// The transaction that created the node. Grows with every transaction of the ensemble.
    pub czxid: i64,
    /// The transaction that last changed its data.
    pub mzxid: i64,
    /// The transaction that last changed its children.
    pub pzxid: i64,
    /// When it was created, in milliseconds since 1970.
    pub ctime: i64,
    /// When its data was last changed, in milliseconds since 1970.
    pub mtime: i64,
    /// How often its data was changed.
    pub version: i32,
    /// How often its children were changed.
    pub cversion: i32,
    /// How often its ACL was changed.
    pub aversion: i32,
    /// The session that owns it; 0 unless it is ephemeral.
    pub ephemeral_owner: i64,
    /// Bytes of data.
    pub data_length: i32,
    /// Number of children.
    pub num_children: i32,
}

/// How long a node lives, and who completes its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// Until it is deleted.
    Persistent,
    /// Until it is deleted; the server appends a ten-digit counter to the name.
    PersistentSequential,
    /// Until its session ends.
    Ephemeral,
    /// Until its session ends; the server appends a ten-digit counter to the name.
    EphemeralSequential,
    /// Until the server finds it empty after it had children (ZooKeeper 3.5 and later).
    Container,
}

impl CreateMode {
    /// Whether the server completes the name.
    pub fn is_sequential(self) -> bool {
        matches!(self, CreateMode::PersistentSequential | CreateMode::EphemeralSequential)
    }

    /// Whether the node goes with its session.
    pub fn is_ephemeral(self) -> bool {
        matches!(self, CreateMode::Ephemeral | CreateMode::EphemeralSequential)
    }
}

/// What somebody may do to a node: the sum of [`READ`](Permissions::READ) and its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permissions(pub(crate) u8);

impl Permissions {
    /// Read the data and list the children.
    pub const READ: Permissions = Permissions(1);
    /// Set the data.
    pub const WRITE: Permissions = Permissions(2);
    /// Create children.
    pub const CREATE: Permissions = Permissions(4);
    /// Delete children.
    pub const DELETE: Permissions = Permissions(8);
    /// Change the ACL.
    pub const ADMIN: Permissions = Permissions(16);
    /// All of them.
    pub const ALL: Permissions = Permissions(31);

    /// Whether all of `other` is granted.
    pub fn contains(self, other: Permissions) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Permissions {
    type Output = Permissions;

    fn bitor(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }
}

/// One entry of an access control list: who, and what they may do.
///
/// ```
/// use zookeeper_recipes::{Acl, Permissions};
///
/// let everybody_reads = Acl::new(Permissions::READ, "world", "anyone");
/// assert_eq!(everybody_reads.to_string(), "world:anyone (1)");
/// assert_eq!(Acl::creator_all().scheme(), "auth");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acl {
    pub(crate) permissions: Permissions,
    pub(crate) scheme: String,
    pub(crate) id: String,
}

impl Acl {
    /// An entry for `id` under ZooKeeper's authentication `scheme` (`world`, `auth`, `digest`, `ip`, `sasl`, `x509`).
    pub fn new(permissions: Permissions, scheme: impl Into<String>, id: impl Into<String>) -> Self {
        Acl { permissions, scheme: scheme.into(), id: id.into() }
    }

    /// Everybody may do everything: the default.
    pub fn anyone_all() -> Self {
        Acl::new(Permissions::ALL, "world", "anyone")
    }

    /// Whoever is authenticated as the creator was may do everything.
    pub fn creator_all() -> Self {
        Acl::new(Permissions::ALL, "auth", "")
    }

    /// What is granted.
    pub fn permissions(&self) -> Permissions {
        self.permissions
    }

    /// The authentication scheme.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Who, in the terms of the scheme.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ({})", self.scheme, self.id, self.permissions.0)
    }
}
