//! What `inspect` tells of nodes that Curator's and kazoo's own code has created. `tests/recorded/record` records them.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use zookeeper_recipes::inspect::{
    self, DoubleBarrier, Entry, Group, Line, Node, Place, Queue, Recipe, Role, Semaphore, Service, ServiceType,
};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, CreateMode};

use crate::fixture::{SOON, within};

const CURATOR: &str = include_str!("../recorded/curator.jsonl");
const KAZOO: &str = include_str!("../recorded/kazoo.jsonl");

/// The recorded nodes on an ensemble in memory.
struct Replay {
    server: TestingServer,
    /// Each stands for a session that was recorded.
    _sessions: BTreeMap<i64, Client>,
    operator: Client,
}

impl Replay {
    /// Creates the nodes in the order of their creation, each by the session that owned it.
    async fn of(recorded: &str) -> Replay {
        let server = TestingServer::start();
        let mut sessions = BTreeMap::new();
        for line in recorded.lines() {
            let node: Value = serde_json::from_str(line).expect("a node");
            let path = node["path"].as_str().expect("a path");
            let data: Vec<u8> = node["data"].as_str().expect("its data").chars().map(|byte| byte as u8).collect();
            let session = node["session"].as_i64().expect("a session, or 0");
            if session == 0 {
                server.create_by_hand(path, data, CreateMode::Persistent).expect("created");
                continue;
            }
            let client = match sessions.entry(session) {
                Slot::Occupied(client) => client.into_mut(),
                Slot::Vacant(slot) => slot.insert(server.client().await.expect("a client")),
            };
            client.create(path, data, CreateMode::Ephemeral).await.expect("created");
        }
        let operator = server.client().await.expect("a client");
        Replay { server, _sessions: sessions, operator }
    }

    /// The only recipe in this directory, which is the same whether the tree begins here or above.
    async fn recipe(&self, path: &str) -> Recipe {
        let nodes = self.nodes(path).await;
        let root = path.split_inclusive('/').take(2).collect::<String>();
        let above = self.nodes(root.trim_end_matches('/')).await;
        let [recipe] = &nodes[0].recipes[..] else { panic!("one recipe at {path}: {nodes:?}") };
        let same = above.iter().find(|node| node.path == path).expect("it is there");
        assert_eq!(same.recipes, nodes[0].recipes);
        recipe.clone()
    }

    /// What is in the tree at a path.
    async fn nodes(&self, path: &str) -> Vec<Node> {
        let tree = within("it has looked", SOON * 5, inspect::tree(&self.operator, path)).await.expect("the tree");
        assert_eq!(tree.denied, [""; 0]);
        tree.nodes
    }

    /// The line in this directory, the same from `line` and from `tree`.
    async fn line(&self, path: &str) -> Line {
        let Recipe::Line(line) = self.recipe(path).await else { panic!("{path} is a line") };
        assert_eq!(line, inspect::line(&self.operator, path).await.expect("the line"));
        assert!(line.places.iter().all(|place| place.owner.as_ref().is_some_and(|owner| !owner.is_orphan())));
        line
    }

    async fn semaphore(&self, path: &str) -> Semaphore {
        let Recipe::Semaphore(semaphore) = self.recipe(path).await else { panic!("{path} is a semaphore") };
        assert_eq!(semaphore.orphans().count(), 0);
        semaphore
    }

    async fn double_barrier(&self, path: &str) -> DoubleBarrier {
        let Recipe::DoubleBarrier(barrier) = self.recipe(path).await else { panic!("{path} is a double barrier") };
        barrier
    }

    async fn queue(&self, path: &str) -> Queue {
        let Recipe::Queue(queue) = self.recipe(path).await else { panic!("{path} is a queue") };
        assert_eq!((queue.producers.len(), queue.dead_letters.len()), (0, 0), "of this library alone");
        queue
    }

    async fn service(&self, path: &str) -> Service {
        let Recipe::Service(service) = self.recipe(path).await else { panic!("{path} is a service") };
        assert_eq!(service.unreadable, []);
        service
    }

    async fn group(&self, path: &str) -> Group {
        let Recipe::Group(group) = self.recipe(path).await else { panic!("{path} is a group") };
        group
    }

