//! A producer that puts items.

use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::queue::{Error, Producer, Utf8};

use super::ledger::{Ledger, Put};

const MOST_ITEMS: u64 = 12;
/// The size of a burst: enough for several transactions under way at once.
const BURST: std::ops::RangeInclusive<u64> = 100..=200;

pub(super) struct Putter {
    pub(super) number: u64,
    pub(super) producer: Producer<Utf8>,
    pub(super) ledger: Ledger,
    pub(super) random: Rng,
    /// The session timeout.
    pub(super) timeout: Duration,
    pub(super) hurry: watch::Receiver<bool>,
    /// Begins with many items at once.
    pub(super) bursts: bool,
    /// Puts few items at a time, so that the queue is often empty.
    pub(super) slow: bool,
}

impl Putter {
    pub(super) async fn work(mut self) {
        let mut next = 0;
        if self.bursts {
            next = self.random.u64(BURST);
            self.enqueue(&self.begin(0..next)).await;
        }
        let end = next + MOST_ITEMS;
        while next < end && !*self.hurry.borrow() {
            let count = match self.random.u8(..4) {
                0 if !self.slow => self.random.u64(2..=12),
                _ => 1,
            };
            let items = self.begin(next..next + count);
            next += count;
            let usual = self.producer.clone();
            self.choose_key(&items);
            match self.random.u8(..8) {
                0 => self.put_as_one(&items).await,
                1 => self.put_half_way(&items).await,
                2 => self.put_in_time(&items).await,
                3 => self.enqueue(&items).await,
                _ => self.put_together(&items).await,
            }
            self.producer = usual;
            let most = if self.slow { self.timeout } else { self.timeout / 2 };
            let pause = most.mul_f64(self.random.f64().powi(4));
            sleep(pause).await;
        }
        if self.random.bool() {
            // Puts that were not awaited are in doubt in any case.
            let _ = self.producer.close().await;
        }
    }

    /// Puts these items with a priority, a delay or an id, by chance.
    fn choose_key(&mut self, items: &[String]) {
        match self.random.u8(..6) {
            0 => self.producer = self.producer.priority(self.random.i32(-2..=2)),
            1 => {
                let most = if self.slow { self.timeout / 8 } else { self.timeout };
                let delay = most.mul_f64(self.random.f64().powi(2));
                items.iter().for_each(|item| self.ledger.is_due(item, Instant::now() + delay));
                self.producer = self.producer.after(delay);
            }
            2 if items.len() == 1 => {
                self.ledger.has_id(&items[0]);
                self.producer = self.producer.id(items[0].clone());
            }
            _ => {}
        }
    }

    fn begin(&self, numbers: std::ops::Range<u64>) -> Vec<String> {
        let items: Vec<String> = numbers.map(|item| format!("{}:{item}", self.number)).collect();
        items.iter().for_each(|item| self.ledger.begins(item));
        items
    }

    fn told(&self, item: &str, outcome: &Result<(), Error>) {
        let how = match outcome {
            Ok(()) => Put::Done,
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => Put::InDoubt,
            Err(error @ (Error::Full { .. } | Error::Closed { .. })) => {
                self.ledger.note(error);
                Put::Refused
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => Put::Refused,
            Err(error) => return self.ledger.object(format!("{item} cannot be put: {error}")),
        };
        self.ledger.put(item, how);
    }

    async fn put_together(&self, items: &[String]) {
        let outcomes = join_all(items.iter().map(|item| self.producer.put(item.clone()))).await;
        for (item, outcome) in items.iter().zip(&outcomes) {
            self.told(item, outcome);
        }
    }

    async fn put_as_one(&self, items: &[String]) {
        let outcome = self.producer.put_many(items.iter().cloned()).await;
        for item in items {
            self.told(item, &outcome);
        }
    }

    async fn put_half_way(&mut self, items: &[String]) {
        let time = self.timeout.mul_f64(self.random.f64().powi(4) / 4.0);
        if timeout(time, self.put_together(items)).await.is_err() {
            self.ledger.cancelled();
        }
    }

    async fn put_in_time(&mut self, items: &[String]) {
        let time = self.timeout.mul_f64(self.random.f64().powi(3));
        for item in items {
            let outcome = self.producer.put_timeout(item.clone(), time).await;
            self.told(item, &outcome);
        }
    }

    async fn enqueue(&self, items: &[String]) {
        let mut enqueued = Vec::new();
        for item in items {
            match self.producer.enqueue(item.clone()).await {
                Ok(one) => enqueued.push((item, one)),
                Err(error) => self.told(item, &Err(error)),
            }
        }
        for (item, one) in enqueued {
            self.told(item, &one.await);
        }
    }
}
