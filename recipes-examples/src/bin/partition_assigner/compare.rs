//! Three ways to decide which member works on which of 100 partitions, and the cost of each.

use std::time::Duration;

use futures::future::{BoxFuture, select_all};
use recipes_examples::{Result, Stage, println, until};
use tokio::time::Instant;
use zookeeper_recipes::Client;
use zookeeper_recipes::testing::{RecordKind, TestingServer, WatchEvent};

use crate::board::Board;
use crate::{MEMBERS, assigner, each_alone};

pub(crate) const PARTITIONS: u32 = 100;
/// After this long without a request, all members have finished or wait.
const CALM: Duration = Duration::from_millis(300);

#[derive(Clone, Copy)]
enum Way {
    Assigner,
    Elections,
    Race,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Assigner => "PartitionAssigner",
            Way::Elections => "an election for each",
            Way::Race => "a race for each",
        }
    }
}

/// Plays all three, each below a path of its own, and prints a table.
pub(crate) async fn play(stage: &Stage, path: &str) -> Result<()> {
    println!("\nThe cost: {} members and {PARTITIONS} partitions, in three ways\n", MEMBERS.len());
    println!("{:22}{:>26}    then the member with most partitions leaves", "", "to begin with");
    println!(
        "{:22}{:>9}{:>17}{:>12}{:>7}{:>14}{:>18}",
        "", "requests", "owned by each", "requests", "woken", "all owned in", "owned by each"
    );
    for (way, name) in [(Way::Assigner, "assigner"), (Way::Elections, "elections"), (Way::Race, "race")] {
        let cluster = Cluster::start(stage, way, &format!("{path}/{name}")).await?;
        cluster.measure(way).await?;
    }
    println!(
        "\nEvery partition had an owner, and never two.\n\n\
         requests       sent by all members until none has work left, without heartbeats\n\
         woken          notifications that the servers sent{}\n\
         all owned in   the time until each partition has an owner again; the assigner first waits 200 ms for others\n\
         \x20              that leave, unless its leader leaves",
        if stage.embedded().is_some() { "" } else { ": only the ensemble in memory counts them" }
    );
    Ok(())
}

/// A member at work.
struct Member {
    number: usize,
    client: Client,
    work: BoxFuture<'static, Result<Result<()>>>,
}

/// The members, all of which use the same way.
struct Cluster<'a> {
    stage: &'a Stage,
    board: Board,
    members: Vec<Member>,
}

impl<'a> Cluster<'a> {
    async fn start(stage: &'a Stage, way: Way, path: &str) -> Result<Cluster<'a>> {
        let board = Board::new(PARTITIONS);
        let mut clients = Vec::new();
        for _ in MEMBERS {
            clients.push(stage.connect().await?);
        }
        clients[0].create_containers(path).await?;
        let start = |(number, client): (usize, Client)| {
            let (whose, path, board) = (client.clone(), path.to_owned(), board.clone());
            let work = stage.spawn(&client, async move {
                match way {
                    Way::Assigner => assigner::take_part(&whose, number, &path, &board).await,
                    Way::Elections => each_alone::elect(&whose, number, &path, &board).await,
                    Way::Race => each_alone::race(&whose, number, &path, &board).await,
                }
            });
            Member { number, client, work }
        };
        let members = clients.into_iter().enumerate().map(start).collect();
        Ok(Cluster { stage, board, members })
    }

    /// Counts what the start and the end of a member cost, and prints a row of the table.
    async fn measure(mut self, way: Way) -> Result<()> {
        self.all_owned().await?;
        let to_begin = self.calm().await?;
        let owned = self.board.owned();
        // Among equals the first one.
        let most = (0..MEMBERS.len()).rev().max_by_key(|number| owned[*number]).unwrap_or_default();
        let leaver = self.members.remove(most);
        let before = self.requests();
        if let Some(server) = self.stage.embedded() {
            server.clear_records();
        }
        let began = Instant::now();
        self.board.leaves(leaver.number);
        // The member does not leave: its session ends.
        leaver.client.close().await?;
        self.all_owned().await?;
        let took = began.elapsed();
        let then = self.calm().await? - before;
        let woken = self.stage.embedded().map_or("-".to_owned(), |server| notifications(server).to_string());
        println!(
            "{:22}{to_begin:>9}{:>17}{then:>12}{woken:>7}{:>11} ms{:>18}",
            way.name(),
            numbers(&owned),
            took.as_millis(),
            numbers(&self.board.owned())
        );
        self.board.never_two()?;
        for member in self.members {
            self.board.leaves(member.number);
            member.client.close().await?;
        }
        Ok(())
    }

    /// Waits until each partition has an owner, or a member fails.
    async fn all_owned(&mut self) -> Result<()> {
        let failed = select_all(self.members.iter_mut().map(|member| &mut member.work));
        tokio::select! {
            biased;
            (ended, ..) = failed => ended?.and(Err("a member has ended by itself".into())),
            owned = self.board.all_owned() => owned,
        }
    }

    fn requests(&self) -> u64 {
        self.members.iter().map(|member| member.client.request_counts().total()).sum()
    }

    /// Waits until no member sends requests any more, and returns how many there were.
    async fn calm(&self) -> Result<u64> {
        until(async {
            let mut before = self.requests();
            loop {
                tokio::time::sleep(CALM).await;
                let now = self.requests();
                if now == before {
                    return now;
                }
                before = now;
            }
        })
        .await
    }
}

fn numbers(owned: &[usize]) -> String {
    owned.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns how many notifications of changed znodes the servers have sent.
fn notifications(server: &TestingServer) -> usize {
    let told = |event: &WatchEvent| *event != WatchEvent::SessionEnded;
    server
        .records()
        .iter()
        .filter(|record| matches!(&record.what, RecordKind::Event { event, .. } if told(event)))
        .count()
}
