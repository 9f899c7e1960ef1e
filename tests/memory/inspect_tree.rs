//! The tree as an operator sees it: each recipe by the nodes that it creates itself.

mod partitions;
mod requests;

use std::collections::BTreeSet;
use std::time::Duration;

#[cfg(feature = "atomic-long")]
use zookeeper_recipes::atomic_long::DistributedAtomicLong;
use zookeeper_recipes::double_barrier::DoubleBarrier;
use zookeeper_recipes::group_member::GroupMember;
use zookeeper_recipes::inspect::{self, Entry, Node, Queue, Recipe, Service, Tree};
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::queue::{DistributedQueue, Utf8};
use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;
use zookeeper_recipes::semaphore::InterProcessSemaphore;
use zookeeper_recipes::service_discovery::{Registration, ServiceDiscovery, ServiceInstance, ServiceType};
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::throughput_balancer::{ThroughputBalancer, set_max_throughput};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use crate::fixture::{SOON, requests, within};
use crate::inspect::{ONE_WAY, quiet, served};

async fn tree(client: &Client, path: &str) -> Tree {
    let tree = within("it has looked", SOON * 5, inspect::tree(client, path)).await.expect("the tree");
    assert_eq!(tree.denied, [""; 0]);
    tree
}

fn paths(tree: &Tree) -> Vec<&str> {
    tree.nodes.iter().map(|node| node.path.as_str()).collect()
}

/// The only recipe at a path.
fn at<'a>(tree: &'a Tree, path: &str) -> &'a Recipe {
    let node = tree.nodes.iter().find(|node| node.path == path);
    let recipes = node.map(|node| &node.recipes[..]).unwrap_or_default();
    let [recipe] = recipes else { panic!("one recipe at {path}: {tree}") };
    recipe
}

fn queue_at<'a>(tree: &'a Tree, path: &str) -> &'a Queue {
    let Recipe::Queue(queue) = at(tree, path) else { panic!("a queue: {tree}") };
    queue
}

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(Entry::name).collect()
}

fn sessions(entries: &[Entry]) -> Vec<Option<i64>> {
    entries.iter().map(Entry::session_id).collect()
}

async fn two_clients(server: &TestingServer) -> [Client; 2] {
    [server.client().await.expect("a client"), server.client().await.expect("a client")]
}

/// How many requests of each kind a look sends, once nothing else is under way.
async fn cost(server: &TestingServer, client: &Client, path: &str) -> (Tree, [usize; 3]) {
    quiet().await;
    let watches = server.watches();
    server.clear_records();
    let tree = tree(client, path).await;
    let sent = requests(server);
    assert_eq!(server.watches(), watches, "none of its own");
    let count = |what| sent.iter().filter(|&&sent| sent == what).count();
    let counts = [Operation::List, Operation::GetData].map(count);
    (tree, [counts[0], counts[1], sent.len() - counts[0] - counts[1]])
}

