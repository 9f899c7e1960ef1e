//! A lock with `InterProcessMutex`: workers take turns on a resource that only one may use at a time.
//!
//! Without `--id` it plays a scenario and ends: one of five workers loses its session while it holds the lock. With
//! `--id NAME` it is one worker on a real ensemble: start it in several terminals, and end or stop the holder of the
//! lock.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, tell_connection, until};
use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

/// A lock with InterProcessMutex.
#[derive(Parser, Debug)]
#[command(name = "inter_process_mutex")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the lock
    #[arg(long, default_value = "/examples/inter-process-mutex", value_parser = recipes_examples::path)]
    path: String,
    /// Run as one worker with this name on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, value_name = "NAME", value_parser = recipes_examples::name())]
    id: Option<String>,
}

const LOCK: (&str, &str) = ("", "the lock: a znode for each worker that holds it or waits for it, ephemeral");
const LEDGER: (&str, &str) = ("-ledger", "written under the lock, ephemeral");

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        match &self.id {
            Some(_) => Znodes { path: &self.path, shared_by: Some("--id"), uses: &[LOCK] },
            None => Znodes { path: &self.path, shared_by: None, uses: &[LOCK, LEDGER] },
        }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    match &options.id {
        Some(id) => stage.play(work_alone(&stage, &options.path, id)).await,
        None => stage.play(scenario(&stage, &stage.own_path(&options.path))).await,
    }
}

