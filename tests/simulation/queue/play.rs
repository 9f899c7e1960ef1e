//! The producers and consumers of a seed, and the faults that they meet.

mod end;

use std::time::{Duration, UNIX_EPOCH};

use fastrand::Rng;
use futures::FutureExt;
use tokio::sync::watch;
use tokio::time::Instant;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::queue::{DistributedQueue, DistributedQueueBuilder, Utf8};
use zookeeper_recipes::testing::{Dialect, Task};

use super::consumer::{GUARDED, Taker};
use super::ledger::Ledger;
use super::picky::{PASSED_OVER, Picky};
use super::producer::Putter;
use crate::seeds::Outcome;
use crate::world::{World, dialect_of};

/// The number of actions in a seed.
const ACTS: usize = 32;
const MOST_CLIENTS: usize = 6;
/// How many items are put in the end, into a queue that was deleted and created again.
const NEW_ITEMS: u32 = 12;
const MOST_AT_WORK: usize = 6;
/// The longest pause between two checks whether the queue is empty, so that its own node can be deleted.
const LOOK: Duration = Duration::from_millis(40);
/// Without a fault, no message takes longer and no server lags more.
const SLOWEST: Duration = Duration::from_millis(500);
const PATH: &str = "/queue";
const CLAIMS: &str = "/queue-claims";
const PRODUCERS: &str = "/queue-producers";
const DEAD: &str = "/queue-dead";

struct Play {
    world: World,
    ledger: Ledger,
    came: u64,
    putters: Vec<Task<()>>,
    takers: Vec<Task<()>>,
    hurry: watch::Sender<bool>,
    max_items: Option<usize>,
    max_deliveries: Option<u32>,
    /// Claims are deleted by hand too.
    claims_deleted: bool,
    /// The queue's own node is deleted once it has been empty for a while, so that its counter restarts at 0.
    restarts: bool,
    /// Since when the queue has been empty, and its number of changes.
    empty: Option<(Instant, i32)>,
    /// Only in seeds that restart the queue.
    picky: Option<Picky>,
    /// The items that a Curator consumer has locked, in seeds that have one.
    locked: Option<Vec<String>>,
}

/// Runs one seed.
pub(super) async fn run(seed: u64) -> Outcome {
    // These are not drawn from the world, as they must be known before it is created.
    let max_deliveries = Some(seed % 8).filter(|most| (1..5).contains(most)).map(|most| most as u32);
    let restarts = seed.is_multiple_of(3);
    let ledger = Ledger::new(max_deliveries, CLAIMS, PATH);
    let check = ledger.clone();
    // Consumers need persistent watches.
    let dialect = if dialect_of(seed) == Dialect::ZooKeeper { Dialect::ZooKeeper } else { Dialect::Keeper26 };
    let mut world = World::with_dialect(seed, dialect, move || check.look()).await;
    ledger.watch(&world);
    let max_items = (world.random.u8(..4) == 0).then(|| world.random.usize(1..20));
    let claims_deleted = world.random.u8(..4) == 0;
    let locked = (world.random.u8(..4) == 0).then(Vec::new);
    world.trace.note(format_args!(
        "max_items {max_items:?}, max_deliveries {max_deliveries:?}, Curator {locked:?}, restarts {restarts}"
    ));
    let (putters, takers, hurry) = (Vec::new(), Vec::new(), watch::Sender::new(false));
    let mut play = Play {
        world,
        ledger: ledger.clone(),
        came: 0,
        putters,
        takers,
        hurry,
        max_items,
        max_deliveries,
        claims_deleted,
        restarts,
        empty: None,
        picky: None,
        locked,
    };
    let played = play.play().await;
    let mut world = play.world;
    ledger.release();
    world.figures.turns = ledger.acks_so_far();
    world.figures.hand_overs = ledger.hand_overs();
    world.figures.cancelled = ledger.cancelled_so_far();
    world.trace.note_records(&world.server);
    Outcome { figures: world.figures, violation: ledger.violation().or(played.err()), trace: world.trace.lines() }
}

impl Play {
    async fn play(&mut self) -> Result<(), String> {
        self.world.server.create_by_hand(GUARDED, "", CreateMode::Persistent).map_err(|error| error.to_string())?;
        self.put();
        self.make_directory().await;
        self.take();
        if self.restarts {
            self.picky = Some(self.a_picky_one());
        }
        for _ in 0..ACTS {
            let most = self.world.timeout / 2;
            let time = self.world.a_while(most);
            self.pass(time).await;
            self.act().await;
            if self.ledger.violation().is_some() {
                return Ok(());
            }
        }
        while self.locked.as_ref().is_some_and(|locked| !locked.is_empty()) {
            self.unlock()?;
        }
        self.world.heal();
        // This also makes room for producers that wait for it.
        self.drain().await?;
        self.take_in_order().await?;
        self.take_from_a_new_queue().await?;
        self.sum()?;
        self.clean_up();
        self.world.close().await
    }

