//! The end of a seed: everything is taken, and each item is accounted for.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use zookeeper_recipes::queue::{Delivery, DistributedQueue, Error, Utf8};
use zookeeper_recipes::testing::Dialect;

use super::super::consumer::{GUARDED, may_be_lost};
use super::super::ledger::Put;
use super::{CLAIMS, DEAD, NEW_ITEMS, PATH, PRODUCERS, Play, texts};

/// How many items are put in the end, to be taken in order.
const ORDERED_ITEMS: u32 = 10;

impl Play {
    /// Takes whatever is there, until the queue is empty, no item is held, and no task is running any more.
    pub(super) async fn drain(&mut self) -> Result<(), String> {
        let mut client = self.world.a_client();
        if self.world.dialect != Dialect::ZooKeeper {
            // A new client has not seen the faults, and believes nothing wrong about the servers.
            assert!(self.world.connect().await, "everything is healed");
            client = self.world.clients.len() - 1;
        }
        let consumer = self.queue(client).consumer();
        if self.world.random.bool() {
            // It has read the queue, and is disconnected while the others finish.
            if let Ok(taken) = tokio::time::timeout(Duration::from_millis(50), consumer.take()).await {
                self.settle_at_last(taken).await?;
            }
            // On Keeper that would end its session.
            if self.world.dialect == Dialect::ZooKeeper {
                self.world.server.disconnect(&self.world.clients[client]);
            }
        }
        self.hurry.send_replace(true);
        let patience = self.patience();
        let mut progress = Instant::now();
        // A put may be under way that was sent before everything was healed.
        let mut quiet_since = Instant::now();
        loop {
            self.delete_passed_over();
            self.putters.retain_mut(|task| task.now_or_never().is_none());
            self.takers.retain_mut(|task| task.now_or_never().is_none());
            if let Ok(taken) = tokio::time::timeout(Duration::from_secs(1), consumer.take()).await {
                (quiet_since, progress) = (Instant::now(), Instant::now());
                self.settle_at_last(taken).await?;
                continue;
            }
            let at_work = self.putters.len() + self.takers.len();
            let left: Vec<_> =
                [PATH, CLAIMS, PRODUCERS].iter().flat_map(|dir| self.world.server.children(dir)).collect();
            if at_work == 0 && left.is_empty() {
                if quiet_since.elapsed() >= self.world.quiet() {
                    return Ok(());
                }
                continue;
            }
            quiet_since = Instant::now();
            if progress.elapsed() > patience {
                return Err(format!("long after healing {at_work} tasks are running, and {left:?} are left"));
            }
        }
    }

    /// Puts items with priorities and times into the empty queue. The only consumer must get them in order.
    pub(super) async fn take_in_order(&mut self) -> Result<(), String> {
        // On Keeper a client may believe something wrong about the servers.
        if self.world.dialect != Dialect::ZooKeeper {
            return Ok(());
        }
        let number = self.came;
        self.came += 1;
        let client = self.world.a_client();
        let mut queue = DistributedQueue::builder(&self.world.clients[client], PATH, Utf8);
        if self.locked.is_some() {
            queue = queue.claims_path(CLAIMS);
        }
        let queue = queue.prefetch(self.world.random.usize(..3)).build().map_err(|error| error.to_string())?;
        let (producer, mut expected) = (queue.producer(), Vec::new());
        let begun = self.world.server.time_of_day();
        for nth in 0..ORDERED_ITEMS {
            let item = format!("{number}:{nth}");
            self.ledger.begins(&item);
            let seconds = self.world.random.u64(0..4);
            // Without a time an item comes behind those with one.
            let (producer, priority, time) = match self.world.random.u8(..4) {
                0 => (producer.at(begun - Duration::from_secs(seconds)), 0, 9 - seconds),
                1 | 2 => {
                    let priority = self.world.random.i32(-2..=2);
                    (producer.priority(priority), priority, u64::MAX)
                }
                _ => (producer.clone(), 0, u64::MAX),
            };
            producer.put(&item).await.map_err(|error| format!("after healing nothing can be put: {error}"))?;
            self.ledger.put(&item, Put::Done);
            expected.push((priority, time, nth, item));
        }
        expected.sort_unstable();
        let consumer = queue.consumer();
        for (_, _, _, item) in expected {
            let taken = tokio::time::timeout(self.patience(), consumer.take()).await;
            let taken = taken.map_err(|_| format!("long after healing {item} is not taken"))?;
            let got = taken.as_ref().map_or(String::new(), |delivery| delivery.item().clone());
            self.settle_at_last(taken).await?;
            if got != item {
                return Err(format!("{got} is taken before {item}"));
            }
        }
        producer.close().await.map_err(|error| error.to_string())?;
        consumer.close().await;
        Ok(())
    }

