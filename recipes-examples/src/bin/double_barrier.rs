//! Steps that all begin together and end together, with `DoubleBarrier`: nobody starts a step before all are there, nobody goes
//! on before all are done.
//!
//! Without `--id` it plays a scenario with four workers and ends: they add up numbers in rounds, then one of them crashes. With
//! `--id NAME` it is one worker of `--members`; start it in as many terminals.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use futures::future::join_all;
use recipes_examples::{Ensemble, Result, Stage, until};
use zookeeper_recipes::double_barrier::DoubleBarrier;

/// Steps that all begin and end together with DoubleBarrier.
#[derive(Parser, Debug)]
#[command(name = "double_barrier")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the barrier
    #[arg(long, default_value = "/examples/double-barrier")]
    path: String,
    /// How many members open a round, with --id
    #[arg(long, default_value_t = 3)]
    members: usize,
    /// Be one member with this name on a real ensemble, until Ctrl-C; without it a scenario is played
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    match &options.id {
        Some(id) => {
            stage.needs_real("--id")?;
            stage.play(participate(&stage, &options, id)).await
        }
        None => stage.play(scenario(&stage, &stage.own_path(&options.path))).await,
    }
}

/// One member in a process of its own.
async fn participate(stage: &Stage, options: &Options, id: &str) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
    let barrier = DoubleBarrier::builder(&client, &options.path, options.members).data(id).start()?;
    for step in 1.. {
        println!("{id}: waits for {} members (Ctrl-C to leave)", options.members);
        if let Err(error) = barrier.enter().await {
            println!("{id}: {error}");
            continue;
        }
        println!("{id}: ALL ARE HERE, step {step} begins");
        tokio::time::sleep(Duration::from_secs(2)).await;
        println!("{id}: is done, and waits for the others");
        match barrier.leave().await {
            Ok(()) => println!("{id}: ALL ARE DONE"),
            Err(error) => println!("{id}: {error}"),
        }
    }
    Ok(())
}

const NAMES: [&str; 4] = ["alice", "bob", "carol", "dave"];
const STEPS: u64 = 5;

/// What the workers have in common: the sum so far, and how often somebody was out of step.
#[derive(Default)]
struct Board {
    sum: AtomicU64,
    out_of_step: AtomicU64,
}

async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("Four workers, {STEPS} steps at {path}, on {stage}\n");
    let board = Arc::new(Board::default());
    let mut workers = Vec::new();
    for (number, name) in NAMES.into_iter().enumerate() {
        let client = stage.connect().await?;
        let barrier = DoubleBarrier::builder(&client, path, NAMES.len()).data(name).start()?;
        workers.push(stage.spawn(&client, work(name, number as u64 + 1, barrier, Arc::clone(&board))));
    }
    for worked in until(join_all(workers)).await? {
        worked??;
    }
    let (sum, out_of_step) = (board.sum.load(Ordering::SeqCst), board.out_of_step.load(Ordering::SeqCst));
    crash(stage, path).await?;
    println!("\n       {STEPS} steps: the sum is {sum}, out of step {out_of_step} times");
    if out_of_step > 0 {
        return Err("somebody was out of step".into());
    }
    Ok(())
}

/// In each step everybody adds its number; whoever is slow is waited for.
async fn work(name: &'static str, number: u64, barrier: DoubleBarrier, board: Arc<Board>) -> Result<()> {
    let all: u64 = (1..=NAMES.len() as u64).sum();
    for step in 1..=STEPS {
        barrier.enter().await?;
        if number == 1 {
            println!("       step {step}: all are here");
        }
        // At the start of a step nobody can be a step behind.
        let sum = board.sum.load(Ordering::SeqCst);
        let behind = sum < (step - 1) * all;
        tokio::time::sleep(Duration::from_millis(60 * number)).await;
        board.sum.fetch_add(number, Ordering::SeqCst);
        println!("{name:>6} adds {number}");
        barrier.leave().await?;
        // Everybody has left, so everybody has added.
        let missing = board.sum.load(Ordering::SeqCst) < step * all;
        board.out_of_step.fetch_add(u64::from(behind) + u64::from(missing), Ordering::SeqCst);
    }
    Ok(())
}

/// One of two dies inside: the other is held up until its session is over, and no longer.
async fn crash(stage: &Stage, path: &str) -> Result<()> {
    println!("\n       Two more enter, and one of them loses its session inside.");
    let path = format!("{path}-crash");
    let (one, two) = (stage.connect().await?, stage.connect().await?);
    let (erin, frank) = (DoubleBarrier::new(&one, &path, 2)?, DoubleBarrier::new(&two, &path, 2)?);
    let (erin_in, frank_in) = until(async { tokio::join!(erin.enter(), frank.enter()) }).await?;
    erin_in?;
    frank_in?;
    match stage.embedded() {
        Some(server) => drop(server.expire_session(&one)),
        None => one.close().await?,
    }
    until(frank.leave()).await??;
    println!(" frank has left: erin's node is gone with her session");
    let error = until(erin.leave()).await?.err().ok_or("erin should have been told")?;
    println!("  erin is told: {error}");
    if frank.enter_timeout(Duration::from_secs(1)).await? {
        return Err("frank went in alone".into());
    }
    println!(" frank waits for a second one in vain, and leaves no trace");
    Ok(())
}
