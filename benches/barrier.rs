//! DoubleBarrier against the raw client doing the same requests, on a real server:
//! `cargo bench --features integration --bench barrier`.
//!
//! The two take turns within each measurement, so that whatever else the machine does hits both; the ratio is what counts.

#[path = "side_by_side/mod.rs"]
mod side_by_side;
#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use futures::future::join_all;
use uuid::Uuid;
use zookeeper as zk;
use zookeeper_recipes::Client;
use zookeeper_recipes::double_barrier::DoubleBarrier;

use self::side_by_side::{Pair, Stage, make_directory};

async fn ours(stage: &Stage, path: &str, members: usize) -> DoubleBarrier {
    let client = Client::builder(stage.connect_string()).session_timeout(Duration::from_secs(30)).connect();
    DoubleBarrier::new(&client.await.expect("a client"), path, members).expect("a barrier")
}

async fn rounds(barrier: &DoubleBarrier, rounds: u64) {
    for _ in 0..rounds {
        barrier.enter().await.expect("in");
        barrier.leave().await.expect("out");
    }
}

/// A member by the client crate alone: the same requests when nothing goes wrong, without any of the care.
struct RawMember {
    client: zk::Client,
    dir: String,
    members: usize,
}

impl RawMember {
    async fn connect(stage: &Stage, dir: &str, members: usize) -> Self {
        let connector = zk::Client::connector().with_session_timeout(Duration::from_secs(30));
        let client = connector.connect(&stage.connect_string()).await.expect("a session");
        make_directory(&client, dir).await;
        RawMember { client, dir: dir.to_owned(), members }
    }

    async fn rounds(&self, rounds: u64) {
        for _ in 0..rounds {
            let name = self.enter().await;
            self.leave(&name).await;
        }
    }

    /// Create, `ready` and list in one flight; whoever came last opens in a transaction.
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
            // Others were faster between the create and the look: the round is on, and the watch would wait for its end.
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

    /// The lowest waits for the highest until it is alone, all others for the end of the round.
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

/// One iteration is a round of all members.
fn round(criterion: &mut Criterion, members: usize) {
    let stage = Stage::new();
    let (path, raw_path) = stage.paths("barrier");
    let (barriers, raws) = stage.block_on(async {
        let raws = join_all((0..members).map(|_| RawMember::connect(&stage, &raw_path, members))).await;
        // Both find a directory that no server reaps in between.
        make_directory(&raws[0].client, &path).await;
        (join_all((0..members).map(|_| ours(&stage, &path, members))).await, raws)
    });
    Pair::new(&format!("double barrier, enter and leave, {members} members")).measure(
        criterion,
        |iterations| stage.time(join_all(raws.iter().map(|raw| raw.rounds(iterations)))),
        |iterations| stage.time(join_all(barriers.iter().map(|barrier| rounds(barrier, iterations)))),
    );
}

fn benches(criterion: &mut Criterion) {
    round(criterion, 8);
    round(criterion, 32);
}

criterion_group! {
    name = barrier;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(4)).without_plots();
    targets = benches
}
criterion_main!(barrier);
