//! Reads of many nodes in few requests.

use std::iter::Peekable;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{FuturesOrdered, StreamExt};

use super::Client;
use super::core::Core;
use super::error::{Error, ErrorKind};
use crate::engine;
use crate::util::path;
use crate::util::znode::Stat;

/// The most nodes that one request reads. Even if all of them have a megabyte, a server can hold the answer.
const MOST_NODES: usize = 16;
/// The most bytes that the paths of one request have together on the wire. The request stays below the length
/// (`request_limit::COUNTED`) from which it would be suspected when a server closes the connection.
const MOST_PATH_BYTES: usize = 400;
/// The most requests of one call that are under way.
const UNDER_WAY: usize = 8;
/// How many bytes of data one request should read: heartbeats wait behind its answer.
const BYTES_OF_REQUEST: usize = 64 * 1024;
/// How many bytes of data all requests that are under way should read.
const BYTES_UNDER_WAY: usize = 256 * 1024;

/// What was read of each node.
type Read = Vec<Result<(Vec<u8>, Stat), Error>>;

/// Nodes that one request reads.
#[derive(Debug)]
pub(crate) struct Group<T> {
    /// The nodes as the caller knows them, and their paths without the root of the connect string.
    pub(crate) nodes: Vec<T>,
    pub(crate) full: Vec<String>,
    /// The bytes of the paths on the wire.
    length: usize,
}

impl<T> Default for Group<T> {
    fn default() -> Self {
        Group { nodes: Vec::new(), full: Vec::new(), length: 0 }
    }
}

impl<T> Group<T> {
    /// `root` is the length of the root of the connect string.
    pub(crate) fn has_room(&self, full: &str, root: usize) -> bool {
        self.nodes.is_empty() || (self.nodes.len() < MOST_NODES && self.length + root + full.len() <= MOST_PATH_BYTES)
    }

    pub(crate) fn push(&mut self, node: T, full: String, root: usize) {
        self.length += root + full.len();
        self.nodes.push(node);
        self.full.push(full);
    }
}

/// How much of a call is under way at most.
struct Window {
    requests: usize,
    /// Nodes of a request.
    nodes: usize,
}

impl Window {
    /// Follows the size of the nodes that were read last.
    fn adapt(&mut self, read: &Read) {
        let bytes: usize = read.iter().flatten().map(|(data, _)| data.len()).sum();
        let of_node = (bytes / read.len().max(1)).max(1);
        self.nodes = (BYTES_OF_REQUEST / of_node).clamp(1, MOST_NODES);
        self.requests = (BYTES_UNDER_WAY / (of_node * self.nodes)).clamp(1, UNDER_WAY.min(self.requests * 2));
    }
}

impl Client {
    /// Reads the data of many small nodes, in few requests. The results are in the order of `paths`, and each node has
    /// its own.
    ///
    /// One request reads up to sixteen nodes whose paths have up to 400 bytes together. At first one request is under
    /// way, then up to eight; fewer, and with fewer nodes, while the nodes are large, as heartbeats wait behind the
    /// answers. If nodes cannot be read together, they are read one after the other: if their answer would be longer
    /// than [`max_response_bytes`](crate::ClientBuilder::max_response_bytes), after a lost connection, and on servers
    /// before 3.6. For nodes of more than some 10 KiB, prefer [`get`](Self::get).
    ///
    /// This is not a snapshot: what changes meanwhile may be seen at one node and not at another. A node may be named
    /// more than once.
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
    /// Of a node the same as from [`get`](Self::get): [`ErrorKind::NoNode`](crate::ErrorKind::NoNode) if it does not
    /// exist, [`ErrorKind::NoAuth`](crate::ErrorKind::NoAuth) if it may not be read,
    /// [`ErrorKind::Other`](crate::ErrorKind::Other) if its answer alone is too long.
    ///
    /// Of the whole call: [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path, and nothing
    /// is sent; otherwise that of a [`get`](Self::get) that failed, after a loss of the connection was retried as the
    /// client's [`RetryPolicy`](crate::RetryPolicy) allows.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is left behind.
    #[doc(alias = "multiRead")]
    pub async fn multi_get<P: AsRef<str>>(
        &self,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Vec<Result<(Vec<u8>, Stat), Error>>, Error> {
        let core = self.core();
        let mut nodes = Vec::new();
        for path in paths {
            path::validate_or_root(path.as_ref())?;
            nodes.push((path.as_ref().to_owned(), core.full_path(path.as_ref())));
        }
        let Some((first, _)) = nodes.first() else { return Ok(Vec::new()) };
        let root = core.session_in_time("get", first).await?.root_len();
        let mut all = Vec::with_capacity(nodes.len());
        let mut nodes = nodes.into_iter().peekable();
        let is_supported = AtomicBool::new(true);
        let (mut window, mut under_way) = (Window { requests: 1, nodes: MOST_NODES }, FuturesOrdered::new());
        loop {
            while under_way.len() < window.requests && nodes.peek().is_some() {
                under_way.push_back(read(self, take(&mut nodes, window.nodes, root), &is_supported));
            }
            let Some(read) = under_way.next().await else { return Ok(all) };
            let read = read?;
            window.adapt(&read);
            all.extend(read);
        }
    }
}

/// Takes the nodes of the next request.
fn take(nodes: &mut Peekable<impl Iterator<Item = (String, String)>>, most: usize, root: usize) -> Group<String> {
    let mut group = Group::default();
    while group.nodes.len() < most
        && let Some((node, full)) = nodes.next_if(|(_, full)| group.has_room(full, root))
    {
        group.push(node, full, root);
    }
    group
}

/// Reads the nodes of a group: all together or, if that fails, one after the other. So a connection that is too slow
/// for all of them may still be fast enough.
async fn read(client: &Client, group: Group<String>, is_supported: &AtomicBool) -> Result<Read, Error> {
    if let Some(read) = together(client.core(), &group, is_supported).await? {
        return Ok(read);
    }
    let mut all = Vec::with_capacity(group.nodes.len());
    for node in &group.nodes {
        let read = client.get(node).await;
        match read.as_ref().map_err(Error::kind) {
            Ok(_) | Err(ErrorKind::NoNode | ErrorKind::NoAuth | ErrorKind::Other) => all.push(read),
            Err(_) => return read.map(|_| all),
        }
    }
    Ok(all)
}

/// Reads the nodes of a group in one request, once. Returns `None` if they are to be read one after the other: they
/// cannot be read together, or the connection was lost.
async fn together(core: &Core, group: &Group<String>, is_supported: &AtomicBool) -> Result<Option<Read>, Error> {
    if group.nodes.len() < 2 || !is_supported.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let session = core.session_in_time("get", &group.nodes[0]).await?;
    let read = match tokio::time::timeout(core.config.connection_timeout, session.get_many(&group.full)).await {
        Ok(Ok(read)) => read,
        Ok(Err(engine::Error::Unimplemented(_))) => {
            is_supported.store(false, Ordering::Relaxed);
            return Ok(None);
        }
        Ok(Err(_)) | Err(_) => return Ok(None),
    };
    // A missing root of the connect string is no empty tree.
    let is_missing = read.contains(&Err(engine::Error::NoNode));
    let missing =
        if is_missing { core.with_root(&session, engine::Error::NoNode).await } else { engine::Error::NoNode };
    let exact = |error| if error == engine::Error::NoNode { missing.clone() } else { error };
    let named =
        |(path, read): (&String, Result<_, _>)| read.map_err(|error| Error::from_engine("get", path, exact(error)));
    Ok(Some(group.nodes.iter().zip(read).map(named).collect()))
}
