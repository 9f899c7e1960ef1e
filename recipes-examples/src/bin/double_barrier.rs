//! Steps that all members begin together and end together, with `DoubleBarrier`.
//!
//! Without `--id` it plays a scenario and ends: four members add up numbers in steps; then one of two others crashes.
//! With `--id NAME` it is one member of `--members` on a real ensemble: start it in as many terminals.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use futures::future::join_all;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, tell_connection, until};
use zookeeper_recipes::double_barrier::DoubleBarrier;

/// Steps that all begin and end together with DoubleBarrier.
#[derive(Parser, Debug)]
#[command(name = "double_barrier")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the barrier
    #[arg(long, default_value = "/examples/double-barrier", value_parser = recipes_examples::path)]
    path: String,
    /// The number of members that a step needs, with --id
    #[arg(long, value_name = "N", default_value_t = 3, requires = "id")]
    #[arg(allow_negative_numbers = true, value_parser = members)]
    members: u64,
    /// Run as one member with this name on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, value_name = "NAME", value_parser = recipes_examples::name())]
    id: Option<String>,
}

const BARRIER: (&str, &str) = ("", "the barrier: a znode for each member, ephemeral, and `ready`");
const CRASH: (&str, &str) = ("-crash", "the same, for the two of which one crashes");

fn members(value: &str) -> Result<u64, String> {
    recipes_examples::number(value, 1, 1_000)
}

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        match &self.id {
            Some(_) => Znodes { path: &self.path, shared_by: Some("--id"), uses: &[BARRIER] },
            None => Znodes { path: &self.path, shared_by: None, uses: &[BARRIER, CRASH] },
        }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    match &options.id {
        Some(id) => stage.play(participate(&stage, &options, id)).await,
        None => stage.play(scenario(&stage, &stage.own_path(&options.path))).await,
    }
}

/// Runs one member in a process of its own.
async fn participate(stage: &Stage, options: &Options, id: &str) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
    tell_connection(&client, id);
    let members = usize::try_from(options.members)?;
    let barrier = DoubleBarrier::builder(&client, &options.path, members).data(id).build()?;
    for step in 1.. {
        let members = count(members, "member", "members");
        println!("{id}: enters, and waits for {members} in all (Ctrl-C to end)");
        if let Err(error) = barrier.enter().await {
            println!("{id}: {error}");
            continue;
        }
        println!("{id}: ALL HAVE ENTERED; step {step} begins");
        tokio::time::sleep(Duration::from_secs(2)).await;
        println!("{id}: the work is done; leaves, and waits for the others");
        match barrier.leave().await {
            Ok(()) => println!("{id}: ALL HAVE LEFT"),
            Err(error) => println!("{id}: {error}"),
        }
    }
    Ok(())
}

const NAMES: [&str; 4] = ["alice", "bob", "carol", "dave"];
const STEPS: u64 = 5;
/// The sum that all members add in a step.
const ALL: u64 = 1 + 2 + 3 + 4;

/// What the members share: how often they came to the barrier, the sum so far, and how often one was out of step.
#[derive(Default)]
struct Board {
    arrived: AtomicUsize,
    sum: AtomicU64,
    out_of_step: AtomicUsize,
}

async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("Four members, {STEPS} steps at {path}, on {stage}\n");
    let board = Arc::new(Board::default());
    let mut members = Vec::new();
    for (number, name) in NAMES.into_iter().enumerate() {
        let client = stage.connect().await?;
        let barrier = DoubleBarrier::builder(&client, path, NAMES.len()).data(name).build()?;
        members.push(stage.spawn(&client, work(name, number as u64 + 1, barrier, Arc::clone(&board))));
    }
    for worked in until(join_all(members)).await? {
        worked??;
    }
    let (sum, out_of_step) = (board.sum.load(Ordering::SeqCst), board.out_of_step.load(Ordering::SeqCst));
    crash(stage, path).await?;
    println!("\n       {STEPS} steps: the sum is {sum}, {} out of step", count(out_of_step, "time", "times"));
    if out_of_step > 0 {
        return Err("a member was out of step".into());
    }
    if sum != STEPS * ALL {
        return Err(format!("the sum should be {}", STEPS * ALL).into());
    }
    Ok(())
}

/// Adds its number in each step, and waits for the slower members.
async fn work(name: &'static str, number: u64, barrier: DoubleBarrier, board: Arc<Board>) -> Result<()> {
    for step in 1..=STEPS {
        tokio::time::sleep(Duration::from_millis(20 * number)).await;
        board.arrived.fetch_add(1, Ordering::SeqCst);
        barrier.enter().await?;
        let early = board.arrived.load(Ordering::SeqCst) < step as usize * NAMES.len();
        if number == 1 {
            println!("       step {step}: all members have entered");
        }
        tokio::time::sleep(Duration::from_millis(60 * number)).await;
        board.sum.fetch_add(number, Ordering::SeqCst);
        println!("{name:>6} adds {number}");
        barrier.leave().await?;
        // All members have left this step, so all have added.
        let missing = board.sum.load(Ordering::SeqCst) < step * ALL;
        board.out_of_step.fetch_add(usize::from(early) + usize::from(missing), Ordering::SeqCst);
    }
    Ok(())
}

/// One of two crashes inside a step: the other can leave as soon as that session has ended.
async fn crash(stage: &Stage, path: &str) -> Result<()> {
    println!("\n       Two more enter, and one of them loses its session inside the step.");
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
    println!(" frank has left: erin's znode is gone with her session");
    let error = until(erin.leave()).await?.err().ok_or("erin should have been told")?;
    println!("  erin is told: {error}");
    if frank.enter_timeout(Duration::from_secs(1)).await? {
        return Err("frank entered alone".into());
    }
    println!(" frank enters alone, gives up within a second, and leaves no znode");
    Ok(())
}
