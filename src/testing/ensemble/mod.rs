//! An ensemble in memory: a deterministic ZooKeeper on tokio's clock, for tests and for programs without a server.
//!
//! Everything that happens is an event in one queue, ordered by its time and then by when it was added. A driver task
//! runs the events when they are due. Connections, requests, replies, watch events and ends of sessions are
//! messages in one queue for each connection and direction, with seeded delays in whole milliseconds. With a paused
//! clock and one thread the same seed gives the same history; nothing depends on the order of a hash table.
//!
//! ```text
//!  engine ─ socket ─ codec ═ connection ═ replica ─ leader ─ replicas
//!           (bytes)          (delays,     (applied   (order,
//!                             cuts)        tree,      sessions)
//!                                          watches)
//! ```
//!
//! The state of each part is in its own file, which `world` uses; its behavior is in `steps`, which uses `world`.
//!
//! The rules are those of ZooKeeper 3.9, except for what a [`Dialect`] changes. The clients are the same as for real
//! servers. With several servers, each of them serves clients, and the leader serves none (`leaderServes=no`). There
//! are no elections; a lever deposes a leader, which does not notice at first.

mod check;
mod codec;
mod connection;
mod dialect;
mod drops;
mod faults;
mod handle;
mod identity;
mod inbox;
mod inspect;
mod leader;
mod levers;
mod link;
mod log;
mod replica;
mod rules;
mod shared;
mod socket;
mod steps;
#[cfg(test)]
mod tests;
mod tree;
mod txn;
mod watching;
mod wire;
mod world;

use std::ops::RangeInclusive;
use std::time::Duration;

pub(crate) use self::handle::server_name;
pub use self::{
    dialect::Dialect,
    inspect::SessionInfo,
    log::{Record, RecordKind},
    wire::{Loss, Operation},
};
pub(crate) use self::{
    faults::Who,
    handle::{MemoryEnsemble, OUTSIDE},
    inbox::End,
    socket::{Connection, ReadHalf, WriteHalf},
};

/// Time since the ensemble was started, in milliseconds.
type Millis = u64;
/// The number of a transaction.
type Zxid = i64;
type ConnId = u64;

/// The longest time, 35 000 years. Sums of such times do not overflow.
const FOREVER: Millis = 1 << 50;

/// Returns the duration in whole milliseconds, at most [`FOREVER`].
pub(crate) fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).map_or(FOREVER, |millis| millis.min(FOREVER))
}

/// How an ensemble is built. All times are in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) dialect: Dialect,
    pub(crate) seed: u64,
    /// The time of day when it starts, since 1970.
    pub(crate) epoch: i64,
    /// One less than the number of the first transaction.
    pub(crate) zxid: Zxid,
    pub(crate) servers: usize,
    /// Followers report sessions to the leader every half tick.
    pub(crate) tick: Millis,
    /// The session timeouts that servers grant at first.
    pub(crate) least_timeout: Millis,
    pub(crate) most_timeout: Millis,
    /// The delay of a message between client and server.
    pub(crate) latency: RangeInclusive<Millis>,
    /// The delay of a message between servers, if there are several.
    pub(crate) link: RangeInclusive<Millis>,
    /// The time from proposal to commit.
    pub(crate) commit: RangeInclusive<Millis>,
    /// How much longer a replica may take to apply what is committed.
    pub(crate) lag: RangeInclusive<Millis>,
    /// On a longer request a server closes the connection (`jute.maxbuffer`). Answers have no limit.
    pub(crate) max_buffer: usize,
    /// How often the servers look for empty containers.
    pub(crate) container_check: Millis,
    /// Whether the servers answer four-letter words. Otherwise they close the connection, as a proxy may.
    pub(crate) four_letter_words: bool,
    /// Whether bytes are read and written in small pieces.
    pub(crate) split_bytes: bool,
    /// Whether the servers support persistent watches, as servers since 3.6 do.
    pub(crate) persistent_watches: bool,
    /// Whether nodes may have a time to live.
    pub(crate) extended_types: bool,
    /// Whether a server that has noticed that it is cut off from the leader serves reads (`readonlymode.enabled`).
    pub(crate) read_only_mode: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dialect: Dialect::ZooKeeper,
            seed: 0,
            // The same in every run, so that histories are the same.
            epoch: 1_700_000_000_000,
            zxid: 0,
            servers: 1,
            tick: 2_000,
            least_timeout: 4_000,
            most_timeout: 40_000,
            latency: 0..=2,
            link: 0..=1,
            commit: 0..=1,
            lag: 0..=0,
            max_buffer: 0xf_ffff,
            container_check: 60_000,
            four_letter_words: true,
            split_bytes: false,
            persistent_watches: true,
            extended_types: true,
            read_only_mode: false,
        }
    }
}

impl Options {
    fn half_tick(&self) -> Millis {
        (self.tick / 2).max(1)
    }

    /// Returns the password of a session, which only its client knows. With ClickHouse Keeper all passwords are zero.
    fn password(&self, session: i64) -> [u8; 16] {
        if self.dialect.is_keeper() { [0; 16] } else { codec::password(self.seed, session) }
    }

    fn container_check(&self) -> Millis {
        self.container_check.max(1)
    }
}
