//! The world: all parts of the ensemble, and the queue of future events.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;

use fastrand::Rng;
use tokio::sync::oneshot;

use super::connection::{Conn, Dial};
use super::faults::{Faults, Who};
use super::leader::Leader;
use super::link::{Forward, Validated};
use super::log::Log;
use super::replica::Replica;
use super::wire::{Incoming, Message};
use super::{ConnId, Millis, Options};

/// An event that happens at a certain time.
#[derive(Debug)]
pub(crate) enum Event {
    /// The first packet of a connection is sent.
    Dial(Dial),
    /// A client learns that its connection is established.
    Dialled(ConnId, oneshot::Sender<io::Result<ConnId>>),
    /// A request arrives at the server.
    Up(ConnId, Incoming),
    /// A message arrives at the client.
    Down(ConnId, Message),
    /// A request arrives at the leader.
    Forwarded(Forward),
    /// The leader's oldest proposal is committed.
    Commit(u32),
    /// A replica receives a message from the leader.
    Step(usize),
    Validated(Validated),
    /// A replica reports to the leader which sessions it has heard from.
    Report(usize),
    /// A replica that is cut off stops serving.
    StepDown(usize, u32),
    /// A session may have expired.
    Expiry(i64),
    /// Empty containers, and nodes past their time to live, are deleted.
    Reap,
}

/// The ensemble and its network.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) now: Millis,
    pub(crate) random: Rng,
    queue: BTreeMap<(Millis, u64), Event>,
    scheduled: u64,
    /// When the driver wakes next.
    pub(crate) planned: Option<Millis>,
    pub(crate) leader: Leader,
    pub(crate) replicas: Vec<Replica>,
    /// The session timeouts that each server grants to connections made from now on.
    pub(crate) grants: Vec<RangeInclusive<Millis>>,
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    pub(crate) faults: Faults,
    pub(crate) log: Log,
    pub(crate) running: bool,
    /// Whether the driver is gone, so that no event happens any more.
    pub(crate) over: bool,
    /// Grows with every stop and start, so that what was under way at a stop does not arrive later.
    pub(crate) incarnation: u32,
    last_id: u64,
    /// How many sessions were ever opened: ids are not used twice, even if data is lost.
    pub(crate) opened: i64,
    pub(crate) last_commit: Millis,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        let replicas: Vec<Replica> =
            (0..options.servers.max(1)).map(|_| Replica { applied: options.zxid, ..Replica::new() }).collect();
        let grants = vec![options.least_timeout..=options.most_timeout; replicas.len()];
        let leader = Leader::new(options.extended_types, options.zxid);
        let mut world = World {
            random: Rng::with_seed(options.seed),
            options,
            now: 0,
            queue: BTreeMap::new(),
            scheduled: 0,
            planned: None,
            leader,
            replicas,
            grants,
            conns: BTreeMap::new(),
            faults: Faults::default(),
            log: Log::default(),
            running: true,
            over: false,
            incarnation: 0,
            last_id: 0,
            opened: 0,
            last_commit: 0,
        };
        world.schedule(world.options.container_check(), Event::Reap);
        if world.replicas.len() > 1 {
            for replica in 0..world.replicas.len() {
                world.schedule(world.options.half_tick(), Event::Report(replica));
            }
        }
        world
    }

    /// Returns the time of day at a moment, in milliseconds since 1970.
    pub(crate) fn time_of_day(&self, at: Millis) -> i64 {
        self.options.epoch.saturating_add_unsigned(at)
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn schedule(&mut self, at: Millis, event: Event) {
        self.scheduled += 1;
        self.queue.insert((at.max(self.now), self.scheduled), event);
    }

    /// Returns when the next event is due.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the next event that is due.
    pub(crate) fn take_due(&mut self) -> Option<Event> {
        let entry = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now)?;
        Some(entry.remove())
    }

    /// Ends every connection, because nothing happens any more.
    pub(crate) fn abandon(&mut self) {
        self.over = true;
        self.cut_all(Who::All);
    }
}
