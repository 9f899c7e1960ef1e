//! The clients of a seed, and their faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use zookeeper_recipes::testing::{Data, Dialect, Loss, Operation, TestingServer, TestingServerBuilder};
use zookeeper_recipes::{Client, ErrorPolicy, Heartbeat};

use crate::moves::Moves;
use crate::seeds::Figures;
use crate::trace::Trace;

/// The end of a lasting fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Thaw(usize),
    /// In the middle of a fault: the client has to reconnect.
    Cut(usize),
    /// Likewise: no server accepts its connections.
    Refuse(usize),
    /// Likewise: no message from or to it arrives.
    Silence(usize),
    /// Likewise: its process is frozen.
    Freeze(usize),
    Heal,
    Restart,
}

/// The servers and clients, and the random choices that decide what happens to them.
pub(crate) struct World {
    pub(crate) server: TestingServer,
    pub(crate) dialect: Dialect,
    pub(crate) random: Rng,
    pub(crate) trace: Trace,
    pub(crate) figures: Figures,
    pub(crate) clients: Vec<Client>,
    /// Present in seeds in which the servers move.
    pub(crate) moves: Option<Moves>,
    /// The session of the current holder: faults hit its client more often than others.
    pub(crate) focus: Option<i64>,
    /// The session timeout that all clients request; none is granted a longer one.
    pub(crate) timeout: Duration,
    pub(crate) tick: Duration,
    /// The shortest session timeout that any client may have been granted.
    pub(crate) least: Duration,
    /// The longest time that a message takes without a fault.
    pub(crate) latency: Duration,
    /// The longest time that the answer to a heartbeat takes without a fault.
    slowest: Duration,
    /// All clients use quorum heartbeats, so a deposed leader may keep serving for longer.
    pub(crate) quorum_only: bool,
    start: Instant,
    endings: BTreeMap<(Instant, u64), Ending>,
    ended: u64,
    pub(crate) stopped: bool,
    /// Until when a deposed leader may answer syncs by itself.
    pub(crate) deposed_until: Option<Instant>,
    /// When the clients last resumed after a freeze.
    pub(crate) thaws: Thaws,
}

/// When processes last resumed after a freeze. Clones share the record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Thaws(Arc<Mutex<BTreeMap<usize, Instant>>>);

impl Thaws {
    /// Returns `deadline`, or the client's last thaw if that is later: its process could not act before.
    pub(crate) fn effective_deadline(&self, client: usize, deadline: Instant) -> Instant {
        let thaws = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        thaws.get(&client).map_or(deadline, |thaw| deadline.max(*thaw))
    }

    fn note(&self, client: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(client, Instant::now());
    }
}

/// Returns the dialect of a seed's servers, ZooKeeper's for most. It is drawn separately, so that nothing else in the
/// seed depends on it.
pub(crate) fn dialect_of(seed: u64) -> Dialect {
    match Rng::with_seed(!seed).u8(..8) {
        0 => Dialect::Keeper,
        1 => Dialect::Keeper26,
        _ => Dialect::ZooKeeper,
    }
}

impl World {
    /// Starts servers and two to five clients; `check` is called after each step.
    pub(crate) async fn new(seed: u64, check: impl Fn() + Send + Sync + 'static) -> Self {
        Self::with_dialect(seed, dialect_of(seed), check).await
    }

    /// Like [`new`](Self::new), with servers of this dialect.
    pub(crate) async fn with_dialect(seed: u64, dialect: Dialect, check: impl Fn() + Send + Sync + 'static) -> Self {
        Self::with_servers(seed, TestingServer::builder(), dialect, 20, 300, check).await
    }

    /// Like [`new`](Self::new), with servers of ZooKeeper's dialect. Messages take up to `most` milliseconds, and
    /// servers lag behind the leader by up to `lag`.
    pub(crate) async fn with_network(seed: u64, most: u64, lag: u64, check: impl Fn() + Send + Sync + 'static) -> Self {
        Self::with_servers(seed, TestingServer::builder(), Dialect::ZooKeeper, most, lag, check).await
    }

