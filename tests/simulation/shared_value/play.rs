//! Handles of several processes read and write one value; it is written and deleted by hand as well.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{FutureExt, poll};
use tokio::time::{Instant, timeout};
use zookeeper_recipes::shared_value::{Changes, Error, SharedValue, Utf8};
use zookeeper_recipes::testing::{Operation, Task};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::call::{Call, PATH};
use crate::history::{End, History};
use crate::seeds::Outcome;
use crate::world::World;

/// The number of actions in a seed.
const ACTS: usize = 80;
const MOST_CLIENTS: usize = 7;
const MOST_HANDLES: usize = 8;
/// The servers close the connection on a longer request. The clients do not know this limit.
const MAX_BUFFER: usize = 16 * 1024;

type Started = Result<SharedValue<String>, Error>;

struct Handle {
    client: usize,
    value: SharedValue<String>,
    changes: Changes<String>,
    /// The value according to the changes so far; `None` if there is no node.
    folded: Option<String>,
    /// The zxid of the newest value that was read.
    zxid: i64,
}

struct Play {
    world: World,
    history: History<Call>,
    /// The handles that are starting, with their clients.
    starting: Vec<(usize, Task<Started>)>,
    handles: Vec<Handle>,
    calls: BTreeMap<usize, Task<Result<End, String>>>,
    /// Writes that are too large for the servers: each fails at some point.
    too_large: Vec<Task<Result<(), ErrorKind>>>,
    /// The number of the next call.
    next: usize,
    /// Calls that have ended, to be compared again in the end.
    ended: Vec<(usize, End)>,
    /// The node was deleted by hand, and not created again.
    is_deleted: bool,
}

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Outcome {
    let history = History::new(PATH);
    let check = history.clone();
    let world = World::new(seed, move || check.look()).await;
    history.watch(&world.server);
    world.server.max_buffer(MAX_BUFFER);
    let mut play = Play {
        world,
        history,
        starting: Vec::new(),
        handles: Vec::new(),
        calls: BTreeMap::new(),
        too_large: Vec::new(),
        next: 0,
        ended: Vec::new(),
        is_deleted: false,
    };
    let played = play.run().await;
    play.history.outcome(play.world, played)
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
            self.settle()?;
            self.act().await?;
            if self.history.violation().is_some() {
                return Ok(());
            }
        }
        self.world.heal();
        self.finish().await?;
        self.agree().await?;
        self.leave().await?;
        self.world.sweep(PATH);
        self.world.close().await
    }

    /// Starts another handle of this client.
    fn start(&mut self, client: usize) {
        // It would create the node again, at a version that the previous one had, too.
        if self.is_deleted || self.handles.len() + self.starting.len() >= MOST_HANDLES {
            return;
        }
        let id = self.next();
        let seed = Call::Seed(id);
        self.history.begins(id, seed);
        self.world.trace.note(format_args!("client {client} starts with {seed:?}"));
        let of = self.world.clients[client].clone();
        let starting = {
            let of = of.clone();
            async move { SharedValue::builder(&of, PATH).decode(Utf8).seed(seed.data("")).start().await }
        };
        self.starting.push((client, self.world.server.spawn(&of, starting)));
    }

    fn next(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    async fn act(&mut self) -> Result<(), String> {
        match self.world.random.u8(..32) {
            0..=12 => self.call().await?,
            13..=14 => {
                let client = self.world.a_client();
                self.start(client);
            }
            15 if self.handles.len() > 1 => {
                let at = self.world.random.usize(..self.handles.len());
                self.handles.swap_remove(at);
                self.world.trace.note("a handle is dropped");
            }
            16 => self.drop_call(),
            17..=18 => self.write_by_hand(),
            19 => self.delete_by_hand(),
            20..=22 => self.world.lose_a_reply(Operation::SetData),
            23 => self.world.expire(),
            24 if self.world.clients.len() < MOST_CLIENTS => self.crash().await,
            25 => self.write_too_much(),
            _ => self.world.fault(),
        }
        Ok(())
    }

    /// Makes a call on a handle, by chance several at once.
    async fn call(&mut self) -> Result<(), String> {
        if self.handles.is_empty() {
            return Ok(());
        }
        let at = self.world.random.usize(..self.handles.len());
        for _ in 0..self.world.random.u8(1..=3) {
            let id = self.next();
            let call = match self.world.random.u8(..6) {
                0..=1 => Call::Set(id),
                2..=3 => Call::Swap(id),
                _ => Call::Update(id),
            };
            self.begin(at, id, call).await?;
        }
        Ok(())
    }

    fn write_too_much(&mut self) {
        let Some(Handle { client, value, .. }) = self.world.random.choice(&self.handles) else { return };
        self.world.trace.note(format_args!("client {client} writes too much"));
        let value = value.clone();
        let write = async move { value.set("x".repeat(MAX_BUFFER)).await.map(drop).map_err(|error| error.kind()) };
        self.too_large.push(self.world.server.spawn(&self.world.clients[*client], write));
    }

    async fn begin(&mut self, at: usize, id: usize, call: Call) -> Result<(), String> {
        let Handle { client, value, .. } = &self.handles[at];
        let (client, value) = (*client, value.clone());
        self.history.begins(id, call);
        let is_dropped = self.world.random.u8(..12) == 0;
        self.world.trace.note(format_args!("{call:?} of client {client}, dropped: {is_dropped}"));
        let mut work = Box::pin(async move { call.on(&value).await });
        if is_dropped && !self.world.server.is_frozen(&self.world.clients[client]) {
            if let std::task::Poll::Ready(outcome) = poll!(&mut work) {
                return self.end(id, outcome);
            }
            self.world.figures.cancelled += 1;
            self.ended.push((id, End::Unknown));
            return Ok(());
        }
        self.calls.insert(id, self.world.server.spawn(&self.world.clients[client], work));
        Ok(())
    }

    fn end(&mut self, id: usize, outcome: Result<End, String>) -> Result<(), String> {
        self.world.trace.note(format_args!("{id} ends: {outcome:?}"));
        let end = outcome?;
        self.world.figures.turns += u64::from(end == End::Done);
        self.history.ended(id, end);
        self.ended.push((id, end));
        Ok(())
    }

    fn drop_call(&mut self) {
        let ids: Vec<usize> = self.calls.keys().copied().collect();
        if let Some(id) = self.world.random.choice(ids)
            && let Some(mut task) = self.calls.remove(&id)
        {
            self.world.trace.note(format_args!("{id} is dropped"));
            task.abort();
            self.world.figures.cancelled += 1;
            self.ended.push((id, End::Unknown));
        }
    }

    /// Returns the data for a write by hand.
    fn by_hand(&mut self) -> String {
        let data = format!("hand{}", self.next());
        self.history.by_hand(data.clone());
        data
    }

    fn write_by_hand(&mut self) {
        if self.world.server.stat(PATH).is_some() {
            let data = self.by_hand();
            self.world.server.set_data_by_hand(PATH, &data).expect("it is there");
            self.world.trace.note(format_args!("{data} is written"));
        }
    }

    /// Deletes the node by hand. It is created again at once, or a while later.
    fn delete_by_hand(&mut self) {
        if self.is_deleted {
            return self.create_by_hand();
        }
        if !self.starting.is_empty() || self.world.server.delete_by_hand(PATH).is_err() {
            return;
        }
        self.is_deleted = true;
        self.world.figures.faults += 1;
        self.world.trace.note("deleted by hand");
        if self.world.random.bool() {
            self.create_by_hand();
        }
    }

    /// Creates the node with versions that no earlier one had: a write cannot distinguish two nodes with one version.
    fn create_by_hand(&mut self) {
        let data = self.by_hand();
        self.world.trace.note(format_args!("created by hand: {data}"));
        // The create of an abandoned start may have arrived late.
        let _ = self.world.server.delete_by_hand(PATH);
        let created = self.world.server.create_by_hand(PATH, &data, CreateMode::Persistent);
        created.expect("it was deleted");
        let version = i32::try_from(self.next).expect("few calls") * 10_000;
        self.history.by_hand(data.clone());
        self.world.server.set_version(PATH, version).expect("it was created");
        self.is_deleted = false;
    }

    async fn crash(&mut self) {
        if let Some(client) = self.world.crash().await {
            self.start(client);
        }
    }

    /// Notes what has ended, and checks what each handle reads.
    fn settle(&mut self) -> Result<(), String> {
        for (client, mut task) in std::mem::take(&mut self.starting) {
            match (&mut task).now_or_never() {
                None => self.starting.push((client, task)),
                Some(Ok(Ok(value))) => {
                    self.world.trace.note(format_args!("client {client} has started"));
                    let changes = value.changes();
                    let folded = changes.start().ok().map(|value| value.value().clone());
                    self.handles.push(Handle { client, value, changes, folded, zxid: 0 });
                }
                Some(Ok(Err(error))) if error.kind() == ErrorKind::ConnectionLoss => {}
                Some(outcome) => return Err(format!("client {client} did not start: {outcome:?}")),
            }
        }
        for (id, mut task) in std::mem::take(&mut self.calls) {
            match (&mut task).now_or_never() {
                None => drop(self.calls.insert(id, task)),
                Some(Ok(outcome)) => self.end(id, outcome)?,
                Some(Err(_)) => return Err(format!("call {id} has no result")),
            }
        }
        for mut task in std::mem::take(&mut self.too_large) {
            match (&mut task).now_or_never() {
                None => self.too_large.push(task),
                Some(Ok(Ok(()))) => return Err("a write that is too large is reported as done".to_owned()),
                Some(Ok(Err(_)) | Err(_)) => {}
            }
        }
        for handle in &mut self.handles {
            handle.look(&self.history)?;
        }
        Ok(())
    }

    /// Checks that after healing all calls end, and each handle can update, if there is a node.
    async fn finish(&mut self) -> Result<(), String> {
        let patience = self.world.timeout * 4 + Duration::from_secs(60);
        let deadline = Instant::now() + patience;
        self.world.pass(self.world.quiet()).await;
        while !self.calls.is_empty() || !self.starting.is_empty() || !self.too_large.is_empty() {
            self.settle()?;
            if Instant::now() > deadline {
                let (calls, starting) = (self.calls.keys().collect::<Vec<_>>(), self.starting.len());
                let too_large = self.too_large.len();
                return Err(format!(
                    "long after everything was healed, calls {calls:?} and {too_large} writes that are too large are \
                     under way, and {starting} handles are starting"
                ));
            }
            self.world.pass(Duration::from_millis(50)).await;
        }
        for at in 0..self.handles.len() {
            let value = self.handles[at].value.clone();
            // A reply may still be lost.
            while !self.update_in_the_end(&value, patience).await? {}
        }
        if let Some(Handle { value, .. }) = self.handles.first()
            && !self.is_deleted
        {
            too_much_in_the_end(value, patience).await?;
        }
        for (id, end) in self.ended.clone() {
            self.history.ended(id, end);
        }
        Ok(())
    }

    /// Updates a last time. Returns whether the outcome is known.
    async fn update_in_the_end(&mut self, value: &SharedValue<String>, patience: Duration) -> Result<bool, String> {
        let id = self.next();
        let call = Call::Update(id);
        self.history.begins(id, call);
        let updated = timeout(patience, call.on(value)).await;
        let updated = updated.map_err(|_| format!("the last {call:?} does not end"))?;
        if !self.is_deleted && updated == Ok(End::NotDone) {
            return Err(format!("the last {call:?} was not done"));
        }
        let is_known = updated != Ok(End::Unknown);
        self.end(id, updated)?;
        Ok(is_known)
    }

    /// Waits until all handles see what the servers have.
    async fn agree(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + self.world.timeout * 3 + Duration::from_secs(20);
        loop {
            self.settle()?;
            let held = self.world.server.get(PATH).and_then(|data| String::from_utf8(data).ok());
            let differs = |handle: &&Handle| handle.read() != held || handle.folded != held;
            let Some(other) = self.handles.iter().find(differs) else { return Ok(()) };
            if Instant::now() > deadline {
                let (client, read, folded) = (other.client, other.read(), &other.folded);
                return Err(format!("client {client} reads {read:?}, was sent {folded:?}, but there is {held:?}"));
            }
            self.world.pass(Duration::from_millis(50)).await;
        }
    }

    async fn leave(&mut self) -> Result<(), String> {
        self.handles.clear();
        let deadline = Instant::now() + self.world.timeout * 4 + Duration::from_secs(20);
        while self.world.watches() > 0 {
            if Instant::now() > deadline {
                return Err(format!("{} watches are left", self.world.watches()));
            }
            self.world.pass(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

impl Handle {
    fn read(&self) -> Option<String> {
        self.value.get().ok().map(|value| value.value().clone())
    }

    /// Checks that what is read was there, and never goes back.
    fn look(&mut self, history: &History<Call>) -> Result<(), String> {
        while let Some(Some(change)) = self.changes.next().now_or_never() {
            self.folded = change.ok().map(|value| value.value().clone());
        }
        let client = self.client;
        match self.value.get() {
            Ok(now) if now.zxid() < self.zxid => Err(format!("client {client} reads {now:?} after {}", self.zxid)),
            Ok(now) if !history.had(now.zxid(), now.as_bytes()) => Err(format!("client {client} reads {now:?}")),
            Ok(now) => {
                self.zxid = now.zxid();
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(()),
            Err(error) => Err(format!("client {client} reads: {error}")),
        }
    }
}

/// Checks that a write that is too large is refused in the end, and does not fail otherwise each time.
async fn too_much_in_the_end(value: &SharedValue<String>, patience: Duration) -> Result<(), String> {
    let refused = async {
        let write = async || value.set("x".repeat(MAX_BUFFER)).await;
        while !write().await.is_err_and(|error| error.kind() == ErrorKind::InvalidArgument) {}
    };
    timeout(patience, refused).await.map_err(|_| "a write that is too large is never refused".to_owned())
}
