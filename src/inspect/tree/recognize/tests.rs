mod partitions;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::inspect::Line;
use crate::layout::queue;
use crate::util::path::split;

const ONE: &str = "8d2b5a0e-6a86-4c3c-8a27-3f1f5f4c9a01";
const TWO: &str = "8d2b5a0e-6a86-4c3c-8a27-3f1f5f4c9a02";
const HEX: &str = "8d2b5a0e6a864c3c8a273f1f5f4c9a03";

/// Nodes, and how they are shown.
type Case<'a> = (&'a [(&'a str, i64)], &'a [&'a str]);
/// Nodes with their data, and how they are shown.
type CaseOfData<'a> = (Vec<(String, Content)>, &'a [&'a str]);

fn read(session: i64, czxid: i64, data: &str) -> Content {
    let stat = Stat { ephemeral_owner: session, czxid, ctime: czxid * 1000, ..Stat::default() };
    Content::Read { stat, data: data.as_bytes().to_vec() }
}

/// Returns the recognized nodes of a tree. `nodes` are below `/`, in the order of their creation, each with its
/// session; a negative session marks a node that was not read.
fn tree(nodes: &[(&str, i64)]) -> Vec<Node> {
    let content = |session, czxid| if session < 0 { Content::Unread } else { read(session, czxid, "") };
    let mut contents: HashMap<_, _> =
        nodes.iter().zip(1..).map(|(&(path, session), czxid)| (path.to_owned(), content(session, czxid))).collect();
    for (path, _) in nodes {
        for ancestor in crate::util::path::ancestors(path) {
            contents.entry(ancestor.to_owned()).or_insert_with(|| read(0, 0, ""));
        }
    }
    contents.insert("/".to_owned(), read(0, 0, ""));
    nodes_of(contents)
}

fn nodes_of(contents: HashMap<String, Content>) -> Vec<Node> {
    nodes("/", contents)
}

fn shown(nodes: &[Node]) -> Vec<String> {
    let what = |recipe: &Recipe| match recipe {
        Recipe::Line(line) => format!("line {}", line.places.len()),
        Recipe::Semaphore(semaphore) => format!("semaphore {} {}", semaphore.leases.len(), semaphore.line.places.len()),
        Recipe::DoubleBarrier(barrier) => format!("barrier {} {}", barrier.members.len(), barrier.is_ready()),
        Recipe::Queue(queue) => {
            let (claims, producers) = (queue.claims.len(), queue.producers.len());
            format!("queue {} {claims} {producers} {}", queue.depth, queue.dead_letters.len())
        }
        Recipe::ThroughputBalancer(balancer) => {
            format!("balancer {} {}", balancer.members.len(), balancer.leader.places.len())
        }
        Recipe::PartitionAssigner(assigner) => {
            let (members, partitions) = (assigner.members.len(), assigner.partitions);
            format!("assigner {members} {partitions} {} {}", assigner.owned, assigner.leader.places.len())
        }
        Recipe::KazooSetPartitioner(partitioner) => {
            format!("partitioner {} {} {}", partitioner.members.len(), partitioner.partitions, partitioner.held)
        }
        Recipe::Service(service) => format!("service {} {}", service.instances.len(), service.unreadable.len()),
        Recipe::Group(group) => format!("group {}", group.members.len()),
    };
    let one = |node: &Node| {
        let recipes: Vec<_> = node.recipes.iter().map(what).collect();
        format!("{} {}", node.path, recipes.join(", ")).trim_end().to_owned()
    };
    nodes.iter().map(one).collect()
}

#[test]
fn each_recipe_by_its_nodes() {
    let barrier = [format!("/b/{ONE}"), format!("/b/{TWO}")];
    let producer = format!("/q-producers/{ONE}");
    let found = tree(&[
        ("/lock/_c_x-lock-0000000000", 1),
        ("/lock/_c_x-lock-0000000001", 0),
        ("/s/leases/_c_x-lease-0000000000", 1),
        ("/s/leases/_c_x-lease-0000000001", 0),
        ("/s/locks/_c_x-lock-0000000000", 2),
        (&barrier[0], 1),
        (&barrier[1], 2),
        ("/b/ready", 0),
        ("/q/queue-0000000000", -1),
        ("/q/queue-0000000001", -1),
        ("/q-claims/queue-0000000000", 4),
        (&producer, 5),
        ("/q-dead/letter-queue-0000000007-0000000001", -1),
        ("/q-dead/letter-queue-0000000009-0000000000", -1),
        ("/t/client/client-0000000000", 6),
        ("/t/ack/client-0000000000~0.0", -1),
        ("/t/epoch", 0),
        ("/t/leader/_c_x-latch-0000000000", 6),
        ("/t/global-config/max-throughput", 0),
        ("/g/m1", 1),
        ("/g/m2", 2),
        ("/plain/note", 0),
    ]);
    let expected = [
        "/",
        "/b barrier 2 true",
        "/g group 2",
        "/lock line 2",
        "/plain",
        "/plain/note",
        "/q queue 2 1 1 2",
        "/s semaphore 2 1",
        "/t balancer 1 1",
    ];
    assert_eq!(shown(&found), expected);
    assert_eq!(found.iter().map(|node| node.depth).collect::<Vec<_>>(), [0, 1, 1, 1, 1, 2, 1, 1, 1]);
    for recipe in found.iter().flat_map(|node| &node.recipes) {
        match recipe {
            Recipe::Semaphore(semaphore) => {
                let orphans: Vec<_> = semaphore.orphans().map(Entry::name).collect();
                assert_eq!(orphans, ["_c_x-lease-0000000001"]);
            }
            Recipe::Queue(queue) => {
                let letters = ["letter-queue-0000000009-0000000000", "letter-queue-0000000007-0000000001"];
                assert_eq!(queue.dead_letters, letters, "in the order in which they were written");
                assert_eq!(queue.claims[0].session_id(), Some(4));
            }
            _ => {}
        }
    }
}

#[test]
fn what_looks_like_a_recipe_in_part() {
    let (uuid, other) = (format!("/g/{ONE}"), format!("/r/{ONE}"));
    let cases: [Case<'_>; 12] = [
        (&[("/q-dead/letter-queue-0000000007-0000000001", -1)], &["/", "/q queue 0 0 0 1"]),
        (
            &[("/q-dead/letter-queue-0000000007-0000000001", -1), ("/q-dead/x", 0)],
            &["/", "/q queue 0 0 0 1", "/q-dead", "/q-dead/x"],
        ),
        (&[("/q", 1), ("/q-claims/queue-0000000000", 2)], &["/", "/q queue 0 1 0 0"]),
        (&[("/q-claims/queue-0000000000", -1)], &["/", "/q-claims queue 1 0 0 0"]),
        (&[(&uuid, 1), ("/g/m1", 2)], &["/", "/g group 2"]),
        (&[(&uuid, 1)], &["/", "/g barrier 1 false"]),
        (&[("/r/ready", 0)], &["/", "/r barrier 0 true"]),
        (&[("/r/ready", 0), ("/r/x", 0)], &["/", "/r", "/r/ready", "/r/x"]),
        (&[("/r/ready", 0), (&other, 1), ("/r/host-1", 2)], &["/", "/r barrier 2 true"]),
        (
            &[("/l/lock-0000000000/x", 0), ("/l/lock-0000000001", 1), ("/l/m", 1)],
            &["/", "/l line 1, group 1", "/l/lock-0000000000", "/l/lock-0000000000/x"],
        ),
        (&[("/s/locks/lock-0000000000", 1)], &["/", "/s", "/s/locks line 1"]),
        (&[("/t/client/client-0000000000", 0)], &["/", "/t", "/t/client", "/t/client/client-0000000000"]),
    ];
    for (nodes, expected) in cases {
        assert_eq!(shown(&tree(nodes)), expected, "{nodes:?}");
    }
}

#[test]
fn the_recipes_of_kazoo() {
    let (lease, asked) = (format!("/s/{HEX}"), format!("/s-__lock__/{HEX}__lock__0000000000"));
    let (member, party) = (format!("/b/{HEX}"), format!("/p/{HEX}__party__"));
    let cases: [Case<'_>; 9] = [
        (&[(&lease, 1), (&asked, 2)], &["/", "/s semaphore 1 1"]),
        (&[("/s", 0), ("/s-__lock__", 0)], &["/", "/s", "/s-__lock__"]),
        (&[("/s/x", 0), (&asked, 2)], &["/", "/s", "/s/x", "/s-__lock__ line 1"]),
        (&[(&asked, 2)], &["/", "/s-__lock__ line 1"]),
        (&[(&member, 1)], &["/", "/b barrier 1 false"]),
        (&[(&member, 1), ("/b/ready", 0)], &["/", "/b barrier 1 true"]),
        (&[(&party, 1)], &["/", "/p group 1"]),
        (&[("/q/entry-100-0000000000", -1), ("/q/entry-007-0000000001", -1)], &["/", "/q queue 2 0 0 0"]),
        (&[("/q/entries/entry-100-0000000000", -1), ("/q/taken/entry-100-0000000000", 1)], &["/", "/q queue 1 1 0 0"]),
    ];
    for (nodes, expected) in cases {
        assert_eq!(shown(&tree(nodes)), expected, "{nodes:?}");
    }
}

#[test]
fn the_handles_of_a_number_are_plain_nodes() {
    let handle = format!("/n/{ONE}");
    let Content::Read { stat, data } = read(0, 1, "") else { unreachable!() };
    let number = Content::Read { stat: Stat { data_length: 8, ..stat }, data };
    let contents =
        HashMap::from([("/".to_owned(), read(0, 0, "")), ("/n".to_owned(), number), (handle.clone(), read(7, 2, "1"))]);
    assert_eq!(shown(&nodes_of(contents.clone())), ["/", "/n", &handle]);
    let with_lock = contents.into_iter().chain([("/n/lock-1".to_owned(), read(7, 3, ""))]);
    assert_eq!(shown(&nodes_of(with_lock.collect())), ["/", "/n line 1", &handle]);
}

#[test]
fn the_shares_of_a_balancer() {
    let contents = HashMap::from([
        ("/".to_owned(), read(0, 0, "")),
        ("/client".to_owned(), read(0, 1, "")),
        ("/client/client-0000000000".to_owned(), read(7, 2, r#"{"throughput":333,"id":"a"}"#)),
        ("/client/client-0000000001".to_owned(), read(8, 3, "nonsense")),
        ("/client/client-0000000002".to_owned(), Content::Denied),
        ("/global-config".to_owned(), read(0, 4, "")),
        ("/global-config/max-throughput".to_owned(), read(0, 5, " 1000\n")),
    ]);
    let found = nodes_of(contents);
    let [Node { recipes, .. }] = &found[..] else { panic!("one node: {found:?}") };
    let [Recipe::ThroughputBalancer(balancer)] = &recipes[..] else { panic!("a balancer: {recipes:?}") };
    assert_eq!(balancer.maximum, Some(1000));
    let shares: Vec<_> = balancer.members.iter().map(|member| (member.id.as_deref(), member.throughput)).collect();
    assert_eq!(shares, [(Some("a"), Some(333)), (None, None), (None, None)]);
    let text = "throughput balancer, maximum 1000, 3 members\n\
        \"a\" has 333, client-0000000000, session 0x7, token 2\n\
        no record, client-0000000001, session 0x8, token 3\n\
        no record, client-0000000002, not readable";
    assert_eq!(recipes[0].to_string(), text);
}

/// Returns an instance of the service `s` with this id.
fn instance_of_s(id: &str, session: i64, czxid: i64) -> (String, Content) {
    (format!("/s/{id}"), read(session, czxid, &format!(r#"{{"name":"s","id":"{id}"}}"#)))
}

#[test]
fn a_service_with_what_cannot_be_read() {
    let sequential = r#"{"name":"s","id":"seq","address":"::1","port":1,"serviceType":"DYNAMIC_SEQUENTIAL"}"#;
    let disabled =
        r#"{"name":"s","id":"b","address":"b.example","sslPort":443,"serviceType":"STATIC","enabled":false}"#;
    let mut contents = HashMap::from([
        ("/".to_owned(), read(0, 0, "")),
        ("/s".to_owned(), read(0, 0, "")),
        ("/s/b".to_owned(), read(0, 3, disabled)),
        ("/s/seq0000000004".to_owned(), read(9, 4, sequential)),
        ("/s/empty".to_owned(), read(9, 5, "")),
        ("/s/moved".to_owned(), read(9, 6, r#"{"name":"t","id":"moved"}"#)),
        ("/s/note".to_owned(), read(0, 7, "no instance")),
        ("/s/secret".to_owned(), Content::Denied),
    ]);
    contents.extend([instance_of_s("a", 8, 2), instance_of_s(ONE, 8, 1)]);
    let found = nodes_of(contents);
    assert_eq!(shown(&found), ["/", "/s service 4 2", "/s/note", "/s/secret"]);
    let text = format!(
        "service, 4 instances, 2 unreadable\n\
         instance {ONE}, session 0x8, token 1, \"\", DYNAMIC\n\
         instance a, session 0x8, token 2, \"\", DYNAMIC\n\
         instance b, no session, token 3, \"b.example\", TLS port 443, STATIC, disabled\n\
         instance seq0000000004, session 0x9, token 4, \"[::1]:1\", DYNAMIC_SEQUENTIAL\n\
         unreadable empty, session 0x9, token 5: EOF while parsing a value at line 1 column 0\n\
         unreadable moved, session 0x9, token 6: its service is \"t\", not that of its directory"
    );
    assert_eq!(found[1].recipes[0].to_string(), text);
}

/// What other recipes are recognized by comes first, and a directory without an instance is what it was.
#[test]
fn what_is_a_service_and_what_is_not() {
    let instance = |id| instance_of_s(id, 7, 1);
    let with_name = |path: &str| (path.to_owned(), read(7, 2, r#"{"name":"s","id":"a"}"#));
    let plain = |path: &str, session| (path.to_owned(), read(session, 3, "x"));
    let cases: [CaseOfData<'_>; 9] = [
        (vec![instance("a")], &["/", "/s service 1 0"]),
        (vec![instance(ONE), plain(&format!("/s/{TWO}"), 7)], &["/", "/s service 1 1"]),
        (vec![instance(HEX), plain("/s-__lock__", 0)], &["/", "/s semaphore 1 0"]),
        (vec![instance("a"), plain("/s/lock-0000000001", 7)], &["/", "/s line 1, service 1 0"]),
        (vec![instance("lock-0000000001"), plain("/s/b", 7)], &["/", "/s line 1, group 1"]),
        (vec![instance("a"), plain("/s/ready", 0)], &["/", "/s service 1 0", "/s/ready"]),
        (vec![instance("a"), plain("/s/a/below", 0)], &["/", "/s", "/s/a", "/s/a/below"]),
        (vec![with_name("/t/a")], &["/", "/t group 1"]),
        (vec![with_name("/s/b")], &["/", "/s group 1"]),
    ];
    for (nodes, expected) in cases {
        let mut contents = HashMap::from([("/".to_owned(), read(0, 0, ""))]);
        for (path, content) in nodes {
            contents.entry(split(&path).0.to_owned()).or_insert_with(|| read(0, 0, ""));
            contents.insert(path, content);
        }
        let shown = shown(&nodes_of(contents.clone()));
        assert_eq!(shown, expected, "{contents:?}");
    }
}

/// Returns the paths in the result, each as often as it occurs, and the number of items.
fn reported(nodes: &[Node], found: &HashMap<String, Content>) -> (Vec<String>, usize) {
    let (mut paths, mut items) = (Vec::new(), 0);
    let entries = |entries: &[Entry]| entries.iter().map(|entry| entry.path.clone()).collect::<Vec<_>>();
    let places = |line: &Line| line.places.iter().map(|place| place.path.clone()).collect::<Vec<_>>();
    for node in nodes {
        paths.extend(found.contains_key(&node.path).then(|| node.path.clone()));
        for recipe in &node.recipes {
            match recipe {
                Recipe::Line(line) => paths.extend(places(line)),
                Recipe::Semaphore(semaphore) => {
                    paths.extend(places(&semaphore.line).into_iter().chain(entries(&semaphore.leases)));
                }
                Recipe::DoubleBarrier(barrier) => {
                    paths.extend(barrier.ready.iter().map(|ready| ready.path.clone()));
                    paths.extend(entries(&barrier.members));
                }
                Recipe::Queue(queue) => {
                    paths.extend(entries(&queue.claims).into_iter().chain(entries(&queue.producers)));
                    paths.extend(queue.dead_letters.iter().map(|name| join(&format!("{}-dead", node.path), name)));
                    items += queue.depth;
                }
                Recipe::ThroughputBalancer(balancer) => {
                    paths.extend(places(&balancer.leader));
                    paths.extend(balancer.members.iter().map(|member| member.entry.path.clone()));
                }
                Recipe::PartitionAssigner(assigner) => {
                    paths.extend(places(&assigner.leader));
                    for member in &assigner.members {
                        paths.extend(entries(&member.nodes));
                        paths.extend(member.assignment.iter().map(|assignment| assignment.path.clone()));
                    }
                }
                Recipe::KazooSetPartitioner(partitioner) => paths.extend(entries(&partitioner.members)),
                Recipe::Service(service) => {
                    paths.extend(service.instances.iter().map(|instance| instance.entry.path.clone()));
                    paths.extend(service.unreadable.iter().map(|instance| instance.entry.path.clone()));
                }
                Recipe::Group(group) => paths.extend(entries(&group.members)),
            }
        }
    }
    (paths, items)
}

/// Returns whether the result does not show this node, because it is a part of a recipe.
fn is_part_of_a_recipe(path: &str, paths: &HashMap<String, Content>, reported: &BTreeSet<String>) -> bool {
    let name = split(path).1;
    let is_directory =
        [semaphore::LINE, semaphore::LEASES, LEADER, CONFIG, MEMBERS, ACKS, kazoo::ENTRIES, kazoo::TAKEN]
            .contains(&name)
            || DIRECTORIES_OF_ASSIGNER.contains(&name)
            || partition_assigner::KAZOO.contains(&name)
            || queue::queue_of(path).is_some()
            || kazoo::semaphore_of(path).is_some();
    let children: Vec<_> = paths.keys().filter(|other| *other != "/" && split(other).0 == path).collect();
    let is_in = |directory| split(split(path).0).1 == directory;
    let is_epoch = name == EPOCH && children.is_empty();
    (is_directory && children.iter().all(|child| !reported.contains(*child) || is_in_recipe(child)))
        || is_epoch
        || (name == MAXIMUM && is_in(CONFIG))
        || (throughput_balancer::is_ack(name) && is_in(ACKS))
        || (name == partition_assigner::CONFIG && children.is_empty())
        || (partition_assigner::read_owned(name).is_some() && is_in(partition_assigner::OWNED))
}

/// Returns whether a path in the result has the name of a node that a recipe takes.
fn is_in_recipe(path: &str) -> bool {
    let name = split(path).1;
    Role::of(name).is_some()
        || semaphore::is_lease(name)
        || queue::is_item_of_any_kind(name)
        || queue::is_letter(name)
        || is_uuid(name)
        || throughput_balancer::is_member(name)
        || kazoo::is_shallow_member(name)
        || partition_assigner::read_member(name).is_some()
        || [partition_assigner::ASSIGNMENTS, partition_assigner::OWNED].contains(&split(split(path).0).1)
}

fn element() -> impl Strategy<Value = String> {
    let names = [
        "a",
        "q",
        "q-claims",
        "q-producers",
        "q-dead",
        "q-__lock__",
        "entries",
        "taken",
        "locks",
        "leases",
        "leader",
        "client",
        "ack",
        "epoch",
        "global-config",
        "max-throughput",
        "members",
        "assignments",
        "owned",
        "config",
        "party",
        "m1~0123456789abcdef",
        "7~0123456789abcdef.1",
        "8d2b5a0e6a864c3c8a273f1f5f4c9a03-host-1",
        "8d2b5a0e6a864c3c8a273f1f5f4c9a03__lock__0000000007",
        "ready",
        "m1",
        "_c_x-lock-0000000000",
        "_c_x-lease-0000000001",
        "latch-0000000002",
        "queue-0000000003",
        "queue-|id|0000000004",
        "entry-100-0000000003",
        "letter-queue-0000000003-0000000005",
        "client-0000000006",
        "client-0000000006~1.2",
        ONE,
        TWO,
        HEX,
    ];
    prop_oneof![9 => prop::sample::select(names.to_vec()).prop_map(str::to_owned), 1 => "[a-zäß~|_-]{1,4}[0-9]{0,11}"]
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        3 => (1..4_i64, 1..9_i64).prop_map(|(session, czxid)| read(session, czxid, "1")),
        3 => (1..9_i64).prop_map(|czxid| read(0, czxid, r#"{"throughput":1,"id":"x"}"#)),
        2 => (1..9_i64).prop_map(|czxid| read(0, czxid, r#"{"member":"0123456789abcdef","assigned":["7"]}"#)),
        2 => (0..3_i64, 1..9_i64).prop_map(|(session, czxid)| read(session, czxid, r#"{"name":"a","id":"m1"}"#)),
        2 => Just(Content::Unread),
        1 => Just(Content::Denied),
    ]
}

proptest! {
    #[test]
    fn each_node_is_told_once(
        leaves in prop::collection::vec((prop::collection::vec(element(), 1..5), content()), 0..25)
    ) {
        let mut contents = HashMap::from([("/".to_owned(), read(0, 0, ""))]);
        for (elements, content) in leaves {
            let path = format!("/{}", elements.join("/"));
            for ancestor in crate::util::path::ancestors(&path) {
                contents.entry(ancestor.to_owned()).or_insert_with(|| read(0, 0, ""));
            }
            contents.insert(path, content);
        }
        let nodes = nodes_of(contents.clone());
        let (paths, items) = reported(&nodes, &contents);
        let once: BTreeSet<String> = paths.iter().cloned().collect();
        prop_assert_eq!(paths.len(), once.len(), "{:?}", paths);
        prop_assert!(once.iter().all(|path| contents.contains_key(path)));
        let missing: Vec<_> = contents.keys().filter(|path| !once.contains(*path)).collect();
        prop_assert_eq!(missing.iter().filter(|path| queue::is_item_of_any_kind(split(path).1)).count(), items);
        for path in missing {
            let is_item = queue::is_item_of_any_kind(split(path).1);
            prop_assert!(is_item || is_part_of_a_recipe(path, &contents, &once), "{} in {:?}", path, nodes);
        }
        // Each node comes before those below it.
        let order: Vec<_> = nodes.iter().map(|node| node.path.split('/').collect::<Vec<_>>()).collect();
        prop_assert!(nodes[0].path == "/" && order[1..].is_sorted());
        for node in &nodes[1..] {
            prop_assert_eq!(node.depth, node.path.matches('/').count());
        }
        let tree = super::super::value::Tree { nodes, denied: Vec::new() };
        prop_assert!(tree.to_string().lines().count() >= tree.nodes.len());
    }
}
