//! A registration that lasts, `PersistentNode`: services register their addresses, and a gateway follows them.
//!
//! It plays a scenario and ends: two services register. One changes its address, an operator deletes its znode by hand,
//! and in memory its session expires; each time the registration comes back without a call. The other one closes.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, println, until};
use zookeeper_recipes::Client;
use zookeeper_recipes::cache::{Cache, Snapshot, Utf8};
use zookeeper_recipes::persistent_node::PersistentNode;

/// A registration that lasts.
#[derive(Parser, Debug)]
#[command(name = "persistent_node")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the services
    #[arg(long, default_value = "/examples/persistent-node", value_parser = recipes_examples::path)]
    path: String,
}

const USES: [(&str, &str); 1] = [("/alice", "a znode for each service, with its address, ephemeral")];

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

/// Plays two services, a gateway that follows them, and an operator.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("Two services register at {path}, on {stage}\n");
    let at = |name: &str| format!("{path}/{name}");
    let (client, gateway) = (stage.connect().await?, stage.connect().await?);
    let alice = register(&client, path, "alice", "10.0.0.1:80").await?;
    let bob = register(&stage.connect().await?, path, "bob", "10.0.0.2:80").await?;
    let services = Cache::children(&gateway, path).decode(Utf8).start().await?;

    step("alice moves to another address").await;
    alice.set_data("10.0.0.9:80").await?;
    until(services.wait_for(|now| address(now, &at("alice")) == Some("10.0.0.9:80"))).await??;
    show(&services.snapshot(), path);

    step("an operator deletes alice's znode by hand").await;
    let before = created(&services.snapshot(), &at("alice"));
    gateway.delete(&at("alice"), None).await?;
    until(services.wait_for(|now| created(now, &at("alice")) > before)).await??;
    show(&services.snapshot(), path);

    let mut survived = "a deletion by hand";
    if let Some(server) = stage.embedded() {
        step("alice's session expires").await;
        let before = created(&services.snapshot(), &at("alice"));
        server.expire_session(&client);
        until(services.wait_for(|now| created(now, &at("alice")) > before)).await??;
        show(&services.snapshot(), path);
        survived = "a deletion by hand and a lost session";
    }

    step("bob closes").await;
    bob.close().await?;
    until(services.wait_for(|now| address(now, &at("bob")).is_none())).await??;
    show(&services.snapshot(), path);
    println!("\nThe registration of alice outlived {survived}; that of bob is gone.");
    Ok(())
}

/// Registers a service, and prints each state of its registration.
async fn register(client: &Client, path: &str, name: &'static str, address: &str) -> Result<PersistentNode> {
    let node = PersistentNode::builder(client, format!("{path}/{name}")).data(address).start()?;
    node.created().await?;
    println!("{name} is registered");
    let mut states = node.state();
    tokio::spawn(async move {
        while let Ok(state) = states.changed().await {
            println!("    {name}'s registration: {state}");
        }
    });
    Ok(node)
}

/// Prints what happens next, and gives a reader time to follow.
async fn step(what: &str) {
    println!("\n{what}");
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// Prints what the gateway sees.
fn show(services: &Snapshot<String>, path: &str) {
    for name in ["alice", "bob"] {
        let address = address(services, &format!("{path}/{name}")).unwrap_or("no address");
        println!("the gateway finds {name} at {address}");
    }
}

fn address<'a>(services: &'a Snapshot<String>, path: &str) -> Option<&'a str> {
    services.get(path)?.value().map(String::as_str)
}

/// Returns the transaction that created the znode of a service.
fn created(services: &Snapshot<String>, path: &str) -> Option<i64> {
    services.get(path).map(|node| node.stat().czxid)
}
