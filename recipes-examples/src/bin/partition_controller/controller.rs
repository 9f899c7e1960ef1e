//! One controller, elected with `LeaderLatch`, assigns a leader to each partition.
//!
//! ```text
//! <path>
//! ├── controller     a LeaderLatch
//! ├── members
//! │   └── alice      ephemeral: alice is a member
//! ├── knock          a new member deletes it, and so wakes the controller
//! ├── work
//! │   └── alice      what alice writes for the partitions that she leads
//! └── tables
//!     └── 3          the current table, a name for each partition: replaced by 4, in one transaction with the fence
//! ```
//!
//! A `Barrier` serves here to wait until a znode is deleted.
//!
//! A partition keeps its leader until the session of the leader ends, so no table takes a partition from a present
//! member. A new member gets what becomes free. To take a partition from a member, the controller would have to wait
//! until the member confirms that it has stopped, as a `ThroughputBalancer` does with shares.
//!
//! A member that was stopped, or is cut off, may follow an old table while another member leads already: nothing here
//! checks the clock. So a leader writes in one transaction with a check of its table, which the ensemble refuses once
//! the table is replaced. For another store, the number of the table is the fencing token.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, select_all};
use recipes_examples::Result;
use zookeeper_recipes::barrier::{self, Barrier};
use zookeeper_recipes::leader_latch::{LeaderLatch, Leadership};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use crate::{Board, MEMBERS, PARTITIONS};

/// The delay before the table is read again after a write whose outcome is unknown, or came too late.
const PAUSE: Duration = Duration::from_millis(100);

/// Creates the first table, which assigns nothing; all members wait until it is replaced.
pub(crate) async fn prepare(client: &Client, path: &str) -> Result<()> {
    client.create_containers(&format!("{path}/tables")).await?;
    client.create_containers(&format!("{path}/work")).await?;
    let first = Table::first();
    client.create(&first.path(path), first.text(), CreateMode::Persistent).await?;
    Ok(())
}

/// Joins as a member, follows the table, and acts as the controller when elected.
pub(crate) async fn take_part(client: &Client, number: usize, path: &str, board: &Board) -> Result<()> {
    let latch = LeaderLatch::builder(client, format!("{path}/controller")).id(MEMBERS[number]).start()?;
    let members = format!("{path}/members");
    client.create_containers(&members).await?;
    create(client, &format!("{members}/{}", MEMBERS[number]), CreateMode::Ephemeral).await?;
    create(client, &format!("{path}/work/{}", MEMBERS[number]), CreateMode::Persistent).await?;
    knock(client, path).await?;
    tokio::select! {
        ended = follow(client, number, path, board) => ended,
        ended = control(client, &latch, path) => ended,
    }
}

