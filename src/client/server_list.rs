//! Lists of servers that change while clients use them.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::error::{Error, ErrorKind};
use crate::engine::Endpoint;
use crate::engine::connect_string::{ConnectString, list};

/// The servers of an ensemble, which a task of yours may replace at any time: for ensembles whose servers move, and
/// whose list is kept elsewhere, as in a configuration service or in the endpoints of Kubernetes.
///
/// Give it to any number of clients by [`ClientBuilder::server_list`](crate::ClientBuilder::server_list). Clones share
/// the list. All its servers must belong to one ensemble.
///
/// When a list no longer has the server that a client is connected to, the client's session moves: within about a
/// second the client looks for another server of the list that serves, waits for the answers that it is owed, and
/// resumes its session there. The session goes on with its nodes and watches, and the move leaves no request in doubt.
/// The state is [`Suspended`](crate::ConnectionState::Suspended) for a few round trips, so holds end under
/// [`ErrorPolicy::Standard`](crate::ErrorPolicy::Standard) and go on under
/// [`ErrorPolicy::Session`](crate::ErrorPolicy::Session). While no other server can be reached, or if the answers take
/// longer than a tenth of the session timeout, the client keeps its connection and tries again later. ClickHouse Keeper
/// cannot move sessions: there the connection is always kept.
///
/// Together with [`ensemble_tracker`](crate::ClientBuilder::ensemble_tracker), the ensemble's configuration counts once
/// it was read. Then the servers of this list are tried only while none of the configuration can be reached.
///
/// ```no_run
/// use zookeeper_recipes::{Client, ServerList};
///
/// # async fn example(mut new_servers: tokio::sync::mpsc::Receiver<String>) -> Result<(), zookeeper_recipes::Error> {
/// let servers = ServerList::new("zk1:2181,zk2:2181,zk3:2181")?;
/// let client = Client::builder("/apps").server_list(&servers).connect().await?;
/// tokio::spawn(async move {
///     while let Some(list) = new_servers.recv().await {
///         if let Err(error) = servers.replace(&list) {
///             eprintln!("the servers stay {servers}: {error}");
///         }
///     }
/// });
/// # let _ = client;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "updateServerList")]
#[doc(alias = "EnsembleProvider")]
#[derive(Clone)]
pub struct ServerList {
    servers: Arc<watch::Sender<Vec<Endpoint>>>,
}

impl ServerList {
    /// Returns a list of servers, in the format of a connect string without a root: `zk1:2181,zk2:2181`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]: not such a list. The message names the part that is wrong.
    pub fn new(servers: &str) -> Result<Self, Error> {
        Ok(ServerList { servers: Arc::new(watch::Sender::new(parse(servers)?)) })
    }

    /// Replaces the servers, and returns whether they differ from those before, in any order. Returns at once: the
    /// sessions move later.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] as from [`new`](Self::new). Nothing was changed. Whether the clients have the
    /// options for `tcp+tls://` is not checked: without them such a server cannot be reached.
    pub fn replace(&self, servers: &str) -> Result<bool, Error> {
        let servers = parse(servers)?;
        Ok(self.servers.send_if_modified(|now| {
            let differs = *now != servers;
            *now = servers;
            differs
        }))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Vec<Endpoint>> {
        self.servers.subscribe()
    }
}

/// Writes the servers in their normal form, in alphabetical order.
impl fmt::Display for ServerList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&list(&self.servers.borrow()))
    }
}

impl fmt::Debug for ServerList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerList({self})")
    }
}

/// Returns the servers in a fixed order, each once: clients try them in an order of their own.
fn parse(servers: &str) -> Result<Vec<Endpoint>, Error> {
    let invalid = |why: String| Error::new(ErrorKind::InvalidArgument, why);
    let parsed = ConnectString::parse(servers).map_err(|error| invalid(error.to_string()))?;
    if parsed.srv().is_some() {
        let why = "server list: SRV records name servers themselves; give srv:// to Client::builder, without a list";
        return Err(invalid(why.to_owned()));
    }
    if let Some(root) = parsed.chroot() {
        let why = format!("server list: ends with the root {root}; give it to Client::builder, which every client has");
        return Err(invalid(why));
    }
    let mut servers = parsed.endpoints();
    servers.sort_by_cached_key(Endpoint::to_string);
    servers.dedup();
    Ok(servers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_each_server_once_in_its_normal_form() {
        let servers = ServerList::new("zk2, zk1:2182 ,zk2:2181").expect("a list");
        assert_eq!(servers.to_string(), "zk1:2182,zk2:2181");
        assert!(!servers.replace("zk1:2182,zk2").expect("a list"), "the same servers");
        let mut changes = servers.subscribe();
        assert!(servers.replace("zk3").expect("a list"));
        assert!(changes.has_changed().expect("open"));
        assert_eq!(list(&changes.borrow_and_update()), "zk3:2181");
    }

    #[test]
    fn what_is_no_list_is_refused_and_changes_nothing() {
        let servers = ServerList::new("zk1").expect("a list");
        for (wrong, why) in [
            ("", "a host must not be empty"),
            ("zk1,", "a host must not be empty"),
            ("zk1:port", "a port must be a number"),
            ("srv://zk.example", "give srv:// to Client::builder"),
            ("zk1:2181/apps", "ends with the root /apps; give it to Client::builder"),
        ] {
            let error = servers.replace(wrong).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(why), "{error}");
        }
        assert_eq!(servers.to_string(), "zk1:2181");
    }
}