#[tokio::test(start_paused = true)]
async fn elections_and_locks_are_lines_and_what_they_cost() {
    let server = TestingServer::start();
    let [one, two] = two_clients(&server).await;
    let ids = [&one, &two].map(Client::session_id);
    let lock = InterProcessMutex::builder(&one, "/app/lock").data("host-1").build().expect("a good path");
    let held = lock.acquire().await.expect("held");
    let other = InterProcessMutex::new(&two, "/app/lock").expect("a good path");
    let waiting = tokio::spawn(async move { drop(other.acquire().await) });
    within("it waits", SOON, server.until(|| server.children("/app/lock").len() == 2)).await;
    let rw = InterProcessReadWriteLock::new(&one, "/app/rw").expect("a good path");
    let reading = rw.read().acquire().await.expect("it reads");
    let latch = LeaderLatch::builder(&one, "/app/leader").id("me").start().expect("a latch");
    latch.wait_for_leadership().await.expect("it leads");
    server.create_by_hand("/app/config", "12 bytes....", CreateMode::Persistent).expect("a node");
    server.create_by_hand("/app/lock/lock-1", "", CreateMode::Persistent).expect("a node");
    server.create_by_hand("/app/lock/lock-1/below", "", CreateMode::Persistent).expect("a node");

    let (tree, cost) = cost(&server, &two, "/app").await;
    // The path, its four directories and nodes, the directory that is called as a contender, and the node in that; the
    // four contenders, and that directory first.
    assert_eq!(cost, [7, 5, 0]);
    let expected =
        ["/app", "/app/config", "/app/leader", "/app/lock", "/app/lock/lock-1", "/app/lock/lock-1/below", "/app/rw"];
    assert_eq!(paths(&tree), expected);
    assert_eq!(tree.nodes.iter().map(|node| node.depth).collect::<Vec<_>>(), [0, 1, 1, 1, 2, 3, 1]);
    for path in ["/app/lock", "/app/leader", "/app/rw"] {
        let Recipe::Line(line) = at(&tree, path) else { panic!("a line: {tree}") };
        assert_eq!(*line, inspect::line(&two, path).await.expect("the line"), "as the line alone");
        assert!(line.places.iter().all(|place| ids.contains(&place.session_id())));
    }
    let [app, config, ..] = &tree.nodes[..] else { panic!("two nodes: {tree}") };
    let stat = config.stat.expect("it was read");
    assert_eq!((stat.data_length, stat.num_children, stat.session_id), (12, 0, None));
    assert_eq!(app.stat.map(|stat| stat.num_children), Some(4));
    let text = tree.to_string();
    assert!(
        text.starts_with("/app: 0 bytes, 4 children\n  config: 12 bytes, 0 children\n  leader: line, 1 hold"),
        "{text}"
    );
    assert!(text.contains("\n  lock: line, 1 hold, 1 wait, "), "{text}");
    assert!(
        text.ends_with(&format!("session {:#x}, token {}", ids[0].expect("a session"), reading.fencing_token())),
        "{text}"
    );
    waiting.abort();
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_with_its_leases_its_line_and_an_orphan() {
    let server = TestingServer::start();
    let [one, two] = two_clients(&server).await;
    let semaphore = |client| InterProcessSemaphore::builder(client, "/permits").permits(2).data("host").build();
    let held = semaphore(&one).expect("a good path").acquire(1).await.expect("a permit");
    // As one that was made by hand, or by a program that does not keep to the recipe.
    server.create_by_hand("/permits/leases/x-lease-", "", CreateMode::PersistentSequential).expect("a node");
    let other = semaphore(&two).expect("a good path");
    let waiting = tokio::spawn(async move { drop(other.acquire(1).await) });
    within("it waits", SOON, server.until(|| server.children("/permits/locks").len() == 1)).await;
    let tree = tree(&one, "/permits").await;
    assert_eq!(paths(&tree), ["/permits"], "its directories are parts of it");
    let Recipe::Semaphore(semaphore) = at(&tree, "/permits") else { panic!("a semaphore: {tree}") };
    let ids = [&one, &two].map(Client::session_id);
    assert_eq!(sessions(&semaphore.leases)[..2], [ids[0], None]);
    assert_eq!(semaphore.orphans().map(Entry::name).collect::<Vec<_>>(), ["x-lease-0000000001"]);
    assert_eq!(semaphore.leases[0].owner.as_ref().map(|owner| &owner.data[..]), Some(&b"host"[..]));
    let waits: Vec<_> = semaphore.line.places.iter().map(|place| place.session_id()).collect();
    assert_eq!(waits, [ids[1]]);
    waiting.abort();
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_double_barrier_before_and_after_all_have_entered() {
    let server = TestingServer::start();
    let [one, two] = two_clients(&server).await;
    let ids = [&one, &two].map(Client::session_id);
    let all = [&one, &two].map(|client| DoubleBarrier::new(client, "/barrier", 2).expect("good options"));
    let [first, second] = all;
    let entering = tokio::spawn(async move { first.enter().await.map(|()| first) });
    within("it is there", SOON, server.until(|| server.children("/barrier").len() == 1)).await;
    let Recipe::DoubleBarrier(barrier) = at(&tree(&two, "/barrier").await, "/barrier").clone() else {
        panic!("no barrier")
    };
    assert_eq!((barrier.is_ready(), sessions(&barrier.members)), (false, vec![ids[0]]));
    within("both enter", SOON, second.enter()).await.expect("in");
    let first = within("both enter", SOON, entering).await.expect("no panic").expect("in");
    let (tree, cost) = cost(&server, &two, "/barrier").await;
    assert_eq!(cost, [2, 2, 0], "the barrier and `ready`; its members");
    let Recipe::DoubleBarrier(barrier) = at(&tree, "/barrier") else { panic!("a barrier: {tree}") };
    assert_eq!((barrier.is_ready(), sessions(&barrier.members)), (true, ids.to_vec()));
    let (one, two) = within("both leave", SOON, async { tokio::join!(first.leave(), second.leave()) }).await;
    one.and(two).expect("out");
}

#[tokio::test(start_paused = true)]
async fn a_queue_costs_the_same_whatever_its_depth() {
    let server = TestingServer::start();
    let [one, two] = two_clients(&server).await;
    let queue = DistributedQueue::builder(&one, "/app/orders", Utf8).prefetch(0).build().expect("a queue");
    let producer = queue.producer();
    for item in 0..100 {
        producer.put(format!("order {item}")).await.expect("put");
    }
    let consumer = queue.consumer();
    for _ in 0..2 {
        let delivery = within("an item", SOON, consumer.take()).await.expect("an item");
        delivery.reject("no such customer").await.expect("rejected");
    }
    let delivery = within("an item", SOON, consumer.take()).await.expect("an item");
    let (found, cost) = cost(&server, &two, "/app").await;
    let beside = |suffix: &str| server.children(&format!("/app/orders{suffix}"));
    let reads = beside("-claims").len() + 1;
    assert_eq!(cost, [5, reads, 1], "the path, the queue's four directories, claims, a producer, the oldest item");
    assert_eq!(paths(&found), ["/app", "/app/orders"]);
    let queue = queue_at(&found, "/app/orders");
    assert_eq!(queue.depth, 98);
    let oldest = queue.oldest.as_ref().expect("there are items");
    assert_eq!((oldest.name(), delivery.name()), ("queue-0000000002", "queue-0000000002"));
    assert!(oldest.stat.is_some_and(|stat| oldest.ready_since() == Some(stat.created()) && stat.session_id.is_none()));
    assert!(names(&queue.claims).contains(&delivery.name()), "{found}");
    assert_eq!(names(&queue.claims), beside("-claims"));
    assert!(sessions(&queue.claims).iter().all(|&session| session == one.session_id()));
    assert_eq!(names(&queue.producers), beside("-producers"));
    assert_eq!(sessions(&queue.producers), [one.session_id()]);
    assert_eq!(queue.dead_letters, beside("-dead"));
    assert_eq!(queue.dead_letters.len(), 2);

    // Also if it is all that was asked for.
    let alone = tree(&two, "/app/orders").await;
    assert_eq!(paths(&alone), ["/app/orders"]);
    assert_eq!(queue_at(&alone, "/app/orders"), queue);
    // The servers delete an empty directory that Curator has created.
    delivery.ack().await.expect("acked");
    while !server.children("/app/orders").is_empty() {
        within("an item", SOON, consumer.take()).await.expect("an item").ack().await.expect("acked");
    }
    quiet().await;
    server.delete_by_hand("/app/orders").expect("it is empty");
    let found = tree(&two, "/app").await;
    assert_eq!(paths(&found), ["/app", "/app/orders"]);
    assert_eq!(found.nodes[1].stat, None, "it does not exist");
    let queue = queue_at(&found, "/app/orders");
    assert_eq!((queue.depth, queue.claims.len(), queue.dead_letters.len()), (0, 0, 2));
    assert_eq!(queue.oldest, None);
}

#[tokio::test(start_paused = true)]
async fn a_balancer_with_its_shares_and_its_leader() {
    let server = TestingServer::start();
    let clients = two_clients(&server).await;
    set_max_throughput(&clients[0], "/app/throughput", 1000).await.expect("set");
    let maximum_alone = tree(&clients[0], "/app").await;
    let Recipe::ThroughputBalancer(balancer) = at(&maximum_alone, "/app/throughput") else { panic!("none") };
    assert_eq!((balancer.maximum, balancer.members.len()), (Some(1000), 0));
    let mut members = Vec::new();
    for client in &clients {
        members.push(ThroughputBalancer::builder(client, "/app/throughput").join().await.expect("it joins"));
    }
    let is_divided = || members.iter().map(ThroughputBalancer::throughput).sum::<u64>() == 1000;
    within("all is divided", SOON * 30, server.until(is_divided)).await;
    let (tree, cost) = cost(&server, &clients[0], "/app").await;
    // The path, the base, its five children; the maximum, two members and two candidates.
    assert_eq!(cost, [7, 5, 0]);
    assert_eq!(paths(&tree), ["/app", "/app/throughput"], "{tree}");
    let Recipe::ThroughputBalancer(balancer) = at(&tree, "/app/throughput") else { panic!("a balancer: {tree}") };
    let shares: Vec<_> = balancer.members.iter().map(|member| member.throughput).collect();
    assert_eq!((balancer.maximum, shares), (Some(1000), vec![Some(500); 2]));
    let owners: Vec<_> = balancer.members.iter().map(|member| member.entry.session_id()).collect();
    assert_eq!(owners, clients.each_ref().map(Client::session_id));
    let leaders: Vec<_> = balancer.leader.holders().filter_map(|place| place.owner.as_ref()).collect();
    let ids: Vec<_> = balancer.members.iter().map(|member| member.id.as_deref().expect("a record")).collect();
    assert_eq!(leaders.iter().map(|owner| &owner.data[..]).collect::<Vec<_>>(), [ids[0].as_bytes()]);
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test(start_paused = true)]
async fn a_group_with_its_data() {
    let server = TestingServer::start();
    let clients = two_clients(&server).await;
    let mut joined = Vec::new();
    for (client, id) in clients.iter().zip(["api-1", "api-2"]) {
        joined.push(GroupMember::join(client, "/services/api", id, "10.0.0.1:80").await.expect("it joins"));
    }
    let (tree, cost) = cost(&server, &clients[0], "/services").await;
    assert_eq!(cost, [4, 2, 0], "two directories, and each member twice");
    let Recipe::Group(group) = at(&tree, "/services/api") else { panic!("a group: {tree}") };
    assert_eq!(names(&group.members), ["api-1", "api-2"]);
    assert_eq!(sessions(&group.members), clients.each_ref().map(Client::session_id));
    let json = serde_json::to_value(&tree).expect("it can be serialized");
    let member = &json["nodes"][1]["recipes"][0]["Group"]["members"][0];
    assert_eq!(member["owner"]["data"], "10.0.0.1:80");
    let id = clients[0].session_id().expect("a session");
    assert_eq!(member["owner"]["session_id"], format!("{id:#x}"));
}

fn service_at<'a>(tree: &'a Tree, path: &str) -> &'a Service {
    let Recipe::Service(service) = at(tree, path) else { panic!("a service: {tree}") };
    service
}