    /// Like [`new`](Self::new), with these servers, whose network and timing are not set yet.
    pub(crate) async fn with_servers(
        seed: u64,
        servers: TestingServerBuilder,
        dialect: Dialect,
        most: u64,
        lag: u64,
        check: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let builder = servers;
        let mut random = Rng::with_seed(seed);
        let trace = Trace::new();
        let (servers, slow) = (if random.bool() { 3 } else { 1 }, random.u64(0..=most));
        let millis = Duration::from_millis;
        let timeout = Duration::from_secs(random.u64(4..=12));
        // At most half of the shortest timeout, and long enough that servers can grant what the clients request.
        let tick = millis(random.u64(600..=2_000));
        let lag = millis(if random.bool() { 0 } else { lag });
        // Without them, a client may hand its session to a server that does not answer.
        let words = random.u8(..4) > 0;
        let split = random.u8(..4) == 0;
        let server = builder
            .seed(seed)
            .dialect(dialect)
            .servers(servers)
            .tick_time(tick)
            .latency(Duration::ZERO..=millis(slow))
            .lag(Duration::ZERO..=lag)
            .four_letter_words(words)
            .split_bytes(split)
            .after_each_step(check)
            .start();
        let quorum_only = random.u8(..4) == 0;
        let says = if words { "" } else { ", no word is answered" };
        let pieces = if split { ", bytes come in pieces" } else { "" };
        trace.note(format_args!(
            "{servers} servers of {dialect:?}, messages take up to {slow} ms, T is {timeout:?}, a tick {tick:?}\
             {says}{pieces}"
        ));
        let mut world = World {
            server,
            dialect,
            random,
            trace,
            figures: Figures::default(),
            clients: Vec::new(),
            moves: Moves::of(seed, servers),
            focus: None,
            timeout,
            tick,
            least: timeout,
            latency: millis(slow),
            slowest: millis(slow) * 2 + lag,
            quorum_only,
            start: Instant::now(),
            endings: BTreeMap::new(),
            ended: 0,
            stopped: false,
            deposed_until: None,
            thaws: Thaws::default(),
        };
        if world.random.bool() {
            world.change_grants();
        }
        for _ in 0..world.random.usize(2..=5) {
            assert!(world.connect().await, "nothing is wrong yet");
        }
        world
    }

    /// Connects one more client. Returns false if the servers cannot be reached.
    pub(crate) async fn connect(&mut self) -> bool {
        let policy = if self.random.bool() { ErrorPolicy::Session } else { ErrorPolicy::Standard };
        let heartbeat = if self.quorum_only || self.random.bool() { Heartbeat::Quorum } else { Heartbeat::Sync };
        let mut builder =
            Client::builder_for_testing(&self.server).session_timeout(self.timeout).connection_timeout(self.timeout);
        if let Some(moves) = &mut self.moves {
            builder = builder.server_list(&moves.list(self.clients.len(), &self.server));
        }
        match builder.error_policy(policy).heartbeat(heartbeat).connect().await {
            Ok(client) => {
                self.trace.note(format_args!("client {} connects: {policy:?}, {heartbeat:?}", self.clients.len()));
                self.clients.push(client);
                true
            }
            Err(error) => {
                self.trace.note(format_args!("a new client: {error}"));
                false
            }
        }
    }

    pub(crate) fn a_client(&mut self) -> usize {
        self.random.usize(..self.clients.len())
    }

    /// Picks a client for the next fault.
    pub(crate) fn a_victim(&mut self) -> usize {
        let (any, focus) = (self.a_client(), self.focus.filter(|_| self.random.bool()));
        let focus = focus.and_then(|id| self.clients.iter().position(|client| client.session_id() == Some(id)));
        focus.unwrap_or(any)
    }

    /// Returns a random time of up to `most`, more often a short one.
    pub(crate) fn a_while(&mut self, most: Duration) -> Duration {
        let share = self.random.f64().powi(3);
        Duration::from_millis(1) + most.mul_f64(share)
    }

