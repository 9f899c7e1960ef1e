//! The same requests by the client crate alone, without any of the care that makes a lock of them.

use std::time::Duration;

use uuid::Uuid;
use zookeeper as zk;

use super::Stage;

/// A lock of one contender.
pub struct RawLock {
    client: zk::Client,
    dir: String,
    base: &'static str,
}

/// A place in the line.
pub struct RawLine {
    path: String,
    /// Dropped after the node is gone, as before that it would cost a request.
    own: Option<zk::OneshotWatcher>,
    predecessor: Option<zk::OneshotWatcher>,
    /// Whoever was before it was the first: when it goes, nobody is before us.
    was_head: bool,
}

impl RawLock {
    pub async fn connect(stage: &Stage, dir: &str) -> Self {
        let connector = zk::Client::connector().with_session_timeout(Duration::from_secs(30));
        RawLock::on(connector.connect(&stage.connect_string()).await.expect("a session"), dir, "lock-").await
    }

    pub async fn on(client: zk::Client, dir: &str, base: &'static str) -> Self {
        make_directory(&client, dir).await;
        RawLock { client, dir: dir.to_owned(), base }
    }

    /// Makes a directory that lasts, for ours: both find one, and no server reaps it in between.
    pub async fn make_directory(&self, dir: &str) {
        make_directory(&self.client, dir).await;
    }

    pub async fn cycles(&self, cycles: u64) {
        for _ in 0..cycles {
            let mut place = self.enter().await;
            self.wait(&mut place).await;
            self.leave(place).await;
        }
    }

    /// Creates the node, lists, and watches the node before it and the own one: two flights.
    pub async fn enter(&self) -> RawLine {
        let prefix = format!("{}/_c_{}-{}", self.dir, Uuid::new_v4(), self.base);
        let mode = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
        let (created, listed) =
            tokio::join!(self.client.create(&prefix, b"", &mode), self.client.get_children(&self.dir));
        let ((_, sequence), (mut children, _)) = (created.expect("created"), listed.expect("listed"));
        let path = format!("{prefix}{sequence}");
        let number = |name: &String| name.rsplit('-').next().map(str::to_owned);
        children.sort_by_key(number);
        let at = children.iter().position(|child| path.ends_with(child.as_str())).expect("our own node");
        let Some(before_us) = at.checked_sub(1) else {
            return RawLine { path, own: None, predecessor: None, was_head: false };
        };
        let before = format!("{}/{}", self.dir, children[before_us]);
        let (own, predecessor) =
            tokio::join!(self.client.get_and_watch_data(&path), self.client.get_and_watch_data(&before));
        let own = Some(own.expect("our own node").2);
        let predecessor = predecessor.ok().map(|(_, _, watcher)| watcher);
        RawLine { path, own, predecessor, was_head: before_us == 0 }
    }

    /// Waits until nobody is before it. In these benchmarks nobody leaves out of turn, so what the list says is not looked
    /// at; but nobody may know that, so it is asked for.
    pub async fn wait(&self, place: &mut RawLine) {
        let Some(predecessor) = place.predecessor.take() else { return };
        predecessor.changed().await;
        if !place.was_head {
            self.client.get_children(&self.dir).await.expect("listed");
        }
    }

    pub async fn leave(&self, place: RawLine) {
        self.client.delete(&place.path, None).await.expect("deleted");
        drop(place.own);
    }
}

/// Makes a directory that lasts, if there is none.
pub async fn make_directory(client: &zk::Client, dir: &str) {
    let lasting = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    match client.create(dir, b"", &lasting).await {
        Ok(_) | Err(zk::Error::NodeExists) => {}
        Err(error) => panic!("{dir}: {error}"),
    }
}
