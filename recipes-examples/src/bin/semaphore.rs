//! A limited number of holders, `InterProcessSemaphore`: workers share a few licences.
//!
//! It plays a scenario and ends: six workers need a licence for each of their jobs, and there are three. An operator
//! lowers the number to one and raises it again while they work.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, until};
use zookeeper_recipes::semaphore::InterProcessSemaphore;
use zookeeper_recipes::{Client, CreateMode};

/// A limited number of holders.
#[derive(Parser, Debug)]
#[command(name = "semaphore")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the licences
    #[arg(long, default_value = "/examples/semaphore", value_parser = recipes_examples::path)]
    path: String,
}

const USES: [(&str, &str); 3] = [
    ("/leases", "a znode for each licence that is taken or asked for, ephemeral"),
    ("/locks", "the line of the workers that wait, ephemeral"),
    ("-count", "the number of licences, as Curator's SharedCount writes it, ephemeral"),
];

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

const WORKERS: usize = 6;
const LICENCES: i32 = 3;
const JOBS: usize = 4;
/// How long a job takes.
const JOB: Duration = Duration::from_millis(60);

/// How many work at the moment, and the most that worked at once.
#[derive(Default)]
struct Office {
    working: AtomicUsize,
    most: AtomicUsize,
}

impl Office {
    /// Counts a worker that begins to work. Returns how many work.
    fn begin(&self) -> usize {
        let working = self.working.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(working, Ordering::SeqCst);
        working
    }

    fn end(&self) {
        self.working.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Plays six workers and an operator.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("{WORKERS} workers and {LICENCES} licences at {path}, on {stage}\n");
    let operator = stage.connect().await?;
    let number = number_of(path);
    if let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
        operator.create_containers(parent).await?;
    }
    operator.create(&number, LICENCES.to_be_bytes(), CreateMode::Ephemeral).await?;
    let office = Arc::new(Office::default());
    let workers = (1..=WORKERS).map(|worker| work(stage, path, worker, &office));
    let workers = futures::future::try_join_all(workers);
    let (jobs, ()) = until(futures::future::try_join(workers, operate(&operator, path))).await??;
    let (jobs, most) = (jobs.into_iter().sum(), office.most.load(Ordering::SeqCst));
    println!("\n{}, at most {most} at a time.", count(jobs, "job", "jobs"));
    // Each holds a licence from before its job until after it.
    if most > LICENCES as usize {
        return Err(format!("there are only {LICENCES} licences").into());
    }
    Ok(())
}

fn number_of(path: &str) -> String {
    format!("{path}-count")
}

/// Runs one worker, which needs a licence for each of its jobs.
async fn work(stage: &Stage, path: &str, worker: usize, office: &Office) -> Result<usize> {
    let client = stage.connect().await?;
    let licences = InterProcessSemaphore::builder(&client, path)
        .permits_from(number_of(path))
        .data(format!("worker {worker}"))
        .build()?;
    for job in 1..=JOBS {
        let licence = licences.acquire(1).await?;
        let working = office.begin();
        println!("worker {worker} does job {job}; {working} at work");
        // Once the licence is lost, the job is dropped at the next await that has to wait.
        let done = licence.run(tokio::time::sleep(JOB)).await;
        office.end();
        licence.release().await?;
        done?;
    }
    Ok(JOBS)
}

/// Lowers the number of licences, and raises it again.
async fn operate(operator: &Client, path: &str) -> Result<()> {
    for (after, licences) in [(JOB * 2, 1), (JOB * 6, LICENCES)] {
        tokio::time::sleep(after).await;
        operator.set(&number_of(path), licences.to_be_bytes(), None).await?;
        println!("the operator sets the number of licences to {licences}");
    }
    Ok(())
}
