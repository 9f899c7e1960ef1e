//! A barrier for maintenance, `Barrier`: workers pause while an operator works on what they share.
//!
//! It plays a scenario and ends: four workers do one job after another, and wait at the barrier before each. An
//! operator sets the barrier twice, waits until all workers have arrived at it, maintains, and removes it.

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
/// How long a maintenance takes.
const MAINTENANCE: Duration = Duration::from_millis(500);

/// What the example checks; the workers and the operator coordinate through the barrier alone.
struct Office {
    /// How often the barrier has been set.
    set: AtomicUsize,
    /// For each worker, how often the barrier had been set when it last began to wait.
    arrived: [watch::Sender<usize>; WORKERS],
    jobs: AtomicUsize,
    closed: AtomicBool,
}

/// Four workers and an operator.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("{WORKERS} workers and a barrier at {path}, on {stage}\n");
    let office = Office {
        set: AtomicUsize::new(0),
        arrived: std::array::from_fn(|_| watch::Sender::new(0)),
        jobs: AtomicUsize::new(0),
        closed: AtomicBool::new(false),
    };
    let workers = (0..WORKERS).map(|worker| work(stage, path, worker, &office));
    let workers = futures::future::try_join_all(workers);
    let (_, during) = until(futures::future::try_join(workers, operate(stage, path, &office))).await??;
    let jobs = office.jobs.load(Ordering::SeqCst);
    println!("\n{}, {during} of them during {MAINTENANCES} maintenances.", count(jobs, "job", "jobs"));
    if during > 0 {
        return Err("no job may begin while the barrier is set".into());
    }
    Ok(())
}

/// One worker, which waits at the barrier before each of its jobs.
async fn work(stage: &Stage, path: &str, worker: usize, office: &Office) -> Result<()> {
    let client = stage.connect().await?;
    let barrier = Barrier::new(&client, path)?;
    while !office.closed.load(Ordering::SeqCst) {
        office.arrived[worker].send_replace(office.set.load(Ordering::SeqCst));
        // One request if the barrier is not set.
        barrier.wait().await?;
        office.jobs.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(JOB).await;
    }
    Ok(())
}

/// Maintains twice. Returns how many jobs began meanwhile.
async fn operate(stage: &Stage, path: &str, office: &Office) -> Result<usize> {
    let client = stage.connect().await?;
    let barrier = Barrier::new(&client, path)?;
    let mut during = 0;
    for maintenance in 1..=MAINTENANCES {
        tokio::time::sleep(JOB * 5).await;
        println!("{} done so far; the operator sets the barrier", jobs_of(office));
        barrier.set().await?;
        office.set.store(maintenance, Ordering::SeqCst);
        for arrived in &office.arrived {
            arrived.subscribe().wait_for(|seen| *seen == maintenance).await?;
        }
        let before = office.jobs.load(Ordering::SeqCst);
        println!("all workers wait; the operator maintains");
        tokio::time::sleep(MAINTENANCE).await;
        during += office.jobs.load(Ordering::SeqCst) - before;
        println!("the operator removes the barrier");
        barrier.remove().await?;
    }
    tokio::time::sleep(JOB * 5).await;
    office.closed.store(true, Ordering::SeqCst);
    Ok(during)
}

fn jobs_of(office: &Office) -> String {
    count(office.jobs.load(Ordering::SeqCst), "job", "jobs")
}
