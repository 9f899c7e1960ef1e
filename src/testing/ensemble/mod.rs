//! An ensemble in memory: a deterministic ZooKeeper on tokio's clock, for tests and for programs without a server.
//!
//! Everything that happens is an event in one queue, ordered by its time and then by when it was put there. A driver
//! task lets the events happen when they are due. Connections, requests, replies, watch events and ends of sessions are
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
//! What a part is stands in its own file, below `world`; what it does stands in `steps`, above it.
//!
//! The rules are those of ZooKeeper 3.9, but for what a [`Dialect`] changes. The clients are those of real servers.
//! With several servers each serves clients and the leader serves none (`leaderServes=no`). There are no elections; a
//! lever deposes a leader without its noticing.

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

pub use self::{
    dialect::Dialect,
    inspect::SessionInfo,
    log::{Happening, Record},
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

/// Longer than this nothing takes: 35 000 years, and sums of such times are numbers still.
const FOREVER: Millis = 1 << 50;

/// In whole milliseconds, and no more than [`FOREVER`].
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
    /// The number of the last transaction before the first.
    pub(crate) zxid: Zxid,
    pub(crate) servers: usize,
    /// Followers report sessions to the leader every half tick.
    pub(crate) tick: Millis,
    /// What servers grant at first.
    pub(crate) least_timeout: Millis,
    pub(crate) most_timeout: Millis,
    /// Of a message between client and server.
    pub(crate) latency: RangeInclusive<Millis>,
    /// Of a message between servers, when there are several.
    pub(crate) link: RangeInclusive<Millis>,
    /// From proposal to commit.
    pub(crate) commit: RangeInclusive<Millis>,
    /// How much longer a replica may take to apply what is committed.
    pub(crate) lag: RangeInclusive<Millis>,
    /// A server that meets a longer request closes the connection (`jute.maxbuffer`). Answers have no limit.
    pub(crate) max_buffer: usize,
    /// How often spent containers are looked for.
    pub(crate) container_check: Millis,
    /// Whether the servers answer four-letter words. Otherwise they close the connection, as a proxy may.
    pub(crate) four_letter_words: bool,
    /// Whether bytes are read and written in small pieces.
    pub(crate) split_bytes: bool,
    /// Servers since 3.6 know persistent watches.
    pub(crate) persistent_watches: bool,
    /// Whether nodes may have a time to live.
    pub(crate) extended_types: bool,
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
        }
    }
}

impl Options {
    fn half_tick(&self) -> Millis {
        (self.tick / 2).max(1)
    }

    /// The password of a session, which only its client knows.
    fn password(&self, session: i64) -> [u8; 16] {
        if self.dialect.is_keeper() { [0; 16] } else { codec::password(self.seed, session) }
    }

    fn container_check(&self) -> Millis {
        self.container_check.max(1)
    }
}
