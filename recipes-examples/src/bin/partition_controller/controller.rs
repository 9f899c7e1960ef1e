//! One controller, elected with `LeaderLatch`, says who leads what.
//!
//! ```text
//! <path>
//! ├── controller     a LeaderLatch
//! ├── members
//! │   └── alice      ephemeral: alice is there
//! ├── knock          whoever comes deletes it, and the controller looks again
//! ├── work
//! │   └── alice      what alice does for the partitions that she leads
//! └── tables
//!     └── 3          the table in force, a name for each partition: replaced by 4, in one transaction with the fence
//! ```
//!
//! To wait for the end of a node, here and below, is what a `Barrier` does.
//!
//! A partition keeps its leader for as long as its session lives, so no table takes it from somebody who is there. Whoever comes
//! later gets what becomes free: to take a partition from somebody who lives, one has to wait until it says that it has let go,
//! as a `ThroughputBalancer` does with what it takes away.
//!
//! One that was stopped, or is cut off, may go by an old table when another one leads already: nothing here compares the clock.
//! So all that a leader writes goes in one transaction with a check of its table, and is refused once that is replaced. For
//! another store the number of the table is the fencing token.

use futures::future::{BoxFuture, FutureExt, select_all};
use recipes_examples::Result;
use zookeeper_recipes::barrier::{self, Barrier};
use zookeeper_recipes::leader_latch::{LeaderLatch, Leadership};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use crate::{Board, MEMBERS, PARTITIONS};

/// Makes the first table, which assigns nothing, for all to wait at.
pub(crate) async fn prepare(client: &Client, path: &str) -> Result<()> {
    client.create_containers(&format!("{path}/tables")).await?;
    client.create_containers(&format!("{path}/work")).await?;
    let first = Table::first();
    client.create(&first.path(path), first.text(), CreateMode::Persistent).await?;
    Ok(())
}

/// Is a member, follows the table, and controls if elected.
pub(crate) async fn take_part(client: &Client, number: usize, path: &str, board: &Board) -> Result<()> {
    let latch = LeaderLatch::builder(client, format!("{path}/controller")).id(MEMBERS[number]).start()?;
    let members = format!("{path}/members");
    client.create_containers(&members).await?;
    client.create(&format!("{members}/{}", MEMBERS[number]), "", CreateMode::Ephemeral).await?;
    client.create(&format!("{path}/work/{}", MEMBERS[number]), "", CreateMode::Persistent).await?;
    Barrier::new(client, format!("{path}/knock"))?.remove().await?;
    tokio::select! {
        ended = follow(client, number, path, board) => ended,
        ended = control(client, &latch, path) => ended,
    }
}

/// Leads what the table says, until it is replaced.
async fn follow(client: &Client, number: usize, path: &str, board: &Board) -> Result<()> {
    loop {
        let table = Table::read(client, path).await?;
        let led: Vec<usize> =
            (0..PARTITIONS).filter(|&partition| table.leaders[partition] == MEMBERS[number]).collect();
        match table.work(client, number, path, &led).await {
            Ok(()) => led.into_iter().for_each(|partition| board.leads(number, partition)),
            Err(error) if matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::NoNode) => continue,
            Err(error) => return Err(error.into()),
        }
        Barrier::new(client, table.path(path))?.wait().await?;
    }
}

/// Controls whenever it is elected.
async fn control(client: &Client, latch: &LeaderLatch, path: &str) -> Result<()> {
    loop {
        let leadership = latch.wait_for_leadership().await?;
        // Dropped when the leadership is lost; what it has sent by then is refused because of the fence.
        if let Ok(ended) = leadership.run(assign(client, &leadership, path)).await {
            ended?;
        }
    }
}

/// Assigns, again whenever somebody comes or goes.
async fn assign(client: &Client, leadership: &Leadership, path: &str) -> Result<()> {
    let (knock, members) = (Barrier::new(client, format!("{path}/knock"))?, format!("{path}/members"));
    loop {
        // Before anybody is counted: whoever comes after that is heard.
        knock.set().await?;
        let mut there = client.children(&members).await?;
        there.sort_unstable();
        let table = Table::read(client, path).await?;
        let next = table.next(&there);
        // At the very beginning all are waited for, or the first one would lead everything.
        if next.leaders != table.leaders && (table.generation > 0 || there.len() == MEMBERS.len()) {
            table.replace(client, leadership, path, &next).await?;
        }
        let mut changes: Vec<BoxFuture<'_, Result<(), barrier::Error>>> = vec![knock.wait().boxed()];
        for member in &there {
            let stands = Barrier::new(client, format!("{members}/{member}"))?;
            changes.push(async move { stands.wait().await }.boxed());
        }
        select_all(changes).await.0?;
    }
}

/// Who leads what.
struct Table {
    /// Counts the tables; none was written yet if it is 0.
    generation: u64,
    /// A name for each partition, empty if nobody leads it.
    leaders: Vec<String>,
}

impl Table {
    fn path(&self, path: &str) -> String {
        format!("{path}/tables/{}", self.generation)
    }

    fn first() -> Table {
        Table { generation: 0, leaders: vec![String::new(); PARTITIONS] }
    }

    /// The one in force.
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

    /// What was led by those who are gone goes to those who lead least.
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

    /// What a member does for the partitions that it leads; refused with `NoNode` if this table is no more.
    async fn work(
        &self,
        client: &Client,
        number: usize,
        path: &str,
        led: &[usize],
    ) -> Result<(), zookeeper_recipes::Error> {
        let node = format!("{path}/work/{}", MEMBERS[number]);
        // Nobody ever changes a table.
        let work = client.transaction().check_version(&self.path(path), 0).set_data(&node, format!("{led:?}"), None);
        work.commit().await.map(drop)
    }

    /// Puts the next one in the place of this one; refused if another one controls, or this one is no more.
    async fn replace(&self, client: &Client, leadership: &Leadership, path: &str, next: &Table) -> Result<()> {
        let change = client.transaction().check(&leadership.fence()).delete(&self.path(path), None);
        match change.create(&next.path(path), next.text(), CreateMode::Persistent).commit().await {
            Ok(_) => Ok(()),
            // The next look tells what came of it.
            Err(error) if matches!(error.kind(), ErrorKind::OutcomeUnknown | ErrorKind::NoNode) => Ok(()),
            Err(error) if error.is_lost() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::testing::TestingServer;

    use super::*;

    #[tokio::test]
    async fn who_goes_by_a_table_that_was_replaced_changes_nothing() -> Result<()> {
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
