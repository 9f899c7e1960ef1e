//! Leadership in turns with `LeaderSelector`: a participant leads until its work returns, then the next one does.
//!
//! Without `--id` it plays a scenario and ends: three participants lead in turns, then one that would lead for ever
//! is interrupted. With `--id NAME` it is one participant on a real ensemble, which leads for three seconds at a
//! time: start it in several terminals.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use futures::StreamExt;
use futures::future::{join, join_all};
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, println, tell_connection, until};
use tokio::sync::{mpsc, oneshot};
use zookeeper_recipes::leader_selector::{LeaderSelector, Leadership, RequeuePolicy, RunningTerm, TermEnd};

/// Leadership in turns with LeaderSelector.
#[derive(Parser, Debug)]
#[command(name = "leader_selector")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the election
    #[arg(long, default_value = "/examples/leader-selector", value_parser = recipes_examples::path)]
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
    tell_connection(&client, id);
    let name: Arc<str> = id.into();
    let lead = move |leadership: Leadership| {
        let id = Arc::clone(&name);
        async move {
            println!("{id}: I LEAD, with fencing token {}", leadership.fencing_token());
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    };
    let selector = LeaderSelector::builder(&client, path)
        .id(id)
        .auto_requeue(RequeuePolicy::default())
        .on_close(RunningTerm::Interrupt)
        .start(lead)?;
    println!("{id}: takes part in the election at {path} (Ctrl-C to end)");
    let (mut outcomes, mut states) = (selector.outcomes(), selector.state());
    loop {
        tokio::select! {
            biased;
            Some(outcome) = outcomes.next() => println!("{id}: my term has ended: {}", outcome.end),
            changed = states.changed() => {
                if let Some(error) = changed?.error() {
                    println!("{id}: {error}");
                }
            }
        }
    }
}

