//! Reads the stat of the oldest item of each queue.

use futures::stream::{self, StreamExt};

use super::super::read::AT_ONCE;
use super::recognize::summary;
use super::value::{Item, Node, Recipe};
use crate::client::{Client, Error, ErrorKind};

/// Reads the stat of the oldest item of each queue. The stat stays unknown if a consumer has taken the item meanwhile.
pub(super) async fn read_oldest(client: &Client, nodes: &mut [Node]) -> Result<(), Error> {
    let recipes = nodes.iter_mut().flat_map(|node| &mut node.recipes);
    let items: Vec<&mut Item> = recipes
        .filter_map(|recipe| match recipe {
            Recipe::Queue(queue) => queue.oldest.as_mut(),
            _ => None,
        })
        .collect();
    let paths: Vec<String> = items.iter().map(|item| item.path.clone()).collect();
    let looks = paths.into_iter().map(|path| {
        let client = client.clone();
        async move { client.exists(&path).await }
    });
    let mut looks = stream::iter(looks).buffered(AT_ONCE);
    for item in items {
        let Some(found) = looks.next().await else { break };
        item.stat = match found {
            Ok(stat) => stat.as_ref().map(summary),
            Err(error) if error.kind() == ErrorKind::NoAuth => None,
            Err(error) => return Err(error),
        };
    }
    Ok(())
}
