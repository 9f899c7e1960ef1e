//! Service discovery for gRPC: tonic servers register, and the calls of a tonic client are balanced between them.
//!
//! Without further options it plays a scenario and ends. With `--id NAME` it is one instance on a real ensemble, and
//! with `--call` a caller: start them in several terminals. End an instance with Ctrl-C (it is drained, and no call
//! fails) or with `kill -9` (the calls that it was working on fail, and are repeated).
//!
//! The caller's tasks share tower's balancer, which gets a connection to each instance from `Service::targets` and
//! `Targets::make_services`: see `balanced`. One that is closed is made again, and the balancer chooses among the
//! others meanwhile. So when an instance is killed, only the calls that it was working on fail, even if its znode stays
//! until its session has expired. The caller repeats them, because it alone knows what may be repeated.
//! `Service::report_error` is not needed for this; it is for instances that accept connections but answer with errors.
//!
//! `Channel::balance_channel` of tonic takes the targets as well, with less code. But a `Channel` is ready even if its
//! instance cannot be reached: calls that are sent there fail at once, and so may their next attempts, until the
//! session has expired. Nor does the caller know which instance a failed call was sent to, so it cannot report it. It
//! is enough if instances end in order, or if a call may be repeated often.

mod caller;
mod connection;
mod process;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Asked, Ensemble, Example, Result, Stage, Znodes, count, println, step, tell_connection, until};
use tokio::time::{interval, sleep};
use zookeeper_recipes::service_discovery::Change;

use caller::{Caller, TASKS, Tally};
use process::{Process, SERVICE};

/// Service discovery for gRPC, with tonic and tower's balancer.
#[derive(Parser, Debug)]
#[command(name = "service_discovery_tonic")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the services
    #[arg(long, default_value = "/examples/service-discovery-tonic", value_parser = recipes_examples::path)]
    path: String,
    /// Run as one instance with this name on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, value_name = "NAME", value_parser = name, group = "process")]
    id: Option<String>,
    /// Run as a caller on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, group = "process")]
    call: bool,
}

/// Parses the name of an instance, which it sends in a header.
fn name(value: &str) -> Result<String, String> {
    let is_name = !value.is_empty() && value.chars().all(|one| one.is_ascii_graphic());
    if is_name { Ok(value.to_owned()) } else { Err("ASCII letters, digits and signs are allowed".into()) }
}

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        let options = [("--id", self.id.is_some()), ("--call", self.call)];
        Znodes {
            path: &self.path,
            shared_by: options.into_iter().find_map(|(option, given)| given.then_some(option)),
            uses: &[("/api", "the service: a znode for each instance, as JSON, ephemeral")],
        }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    let path = &options.path;
    if let Some(id) = &options.id {
        return stage.play_until_asked(|asked| serve(&stage, path, id, asked)).await;
    }
    if options.call {
        return stage.play_until_asked(|asked| call(&stage, path, asked)).await;
    }
    stage.play(scenario(&stage, &stage.own_path(path))).await
}

/// How long the callers have to hear that an instance accepts no new calls.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs one instance in a process of its own.
async fn serve(stage: &Stage, path: &str, id: &str, asked: Asked) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let process = tokio::select! {
        biased;
        () = asked.clone() => return Ok(()),
        started = Process::start(stage, path, id) => started?,
    };
    tell_connection(&process.client, id);
    println!("{id}: answers calls (Ctrl-C to end)");
    asked.await;
    process.registration.set_enabled(false).await?;
    println!("{id}: accepts no new calls in {DRAIN:?}, when the callers have heard of it");
    sleep(DRAIN).await;
    process.end().await?;
    println!("{id}: has answered all calls");
    Ok(())
}

/// Runs a caller in a process of its own.
async fn call(stage: &Stage, path: &str, asked: Asked) -> Result<()> {
    println!("caller: connecting to {stage}");
    let client = stage.connect().await?;
    let caller = Caller::start(&client, path).await?;
    let mut changes = caller.api.changes();
    tell_connection(&client, "caller");
    println!("caller: finds {} (Ctrl-C to end)", count(changes.start().len(), "instance", "instances"));
    let mut seconds = interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            biased;
            () = asked.clone() => break,
            Some(change) = changes.next() => tell(&change),
            _ = seconds.tick() => println!("caller: of {}", caller.sample()),
        }
    }
    println!("{}", told(&caller.end().await?));
    Ok(())
}

