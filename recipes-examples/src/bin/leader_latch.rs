//! Leader election with `LeaderLatch`: who leads, and why it changed.
//!
//! Without `--id` it plays a scenario with several participants and ends. With `--id NAME` it is one participant on a
//! real ensemble: start it in several terminals, and end the leader with Ctrl-C (it resigns, and the next one leads
//! at once) or with `kill -9` (the next one leads when the session has expired).

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use futures::StreamExt;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, println, tell_connection, until};
use zookeeper_recipes::Client;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch, LeaderStream, observe_leader};
use zookeeper_recipes::testing::TestingServer;

/// Leader election with LeaderLatch.
#[derive(Parser, Debug)]
#[command(name = "leader_latch")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the election
    #[arg(long, default_value = "/examples/leader-latch", value_parser = recipes_examples::path)]
    path: String,
    /// Run as one participant with this name on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, value_name = "NAME", value_parser = recipes_examples::name())]
    id: Option<String>,
}

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        let shared_by = self.id.as_ref().map(|_| "--id");
        Znodes { path: &self.path, shared_by, uses: &[("", "the election: a znode for each participant, ephemeral")] }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    match &options.id {
        Some(id) => stage.play(participate(&stage, &options.path, id)).await,
        None => stage.play(scenario(&stage, &stage.own_path(&options.path))).await,
    }
}

/// Runs one participant in a process of its own.
async fn participate(stage: &Stage, path: &str, id: &str) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
    let latch = LeaderLatch::builder(&client, path).id(id).start()?;
    println!("{id}: takes part in the election at {path} (Ctrl-C to resign)");
    tell_connection(&client, id);
    tokio::select! {
        ended = tell_states(id, &latch) => ended,
        ended = tell_leaders(id, &latch) => ended,
    }
}

/// Prints the states of the participant itself.
async fn tell_states(id: &str, latch: &LeaderLatch) -> Result<()> {
    let mut states = latch.state();
    let mut led = false;
    loop {
        let state = states.get();
        match (state.status(), state.leadership(), state.error()) {
            (_, Some(leadership), _) => {
                led = true;
                println!("{id}: I LEAD, with fencing token {}", leadership.fencing_token());
            }
            (_, _, Some(error)) => println!("{id}: {error}"),
            (status, ..) if led => {
                led = false;
                println!("{id}: I NO LONGER LEAD ({status})");
            }
            (LatchStatus::Waiting, ..) => {
                println!("{id}: I wait for the leadership");
            }
            _ => {}
        }
        states.changed().await?;
    }
}

/// Prints who leads, as every process can see it.
async fn tell_leaders(id: &str, latch: &LeaderLatch) -> Result<()> {
    let mut leaders = latch.observe_leader();
    while let Some(leader) = leaders.next().await {
        match leader? {
            Some(leader) => println!("{id}: the leader is {}", leader.id),
            None => println!("{id}: there is no leader"),
        }
    }
    Ok(())
}

/// A participant of the scenario, with a client of its own.
struct Participant {
    client: Client,
    latch: Arc<LeaderLatch>,
}

/// The leader resigns; its successor's client closes; the next leader is stopped for too long; the last one works.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("An election at {path}, on {stage}\n");
    let mut leaders = observe_leader(&stage.connect().await?, path)?;
    // One after the other: they lead in the order in which they enter.
    let alice = enter(stage, path, "alice").await?;
    let bob = enter(stage, path, "bob").await?;
    let carol = enter(stage, path, "carol").await?;
    let dave = enter(stage, path, "dave").await?;
    println!("\n       Four participants have entered; the first one leads.");
    announce(&mut leaders, "alice").await?;

    println!("\n       alice closes her latch, and so resigns.");
    alice.latch.close().await?;
    announce(&mut leaders, "bob").await?;

    println!("\n       bob's client closes, which ends his session; he has not resigned.");
    bob.client.close().await?;
    announce(&mut leaders, "carol").await?;
    println!("         bob: {}", do_i_lead(&bob.latch));

    let last = match stage.embedded() {
        Some(server) => {
            freeze(stage, server, &carol, &mut leaders).await?;
            ("dave", dave)
        }
        // A real client cannot be stopped from here; `--id` shows it with `kill -STOP`.
        None => ("carol", carol),
    };
    work(last.0, &last.1.latch).await
}

async fn enter(stage: &Stage, path: &str, id: &str) -> Result<Participant> {
    let client = stage.connect().await?;
    let latch = Arc::new(LeaderLatch::builder(&client, path).id(id).start()?);
    let place = until(wait_for_place(&latch)).await??;
    println!("{id:>6} enters the election: {place}");
    Ok(Participant { client, latch })
}

/// Waits until the participant has its znode.
async fn wait_for_place(latch: &LeaderLatch) -> Result<String> {
    let mut states = latch.state();
    loop {
        if let Some(error) = states.get().error() {
            return Err(error.clone().into());
        }
        if let Some(path) = latch.our_path() {
            return Ok(path);
        }
        states.changed().await?;
    }
}

/// Waits until the leader is the expected one, and prints it.
async fn announce(leaders: &mut LeaderStream, expected: &str) -> Result<()> {
    until(async {
        while let Some(leader) = leaders.next().await {
            if leader?.is_some_and(|leader| leader.id == expected) {
                println!("{expected:>6} leads now.");
                return Ok(());
            }
        }
        Err("the observer's client was closed".into())
    })
    .await?
}

fn do_i_lead(latch: &LeaderLatch) -> &'static str {
    if latch.has_leadership() { "Do I lead? Yes." } else { "Do I lead? No." }
}

/// Stops carol's process, as `kill -STOP` does, until her session has expired and dave leads.
async fn freeze(stage: &Stage, server: &TestingServer, carol: &Participant, leaders: &mut LeaderStream) -> Result<()> {
    let leadership = until(carol.latch.wait_for_leadership()).await??;
    // Carol's own code is stopped with her process; this is the first thing that it does after that.
    let latch = Arc::clone(&carol.latch);
    let woken = stage.spawn(&carol.client, async move {
        leadership.lost().await;
        println!("       carol: I was away. {}", do_i_lead(&latch));
    });
    println!("\n       carol's process is stopped for longer than her session timeout.");
    server.freeze_client(&carol.client);
    announce(leaders, "dave").await?;
    println!("       carol's process continues.");
    server.thaw_client(&carol.client);
    until(woken).await?
}

/// Works for as long as the participant leads.
async fn work(id: &str, latch: &LeaderLatch) -> Result<()> {
    println!("\n       {id} works while the leadership lasts, until the work is done.");
    let leadership = until(latch.wait_for_leadership()).await??;
    let sum = leadership.run(async { (1..=100u32).sum::<u32>() }).await?;
    println!("{id:>6}: 1 + 2 + ... + 100 = {sum}, under token {}", leadership.fencing_token());
    Ok(())
}
