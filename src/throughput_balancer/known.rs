//! What the leader knows of one member.

use std::time::Duration;

use tokio::time::Instant;

use super::record::{Record, Stamp};

/// How long a member may take to follow before that is told.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A member, as far as it is known.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) content: Content,
    /// The data version of its node.
    pub(super) version: i32,
    /// Since when the leader waits for its word; and whether that was told.
    pub(super) waiting: Option<(Instant, bool)>,
    /// It never acknowledges, and has had time enough.
    pub(super) assumed: Option<Stamp>,
    /// Its record was not what the leader had written: what it says of itself is not to be relied on.
    pub(super) edited: bool,
    /// It has to say where it stands.
    pub(super) nudge: bool,
    /// How often it was asked in vain.
    pub(super) nudges: u32,
    /// What it is to have.
    pub(super) target: Option<u64>,
}

/// What a member's node holds.
#[derive(Debug)]
pub(super) enum Content {
    /// It must be read, again if there was a record.
    Unread(Option<Record>),
    /// No record, or one that cannot be written; the last that there was.
    Unreadable(Option<Record>),
    Record(Record),
}

impl Known {
    pub(super) fn unread() -> Self {
        Known {
            content: Content::Unread(None),
            version: 0,
            waiting: None,
            assumed: None,
            edited: false,
            nudge: false,
            nudges: 0,
            target: None,
        }
    }

    pub(super) fn record(&self) -> Option<&Record> {
        match &self.content {
            Content::Record(record) => Some(record),
            _ => None,
        }
    }

    /// How long its word is waited for now: ever longer when it does not come.
    pub(super) fn patience(&self) -> Duration {
        PATIENCE * 2_u32.pow(self.nudges.min(7))
    }

    /// Its record, or the last that it had.
    pub(super) fn last_record(&self) -> Option<&Record> {
        match &self.content {
            Content::Record(record) => Some(record),
            Content::Unread(last) | Content::Unreadable(last) => last.as_ref(),
        }
    }

    fn follows(&self, record: &Record, ack: Option<Stamp>) -> bool {
        !self.edited && (ack.max(self.assumed).is_some_and(|ack| ack >= record.stamp()) || !record.wants_ack())
    }

    /// Whether its word is waited for: it was given less, or it has not even said that it is there.
    pub(super) fn is_awaited(&self, ack: Option<Stamp>) -> bool {
        self.record().is_some_and(|record| !self.follows(record, ack) || (record.acks && ack.is_none()))
    }

    /// The largest share that it may be applying; none if nobody knows.
    pub(super) fn held(&self, ack: Option<Stamp>) -> Option<u64> {
        let record = self.last_record()?;
        Some(if self.follows(record, ack) { record.throughput } else { record.ceiling })
    }
}
