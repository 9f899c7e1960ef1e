//! A line of ephemeral sequential nodes: a lock, or an election.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::sync::Mutex;
use zookeeper as zk;

use super::{Column, connect, timed};
use crate::line::{self, Kind};

/// A contender.
#[derive(Clone)]
struct Lock {
    client: zk::Client,
    dir: String,
}

/// A place in the line.
struct Place {
    node: String,
    before: Option<Before>,
    /// Dropped only after the node is deleted: an earlier drop would cost a request.
    own: Option<zk::OneshotWatcher>,
}

/// The node that a contender waits for.
struct Before {
    watcher: zk::OneshotWatcher,
    /// Whether the contender is the first once this node is deleted. Otherwise it lists the line again.
    is_head: bool,
}

impl Lock {
    async fn connect(addr: &str, dir: &str) -> Lock {
        Lock { client: connect(addr).await, dir: dir.to_owned() }
    }

    async fn cycle(&self) {
        let mut place = self.enter().await;
        self.wait(&mut place).await;
        self.leave(place).await;
    }

    /// Creates and lists in one flight, then watches.
    async fn enter(&self) -> Place {
        let prefix = Kind::Mutex.prefix(&self.dir);
        let mode = zk::CreateMode::EphemeralSequential.with_acls(zk::Acls::anyone_all());
        let (created, listed) =
            tokio::join!(self.client.create(&prefix, b"", &mode), self.client.get_children(&self.dir));
        let ((_, sequence), (children, _)) = (created.expect("created"), listed.expect("listed"));
        let mut place = Place { node: format!("{prefix}{sequence}"), before: None, own: None };
        self.watch(children, &mut place).await;
        place
    }

    /// Watches the node ahead of ours, and our own as well if no further list will show it.
    async fn watch(&self, mut children: Vec<String>, place: &mut Place) {
        while let Some((before, is_head)) = Kind::Mutex.before(children, &place.node) {
            let before = format!("{}/{before}", self.dir);
            let watched = self.client.get_and_watch_data(&before);
            let watched = if is_head {
                let (watched, own) = tokio::join!(watched, self.client.get_and_watch_data(&place.node));
                place.own = Some(own.expect("our own node").2);
                watched
            } else {
                watched.await
            };
            if let Ok((_, _, watcher)) = watched {
                place.before = Some(Before { watcher, is_head });
                return;
            }
            children = self.client.get_children(&self.dir).await.expect("listed").0;
        }
    }

    /// Watches the leader's own node, as a latch does.
    async fn watch_own(&self, place: &mut Place) {
        place.own = Some(self.client.get_and_watch_data(&place.node).await.expect("our own node").2);
    }

    /// Waits until no node is ahead.
    async fn wait(&self, place: &mut Place) {
        while let Some(before) = place.before.take() {
            before.watcher.changed().await;
            if !before.is_head {
                let (children, _) = self.client.get_children(&self.dir).await.expect("listed");
                self.watch(children, place).await;
            }
        }
    }

    async fn leave(&self, place: Place) {
        self.client.delete(&place.node, None).await.expect("deleted");
        drop(place.own);
    }
}

pub(crate) fn free(addr: &str, dir: &str, cycles: u64) -> Column {
    Column::on_tokio(Lock::connect(addr, dir), move |lock| async move { timed(cycles, || lock.cycle()).await })
}

/// Runs a task for each contender.
pub(crate) fn contended(addr: &str, dir: &str, contenders: usize, turns: u64) -> Column {
    let locks = join_all((0..contenders).map(|_| Lock::connect(addr, dir)));
    Column::on_tokio(locks, move |locks| async move {
        let begun = Instant::now();
        let work = locks.into_iter().map(|lock| {
            tokio::spawn(async move {
                for _ in 0..turns {
                    lock.cycle().await;
                }
            })
        });
        join_all(work).await.into_iter().for_each(|done| done.expect("no panic"));
        vec![begun.elapsed() / u32::try_from(turns * contenders as u64).expect("few")]
    })
}

/// The line, the leader first.
type Line = VecDeque<(Lock, Place)>;

pub(crate) fn fail_over(addr: &str, dir: &str, participants: usize, cycles: u64) -> Column {
    let line = async {
        let mut line = Line::new();
        for _ in 0..participants {
            let lock = Lock::connect(addr, dir).await;
            let place = lock.enter().await;
            line.push_back((lock, place));
        }
        Arc::new(Mutex::new(line))
    };
    Column::on_tokio(line, move |line| async move {
        let mut line = line.lock_owned().await;
        let mut times = Vec::new();
        for _ in 0..cycles {
            times.push(fail_over_once(&mut line).await);
        }
        times
    })
}

/// Returns the time from the leader's delete until the next contender has seen the event and listed the line.
async fn fail_over_once(line: &mut Line) -> Duration {
    let (leader, place) = line.pop_front().expect("a leader");
    let (next, next_place) = line.front_mut().expect("a waiter");
    tokio::time::sleep(line::SETTLE).await;
    let begun = Instant::now();
    let ((), took) = tokio::join!(leader.leave(place), async {
        next.wait(next_place).await;
        begun.elapsed()
    });
    next.watch_own(next_place).await;
    let place = leader.enter().await;
    line.push_back((leader, place));
    took
}
