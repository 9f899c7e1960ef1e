//! A consumer that returns the items that it has seen for a long time, so that an operator deletes them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zookeeper_recipes::Client;
use zookeeper_recipes::queue::{Consumer, Utf8};

use super::ledger::Ledger;

/// How long no consumer may claim an item that it returns: longer than any task waits.
pub(super) const PASSED_OVER: Duration = Duration::from_secs(3_600);

#[derive(Clone)]
pub(super) struct Picky {
    pub(super) client: Client,
    pub(super) number: u64,
    pub(super) consumer: Consumer<Utf8>,
    pub(super) ledger: Ledger,
}

/// Notes that it leaves: its last call may have been dropped half way, and is not repeated at once.
impl Drop for Picky {
    fn drop(&mut self) {
        self.ledger.leaves(&self.client);
    }
}

impl Picky {
    /// Takes an item, if there is one within this time, and returns it.
    pub(super) async fn pass_over(self, patience: Duration) {
        let Ok(taken) = timeout(patience, self.consumer.take()).await else { return };
        match taken.map(Arc::new) {
            Ok(delivery) => {
                self.ledger.taken(self.number, &delivery);
                let place = self.ledger.place(&delivery);
                let delivery = Arc::into_inner(delivery).expect("the ledger holds none");
                let token = delivery.fencing_token();
                self.ledger.fails(&place, token, false);
                let until = Instant::now() + PASSED_OVER;
                let returned = delivery.nack_after(PASSED_OVER).await.inspect(|()| {
                    self.ledger.fails(&place, token, true);
                    self.ledger.delays(&place, until);
                });
                self.ledger.note(format_args!("{} passes {place} over: {returned:?}", self.number));
            }
            Err(error) => self.ledger.cannot_take(self.number, &error),
        }
    }
}