    /// Creates the directory of the items by hand while a producer begins, perhaps between two of its transactions, or
    /// leaves that to the producer or a consumer.
    async fn make_directory(&mut self) {
        if self.world.random.bool() {
            let server = &self.world.server;
            let begun = server.until(|| !server.children(PRODUCERS).is_empty());
            // The producer may not put anything yet.
            let _ = tokio::time::timeout(Duration::from_millis(200), begun).await;
        }
        let time = Duration::from_millis(self.world.random.u64(..80));
        self.world.pass(time).await;
        if self.world.random.bool() {
            // The producer may have been faster.
            let _ = self.world.server.create_by_hand(PATH, "", CreateMode::Persistent);
        }
    }

    async fn act(&mut self) {
        self.ledger.look();
        self.putters.retain_mut(|task| task.now_or_never().is_none());
        self.takers.retain_mut(|task| task.now_or_never().is_none());
        match self.world.random.u8(..16) {
            0..=1 if self.putters.len() < MOST_AT_WORK => self.put(),
            2..=3 if self.takers.len() < MOST_AT_WORK => self.take(),
            4 => self.dismiss(),
            5 => self.delete_by_hand(),
            6 => self.expire(),
            7 if self.world.clients.len() < MOST_CLIENTS => self.crash().await,
            8 => self.lose_a_transaction(),
            9..=10 if self.locked.is_some() => self.lock(),
            11 if self.locked.is_some() => {
                if let Err(violation) = self.unlock() {
                    self.ledger.object(violation);
                }
            }
            14 if self.world.random.bool() => self.remove(),
            12..=13 if self.takers.len() < MOST_AT_WORK && self.picky.is_some() => self.pass_over(),
            _ => self.world.fault(),
        }
    }

    fn queue(&mut self, client: usize) -> DistributedQueue<Utf8> {
        self.options(client).build().expect("a queue")
    }

    fn options(&mut self, client: usize) -> DistributedQueueBuilder<Utf8> {
        let random = &mut self.world.random;
        let mut queue = DistributedQueue::builder(&self.world.clients[client], PATH, Utf8).prefetch(random.usize(..6));
        if let Some(items) = self.max_items {
            queue = queue.max_items(items);
        }
        if let Some(deliveries) = self.max_deliveries {
            queue = queue.max_deliveries(deliveries);
        }
        if self.locked.is_some() {
            queue = queue.claims_path(CLAIMS);
        }
        queue
    }

    fn put(&mut self) {
        let client = self.world.a_client();
        let producer = self.queue(client).producer();
        // A producer that waits for room cannot put a burst at once.
        let bursts = self.max_items.is_none()
            && !self.restarts
            && self.world.random.u8(..8) < if self.came == 0 { 4 } else { 1 };
        let putter = Putter {
            number: self.came,
            producer,
            ledger: self.ledger.clone(),
            random: Rng::with_seed(self.world.random.u64(..)),
            timeout: self.world.timeout,
            hurry: self.hurry.subscribe(),
            bursts,
            slow: self.restarts,
        };
        self.world.trace.note(format_args!("of client {client} comes producer {}", self.came));
        self.came += 1;
        self.putters.push(self.world.server.spawn(&self.world.clients[client], putter.work()));
    }

    fn take(&mut self) {
        let client = self.world.a_client();
        let consumer = self.queue(client).consumer();
        let taker = Taker {
            client: self.world.clients[client].clone(),
            number: self.came,
            consumer,
            ledger: self.ledger.clone(),
            random: Rng::with_seed(self.world.random.u64(..)),
            timeout: self.world.timeout,
            hurry: self.hurry.subscribe(),
            quick: self.restarts,
        };
        self.world.trace.note(format_args!("of client {client} comes consumer {}", self.came));
        self.came += 1;
        self.takers.push(self.world.server.spawn(&self.world.clients[client], taker.work()));
    }

