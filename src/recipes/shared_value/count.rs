//! A shared number.

use super::{SharedValue, SharedValueBuilder};
use crate::client::Client;
use crate::util::serializer::{BoxError, Serializer};

/// A shared number, on the node of Curator's `SharedCount`: four bytes, big-endian. See [`SharedCount::count`].
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::shared_value::{Error, SharedCount};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let workers = SharedCount::count(&client, "/my-service/workers")
///     .seed(4)
///     .start()
///     .await?;
/// if let Some(doubled) = workers.update(|now| now.checked_mul(2)).await? {
///     println!("{doubled} workers");
/// }
/// # Ok(())
/// # }
/// ```
///
/// To count events, use a [`DistributedAtomicLong`](crate::atomic_long::DistributedAtomicLong): it is exact even if an
/// answer is lost.
#[doc(alias = "DistributedAtomicInteger")]
pub type SharedCount = SharedValue<i32>;

/// The [`Serializer`] of a [`SharedCount`]: four bytes, big-endian. Other data is not decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountBytes;

impl Serializer for CountBytes {
    type Item = i32;

    fn serialize(&self, item: &i32) -> Result<Vec<u8>, BoxError> {
        Ok(item.to_be_bytes().to_vec())
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<i32, BoxError> {
        let four = bytes.try_into().map_err(|_| format!("{} bytes; a count has four", bytes.len()))?;
        Ok(i32::from_be_bytes(four))
    }
}

impl SharedCount {
    /// Returns a builder for the number at `path`.
    pub fn count(client: &Client, path: impl Into<String>) -> SharedValueBuilder<CountBytes> {
        SharedValue::builder(client, path).decode(CountBytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_javas() {
        for (number, bytes) in [(1, [0, 0, 0, 1]), (-2, [255, 255, 255, 254]), (i32::MIN, [128, 0, 0, 0])] {
            assert_eq!(CountBytes.serialize(&number).unwrap(), bytes);
            assert_eq!(CountBytes.deserialize(&bytes).unwrap(), number);
        }
        for length in [0, 3, 5, 8] {
            let error = CountBytes.deserialize(&vec![0; length]).expect_err("not a count");
            assert!(error.to_string().contains(&format!("{length} bytes")), "{error}");
        }
    }
}
