//! A team that divides 12 partitions: its members come, restart and are killed, and an operator pins a partition.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use recipes_examples::{Result, Stage, count, println, step, until};
use zookeeper_recipes::partition_assigner::{Owned, PartitionAssigner, pin};
use zookeeper_recipes::{Client, CreateMode, Error};

use crate::board::Board;
use crate::{MEMBERS, work};

const PARTITIONS: u32 = 12;
/// Longer than a restart takes.
const REBALANCE_DELAY: Duration = Duration::from_secs(2);

/// A member at work, with a client of its own.
struct Member {
    client: Client,
    assigner: Arc<PartitionAssigner>,
    work: BoxFuture<'static, Result<Result<()>>>,
}

/// The members that are present, in the order of `MEMBERS`.
pub(crate) struct Team<'a> {
    stage: &'a Stage,
    path: String,
    board: Board,
    members: Vec<Member>,
    /// The owners that were printed last.
    before: Vec<Option<usize>>,
}

impl<'a> Team<'a> {
    pub(crate) fn new(stage: &'a Stage, path: &str) -> Self {
        let board = Board::new(PARTITIONS);
        Team { stage, path: path.to_owned(), before: board.owners(), board, members: Vec::new() }
    }

    pub(crate) async fn play(mut self) -> Result<()> {
        for (number, counts) in [&[12][..], &[6, 6], &[4, 4, 4]].into_iter().enumerate() {
            step(&format!("{} joins", MEMBERS[number])).await;
            let member = self.join(number).await?;
            self.members.push(member);
            self.settled(counts).await?;
        }
        step("a rolling restart: each member leaves for a restart, and is back within the rebalance delay").await;
        for number in 0..self.members.len() {
            self.restart(number).await?;
        }
        self.settled(&[4, 4, 4]).await?;
        self.lose_the_last().await?;
        let (owner, other) = if self.before[0] == Some(0) { (0, 1) } else { (1, 0) };
        step(&format!("an operator pins partition 0, which {} owns, to {}", MEMBERS[owner], MEMBERS[other])).await;
        pin(&self.members[0].client, &self.path, "0", MEMBERS[other]).await?;
        self.board.owner_is(0, other).await?;
        self.settled(&[6, 6]).await?;
        for Member { client, assigner, work } in self.members {
            assigner.leave().await;
            until(work).await???;
            client.close().await?;
        }
        self.board.never_two()
    }

    async fn join(&self, number: usize) -> Result<Member> {
        let client = self.stage.connect().await?;
        let assigner = PartitionAssigner::builder(&client, &self.path)
            .partitions(0..PARTITIONS)
            .id(MEMBERS[number])
            .rebalance_delay(REBALANCE_DELAY)
            .join()
            .await?;
        let assigner = Arc::new(assigner);
        let (running, board) = (Arc::clone(&assigner), self.board.clone());
        let work = self.stage.spawn(&client, async move {
            Ok(running.run(move |partition: Owned| work(partition, number, board.clone()).boxed()).await?)
        });
        Ok(Member { client, assigner, work })
    }

    /// Ends the process of a member, and starts it again with the same id.
    async fn restart(&mut self, number: usize) -> Result<()> {
        let old = &mut self.members[number];
        old.assigner.leave_for_restart().await;
        until(&mut old.work).await???;
        old.client.close().await?;
        self.members[number] = self.join(number).await?;
        until(self.members[number].assigner.settled()).await??;
        self.board.all_owned().await
    }

