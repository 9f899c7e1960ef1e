//! The clients of a seed, and their faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use zookeeper_recipes::testing::{Data, Loss, Operation, Target, TestingServer, TestingServerBuilder};
use zookeeper_recipes::{Client, ErrorPolicy, Heartbeat};

use crate::seeds::Figures;
use crate::trace::Trace;

/// The end of a lasting fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Thaw(usize),
    /// In the middle of a fault: the client has to connect again.
    Cut(usize),
    /// Likewise: no server takes it in any more.
    Refuse(usize),
    /// Likewise: nothing of what it sends or is sent arrives.
    Silence(usize),
    /// Likewise: its process is frozen.
    Freeze(usize),
    Heal,
    Restart,
}

/// The clients, and the chance that decides about them.
pub(crate) struct World {
    pub(crate) server: TestingServer,
    pub(crate) random: Rng,
    pub(crate) trace: Trace,
    pub(crate) figures: Figures,
    pub(crate) clients: Vec<Client>,
    /// The session of the current holder: faults hit its client more often than others.
    pub(crate) focus: Option<i64>,
    /// The session timeout that all clients want; none is granted a longer one.
    pub(crate) timeout: Duration,
    tick: Duration,
    /// The shortest session timeout that any of them may have been granted.
    least: Duration,
    /// How long the answer to a heartbeat takes at the most, without a fault.
    slowest: Duration,
    /// All clients' heartbeats need a quorum: a deposed leader may take its time.
    quorum_only: bool,
    start: Instant,
    endings: BTreeMap<(Instant, u64), Ending>,
    ended: u64,
    stopped: bool,
    /// A deposed leader may answer syncs by itself until then.
    pub(crate) deposed_until: Option<Instant>,
    /// Which clients are frozen, or were: until when.
    pub(crate) thaws: Thaws,
}

/// When processes last resumed after a freeze. Clones look at the same ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Thaws(Arc<Mutex<BTreeMap<usize, Instant>>>);

impl Thaws {
    /// `deadline`, or the last thaw of the client, if that is later: only from then on could its process act.
    pub(crate) fn effective_deadline(&self, client: usize, deadline: Instant) -> Instant {
        let thaws = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        thaws.get(&client).map_or(deadline, |thaw| deadline.max(*thaw))
    }

    fn note(&self, client: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(client, Instant::now());
    }
}

impl World {
    /// A server and `clients` clients; `check` is called after each step.
    pub(crate) async fn new(seed: u64, check: impl Fn() + Send + Sync + 'static) -> Self {
        Self::with_network(seed, 20, 300, check).await
    }

    /// As well; messages take up to `most` milliseconds, and servers lag behind the leader by up to `lag`.
    pub(crate) async fn with_network(seed: u64, most: u64, lag: u64, check: impl Fn() + Send + Sync + 'static) -> Self {
        Self::with_servers(seed, TestingServer::builder(), most, lag, check).await
    }

