//! A value with its version.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::error::Error;
use crate::cache::{Content, Node};
use crate::client::{self, ErrorKind};
use crate::util::znode::Stat;

/// A value, and which version of the node it is. Cheap to clone; dereferences to the value.
pub struct Versioned<T> {
    /// Its content is decoded.
    node: Node<T>,
}

impl<T> Versioned<T> {
    /// Creates a value that was just written.
    pub(super) fn written(path: &str, stat: Stat, value: T) -> Self {
        Versioned { node: Node::new(path, stat, Content::Decoded(value)) }
    }

    /// Returns the value of a node, or why there is none.
    pub(super) fn of(path: &Arc<str>, node: Option<&Node<T>>) -> Result<Self, Error> {
        let path = || Arc::clone(path);
        let node = node.ok_or_else(|| Error::Missing { path: path() })?;
        match node.content() {
            Content::Decoded(_) => Ok(Versioned { node: node.clone() }),
            Content::Undecodable(what) => Err(Error::Undecodable {
                path: path(),
                version: node.stat().version,
                bytes: what.bytes.clone(),
                why: what.error.to_string(),
            }),
            Content::Unreadable(error) => Err(Error::client(node.path(), (**error).clone())),
            Content::Denied | Content::NotRead => {
                let why = "no permission to read the node; check its ACL and the client's credentials";
                let error = client::Error::at(ErrorKind::NoAuth, "read", node.path(), why);
                Err(Error::client(node.path(), error))
            }
        }
    }

    pub(super) fn node(&self) -> &Node<T> {
        &self.node
    }

    /// Returns the value.
    pub fn value(&self) -> &T {
        // Both constructors ensure this.
        self.node.value().expect("a decoded value")
    }

    /// Returns the stat of the node with this value.
    pub fn stat(&self) -> &Stat {
        self.node.stat()
    }

    /// Returns the version of the node.
    pub fn version(&self) -> i32 {
        self.stat().version
    }

    /// Returns the transaction (zxid) that wrote the value. A later value has a larger one.
    pub fn zxid(&self) -> i64 {
        self.stat().mzxid
    }
}

impl<T> Deref for Versioned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value()
    }
}

impl<T> Clone for Versioned<T> {
    fn clone(&self) -> Self {
        Versioned { node: self.node.clone() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Versioned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Versioned")
            .field("value", self.value())
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

impl<T: fmt::Display> fmt::Display for Versioned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

/// Serializes `value` and `version`.
#[cfg(feature = "serde")]
impl<T: serde::Serialize> serde::Serialize for Versioned<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;

        let mut versioned = serializer.serialize_struct("Versioned", 2)?;
        versioned.serialize_field("value", self.value())?;
        versioned.serialize_field("version", &self.version())?;
        versioned.end()
    }
}
