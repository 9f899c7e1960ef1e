//! The instances, and what happens to them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, timeout};
use zookeeper_recipes::persistent_node::{Error, NodeMode, NodeState, PersistentNode};
use zookeeper_recipes::testing::{Dialect, Task};

use super::ledger::{CONTESTED, DIR, Ledger};
use crate::seeds::Outcome;
use crate::world::World;

/// The number of actions in a seed.
const ACTS: usize = 40;
const MOST_CLIENTS: usize = 7;
const MOST_INSTANCES: usize = 10;
/// Shorter than some faults last.
const TTL: Duration = Duration::from_secs(5);

/// An instance that is neither closed nor dropped.
#[derive(Clone)]
struct Instance {
    number: u64,
    client: usize,
    mode: NodeMode,
    contested: Option<&'static str>,
    node: Arc<PersistentNode>,
    /// How often its data was set: counted when the call begins, as calls of one process may begin in any order.
    version: Arc<AtomicU64>,
}

impl Instance {
    fn data(&self) -> String {
        format!("{}:{}", self.number, self.version.load(Ordering::Relaxed))
    }
}

struct Play {
    world: World,
    ledger: Arc<Ledger>,
    instances: Vec<Instance>,
    started: u64,
    /// The contested paths that each client has used: each path only once.
    contests: BTreeSet<(usize, &'static str)>,
    closing: Vec<(u64, Task<Result<(), Error>>)>,
    setting: Vec<(u64, Task<Result<(), Error>>)>,
}

/// Runs one seed.
pub(super) async fn run(seed: u64) -> Outcome {
    let ledger = Arc::new(Ledger::default());
    let check = Arc::clone(&ledger);
    let world = World::new(seed, move || check.glance()).await;
    ledger.watch(&world);
    let (instances, contests) = (Vec::new(), BTreeSet::new());
    let (closing, setting) = (Vec::new(), Vec::new());
    let mut play = Play { world, ledger, instances, started: 0, contests, closing, setting };
    let played = play.run().await;
    let Play { mut world, ledger, .. } = play;
    ledger.release();
    world.figures.turns = ledger.creations();
    world.figures.hand_overs = ledger.hand_overs();
    world.trace.note_records(&world.server);
    Outcome { figures: world.figures, violation: ledger.violation().or(played.err()), trace: world.trace.lines() }
}

impl Play {
    async fn run(&mut self) -> Result<(), String> {
        for client in 0..self.world.clients.len() {
            self.start(client);
        }
        for _ in 0..ACTS {
            let most = self.world.timeout / 2;
            let time = self.world.a_while(most);
            self.world.pass(time).await;
            self.settle();
            self.act().await;
            if self.ledger.violation().is_some() {
                break;
            }
        }
        self.world.heal();
        self.all_are_there().await?;
        self.all_go().await?;
        self.world.close().await
    }

    async fn act(&mut self) {
        match self.world.random.u8(..27) {
            0..=3 if self.instances.len() < MOST_INSTANCES => {
                let client = self.world.a_client();
                self.start(client);
            }
            0..=3 => {}
            4..=6 => self.set(),
            7..=8 => self.close(),
            9 => self.drop_one(),
            10 => self.hesitate().await,
            11..=13 => self.cancel().await,
            14..=15 => self.delete_by_hand(),
            16 => self.expire(),
            17 if self.world.clients.len() < MOST_CLIENTS => self.crash().await,
            _ => self.world.fault(),
        }
    }

    /// Starts an instance of any kind.
    fn start(&mut self, client: usize) {
        let number = self.started;
        self.started += 1;
        let (mut path, mut contested) = (format!("{DIR}/own-{number}"), None);
        let mut protected = false;
        let mode = match self.world.random.u8(..8) {
            0..=3 => {
                let same = CONTESTED[self.world.random.usize(..CONTESTED.len())];
                if self.contests.insert((client, same)) {
                    (path, contested) = (same.to_owned(), Some(same));
                }
                NodeMode::Ephemeral
            }
            4 => {
                protected = true;
                NodeMode::Ephemeral
            }
            5 if self.world.random.bool() && self.world.dialect == Dialect::ZooKeeper => NodeMode::Ttl(TTL),
            5 => NodeMode::Persistent,
            _ => NodeMode::EphemeralSequential,
        };
        let protected = protected || mode == NodeMode::EphemeralSequential;
        let builder = PersistentNode::builder(&self.world.clients[client], path.clone());
        let node = builder.mode(mode).protected(protected).data(format!("{number}:0")).start().expect("good options");
        self.world.trace.note(format_args!("{number} starts, of client {client}: {mode:?} at {path}"));
        self.instances.push(Instance {
            number,
            client,
            mode,
            contested,
            node: Arc::new(node),
            version: Arc::default(),
        });
    }

