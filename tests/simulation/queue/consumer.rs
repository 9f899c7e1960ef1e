//! A consumer that takes and settles items.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::queue::{Consumer, Delivery, Error, Utf8};
use zookeeper_recipes::{Client, ErrorKind, Fence};

use super::ledger::Ledger;

/// The data written under claims.
pub(super) const GUARDED: &str = "/guarded";

pub(super) struct Taker {
    pub(super) client: Client,
    pub(super) number: u64,
    pub(super) consumer: Consumer<Utf8>,
    pub(super) ledger: Ledger,
    pub(super) random: Rng,
    /// The session timeout.
    pub(super) timeout: Duration,
    pub(super) hurry: watch::Receiver<bool>,
    /// Works only briefly on an item, so that the queue is often empty.
    pub(super) quick: bool,
}

/// Notes that it leaves, even if it is dropped half way.
impl Drop for Taker {
    fn drop(&mut self) {
        self.ledger.leaves(&self.client);
    }
}

impl Taker {
    pub(super) async fn work(mut self) {
        let mut parted: Option<(Fence, i64, Vec<String>)> = None;
        while !*self.hurry.borrow() {
            let Some(delivery) = self.take().await else { continue };
            let delivery = Arc::new(delivery);
            self.ledger.taken(self.number, &delivery);
            // The previous item may have had the same name as this one.
            if let Some((fence, token, items)) = parted.take() {
                self.write(&fence, token, &items, true).await;
            }
            self.handle(&delivery).await;
            let (fence, token, items) = (delivery.fence(), delivery.fencing_token(), delivery.items().to_vec());
            let early = self.random.bool();
            if early {
                self.write(&fence, token, &items, false).await;
            }
            let settled = self.part(delivery).await;
            if !early {
                self.write(&fence, token, &items, settled).await;
            }
            parted = settled.then_some((fence, token, items));
        }
        // Noted before it is closed, which gives up what no caller has taken.
        self.ledger.leaves(&self.client);
        if self.random.bool() {
            self.consumer.close().await;
        }
    }

    async fn take(&mut self) -> Option<Delivery<String>> {
        let patience = match self.random.u8(..4) {
            0 => self.timeout.mul_f64(self.random.f64().powi(4)),
            _ => Duration::MAX,
        };
        let mut hurry = self.hurry.clone();
        let taken = tokio::select! {
            biased;
            _ = hurry.wait_for(|hurry| *hurry) => return None,
            taken = timeout(patience, self.consumer.take()) => taken,
        };
        match taken {
            Ok(Ok(delivery)) => Some(delivery),
            Ok(Err(error)) => {
                self.ledger.cannot_take(self.number, &error);
                sleep(self.timeout).await;
                None
            }
            Err(_) => {
                self.ledger.cancelled();
                None
            }
        }
    }

    /// Works on an item for a while; by chance only until it is lost.
    async fn handle(&mut self, delivery: &Delivery<String>) {
        let most = if self.quick { self.timeout / 8 } else { self.timeout };
        let time = most.mul_f64(self.random.f64().powi(6));
        match self.random.u8(..3) {
            0 => sleep(time).await,
            1 => {
                if delivery.run(sleep(time)).await.is_err() && delivery.is_held() {
                    self.ledger.object("run() reports the claim as lost, but is_held() does not");
                }
            }
            _ => {
                if timeout(time, delivery.lost()).await.is_ok() && delivery.is_held() {
                    self.ledger.object("lost() reports the claim as lost, but is_held() does not");
                }
            }
        }
    }

    /// Writes under a claim, now and then: this must fail once it is settled, and after a later claim.
    async fn write(&mut self, fence: &Fence, token: i64, items: &[String], settled: bool) {
        if self.random.u8(..4) > 0 {
            return;
        }
        let latest = self.ledger.latest(&items[0]);
        let write = self.client.transaction().check(fence).set_data(GUARDED, "", None).commit();
        // The servers may be unreachable for a long time.
        let written = timeout(self.timeout, write).await;
        if let Ok(Ok(_)) = written {
            if latest > token {
                self.ledger.object(format!("delivery {token} of {items:?} could write after delivery {latest}"));
            }
            if settled {
                self.ledger.object(format!("delivery {token} of {items:?} could write after it was settled"));
            }
        }
    }

    /// Settles an item, or drops it. Returns whether it is known to be settled.
    async fn part(&mut self, delivery: Arc<Delivery<String>>) -> bool {
        let (items, place) = (delivery.items().to_vec(), self.ledger.place(&delivery));
        let what = format!("{} {place}", self.number);
        let token = delivery.fencing_token();
        let delivery = Arc::into_inner(delivery).expect("the ledger holds none");
        let outcome = match self.random.u8(..20) {
            0..=12 => {
                self.ledger.acks(&items);
                let acked = delivery.ack().await.map(|_| true);
                if acked.is_ok() {
                    self.ledger.acked(&place, &items);
                }
                acked
            }
            13 => {
                self.ledger.acks(&items);
                let time = self.timeout.mul_f64(self.random.f64().powi(4) / 8.0);
                match timeout(time, delivery.ack()).await {
                    Ok(acked) => acked.map(|_| true).inspect(|_| self.ledger.acked(&place, &items)),
                    Err(_) => {
                        self.ledger.cancelled();
                        Ok(false)
                    }
                }
            }
            14 => {
                self.ledger.rejects(&items, false);
                let rejected = delivery.reject("by chance").await;
                self.ledger.rejects(&items, rejected.is_ok());
                rejected.map(|()| true)
            }
            way @ 15..=16 => {
                self.ledger.fails(&place, token, false);
                let after = if way == 15 { self.timeout.mul_f64(self.random.f64()) } else { Duration::ZERO };
                let until = Instant::now() + after;
                delivery.nack_after(after).await.map(|()| true).inspect(|_| {
                    self.ledger.fails(&place, token, true);
                    self.ledger.delays(&place, until);
                })
            }
            17 => delivery.release().await.map(|()| true),
            _ => {
                drop(delivery);
                Ok(false)
            }
        };
        self.ledger.note(format_args!("{what}: {outcome:?}"));
        if let Err(error) = &outcome
            && !may_be_lost(error)
        {
            self.ledger.object(format!("{what} cannot be settled: {error}"));
        }
        outcome.unwrap_or(false)
    }
}

/// Returns whether an item could not be settled because its session or its claim had ended.
pub(super) fn may_be_lost(error: &Error) -> bool {
    matches!(error, Error::Lost { .. }) || matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::OutcomeUnknown)
}