    /// Creates a consumer without prefetch: its calls are few and short, so it must not keep items claimed ahead.
    fn a_picky_one(&mut self) -> Picky {
        let client = self.world.a_client();
        let consumer = self.options(client).prefetch(0).build().expect("a queue").consumer();
        self.world.trace.note(format_args!("of client {client} comes a picky consumer, {}", self.came));
        self.came += 1;
        Picky {
            client: self.world.clients[client].clone(),
            number: self.came - 1,
            consumer,
            ledger: self.ledger.clone(),
        }
    }

    /// The picky consumer takes an item, if there is one soon, and returns it for a long time.
    fn pass_over(&mut self) {
        let Some(picky) = self.picky.clone() else { return };
        let patience = self.world.a_while(self.world.timeout / 8);
        self.takers.push(self.world.server.spawn(&picky.client.clone(), picky.pass_over(patience)));
    }

    /// Removes an item by its id, if no consumer has it.
    fn remove(&mut self) {
        let Some(item) = self.world.random.choice(self.ledger.with_ids()) else { return };
        let client = self.world.a_client();
        let (queue, ledger) = (self.queue(client), self.ledger.clone());
        let removing = async move {
            ledger.removes(&item);
            let removed = queue.remove(&item).await;
            ledger.note(format_args!("{item} is removed: {removed:?}"));
            match removed {
                Ok(count @ 0..=1) => ledger.removed(&item, count == 1),
                Ok(count) => ledger.object(format!("{count} items with the id {item} were removed")),
                // It may be removed, or still be.
                Err(_) => {}
            }
        };
        self.takers.push(self.world.server.spawn(&self.world.clients[client], removing));
    }

    /// Locks an item that has no claim, as a Curator consumer. Like Curator, it then reads the item, and releases the
    /// lock if the item is gone: it may have left the queue by a transaction that was not committed when the items
    /// were listed.
    fn lock(&mut self) {
        let items = self.world.server.children(PATH);
        let (Some(name), Some(locked)) = (self.world.random.choice(items), &mut self.locked) else { return };
        let (server, lock) = (&self.world.server, format!("{CLAIMS}/{name}"));
        if server.create_by_hand(&lock, "", CreateMode::Persistent).is_err() {
            return;
        }
        if server.stat(&format!("{PATH}/{name}")).is_some() {
            self.world.trace.note(format_args!("{name} is locked by a consumer of Curator's"));
            locked.push(name);
        } else {
            self.world.trace.note(format_args!("{name} was gone when a consumer of Curator's had locked it"));
            server.delete_by_hand(&lock).expect("the lock that was just created");
        }
    }

    /// Lets the Curator consumer finish its item, or give it up.
    fn unlock(&mut self) -> Result<(), String> {
        let Some(name) = self.locked.as_mut().and_then(Vec::pop) else { return Ok(()) };
        let (server, item) = (&self.world.server, format!("{PATH}/{name}"));
        let (lock, done) = (format!("{CLAIMS}/{name}"), self.world.random.bool());
        // Others may have deleted the lock by hand, and claimed the item since.
        if server.stat(&lock).is_none_or(|stat| stat.ephemeral_owner != 0) {
            return Ok(());
        }
        if done {
            let node = server.get(&item).ok_or_else(|| format!("{name} was locked, but is gone"))?;
            self.ledger.taken_by_curator(&texts(&node).collect::<Vec<_>>());
            server.delete_by_hand(&item).map_err(|error| error.to_string())?;
        }
        self.world.trace.note(format_args!("Curator's lock of {name} is removed; the item is done: {done}"));
        server.delete_by_hand(&lock).map_err(|error| error.to_string())
    }

    /// Drops the task of a producer or a consumer at its current await.
    fn dismiss(&mut self) {
        let tasks = self.putters.iter_mut().chain(&mut self.takers);
        if let Some(task) = self.world.random.choice(tasks.collect::<Vec<_>>()) {
            task.abort();
            self.ledger.cancelled();
            self.world.trace.note("a task is dropped");
        }
    }

    /// Loses the answer to a client's next transaction, which puts, claims or settles.
    fn lose_a_transaction(&mut self) {
        use zookeeper_recipes::testing::{Loss, Operation};
        let client = self.world.a_client();
        let loss = if self.world.random.bool() { Loss::Applied } else { Loss::NotApplied };
        self.world.server.lose_next_reply(&self.world.clients[client], Operation::Multi, loss);
        self.world.trace.note(format_args!("the next transaction of client {client} will not be answered, {loss:?}"));
    }