/// Registers an instance of `/services/api`.
async fn registered(client: &Client, id: &str, service_type: ServiceType) -> Registration<()> {
    let discovery = ServiceDiscovery::new(client, "/services").expect("a good path");
    let instance = ServiceInstance::builder("api").id(id).address("10.0.0.1").port(80).service_type(service_type);
    discovery.register(instance.build().expect("an instance")).await.expect("registered")
}

#[tokio::test(start_paused = true)]
async fn a_service_with_an_instance_of_each_type_and_one_that_cannot_be_read() {
    let server = TestingServer::start();
    let [one, two] = two_clients(&server).await;
    let types = [ServiceType::Dynamic, ServiceType::Static, ServiceType::Permanent, ServiceType::DynamicSequential];
    let mut registrations = Vec::new();
    for (id, service_type) in ["a", "b", "c", "d"].into_iter().zip(types) {
        registrations.push(registered(&one, id, service_type).await);
    }
    registrations[0].set_enabled(false).await.expect("written");
    two.create("/services/api/e", "port 80", CreateMode::Ephemeral).await.expect("created");
    server.create_by_hand("/services/api/note", "short", CreateMode::Persistent).expect("a node");
    let long = "long enough to be an instance";
    server.create_by_hand("/services/api/notes", long, CreateMode::Persistent).expect("a node");

    let (tree, cost) = cost(&server, &two, "/services").await;
    // Two directories and seven nodes; the data of three ephemeral ones, and of three persistent ones with enough.
    assert_eq!(cost, [9, 6, 0]);
    assert_eq!(paths(&tree), ["/services", "/services/api", "/services/api/note", "/services/api/notes"]);
    let service = service_at(&tree, "/services/api");
    let nodes: BTreeSet<_> = service.instances.iter().map(|instance| instance.entry.path.clone()).collect();
    assert_eq!(nodes, registrations.iter().map(Registration::path).collect());
    for (id, service_type) in ["a", "b", "c", "d"].into_iter().zip(types) {
        let instance = service.instances.iter().find(|instance| instance.id == id).expect("it is there");
        assert_eq!((instance.service_type, instance.enabled, instance.ssl_port), (service_type, id != "a", None));
        assert_eq!(instance.endpoint(), "10.0.0.1:80");
        let is_static = matches!(service_type, ServiceType::Static | ServiceType::Permanent);
        assert_eq!(instance.entry.session_id(), one.session_id().filter(|_| !is_static), "{id}");
    }
    let [unreadable] = &service.unreadable[..] else { panic!("one: {tree}") };
    assert_eq!((unreadable.entry.name(), unreadable.entry.session_id()), ("e", two.session_id()));
    assert_eq!(unreadable.reason, "expected value at line 1 column 1");

    let json = serde_json::to_value(&tree).expect("it can be serialized");
    let instances = json["nodes"][1]["recipes"][0]["Service"]["instances"].as_array().expect("a list");
    let of_b = instances.iter().find(|instance| instance["id"] == "b").expect("it is there");
    assert_eq!((&of_b["service_type"], &of_b["port"], &of_b["enabled"]), (&"STATIC".into(), &80.into(), &true.into()));
    // The same if it is all that was asked for.
    assert_eq!(service_at(&self::tree(&two, "/services/api").await, "/services/api"), service);
}

