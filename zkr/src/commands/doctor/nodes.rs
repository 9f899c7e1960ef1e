//! What can be wrong with nodes outside of lines: leases that stay, and times in the future.

use std::time::{Duration, SystemTime};

use zookeeper_recipes::inspect::{Semaphore, Tree};

use super::finding::{Finding, argument, rounded, wait};
use super::problem::Problem;
use crate::commands::owners;

/// How far the clocks of the servers may be ahead of this machine's clock.
const AHEAD: Duration = Duration::from_secs(5);

impl Finding {
    /// Reports leases that no session owns.
    pub fn orphaned_leases(semaphore: &Semaphore) -> impl Iterator<Item = Finding> {
        let waiting = semaphore.line.places.len();
        semaphore.orphans().map(move |lease| {
            let path = &lease.path;
            let what = "it is a lease without a session: it takes a permit until it is deleted".to_owned();
            let next = format!("look at it (zkCli.sh: get {}); if no process uses it, delete it", argument(path));
            match waiting {
                0 => Finding::warning(Problem::NoSession, path, what, next),
                waiting => {
                    Finding::error(Problem::NoSession, path, format!("{what}, and {} for permits", wait(waiting)), next)
                }
            }
        })
    }

    /// Reports a node that was created after `now`, by the clock of this machine.
    pub fn clock(servers: &str, tree: &Tree, now: SystemTime) -> Option<Finding> {
        let ahead = newest(tree)?.duration_since(now).ok().filter(|ahead| *ahead > AHEAD)?;
        let what = format!(
            "a node was created {} after the current time of this machine: ages are shown too short, and the times in \
             the logs of the servers and of this machine do not match",
            rounded(ahead)
        );
        let next = "compare the clocks of this machine and of the servers (date), and check their synchronization";
        Some(Finding::warning(Problem::Clock, servers, what, next.to_owned()))
    }
}

/// Returns when the newest of all nodes was created, by the clock of the server that led then.
fn newest(tree: &Tree) -> Option<SystemTime> {
    let plain = tree.nodes.iter().filter_map(|node| node.stat.as_ref()).map(|stat| stat.created());
    plain.chain(owners::of_tree(tree).map(|owner| owner.created())).max()
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::testing::TestingServer;
    use zookeeper_recipes::{CreateMode, inspect};

    use super::super::finding::Severity;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_late_is_told() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        client.create_containers("/l").await.expect("it is created");
        tokio::time::sleep(Duration::from_secs(60)).await;
        let node = client.create("/l/lock-", "", CreateMode::EphemeralSequential).await.expect("it is created");
        let created = client.exists(&node).await.expect("an answer").expect("it exists").ctime;
        let created = SystemTime::UNIX_EPOCH + Duration::from_millis(created.try_into().expect("after 1970"));
        let tree = inspect::tree(&client, "/l").await.expect("the tree");
        let told = |now| Finding::clock("zk:2181", &tree, now);
        assert_eq!((told(created + AHEAD), told(created - AHEAD)), (None, None));
        let late = told(created - Duration::from_millis(17_300)).expect("a finding");
        assert_eq!((late.severity, &*late.path), (Severity::Warning, "zk:2181"));
        assert!(late.what.starts_with("a node was created 17s after the current time"), "{late}");
    }
}
