//! Members join, some under the same id, set data, leave, are dropped and come back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, poll};
use tokio::time::{Instant, timeout};
use zookeeper_recipes::group_member::{Change, Changes, Error, GroupMember, Members};
use zookeeper_recipes::persistent_node::NodeState;
use zookeeper_recipes::testing::Task;

use crate::seeds::Outcome;
use crate::world::World;

const GROUP: &str = "/group";
/// The number of actions in a seed.
const ACTS: usize = 60;
const MOST_CLIENTS: usize = 8;
const MOST_MEMBERS: usize = 12;
/// So few ids that several members want the same one.
const IDS: [&str; 5] = ["a", "b", "c", "d", OF_ONE_CLIENT];
/// Only members of client 0 have this id, one at a time, and only their nodes are deleted by hand: a write that is
/// under way then may hit the node that the next member creates, as a server compares only versions. Likewise, only
/// this id is joined again while the node of a dropped member of the same client may still exist; the two then share
/// the node until it is deleted.
const OF_ONE_CLIENT: &str = "e";
/// The longest time that a message may be under way.
const MOST_DELAY: Duration = Duration::from_secs(30);

/// The state of a member.
enum Life {
    Joining(Task<Result<GroupMember, Error>>),
    Joined(Joined),
    /// A call of `leave` is under way.
    Leaving(Joined, Task<Result<(), Error>>),
    Left(Joined),
}

struct Joined {
    member: Arc<GroupMember>,
    changes: Changes,
    /// The members according to the changes so far.
    folded: Members,
    setting: Vec<Task<Result<(), Error>>>,
}

impl Joined {
    fn new(member: GroupMember) -> Self {
        let changes = member.changes();
        let folded = changes.start();
        Joined { member: Arc::new(member), changes, folded, setting: Vec::new() }
    }

    /// Applies the changes that have arrived.
    fn fold(&mut self) {
        while let Some(Some(change)) = self.changes.next().now_or_never() {
            match change {
                Change::Joined { id, data } => drop(self.folded.insert(id, data)),
                Change::Updated { id, new, .. } => drop(self.folded.insert(id, new)),
                Change::Left { id, .. } => drop(self.folded.remove(&id)),
                Change::Lagged(members) => self.folded = members,
                _ => {}
            }
        }
    }
}

/// One member. Its data is its number and a version, so that no two have the same.
struct Entry {
    number: usize,
    client: usize,
    id: &'static str,
    version: usize,
    life: Life,
}

impl Entry {
    /// Returns the latest data, which counts.
    fn data(&self) -> String {
        format!("{}.{}", self.number, self.version)
    }

    fn is_live(&self) -> bool {
        matches!(self.life, Life::Joining(_) | Life::Joined(_))
    }

    fn joined(&mut self) -> Option<&mut Joined> {
        match &mut self.life {
            Life::Joined(joined) | Life::Leaving(joined, _) | Life::Left(joined) => Some(joined),
            Life::Joining(_) => None,
        }
    }
}

struct Play {
    world: World,
    entries: Vec<Entry>,
    /// The number of the next member.
    next: usize,
    /// The members' clients, by their numbers.
    client_of: Vec<usize>,
    /// When a member of a client was last dropped, by its id.
    dropped: BTreeMap<(usize, &'static str), Instant>,
    /// The owner of each node that was seen.
    owners: BTreeMap<i64, usize>,
    /// The member that last had each id.
    last: BTreeMap<&'static str, usize>,
}

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Outcome {
    let world = World::new(seed, || ()).await;
    let mut play = Play {
        world,
        entries: Vec::new(),
        next: 0,
        client_of: Vec::new(),
        dropped: BTreeMap::new(),
        owners: BTreeMap::new(),
        last: BTreeMap::new(),
    };
    let violation = play.run().await.err();
    let world = play.world;
    world.trace.note_records(&world.server);
    Outcome { figures: world.figures, violation, trace: world.trace.lines() }
}

impl Play {
    async fn run(&mut self) -> Result<(), String> {
        for client in 0..self.world.clients.len() {
            self.join(client);
        }
        for _ in 0..ACTS {
            let most = self.world.timeout;
            let time = self.world.a_while(most);
            self.world.pass(time).await;
            self.settle()?;
            self.act().await;
        }
        self.world.heal();
        self.agree().await?;
        self.end().await?;
        self.world.close().await
    }