/// Creates a znode that no other member creates, even if answers are lost.
async fn create(client: &Client, path: &str, mode: CreateMode) -> Result<()> {
    let mut unknown = false;
    loop {
        match client.create(path, "", mode).await {
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => unknown = true,
            Err(error) if error.kind() == ErrorKind::NodeExists && unknown => return Ok(()),
            created => return Ok(created.map(drop)?),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Wakes the controller.
async fn knock(client: &Client, path: &str) -> Result<()> {
    let knock = Barrier::new(client, format!("{path}/knock"))?;
    loop {
        match knock.remove().await {
            Err(barrier::Error::Client { error, .. }) if error.kind() == ErrorKind::OutcomeUnknown => {}
            removed => return Ok(removed?),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Leads the partitions that each table assigns, until that table is replaced.
async fn follow(client: &Client, number: usize, path: &str, board: &Board) -> Result<()> {
    loop {
        let table = Table::read(client, path).await?;
        let led: Vec<usize> =
            (0..PARTITIONS).filter(|&partition| table.leaders[partition] == MEMBERS[number]).collect();
        match table.work(client, number, path, &led).await {
            Ok(()) => led.into_iter().for_each(|partition| board.leads(number, partition)),
            Err(error) if matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::NoNode) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        Barrier::new(client, table.path(path))?.wait().await?;
    }
}

/// Acts as the controller whenever this member is elected.
async fn control(client: &Client, latch: &LeaderLatch, path: &str) -> Result<()> {
    loop {
        let leadership = latch.wait_for_leadership().await?;
        // The work is dropped when the leadership is lost; the fence refuses what it sends too late.
        if let Ok(ended) = leadership.run(assign(client, &leadership, path)).await {
            ended?;
        }
    }
}

/// Assigns all partitions, each time a member joins or leaves.
async fn assign(client: &Client, leadership: &Leadership, path: &str) -> Result<()> {
    let (knock, members) = (Barrier::new(client, format!("{path}/knock"))?, format!("{path}/members"));
    loop {
        // Set before the members are listed: each member that joins later deletes it.
        knock.set().await?;
        let mut present = client.children(&members).await?;
        present.sort_unstable();
        let table = Table::read(client, path).await?;
        let next = table.next(&present);
        // The first table waits for all members; otherwise the first member would lead everything.
        let is_due = next.leaders != table.leaders && (table.generation > 0 || present.len() == MEMBERS.len());
        if is_due && !table.replace(client, leadership, path, &next).await? {
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        let mut changes: Vec<BoxFuture<'_, Result<(), barrier::Error>>> = vec![knock.wait().boxed()];
        for member in &present {
            let membership = Barrier::new(client, format!("{members}/{member}"))?;
            changes.push(async move { membership.wait().await }.boxed());
        }
        select_all(changes).await.0?;
    }
}

/// The leader of each partition.
struct Table {
    /// Counts the tables; 0 is the one that assigns nothing.
    generation: u64,
    /// A name for each partition, empty if it has no leader.
    leaders: Vec<String>,
}

impl Table {
    fn path(&self, path: &str) -> String {
        format!("{path}/tables/{}", self.generation)
    }

    fn first() -> Table {
        Table { generation: 0, leaders: vec![String::new(); PARTITIONS] }
    }

    /// Reads the current table.
    async fn read(client: &Client, path: &str) -> Result<Table> {
        loop {
            let generations = client.children(&format!("{path}/tables")).await?;
            let newest = generations.iter().filter_map(|name| name.parse().ok()).max();
            let table = Table { generation: newest.ok_or("there is no table")?, leaders: Vec::new() };
            match client.get(&table.path(path)).await {
                Ok((data, _)) => {
                    let leaders = String::from_utf8(data)?.split('\n').map(str::to_owned).collect();
                    return Ok(Table { leaders, ..table });
                }
                // It was replaced meanwhile.
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn text(&self) -> String {
        self.leaders.join("\n")
    }

    /// Returns the next table: it assigns each partition of a member that has left to the member that leads least.
    fn next(&self, members: &[String]) -> Table {
        let mut leaders = self.leaders.clone();
        let count = |member| leaders.iter().filter(|leader| *leader == member).count();
        let mut led: Vec<(&String, usize)> = members.iter().map(|member| (member, count(member))).collect();
        for leader in leaders.iter_mut().filter(|leader| !members.contains(leader)) {
            let Some((member, led)) = led.iter_mut().min_by_key(|(_, led)| *led) else { break };
            *leader = (*member).clone();
            *led += 1;
        }
        Table { generation: self.generation + 1, leaders }
    }

    /// Writes what a member does for the partitions that it leads; refused with `NoNode` if this table was replaced.
    async fn work(
        &self,
        client: &Client,
        number: usize,
        path: &str,
        led: &[usize],
    ) -> Result<(), zookeeper_recipes::Error> {
        let node = format!("{path}/work/{}", MEMBERS[number]);
        // A table is never changed, only replaced.
        let work = client.transaction().check_version(&self.path(path), 0).set_data(&node, format!("{led:?}"), None);
        work.commit().await.map(drop)
    }

    /// Replaces this table by the next one. Returns false if it is not known to be replaced: another member is the
    /// controller, this table was replaced already, or no answer came. The next read of the table shows which.
    async fn replace(&self, client: &Client, leadership: &Leadership, path: &str, next: &Table) -> Result<bool> {
        let change = client.transaction().check(&leadership.fence()).delete(&self.path(path), None);
        match change.create(&next.path(path), next.text(), CreateMode::Persistent).commit().await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::NoNode) => Ok(false),
            // The leadership is over, and with it this future.
            Err(error) if error.is_lost() => std::future::pending().await,
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::testing::TestingServer;

    use super::*;

    #[tokio::test]
    async fn a_member_that_follows_a_replaced_table_changes_nothing() -> Result<()> {
        let server = TestingServer::start();
        let client = server.client().await?;
        prepare(&client, "/p").await?;
        client.create("/p/work/alice", "", CreateMode::Persistent).await?;
        let latch = LeaderLatch::builder(&client, "/p/controller").start()?;
        let (leadership, old) = (latch.wait_for_leadership().await?, Table::read(&client, "/p").await?);
        old.work(&client, 0, "/p", &[7]).await?;
        old.replace(&client, &leadership, "/p", &old.next(&["bob".to_owned()])).await?;
        let late = old.work(&client, 0, "/p", &[8]).await.expect_err("refused");
        assert_eq!((late.kind(), client.get("/p/work/alice").await?.0), (ErrorKind::NoNode, b"[7]".to_vec()));
        Ok(())
    }
}
