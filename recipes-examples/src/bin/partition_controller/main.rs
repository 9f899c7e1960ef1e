//! Three ways to decide which member leads which of 100 partitions, and the cost of each.
//!
//! One controller, elected with `LeaderLatch`, assigns a leader to each partition; or each partition has an election
//! of its own; or all members try to create one znode for each partition, and those that fail watch it and try again.
//! Five members do it in each way; then the member with most partitions leaves. The figures are counts: the clients
//! count requests, the ensemble in memory counts notifications.

mod controller;
mod each_alone;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use futures::future::{BoxFuture, select_all};
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, println, until};
use tokio::sync::watch;
use tokio::time::Instant;
use zookeeper_recipes::Client;
use zookeeper_recipes::testing::{RecordKind, TestingServer, WatchEvent};

/// Three ways to decide which member leads which of 100 partitions: a controller with LeaderLatch, and two others.
#[derive(Parser, Debug)]
#[command(name = "partition_controller")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the partitions
    #[arg(long, default_value = "/examples/partition-controller", value_parser = recipes_examples::path)]
    path: String,
}

const PARTITIONS: usize = 100;
const MEMBERS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
/// After this long without a request, all members have finished or wait.
const CALM: Duration = Duration::from_millis(300);

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        Znodes {
            path: &self.path,
            shared_by: None,
            uses: &[
                ("/controller", "one controller assigns all: its election, the members, and the table"),
                ("/elections", "an election for each partition"),
                ("/race", "a znode for each partition, ephemeral"),
            ],
        }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    stage.play(scenario(&stage, &stage.own_path(&options.path))).await
}

#[derive(Clone, Copy)]
enum Way {
    Controller,
    Elections,
    Race,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Controller => "one controller assigns all",
            Way::Elections => "an election for each",
            Way::Race => "a race for each",
        }
    }
}

async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("{} members and {PARTITIONS} partitions at {path}, on {stage}\n", MEMBERS.len());
    println!("{:27}{:>26}    then the member with most partitions leaves", "", "to begin with");
    println!(
        "{:27}{:>9}{:>17}{:>12}{:>7}{:>12}{:>16}",
        "", "requests", "led by each", "requests", "woken", "all led in", "led by each"
    );
    for (way, name) in [(Way::Controller, "controller"), (Way::Elections, "elections"), (Way::Race, "race")] {
        let cluster = Cluster::start(stage, way, &format!("{path}/{name}")).await?;
        cluster.measure(way).await?;
    }
    println!(
        "\nEvery partition had a leader, and never two: no member was stopped or cut off.\n\n\
         requests     sent by all members until none has work left, without heartbeats\n\
         woken        notifications that the servers sent{}\n\
         all led in   the time until each partition has a leader again",
        if stage.embedded().is_some() { "" } else { ": only the ensemble in memory counts them" }
    );
    Ok(())
}

/// The leader of each partition, as the leaders themselves report it.
#[derive(Clone)]
struct Board {
    leaders: Arc<watch::Sender<Vec<Option<usize>>>>,
    /// Two leaders of one partition, if there were any.
    twice: Arc<watch::Sender<Option<String>>>,
}

impl Board {
    fn new() -> Self {
        Board { leaders: Arc::new(watch::Sender::new(vec![None; PARTITIONS])), twice: Arc::default() }
    }

    /// Notes that `member` leads from now on.
    fn leads(&self, member: usize, partition: usize) {
        self.leaders.send_modify(|leaders| {
            if let Some(other) = leaders[partition].replace(member).filter(|other| *other != member) {
                let (other, member) = (MEMBERS[other], MEMBERS[member]);
                self.twice.send_replace(Some(format!("{member} leads partition {partition}, and so does {other}")));
            }
        });
    }

    /// Notes that `member` no longer leads any partition.
    fn leaves(&self, member: usize) {
        self.leaders.send_modify(|leaders| {
            leaders.iter_mut().filter(|leader| **leader == Some(member)).for_each(|leader| *leader = None);
        });
    }

    /// Waits until each partition has a leader.
    async fn all_led(&self) -> Result<()> {
        let mut leaders = self.leaders.subscribe();
        until(leaders.wait_for(|leaders| leaders.iter().all(Option::is_some))).await??;
        Ok(())
    }

    fn never_two(&self) -> Result<()> {
        self.twice.borrow().clone().map_or(Ok(()), |twice| Err(twice.into()))
    }

    /// Returns how many partitions each member leads.
    fn led(&self) -> Vec<usize> {
        let leaders = self.leaders.borrow();
        (0..MEMBERS.len()).map(|member| leaders.iter().filter(|leader| **leader == Some(member)).count()).collect()
    }
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
        let board = Board::new();
        let mut clients = Vec::new();
        for _ in MEMBERS {
            clients.push(stage.connect().await?);
        }
        clients[0].create_containers(path).await?;
        if let Way::Controller = way {
            controller::prepare(&clients[0], path).await?;
        }
        let start = |(number, client): (usize, Client)| {
            let (whose, path, board) = (client.clone(), path.to_owned(), board.clone());
            let work = stage.spawn(&client, async move {
                match way {
                    Way::Controller => controller::take_part(&whose, number, &path, &board).await,
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
        self.all_led().await?;
        let to_begin = self.calm().await?;
        let led = self.board.led();
        // Among equals the first one, which is the controller if there is one.
        let most = (0..MEMBERS.len()).rev().max_by_key(|number| led[*number]).unwrap_or_default();
        let leaver = self.members.remove(most);
        let before = self.requests();
        if let Some(server) = self.stage.embedded() {
            server.clear_records();
        }
        let began = Instant::now();
        self.board.leaves(leaver.number);
        // The member does not leave: its session ends.
        leaver.client.close().await?;
        self.all_led().await?;
        let took = began.elapsed();
        let then = self.calm().await? - before;
        let woken = self.stage.embedded().map_or("-".to_owned(), |server| notifications(server).to_string());
        println!(
            "{:27}{to_begin:>9}{:>17}{then:>12}{woken:>7}{:>9} ms{:>16}",
            way.name(),
            numbers(&led),
            took.as_millis(),
            numbers(&self.board.led())
        );
        self.board.never_two()?;
        for member in self.members {
            self.board.leaves(member.number);
            member.client.close().await?;
        }
        Ok(())
    }

    /// Waits until each partition has a leader, or a member fails.
    async fn all_led(&mut self) -> Result<()> {
        let failed = select_all(self.members.iter_mut().map(|member| &mut member.work));
        tokio::select! {
            biased;
            (ended, ..) = failed => ended?.and(Err("a member has ended by itself".into())),
            led = self.board.all_led() => led,
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

fn numbers(led: &[usize]) -> String {
    led.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
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