    /// Joins a member whose id no other member of this client has: two of one session would share the node.
    fn join(&mut self, client: usize) {
        let id = IDS[self.world.random.usize(..IDS.len())];
        if id == OF_ONE_CLIENT && client != 0 {
            return;
        }
        let is_taken = |entry: &Entry| entry.client == client && entry.id == id;
        if self.entries.iter().any(is_taken) || self.entries.len() >= MOST_MEMBERS {
            return;
        }
        let until_gone = self.world.timeout * 3 + MOST_DELAY;
        let may_share = self.dropped.get(&(client, id)).is_some_and(|at| at.elapsed() < until_gone);
        if may_share && id != OF_ONE_CLIENT {
            return;
        }
        let number = self.next;
        self.next += 1;
        self.client_of.push(client);
        self.world.trace.note(format_args!("{number} of client {client} joins as {id}"));
        let of = self.world.clients[client].clone();
        let joining = {
            let of = of.clone();
            let member = GroupMember::builder(&of, GROUP, id).data(format!("{number}.0"));
            let waits = self.world.random.u8(..6) > 0;
            async move { if waits { member.wait().join().await } else { member.join().await } }
        };
        let life = Life::Joining(self.world.server.spawn(&of, joining));
        self.entries.push(Entry { number, client, id, version: 0, life });
    }

    async fn act(&mut self) {
        match self.world.random.u8(..20) {
            0..=3 => {
                let client = self.world.a_client();
                self.join(client);
            }
            4..=7 => self.set_data().await,
            8..=9 => self.leave().await,
            10 => self.forget(),
            11 => self.delete_by_hand(),
            12 => self.world.expire(),
            13 if self.world.clients.len() < MOST_CLIENTS => self.crash().await,
            _ => self.world.fault(),
        }
    }

    fn an_entry(&mut self) -> Option<usize> {
        (!self.entries.is_empty()).then(|| self.world.random.usize(..self.entries.len()))
    }

    /// Sets the data of a member, which counts once the call was polled. By chance, the call is then dropped.
    async fn set_data(&mut self) {
        let Some(at) = self.an_entry() else { return };
        let is_dropped = self.world.random.bool();
        let Entry { number, client, version, life: Life::Joined(joined), .. } = &mut self.entries[at] else { return };
        *version += 1;
        let (member, data) = (Arc::clone(&joined.member), format!("{number}.{version}"));
        self.world.trace.note(format_args!("{number} sets {data}, dropped: {is_dropped}"));
        let mut setting = Box::pin(async move { member.set_data(data).await });
        if poll!(&mut setting).is_pending() && !is_dropped {
            joined.setting.push(self.world.server.spawn(&self.world.clients[*client], setting));
        } else {
            self.world.figures.cancelled += 1;
        }
    }

    async fn leave(&mut self) {
        let Some(at) = self.an_entry() else { return };
        let entry = self.entries.remove(at);
        let entry = match entry.life {
            Life::Joined(joined) => {
                self.world.trace.note(format_args!("{} leaves", entry.number));
                let member = Arc::clone(&joined.member);
                let mut leaving = Box::pin(async move { member.leave().await });
                let life = match poll!(&mut leaving) {
                    std::task::Poll::Ready(_) => Life::Left(joined),
                    std::task::Poll::Pending => {
                        let client = &self.world.clients[entry.client];
                        Life::Leaving(joined, self.world.server.spawn(client, leaving))
                    }
                };
                Entry { life, ..entry }
            }
            _ => entry,
        };
        self.entries.insert(at, entry);
    }