#[tokio::test(start_paused = true)]
async fn a_service_whose_instances_are_all_static() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let all =
        [registered(&client, "a", ServiceType::Static).await, registered(&client, "b", ServiceType::Static).await];
    let (tree, cost) = cost(&server, &client, "/services").await;
    assert_eq!(cost, [4, 2, 0], "two directories and two nodes; the first node, and then the other");
    assert_eq!(paths(&tree), ["/services", "/services/api"]);
    assert_eq!(service_at(&tree, "/services/api").instances.len(), all.len());
}

#[tokio::test(start_paused = true)]
async fn of_plain_nodes_with_much_data_one_is_read() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    for path in ["/app", "/app/a", "/app/b", "/app/c"] {
        server.create_by_hand(path, "long enough to be an instance", CreateMode::Persistent).expect("a node");
    }
    let (tree, cost) = cost(&server, &client, "/app").await;
    assert_eq!(cost, [4, 1, 0]);
    assert_eq!(paths(&tree), ["/app", "/app/a", "/app/b", "/app/c"]);
    assert!(tree.nodes.iter().all(|node| node.recipes.is_empty() && node.stat.is_some()), "{tree}");
}

/// Its directory was not read, so nothing is known about what else is there.
#[tokio::test(start_paused = true)]
async fn a_tree_that_begins_at_a_node_of_a_recipe_is_that_node() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let _all =
        [registered(&client, "a", ServiceType::Dynamic).await, registered(&client, "b", ServiceType::Static).await];
    client.create("/services/lock-0000000001", "", CreateMode::Ephemeral).await.expect("created");
    for path in ["/services/api/a", "/services/api/b", "/services/lock-0000000001"] {
        let (tree, cost) = cost(&server, &client, path).await;
        assert_eq!(paths(&tree), [path]);
        assert!(tree.nodes[0].recipes.is_empty() && tree.nodes[0].stat.is_some(), "{tree}");
        assert_eq!(cost[1], usize::from(!path.ends_with("/b")), "the data of ephemeral ones");
    }
}