    /// Lets time pass, and ends the lasting faults that are due.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while let Some((&(at, _), _)) = self.endings.first_key_value()
            && at <= until
        {
            tokio::time::sleep_until(at).await;
            if let Some((_, ending)) = self.endings.pop_first() {
                self.end(ending);
            }
        }
        sleep(until - Instant::now()).await;
    }

    pub(crate) fn end_after(&mut self, time: Duration, ending: Ending) {
        self.ended += 1;
        self.endings.insert((Instant::now() + time, self.ended), ending);
    }

    fn end(&mut self, ending: Ending) {
        self.trace.note(format_args!("{ending:?}"));
        match ending {
            Ending::Thaw(client) => self.thaw(client),
            Ending::Cut(client) => drop(self.server.disconnect(&self.clients[client])),
            Ending::Refuse(client) => self.server.refuse(&self.clients[client]),
            Ending::Silence(client) => self.server.black_hole(&self.clients[client]),
            Ending::Freeze(client) => self.freeze(client),
            Ending::Heal => self.server.heal(),
            Ending::Restart => {
                self.server.restart(Data::Kept);
                self.stopped = false;
            }
        }
    }

    /// Freezes the client's process.
    pub(crate) fn freeze(&self, client: usize) {
        self.server.freeze_client(&self.clients[client]);
    }

    fn thaw(&self, client: usize) {
        if self.server.is_frozen(&self.clients[client]) {
            self.thaws.note(client);
            self.server.thaw_client(&self.clients[client]);
        }
    }

    /// Lets a client's process die and a new client connect: returns its number if it could reach the servers.
    pub(crate) async fn crash(&mut self) -> Option<usize> {
        let client = self.a_victim();
        self.hit(format_args!("client {client} dies"));
        self.freeze(client);
        self.connect().await.then(|| self.clients.len() - 1)
    }

    /// Ends the session of a client by hand.
    pub(crate) fn expire(&mut self) {
        let client = self.a_victim();
        self.server.expire_session(&self.clients[client]);
        self.hit(format_args!("the session of client {client} is ended by hand"));
    }

    /// Loses the reply to a client's next request of this kind.
    pub(crate) fn lose_a_reply(&mut self, of: Operation) {
        let client = self.a_victim();
        let loss = if self.random.bool() { Loss::Applied } else { Loss::NotApplied };
        self.server.lose_next_reply(&self.clients[client], of, loss);
        self.trace.note(format_args!("the next reply to {of:?} of client {client} will be lost, {loss:?}"));
    }

    pub(crate) fn hit(&mut self, what: impl std::fmt::Display) {
        self.figures.faults += 1;
        self.trace.note(what);
    }

    /// Returns whether leases may expire repeatedly without a fault, because the granted timeouts are so short that
    /// answers come too late. A lease lasts T less half a tick and less a thousandth for clock drift, from its anchor:
    /// a heartbeat, or a request sent up to a sixteenth of a tick before one. The next heartbeat is sent T/6 later. It
    /// becomes the anchor with the answer to the first heartbeat that is sent a tick after its own answer: at most
    /// T/6 and a millisecond later than that. Both answers may be slow, although that to the anchor was not.
    pub(crate) fn leases_may_expire(&self) -> bool {
        let tick = self.tick.min(self.least / 4);
        let apart = tick / 16 + self.least / 6 + tick + self.least / 6 + Duration::from_millis(1);
        self.least.mul_f64(0.999) < tick / 2 + apart + self.slowest * 2
    }

    /// Returns the time after healing within which everything under way arrives: a request that was sent before can be
    /// late by two delays, which add up to a session timeout.
    pub(crate) fn quiet(&self) -> Duration {
        self.timeout + Duration::from_secs(1)
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        self.trace.note("everything is healed");
        for (_, ending) in std::mem::take(&mut self.endings) {
            self.end(ending);
        }
        self.server.heal();
        if let Some(moves) = &self.moves {
            moves.heal(&self.server);
        }
        if self.stopped {
            self.end(Ending::Restart);
        }
        for client in 0..self.clients.len() {
            self.thaw(client);
        }
    }

    /// Deletes a node that the seed itself created.
    pub(crate) fn sweep(&self, path: &str) {
        // Not every seed creates it.
        let _ = self.server.delete_by_hand(path);
    }

    /// Closes all clients, and waits until containers are reaped. Fails if anything is left, or a task has panicked.
    pub(crate) async fn close(&mut self) -> Result<(), String> {
        for (number, client) in self.clients.drain(..).enumerate() {
            let closed = client.close().await;
            closed.map_err(|error| format!("client {number} was not closed: {error}"))?;
        }
        sleep(Duration::from_secs(200)).await;
        self.figures.faults += self.server.lost_replies();
        self.figures.millis = self.start.elapsed().as_millis() as u64;
        let (mut paths, sessions, panics) = (self.server.paths(), self.server.sessions(), self.server.panics());
        paths.retain(|path| !self.was_never_used(path) && !self.is_lasting_directory(path));
        if !paths.is_empty() {
            return Err(format!("nodes are left: {paths:?}"));
        }
        if !sessions.is_empty() || self.server.watches() > 0 {
            return Err(format!("left: {} watches, {sessions:?}", self.server.watches()));
        }
        if !panics.is_empty() {
            return Err(format!("tasks panicked: {panics:?}"));
        }
        Ok(())
    }

    /// Returns whether this is a directory whose client left before its node was created: containers are reaped only
    /// after they have had children, on a real server too.
    fn was_never_used(&self, path: &str) -> bool {
        let is_directory = path.rfind('/') == Some(0);
        is_directory && self.server.stat(path).is_some_and(|stat| stat.cversion == 0 && stat.ephemeral_owner == 0)
    }

    /// Returns whether this is a directory that is never reaped, as Keeper has no containers.
    fn is_lasting_directory(&self, path: &str) -> bool {
        let is_persistent = || self.server.stat(path).is_some_and(|stat| stat.ephemeral_owner == 0);
        self.dialect != Dialect::ZooKeeper
            && self.server.get(path).is_some_and(|data| data.is_empty())
            && is_persistent()
    }

    /// Returns the number of watches that should have been removed. Keeper of 2025 cannot remove any, and faults may
    /// make a client believe that a later one cannot either.
    pub(crate) fn watches(&self) -> usize {
        if self.dialect == Dialect::ZooKeeper { self.server.watches() } else { 0 }
    }
}
