//! The conversion of a node's content to bytes and back, for queues, caches and shared values.

#[cfg(feature = "json")]
mod json;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "json")]
pub use self::json::Json;

/// An error of a serializer, or of a handler of a queue.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Converts items to bytes and back: the items of a queue, what the nodes of a cache contain, or a shared value.
///
/// An item that a consumer cannot decode becomes a dead letter, with the error as its reason. A node that a cache
/// cannot decode keeps its bytes and the error.
///
/// ```
/// # #[cfg(feature = "queue")]
/// use zookeeper_recipes::queue::{BoxError, Serializer};
/// # #[cfg(not(feature = "queue"))]
/// # use zookeeper_recipes::cache::{BoxError, Serializer};
///
/// /// Numbers, as Java's `ByteBuffer` writes them.
/// #[derive(Debug)]
/// struct BigEndian;
///
/// impl Serializer for BigEndian {
///     type Item = u64;
///
///     fn serialize(&self, item: &u64) -> Result<Vec<u8>, BoxError> {
///         Ok(item.to_be_bytes().to_vec())
///     }
///
///     fn deserialize(&self, bytes: &[u8]) -> Result<u64, BoxError> {
///         Ok(u64::from_be_bytes(bytes.try_into()?))
///     }
/// }
///
/// let bytes = BigEndian.serialize(&7).unwrap();
/// assert_eq!(BigEndian.deserialize(&bytes).unwrap(), 7);
/// ```
#[doc(alias = "QueueSerializer")]
pub trait Serializer: fmt::Debug + Send + Sync + 'static {
    /// The type of the items.
    type Item: Send + Sync + 'static;

    /// Converts an item to bytes.
    ///
    /// # Errors
    /// Any error. A put into a queue, or a write of a shared value, fails with it, and nothing is written.
    fn serialize(&self, item: &Self::Item) -> Result<Vec<u8>, BoxError>;

    /// Converts bytes to an item.
    ///
    /// # Errors
    /// Any error. The item becomes a dead letter; the node of a cache [keeps](crate::cache::Content::Undecodable) it.
    fn deserialize(&self, bytes: &[u8]) -> Result<Self::Item, BoxError>;
}

/// A shared serializer.
impl<S: Serializer + ?Sized> Serializer for Arc<S> {
    type Item = S::Item;

    fn serialize(&self, item: &S::Item) -> Result<Vec<u8>, BoxError> {
        (**self).serialize(item)
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<S::Item, BoxError> {
        (**self).deserialize(bytes)
    }
}

/// A [`Serializer`] of items that are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawBytes;

impl Serializer for RawBytes {
    type Item = Vec<u8>;

    fn serialize(&self, item: &Vec<u8>) -> Result<Vec<u8>, BoxError> {
        Ok(item.clone())
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<Vec<u8>, BoxError> {
        Ok(bytes.to_vec())
    }
}

/// A [`Serializer`] of items that are text, as UTF-8.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Utf8;

impl Serializer for Utf8 {
    type Item = String;

    fn serialize(&self, item: &String) -> Result<Vec<u8>, BoxError> {
        Ok(item.as_bytes().to_vec())
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<String, BoxError> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_text_are_as_they_are() {
        assert_eq!(RawBytes.serialize(&vec![0, 255]).unwrap(), [0, 255]);
        assert_eq!(RawBytes.deserialize(&[0, 255]).unwrap(), [0, 255]);
        assert_eq!(Utf8.serialize(&"ü".to_owned()).unwrap(), [0xc3, 0xbc]);
        assert_eq!(Utf8.deserialize(&[0xc3, 0xbc]).unwrap(), "ü");
        assert!(Utf8.deserialize(&[0xff]).is_err());
    }
}
