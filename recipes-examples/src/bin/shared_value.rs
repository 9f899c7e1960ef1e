//! A setting that all services follow, `SharedValue`, and a number that all may change, `SharedCount`.
//!
//! It plays a scenario and ends: three services read the mode without a request, and an operator changes it. Then all
//! services raise a limit at the same time, and no raise is lost.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, println, until};
use tokio::sync::Barrier;
use zookeeper_recipes::Client;
use zookeeper_recipes::shared_value::{SharedCount, SharedValue, Utf8};

/// A setting that all services follow.
#[derive(Parser, Debug)]
#[command(name = "shared_value")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the settings
    #[arg(long, default_value = "/examples/shared-value", value_parser = recipes_examples::path)]
    path: String,
}

const USES: [(&str, &str); 2] = [
    ("/mode", "the mode of the services, persistent"),
    ("/limit", "a number, as Curator's SharedCount writes it, persistent"),
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
    let path = stage.own_path(&options.path);
    stage.play(scenario(&stage, &path)).await
}

const SERVICES: usize = 3;
const MODES: [&str; 3] = ["normal", "read-only", "maintenance"];
const RAISES: i32 = 5;
/// A pause so that a reader can follow.
const PAUSE: Duration = Duration::from_millis(500);

/// Plays three services and an operator.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("{SERVICES} services follow the settings at {path}, on {stage}\n");
    // All meet here once they have seen a mode. Separate processes would not need this.
    let seen = Barrier::new(SERVICES + 1);
    let services = (1..=SERVICES).map(|service| serve(stage, path, service, &seen));
    let services = futures::future::try_join_all(services);
    let operator = stage.connect().await?;
    until(futures::future::try_join(services, operate(&operator, path, &seen))).await??;
    let limit = SharedCount::count(&operator, format!("{path}/limit")).start().await?;
    let limit = *limit.synced().await?;
    println!("\n{SERVICES} services have followed {} modes, and the limit is {limit}.", MODES.len());
    operator.delete_recursive(path).await?;
    if limit != RAISES * SERVICES as i32 {
        return Err("a raise was lost".into());
    }
    Ok(())
}

/// Runs one service, which follows the mode, and then raises the limit.
async fn serve(stage: &Stage, path: &str, service: usize, seen: &Barrier) -> Result<()> {
    let client = stage.connect().await?;
    let mode = SharedValue::builder(&client, format!("{path}/mode")).decode(Utf8).seed(MODES[0]).start().await?;
    for wanted in MODES {
        mode.wait_for(|now| now == wanted).await?;
        // Read from memory, without a request.
        println!("service {service} is in mode {:?}, version {}", *mode.get()?, mode.get()?.version());
        seen.wait().await;
    }
    let limit = SharedCount::count(&client, format!("{path}/limit")).seed(0).start().await?;
    for _ in 0..RAISES {
        // Compares and sets, and retries until no other write comes between.
        limit.update(|now| now.checked_add(1)).await?;
    }
    println!("service {service} has raised the limit {RAISES} times");
    Ok(())
}

/// Changes the mode each time all services have seen the previous one.
async fn operate(operator: &Client, path: &str, seen: &Barrier) -> Result<()> {
    let mode = SharedValue::builder(operator, format!("{path}/mode")).decode(Utf8).seed(MODES[0]).start().await?;
    for next in MODES.into_iter().skip(1) {
        seen.wait().await;
        println!("\nthe operator sets the mode to {next:?}");
        tokio::time::sleep(PAUSE).await;
        mode.set(next).await?;
    }
    seen.wait().await;
    println!("");
    Ok(())
}
