//! Reports what is wrong with locks, elections, queues and the servers, and what to do.

mod access;
mod finding;
mod members;
mod nodes;
mod problem;
mod queue;
mod servers;

use std::time::{Duration, SystemTime};

use clap::Args;
use zookeeper_recipes::inspect::{self, Deadlock, Line, Queue, Recipe, Tree};
use zookeeper_recipes::{Client, Error};

use self::finding::Finding;
use self::servers::{Expected, Survey};
use super::not_inspected;
use super::servers::Hosts;
use crate::connection::{Connection, path_or_root, time};
use crate::ending::{Ending, Status};
use crate::output::{Output, count, note};

/// What is examined.
#[derive(Args, Debug)]
pub struct Options {
    /// Examine the locks, elections, semaphores and queues at this path and below
    #[arg(value_parser = path_or_root)]
    path: String,
    /// The age from which a node that others wait for, or an item that no consumer takes, is reported; the leaders of
    /// latches are not
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    stuck: Duration,
}

/// What was found, and in how many lines and queues.
struct Report {
    findings: Vec<Finding>,
    lines: usize,
    queues: usize,
}

/// Examines all lines and queues at a path and below, the session, and the servers.
pub async fn examine(
    client: &Client,
    connection: &Connection,
    output: Output,
    options: &Options,
) -> Result<Ending, Ending> {
    let (servers, survey) = (connection.servers(), Survey::ask(Hosts::of(connection)));
    let (report, survey) = tokio::join!(Report::read(client, servers, options), survey);
    let expected = Expected {
        servers,
        tick: connection.tick_time(),
        min: connection.min_session_timeout(),
        asked: connection.session_timeout(),
        granted: client.session_timeout(),
    };
    let mut report = match report {
        Ok(report) => report,
        Err(error) => {
            // The reason may be among the findings about the servers.
            for finding in survey.findings(&expected) {
                output.print(&finding, &finding).await?;
            }
            return Err(not_inspected(&error));
        }
    };
    report.findings.extend(Finding::session_timeout(expected.servers, expected.asked, expected.granted));
    report.findings.extend(survey.findings(&expected));
    report.findings.sort();
    for finding in &report.findings {
        output.print(finding, finding).await?;
    }
    let examined = report.examined();
    // In JSON each line is a finding.
    if report.findings.is_empty() && !output.json {
        let path = &options.path;
        if report.lines + report.queues == 0 {
            let unused = format_args!(
                "no problem found; no locks, elections, semaphores or queues are in use at {path} or below"
            );
            output.print(unused, &()).await?;
        } else {
            output.print(format_args!("no problem found in {examined}"), &()).await?;
        }
    }
    survey.not_examined().iter().for_each(note);
    let [_, (_, namespace)] = connection.place();
    if !namespace.is_empty() && report.findings.iter().any(|finding| finding.next.contains("zkCli.sh")) {
        note(format_args!(
            "zkCli.sh does not know the namespace: put /{} before the paths",
            namespace.trim_matches('/')
        ));
    }
    if report.findings.is_empty() {
        return Ok(Ending::Success);
    }
    let problems = count(report.findings.len(), "problem", "problems");
    Err(Ending::because(Status::No, format_args!("{problems} found in {examined}")))
}

impl Report {
    async fn read(client: &Client, servers: &str, options: &Options) -> Result<Report, Error> {
        let tree = inspect::tree(client, &options.path).await?;
        // Read again only if there seem to be any, to confirm them: the lines were not read at one moment.
        let circles = match &Deadlock::detect(lines(&tree))[..] {
            [] => Vec::new(),
            _ => inspect::deadlocks(client, &options.path).await?.found,
        };
        // The servers report when a node was created. A clock that differs from theirs by minutes does not matter here.
        let now = SystemTime::now();
        let mut findings: Vec<Finding> = circles.iter().map(|circle| Finding::deadlock(circle, now)).collect();
        findings.extend(tree.denied.iter().map(|path| Finding::denied(path)));
        for line in lines(&tree) {
            findings.extend(Finding::counter(&line.path, line.sequence_numbers_left));
            findings.extend(Finding::orphans(line));
            findings.extend(Finding::stuck(line, &circles, now, options.stuck));
        }
        for recipe in tree.nodes.iter().flat_map(|node| &node.recipes) {
            if let Recipe::Semaphore(semaphore) = recipe {
                findings.extend(Finding::orphaned_leases(semaphore));
            }
        }
        for (path, queue) in queues(&tree) {
            findings.extend(Finding::unread(path, queue, &tree, now, options.stuck));
            findings.extend(Finding::dead_letters(path, queue));
        }
        findings.extend(Finding::access(client, &tree).await?);
        findings.extend(Finding::clock(servers, &tree, now));
        let lines = lines(&tree).filter(|line| !line.places.is_empty()).count();
        Ok(Report { findings, lines, queues: queues(&tree).count() })
    }