    /// Restarts the empty queue. New items have the names of those that the picky consumer has returned, and it must
    /// take them, as it is the only consumer.
    pub(super) async fn take_from_a_new_queue(&mut self) -> Result<(), String> {
        // On Keeper it may believe something wrong about the servers.
        let picky = self.picky.take().filter(|_| self.world.dialect == Dialect::ZooKeeper);
        let Some(picky) = picky else { return Ok(()) };
        self.restart();
        let client = self.world.a_client();
        let producer = self.queue(client).producer();
        for number in 0..NEW_ITEMS {
            let item = format!("{}:{number}", self.came);
            self.ledger.begins(&item);
            producer.put(&item).await.map_err(|error| format!("after healing nothing can be put: {error}"))?;
            self.ledger.put(&item, Put::Done);
            let taken = tokio::time::timeout(self.patience(), picky.consumer.take()).await;
            self.settle_at_last(taken.map_err(|_| format!("long after healing {item} is not taken"))?).await?;
        }
        producer.close().await.map_err(|error| error.to_string())?;
        picky.consumer.close().await;
        Ok(())
    }

    /// Returns the longest time without progress. The total has no limit, as connections may be slow.
    fn patience(&self) -> Duration {
        self.world.timeout * 4 + Duration::from_secs(60)
    }

    /// Acks an item: after healing, whatever is taken can be acked.
    async fn settle_at_last(&self, taken: Result<Delivery<String>, Error>) -> Result<(), String> {
        let delivery = Arc::new(taken.map_err(|error| format!("after healing nothing can be taken: {error}"))?);
        self.ledger.taken(u64::MAX, &delivery);
        let (place, items) = (self.ledger.place(&delivery), delivery.items().to_vec());
        let delivery = Arc::into_inner(delivery).ok_or("held")?;
        self.ledger.acks(&items);
        match delivery.ack().await {
            Ok(_) => self.ledger.acked(&place, &items),
            Err(Error::Lost { .. }) if self.ledger.is_excused() => {}
            // The client loses its session when it finds out which operations the servers lack.
            Err(error) if self.world.dialect != Dialect::ZooKeeper && may_be_lost(&error) => {}
            Err(error) => return Err(format!("after healing {items:?} cannot be acked: {error}")),
        }
        Ok(())
    }

    /// Checks the outcome of all items.
    pub(super) fn sum(&self) -> Result<(), String> {
        let mut dead = Vec::new();
        for name in self.world.server.children(DEAD) {
            let node = self.world.server.get(&format!("{DEAD}/{name}")).ok_or("a dead letter")?;
            let text = String::from_utf8_lossy(&node);
            let attempts = text.lines().find_map(|line| line.strip_prefix("attempts: ")).ok_or("attempts")?;
            let attempts: u32 = attempts.parse().map_err(|_| "attempts")?;
            let (_, item) = text.split_once("\n\n").ok_or("a head")?;
            dead.extend(texts(item.as_bytes()).map(|text| (text, attempts)));
        }
        self.ledger.sum(&dead, self.claims_deleted)
    }

    /// Deletes the nodes that stay by design; all others must be gone.
    pub(super) fn clean_up(&self) {
        let server = &self.world.server;
        for name in server.children(DEAD) {
            self.world.sweep(&format!("{DEAD}/{name}"));
        }
        for dir in [PATH, CLAIMS, PRODUCERS, DEAD, GUARDED] {
            self.world.sweep(dir);
        }
    }
}
