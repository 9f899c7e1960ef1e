//! A view of the tree from outside, over a session that no test harms.

use std::future::Future;
use std::time::Duration;

use zookeeper::{Acl, Acls, AuthId, Client, CreateMode, Error, OneshotWatcher, Permission, Stat};

use super::runtime::on_rig;
use super::waiting::{eventually, until, within};

const SESSION: Duration = Duration::from_secs(30);
/// After so much silence of a server the session moves to another one.
const SILENCE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(50);

/// A session of its own, best made directly to the server and not through a proxy. Its methods try again
/// while the connection is lost and panic on what they do not expect.
#[derive(Clone, Debug)]
pub struct Observer {
    client: Client,
}

impl Observer {
    /// Opens a session; the connect string may name several servers.
    pub async fn connect(connect_string: &str) -> Observer {
        // The client waits ever longer between two rounds over its servers, so a round should be long.
        let hosts: Vec<&str> = connect_string.split(',').collect();
        let cluster = vec![hosts.join(","); 20_usize.div_ceil(hosts.len())].join(",");
        let connecting = on_rig(async move {
            let connector = Client::connector().with_session_timeout(SESSION).with_connection_timeout(SILENCE);
            connector.connect(&cluster).await
        });
        match within("the observer connects", PATIENCE, connecting).await {
            Ok(client) => Observer { client },
            Err(error) => panic!("the observer does not connect to {connect_string}: {error}"),
        }
    }

    /// The session, for all that this type has no method for.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Repeats `operation` while the connection is lost.
    async fn retry<T, F>(&self, what: &str, mut operation: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        within(what, PATIENCE, async {
            loop {
                match operation().await {
                    Err(Error::ConnectionLoss | Error::Custom(_) | Error::Timeout) => tokio::time::sleep(RETRY).await,
                    other => return other,
                }
            }
        })
        .await
    }

    /// The names of the children in order; none when the node does not exist.
    pub async fn children(&self, path: &str) -> Vec<String> {
        match self.retry(path, || self.client.list_children(path)).await {
            Ok(mut children) => {
                children.sort();
                children
            }
            Err(Error::NoNode) => Vec::new(),
            Err(error) => panic!("children of {path}: {error}"),
        }
    }

    /// Data and stat of a node, if it exists.
    pub async fn get(&self, path: &str) -> Option<(Vec<u8>, Stat)> {
        match self.retry(path, || self.client.get_data(path)).await {
            Ok(found) => Some(found),
            Err(Error::NoNode) => None,
            Err(error) => panic!("data of {path}: {error}"),
        }
    }

    /// The data of a node, if it exists.
    pub async fn data(&self, path: &str) -> Option<Vec<u8>> {
        self.get(path).await.map(|(data, _)| data)
    }

    /// The stat of a node, if it exists.
    pub async fn stat(&self, path: &str) -> Option<Stat> {
        let stat = self.retry(path, || self.client.check_stat(path)).await;
        stat.unwrap_or_else(|error| panic!("stat of {path}: {error}"))
    }

    /// Whether a node exists.
    pub async fn exists(&self, path: &str) -> bool {
        self.stat(path).await.is_some()
    }

    /// The session that an ephemeral node belongs to, if it exists; 0 for other nodes.
    pub async fn owner(&self, path: &str) -> Option<i64> {
        self.stat(path).await.map(|stat| stat.ephemeral_owner)
    }

    /// Creates a persistent node with an open ACL; its parent must exist.
    pub async fn create(&self, path: &str, data: &[u8]) {
        self.create_with(path, data, CreateMode::Persistent, Acls::anyone_all()).await;
    }

    /// Creates an ephemeral node of the observer's own session.
    pub async fn create_ephemeral(&self, path: &str, data: &[u8]) {
        self.create_with(path, data, CreateMode::Ephemeral, Acls::anyone_all()).await;
    }

    /// Creates a persistent node with these access rights.
    pub async fn create_with_acl(&self, path: &str, data: &[u8], acl: &[Acl]) {
        self.create_with(path, data, CreateMode::Persistent, Acls::from(acl)).await;
    }

    /// Creates a node that permits no operation on it or below it, except its deletion through the parent.
    pub async fn create_forbidden(&self, path: &str) {
        // No password has this digest.
        self.create_with_acl(path, b"", &[Acl::new(Permission::ALL, AuthId::new("digest", "stranger:AAAA"))]).await;
    }

    async fn create_with(&self, path: &str, data: &[u8], mode: CreateMode, acls: Acls<'_>) {
        let options = mode.with_acls(acls);
        let mut tries = 0;
        let created = self.retry(path, || {
            tries += 1;
            self.client.create(path, data, &options)
        });
        let created = created.await.map(|_| ());
        match created {
            Ok(()) => {}
            // The answer of the first try was lost.
            Err(Error::NodeExists) if tries > 1 => {}
            Err(error) => panic!("create {path}: {error}"),
        }
    }

    /// Creates a persistent node and its parents, as far as they do not exist.
    pub async fn create_all(&self, path: &str) {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let made = self.retry(path, || self.client.mkdir(path, &options)).await;
        made.unwrap_or_else(|error| panic!("create {path} and its parents: {error}"));
    }

    /// Sets the data of a node, which must exist.
    pub async fn set_data(&self, path: &str, data: &[u8]) {
        let set = self.retry(path, || self.client.set_data(path, data, None)).await;
        set.map(|_| ()).unwrap_or_else(|error| panic!("set data of {path}: {error}"));
    }

    /// Deletes a node without children; it need not exist.
    pub async fn delete(&self, path: &str) {
        match self.retry(path, || self.client.delete(path, None)).await {
            Ok(()) | Err(Error::NoNode) => {}
            Err(error) => panic!("delete {path}: {error}"),
        }
    }

    /// A one-shot watch on the children of a node, which must exist.
    pub async fn watch_children(&self, path: &str) -> OneshotWatcher {
        let watched = self.retry(path, || self.client.list_and_watch_children(path)).await;
        watched.unwrap_or_else(|error| panic!("watch children of {path}: {error}")).1
    }

    /// Makes the server that the observer talks to catch up with the leader.
    pub async fn sync(&self, path: &str) {
        let synced = self.retry(path, || self.client.sync(path)).await;
        synced.unwrap_or_else(|error| panic!("sync {path}: {error}"));
    }

    /// Waits until the node exists.
    pub async fn wait_until_exists(&self, path: &str) {
        eventually(&format!("{path} exists"), PATIENCE, || async { self.exists(path).await }).await;
    }

    /// Waits until the node does not exist (any more).
    pub async fn wait_until_gone(&self, path: &str) {
        eventually(&format!("{path} is gone"), PATIENCE, || async { !self.exists(path).await }).await;
    }

    /// Waits until the node has exactly `count` children and returns their names in order.
    pub async fn wait_for_children(&self, path: &str, count: usize) -> Vec<String> {
        until(&format!("{path} has {count} children"), PATIENCE, || async {
            let children = self.children(path).await;
            (children.len() == count).then_some(children)
        })
        .await
    }

    /// Waits until the node has these data.
    pub async fn wait_for_data(&self, path: &str, data: &[u8]) {
        let what = format!("the data of {path} are {:?}", String::from_utf8_lossy(data));
        eventually(&what, PATIENCE, || async { self.data(path).await.as_deref() == Some(data) }).await;
    }
}