    /// As well; with these servers, whose network and whose times are still to be set.
    pub(crate) async fn with_servers(
        seed: u64,
        servers: TestingServerBuilder,
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
        // No longer than half of the shortest timeout, and not so short that the longest grant is below what is wanted.
        let tick = millis(random.u64(600..=2_000));
        let lag = millis(if random.bool() { 0 } else { lag });
        let server = builder
            .seed(seed)
            .servers(servers)
            .tick_time(tick)
            .latency(Duration::ZERO..=millis(slow))
            .lag(Duration::ZERO..=lag)
            .after_each_step(check)
            .start();
        let quorum_only = random.u8(..4) == 0;
        trace.note(format_args!("{servers} servers, messages take up to {slow} ms, T is {timeout:?}, a tick {tick:?}"));
        let mut world = World {
            server,
            random,
            trace,
            figures: Figures::default(),
            clients: Vec::new(),
            focus: None,
            timeout,
            tick,
            least: timeout,
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

    /// One more client, unless the servers cannot be reached.
    pub(crate) async fn connect(&mut self) -> bool {
        let policy = if self.random.bool() { ErrorPolicy::Session } else { ErrorPolicy::Standard };
        let heartbeat = if self.quorum_only || self.random.bool() { Heartbeat::Quorum } else { Heartbeat::Sync };
        let builder = Client::builder_for(&self.server).session_timeout(self.timeout).connection_timeout(self.timeout);
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

    /// A client for the next fault.
    pub(crate) fn a_victim(&mut self) -> usize {
        let (any, focus) = (self.a_client(), self.focus.filter(|_| self.random.bool()));
        let focus = focus.and_then(|id| self.clients.iter().position(|client| client.session_id() == Some(id)));
        focus.unwrap_or(any)
    }

    /// A time of up to `most`, short ones as likely as long ones.
    pub(crate) fn a_while(&mut self, most: Duration) -> Duration {
        let share = self.random.f64().powi(3);
        Duration::from_millis(1) + most.mul_f64(share)
    }

    /// Lets time go by, and ends the lasting faults that are due.
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

    fn end_after(&mut self, time: Duration, ending: Ending) {
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

    /// The process of a client dies, and another one comes: its number, unless the servers are gone for a while.
    pub(crate) async fn crash(&mut self) -> Option<usize> {
        let client = self.a_victim();
        self.hit(format_args!("client {client} dies"));
        self.freeze(client);
        self.connect().await.then(|| self.clients.len() - 1)
    }

    /// The session of a client is ended by hand.
    pub(crate) fn expire(&mut self) {
        let client = self.a_victim();
        self.server.expire_session(&self.clients[client]);
        self.hit(format_args!("the session of client {client} is ended by hand"));
    }

    /// The reply to the next request of this kind is lost.
    pub(crate) fn lose_a_reply(&mut self, of: Operation) {
        let client = self.a_victim();
        let loss = if self.random.bool() { Loss::Applied } else { Loss::NotApplied };
        self.server.lose_next_reply(&self.clients[client], of, loss);
        self.trace.note(format_args!("the next reply to {of:?} of client {client} will be lost, {loss:?}"));
    }

    fn hit(&mut self, what: impl std::fmt::Display) {
        self.figures.faults += 1;
        self.trace.note(what);
    }

    /// A fault that no recipe need know of.
    pub(crate) fn fault(&mut self) {
        let who = self.a_victim();
        let all = self.random.u8(..4) == 0;
        let target = if all { Target::ALL } else { Target::from(&self.clients[who]) };
        let name = if all { "all clients".to_owned() } else { format!("client {who}") };
        let lasting = self.a_while(self.timeout * 3);
        match self.random.u8(..24) {
            0..=4 => {
                let of = self.an_operation();
                let loss = if self.random.bool() { Loss::Applied } else { Loss::NotApplied };
                self.server.lose_next_reply(target, of, loss);
                self.trace.note(format_args!("the next reply to {of:?} of {name} will be lost, {loss:?}"));
            }
            5..=6 => {
                let cut = self.server.disconnect(target);
                self.figures.faults += u64::from(cut > 0);
                self.trace.note(format_args!("{name} is disconnected: {cut} connections"));
            }
            7 => {
                self.server.refuse(target.clone());
                self.server.disconnect(target);
                self.hit(format_args!("{name} is refused for {lasting:?}"));
                self.end_after(lasting, Ending::Heal);
            }
            8..=9 => {
                self.server.black_hole(target);
                self.hit(format_args!("{name} is in a black hole for {lasting:?}"));
                self.end_after(lasting, Ending::Heal);
            }
            10 => {
                let by = self.a_while(self.timeout / 2);
                self.server.delay(target, by);
                self.hit(format_args!("messages of {name} take {by:?} longer for {lasting:?}"));
                self.end_after(lasting, Ending::Heal);
            }
            11..=12 => {
                self.freeze(who);
                self.hit(format_args!("client {who} is frozen for {lasting:?}"));
                self.end_after(lasting, Ending::Thaw(who));
            }
            13..=14 if self.server.servers() > 1 => {
                let server = self.random.usize(..self.server.servers());
                let serves_for = self.a_while(self.timeout * 2);
                self.server.cut_off(server, serves_for);
                self.hit(format_args!("server {server} is cut off for {lasting:?} and serves for {serves_for:?}"));
                self.end_after(lasting, Ending::Heal);
            }
            15..=16 if self.server.servers() > 1 => self.cut_off_with_server(who),
            17..=18 => {
                self.change_grants();
                if self.random.bool() {
                    let cut = self.server.disconnect(target);
                    self.figures.faults += u64::from(cut > 0);
                    self.trace.note(format_args!("{name} is disconnected: {cut} connections"));
                }
            }
            19..=20 if self.server.servers() > 1 => self.depose_leader(who, lasting),
            21..=22 => self.change_grants_and_lose(who),
            _ if !self.stopped => {
                self.server.stop();
                self.stopped = true;
                self.hit(format_args!("the servers are stopped for {lasting:?}"));
                self.end_after(lasting, Ending::Restart);
            }
            _ => {}
        }
    }

    /// Whether leases may expire again and again without a fault, because so little was granted that answers come too
    /// late. A lease lasts T less half a tick from the heartbeat that is its anchor. The one that moves the anchor is
    /// sent, at the latest, a tick and T/6 after the answer to that, and must be answered, too.
    pub(crate) fn leases_may_expire(&self) -> bool {
        let tick = self.tick.min(self.least / 4);
        self.least < tick / 2 + tick + self.least / 6 + self.slowest * 2
    }

    /// The server that a client is connected to.
    fn server_of(&self, who: usize) -> Option<usize> {
        let session = self.clients[who].session_id();
        let sessions = self.server.sessions();
        sessions.iter().find(|info| Some(info.id) == session).and_then(|info| info.server)
    }

    /// From now on a server, or all of them, grant other session timeouts, as after a change of their configuration.
    fn change_grants(&mut self) {
        // Two ticks are the least that servers grant by default.
        let (least, span) = (self.tick * 2, self.timeout.saturating_sub(self.tick * 2));
        let mut ends =
            [(); 2].map(|()| least + Duration::from_millis(span.mul_f64(self.random.f64()).as_millis() as u64));
        ends.sort();
        let [least, most] = ends;
        self.least = self.least.min(most);
        let server = self.random.usize(..self.server.servers() * 2);
        if server < self.server.servers() {
            self.server.grant_by(server, least..=most);
            self.trace.note(format_args!("server {server} grants {least:?} to {most:?}"));
        } else {
            self.server.grant(least..=most);
            self.trace.note(format_args!("all servers grant {least:?} to {most:?}"));
        }
    }

    /// The granted timeouts change, a client meets them at one or more reconnects, and is then silent for a while.
    fn change_grants_and_lose(&mut self, who: usize) {
        self.change_grants();
        let mut after = Duration::ZERO;
        for _ in 0..self.random.u8(1..=3) {
            after += self.a_while(self.tick * 2);
            self.end_after(after, Ending::Cut(who));
        }
        after += self.a_while(self.tick * 2);
        let lasting = self.timeout.mul_f64(0.5 + self.random.f64());
        let how = self.random.u8(..3);
        let (lost, found) = match how {
            0 => (Ending::Silence(who), Ending::Heal),
            1 => (Ending::Refuse(who), Ending::Heal),
            _ => (Ending::Freeze(who), Ending::Thaw(who)),
        };
        self.hit(format_args!("client {who} is cut until {after:?} from now, and then {lost:?} for {lasting:?}"));
        self.end_after(after, lost);
        if how == 1 {
            self.end_after(after, Ending::Cut(who));
        }
        self.end_after(after + lasting, found);
    }

    /// The leader is cut off together with a client, and another one is elected without its knowing it. By chance the
    /// client connects again meanwhile, maybe to the one that was deposed; and then no other server takes it in.
    fn depose_leader(&mut self, who: usize, lasting: Duration) {
        let Some(server) = self.server_of(who) else { return };
        // So long syncs count for at most; see `Heartbeat`.
        let most = if self.quorum_only { self.timeout * 2 } else { self.tick.min(self.least / 4).mul_f64(1.5) };
        let serves_for = Duration::from_millis(most.mul_f64(self.random.f64()).as_millis() as u64);
        let refused = self.random.u8(..3);
        self.server.depose_leader(server, serves_for);
        self.deposed_until = self.deposed_until.max(Some(Instant::now() + serves_for));
        self.hit(format_args!("server {server} is deposed for {lasting:?} and keeps serving for {serves_for:?}"));
        if refused == 0 {
            self.server.refuse(&self.clients[who]);
            self.trace.note(format_args!("client {who} is refused"));
        } else if refused == 1 {
            let cut = serves_for.mul_f64(self.random.f64());
            self.end_after(cut, Ending::Cut(who));
            self.end_after(serves_for, Ending::Refuse(who));
        }
        self.end_after(lasting, Ending::Heal);
    }

    /// A client and its server lose touch with all others: no other server takes the client in.
    fn cut_off_with_server(&mut self, who: usize) {
        let Some(server) = self.server_of(who) else { return };
        let lasting = self.timeout.mul_f64(2.0 * self.random.f64());
        self.server.refuse(&self.clients[who]);
        self.server.cut_off(server, lasting);
        self.hit(format_args!("client {who} and server {server} are cut off for {lasting:?}"));
        self.end_after(lasting, Ending::Heal);
    }

    fn an_operation(&mut self) -> Option<Operation> {
        match self.random.u8(..6) {
            0..=1 => Some(Operation::Create),
            2 => Some(Operation::Delete),
            3 => Some(Operation::List),
            4 => Some(Operation::GetData),
            _ => None,
        }
    }

    /// When everything is healed, whatever is under way arrives within this time: a request that was sent before can be
    /// late by two delays, which add up to a session timeout.
    pub(crate) fn quiet(&self) -> Duration {
        self.timeout + Duration::from_secs(1)
    }

    /// Everything that is wrong ends.
    pub(crate) fn heal(&mut self) {
        self.trace.note("everything is healed");
        for (_, ending) in std::mem::take(&mut self.endings) {
            self.end(ending);
        }
        self.server.heal();
        if self.stopped {
            self.end(Ending::Restart);
        }
        for client in 0..self.clients.len() {
            self.thaw(client);
        }
    }

    /// Takes a node away that a seed has put there itself.
    pub(crate) fn sweep(&self, path: &str) {
        // Not every seed has.
        let _ = self.server.delete_by_hand(path);
    }

    /// Ends all clients; returns the nodes that are left. Containers are given the time to be reaped.
    pub(crate) async fn close(&mut self) -> Result<(), String> {
        for (number, client) in self.clients.drain(..).enumerate() {
            let closed = client.close().await;
            closed.map_err(|error| format!("client {number} was not closed: {error}"))?;
        }
        sleep(Duration::from_secs(200)).await;
        self.figures.faults += self.server.lost_replies();
        self.figures.millis = self.start.elapsed().as_millis() as u64;
        let (mut paths, sessions, panics) = (self.server.paths(), self.server.sessions(), self.server.panics());
        paths.retain(|path| !self.was_never_used(path));
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

    /// Whether it is a directory whose client left before its node was created: containers are reaped only after they
    /// have had children, on a real server too.
    fn was_never_used(&self, path: &str) -> bool {
        let is_directory = path.rfind('/') == Some(0);
        is_directory && self.server.stat(path).is_some_and(|stat| stat.cversion == 0 && stat.ephemeral_owner == 0)
    }
}