    /// Drops a member, in whatever state it is.
    fn forget(&mut self) {
        let Some(at) = self.an_entry() else { return };
        let mut entry = self.entries.remove(at);
        self.world.trace.note(format_args!("{} is dropped", entry.number));
        self.dropped.insert((entry.client, entry.id), Instant::now());
        self.world.figures.cancelled += 1;
        match &mut entry.life {
            Life::Joining(task) => task.abort(),
            Life::Joined(joined) | Life::Left(joined) => joined.setting.iter_mut().for_each(Task::abort),
            Life::Leaving(joined, task) => {
                joined.setting.iter_mut().for_each(Task::abort);
                task.abort();
            }
        }
    }

    fn delete_by_hand(&mut self) {
        // It may not be there, or its session may be ending at this moment.
        let name = OF_ONE_CLIENT;
        if self.world.server.delete_by_hand(&format!("{GROUP}/{name}")).is_ok() {
            self.world.figures.faults += 1;
            self.world.trace.note(format_args!("{name} is deleted by hand"));
        }
    }

    /// Lets a process die, and joins a member of a new one, perhaps under the same id.
    async fn crash(&mut self) {
        if let Some(client) = self.world.crash().await {
            self.join(client);
        }
    }

    /// Returns the group on the servers: each id, with its data and its node's czxid.
    fn group(&self) -> Vec<(String, Vec<u8>, i64)> {
        let server = &self.world.server;
        let node = |name: String| {
            let path = format!("{GROUP}/{name}");
            Some((name, server.get(&path)?, server.stat(&path)?.czxid))
        };
        server.children(GROUP).into_iter().filter_map(node).collect()
    }

    /// Notes what has happened, and checks the invariants.
    fn settle(&mut self) -> Result<(), String> {
        for entry in std::mem::take(&mut self.entries) {
            let number = entry.number;
            let life = match entry.life {
                Life::Joining(mut task) => match (&mut task).now_or_never() {
                    None => Life::Joining(task),
                    Some(Ok(Ok(member))) => {
                        self.world.figures.turns += 1;
                        self.world.trace.note(format_args!("{number} has joined"));
                        Life::Joined(Joined::new(member))
                    }
                    // Never by a node of its own, even if that belongs to a session that has ended.
                    Some(Ok(Err(Error::Taken { data, .. }))) if !data.starts_with(format!("{number}.").as_bytes()) => {
                        self.world.trace.note(format_args!("{number} finds its id taken"));
                        self.dropped.insert((entry.client, entry.id), Instant::now());
                        continue;
                    }
                    Some(outcome) => return Err(format!("{number} did not join: {outcome:?}")),
                },
                Life::Joined(mut joined) => {
                    joined.fold();
                    Life::Joined(joined)
                }
                Life::Leaving(joined, mut task) => match (&mut task).now_or_never() {
                    None => Life::Leaving(joined, task),
                    Some(Ok(Ok(()))) => {
                        self.world.trace.note(format_args!("{number} has left"));
                        Life::Left(joined)
                    }
                    Some(outcome) => return Err(format!("{number} did not leave: {outcome:?}")),
                },
                left => left,
            };
            self.entries.push(Entry { life, ..entry });
        }
        let group = self.group();
        for (id, data, czxid) in &group {
            let text = String::from_utf8_lossy(data).into_owned();
            let who = text.split('.').next().and_then(|number| number.parse::<usize>().ok());
            let Some(who) = who else { return Err(format!("{id} has data of no member: {text}")) };
            let has_left = |entry: &&Entry| entry.number == who && matches!(entry.life, Life::Left(_));
            if self.entries.iter().find(has_left).is_some() {
                return Err(format!("{who} has left, but its node {id} still exists"));
            }
            let owner = *self.owners.entry(*czxid).or_insert(who);
            // A dropped member may leave its node to the next member of its session.
            if self.client_of[owner] != self.client_of[who] {
                return Err(format!("{who} wrote into the node of {owner}, {id}"));
            }
            if let Some(id) = IDS.iter().find(|known| *known == id) {
                let last = self.last.insert(id, who);
                self.world.figures.hand_overs += u64::from(last.is_some_and(|last| last != who));
            }
        }
        Ok(())
    }

