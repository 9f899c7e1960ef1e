//! Reads of many nodes in few requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::Client;
use super::core::Core;
use super::error::Error;
use super::session::Session;
use crate::engine::{self, ManyRead};
use crate::util::path;
use crate::util::znode::Stat;

/// The most nodes that one request reads, and the most bytes that their paths have together. Even if all of them have
/// a megabyte, a server can hold the answer. The request stays below the length (`request_limit::COUNTED`) from which
/// it would be suspected when a server closes the connection, even with a short root in the connect string.
const MOST: (usize, usize) = (16, 400);
/// The most requests of one call that are under way: other users of the connection wait behind their answers.
const UNDER_WAY: usize = 8;

/// Nodes that one request reads.
#[derive(Debug)]
pub(crate) struct Group<T> {
    /// The nodes as the caller knows them, and their paths on the server.
    pub(crate) nodes: Vec<T>,
    pub(crate) full: Vec<String>,
    length: usize,
}

impl<T> Default for Group<T> {
    fn default() -> Self {
        Group { nodes: Vec::new(), full: Vec::new(), length: 0 }
    }
}

impl<T> Group<T> {
    pub(crate) fn has_room(&self, full: &str) -> bool {
        self.nodes.is_empty() || (self.nodes.len() < MOST.0 && self.length + full.len() <= MOST.1)
    }

    pub(crate) fn push(&mut self, node: T, full: String) {
        self.length += full.len();
        self.nodes.push(node);
        self.full.push(full);
    }
}

/// Reads each node by its own request, all of them at once.
pub(crate) async fn each(session: &Session, full: &[String]) -> ManyRead {
    session.together(|| join_all(full.iter().map(|full| session.get_data(full)))).await
}

impl Client {
    /// Reads the data of many nodes, in few requests: one reads up to sixteen nodes, and up to eight requests are under
    /// way at once. The results are in the order of `paths`, and each node has its own.
    ///
    /// This is not a snapshot: what changes meanwhile may be seen at one node and not at another. A node may be named
    /// more than once. Servers before 3.6 get a request for each node.
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Client, ErrorKind};
    /// # async fn example(client: Client) -> Result<(), zookeeper_recipes::Error> {
    /// let names = client.children("/tables").await?;
    /// let paths: Vec<_> = names.iter().map(|name| format!("/tables/{name}")).collect();
    /// for (path, read) in paths.iter().zip(client.multi_get(&paths).await?) {
    ///     match read {
    ///         Ok((data, stat)) => println!("{path}: {} bytes, version {}", data.len(), stat.version),
    ///         Err(error) if error.kind() == ErrorKind::NoNode => println!("{path} is gone"),
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of a node: [`ErrorKind::NoNode`](crate::ErrorKind::NoNode) if it does not exist, as [`get`](Self::get) has it;
    /// [`ErrorKind::NoAuth`](crate::ErrorKind::NoAuth) if it may not be read.
    ///
    /// Of the whole call: [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path, and nothing
    /// is sent; otherwise that of a request that failed. A loss of the connection is retried as the client's
    /// [`RetryPolicy`](crate::RetryPolicy) allows, each request by itself.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is left behind.
    #[doc(alias = "multiRead")]
    pub async fn multi_get<P: AsRef<str>>(
        &self,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Vec<Result<(Vec<u8>, Stat), Error>>, Error> {
        let core = self.core();
        let groups = groups(core, paths)?;
        let is_supported = AtomicBool::new(true);
        let reads: Vec<_> = groups.iter().map(|group| read(core, group, &is_supported)).collect();
        let read: Vec<_> = stream::iter(reads).buffered(UNDER_WAY).try_collect().await?;
        Ok(read.into_iter().flatten().collect())
    }
}

fn groups<P: AsRef<str>>(core: &Core, paths: impl IntoIterator<Item = P>) -> Result<Vec<Group<String>>, Error> {
    let mut groups: Vec<Group<String>> = Vec::new();
    for path in paths {
        let path = path.as_ref();
        path::validate_or_root(path)?;
        let full = core.full_path(path);
        match groups.last_mut().filter(|group| group.has_room(&full)) {
            Some(group) => group.push(path.to_owned(), full),
            None => {
                let mut group = Group::default();
                group.push(path.to_owned(), full);
                groups.push(group);
            }
        }
    }
    Ok(groups)
}

/// Reads the nodes of a group.
async fn read(
    core: &Core,
    group: &Group<String>,
    is_supported: &AtomicBool,
) -> Result<Vec<Result<(Vec<u8>, Stat), Error>>, Error> {
    let first = group.nodes.first().map_or("/", String::as_str);
    let request = |session: &Arc<Session>, _: &str| {
        let session = Arc::clone(session);
        async move {
            let read = attempt(&session, &group.full, is_supported).await?;
            // A missing root of the connect string is no empty tree.
            let is_missing = read.contains(&Err(engine::Error::NoNode));
            let is_root = is_missing && core.with_root(&session, engine::Error::NoNode).await == engine::Error::NoRoot;
            let missing = if is_root { engine::Error::NoRoot } else { engine::Error::NoNode };
            let exact = |error| if error == engine::Error::NoNode { missing.clone() } else { error };
            Ok(read.into_iter().map(|read| read.map_err(exact)).collect::<ManyRead>())
        }
    };
    let read = core.read("get", first, request).await?;
    let named = |(path, read): (&String, Result<_, _>)| read.map_err(|error| Error::from_engine("get", path, error));
    Ok(group.nodes.iter().zip(read).map(named).collect())
}

/// Reads the nodes once. If one request for all is refused as a whole, because the server does not support it or the
/// answer is too long, each node is read by its own request.
async fn attempt(session: &Session, full: &[String], is_supported: &AtomicBool) -> Result<ManyRead, engine::Error> {
    if full.len() > 1 && is_supported.load(Ordering::Relaxed) {
        match session.get_many(full).await {
            Ok(read) => return Ok(read),
            Err(error) if error.is_transient() => return Err(error),
            Err(_) => is_supported.store(false, Ordering::Relaxed),
        }
    }
    let read = each(session, full).await;
    match read.iter().find_map(|read| read.as_ref().err().filter(|error| error.is_transient())) {
        Some(error) => Err(error.clone()),
        None => Ok(read),
    }
}
