//! A maximum throughput for a whole cluster with `ThroughputBalancer`: one leader divides it among the members that live.
//!
//! Without `--member` it plays a scenario with five members and ends: they come and go, the maximum is lowered; then three
//! workers of different weight, each held to its share by a limiter. With `--member` it is one member on a real ensemble; start
//! it in several terminals, and set the maximum from another one with `--set-max N`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use recipes_examples::{Ensemble, Result, Stage, println, until};
use tokio::sync::watch;
use tokio::time::Instant;
use zookeeper_recipes::Client;
use zookeeper_recipes::limiter::ShareLimiter;
use zookeeper_recipes::throughput_balancer::{Allocation, Event, ThroughputBalancer, set_max_throughput};

/// A maximum throughput for a whole cluster with ThroughputBalancer.
#[derive(Parser, Debug)]
#[command(name = "throughput_balancer")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The base path of the balancer
    #[arg(long, default_value = "/examples/throughput-balancer")]
    path: String,
    /// Be one member on a real ensemble, until Ctrl-C; without it a scenario is played
    #[arg(long)]
    member: bool,
    /// Set the maximum for the members on a real ensemble, and end
    #[arg(long, value_name = "N", conflicts_with = "member")]
    set_max: Option<u64>,
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    match options {
        Options { set_max: Some(maximum), path, .. } => {
            stage.needs_real("--set-max")?;
            stage.play(operate(&stage, &path, maximum)).await
        }
        Options { member: true, path, .. } => {
            stage.needs_real("--member")?;
            stage.play(participate(&stage, &path)).await
        }
        Options { path, .. } => stage.play(scenario(&stage, &stage.own_path(&path))).await,
    }
}

/// The operator, who need not be a member.
async fn operate(stage: &Stage, path: &str, maximum: u64) -> Result<()> {
    let client = stage.connect().await?;
    set_max_throughput(&client, path, maximum).await?;
    println!("The maximum of {path} is {maximum} a second now.");
    Ok(())
}

/// One member in a process of its own: works as fast as its share allows.
async fn participate(stage: &Stage, path: &str) -> Result<()> {
    println!("connecting to {stage}");
    let client = stage.connect().await?;
    let (limiter, done) = (ShareLimiter::new(0), AtomicU64::new(0));
    let balancer = ThroughputBalancer::builder(&client, path).limiter(&limiter).join().await?;
    println!("{}: is a member of {path} (Ctrl-C to leave; --set-max N sets the maximum)", name(&balancer));
    tokio::select! {
        () = tell_shares(&balancer) => Ok(()),
        () = tell_events(&balancer) => Ok(()),
        worked = work(&limiter, &done) => worked,
        () = tell_work(&balancer, &done) => Ok(()),
    }
}

fn name(balancer: &ThroughputBalancer) -> String {
    balancer.member_id().unwrap_or_else(|| "(between two sessions)".to_owned())
}

async fn tell_shares(balancer: &ThroughputBalancer) {
    let mut shares = balancer.shares();
    let mut last = None;
    while let Some(share) = shares.next().await {
        let throughput = share.throughput();
        if last.replace(throughput) != Some(throughput) {
            let lead = if balancer.is_leader() { ", and I lead" } else { "" };
            println!("{}: MY SHARE IS {throughput} a second{lead}", name(balancer));
        }
    }
}

async fn tell_events(balancer: &ThroughputBalancer) {
    let mut events = balancer.events();
    while let Some(event) = events.next().await {
        let name = name(balancer);
        match event {
            Event::TookOver { .. } => println!("{name}: I LEAD: from now on I divide the maximum"),
            Event::Settled { maximum, members, shared } => {
                println!("{name}: all {members} have their shares, {shared} of {maximum} together");
            }
            Event::Exceeded { maximum, by } => println!("{name}: {by} above the new maximum {maximum}, not for long"),
            Event::MaximumInvalid { why } => println!("{name}: shares stay as they are: {why} (--set-max N)"),
            Event::Unacked { member, held } => {
                println!("{name}: {member} does not say that it has let go of its {held}")
            }
            Event::Registered { member } => println!("{name}: I am {member} now"),
            Event::Unregistered { member } => println!("{name}: I am {member} no more"),
            Event::Failed { error } => println!("{name}: {error}"),
            other => println!("{name}: {other:?}"),
        }
    }
}

async fn tell_work(balancer: &ThroughputBalancer, done: &AtomicU64) {
    const EVERY: u64 = 5;
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(EVERY)).await;
        let now = done.load(Ordering::Relaxed);
        println!("{}: did {} in {EVERY} s, {} a second", name(balancer), now - before, (now - before) / EVERY);
        before = now;
    }
}

/// Works as fast as it may.
async fn work(limiter: &ShareLimiter, done: &AtomicU64) -> Result<()> {
    loop {
        limiter.acquire(1).await?;
        done.fetch_add(1, Ordering::Relaxed);
    }
}