fn tell(change: &Change<()>) {
    match change {
        Change::Added(new) => println!("caller: finds {}", new.uri().unwrap_or_default()),
        Change::Updated { new, .. } if !new.is_enabled() => {
            println!("caller: {} accepts no new calls", new.uri().unwrap_or_default());
        }
        Change::Removed { old } => println!("caller: {} is gone", old.uri().unwrap_or_default()),
        other => println!("caller: {other:?}"),
    }
}

fn told(tally: &Tally) -> String {
    let repeated = count(tally.repeated, "attempt", "attempts");
    format!("{}, {repeated} repeated, {} unanswered.", count(tally.calls, "call", "calls"), tally.unanswered)
}

/// Three instances are called all the time. One is drained, two are killed and start again, and a new one starts.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("The service {SERVICE} at {path}, on {stage}\n");
    let caller = Caller::start(&stage.connect().await?, path).await?;
    let [mut alice, bob, mut carol] =
        [start(stage, path, "alice").await?, start(stage, path, "bob").await?, start(stage, path, "carol").await?];
    println!("caller: {TASKS} tasks call all the time");
    caller.is_answered_by(&["alice", "bob", "carol"]).await?;

    step("bob is about to end: it accepts no new calls, and then unregisters.").await;
    bob.registration.set_enabled(false).await?;
    caller.is_answered_by(&["alice", "carol"]).await?;
    bob.end().await?;
    caller.is_answered_by(&["alice", "carol"]).await?;
    no_more_repeated_than(0, &caller)?;

    step("carol's process is killed. Her session goes on.").await;
    kill(stage, &mut carol).await?;
    caller.is_answered_by(&["alice"]).await?;

    step("carol starts again, beside the registration of the process that was killed.").await;
    let again = start(stage, path, "carol").await?;
    caller.is_answered_by(&["alice", "carol"]).await?;
    println!("caller: finds {}", count(caller.api.instances().len(), "instance", "instances"));

    match stage.embedded() {
        Some(_) => step("The session of the killed process expires.").await,
        // A real client cannot be killed from here; `--id` shows that case.
        None => {
            step("The client of the killed process closes, which ends its session.").await;
            carol.client.close().await?;
        }
    }
    caller.finds(&[&alice.uri, &again.uri]).await?;

    step("dave starts.").await;
    let dave = start(stage, path, "dave").await?;
    caller.is_answered_by(&["alice", "carol", "dave"]).await?;

    step("alice's process is killed, and starts again.").await;
    kill(stage, &mut alice).await?;
    caller.is_answered_by(&["carol", "dave"]).await?;
    let alice = start(stage, path, "alice").await?;
    caller.is_answered_by(&["alice", "carol", "dave"]).await?;
    // Each task had one call under way at each kill.
    no_more_repeated_than(2 * TASKS, &caller)?;

    let tally = caller.end().await?;
    println!("\n{}", told(&tally));
    for process in [again, dave, alice] {
        process.end().await?;
    }
    if tally.unanswered > 0 {
        Err(format!("{} unanswered", count(tally.unanswered, "call", "calls")).into())
    } else {
        Ok(())
    }
}

/// Kills a process. Its session goes on.
async fn kill(stage: &Stage, process: &mut Process) -> Result<()> {
    if let Some(server) = stage.embedded() {
        server.freeze_client(&process.client);
    }
    process.kill().await
}

async fn start(stage: &Stage, path: &str, name: &str) -> Result<Process> {
    until(Process::start(stage, path, name)).await?
}

fn no_more_repeated_than(most: usize, caller: &Caller) -> Result<()> {
    let repeated = caller.tally().repeated;
    if repeated <= most {
        Ok(())
    } else {
        Err(format!("{repeated} attempts were repeated; at most {most} should").into())
    }
}
