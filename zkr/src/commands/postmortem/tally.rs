//! How often each end was told.

use serde::Serialize;
use zookeeper_recipes::inspect::postmortem::{End, Hold, Item, ItemEnd, Summary, What};

use super::time::shown;
use crate::output::count;

/// The numbers of what was told. Places in the line of a semaphore count as waits or not at all: their permits are
/// held.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Those that held.
    pub holds: Ends,
    /// Those that waited, and never held.
    pub waits: Ends,
    pub items: Items,
    pub overlaps: usize,
    /// Gaps, and damaged files.
    pub problems: usize,
}

/// How often a hold or a wait ended in each way.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Ends {
    pub all: usize,
    pub released: usize,
    pub session_closed: usize,
    pub session_expired: usize,
    pub deleted: usize,
    pub remains: usize,
    pub unknown: usize,
}

/// How often items ended in each way.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Items {
    pub all: usize,
    pub done: usize,
    pub taken: usize,
    pub dead_lettered: usize,
    pub deleted: usize,
    pub remains: usize,
    pub unknown: usize,
}

impl Tally {
    pub fn hold(&mut self, hold: &Hold) {
        if hold.granted.is_none() {
            self.waits.add(hold.end);
        } else if hold.what != What::Turn {
            self.holds.add(hold.end);
        }
    }

    pub fn item(&mut self, item: &Item) {
        let items = &mut self.items;
        items.all += 1;
        *match item.end {
            ItemEnd::Done => &mut items.done,
            ItemEnd::Taken => &mut items.taken,
            ItemEnd::DeadLettered => &mut items.dead_lettered,
            ItemEnd::Deleted => &mut items.deleted,
            ItemEnd::Remains => &mut items.remains,
            _ => &mut items.unknown,
        } += 1;
    }

    pub fn is_empty(&self) -> bool {
        self.holds.all + self.waits.all + self.items.all == 0
    }

    /// Returns the last line of the text: what was read, and the numbers that are not 0.
    pub fn text(&self, summary: &Summary, at: Option<i64>) -> String {
        let mut parts = vec![self.holds.text("hold", "holds", "released")];
        if self.waits.all > 0 {
            parts.push(self.waits.text("wait without a hold", "waits without a hold", "gave up"));
        }
        if self.items.all > 0 {
            parts.push(self.items.text());
        }
        parts.push(count(self.overlaps, "overlap", "overlaps"));
        let transactions =
            count(usize::try_from(summary.transactions).unwrap_or(usize::MAX), "transaction", "transactions");
        let logs = count(summary.logs, "log", "logs");
        let read = match (at, summary.first, summary.last) {
            (Some(at), _, _) => format!("at {}", shown(at)),
            (None, Some(first), Some(last)) => {
                // The clock of a later leader may be slow.
                let (from, to) = (first.ms.min(last.ms), first.ms.max(last.ms));
                format!("{transactions} in {logs}, {} to {}", shown(from), shown(to))
            }
            _ => format!("{transactions} in {logs}"),
        };
        format!("{read}: {}", parts.join("; "))
    }
}

impl Ends {
    fn add(&mut self, end: End) {
        self.all += 1;
        *match end {
            End::Released => &mut self.released,
            End::SessionClosed => &mut self.session_closed,
            End::SessionExpired => &mut self.session_expired,
            End::Deleted | End::Removed => &mut self.deleted,
            End::Remains => &mut self.remains,
            _ => &mut self.unknown,
        } += 1;
    }

    fn text(&self, one: &str, many: &str, released: &str) -> String {
        let ends = [
            (self.released, released),
            (self.session_closed, "session closed"),
            (self.session_expired, "expired"),
            (self.deleted, "deleted"),
            (self.remains, "still there"),
            (self.unknown, "unknown"),
        ];
        with_ends(self.all, one, many, &ends)
    }
}

impl Items {
    fn text(&self) -> String {
        let ends = [
            (self.done, "done"),
            (self.taken, "taken"),
            (self.dead_lettered, "dead letters"),
            (self.deleted, "deleted"),
            (self.remains, "still there"),
            (self.unknown, "unknown"),
        ];
        with_ends(self.all, "item", "items", &ends)
    }
}

fn with_ends(all: usize, one: &str, many: &str, ends: &[(usize, &str)]) -> String {
    let ends: Vec<_> =
        ends.iter().filter(|(number, _)| *number > 0).map(|(number, end)| format!("{number} {end}")).collect();
    let all = count(all, one, many);
    if ends.is_empty() { all } else { format!("{all} ({})", ends.join(", ")) }
}