async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("A maximum for a cluster at {path}, on {stage}\n");
    Table::new(stage, path).play().await?;
    Crew::assemble(stage, &format!("{path}-weighted")).await?.play().await
}

/// What everybody applies at this moment, by number, and the most it came to together at any moment of a step. A member is
/// asked for its next share only when the one before stands here, so nothing is missing.
#[derive(Debug, Default)]
struct Applied {
    shares: BTreeMap<usize, u64>,
    most: u64,
}

impl Applied {
    fn together(&self) -> u64 {
        self.shares.values().sum()
    }

    fn set(&mut self, number: usize, throughput: Option<u64>) {
        match throughput {
            Some(throughput) => self.shares.insert(number, throughput),
            None => self.shares.remove(&number),
        };
        self.most = self.most.max(self.together());
    }
}

struct Member {
    client: Client,
    balancer: ThroughputBalancer,
    /// Notes its shares for as long as it is kept.
    _noting: BoxFuture<'static, Result<()>>,
}

/// The first act: members come and go, and each time the maximum is divided by their number.
struct Table<'a> {
    stage: &'a Stage,
    path: &'a str,
    maximum: u64,
    members: BTreeMap<usize, Member>,
    applied: watch::Sender<Applied>,
}

const MEMBERS: usize = 5;

impl<'a> Table<'a> {
    fn new(stage: &'a Stage, path: &'a str) -> Self {
        Table { stage, path, maximum: 1_000, members: BTreeMap::new(), applied: watch::Sender::default() }
    }

    async fn play(mut self) -> Result<()> {
        let names: String = (1..=MEMBERS).map(|number| format!("{:>7}", format!("c{number}"))).collect();
        println!("{:28}{names}{:>11}{:>10}", "", "together", "at most");
        let operator = self.stage.connect().await?;
        set_max_throughput(&operator, self.path, self.maximum).await?;
        self.joins(1).await?;
        self.tell("maximum 1000, c1 comes").await?;
        for number in 2..=4 {
            self.joins(number).await?;
            self.tell(&format!("c{number} comes")).await?;
        }
        // Nobody says goodbye: the session ends, and both of its nodes go.
        self.member(1)?.client.close().await?;
        self.goes(1, "c1 goes, its session ends").await?;
        self.member(4)?.balancer.leave().await;
        self.goes(4, "c4 leaves").await?;
        let before = std::mem::replace(&mut self.maximum, 500);
        set_max_throughput(&operator, self.path, self.maximum).await?;
        self.tell_within("maximum lowered to 500", before).await?;
        self.joins(5).await?;
        self.tell("c5 comes").await?;
        println!(
            "\n* leads: it computes, and writes one node a member. \"At most\" is the most that all together have applied at\n  \
             any moment of a step: never more than the maximum; where that is lowered, than the one before."
        );
        join_all(self.members.values().map(|member| member.balancer.leave())).await;
        Ok(())
    }

    fn member(&self, number: usize) -> Result<&Member> {
        self.members.get(&number).ok_or_else(|| format!("c{number} is not there").into())
    }

    async fn joins(&mut self, number: usize) -> Result<()> {
        let client = self.stage.connect().await?;
        let balancer = until(ThroughputBalancer::builder(&client, self.path).join()).await??;
        let (mut shares, applied) = (balancer.shares(), self.applied.clone());
        let noting = async move {
            while let Some(share) = shares.next().await {
                applied.send_modify(|applied| applied.set(number, Some(share.throughput())));
            }
            applied.send_modify(|applied| applied.set(number, None));
        };
        let _noting = self.stage.spawn(&client, noting);
        self.members.insert(number, Member { client, balancer, _noting });
        Ok(())
    }

    async fn goes(&mut self, number: usize, step: &str) -> Result<()> {
        until(self.applied.subscribe().wait_for(|applied| !applied.shares.contains_key(&number))).await??;
        self.members.remove(&number);
        self.tell(step).await
    }

    async fn tell(&mut self, step: &str) -> Result<()> {
        self.tell_within(step, self.maximum).await
    }

    /// Waits until everybody who is there has its share, and writes a line of the table.
    async fn tell_within(&mut self, step: &str, limit: u64) -> Result<()> {
        let share = self.maximum / self.members.len() as u64;
        let wanted: BTreeMap<_, _> = self.members.keys().map(|number| (*number, share)).collect();
        until(self.applied.subscribe().wait_for(|applied| applied.shares == wanted)).await??;
        let leader = until(self.leader()).await?;
        let cells = (1..=MEMBERS).map(|number| match wanted.get(&number) {
            Some(share) => format!("{:>7}", format!("{}{share}", if number == leader { "*" } else { "" })),
            None => format!("{:>7}", "-"),
        });
        let (together, most) = self.end_step();
        println!("{step:28}{}{together:>11}{most:>10}", cells.collect::<String>());
        if most > limit {
            return Err(format!("{most} together is more than {limit}").into());
        }
        Ok(())
    }