    fn an_instance(&mut self) -> Option<usize> {
        (!self.instances.is_empty()).then(|| self.world.random.usize(..self.instances.len()))
    }

    /// Sets new data. The latest counts, whether or not the call ends.
    fn set(&mut self) {
        let Some(at) = self.an_instance() else { return };
        let Instance { number, client, node, version, .. } = self.instances[at].clone();
        let trace = self.world.trace.clone();
        let setting = self.world.server.spawn(&self.world.clients[client], async move {
            let data = format!("{number}:{}", version.fetch_add(1, Ordering::Relaxed) + 1);
            trace.note(format_args!("{data} is set"));
            node.set_data(data).await
        });
        self.setting.push((number, setting));
    }

    fn close(&mut self) {
        let Some(at) = self.an_instance() else { return };
        let instance = self.instances.remove(at);
        self.close_instance(instance);
    }

    fn close_instance(&mut self, instance: Instance) {
        let Instance { number, client, node, .. } = instance;
        self.world.trace.note(format_args!("{number} closes"));
        self.ledger.closes(number);
        let ledger = Arc::clone(&self.ledger);
        let closing = self.world.server.spawn(&self.world.clients[client], async move {
            let closed = node.close().await;
            if closed.is_ok() {
                ledger.closed(number);
            }
            closed
        });
        self.closing.push((number, closing));
    }

    fn drop_one(&mut self) {
        let Some(at) = self.an_instance() else { return };
        let instance = self.instances.remove(at);
        self.world.trace.note(format_args!("{} is dropped", instance.number));
        self.ledger.closes(instance.number);
        // A call that is under way keeps the instance alive, too.
        self.setting.retain(|(number, _)| *number != instance.number);
    }

    /// Starts an instance, and closes it before that is done.
    async fn hesitate(&mut self) {
        let client = self.world.a_client();
        self.start(client);
        let time = self.world.a_while(Duration::from_millis(100));
        self.world.pass(time).await;
        if let Some(instance) = self.instances.pop() {
            self.close_instance(instance);
        }
    }

    /// Makes a call and drops it half way. Data that was set counts all the same.
    async fn cancel(&mut self) {
        let Some(at) = self.an_instance() else { return };
        let Instance { number, client, node, version, .. } = self.instances[at].clone();
        let sets = self.world.random.bool();
        let call = async move {
            if sets {
                let data = format!("{number}:{}", version.fetch_add(1, Ordering::Relaxed) + 1);
                drop(node.set_data(data).await);
            } else {
                drop(node.created().await);
            }
        };
        let mut call = self.world.server.spawn(&self.world.clients[client], call);
        let time = self.world.a_while(Duration::from_millis(200));
        self.world.pass(time).await;
        if (&mut call).now_or_never().is_none() {
            call.abort();
            self.world.figures.cancelled += 1;
            self.world.trace.note(format_args!("a call of {number} is cancelled"));
        }
    }

    fn delete_by_hand(&mut self) {
        let number = self.world.random.usize(..16);
        if let Some(path) = self.ledger.delete_by_hand(&self.world.server, number) {
            self.world.figures.faults += 1;
            self.world.trace.note(format_args!("{path} is deleted by hand"));
        }
    }

    /// Ends a session by hand, which deletes all of its nodes at once.
    fn expire(&mut self) {
        let client = self.world.a_client();
        if self.world.server.expire_session(&self.world.clients[client]) {
            self.world.figures.faults += 1;
            self.world.trace.note(format_args!("the session of client {client} is ended by hand"));
        }
    }

    /// Lets a process die, and starts another one.
    async fn crash(&mut self) {
        let client = self.world.a_client();
        self.world.trace.note(format_args!("client {client} dies"));
        self.world.figures.faults += 1;
        self.world.freeze(client);
        // The servers may be unreachable for a while.
        if self.world.connect().await {
            self.start(self.world.clients.len() - 1);
        }
    }

    /// Notes the calls that have ended.
    fn settle(&mut self) {
        let (trace, ledger) = (&self.world.trace, &self.ledger);
        self.closing.retain_mut(|(number, closing)| {
            let Some(closed) = closing.now_or_never() else { return true };
            trace.note(format_args!("{number} has closed: {closed:?}"));
            if !matches!(closed, Ok(Ok(()))) {
                ledger.object(format!("{number} was not closed: {closed:?}"));
            }
            false
        });
        self.setting.retain_mut(|(number, setting)| {
            let Some(set) = setting.now_or_never() else { return true };
            if let Ok(Err(error)) = set
                && !matches!(error, Error::Closed { .. })
            {
                ledger.object(format!("the data of {number} was not set: {error}"));
            }
            false
        });
    }

