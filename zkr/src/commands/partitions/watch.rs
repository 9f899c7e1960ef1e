//! Prints a line for each change of an assigner.

use std::time::{Duration, SystemTime};

use futures::FutureExt;
use serde::Serialize;
use zookeeper_recipes::Client;
use zookeeper_recipes::cache::{self, Cache, Changes};
use zookeeper_recipes::partition_assigner::{AssignerState, state};

use super::change::{Change, between, first};
use super::of;
use crate::commands::{check_exists, failed};
use crate::ending::Ending;
use crate::output::{Output, note, shown};

/// Changes within this time are read together: a partition that is handed over is one line then.
const QUIET: Duration = Duration::from_millis(100);
/// How long to wait before reading again after the servers could not be reached.
const PAUSE: Duration = Duration::from_secs(1);

/// A change, and when it was seen.
#[derive(Serialize)]
struct Seen<'a> {
    time: &'a str,
    #[serde(flatten)]
    change: &'a Change,
}

/// Prints the changes, until the client is closed.
pub async fn watch(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    check_exists(client, path).await?;
    let mut watched = Watched::start(client, path).await?;
    while let Some(changes) = watched.next().await? {
        let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        for change in &changes {
            output.print(shown(&format!("{time} {change}")), &Seen { time: &time, change }).await?;
        }
    }
    Ok(Ending::Success)
}

/// An assigner that is watched.
struct Watched<'a> {
    client: &'a Client,
    path: &'a str,
    /// It only shows when to read again; it survives lost connections and sessions.
    _nodes: Cache<Vec<u8>>,
    signals: Changes<Vec<u8>>,
    /// What the last lines were about.
    last: Option<AssignerState>,
}

