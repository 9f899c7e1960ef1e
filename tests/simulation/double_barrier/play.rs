//! The members of a barrier, and what happens to them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;
use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::double_barrier::{DoubleBarrier, Error};
use zookeeper_recipes::testing::{Dialect, Task};

use super::ledger::{Ledger, PATH};
use super::member::{Doing, Member, Tally};
use crate::seeds::Outcome;
use crate::world::World;

/// The number of actions in a seed.
const ACTS: usize = 30;
const MOST_CLIENTS: usize = 7;

/// A running member.
struct Working {
    name: String,
    doing: watch::Receiver<Doing>,
    task: Task<()>,
}

struct Play {
    world: World,
    ledger: Arc<Ledger>,
    threshold: usize,
    working: Vec<Working>,
    came: usize,
    enough: watch::Sender<bool>,
    tally: Arc<Tally>,
}

/// Runs one seed.
pub(super) async fn run(seed: u64) -> Outcome {
    let ledger = Arc::new(Ledger::default());
    let check = Arc::clone(&ledger);
    let mut world = World::new(seed, move || check.glance()).await;
    let threshold = world.random.usize(1..=world.clients.len());
    world.trace.note(format_args!("{threshold} members open a round"));
    ledger.watch(&world, threshold);
    let (enough, tally) = (watch::Sender::new(false), Arc::default());
    let mut play = Play { world, ledger, threshold, working: Vec::new(), came: 0, enough, tally };
    let played = play.run().await;
    play.working.clear();
    let Play { mut world, ledger, tally, .. } = play;
    ledger.release();
    world.figures.turns = ledger.rounds();
    world.figures.hand_overs = tally.entered.load(Ordering::Relaxed);
    world.figures.cancelled = tally.cancelled.load(Ordering::Relaxed);
    world.trace.note_records(&world.server);
    Outcome { figures: world.figures, violation: ledger.violation().or(played.err()), trace: world.trace.lines() }
}

impl Play {
    async fn run(&mut self) -> Result<(), String> {
        for client in 0..self.world.clients.len() {
            self.come(client);
        }
        // Sometimes more members than a round needs, even several with one client.
        for _ in 0..self.world.random.usize(..=2) {
            let client = self.world.a_client();
            self.come(client);
        }
        for _ in 0..ACTS {
            let most = self.world.timeout / 2;
            let time = self.world.a_while(most);
            self.world.pass(time).await;
            self.act().await;
            if self.ledger.violation().is_some() {
                break;
            }
        }
        self.world.heal();
        self.come_to_an_end().await?;
        self.all_pass().await?;
        self.world.close().await
    }

    /// Starts a member with a barrier object of its own.
    fn come(&mut self, client: usize) {
        let name = format!("member {}", self.came);
        self.came += 1;
        let barrier = DoubleBarrier::builder(&self.world.clients[client], PATH, self.threshold);
        let barrier = barrier.data(name.clone()).build().expect("good options");
        let (doing, seen) = watch::channel(Doing::Nothing);
        let member = Member {
            name: name.clone(),
            barrier,
            client_number: client,
            timeout: self.world.timeout,
            random: self.world.random.fork(),
            ledger: Arc::clone(&self.ledger),
            trace: self.world.trace.clone(),
            thaws: self.world.thaws.clone(),
            doing,
            enough: self.enough.subscribe(),
            tally: Arc::clone(&self.tally),
            clean: true,
        };
        let client = self.world.clients[client].clone();
        let task = self.world.server.spawn(&client, member.work());
        self.working.push(Working { name, doing: seen, task });
    }

    async fn act(&mut self) {
        match self.world.random.u8(..20) {
            0..=1 => self.delete_by_hand(),
            2..=3 => self.expire(),
            4 if self.world.clients.len() < MOST_CLIENTS => self.crash().await,
            5..=6 => self.dismiss(),
            7..=9 => {}
            _ => self.world.fault(),
        }
    }

    fn delete_by_hand(&mut self) {
        let number = self.world.random.usize(..8);
        if let Some(name) = self.ledger.delete_by_hand(&self.world.server, number) {
            self.world.figures.faults += 1;
            self.world.trace.note(format_args!("{name} is deleted by hand"));
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
            self.come(self.world.clients.len() - 1);
        }
    }

    /// Drops a member at its current await, with its object, and starts another one.
    fn dismiss(&mut self) {
        let number = self.world.random.usize(..self.working.len());
        let mut gone = self.working.remove(number);
        gone.task.abort();
        self.world.trace.note(format_args!("{} is dropped", gone.name));
        let client = self.world.a_client();
        self.come(client);
    }

    /// Returns the time after healing within which everything must have happened.
    fn patience(&self) -> Duration {
        self.world.timeout * 4 + Duration::from_secs(20)
    }

    /// Begins no more rounds: members inside one leave it, and only too few for another round keep waiting.
    async fn come_to_an_end(&mut self) -> Result<(), String> {
        self.enough.send_replace(true);
        let deadline = Instant::now() + self.patience();
        while Instant::now() < deadline {
            self.working.retain_mut(|working| (&mut working.task).now_or_never().is_none());
            if self.working.is_empty() {
                break;
            }
            self.world.pass(Duration::from_millis(500)).await;
        }
        let waiting = self.working.len();
        for working in &self.working {
            let (name, doing) = (&working.name, *working.doing.borrow());
            if doing != Doing::Entering {
                return Err(format!("long after healing {name} is {doing:?}"));
            }
            if !self.ledger.has_node(name) {
                return Err(format!("long after healing {name} waits without a node"));
            }
            if self.ledger.is_counted(name) {
                return Err(format!("long after its round has opened {name} waits"));
            }
        }
        if waiting >= self.threshold {
            return Err(format!("{waiting} wait, {} are enough, but no round opens", self.threshold));
        }
        for mut working in self.working.drain(..) {
            working.task.abort();
        }
        Ok(())
    }

    /// Checks that all clients can pass rounds again when no member is left, and that then no node is left.
    async fn all_pass(&mut self) -> Result<(), String> {
        // A dropped member may have a create under way that was sent before healing: it would count as one more member.
        let quiet = self.world.quiet();
        self.world.pass(quiet).await;
        let within = self.patience();
        let barrier = |client| DoubleBarrier::new(client, PATH, self.threshold).expect("good options");
        let barriers: Vec<DoubleBarrier> = self.world.clients.iter().map(barrier).collect();
        // On Keeper, clients lose sessions when they find out which operations the servers lack.
        let (mut failures_left, mut passed) = (if self.world.dialect == Dialect::ZooKeeper { 0 } else { 20 }, 0);
        while passed < 2 {
            let entered = join_all(barriers.iter().map(|barrier| enter(barrier, within))).await;
            let left = join_all(barriers.iter().map(|barrier| barrier.leave_timeout(within))).await;
            if entered.iter().chain(&left).all(|passed| matches!(passed, Ok(true))) {
                passed += 1;
            } else if failures_left > 0 {
                failures_left -= 1;
            } else {
                return Err(format!("after healing: enter: {entered:?}, leave: {left:?}"));
            }
        }
        match &self.world.server.children(PATH)[..] {
            [] => Ok(()),
            left => Err(format!("when all have left there are {left:?}")),
        }
    }
}

/// Enters, with the next session if the last one has ended: an unused client has not checked its session.
async fn enter(barrier: &DoubleBarrier, within: Duration) -> Result<bool, Error> {
    loop {
        match barrier.enter_timeout(within).await {
            Err(error) if error.kind() == ErrorKind::SessionLost => {}
            entered => return entered,
        }
    }
}