    /// Deletes a claim or a producer's node by hand.
    fn delete_by_hand(&mut self) {
        // In most seeds, all invariants must hold without exceptions.
        let dirs = if self.claims_deleted { &[CLAIMS, PRODUCERS][..] } else { &[PRODUCERS] };
        let nodes = dirs.iter().map(|dir| {
            let names = self.world.server.children(dir).into_iter();
            names.map(move |name| format!("{dir}/{name}")).collect::<Vec<_>>()
        });
        let nodes: Vec<String> = nodes.flatten().collect();
        if let Some(path) = self.world.random.choice(nodes)
            && self.world.server.delete_by_hand(&path).is_ok()
        {
            self.world.figures.faults += 1;
            self.world.trace.note(format_args!("{path} is deleted by hand"));
            if let Some(name) = path.strip_prefix(CLAIMS) {
                self.ledger.claim_deleted(name.trim_start_matches('/'));
                // Its holder is not notified.
                self.ledger.excuse_until(Instant::now() + self.world.timeout * 100);
            }
        }
    }

    /// Lets time pass. Deletes the queue's own node once it has been empty for a while.
    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while self.restarts && Instant::now() + LOOK < until {
            let time = self.world.a_while(LOOK);
            self.world.pass(time).await;
            self.delete_passed_over();
            self.look_whether_it_is_empty();
        }
        self.world.pass(until - Instant::now()).await;
    }

    /// Deletes by hand what the picky consumer has returned and no one has locked.
    fn delete_passed_over(&self) {
        let server = &self.world.server;
        for name in server.children(PATH) {
            let item = format!("{PATH}/{name}");
            let node = server.get(&item).unwrap_or_default();
            let retry_at =
                String::from_utf8_lossy(&node).lines().find_map(|line| line.strip_prefix("retry: ")?.parse().ok());
            let at = UNIX_EPOCH + Duration::from_millis(retry_at.unwrap_or_default());
            let is_passed_over = at > server.time_of_day() + PASSED_OVER / 2;
            if is_passed_over && server.stat(&format!("{CLAIMS}/{name}")).is_none() {
                self.world.trace.note(format_args!("{name} was passed over, and is deleted by hand"));
                self.ledger.taken_by_curator(&texts(&node).collect::<Vec<_>>());
                server.delete_by_hand(&item).expect("it exists");
            }
        }
    }

    fn look_whether_it_is_empty(&mut self) {
        let queue = self.world.server.stat(PATH).filter(|queue| queue.num_children == 0);
        match (queue.map(|queue| queue.cversion), self.empty) {
            (None, _) => self.empty = None,
            (Some(changes), Some((since, known))) if changes == known => {
                // An event and the requests that it causes take no longer: faults delay messages by half a timeout at
                // most. Requests that are retried after a lost connection come later.
                if since.elapsed() > self.world.timeout / 2 + SLOWEST {
                    self.empty = None;
                    self.restart();
                }
            }
            (Some(changes), _) => self.empty = Some((Instant::now(), changes)),
        }
    }

    /// Deletes the queue's node, as Curator's reaper does: the next put creates it again, and item names restart at 0.
    fn restart(&mut self) {
        let server = &self.world.server;
        let is_used = server.stat(PATH).is_some_and(|stat| stat.cversion > 0);
        if is_used && server.delete_by_hand(PATH).is_ok() {
            let root = server.stat("/").expect("the root");
            self.ledger.starts_over(root.pzxid);
            self.world.figures.faults += 1;
            self.world.trace.note(format_args!("{PATH} is deleted by hand, while it is empty"));
        }
    }

    /// Ends a session by hand, which deletes all of its nodes at once.
    fn expire(&mut self) {
        let client = self.world.a_client();
        if self.world.server.expire_session(&self.world.clients[client]) {
            self.ledger.excuse_until(Instant::now() + self.world.timeout);
            self.world.figures.faults += 1;
            self.world.trace.note(format_args!("the session of client {client} is ended"));
        }
    }

    /// Lets a process die, and starts another one.
    async fn crash(&mut self) {
        let client = self.world.a_client();
        self.world.trace.note(format_args!("client {client} dies"));
        self.world.figures.faults += 1;
        self.world.freeze(client);
        if self.world.connect().await {
            self.put();
            self.take();
        }
    }
}

/// Returns the texts of an item's node, such as `12:7` between the bytes of the envelope.
fn texts(node: &[u8]) -> impl Iterator<Item = String> {
    let node = String::from_utf8_lossy(node).into_owned();
    let texts: Vec<_> = node.split(|c: char| !c.is_ascii_digit() && c != ':').map(str::to_owned).collect();
    texts.into_iter().filter(|text| text.contains(':'))
}
