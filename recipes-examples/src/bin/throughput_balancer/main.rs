//! A maximum throughput for a whole cluster with `ThroughputBalancer`: one leader divides it among the members.
//!
//! Without `--member` it plays a scenario and ends: five members join and leave, and the maximum is lowered; then
//! three workers of different weights, each limited to its share; then a rolling restart, with a plot of all shares
//! over time. With `--member` it is one member on a real ensemble: start it in several terminals, and set the maximum
//! in another one with `--set-max N`.

mod crew;
mod history;
mod plot;
mod rolling_restart;
mod table;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use futures::StreamExt;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, tell_connection};
use zookeeper_recipes::limiter::ShareLimiter;
use zookeeper_recipes::throughput_balancer::{Event, MAX_THROUGHPUT, ThroughputBalancer, set_max_throughput};

use self::crew::Crew;
use self::rolling_restart::RollingRestart;
use self::table::Table;

/// A maximum throughput for a whole cluster with ThroughputBalancer.
#[derive(Parser, Debug)]
#[command(name = "throughput_balancer")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The base path of the balancer
    #[arg(long, default_value = "/examples/throughput-balancer", value_parser = recipes_examples::path)]
    path: String,
    /// Run as one member on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long)]
    member: bool,
    /// Set the maximum of the members on a real ensemble, and end [default: play a scenario]
    #[arg(long, value_name = "N", conflicts_with = "member", allow_negative_numbers = true, value_parser = maximum)]
    set_max: Option<u64>,
}

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        match (self.member, self.set_max) {
            (true, _) => Znodes { path: &self.path, shared_by: Some("--member"), uses: &[BASE, MAXIMUM] },
            (_, Some(_)) => Znodes { path: &self.path, shared_by: Some("--set-max"), uses: &[BASE, MAXIMUM] },
            _ => Znodes { path: &self.path, shared_by: None, uses: &[BASE, MAXIMUM, WEIGHTED, RESTART] },
        }
    }
}

fn maximum(value: &str) -> Result<u64, String> {
    recipes_examples::number(value, 0, MAX_THROUGHPUT)
}

const BASE: (&str, &str) = ("", "the balancer: its members, their shares, and the election of the leader");
const MAXIMUM: (&str, &str) = ("/global-config/max-throughput", "the maximum, as decimal text");
const WEIGHTED: (&str, &str) = ("-weighted", "the same, for the workers with weights");
const RESTART: (&str, &str) = ("-restart", "the same, for the rolling restart");

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    match options {
        Options { set_max: Some(maximum), path, .. } => stage.play(operate(&stage, &path, maximum)).await,
        Options { member: true, path, .. } => stage.play(participate(&stage, &path)).await,
        Options { path, .. } => stage.play(scenario(&stage, &stage.own_path(&path))).await,
    }
}

/// Sets the maximum, as an operator that need not be a member.
async fn operate(stage: &Stage, path: &str, maximum: u64) -> Result<()> {
    let client = stage.connect().await?;
    set_max_throughput(&client, path, maximum).await?;
    println!("The maximum of {path} is now {maximum} a second.");
    Ok(())
}

/// Runs one member in a process of its own, which works as fast as its share allows.
async fn participate(stage: &Stage, path: &str) -> Result<()> {
    println!("connecting to {stage}");
    let client = stage.connect().await?;
    tell_connection(&client, "this member");
    let (limiter, done) = (ShareLimiter::new(0), AtomicU64::new(0));
    let balancer = ThroughputBalancer::builder(&client, path).limiter(&limiter).join().await?;
    println!("{}: is a member of {path} (Ctrl-C to end; --set-max N sets the maximum)", name(&balancer));
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
            let leads = if balancer.is_leader() { ", and I lead" } else { "" };
            println!("{}: MY SHARE IS {throughput} a second{leads}", name(balancer));
        }
    }
}

async fn tell_events(balancer: &ThroughputBalancer) {
    let mut events = balancer.events();
    while let Some(event) = events.next().await {
        let name = name(balancer);
        match event {
            Event::TookOver { .. } => println!("{name}: I LEAD, and divide the maximum from now on"),
            Event::Settled { maximum, members, shared } => {
                let members = count(members, "member has its share", "members have their shares");
                println!("{name}: {members}, {shared} of {maximum} together");
            }
            Event::Exceeded { maximum, by } => {
                println!("{name}: the shares exceed the new maximum {maximum} by {by}, until all members follow")
            }
            Event::MaximumInvalid { why } => println!("{name}: the shares stay as they are: {why} (--set-max N)"),
            Event::Unacked { member, held } => {
                println!("{name}: {member} has not confirmed its lower share, and still counts with {held}")
            }
            Event::Registered { member } => println!("{name}: I am registered as {member}"),
            Event::Unregistered { member } => println!("{name}: I am no longer {member}"),
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

/// Works as fast as the limiter allows.
async fn work(limiter: &ShareLimiter, done: &AtomicU64) -> Result<()> {
    loop {
        limiter.acquire(1).await?;
        done.fetch_add(1, Ordering::Relaxed);
    }
}

async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("A maximum for a cluster at {path}, on {stage}\n");
    Table::new(stage, path).play().await?;
    Crew::assemble(stage, &format!("{path}-weighted")).await?.play().await?;
    RollingRestart::new(stage, format!("{path}-restart")).play().await
}