/// Runs one worker in a process of its own: two seconds with the lock, one without.
async fn work_alone(stage: &Stage, path: &str, id: &str) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
    tell_connection(&client, id);
    let mutex = InterProcessMutex::builder(&client, path).data(id).build()?;
    println!("{id}: acquires the lock at {path} again and again (Ctrl-C to end)");
    loop {
        let guard = mutex.acquire().await?;
        println!("{id}: I HOLD THE LOCK, with fencing token {}", guard.fencing_token());
        match guard.run(tokio::time::sleep(Duration::from_secs(2))).await {
            Ok(()) => println!("{id}: the work is done; I release the lock"),
            Err(lost) => println!("{id}: {lost}; I stop at once"),
        }
        // After a loss this is an error, because there is nothing to release; dropping the guard would be enough.
        if let Err(error) = guard.release().await {
            println!("{id}: {error}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A resource that only one worker may use at a time. It counts overlaps, and refuses a writer whose token is older
/// than one that it has seen. This check makes a lock safe whatever happens to its holder.
#[derive(Debug, Default)]
struct Resource {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    user: Option<&'static str>,
    overlaps: usize,
    newest_token: i64,
    written: Vec<(i64, &'static str)>,
    refused: usize,
}

impl Resource {
    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn enter(&self, worker: &'static str) {
        self.with(|state| {
            if let Some(other) = state.user.replace(worker) {
                state.overlaps += 1;
                println!("{worker:>6} OVERLAPS with {other}");
            }
        });
    }

    fn leave(&self) {
        self.with(|state| state.user = None);
    }

    fn write(&self, worker: &'static str, token: i64) -> Result<(), String> {
        self.with(|state| {
            if token < state.newest_token {
                state.refused += 1;
                return Err(format!("token {token} is older than {}", state.newest_token));
            }
            state.newest_token = token;
            state.written.push((token, worker));
            Ok(())
        })
    }
}

/// What all workers share.
struct Workshop<'a> {
    stage: &'a Stage,
    lock: &'a str,
    /// A znode that only the holder may write.
    ledger: String,
    resource: Resource,
}

const WORKERS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
const ROUNDS: usize = 3;
/// The worker that loses its session, and the round in which it does.
const UNLUCKY: (&str, usize) = ("carol", 1);

/// Five workers take three rounds each; one of them loses its session in one of its rounds.
async fn scenario(stage: &Stage, lock: &str) -> Result<()> {
    println!("Five workers and a lock at {lock}, on {stage}\n");
    let client = stage.connect().await?;
    let ledger = format!("{lock}-ledger");
    if let Some((parent, _)) = ledger.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
        client.create_containers(parent).await?;
    }
    client.create(&ledger, "", CreateMode::Ephemeral).await?;
    let workshop = Workshop { stage, lock, ledger, resource: Resource::default() };
    until(futures::future::try_join_all(WORKERS.map(|worker| work(&workshop, worker)))).await??;
    tell(&workshop.resource)
}

/// Prints what the resource has counted, and checks it.
fn tell(resource: &Resource) -> Result<()> {
    resource.with(|state| {
        let growing = state.written.is_sorted_by(|(one, _), (next, _)| one < next);
        println!(
            "\n{}, {}, {} refused.",
            count(state.written.len(), "write", "writes"),
            count(state.overlaps, "overlap", "overlaps"),
            count(state.refused, "late write", "late writes")
        );
        println!("The tokens grew with every write: {}.", if growing { "yes" } else { "NO" });
        if state.overlaps > 0 || !growing {
            return Err("two workers held the lock at once".into());
        }
        // In the round in which a worker loses its session, it writes only once, too late.
        let expected = (WORKERS.len() * ROUNDS - 1, 1);
        if (state.written.len(), state.refused) != expected {
            return Err(format!("{} writes and {} refused were expected", expected.0, expected.1).into());
        }
        Ok(())
    })
}

/// Runs one worker, which acquires the lock once a round.
async fn work(workshop: &Workshop<'_>, worker: &'static str) -> Result<()> {
    let mut client = workshop.stage.connect().await?;
    for round in 0..ROUNDS {
        let mutex = InterProcessMutex::builder(&client, workshop.lock).data(worker).build()?;
        let guard = mutex.acquire().await?;
        if (worker, round) == UNLUCKY {
            lose(workshop, worker, &client, &guard).await?;
            client = workshop.stage.connect().await?;
            println!("{worker:>6} has a new session, and continues");
            continue;
        }
        workshop.resource.enter(worker);
        // Once the lock is lost, the use of the resource is dropped at the next await that has to wait.
        let done = guard.run(use_resource(workshop, worker, &client, &guard)).await;
        workshop.resource.leave();
        done??;
        guard.release().await?;
    }
    Ok(())
}

async fn use_resource(
    workshop: &Workshop<'_>,
    worker: &'static str,
    client: &Client,
    guard: &MutexGuard,
) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    let token = guard.fencing_token();
    // Another store compares the token. In ZooKeeper the ensemble checks the fence in the same transaction.
    workshop.resource.write(worker, token)?;
    client.transaction().check(&guard.fence()).set_data(&workshop.ledger, worker, None).commit().await?;
    println!("{worker:>6} writes with token {token}");
    Ok(())
}

/// Ends the worker's session while it holds the lock: the worker is notified, and its late writes are refused.
async fn lose(workshop: &Workshop<'_>, worker: &'static str, client: &Client, guard: &MutexGuard) -> Result<()> {
    let token = guard.fencing_token();
    println!("{worker:>6} holds the lock with token {token}, and loses its session");
    let fence = guard.fence();
    client.close().await?;
    guard.lost().await;
    println!("{worker:>6} asks: is the lock still held? {}", if guard.is_held() { "yes" } else { "no" });
    // A worker that was stopped between its check and its write does the same: another one has written since.
    until(async {
        while workshop.resource.with(|state| state.newest_token < token) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await?;
    match workshop.resource.write(worker, token) {
        Ok(()) => return Err("a late write was accepted".into()),
        Err(why) => println!("{worker:>6} writes too late, and is refused: {why}"),
    }
    let late = client.transaction().check(&fence).set_data(&workshop.ledger, worker, None).commit().await;
    match late {
        Err(error) if matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::Fenced) => {
            println!("{worker:>6} writes to the ledger too late, and is refused as well");
            Ok(())
        }
        other => Err(format!("a late write was not fenced: {other:?}").into()),
    }
}