    /// Waits until all members see the same group after healing.
    async fn agree(&mut self) -> Result<(), String> {
        // Sessions are given up, and calls are retried.
        let deadline = Instant::now() + self.world.timeout * 3 + Duration::from_secs(20);
        self.world.pass(self.world.quiet()).await;
        loop {
            self.settle()?;
            let Err(difference) = self.compare() else { return Ok(()) };
            if Instant::now() > deadline {
                return Err(format!("long after everything was healed: {difference}"));
            }
            self.world.pass(Duration::from_millis(50)).await;
        }
    }

    fn compare(&mut self) -> Result<(), String> {
        let group: Members = self.group().into_iter().map(|(id, data, _)| (id, data)).collect();
        for id in IDS {
            let live: Vec<&Entry> = self.entries.iter().filter(|entry| entry.is_live() && entry.id == id).collect();
            let data = group.get(id).map(|data| String::from_utf8_lossy(data).into_owned());
            let winner = live.iter().find(|entry| Some(entry.data()) == data);
            match (winner, &data) {
                (None, None) if live.is_empty() => {}
                (Some(winner), _) => {
                    for entry in &live {
                        is_as_it_must_be(entry, entry.number == winner.number)?;
                    }
                }
                (None, _) => return Err(format!("{id} has {data:?}, but its members are {:?}", numbers(&live))),
            }
        }
        for entry in &mut self.entries {
            let number = entry.number;
            let is_leaving = matches!(entry.life, Life::Leaving(..));
            let Some(joined) = entry.joined() else { continue };
            if is_leaving {
                return Err(format!("{number} is still leaving"));
            }
            joined.fold();
            let members = joined.member.members();
            if members != group {
                return Err(format!("{number} sees {members:?}, but the group is {group:?}"));
            }
            if joined.folded != group {
                return Err(format!("{number} was notified of {:?}, but the group is {group:?}", joined.folded));
            }
        }
        Ok(())
    }

    /// Lets all members leave.
    async fn end(&mut self) -> Result<(), String> {
        let patience = self.world.timeout * 3 + Duration::from_secs(20);
        for mut entry in std::mem::take(&mut self.entries) {
            let number = entry.number;
            match &mut entry.life {
                Life::Joining(task) => {
                    task.abort();
                    continue;
                }
                Life::Joined(joined) | Life::Left(joined) | Life::Leaving(joined, _) => {
                    let left = timeout(patience, joined.member.leave()).await;
                    let left = left.map_err(|_| format!("{number} does not leave"))?;
                    left.map_err(|error| format!("{number} cannot leave: {error}"))?;
                    joined.setting.iter_mut().for_each(Task::abort);
                }
            }
        }
        let deadline = Instant::now() + patience;
        loop {
            self.world.pass(Duration::from_millis(50)).await;
            let (group, watches) = (self.group(), self.world.watches());
            if group.is_empty() && watches == 0 {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("long after all have left there are {watches} watches, and {group:?}"));
            }
        }
    }
}

/// Checks that the member that has the id is present, and that the others wait for it.
fn is_as_it_must_be(entry: &Entry, has_the_id: bool) -> Result<(), String> {
    let Entry { number, id, life, .. } = entry;
    match (life, has_the_id) {
        (Life::Joining(_), false) => Ok(()),
        (Life::Joined(joined), _) => match (joined.member.state().get(), has_the_id) {
            (NodeState::Present, true) | (NodeState::Waiting, false) => Ok(()),
            (state, _) => Err(format!("{number} is {state}, and has {id}: {has_the_id}")),
        },
        _ => Err(format!("{number} has {id}, but has not joined")),
    }
}

fn numbers(entries: &[&Entry]) -> Vec<usize> {
    entries.iter().map(|entry| entry.number).collect()
}