#[tokio::test(start_paused = true)]
async fn a_static_instance_that_may_not_be_read_or_is_gone_meanwhile() {
    let server = TestingServer::start();
    let [one, operator] = two_clients(&server).await;
    let _all = [registered(&one, "a", ServiceType::Dynamic).await, registered(&one, "b", ServiceType::Static).await];
    server.create_by_hand("/services/api/c", r#"{"name":"api","id":"c"}"#, CreateMode::Persistent).expect("a node");
    quiet().await;
    server.clear_records();
    server.delay(&operator, ONE_WAY);
    let looking = tokio::spawn(async move { inspect::tree(&operator, "/services").await });
    served(&server, Operation::List, 5).await;
    server.deny("/services/api/b");
    server.delete_by_hand("/services/api/c").expect("it is there");
    let found = within("it has looked", SOON * 5, looking).await.expect("no panic").expect("the tree");
    assert_eq!(found.denied, ["/services/api/b"]);
    assert_eq!(paths(&found), ["/services", "/services/api", "/services/api/b"]);
    assert_eq!(service_at(&found, "/services/api").instances.len(), 1);
}

#[cfg(feature = "atomic-long")]
#[tokio::test(start_paused = true)]
async fn a_number_and_its_handle_are_plain_nodes() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let number = DistributedAtomicLong::new(&client, "/numbers/orders").expect("a good path");
    number.increment().await.expect("added");
    assert_eq!(server.children("/numbers/orders").len(), 1, "the handle");
    let tree = tree(&client, "/numbers").await;
    assert_eq!(tree.nodes.len(), 3, "{tree}");
    assert!(tree.nodes.iter().all(|node| node.recipes.is_empty()), "{tree}");
}