impl<'a> Watched<'a> {
    async fn start(client: &'a Client, path: &'a str) -> Result<Watched<'a>, Ending> {
        let epoch = format!("{path}/epoch");
        let nodes = Cache::tree(client, path).without_data().filter(move |node| node != epoch);
        let nodes = nodes.start().await.map_err(|error| failed(error.kind(), error))?;
        Ok(Watched { client, path, signals: nodes.changes(), _nodes: nodes, last: None })
    }

    /// Waits for the next changes. Returns `None` once the client is closed.
    async fn next(&mut self) -> Result<Option<Vec<Change>>, Ending> {
        loop {
            if self.last.is_some() && !self.signalled().await {
                return Ok(None);
            }
            let now = self.read().await?;
            let changes = self.last.as_ref().map_or_else(|| first(&now), |last| between(last, &now));
            self.last = Some(now);
            if !changes.is_empty() {
                return Ok(Some(changes));
            }
        }
    }

    /// Waits until something has changed, and a little longer. Returns whether the client is still there.
    async fn signalled(&mut self) -> bool {
        match self.signals.next().await {
            None => return false,
            Some(cache::Change::Failed(error)) => note(error),
            Some(_) => tokio::time::sleep(QUIET).await,
        }
        // The next read covers all changes that have arrived meanwhile.
        while let Some(Some(_)) = self.signals.next().now_or_never() {}
        true
    }

    async fn read(&self) -> Result<AssignerState, Ending> {
        loop {
            match state(self.client, self.path).await {
                Err(error) if error.is_retryable() => {
                    note(format_args!("{error}; retrying"));
                    tokio::time::sleep(PAUSE).await;
                }
                read => return read.map_err(of),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::CreateMode;
    use zookeeper_recipes::testing::TestingServer;

    use super::super::table::tests::assigner;
    use super::*;

    async fn lines(watched: &mut Watched<'_>) -> Vec<String> {
        let changes = tokio::time::timeout(Duration::from_secs(60), watched.next()).await.expect("in time");
        changes.expect("it is read").expect("changes").iter().map(ToString::to_string).collect()
    }

    fn by_hand(server: &TestingServer, node: &str, data: &str) {
        let path = format!("/jobs/{node}");
        if server.get(&path).is_some() {
            server.set_data_by_hand(&path, data).expect("set");
        } else {
            server.create_by_hand(&path, data, CreateMode::Persistent).expect("created");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_change_is_a_line() {
        let (server, client) = assigner().await;
        let mut watched = Watched::start(&client, "/jobs").await.expect("it is watched");
        assert_eq!(lines(&mut watched).await, ["watching: 2 members present, 9 partitions, leader w-1"]);

        // A partition is handed over, within the time in which changes are read together.
        server.delete_by_hand("/jobs/owned/12~000000000000000a.1").expect("deleted");
        by_hand(&server, "owned/12~000000000000000b.1", "");
        assert_eq!(lines(&mut watched).await, ["partition 12: w-1 -> w-2"]);
        server.delete_by_hand("/jobs/owned/12~000000000000000b.1").expect("deleted");
        assert_eq!(lines(&mut watched).await, ["partition 12: w-2 -> unowned"]);
        by_hand(&server, "owned/12~000000000000000b.2", "");
        assert_eq!(lines(&mut watched).await, ["partition 12: unowned -> w-2"]);
        server.delete_by_hand("/jobs/owned/12~000000000000000b.2").expect("deleted");
        by_hand(&server, "owned/12~000000000000000b.3", "");
        assert_eq!(lines(&mut watched).await, ["partition 12: w-2 -> w-2"], "with another token");

        by_hand(&server, "members/w-4~000000000000000d", "{}");
        by_hand(&server, "config", r#"{"pins":{"12":"w-1"},"drained":["w-2"],"rebalances":1}"#);
        let expected = [
            "member w-3 undrained",
            "member w-2 drained",
            "member w-4 joined",
            "rebalance asked for",
            "partition 20 unpinned",
            "partition 12 pinned to w-1",
        ];
        assert_eq!(lines(&mut watched).await, expected);
        server.delete_by_hand("/jobs/members/w-4~000000000000000d").expect("deleted");
        server.delete_by_hand("/jobs/leader/_c_x-latch-0000000000").expect("deleted");
        assert_eq!(lines(&mut watched).await, ["member w-4 left", "leader: w-1 -> none"]);
        by_hand(&server, "assignments/w-2", "x");
        let unreadable = "unreadable: assignments/w-2: \"x\": expected value at line 1 column 1";
        assert_eq!(lines(&mut watched).await, [unreadable]);
        by_hand(&server, "assignments/w-2", r#"{"member":"000000000000000f"}"#);
        let expected = ["member w-2 left and joined again", "not unreadable any more: assignments/w-2"];
        assert_eq!(lines(&mut watched).await, expected);
        // What is not shown is no change.
        by_hand(&server, "epoch", "w-1");
        assert!(tokio::time::timeout(Duration::from_secs(60), watched.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_during_an_outage_is_told_after_it() {
        let (server, client) = assigner().await;
        let looking = server.client().await.expect("a client");
        let mut watched = Watched::start(&looking, "/jobs").await.expect("it is watched");
        lines(&mut watched).await;
        let session = looking.session_id();
        for is_lost in [false, true] {
            if is_lost {
                assert!(server.expire_session(&looking));
            }
            server.refuse(&looking);
            server.disconnect(&looking);
            let pins = if is_lost { "{}" } else { r#"{"12":"w-2"}"# };
            by_hand(&server, "config", &format!(r#"{{"pins":{pins},"drained":["w-3"]}}"#));
            server.heal();
            let expected = if is_lost {
                &["partition 12 unpinned"][..]
            } else {
                &["partition 20 unpinned", "partition 12 pinned to w-2"]
            };
            assert_eq!(lines(&mut watched).await, expected);
        }
        assert_ne!(looking.session_id(), session);
        drop(client);
    }

    #[test]
    fn a_change_is_json_for_programs() {
        let change = Change::Partition { partition: "7".to_owned(), from: Some("a".to_owned()), to: None, token: None };
        let json = serde_json::to_value(Seen { time: "now", change: &change }).expect("a value");
        let expected = serde_json::json!({
            "time": "now", "change": "partition", "partition": "7", "from": "a", "to": null, "token": null
        });
        assert_eq!(json, expected);
    }
}
