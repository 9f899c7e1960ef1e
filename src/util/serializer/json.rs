//! Items as JSON.

use std::fmt;
use std::marker::PhantomData;

use super::{BoxError, Serializer};

/// A [`Serializer`] of items of any type that serde supports, as JSON. Needs the feature `json`.
///
/// ```no_run
/// use serde::{Deserialize, Serialize};
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::queue::{DistributedQueue, Error, Json};
///
/// #[derive(Debug, Serialize, Deserialize)]
/// struct Order {
///     id: u64,
/// }
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let orders = Json::<Order>::new();
/// let queue = DistributedQueue::builder(&client, "/orders", orders).build()?;
/// queue.producer().put(Order { id: 7 }).await?;
/// # Ok(())
/// # }
/// ```
pub struct Json<T> {
    items: PhantomData<fn() -> T>,
}

impl<T> Json<T> {
    /// Creates the serializer.
    pub const fn new() -> Self {
        Json { items: PhantomData }
    }
}

impl<T> Default for Json<T> {
    fn default() -> Self {
        Json::new()
    }
}

impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json")
    }
}

impl<T> Serializer for Json<T>
where
    T: serde::Serialize + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    type Item = T;

    fn serialize(&self, item: &T) -> Result<Vec<u8>, BoxError> {
        Ok(serde_json::to_vec(item)?)
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<T, BoxError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_what_serde_makes_of_it() {
        let json = Json::<(u8, String)>::new();
        let bytes = json.serialize(&(7, "a".into())).unwrap();
        assert_eq!(bytes, br#"[7,"a"]"#);
        assert_eq!(json.deserialize(&bytes).unwrap(), (7, "a".into()));
        assert!(json.deserialize(b"{").is_err());
    }
}
