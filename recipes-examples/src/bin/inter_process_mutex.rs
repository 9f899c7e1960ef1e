//! A lock with `InterProcessMutex`: workers take turns on a resource that only one may use at a time.
//!
//! Without `--id` it plays a scenario with five workers, of whom one loses its session while it holds the lock, and ends.
//! With `--id NAME` it is one worker; start it in several terminals, and end or stop the one that holds the lock.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Ensemble, Result, Stage, println, until};
use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

/// A lock with InterProcessMutex.
#[derive(Parser, Debug)]
#[command(name = "inter_process_mutex")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the lock
    #[arg(long, default_value = "/examples/inter-process-mutex")]
    path: String,
    /// Be one worker with this name on a real ensemble, until Ctrl-C; without it a scenario is played
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
            stage.play(work_alone(&stage, &options.path, id)).await
        }
        None => stage.play(scenario(&stage, &stage.own_path(&options.path))).await,
    }
}

/// One worker in a process of its own: two seconds with the lock, one without.
async fn work_alone(stage: &Stage, path: &str, id: &str) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
    let mutex = InterProcessMutex::builder(&client, path).data(id).start()?;
    println!("{id}: wants the lock at {path} again and again (Ctrl-C to end)");
    loop {
        let guard = mutex.acquire().await?;
        println!("{id}: I HOLD THE LOCK, with fencing token {}", guard.fencing_token());
        match guard.run(tokio::time::sleep(Duration::from_secs(2))).await {
            Ok(()) => println!("{id}: done; I release it"),
            Err(lost) => println!("{id}: {lost}; I stop at once"),
        }
        // After a loss there is nothing to release, which is an error here; to drop the guard would be as good.
        if let Err(error) = guard.release().await {
            println!("{id}: {error}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// A resource that only one may use at a time. It notices if that is violated, and refuses a writer whose token is older than
/// one it has seen: the check that makes a lock safe whatever happens to its holder.
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

/// What all workers of the scenario share.
struct Workshop<'a> {
    stage: &'a Stage,
    lock: &'a str,
    /// A node that only the holder may write.
    ledger: String,
    resource: Resource,
}

const WORKERS: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];
const ROUNDS: usize = 3;
/// Who loses its session, and in which round.
const UNLUCKY: (&str, usize) = ("carol", 1);

/// Five workers, three rounds each; one of them loses its session on the way.
async fn scenario(stage: &Stage, lock: &str) -> Result<()> {
    println!("Five workers and a lock at {lock}, on {stage}\n");
    let client = stage.connect().await?;
    let ledger = format!("{lock}-ledger");
    client.create_containers("/examples").await?;
    client.create(&ledger, "", CreateMode::Ephemeral).await?;
    let workshop = Workshop { stage, lock, ledger, resource: Resource::default() };
    until(futures::future::try_join_all(WORKERS.map(|worker| work(&workshop, worker)))).await??;
    tell(&workshop.resource)
}

/// Sums up what the resource has seen.
fn tell(resource: &Resource) -> Result<()> {
    resource.with(|state| {
        let growing = state.written.is_sorted_by(|(one, _), (next, _)| one < next);
        println!(
            "\n{} writes, {} overlaps, {} late writes refused.",
            state.written.len(),
            state.overlaps,
            state.refused
        );
        println!("The tokens grew with every write: {}.", if growing { "yes" } else { "NO" });
        if state.overlaps > 0 || !growing {
            return Err("the lock did not do its work".into());
        }
        Ok(())
    })
}

/// One worker: round after round under the lock.
async fn work(workshop: &Workshop<'_>, worker: &'static str) -> Result<()> {
    let mut client = workshop.stage.connect().await?;
    for round in 0..ROUNDS {
        let mutex = InterProcessMutex::builder(&client, workshop.lock).data(worker).start()?;
        let guard = mutex.acquire().await?;
        if (worker, round) == UNLUCKY {
            lose(workshop, worker, &client, &guard).await?;
            client = workshop.stage.connect().await?;
            println!("{worker:>6} has a new session and goes on");
            continue;
        }
        workshop.resource.enter(worker);
        // Dropped at its next await if the lock is lost; then the resource is not touched any more.
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
    // For a store of its own the token; within ZooKeeper the fence, which the ensemble checks in the same transaction.
    workshop.resource.write(worker, token)?;
    client.transaction().check(&guard.fence()).set_data(&workshop.ledger, worker, None).commit().await?;
    println!("{worker:>6} writes under token {token}");
    Ok(())
}

/// The worker's session ends while it holds the lock; it knows, and what it writes all the same is refused.
async fn lose(workshop: &Workshop<'_>, worker: &'static str, client: &Client, guard: &MutexGuard) -> Result<()> {
    let token = guard.fencing_token();
    println!("{worker:>6} holds the lock under token {token}, and loses its session");
    let fence = guard.fence();
    client.close().await?;
    guard.lost().await;
    println!("{worker:>6} knows: is the lock held? {}", if guard.is_held() { "yes" } else { "no" });
    // A worker that was stopped between looking and writing would do this: somebody else has written since.
    until(async {
        while workshop.resource.with(|state| state.newest_token < token) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await?;
    match workshop.resource.write(worker, token) {
        Ok(()) => return Err("a late write was let through".into()),
        Err(why) => println!("{worker:>6} writes too late and is refused: {why}"),
    }
    let late = client.transaction().check(&fence).set_data(&workshop.ledger, worker, None).commit().await;
    match late {
        Err(error) if matches!(error.kind(), ErrorKind::SessionLost | ErrorKind::Fenced) => {
            println!("{worker:>6} writes to the ledger too late and is refused as well");
            Ok(())
        }
        other => Err(format!("a fenced write too late: {other:?}").into()),
    }
}