    /// Returns the time after healing within which everything must have happened.
    fn patience(&self) -> Duration {
        self.world.timeout * 4 + Duration::from_secs(20)
    }

    /// Waits until each instance has its node with its latest data, or waits for the one that has it, and there is no
    /// other node.
    async fn all_are_there(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + self.patience();
        // A request that was sent before everything was healed may arrive late.
        let quiet = self.world.quiet();
        let mut missing = self.missing();
        let mut quiet_since = Instant::now();
        while missing.is_some() || quiet_since.elapsed() < quiet {
            self.world.pass(Duration::from_millis(50)).await;
            self.settle();
            if let Some(violation) = self.ledger.violation() {
                return Err(violation);
            }
            missing = self.missing();
            if missing.is_some() {
                quiet_since = Instant::now();
                if Instant::now() > deadline {
                    return Err(format!("long after healing: {}", missing.unwrap_or_default()));
                }
            }
        }
        if self.setting.is_empty() || self.instances.iter().any(|instance| is_waiting(&instance.node)) {
            return Ok(());
        }
        Err(format!("long after healing {} calls of set_data have not returned", self.setting.len()))
    }

    /// Describes what is not yet as it must be in the end.
    fn missing(&self) -> Option<String> {
        if !self.closing.is_empty() {
            return Some(format!("{} are still closing", self.closing.len()));
        }
        let server = &self.world.server;
        let mut expected = BTreeSet::new();
        for instance in &self.instances {
            let Instance { number, client, mode, node, .. } = instance;
            let state = node.state().get();
            if let Some(contested) = instance.contested
                && state == NodeState::Waiting
            {
                expected.insert(contested.to_owned());
                continue;
            }
            if state != NodeState::Present {
                return Some(format!("{number} is {state:?}"));
            }
            let Some(path) = node.path() else { return Some(format!("{number} has no path")) };
            let (stat, data) = (server.stat(&path), server.get(&path));
            let is_spoiled = stat.is_some_and(|stat| self.ledger.is_spoiled(stat.czxid));
            if data.as_deref() != Some(instance.data().as_bytes()) && !is_spoiled {
                return Some(format!("{path} has {data:?}, not {:?}", instance.data()));
            }
            let owner = if matches!(mode, NodeMode::Persistent | NodeMode::Ttl(_)) {
                Some(0)
            } else {
                self.world.clients[*client].session_id()
            };
            if stat.map(|stat| stat.ephemeral_owner) != owner {
                return Some(format!("{path} of {number} belongs to {stat:?}, not {owner:?}"));
            }
            if instance.contested.is_none() && !expected.insert(path.clone()) {
                return Some(format!("two instances have {path}"));
            }
            expected.extend(instance.contested.map(str::to_owned));
        }
        let there: BTreeSet<String> = server.children(DIR).iter().map(|name| format!("{DIR}/{name}")).collect();
        (there != expected).then(|| format!("there are {there:?}, not {expected:?}"))
    }

    /// Closes all instances, and checks that no node and no watch is left.
    async fn all_go(&mut self) -> Result<(), String> {
        for instance in std::mem::take(&mut self.instances) {
            self.close_instance(instance);
        }
        let within = self.patience();
        for (number, closing) in self.closing.drain(..) {
            match timeout(within, closing).await {
                Ok(Ok(Ok(()))) => {}
                not => return Err(format!("{number} was not closed: {not:?}")),
            }
        }
        self.setting.clear();
        self.nothing_is_left().await
    }

    /// Waits until no node and no watch is left. An instance that was dropped while a call of `set_data` was under way
    /// lives as long as the call: it still waits for its turn at a contested path, and leaves after that.
    async fn nothing_is_left(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + self.patience();
        let mut quiet_since = Instant::now();
        while quiet_since.elapsed() < self.world.quiet() {
            self.world.pass(Duration::from_millis(50)).await;
            let left = (self.world.server.children(DIR), self.world.watches());
            if left.0.is_empty() && left.1 == 0 {
                continue;
            }
            quiet_since = Instant::now();
            if quiet_since > deadline {
                return Err(format!("long after all are closed there are {left:?}"));
            }
        }
        Ok(())
    }
}

fn is_waiting(node: &PersistentNode) -> bool {
    node.state().get() == NodeState::Waiting
}
