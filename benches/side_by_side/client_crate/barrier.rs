//! A double barrier: the same requests when nothing fails.

use futures::future::join_all;
use uuid::Uuid;
use zookeeper as zk;

use super::{Column, connect, timed};

#[derive(Clone)]
struct Member {
    client: zk::Client,
    dir: String,
    members: usize,
}

impl Member {
    async fn connect(addr: &str, dir: &str, members: usize) -> Self {
        Member { client: connect(addr).await, dir: dir.to_owned(), members }
    }

    async fn round(&self) {
        let name = self.enter().await;
        self.leave(&name).await;
    }

    /// Creates, watches `ready` and lists in one flight; the last member opens the round in a transaction.
    async fn enter(&self) -> String {
        let (name, ready) = (Uuid::new_v4().to_string(), format!("{}/ready", self.dir));
        let path = format!("{}/{name}", self.dir);
        let mode = zk::CreateMode::Ephemeral.with_acls(zk::Acls::anyone_all());
        let (created, watched, listed) = tokio::join!(
            self.client.create(&path, b"", &mode),
            self.client.check_and_watch_stat(&ready),
            self.client.get_children(&self.dir)
        );
        let (stat, _) = created.expect("created");
        let ((ready_stat, watcher), (mut children, dir)) = (watched.expect("watched"), listed.expect("listed"));
        if ready_stat.is_some() {
            // Others opened the round between the create and the check, and the watch would only report its end.
            return name;
        }
        children.retain(|child| child != "ready");
        if children.len() == self.members && dir.pzxid == stat.czxid {
            let mut opening = self.client.new_multi_writer();
            for child in &children {
                opening.add_check_version(&format!("{}/{child}", self.dir), -1).ok();
            }
            opening.add_set_data(&self.dir, b"", Some(dir.version)).expect("a good path");
            let persistent = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
            opening.add_create(&ready, b"", &persistent).expect("a good path");
            opening.commit().await.expect("opened");
        }
        watcher.changed().await;
        name
    }

    /// The lowest member waits for the highest until it is alone; all others wait for the end of the round.
    async fn leave(&self, name: &str) {
        let path = format!("{}/{name}", self.dir);
        loop {
            let (mut children, dir) = self.client.get_children(&self.dir).await.expect("listed");
            children.retain(|child| child != "ready");
            children.sort_unstable();
            if children == [name] {
                let mut ending = self.client.new_multi_writer();
                ending.add_set_data(&self.dir, b"", Some(dir.version)).expect("a good path");
                ending.add_delete(&path, None).expect("a good path");
                ending.add_delete(&format!("{}/ready", self.dir), None).expect("a good path");
                ending.commit().await.expect("ended");
                return;
            }
            if children[0] != name {
                let lowest = format!("{}/{}", self.dir, children[0]);
                let (gate, lowest, deleted) = tokio::join!(
                    self.client.get_and_watch_data(&self.dir),
                    self.client.get_and_watch_data(&lowest),
                    self.client.delete(&path, None)
                );
                deleted.expect("deleted");
                gate.expect("the barrier is there").2.changed().await;
                drop(lowest);
                return;
            }
            let highest = format!("{}/{}", self.dir, children[children.len() - 1]);
            if let Ok((_, _, watcher)) = self.client.get_and_watch_data(&highest).await {
                watcher.changed().await;
            }
        }
    }
}

/// Runs all members in one task.
pub(crate) fn rounds(addr: &str, dir: &str, members: usize, cycles: u64) -> Column {
    let all = join_all((0..members).map(|_| Member::connect(addr, dir, members)));
    Column::on_tokio(all, move |all| async move { timed(cycles, || join_all(all.iter().map(Member::round))).await })
}