/// What happens in the scenario.
#[derive(Debug)]
enum Scene {
    /// A participant leads with this token, at least until the sender is dropped.
    Leads(&'static str, i64, oneshot::Sender<()>),
    Returns(&'static str),
}

impl Scene {
    fn tell(&self) {
        match self {
            Scene::Leads(id, token, _) => println!("{id:>6} leads now, with fencing token {token}"),
            Scene::Returns(id) => println!("{id:>6} returns, and leads no more"),
        }
    }
}

const NAMES: [&str; 3] = ["alice", "bob", "carol"];
/// How often each of them leads.
const TURNS_EACH: usize = 2;

/// Three participants lead in turns; then a leader that would lead for ever is interrupted.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("An election in turns at {path}, on {stage}\n");
    let (tell, mut scenes) = mpsc::unbounded_channel();
    let mut selectors = Vec::new();
    for id in NAMES {
        selectors.push(enter(stage, path, id, &tell).await?);
    }
    let last_term = rotation(&selectors, &mut scenes).await?;
    println!("\n       All participants leave; the leader finishes its term first.");
    // The term ends after all of them were asked to leave: none of the others may lead after it.
    let leave = join_all(selectors.iter().map(LeaderSelector::close));
    let (left, ()) = join(leave, async { drop(last_term) }).await;
    left.into_iter().collect::<Result<(), _>>()?;
    // Prints the end of the last term.
    while let Ok(scene) = scenes.try_recv() {
        scene.tell();
    }
    interruption(stage, path).await
}

/// Adds a participant, which leads for a moment whenever it is elected, and waits for its znode.
async fn enter(
    stage: &Stage,
    path: &str,
    id: &'static str,
    tell: &mpsc::UnboundedSender<Scene>,
) -> Result<LeaderSelector> {
    let client = stage.connect().await?;
    let telling = tell.clone();
    let lead = move |leadership: Leadership| {
        let tell = telling.clone();
        async move {
            let (end, ended) = oneshot::channel();
            // The scenario may have ended.
            let _ = tell.send(Scene::Leads(id, leadership.fencing_token(), end));
            tokio::time::sleep(Duration::from_millis(200)).await;
            let _ = ended.await;
            let _ = tell.send(Scene::Returns(id));
        }
    };
    let selector = LeaderSelector::builder(&client, path).id(id).auto_requeue(RequeuePolicy::default()).start(lead)?;
    // One after the other: they lead in the order in which they enter.
    until(has_entered(&selector, id)).await??;
    println!("{id:>6} enters the election");
    Ok(selector)
}

/// Waits until the participant has its znode.
async fn has_entered(selector: &LeaderSelector, id: &str) -> Result<()> {
    while !selector.participants().await?.iter().any(|one| one.id == id) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Waits until all have led twice, in the order in which they entered and with growing tokens. Returns a sender that
/// keeps the last term from ending.
async fn rotation(
    selectors: &[LeaderSelector],
    scenes: &mut mpsc::UnboundedReceiver<Scene>,
) -> Result<oneshot::Sender<()>> {
    println!("\n       Each leads for a moment, then enters again behind the others.");
    let (mut terms, mut last, mut leader) = (Vec::new(), 0, None);
    let last_term = loop {
        let scene = until(scenes.recv()).await?.ok_or("no participant is left")?;
        scene.tell();
        match scene {
            Scene::Leads(id, token, end) => {
                if token <= last || leader.replace(id).is_some() {
                    return Err("two led at once".into());
                }
                (last, _) = (token, terms.push(id));
                if terms.len() == TURNS_EACH * NAMES.len() {
                    break end;
                }
                // The term lasts until the previous leader has entered again, however long that takes.
                for (selector, id) in selectors.iter().zip(NAMES) {
                    until(has_entered(selector, id)).await??;
                }
            }
            Scene::Returns(_) => leader = None,
        }
    };
    println!("\n       The order was {}.", terms.join(", "));
    if terms != NAMES.repeat(TURNS_EACH) {
        return Err("that is not the order in which they entered".into());
    }
    Ok(last_term)
}

/// Interrupts a leader that would lead for ever. It has time to clean up; then the next one leads.
async fn interruption(stage: &Stage, path: &str) -> Result<()> {
    println!("\n       dave leads until he is interrupted.");
    let client = stage.connect().await?;
    let has_cleaned = Arc::new(AtomicBool::new(false));
    let cleaned = Arc::clone(&has_cleaned);
    let lead = move |leadership: Leadership| {
        let cleaned = Arc::clone(&cleaned);
        async move {
            leadership.lost().await;
            println!("  dave is told, and cleans up");
            tokio::time::sleep(Duration::from_millis(100)).await;
            println!("  dave has cleaned up");
            cleaned.store(true, Ordering::SeqCst);
        }
    };
    let dave = LeaderSelector::builder(&client, path).id("dave").grace_period(Duration::from_secs(2)).start(lead)?;
    let mut outcomes = dave.outcomes();
    let mut states = dave.state();
    until(states.wait_for(|state| state.is_leader())).await??;
    println!("  dave leads now");
    let (tell, mut leads) = mpsc::unbounded_channel();
    let erin = LeaderSelector::builder(&client, path).id("erin").start(move |_: Leadership| {
        // The scenario may have ended.
        let _ = tell.send(has_cleaned.load(Ordering::SeqCst));
        async {}
    })?;
    until(has_entered(&erin, "erin")).await??;
    println!("  erin enters the election");
    if !dave.interrupt_leadership() {
        return Err("dave did not lead".into());
    }
    let outcome = until(outcomes.next()).await?.ok_or("dave's selector has ended")?;
    println!("  dave's term has ended: {}", outcome.end);
    if !matches!(outcome.end, TermEnd::Interrupted) {
        return Err("the term did not end because of the interruption".into());
    }
    if !until(leads.recv()).await?.ok_or("erin's selector has ended")? {
        return Err("erin led before dave had cleaned up".into());
    }
    println!("  erin leads now: dave's znode is gone");
    for selector in [&dave, &erin] {
        selector.close().await?;
    }
    Ok(())
}
