//! A barrier for maintenance, `Barrier`: workers pause while an operator works on what they share.
//!
//! It plays a scenario and ends: four workers do one job after another, and wait at the barrier before each. An
//! operator sets the barrier twice, waits until no job is under way, does the maintenance, and removes it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, until};
use tokio::sync::watch;
use zookeeper_recipes::barrier::Barrier;

/// A barrier for maintenance.
#[derive(Parser, Debug)]
#[command(name = "barrier")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the barrier
    #[arg(long, default_value = "/examples/barrier", value_parser = recipes_examples::path)]
    path: String,
}

const USES: [(&str, &str); 1] = [("", "the barrier, persistent: it is set while this znode exists")];

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        Znodes { path: &self.path, shared_by: None, uses: &USES }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    stage.play(scenario(&stage, &stage.own_path(&options.path))).await
}

const WORKERS: usize = 4;
const MAINTENANCES: usize = 2;
/// How long a job takes.
const JOB: Duration = Duration::from_millis(100);
/// How long the maintenance takes.
const MAINTENANCE: Duration = Duration::from_millis(500);

/// What the example checks; the workers and the operator coordinate through the barrier alone.
struct Office {
    /// Odd while the barrier is set for certain: from the end of `set` to the beginning of `remove`.
    phase: AtomicUsize,
    /// How many workers are at work.
    working: watch::Sender<usize>,
    jobs: AtomicUsize,
    /// Jobs whose worker reached the barrier, and passed it, while it was set.
    too_early: AtomicUsize,
    closed: AtomicBool,
}

/// Plays four workers and an operator.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("{WORKERS} workers and a barrier at {path}, on {stage}\n");
    let office = Office {
        phase: AtomicUsize::new(0),
        working: watch::Sender::new(0),
        jobs: AtomicUsize::new(0),
        too_early: AtomicUsize::new(0),
        closed: AtomicBool::new(false),
    };
    let workers = (0..WORKERS).map(|_| work(stage, path, &office));
    let workers = futures::future::try_join_all(workers);
    until(futures::future::try_join(workers, operate(stage, path, &office))).await??;
    let too_early = office.too_early.load(Ordering::SeqCst);
    println!("\n{}, {too_early} of them during {MAINTENANCES} maintenances.", jobs_of(&office));
    if too_early > 0 {
        return Err("no job may begin while the barrier is set".into());
    }
    Ok(())
}

/// Runs one worker, which waits at the barrier before each of its jobs.
async fn work(stage: &Stage, path: &str, office: &Office) -> Result<()> {
    let client = stage.connect().await?;
    let barrier = Barrier::new(&client, path)?;
    while !office.closed.load(Ordering::SeqCst) {
        let came = office.phase.load(Ordering::SeqCst);
        // One request if the barrier is not set.
        barrier.wait().await?;
        office.working.send_modify(|working| *working += 1);
        office.jobs.fetch_add(1, Ordering::SeqCst);
        if came % 2 == 1 && came == office.phase.load(Ordering::SeqCst) {
            office.too_early.fetch_add(1, Ordering::SeqCst);
        }
        tokio::time::sleep(JOB).await;
        office.working.send_modify(|working| *working -= 1);
    }
    Ok(())
}

/// Does the maintenance twice.
async fn operate(stage: &Stage, path: &str, office: &Office) -> Result<()> {
    let client = stage.connect().await?;
    let barrier = Barrier::new(&client, path)?;
    for _ in 0..MAINTENANCES {
        tokio::time::sleep(JOB * 5).await;
        println!("{} done so far; the operator sets the barrier", jobs_of(office));
        barrier.set().await?;
        office.phase.fetch_add(1, Ordering::SeqCst);
        // Jobs that have begun continue.
        office.working.subscribe().wait_for(|working| *working == 0).await?;
        println!("no job is under way; the maintenance begins");
        tokio::time::sleep(MAINTENANCE).await;
        println!("the operator removes the barrier");
        office.phase.fetch_add(1, Ordering::SeqCst);
        barrier.remove().await?;
    }
    tokio::time::sleep(JOB * 5).await;
    office.closed.store(true, Ordering::SeqCst);
    Ok(())
}

fn jobs_of(office: &Office) -> String {
    count(office.jobs.load(Ordering::SeqCst), "job", "jobs")
}
