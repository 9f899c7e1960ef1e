//! Reads the data of persistent nodes that may be instances of services. Few persistent nodes are, so most of them are
//! not read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures::stream::{self, StreamExt};

use super::super::line::is_session;
use super::super::read::AT_ONCE;
use super::found::Content;
use super::services::instance_in;
use crate::client::{Client, Error, ErrorKind};
use crate::layout::service_discovery::shortest_record;
use crate::util::path::split;

/// A directory with persistent nodes that may be instances.
#[derive(Debug, Default, PartialEq, Eq)]
struct Directory {
    has_instance: bool,
    /// Whether it contains other directories, as that of a service does not.
    has_directory: bool,
    /// The paths of the nodes that may be instances and were not read, in order.
    unread: BTreeSet<String>,
}

/// Adds the data of persistent instances to what was found: in each directory that has an instance, and in each without
/// directories where the first node that may be one is one.
pub(super) async fn read_instances(
    client: &Client,
    found: &mut HashMap<String, Content>,
    denied: &mut BTreeSet<String>,
) -> Result<(), Error> {
    let may_be_service = |directory: &Directory| !directory.has_instance && !directory.has_directory;
    let firsts = directories(found).into_values().filter(may_be_service);
    let firsts: Vec<String> = firsts.filter_map(|directory| directory.unread.into_iter().next()).collect();
    read(client, firsts, found, denied).await?;
    let others = directories(found).into_values().filter(|directory| directory.has_instance);
    let others: Vec<String> = others.flat_map(|directory| directory.unread).collect();
    read(client, others, found, denied).await
}

/// Returns the directories that have an instance, a node that may be one, or another directory.
fn directories(found: &HashMap<String, Content>) -> BTreeMap<&str, Directory> {
    let parents: HashSet<&str> = found.keys().map(|path| split(path).0).collect();
    let mut directories: BTreeMap<&str, Directory> = BTreeMap::new();
    for parent in parents.iter().filter(|path| **path != "/") {
        directories.entry(split(parent).0).or_default().has_directory = true;
    }
    for (path, content) in found.iter().filter(|(path, _)| !parents.contains(path.as_str())) {
        let (directory, name) = split(path);
        if !found.contains_key(directory) {
            continue;
        }
        let service = split(directory).1;
        if instance_in(service, name, content).is_some() {
            directories.entry(directory).or_default().has_instance = true;
        } else if may_be_instance(service, name, content) {
            directories.entry(directory).or_default().unread.insert(path.clone());
        }
    }
    directories
}

/// Returns whether a node was not read, and has enough data to be an instance.
fn may_be_instance(service: &str, name: &str, content: &Content) -> bool {
    let Content::Read { stat, data } = content else { return false };
    let bytes = usize::try_from(stat.data_length).unwrap_or_default();
    !is_session(stat.ephemeral_owner) && data.is_empty() && bytes >= shortest_record(service, name)
}

/// Reads these nodes, and keeps the data of those that are instances.
async fn read(
    client: &Client,
    paths: Vec<String>,
    found: &mut HashMap<String, Content>,
    denied: &mut BTreeSet<String>,
) -> Result<(), Error> {
    let reads = paths.into_iter().map(|path| {
        let client = client.clone();
        async move { (client.get(&path).await, path) }
    });
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    while let Some((read, path)) = reads.next().await {
        match read {
            Ok((data, stat)) => {
                let (directory, name) = split(&path);
                let content = Content::Read { stat, data };
                if instance_in(split(directory).1, name, &content).is_some() {
                    found.insert(path, content);
                }
            }
            Err(error) if error.kind() == ErrorKind::NoNode => drop(found.remove(&path)),
            Err(error) if error.kind() == ErrorKind::NoAuth => {
                found.insert(path.clone(), Content::Denied);
                denied.insert(path);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::znode::Stat;

    const INSTANCE: &str = r#"{"name":"s","id":"a"}"#;

    /// A node with this much data, which was read only if it is given.
    fn node(session: i64, data_length: usize, data: &str) -> Content {
        let stat = Stat { ephemeral_owner: session, data_length: data_length as i32, ..Stat::default() };
        Content::Read { stat, data: data.as_bytes().to_vec() }
    }

    #[test]
    fn which_nodes_may_be_instances() {
        let length = INSTANCE.len();
        let found = HashMap::from([
            ("/".to_owned(), node(0, 0, "")),
            ("/s".to_owned(), node(0, 999, "")),
            ("/s/a".to_owned(), node(7, length, INSTANCE)),
            ("/s/b".to_owned(), node(0, length, "")),
            ("/s/c".to_owned(), node(0, length - 1, "")),
            ("/s/d".to_owned(), Content::Unread),
            ("/s/e".to_owned(), Content::Denied),
            ("/s/f".to_owned(), node(0, length, "no instance")),
            ("/t".to_owned(), node(0, 0, "")),
            ("/t/a".to_owned(), node(0, length, "")),
            ("/t/b".to_owned(), node(0, length, "")),
            ("/t/a/below".to_owned(), node(0, 0, "")),
            ("/u".to_owned(), node(0, 0, "")),
            ("/u/a".to_owned(), node(0, length, "")),
        ]);
        let unread = |path: &str| BTreeSet::from([path.to_owned()]);
        let expected = BTreeMap::from([
            ("/", Directory { has_directory: true, ..Directory::default() }),
            ("/s", Directory { has_instance: true, unread: unread("/s/b"), ..Directory::default() }),
            ("/t", Directory { has_directory: true, unread: unread("/t/b"), ..Directory::default() }),
            ("/u", Directory { unread: unread("/u/a"), ..Directory::default() }),
        ]);
        assert_eq!(directories(&found), expected);
    }
}
