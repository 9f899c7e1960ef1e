//! Leadership in turn with `LeaderSelector`: whoever is elected leads until its work returns, then the next one does.
//!
//! Without `--id` it plays a scenario with three participants and ends: they lead in turn, then one that would lead for ever is
//! interrupted. With `--id NAME` it is one participant, which leads for three seconds at a time; start it in several
//! terminals.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use futures::StreamExt;
use recipes_examples::{Ensemble, Result, Stage, println, until};
use tokio::sync::mpsc;
use zookeeper_recipes::leader_selector::{CloseMode, LeaderSelector, Leadership, RequeuePolicy, TermEnd};

/// Leadership in turn with LeaderSelector.
#[derive(Parser, Debug)]
#[command(name = "leader_selector")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the election
    #[arg(long, default_value = "/examples/leader-selector")]
    path: String,
    /// Be one participant with this name on a real ensemble, until Ctrl-C; without it a scenario is played
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
            stage.play(participate(&stage, &options.path, id)).await
        }
        None => stage.play(scenario(&stage, &stage.own_path(&options.path))).await,
    }
}

/// One participant in a process of its own.
async fn participate(stage: &Stage, path: &str, id: &str) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
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
        .close_mode(CloseMode::Interrupt)
        .start(lead)?;
    println!("{id}: takes part in the election at {path} (Ctrl-C to leave)");
    let (mut outcomes, mut states) = (selector.outcomes(), selector.state());
    loop {
        tokio::select! {
            biased;
            Some(outcome) = outcomes.next() => println!("{id}: my term is over: {}", outcome.end),
            changed = states.changed() => {
                changed?;
                if let Some(error) = states.borrow_and_update().error() {
                    println!("{id}: {error}");
                }
            }
        }
    }
}

/// What happens in the scenario.
#[derive(Debug)]
enum Scene {
    Leads(&'static str, i64),
    Returns(&'static str),
}

impl Scene {
    fn tell(&self) {
        match self {
            Scene::Leads(id, token) => println!("{id:>6} leads now, with fencing token {token}"),
            Scene::Returns(id) => println!("{id:>6} returns, and leads no more"),
        }
    }
}

const NAMES: [&str; 3] = ["alice", "bob", "carol"];

/// Three lead in turn; then one that would lead for ever is interrupted.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("An election in turns at {path}, on {stage}\n");
    let (tell, mut scenes) = mpsc::unbounded_channel();
    let mut selectors = Vec::new();
    for id in NAMES {
        selectors.push(enter(stage, path, id, &tell).await?);
    }
    rotation(&mut scenes).await?;
    println!("\n       Everybody leaves; who leads finishes its term first.");
    for selector in &selectors {
        selector.close().await?;
    }
    // What was told meanwhile: at least the end of the last term.
    while let Ok(scene) = scenes.try_recv() {
        scene.tell();
    }
    interruption(stage, path).await
}

/// A participant that leads for a moment whenever it is elected.
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
            // Nobody may be watching the scene any more.
            let _ = tell.send(Scene::Leads(id, leadership.fencing_token()));
            tokio::time::sleep(Duration::from_millis(200)).await;
            let _ = tell.send(Scene::Returns(id));
        }
    };
    let selector = LeaderSelector::builder(&client, path).id(id).auto_requeue(RequeuePolicy::default()).start(lead)?;
    // One after the other, so that they stand in this order.
    until(async {
        while !selector.participants().await?.iter().any(|one| one.id == id) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, zookeeper_recipes::leader_selector::Error>(())
    })
    .await??;
    println!("{id:>6} enters the election");
    Ok(selector)
}

/// Everybody leads twice, in the order of the line, under growing tokens.
async fn rotation(scenes: &mut mpsc::UnboundedReceiver<Scene>) -> Result<()> {
    println!("\n       Each leads for a moment and stands in line again, behind the others.");
    let (mut terms, mut last, mut leader) = (Vec::new(), 0, None);
    while terms.len() < 2 * NAMES.len() {
        let scene = until(scenes.recv()).await?.ok_or("nobody is left")?;
        scene.tell();
        match scene {
            Scene::Leads(id, token) => {
                if token <= last || leader.replace(id).is_some() {
                    return Err("two led at once".into());
                }
                (last, _) = (token, terms.push(id));
            }
            Scene::Returns(_) => leader = None,
        }
    }
    println!("\n       The order was {}.", terms.join(", "));
    Ok(())
}

/// A leader that would lead for ever is told, gets a moment to finish, and the next one leads.
async fn interruption(stage: &Stage, path: &str) -> Result<()> {
    println!("\n       dave leads for as long as he may, until he is interrupted.");
    let client = stage.connect().await?;
    let lead = |leadership: Leadership| async move {
        leadership.lost().await;
        println!("  dave has been told, and cleans up");
        tokio::time::sleep(Duration::from_millis(100)).await;
        println!("  dave has cleaned up");
    };
    let dave = LeaderSelector::builder(&client, path).id("dave").grace_period(Duration::from_secs(2)).start(lead)?;
    let mut outcomes = dave.outcomes();
    let mut states = dave.state();
    until(states.wait_for(|state| state.is_leader())).await??;
    println!("  dave leads now");
    let next = LeaderSelector::builder(&client, path).id("erin").start(|_: Leadership| async {
        println!("  erin leads now: dave's node is gone");
    })?;
    let mut hers = next.outcomes();
    if !dave.interrupt_leadership() {
        return Err("dave did not lead".into());
    }
    let outcome = until(outcomes.next()).await?.ok_or("dave's selector is gone")?;
    println!("  dave's term is over: {}", outcome.end);
    if !matches!(outcome.end, TermEnd::Interrupted) {
        return Err("it was not the interruption that ended it".into());
    }
    until(hers.next()).await?.ok_or("erin's selector is gone")?;
    for selector in [&dave, &next] {
        selector.close().await?;
    }
    Ok(())
}