    /// The last member fails: in memory its process is stopped, on a real ensemble its client closes.
    async fn lose_the_last(&mut self) -> Result<()> {
        let Some(lost) = self.members.pop() else { return Ok(()) };
        let number = self.members.len();
        let name = MEMBERS[number];
        let Some(server) = self.stage.embedded() else {
            step(&format!("{name} fails: its partitions stay reserved for {REBALANCE_DELAY:?}")).await;
            self.board.leaves(number);
            lost.client.close().await?;
            return self.settled(&[6, 6]).await;
        };
        let partition = lost.assigner.assigned().into_iter().next().ok_or("it owns nothing")?;
        self.prepare_write(&lost.client, &partition).await?;
        step(&format!("{name} is stopped: the others wait for the end of its session and {REBALANCE_DELAY:?}")).await;
        server.freeze_client(&lost.client);
        self.board.leaves(number);
        self.settled(&[6, 6]).await?;
        step(&format!("{name} continues, and writes for partition {} as if nothing had happened", partition.id()))
            .await;
        server.thaw_client(&lost.client);
        let (client, path) = (lost.client.clone(), self.path.clone());
        let write = self.stage.spawn(&lost.client, async move {
            println!("{name} still owns partition {}: {}", partition.id(), partition.is_held());
            write(&client, &path, &partition).await
        });
        match until(write).await?? {
            Ok(()) => return Err(format!("the write of {name} was not refused").into()),
            Err(error) => println!("the ensemble refuses the write: {error}"),
        }
        lost.client.close().await?;
        self.settled(&[6, 6]).await
    }

    /// Creates the node that the owner of a partition writes, and writes it.
    async fn prepare_write(&self, client: &Client, partition: &Owned) -> Result<()> {
        client.create_containers(&format!("{}-work", self.path)).await?;
        client.create(&node(&self.path, partition), "", CreateMode::Persistent).await?;
        Ok(write(client, &self.path, partition).await?)
    }

    /// Waits until the members own so many partitions each, and prints who owns what.
    async fn settled(&mut self, counts: &[usize]) -> Result<()> {
        self.board.counts(counts).await?;
        self.board.never_two()?;
        let owners = self.board.owners();
        for (number, name) in MEMBERS.iter().enumerate().take(self.members.len()) {
            let owned: Vec<usize> = (0..owners.len()).filter(|partition| owners[*partition] == Some(number)).collect();
            println!("{name:6} {:>2}: {}", owned.len(), ranges(&owned));
        }
        let moved = self.before.iter().zip(&owners).filter(|(before, now)| before.is_some() && before != now).count();
        println!("{} moved", count(moved, "partition has", "partitions have"));
        self.before = owners;
        Ok(())
    }
}

fn node(path: &str, partition: &Owned) -> String {
    format!("{path}-work/{}", partition.id())
}

/// Writes what only the owner of the partition may write.
async fn write(client: &Client, path: &str, partition: &Owned) -> Result<(), Error> {
    let token = partition.fencing_token().to_string();
    let write = client.transaction().check(&partition.fence()).set_data(&node(path, partition), token, None);
    write.commit().await.map(drop)
}

/// Returns numbers in ascending order as text: `0-3 5 9-11`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let text = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(usize::to_string).collect(),
    });
    text.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::ErrorKind;
    use zookeeper_recipes::testing::TestingServer;

    use super::*;

    #[test]
    fn numbers_are_printed_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2 5 7-8");
        assert_eq!(ranges(&[]), "");
    }

    #[tokio::test]
    async fn a_member_that_has_handed_a_partition_over_changes_nothing() -> Result<()> {
        let server = TestingServer::start();
        let (one, two) = (server.client().await?, server.client().await?);
        let builder =
            |client, id| PartitionAssigner::builder(client, "/p").partitions(0..2).id(id).grace_period(Duration::ZERO);
        let alice = builder(&one, "alice").join().await?;
        let bob = builder(&two, "bob").join().await?;
        until(async { alice.settled().await.and(bob.settled().await) }).await??;
        let partition = alice.assigned().into_iter().next().ok_or("alice owns nothing")?;
        one.create_containers("/p-work").await?;
        one.create(&node("/p", &partition), "", CreateMode::Persistent).await?;
        write(&one, "/p", &partition).await?;
        pin(&two, "/p", partition.id(), "bob").await?;
        until(partition.lost()).await?;
        let theirs = until(async {
            loop {
                let owned = bob.assigned().into_iter().find(|owned| owned.id() == partition.id());
                match owned {
                    Some(owned) => return owned,
                    None => tokio::task::yield_now().await,
                }
            }
        });
        let theirs = theirs.await?;
        write(&two, "/p", &theirs).await?;
        let late = write(&one, "/p", &partition).await.expect_err("refused");
        let written = one.get(&node("/p", &partition)).await?.0;
        assert_eq!((late.kind(), written), (ErrorKind::Fenced, theirs.fencing_token().to_string().into_bytes()));
        Ok(())
    }
}
