//! Leader election with `LeaderLatch`: who leads, and why it changed.
//!
//! Without `--id` it plays a scenario with several participants and ends. With `--id NAME` it is one participant; start
//! it in several terminals, end the leader with Ctrl-C (it resigns: the next one leads at once) or `kill -9` (the next
//! one leads when the session is over), and watch.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures::StreamExt;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatch, observe_leader};
use zookeeper_recipes::{Client, ConnectionState};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// How long the scenario waits for a step before it gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Leader election with LeaderLatch.
#[derive(Parser, Debug)]
struct Options {
    /// The ensemble: `host:port`, more of them after commas, then `/root` if there is one
    #[arg(long, env = "ZOOKEEPER_CONNECT", value_name = "HOSTS")]
    connect: String,
    /// The path of the election
    #[arg(long, default_value = "/examples/leader-latch")]
    path: String,
    /// Be one participant with this name, until Ctrl-C; without it a scenario is played
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Session timeout in seconds: how long a crashed leader is waited for
    #[arg(long, default_value_t = 6, value_name = "SECONDS")]
    session_timeout: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let options = Options::parse();
    let played = match &options.id {
        Some(id) => participate(&options, id).await,
        None => play(&options).await,
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leader_latch: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Resolves when the program is asked to end: by Ctrl-C, or as a service is (SIGTERM).
async fn asked_to_end() -> Result<()> {
    #[cfg(unix)]
    {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    Ok(tokio::signal::ctrl_c().await?)
}

async fn connect(options: &Options) -> Result<Client> {
    let timeout = Duration::from_secs(options.session_timeout);
    Ok(Client::builder(&options.connect).session_timeout(timeout).connect().await?)
}

/// One participant in a process of its own.
async fn participate(options: &Options, id: &str) -> Result<()> {
    println!("{id}: connecting to {}", options.connect);
    let client = connect(options).await?;
    let latch = LeaderLatch::builder(&client, &options.path).id(id).start()?;
    println!("{id}: takes part in the election at {} (Ctrl-C to resign)", options.path);
    client.add_listener(tell_connection(id.to_owned()));
    tokio::select! {
        ended = tell_states(id, &latch) => ended?,
        ended = tell_leaders(id, &latch) => ended?,
        asked = asked_to_end() => {
            asked?;
            println!("{id}: resigns");
            latch.close().await?;
        }
    }
    client.close().await?;
    println!("{id}: gone");
    Ok(())
}

fn tell_connection(id: String) -> impl Fn(ConnectionState) -> std::future::Ready<()> {
    move |state| {
        match state {
            ConnectionState::Connected => println!("{id}: connected"),
            ConnectionState::Suspended => println!("{id}: the connection is in doubt"),
            ConnectionState::Reconnected => println!("{id}: connected again"),
            ConnectionState::Lost => println!("{id}: the session is lost; a new one is being opened"),
            other => println!("{id}: {other}"),
        }
        std::future::ready(())
    }
}

/// Tells what becomes of the participant itself.
async fn tell_states(id: &str, latch: &LeaderLatch) -> Result<()> {
    let mut states = latch.state();
    let mut led = false;
    loop {
        let state = states.borrow_and_update().clone();
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
                println!("{id}: I wait: somebody is before me, or my session has yet to prove that it lives");
            }
            _ => {}
        }
        states.changed().await?;
    }
}

/// Tells who leads, as everybody can see it.
async fn tell_leaders(id: &str, latch: &LeaderLatch) -> Result<()> {
    let mut leaders = latch.observe_leader();
    while let Some(leader) = leaders.next().await {
        match leader? {
            Some(leader) => println!("{id}: the leader is {}", leader.id),
            None => println!("{id}: nobody leads"),
        }
    }
    Ok(())
}

/// Three participants; the leader resigns, its successor's whole client goes, the last one is left.
async fn play(options: &Options) -> Result<()> {
    // A path of its own, so that nobody else takes part.
    let stage = format!("{}-{}", options.path, std::process::id());
    println!("An election at {stage}, on {}\n", options.connect);
    let bystander = connect(options).await?;
    let mut cast = Vec::new();
    for id in ["alice", "bob", "carol"] {
        let client = connect(options).await?;
        let latch = LeaderLatch::builder(&client, &stage).id(id).start()?;
        // One after the other, so that they stand in this order.
        let place = until(async { wait_for_place(&latch).await }).await??;
        println!("{id:>6} enters the election: {place}");
        cast.push((client, latch));
    }
    let mut leaders = observe_leader(&bystander, &stage)?;
    println!("\n       Three stand in line; the first one leads.");
    announce(&mut leaders, "alice").await?;

    tokio::select! {
        played = changes(&mut leaders, &cast) => played?,
        asked = asked_to_end() => {
            asked?;
            println!("\n       Interrupted: everybody resigns.");
        }
    }
    for (client, latch) in &cast {
        latch.close().await?;
        client.close().await?;
    }
    bystander.close().await?;
    println!("\nDone.");
    Ok(())
}

async fn changes(leaders: &mut (impl StreamExt<Item = Leader> + Unpin), cast: &[(Client, LeaderLatch)]) -> Result<()> {
    println!("\n       alice resigns: she closes her latch.");
    cast[0].1.close().await?;
    announce(leaders, "bob").await?;
    println!("\n       bob's client goes, and his session with it; he never resigned.");
    cast[1].0.close().await?;
    announce(leaders, "carol").await?;
    println!("         bob: do I lead? {}", if cast[1].1.has_leadership() { "yes" } else { "no, and I know it" });

    println!("\n       carol works for as long as she leads, and the work is done.");
    let leadership = until(cast[2].1.wait_for_leadership()).await??;
    let sum = leadership.run(async { (1..=100u32).sum::<u32>() }).await?;
    println!("       carol: 1 + 2 + ... + 100 = {sum}, under token {}", leadership.fencing_token());
    Ok(())
}

type Leader =
    std::result::Result<Option<zookeeper_recipes::leader_latch::Participant>, zookeeper_recipes::leader_latch::Error>;

/// Waits until the leader is the one expected, and says so.
async fn announce(leaders: &mut (impl StreamExt<Item = Leader> + Unpin), expected: &str) -> Result<()> {
    until(async {
        while let Some(leader) = leaders.next().await {
            if let Some(leader) = leader?
                && leader.id == expected
            {
                println!("{expected:>6} leads now.");
                return Ok(());
            }
        }
        Err("the observer's client was closed".into())
    })
    .await?
}

/// Waits until the participant stands in line.
async fn wait_for_place(latch: &LeaderLatch) -> Result<String> {
    let mut states = latch.state();
    loop {
        if let Some(error) = states.borrow_and_update().error() {
            return Err(error.clone().into());
        }
        if let Some(path) = latch.our_path() {
            return Ok(path);
        }
        states.changed().await?;
    }
}

async fn until<F: Future>(work: F) -> Result<F::Output> {
    tokio::time::timeout(PATIENCE, work).await.map_err(|_| format!("nothing happened for {PATIENCE:?}").into())
}
