//! What the scenarios of all line recipes share: faults of participants, healing, and the end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::CreateMode;

use crate::line::{Line, Place};
use crate::seeds::Outcome;
use crate::watcher::Watcher;
use crate::world::World;

/// The number of actions in a seed.
const ACTS: usize = 60;
const MOST_CLIENTS: usize = 8;

/// The behaviour specific to a recipe.
pub(crate) trait Play {
    const LINE: Line;

    fn new(stage: &mut Stage) -> Self;

    /// Runs before any fault.
    async fn begin(&mut self, _stage: &mut Stage) {}

    /// Adds a participant with this client.
    fn enter(&mut self, stage: &mut Stage, client: usize);

    /// Lets participants do something.
    async fn act(&mut self, stage: &mut Stage);

    /// Notes finished actions.
    fn settle(&mut self, stage: &mut Stage);

    /// Checks that all required progress happens within a bounded time after healing; then all participants leave.
    async fn end(&mut self, stage: &mut Stage) -> Result<(), String>;
}

/// The world of a seed and its watcher.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) watcher: Arc<Watcher>,
    line: Line,
}

/// Runs one seed.
pub(crate) async fn run<P: Play>(seed: u64) -> Outcome {
    let watcher = Arc::new(Watcher::new(P::LINE));
    let check = Arc::clone(&watcher);
    let world = World::new(seed, move || check.look()).await;
    watcher.watch(&world);
    let mut stage = Stage { world, watcher: Arc::clone(&watcher), line: P::LINE };
    let mut play = P::new(&mut stage);
    let played = stage.run(&mut play).await;
    drop(play);
    watcher.release();
    let (seen, mut world) = (watcher.seen(), stage.world);
    world.figures.turns = seen.turns;
    world.figures.hand_overs = seen.hand_overs;
    world.trace.note_records(&world.server);
    Outcome { figures: world.figures, violation: seen.violation.or(played.err()), trace: world.trace.lines() }
}

impl Stage {
    async fn run(&mut self, play: &mut impl Play) -> Result<(), String> {
        if self.world.random.u8(..8) == 0 {
            self.near_the_end_of_the_counter();
        }
        play.begin(self).await;
        for _ in 0..ACTS {
            let most = self.world.timeout;
            let time = self.world.a_while(most);
            self.world.pass(time).await;
            self.settle(play);
            self.act(play).await;
            if self.watcher.seen().violation.is_some() {
                break;
            }
        }
        self.world.heal();
        play.end(self).await?;
        self.settle(play);
        self.until_all_have_left().await?;
        self.world.sweep(&self.stranger());
        self.world.close().await
    }

    /// Waits until no node and no watch is left, soon after all participants have left.
    pub(crate) async fn until_all_have_left(&mut self) -> Result<(), String> {
        // The servers keep an abandoned session for a while.
        let deadline = Instant::now() + self.world.timeout * 2;
        let mut quiet_since = Instant::now();
        // A call that was dropped may have a create under way, sent before everything was healed.
        while quiet_since.elapsed() < self.world.quiet() {
            self.world.pass(Duration::from_millis(50)).await;
            let (places, watches) = (self.places(), self.world.watches());
            if places.is_empty() && watches == 0 {
                continue;
            }
            quiet_since = Instant::now();
            if quiet_since > deadline {
                return Err(format!("long after all have left there are {watches} watches, and places {places:?}"));
            }
        }
        Ok(())
    }

    async fn act(&mut self, play: &mut impl Play) {
        let holders = self.watcher.holders();
        self.world.focus = holders.first().and_then(|(holder, _)| self.watcher.session_of(*holder));
        match self.world.random.u8(..21) {
            0..=9 => play.act(self).await,
            10 => self.delete_by_hand(),
            11 => self.expire(),
            12 if self.world.clients.len() < MOST_CLIENTS => self.crash(play).await,
            13 => self.write_by_hand(),
            _ => self.world.fault(),
        }
    }

    fn settle(&mut self, play: &mut impl Play) {
        play.settle(self);
        if let Some(double) = self.line.double(&self.world.server) {
            self.watcher.object(format!("a participant has two nodes: {double:?}"));
        }
    }

    /// Returns all places, in order.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.line.places(&self.world.server)
    }

    /// Returns the time after healing within which everything must have happened: sessions are given up, and calls are
    /// retried.
    pub(crate) fn patience(&self) -> Duration {
        self.world.timeout * 3 + Duration::from_secs(20)
    }

    /// Returns the path of a node in the directory that is not in the line.
    fn stranger(&self) -> String {
        format!("{}/stranger", self.line.path)
    }

    fn near_the_end_of_the_counter(&mut self) {
        let left = self.world.random.i32(0..20);
        self.world.trace.note(format_args!("the counter is {left} before its end"));
        let (server, path) = (&self.world.server, self.line.path);
        server.create_by_hand(path, "", CreateMode::Container).expect("a directory");
        if left % 2 == 0 {
            // The directory never becomes empty, so its counter never restarts.
            server.create_by_hand(&self.stranger(), "", CreateMode::Persistent).expect("a child");
        }
        server.set_sequence(path, i32::MAX - left).expect("a counter");
    }

    fn delete_by_hand(&mut self) {
        let line = self.places();
        let Some(at) = (!line.is_empty()).then(|| self.world.random.usize(..line.len())) else { return };
        let (before, place) = (&line[..at], &line[at]);
        // Its session may be ending at this moment.
        if self.world.server.delete_by_hand(&place.path).is_err() {
            return;
        }
        // The deletion commits everything that was decided before it.
        // Readers hold together, so any place may hold. (If it does not, this excuses nothing.)
        let may_hold = self.line.readers.is_some() || !before.iter().any(|place| place.stands(&self.world.server));
        if may_hold {
            // Either the notification arrives before the next answer from the server, or the lease ends.
            let until = self.line.watches_own.then(|| Instant::now() + self.world.timeout);
            self.watcher.depose(place.czxid, until);
        }
        self.world.figures.faults += 1;
        self.world.trace.note(format_args!("number {at} of {} is deleted by hand: {}", line.len(), place.path));
    }

    /// Writes to a node by hand; nothing depends on that.
    fn write_by_hand(&mut self) {
        let line = self.places();
        let Some(place) = self.world.random.choice(line) else { return };
        // Its session may be ending at this moment.
        if self.world.server.set_data_by_hand(&place.path, &place.data).is_ok() {
            self.world.trace.note(format_args!("a client writes to {}", place.path));
        }
    }

    /// Ends a session by hand, which deletes all of its nodes at once.
    fn expire(&mut self) {
        let client = self.world.a_victim();
        let Some(session) = self.world.clients[client].session_id() else { return };
        self.watcher.depose_session(session, Instant::now() + self.world.timeout);
        self.world.server.expire_session(&self.world.clients[client]);
        self.world.figures.faults += 1;
        self.world.trace.note(format_args!("the session of client {client} is ended by hand"));
    }

    /// Lets a process die, and starts another one.
    async fn crash(&mut self, play: &mut impl Play) {
        if let Some(client) = self.world.crash().await {
            play.enter(self, client);
        }
    }
}