#[tokio::test(start_paused = true)]
async fn an_oldest_item_that_may_not_be_read_or_is_gone_is_told_without_its_stat() {
    let latency = Duration::from_millis(10);
    let server = TestingServer::builder().latency(latency..=latency).start();
    let client = server.client().await.expect("a client");
    let item = "/app/orders/queue-0000000007";
    for path in ["/app", "/app/orders", item] {
        server.create_by_hand(path, "", CreateMode::Persistent).expect("a node");
    }
    server.deny(item);
    let oldest = |found: &Tree| queue_at(found, "/app/orders").oldest.clone().expect("there is one");
    let denied = oldest(&tree(&client, "/app").await);
    assert_eq!((denied.path.as_str(), denied.stat, denied.ready_since()), (item, None, None));
    server.allow(item);

    let look = tokio::spawn({
        let client = client.clone();
        async move { inspect::tree(&client, "/app").await }
    });
    server.clear_records();
    server.until(|| requests(&server).iter().filter(|&&sent| sent == Operation::List).count() == 2).await;
    tokio::time::sleep(latency * 3 / 2).await;
    // The list is under way back when the item goes.
    server.delete_by_hand(item).expect("it is there");
    let gone = oldest(&within("it has looked", SOON, look).await.expect("no panic").expect("the tree"));
    assert_eq!((gone.path.as_str(), gone.stat), (item, None));
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_told_and_the_rest_is_shown() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let lock = InterProcessMutex::new(&client, "/app/lock").expect("a good path");
    let held = lock.acquire().await.expect("held");
    server.create_by_hand("/app/secret", "", CreateMode::Persistent).expect("a node");
    server.create_by_hand("/app/secret/below", "", CreateMode::Persistent).expect("a node");
    server.deny("/app/secret");
    server.deny(held.node_path());
    let found = inspect::tree(&client, "/app").await.expect("the tree");
    assert_eq!(found.denied, [held.node_path(), "/app/secret"]);
    assert_eq!(paths(&found), ["/app", "/app/lock", "/app/secret"]);
    assert_eq!(found.nodes[2].stat, None);
    let Recipe::Line(line) = at(&found, "/app/lock") else { panic!("a line: {found}") };
    assert_eq!((line.places[0].path.as_str(), line.places[0].owner.as_ref()), (held.node_path(), None));
    let end = format!("\n  secret: not read\nnot readable: {}\nnot readable: /app/secret", held.node_path());
    assert!(found.to_string().ends_with(&end), "{found}");
    server.deny("/app");
    let found = inspect::tree(&client, "/app").await.expect("the tree");
    assert_eq!((paths(&found), &found.denied[..]), (vec!["/app"], &["/app".to_owned()][..]));
    for (path, kind) in
        [("/nothing", ErrorKind::NoNode), ("nothing", ErrorKind::InvalidPath), ("", ErrorKind::InvalidPath)]
    {
        let error = inspect::tree(&client, path).await.expect_err("no tree");
        assert_eq!(error.kind(), kind, "{path:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn from_the_root_of_a_namespace() {
    let server = TestingServer::start();
    let client = Client::builder_for_testing(&server).namespace("tenant").connect().await.expect("a client");
    let lock = InterProcessMutex::new(&client, "/app/lock").expect("a good path");
    let held = lock.acquire().await.expect("held");
    let found = tree(&client, "/").await;
    assert_eq!(paths(&found), ["/", "/app", "/app/lock"]);
    assert_eq!(found.nodes.iter().map(|node| node.depth).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(found.nodes.last().map(Node::name), Some("lock"));
    drop(held);
}

/// The list shows a writer, and its read finds none. Another directory disappears meanwhile.
#[tokio::test(start_paused = true)]
async fn what_changes_meanwhile_is_read_again_or_passed_over() {
    let server = TestingServer::start();
    let [one, operator] = two_clients(&server).await;
    let lock = InterProcessReadWriteLock::new(&one, "/app/rw").expect("a good path");
    let writes = lock.write().acquire().await.expect("it writes");
    server.create_by_hand("/app/short", "", CreateMode::Persistent).expect("a node");
    server.create_by_hand("/app/short/below", "", CreateMode::Persistent).expect("a node");
    quiet().await;
    server.clear_records();
    server.delay(&operator, ONE_WAY);
    let looking = tokio::spawn(async move { inspect::tree(&operator, "/app").await });
    served(&server, Operation::List, 3).await;
    let reads = writes.downgrade().await.expect("it reads now");
    server.delete_by_hand("/app/short/below").expect("it is there");
    let found = within("it has looked", SOON * 5, looking).await.expect("no panic").expect("the tree");
    assert_eq!(paths(&found), ["/app", "/app/rw", "/app/short"]);
    let Recipe::Line(line) = at(&found, "/app/rw") else { panic!("a line: {found}") };
    assert_eq!(line.holders().map(|place| place.path.as_str()).collect::<Vec<_>>(), [reads.node_path()]);
}