    /// What all apply together, and the most of this step; the next one begins.
    fn end_step(&self) -> (u64, u64) {
        let mut told = (0, 0);
        self.applied.send_modify(|applied| {
            let together = applied.together();
            told = (together, std::mem::replace(&mut applied.most, together));
        });
        told
    }

    async fn leader(&self) -> usize {
        loop {
            if let Some((number, _)) = self.members.iter().find(|(_, member)| member.balancer.is_leader()) {
                return *number;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A worker of the second act: its limiter follows its share, and it works as fast as that allows.
struct Worker {
    name: &'static str,
    balancer: ThroughputBalancer,
    limiter: ShareLimiter,
    done: Arc<AtomicU64>,
    _at_work: BoxFuture<'static, Result<()>>,
}

/// The second act: fair shares by weight, of which one can use only so much, and work that keeps to them.
struct Crew {
    path: String,
    operator: Client,
    workers: Vec<Worker>,
}

/// Names, weights, and how much each can use.
const CREW: [(&str, u64, Option<u64>); 3] = [("alice", 3, None), ("bob", 1, None), ("carol", 1, Some(50))];

impl Crew {
    async fn assemble(stage: &Stage, path: &str) -> Result<Crew> {
        println!("\nFair shares by weight, and work that is limited to them, for a second each:\n");
        let mut workers = Vec::new();
        for (name, weight, most) in CREW {
            let client = stage.connect().await?;
            let (limiter, done) = (ShareLimiter::new(0), Arc::new(AtomicU64::new(0)));
            let builder = ThroughputBalancer::builder(&client, path).allocation(Allocation::FairShare).weight(weight);
            let builder = if let Some(most) = most { builder.max(most) } else { builder };
            let balancer = until(builder.limiter(&limiter).join()).await??;
            let (limited, counted) = (limiter.clone(), Arc::clone(&done));
            let at_work = stage.spawn(&client, async move {
                // Never ends: one is never more than the burst.
                let _ = work(&limited, &counted).await;
            });
            workers.push(Worker { name, balancer, limiter, done, _at_work: at_work });
        }
        Ok(Crew { path: path.to_owned(), operator: stage.connect().await?, workers })
    }

    async fn play(mut self) -> Result<()> {
        let title = |(name, weight, most): (&str, u64, Option<u64>)| {
            let most = most.map(|most| format!(", can use {most}")).unwrap_or_default();
            format!("{:>30}", format!("{name} (weight {weight}{most})"))
        };
        println!("{:20}{}{:>11}", "", CREW.map(title).concat(), "together");
        set_max_throughput(&self.operator, &self.path, 650).await?;
        self.work("maximum 650", &[450, 150, 50]).await?;
        set_max_throughput(&self.operator, &self.path, 250).await?;
        self.work("lowered to 250", &[150, 50, 50]).await?;
        let bob = self.workers.remove(1);
        bob.balancer.leave().await;
        self.work("bob leaves", &[200, 50]).await?;
        println!(
            "\nNobody did more than its share (and what a limiter lets through at once: one, and what comes in 10 ms)."
        );
        join_all(self.workers.iter().map(|worker| worker.balancer.leave())).await;
        Ok(())
    }

    /// Waits until the limiters have these rates, and counts for a second what is done.
    async fn work(&self, step: &str, rates: &[u64]) -> Result<()> {
        let now = || self.workers.iter().map(|worker| worker.limiter.rate()).collect::<Vec<_>>();
        until(async {
            while now() != rates {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await?;
        tell_row(step, &self.workers, rates);
        let began = Instant::now();
        let before: Vec<_> = self.workers.iter().map(|worker| worker.done.load(Ordering::Relaxed)).collect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let done = self.workers.iter().zip(before).map(|(worker, before)| worker.done.load(Ordering::Relaxed) - before);
        let done: Vec<_> = done.collect();
        tell_row("  done", &self.workers, &done);
        for ((worker, done), rate) in self.workers.iter().zip(done).zip(rates) {
            // One permit of burst, and what timers are given time for, beside what the time brings.
            let allowed = (*rate as f64 * (began.elapsed().as_secs_f64() + 0.01)) + 1.0;
            if done as f64 > allowed {
                return Err(format!("{} did {done} of {allowed:.0}", worker.name).into());
            }
        }
        Ok(())
    }
}

/// A line: each number below its worker's name.
fn tell_row(step: &str, workers: &[Worker], numbers: &[u64]) {
    let cells = CREW.map(|(name, ..)| {
        let at = workers.iter().position(|worker| worker.name == name);
        format!("{:>30}", at.map_or("-".to_owned(), |at| numbers[at].to_string()))
    });
    println!("{step:20}{}{:>11}", cells.concat(), numbers.iter().sum::<u64>());
}
