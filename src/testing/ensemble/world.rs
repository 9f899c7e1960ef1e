//! Everything there is, and the queue of what will happen.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use fastrand::Rng;

use super::attempts::Causes;
use super::client::Client;
use super::connection::Conn;
use super::drops::Drops;
use super::faults::Faults;
use super::leader::Leader;
use super::link::{Forward, Validated};
use super::log::Log;
use super::replica::Replica;
use super::wire::{Message, Request};
use super::{ClientId, ConnId, Millis, Options};

/// Something that happens at its time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A request arrives at the server.
    Up(ConnId, Request),
    /// A message arrives at the client.
    Down(ConnId, Message),
    /// The client learns that its connection was cut.
    Broken(ConnId),
    /// A client tries to connect.
    Attempt(ClientId),
    /// A client looks whether its server is silent, and whether a ping is due.
    Tick(ClientId, u64),
    /// The servers may have forgotten a session that is closed and could not tell them.
    Forgotten(ClientId),
    /// A request arrives at the leader.
    Forwarded(Forward),
    /// The leader's oldest proposal is committed.
    Commit(u32),
    /// A replica hears from the leader.
    Step(usize),
    Validated(Validated),
    /// A replica tells the leader which sessions it heard of.
    Report(usize),
    /// A replica that is cut off stops serving.
    StepDown(usize, u32),
    /// A session may have expired.
    Expiry(i64),
    /// Spent containers are removed.
    Reap,
}

/// The ensemble, its network and the client-side half of every session.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) now: Millis,
    pub(crate) random: Rng,
    queue: BTreeMap<(Millis, u64), Event>,
    scheduled: u64,
    /// When the driver will look next.
    pub(crate) planned: Option<Millis>,
    pub(crate) leader: Leader,
    pub(crate) replicas: Vec<Replica>,
    /// The session timeouts that each server grants to connections made from now on.
    pub(crate) grants: Vec<RangeInclusive<Millis>>,
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    pub(crate) clients: BTreeMap<ClientId, Client>,
    /// What waits for a frozen group to go on.
    pub(crate) frozen: BTreeMap<u32, Vec<Event>>,
    pub(crate) faults: Faults,
    /// Why clients are not connected, by their groups.
    pub(crate) causes: BTreeMap<u32, Causes>,
    pub(crate) log: Log,
    pub(crate) drops: Arc<Drops>,
    pub(crate) running: bool,
    /// Whether the driver is gone: then no event happens any more.
    pub(crate) over: bool,
    /// Grows with every start, so that what was under way at a stop does not arrive later.
    pub(crate) incarnation: u32,
    last_id: u64,
    /// How many sessions were ever opened: ids are not used twice, whatever data is lost.
    pub(crate) opened: i64,
    pub(crate) last_commit: Millis,
}

impl World {
    pub(crate) fn new(options: Options, drops: Arc<Drops>) -> Self {
        let replicas: Vec<Replica> = (0..options.servers.max(1)).map(|_| Replica::new()).collect();
        let grants = vec![options.least_timeout..=options.most_timeout; replicas.len()];
        let leader = Leader::new(options.extended_types);
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
            clients: BTreeMap::new(),
            frozen: BTreeMap::new(),
            faults: Faults::default(),
            causes: BTreeMap::new(),
            log: Log::default(),
            drops,
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

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn schedule(&mut self, at: Millis, event: Event) {
        self.scheduled += 1;
        self.queue.insert((at.max(self.now), self.scheduled), event);
    }

    /// When something will happen next.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next event that is due.
    pub(crate) fn take_due(&mut self) -> Option<Event> {
        let entry = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now)?;
        Some(entry.remove())
    }

    /// Puts aside what happens on the side of a frozen client.
    pub(crate) fn stash(&mut self, event: Event) -> Option<Event> {
        let group = match &event {
            Event::Down(conn, _) | Event::Broken(conn) => self.conns.get(conn).map(|conn| conn.group),
            Event::Attempt(client) | Event::Tick(client, _) | Event::Forgotten(client) => {
                self.clients.get(client).map(|client| client.group)
            }
            _ => None,
        };
        match group.and_then(|group| self.frozen.get_mut(&group)) {
            Some(waiting) => {
                waiting.push(event);
                None
            }
            None => Some(event),
        }
    }

    pub(crate) fn freeze(&mut self, group: u32) {
        self.frozen.entry(group).or_default();
    }

    /// Everything that waited happens now, in its order; by chance the timers come first, as a process that wakes may
    /// look at its clock before it looks at its socket.
    pub(crate) fn thaw(&mut self, group: u32) {
        let mut waiting = self.frozen.remove(&group).unwrap_or_default();
        if self.random.bool() {
            waiting.sort_by_key(|event| !matches!(event, Event::Tick(..) | Event::Attempt(_) | Event::Forgotten(_)));
        }
        let now = self.now;
        for event in waiting {
            self.schedule(now, event);
        }
    }
}
