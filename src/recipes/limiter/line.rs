//! The waiting calls, in their order. Each has a ticket, which is served even if its future is not polled.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;

use super::bucket::Bucket;

#[derive(Debug, Default)]
pub(super) struct Line {
    tickets: VecDeque<Ticket>,
    /// The number of the next ticket.
    next: u64,
    /// The permits of all tickets so far, except those that left unserved.
    upto: u128,
    /// The permits of the tickets that were served.
    served: u128,
}

#[derive(Debug)]
struct Ticket {
    number: u64,
    permits: u64,
    /// The permits of all tickets up to this one.
    upto: u128,
    /// Notified when the ticket is served, and when it will be served sooner than its call has computed.
    wake: Arc<Notify>,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Adds a ticket at the end. Returns its number and what notifies its call.
    pub(super) fn enter(&mut self, permits: u64) -> (u64, Arc<Notify>) {
        let (number, wake) = (self.next, Arc::new(Notify::new()));
        self.next += 1;
        self.upto += u128::from(permits);
        self.tickets.push_back(Ticket { number, permits, upto: self.upto, wake: Arc::clone(&wake) });
        (number, wake)
    }

    /// Removes a ticket; later ones move up. Returns false if it was already served.
    pub(super) fn leave(&mut self, number: u64) -> bool {
        let Ok(at) = self.position(number) else { return false };
        let permits = self.tickets.remove(at).map_or(0, |ticket| u128::from(ticket.permits));
        self.tickets.range_mut(at..).for_each(|ticket| ticket.upto -= permits);
        self.upto -= permits;
        if at == 0 {
            self.wake_first();
        }
        true
    }

    /// Serves tickets as long as there are permits for the first one.
    pub(super) fn serve(&mut self, bucket: &mut Bucket) {
        let mut is_served = false;
        while let Some(first) = self.tickets.front()
            && bucket.take(first.permits).is_ok()
        {
            self.served = first.upto;
            first.wake.notify_one();
            self.tickets.pop_front();
            is_served = true;
        }
        if is_served {
            self.wake_first();
        }
    }

    /// Returns how many permits must come until the ticket is served, its own included; `None` once it is served.
    pub(super) fn until_served(&self, number: u64) -> Option<u128> {
        let at = self.position(number).ok()?;
        Some(self.tickets[at].upto - self.served)
    }

    /// Returns whether the ticket is the first, or served.
    pub(super) fn is_first(&self, number: u64) -> bool {
        self.tickets.front().is_none_or(|first| first.number >= number)
    }

    /// Returns the permits of the first ticket.
    pub(super) fn first(&self) -> Option<u128> {
        self.tickets.front().map(|first| first.permits.into())
    }

    /// Notifies the first call: tickets ahead of it have left since it computed how long to wait.
    pub(super) fn wake_first(&self) {
        if let Some(first) = self.tickets.front() {
            first.wake.notify_one();
        }
    }

    /// Notifies all calls.
    pub(super) fn wake_all(&self) {
        self.tickets.iter().for_each(|ticket| ticket.wake.notify_one());
    }

    fn position(&self, number: u64) -> Result<usize, usize> {
        self.tickets.binary_search_by_key(&number, |ticket| ticket.number)
    }
}