    /// Whether it is a plain node, with so many bytes.
    async fn is_plain(&self, path: &str, bytes: u32) -> bool {
        let nodes = self.nodes(path).await;
        nodes.len() == 1 && nodes[0].recipes.is_empty() && nodes[0].stat.is_some_and(|stat| stat.data_length == bytes)
    }
}

fn text(data: &[u8]) -> &str {
    std::str::from_utf8(data).expect("text")
}

fn data(place: &Place) -> &str {
    text(&place.owner.as_ref().expect("it is readable").data)
}

/// The data of these nodes.
fn all(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| text(&entry.owner.as_ref().expect("it is readable").data)).collect()
}

/// Who is in a line: its data, its role, and the data of the one that it waits for.
fn shown(line: &Line) -> Vec<(&str, Role, Option<&str>)> {
    let of = |path: &String| line.places.iter().find(|place| place.path == *path).expect("it is in the line");
    let one = |place| (data(place), place.role, place.waits_for.as_ref().map(|before| data(of(before))));
    line.places.iter().map(one).collect()
}

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(Entry::name).collect()
}

#[tokio::test(start_paused = true)]
async fn the_locks_of_curator() {
    let replay = Replay::of(CURATOR).await;
    let mutex = replay.line("/curator/mutex").await;
    let expected =
        [("host-1", Role::Lock, None), ("host-2", Role::Lock, Some("host-1")), ("host-3", Role::Lock, Some("host-2"))];
    assert_eq!(shown(&mutex), expected);
    let sessions: BTreeSet<_> = mutex.places.iter().map(Place::session_id).collect();
    assert_eq!(sessions.len(), 3);

    let revocable = replay.line("/curator/revocable").await;
    assert!(revocable.places[0].owner.as_ref().is_some_and(inspect::Owner::is_revoked));

    assert_eq!(replay.line("/curator/multi/a").await.places.len(), 1);
    let multi = replay.line("/curator/multi/b").await;
    assert_eq!(shown(&multi), expected[..2]);

    let read_write = replay.line("/curator/read-write").await;
    let expected = [
        ("host-1", Role::Reader, None),
        ("host-2", Role::Reader, None),
        ("host-3", Role::Writer, Some("host-2")),
        ("host-1", Role::Reader, Some("host-3")),
    ];
    assert_eq!(shown(&read_write), expected);
    let downgrade = replay.line("/curator/downgrade").await;
    let expected =
        [("host-1", Role::Writer, None), ("host-1", Role::Reader, None), ("host-2", Role::Reader, Some("host-1"))];
    assert_eq!(shown(&downgrade), expected, "the writer has become a reader");
}

#[tokio::test(start_paused = true)]
async fn three_sessions_of_curator_wait_for_each_other() {
    let replay = Replay::of(CURATOR).await;
    let found = inspect::deadlocks(&replay.operator, "/curator/circle").await.expect("it has looked").found;
    let [circle] = &found[..] else { panic!("one circle: {found:?}") };
    let directories: BTreeSet<_> = circle.nodes().map(|node| node.rsplit_once('/').expect("a path").0).collect();
    assert_eq!(Vec::from_iter(directories), ["/curator/circle/a", "/curator/circle/b", "/curator/circle/c"]);
}

