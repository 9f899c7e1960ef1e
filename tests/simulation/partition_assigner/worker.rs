//! What members do with their partitions: they work on them, well or badly.

use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use futures::StreamExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::Client;
use zookeeper_recipes::partition_assigner::{BoxError, Change, Changes, Owned};

use super::ledger::{Ledger, STORE};

/// How work on a partition proceeds.
#[derive(Debug, Clone, Copy)]
enum Way {
    Returns,
    Fails,
    Panics,
    /// Works until another member is to get the partition, and then for a short time.
    UntilRevoked,
    /// Ignores that another member is to get the partition.
    Ignores,
    /// Like `Ignores`, and its destructor panics.
    IgnoresAndPanics,
    /// Releases the hold, and continues.
    Releases,
}

/// Panics like code that does so by mistake, but without a report on the terminal.
struct PanicsWhenDropped(bool);

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        if self.0 && !std::thread::panicking() {
            resume_unwind(Box::new("dropped"));
        }
    }
}

/// A member at work.
pub(super) struct Worker {
    pub(super) number: u64,
    pub(super) client: Client,
    pub(super) client_number: usize,
    /// The longest time that work lasts if it ends by itself.
    pub(super) longest: Duration,
    pub(super) random: Mutex<Rng>,
    pub(super) ledger: Ledger,
    /// Set once everything is healed: from then on, work ends only when it should.
    pub(super) hurry: watch::Receiver<bool>,
}

impl Worker {
    /// Works on a partition.
    pub(super) async fn work(self: Arc<Self>, owned: Owned) -> Result<(), BoxError> {
        let (way, time) = self.choose();
        let at_work = self.ledger.works(self.number, self.client_number, &self.client, &owned);
        let mut panics = PanicsWhenDropped(matches!(way, Way::IgnoresAndPanics));
        let mut hurry = self.hurry.clone();
        let work = async {
            tokio::select! {
                biased;
                () = self.proceed(&owned, way, time) => {}
                _ = hurry.wait_for(|hurry| *hurry), if matches!(way, Way::Returns | Way::Fails | Way::Panics) => {}
            }
        };
        let mut work = Box::pin(work);
        std::future::poll_fn(|cx| {
            if !owned.is_held() {
                self.ledger.object(format!("{} is polled, but does not hold {} any more", self.number, owned.id()));
            }
            work.as_mut().poll(cx)
        })
        .await;
        panics.0 = false;
        drop(at_work);
        match way {
            Way::Fails => Err("by chance".into()),
            Way::Panics => resume_unwind(Box::new("by chance")),
            _ => Ok(()),
        }
    }

    fn choose(&self) -> (Way, Duration) {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let way = match random.u8(..16) {
            0 => Way::Returns,
            1 => Way::Fails,
            2 => Way::Panics,
            3..=9 => Way::UntilRevoked,
            10..=12 => Way::Ignores,
            13 => Way::IgnoresAndPanics,
            _ => Way::Releases,
        };
        let way = if *self.hurry.borrow() { Way::UntilRevoked } else { way };
        (way, Duration::from_millis(1) + self.longest.mul_f64(random.f64().powi(2)))
    }

    async fn proceed(&self, owned: &Owned, way: Way, time: Duration) {
        match way {
            Way::Returns | Way::Fails | Way::Panics => {
                for _ in 0..4 {
                    sleep(time / 4).await;
                    write(&self.client, owned, time).await;
                }
            }
            Way::UntilRevoked => {
                write(&self.client, owned, time).await;
                let Some(by) = owned.revoked().await else { return std::future::pending().await };
                let left = by.saturating_duration_since(Instant::now());
                sleep(left.min(time) / 2).await;
            }
            Way::Ignores | Way::IgnoresAndPanics => {
                let mut steps = tokio::time::interval(Duration::from_millis(500));
                loop {
                    steps.tick().await;
                }
            }
            Way::Releases => {
                sleep(time).await;
                owned.release();
                std::future::pending().await
            }
        }
    }

    /// Follows the changes, and releases what is revoked, or does not.
    pub(super) async fn follow(self: Arc<Self>, mut changes: Changes) {
        while let Some(change) = changes.next().await {
            match change {
                Change::Granted { partition } => write(&self.client, &partition, self.longest).await,
                Change::Revoking { partition, by } => {
                    let (releases, share) = {
                        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
                        (random.u8(..4) > 0, random.f64())
                    };
                    let left = by.saturating_duration_since(Instant::now());
                    sleep(left.mul_f64(share)).await;
                    if releases || *self.hurry.borrow() {
                        partition.release();
                    }
                }
                Change::Lost { partition } if partition.is_held() => {
                    self.ledger.object(format!("{} has lost {partition:?}, but holds it", self.number));
                }
                _ => {}
            }
        }
    }
}

/// Writes under the fence of a hold.
pub(super) async fn write(client: &Client, owned: &Owned, most: Duration) {
    let data = format!("{} {}", owned.id(), owned.fencing_token());
    let written = client.transaction().check(&owned.fence()).set_data(STORE, data, None).commit();
    // The servers may be unreachable for a long time.
    drop(timeout(most, written).await);
}