    fn examined(&self) -> String {
        let lines = count(self.lines, "line", "lines");
        match self.queues {
            0 => lines,
            queues => format!("{lines} and {}", count(queues, "queue", "queues")),
        }
    }
}

/// Returns all lines in a tree. Those of semaphores, balancers and assigners may be empty.
fn lines(tree: &Tree) -> impl Iterator<Item = &Line> {
    tree.nodes.iter().flat_map(|node| &node.recipes).filter_map(|recipe| match recipe {
        Recipe::Line(line) => Some(line),
        Recipe::Semaphore(semaphore) => Some(&semaphore.line),
        Recipe::ThroughputBalancer(balancer) => Some(&balancer.leader),
        Recipe::PartitionAssigner(assigner) => Some(&assigner.leader),
        _ => None,
    })
}

/// Returns all queues in a tree, each with its path.
fn queues(tree: &Tree) -> impl Iterator<Item = (&str, &Queue)> {
    let recipes = tree.nodes.iter().flat_map(|node| node.recipes.iter().map(|recipe| (node.path.as_str(), recipe)));
    recipes.filter_map(|(path, recipe)| match recipe {
        Recipe::Queue(queue) => Some((path, queue)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::mutex::InterProcessMutex;
    use zookeeper_recipes::testing::TestingServer;
    use zookeeper_recipes::{Acl, CreateMode, Permissions};

    use super::finding::Severity;
    use super::*;

    async fn findings(client: &Client, path: &str, stuck: Duration) -> Vec<Finding> {
        let options = Options { path: path.to_owned(), stuck };
        let mut findings = Report::read(client, "zk", &options).await.expect("it can be read").findings;
        findings.sort();
        findings
    }

    const LONG: Duration = Duration::from_secs(1_000_000_000);

    #[tokio::test(start_paused = true)]
    async fn a_node_without_a_session_blocks_its_line() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        client.create_containers("/l/a").await.expect("it is created");
        assert!(findings(&client, "/", LONG).await.is_empty());
        for mode in [CreateMode::PersistentSequential, CreateMode::EphemeralSequential] {
            client.create("/l/a/x-lock-", "", mode).await.expect("it is created");
        }
        let [orphan] = &findings(&client, "/", LONG).await[..] else { panic!("one finding") };
        assert_eq!((orphan.severity, &*orphan.path), (Severity::Error, "/l/a/x-lock-0000000000"));
        assert!(orphan.what.contains("1 waits behind it"), "{orphan}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_without_a_session_takes_a_permit_also_where_nothing_waits() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        for directory in ["/s/locks", "/s/leases"] {
            client.create_containers(directory).await.expect("it is created");
        }
        server.set_sequence("/s/locks", i32::MAX - 10).expect("it is set");
        for mode in [CreateMode::PersistentSequential, CreateMode::EphemeralSequential] {
            client.create("/s/leases/x-lease-", "", mode).await.expect("it is created");
        }
        let told = |found: &[Finding]| found.iter().map(|one| (one.severity, one.path.clone())).collect::<Vec<_>>();
        let (lease, counter) = ("/s/leases/x-lease-0000000000".to_owned(), "/s/locks".to_owned());
        let found = findings(&client, "/", LONG).await;
        assert_eq!(told(&found), [(Severity::Warning, lease.clone()), (Severity::Warning, counter.clone())]);
        assert!(found[0].what.contains("it takes a permit until it is deleted"), "{}", found[0]);
        client.create("/s/locks/x-lock-", "", CreateMode::EphemeralSequential).await.expect("it is created");
        let found = findings(&client, "/", LONG).await;
        assert_eq!(told(&found), [(Severity::Error, lease), (Severity::Warning, counter)]);
        assert!(found[0].what.ends_with("and 1 waits for permits"), "{}", found[0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_counter_that_ends_soon_and_a_node_that_may_not_be_read() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        client.create_containers("/l").await.expect("it is created");
        server.set_sequence("/l", i32::MAX - 10).expect("it is set");
        let node = client.create("/l/lock-", "", CreateMode::EphemeralSequential).await.expect("it is created");
        server.deny(&node);
        let found = findings(&client, "/l", LONG).await;
        let told: Vec<_> = found.iter().map(|finding| (finding.severity, &*finding.path)).collect();
        assert_eq!(told, [(Severity::Warning, "/l"), (Severity::Warning, &*node)]);
        assert!(found[0].what.contains("9 numbers are left"), "{}", found[0]);
        assert!(found[1].next.contains("--auth"), "{}", found[1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_others_wait_for_is_found_after_its_time_but_a_leader_is_not() {
        let server = TestingServer::start();
        let clients = [server.client().await.expect("a client"), server.client().await.expect("a client")];
        for directory in ["/locks", "/elections"] {
            clients[0].create_containers(directory).await.expect("it is created");
        }
        for client in &clients {
            for name in ["/locks/lock-", "/elections/latch-"] {
                client.create(name, "host", CreateMode::EphemeralSequential).await.expect("it is created");
            }
        }
        assert!(findings(&clients[0], "/", LONG).await.is_empty());
        let found = findings(&clients[0], "/", Duration::ZERO).await;
        let [stuck] = &found[..] else { panic!("one finding: {found:?}") };
        assert_eq!((stuck.severity, &*stuck.path), (Severity::Warning, "/locks/lock-0000000000"));
        assert!(stuck.what.contains("\"host\"") && stuck.what.contains("1 waits behind it"), "{stuck}");
        assert!(stuck.next.contains("zkr revoke /locks/lock-0000000000"), "{stuck}");
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_that_wait_for_each_other_are_one_finding() {
        let server = TestingServer::start();
        let clients = [server.client().await.expect("a client"), server.client().await.expect("a client")];
        let paths = ["/locks/a", "/locks/b"];
        let mut held = Vec::new();
        for (client, path) in clients.iter().zip(paths) {
            let mutex = InterProcessMutex::new(client, path).expect("a good path");
            held.push(mutex.acquire().await.expect("it is acquired"));
        }
        let mut waiting = Vec::new();
        for (client, path) in clients.iter().zip(["/locks/b", "/locks/a"]) {
            let mutex = InterProcessMutex::new(client, path).expect("a good path");
            waiting.push(tokio::spawn(async move { mutex.acquire().await }));
        }
        server.until(|| paths.iter().all(|path| server.children(path).len() == 2)).await;
        let found = findings(&clients[0], "/locks", Duration::ZERO).await;
        let [circle] = &found[..] else { panic!("one finding: {found:?}") };
        assert_eq!(circle.severity, Severity::Error);
        assert!(circle.what.starts_with("2 sessions wait for each other"), "{circle}");
        assert!(circle.next.contains("zkr revoke /locks/"), "{circle}");
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test(start_paused = true)]
    async fn the_directory_of_a_free_lock_is_no_orphan_whatever_its_name() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        for name in ["db-lock-1", "db-lock-2", "my-latch-2025", "x__lock__1"] {
            client.create_containers(&format!("/locks/{name}")).await.expect("it is created");
        }
        assert!(findings(&client, "/", LONG).await.is_empty());
        assert!(inspect::lines(&client, "/").await.expect("read").lines.is_empty());
        // A session owns no directory.
        client.create("/locks/by-hand-lock-1", "", CreateMode::Ephemeral).await.expect("it is created");
        let line = inspect::line(&client, "/locks").await.expect("read");
        assert_eq!((line.places.len(), line.others.len()), (1, 4), "{line}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_without_a_consumer_and_its_dead_letters() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        for directory in ["/q", "/q-claims", "/q-dead", "/locks"] {
            client.create_containers(directory).await.expect("it is created");
        }
        for _ in 0..2 {
            client.create("/q/queue-", "", CreateMode::PersistentSequential).await.expect("it is created");
        }
        assert!(findings(&client, "/", LONG).await.is_empty());
        let found = findings(&client, "/", Duration::ZERO).await;
        let [unread] = &found[..] else { panic!("one finding: {found:?}") };
        assert_eq!((unread.severity, &*unread.path), (Severity::Warning, "/q"));
        let what = "2 items, none claimed; queue-0000000000 has been ready for ";
        assert!(unread.what.starts_with(what), "{unread}");
        server.deny("/q-claims");
        let found = findings(&client, "/", Duration::ZERO).await;
        let [hidden] = &found[..] else { panic!("one finding: {found:?}") };
        assert_eq!(hidden.path, "/q-claims", "it is not known what is claimed");
        server.allow("/q-claims");
        // A claim shows that there is a consumer, and a node that is named like an item may be the lock of one.
        let claim = "/q-claims/queue-0000000001";
        client.create(claim, "", CreateMode::Ephemeral).await.expect("it is created");
        client.create("/locks/queue-0000000001", "", CreateMode::Ephemeral).await.expect("it is created");
        assert!(findings(&client, "/", Duration::ZERO).await.is_empty());
        let letter = "/q-dead/letter-queue-0000000000-";
        client.create(letter, "", CreateMode::PersistentSequential).await.expect("it is created");
        let found = findings(&client, "/", Duration::ZERO).await;
        let [dead] = &found[..] else { panic!("one finding: {found:?}") };
        assert_eq!((dead.severity, &*dead.path), (Severity::Warning, "/q"));
        assert!(dead.what.starts_with("1 dead letter:") && dead.next.contains("zkr queue dead ls /q), then"), "{dead}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_with_a_delay_is_not_unread_before_its_time() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        client.create_containers("/q").await.expect("it is created");
        let item = client.create("/q/queue-|FFFFFFFFFFF|", "", CreateMode::PersistentSequential).await;
        let item = item.expect("it is created");
        assert!(findings(&client, "/", Duration::ZERO).await.is_empty());
        client.delete(&item, None).await.expect("it is deleted");
        client.create("/q/queue-|1|", "", CreateMode::PersistentSequential).await.expect("it is created");
        assert_eq!(findings(&client, "/", Duration::ZERO).await.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_directory_that_members_cannot_leave() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let rights = Permissions::READ | Permissions::CREATE;
        let acls = vec![Acl::new(rights, "world", "anyone")];
        let guarded = Client::builder_for_testing(&server).acls(acls).connect().await.expect("a client");
        guarded.create("/l", "", CreateMode::Persistent).await.expect("it is created");
        client.create("/l/lock-", "", CreateMode::EphemeralSequential).await.expect("it is created");
        let found = findings(&client, "/", LONG).await;
        let [stays] = &found[..] else { panic!("one finding: {found:?}") };
        assert_eq!((stays.severity, &*stays.path), (Severity::Warning, "/l"));
        assert!(stays.what.starts_with("anyone may create nodes in it, but not delete them (DELETE)"), "{stays}");
        assert!(stays.next.ends_with("(zkCli.sh: getAcl /l)"), "{stays}");
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_circle_kazoo_is_not_asked_to_release() {
        let server = TestingServer::start();
        let clients = [server.client().await.expect("a client"), server.client().await.expect("a client")];
        for directory in ["/locks/a", "/locks/b"] {
            clients[0].create_containers(directory).await.expect("it is created");
        }
        let [one, two] = &clients;
        for (client, name) in [(one, "/locks/a/"), (two, "/locks/b/"), (one, "/locks/b/"), (two, "/locks/a/")] {
            let prefix = format!("{name}x__lock__");
            client.create(&prefix, "", CreateMode::EphemeralSequential).await.expect("it is created");
        }
        let found = findings(&clients[0], "/locks", LONG).await;
        let [circle] = &found[..] else { panic!("one finding: {found:?}") };
        assert_eq!(circle.next, "end the process of one of them");
    }
}