#[tokio::test(start_paused = true)]
async fn the_semaphores_of_curator() {
    let replay = Replay::of(CURATOR).await;
    let semaphore = replay.semaphore("/curator/semaphore").await;
    assert_eq!(all(&semaphore.leases), ["host-1", "host-1", "host-2", "host-2"], "the last one is asked for");
    assert_eq!(semaphore.line.places.len(), 2);
    let sessions: Vec<_> = semaphore.line.places.iter().map(Place::session_id).collect();
    assert_eq!(sessions[0], semaphore.leases[3].session_id(), "it asks");
    assert!(semaphore.leases.iter().all(|lease| lease.session_id() != sessions[1]), "it waits");

    let mutex = replay.semaphore("/curator/semaphore-mutex").await;
    assert_eq!((mutex.leases.len(), mutex.line.places.len()), (2, 1));
    let idle = replay.semaphore("/curator/semaphore-idle").await;
    assert_eq!((idle.leases.len(), idle.line.places.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_elections_of_curator() {
    let replay = Replay::of(CURATOR).await;
    for (path, role) in [("/curator/latch", Role::Candidate), ("/curator/selector", Role::Lock)] {
        let election = replay.line(path).await;
        assert_eq!(shown(&election), [("id-1", role, None), ("id-2", role, Some("id-1"))]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_double_barriers_of_curator() {
    let replay = Replay::of(CURATOR).await;
    let waiting = replay.double_barrier("/curator/double-barrier").await;
    assert_eq!((all(&waiting.members), waiting.is_ready()), (vec!["host-1"], false));
    let open = replay.double_barrier("/curator/double-barrier-open").await;
    assert_eq!((all(&open.members), open.is_ready()), (vec!["host-1", "host-2"], true));
}

#[tokio::test(start_paused = true)]
async fn the_queues_of_curator() {
    let replay = Replay::of(CURATOR).await;
    let orders = replay.queue("/curator/orders").await;
    assert_eq!((orders.depth, orders.claims.len()), (3, 0));
    // By its name alone it could be anything.
    let locks = replay.queue("/curator/orders-locks").await;
    assert_eq!((locks.depth, locks.claims.len()), (1, 0), "the lock of an item looks like an item");
    // This one has the name that this library would give it.
    let parcels = replay.queue("/curator/parcels").await;
    assert_eq!((parcels.depth, names(&parcels.claims)), (3, vec!["queue-0000000000"]));
    assert_eq!(all(&parcels.claims), ["host-2"]);
    let oldest = orders.oldest.expect("it has items");
    assert_eq!((oldest.name(), oldest.ready_since()), ("queue-0000000000", oldest.stat.map(|stat| stat.created())));
    for (path, depth) in [("/curator/by-priority", 2), ("/curator/delayed", 1), ("/curator/by-id", 1)] {
        assert_eq!(replay.queue(path).await.depth, depth);
    }
    let by_priority = replay.queue("/curator/by-priority").await.oldest.expect("it has items");
    let delayed = replay.queue("/curator/delayed").await.oldest.expect("it has an item");
    assert_eq!(by_priority.name(), "queue-1000000FF0000000000", "whatever its priority");
    let tomorrow = SystemTime::UNIX_EPOCH + Duration::from_millis(0x1a2_2e31_13c9);
    assert_eq!((delayed.name(), delayed.ready_since()), ("queue-|1A22E3113C9|0000000000", Some(tomorrow)));
}

#[tokio::test(start_paused = true)]
async fn the_groups_and_values_of_curator() {
    let replay = Replay::of(CURATOR).await;
    let group = replay.group("/curator/group").await;
    assert_eq!(names(&group.members), ["api-1", "api-2"]);
    assert_eq!(all(&group.members), ["port 8081", "port 8082"]);
    let nodes = replay.group("/curator/nodes").await;
    let [protected, plain] = &names(&nodes.members)[..] else { panic!("two nodes: {nodes:?}") };
    assert!(protected.starts_with("_c_") && protected.ends_with("-protected"), "{protected}");
    assert_eq!((*plain, all(&nodes.members)), ("plain", vec!["mine", "mine"]));
    assert!(replay.is_plain("/curator/count", 4).await);
    assert!(replay.is_plain("/curator/number", 8).await);
    assert!(replay.is_plain("/curator/barrier", 6).await);
}

#[tokio::test(start_paused = true)]
async fn the_services_of_curator() {
    let replay = Replay::of(CURATOR).await;
    let api = replay.service("/curator/services/api").await;
    let mut instances: Vec<_> =
        api.instances.iter().map(|instance| (&instance.id[..], instance.service_type)).collect();
    instances.sort_unstable_by_key(|(id, _)| *id);
    let types = [ServiceType::Dynamic, ServiceType::Static, ServiceType::DynamicSequential];
    assert_eq!(instances, ["a", "b", "c"].into_iter().zip(types).collect::<Vec<_>>());
    let sequential = api.instances.iter().find(|instance| instance.id == "c").expect("it is there");
    assert!(sequential.entry.name().starts_with('c') && sequential.entry.name().len() == 11, "{sequential}");
    let printers = replay.service("/curator/services/printers").await;
    let ids: Vec<_> = printers.instances.iter().map(|instance| instance.id.as_str()).collect();
    assert_eq!(ids, ["first", "second"]);
    for instance in printers.instances.iter().chain(&api.instances) {
        assert_eq!((instance.endpoint().as_str(), instance.enabled), ("10.0.0.1:80", true));
        let is_static = matches!(instance.service_type, ServiceType::Static | ServiceType::Permanent);
        assert_eq!(instance.entry.is_orphan(), is_static, "{instance}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_locks_of_kazoo() {
    let replay = Replay::of(KAZOO).await;
    for path in ["/kazoo/lock", "/kazoo/election"] {
        let line = replay.line(path).await;
        let expected = [("host-1", Role::KazooLock, None), ("host-2", Role::KazooLock, Some("host-1"))];
        assert_eq!(shown(&line), expected, "{path}");
    }
    let read_write = replay.line("/kazoo/read-write").await;
    let expected = [
        ("host-1", Role::Reader, None),
        ("host-2", Role::KazooLock, Some("host-1")),
        ("host-3", Role::Reader, Some("host-2")),
    ];
    assert_eq!(shown(&read_write), expected);
}

#[tokio::test(start_paused = true)]
async fn the_semaphores_of_kazoo() {
    let replay = Replay::of(KAZOO).await;
    let semaphore = replay.semaphore("/kazoo/semaphore").await;
    assert_eq!(all(&semaphore.leases), ["host-1", "host-2"]);
    let waiting: Vec<_> = semaphore.line.places.iter().map(data).collect();
    // It writes the representation of bytes.
    assert_eq!(waiting, ["b'host-3'", "b'host-4'"]);
    assert!(replay.is_plain("/kazoo/semaphore-idle", 1).await, "its two directories could be of anything");
    assert!(replay.is_plain("/kazoo/semaphore-idle-__lock__", 0).await);
}

#[tokio::test(start_paused = true)]
async fn the_double_barriers_of_kazoo() {
    let replay = Replay::of(KAZOO).await;
    assert!(replay.is_plain("/kazoo/barrier", 0).await);
    let waiting = replay.double_barrier("/kazoo/double-barrier").await;
    assert_eq!((all(&waiting.members), waiting.is_ready()), (vec!["host-1"], false));
    let open = replay.double_barrier("/kazoo/double-barrier-open").await;
    assert_eq!((all(&open.members), open.is_ready()), (vec!["host-1", "host-2"], true));
}

#[tokio::test(start_paused = true)]
async fn the_queues_groups_and_values_of_kazoo() {
    let replay = Replay::of(KAZOO).await;
    let queue = replay.queue("/kazoo/queue").await;
    assert_eq!((queue.depth, queue.claims.len()), (2, 0));
    let locking = replay.queue("/kazoo/locking-queue").await;
    assert_eq!((locking.depth, names(&locking.claims)), (3, vec!["entry-100-0000000000"]));

    let party = replay.group("/kazoo/party").await;
    let mut members = all(&party.members);
    members.sort_unstable();
    assert_eq!(members, ["host-1", "host-2"]);
    let shallow = replay.group("/kazoo/shallow-party").await;
    let mut ids: Vec<_> = shallow.members.iter().map(|member| &member.name()[32..]).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["-host-1", "-host-2"], "after the uuid");
    assert!(replay.is_plain("/kazoo/counter", 1).await);
}

/// The real servers' `cversion` tells the numbers that the names have.
#[tokio::test(start_paused = true)]
async fn the_numbers_that_are_left() {
    for (recorded, directories) in
        [(CURATOR, ["/curator/mutex", "/curator/latch"]), (KAZOO, ["/kazoo/lock", "/kazoo/election"])]
    {
        let replay = Replay::of(recorded).await;
        for directory in directories {
            let node = recorded.lines().map(|line| serde_json::from_str::<Value>(line).expect("a node"));
            let node = node.into_iter().find(|node| node["path"] == directory).expect("it is recorded");
            let cversion = node["cversion"].as_i64().expect("a number");
            let children = replay.server.children(directory).len() as i64;
            let created = i32::try_from((cversion + children) / 2).expect("few");
            replay.server.set_sequence(directory, created).expect("set");
            let line = replay.line(directory).await;
            let last = line.places.last().and_then(|place| place.number).expect("a number");
            assert_eq!(line.sequence_numbers_left, i32::MAX as u32 - (last + 1), "{directory}");
        }
    }
}
