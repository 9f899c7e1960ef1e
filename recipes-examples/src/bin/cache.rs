//! A configuration that services follow with `Cache`: what changed, and what changed while they were cut off.
//!
//! Without `--id` it plays a scenario and ends. With `--id NAME` it is one service that follows the configuration on a
//! real ensemble; `--set NAME=VALUE` changes a setting for all of them.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Parser;
use futures::StreamExt;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, tell_connection, until};
use tokio::sync::watch;
use zookeeper_recipes::cache::{Cache, Change, Node, Utf8};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ConnectionState, CreateMode, ErrorKind};

/// A configuration that services follow with Cache.
#[derive(Parser, Debug)]
#[command(name = "cache")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the configuration
    #[arg(long, default_value = "/examples/cache", value_parser = recipes_examples::path)]
    path: String,
    /// Run as one service with this name on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, value_name = "NAME", value_parser = recipes_examples::name(), conflicts_with = "set")]
    id: Option<String>,
    /// Change a setting for all services on a real ensemble
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Option<(String, String)>,
}

fn setting(value: &str) -> Result<(String, String), String> {
    match value.split_once('=') {
        Some((name, value)) if recipes_examples::path(&format!("/{name}")).is_ok() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("a name, '=' and a value are allowed, as in limits/requests=100".to_owned()),
    }
}

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        let shared_by = self.id.as_ref().map(|_| "--id").or(self.set.as_ref().map(|_| "--set"));
        Znodes { path: &self.path, shared_by, uses: &[("", "the configuration: a znode for each setting")] }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    match (&options.id, &options.set) {
        (Some(id), _) => stage.play(serve(&stage, &options.path, id)).await,
        (_, Some((name, value))) => stage.play(change(&stage, &options.path, name, value)).await,
        _ => stage.play(scenario(&stage, &stage.own_path(&options.path))).await,
    }
}

/// Runs one service in a process of its own.
async fn serve(stage: &Stage, path: &str, id: &str) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
    tell_connection(&client, id);
    let (known, _) = watch::channel(Known::default());
    follow(Cache::tree(&client, path).decode(Utf8).start().await?, id.to_owned(), known).await
}

async fn change(stage: &Stage, path: &str, name: &str, value: &str) -> Result<()> {
    let client = stage.connect().await?;
    set(&client, path, name, value).await?;
    println!("{name} is {value} now");
    Ok(())
}

/// Values by name.
type Settings = BTreeMap<String, String>;

/// What a service works with.
#[derive(Debug, Default)]
struct Known {
    settings: Settings,
    /// How often everything was compared with the servers since it started.
    comparisons: usize,
}

/// Prints each change, and applies it.
async fn follow(cache: Cache<String>, id: String, known: watch::Sender<Known>) -> Result<()> {
    let mut changes = cache.changes();
    let name = |node: &Node<String>| node.path().strip_prefix(cache.path())?.strip_prefix('/').map(str::to_owned);
    let value = |node: &Node<String>| node.value().cloned().unwrap_or_else(|| format!("{:?}", node.content()));
    let first = changes.start().iter().filter_map(|node| Some((name(node)?, value(node)))).collect::<Settings>();
    println!("{id:>8}: starts with {}", count(first.len(), "setting", "settings"));
    known.send_modify(|known| known.settings = first);
    while let Some(change) = changes.next().await {
        match change {
            Change::Added(node) => {
                if let Some(name) = name(&node) {
                    println!("{id:>8}: {name}: {} (new)", value(&node));
                    known.send_modify(|known| drop(known.settings.insert(name, value(&node))));
                }
            }
            Change::Updated { old, new } => {
                if let Some(name) = name(&new) {
                    println!("{id:>8}: {name}: {} -> {}", value(&old), value(&new));
                    known.send_modify(|known| drop(known.settings.insert(name, value(&new))));
                }
            }
            Change::Removed { old } => {
                if let Some(name) = name(&old) {
                    println!("{id:>8}: {name}: {} (removed)", value(&old));
                    known.send_modify(|known| drop(known.settings.remove(&name)));
                }
            }
            Change::Synced => {
                println!("{id:>8}: that was all: everything was compared with the servers");
                known.send_modify(|known| known.comparisons += 1);
            }
            Change::Lagged(now) => {
                println!("{id:>8}: was too slow, and takes all {} again", count(now.len(), "node", "nodes"));
                let all = now.iter().filter_map(|node| Some((name(node)?, value(node)))).collect();
                known.send_modify(|known| known.settings = all);
            }
            Change::Failed(error) => println!("{id:>8}: {error}"),
            other => println!("{id:>8}: {other:?}"),
        }
    }
    Err(format!("{id}: the client was closed").into())
}

/// Sets a setting, which need not exist yet.
async fn set(client: &Client, path: &str, name: &str, value: &str) -> Result<()> {
    let path = format!("{path}/{name}");
    let (above, _) = path.rsplit_once('/').unwrap_or_default();
    client.create_containers(above).await?;
    match client.create(&path, value, CreateMode::Persistent).await {
        Err(error) if error.kind() == ErrorKind::NodeExists => drop(client.set(&path, value, None).await?),
        created => drop(created?),
    }
    Ok(())
}

/// A service of the scenario.
struct Service {
    client: Client,
    known: watch::Receiver<Known>,
}

impl Service {
    async fn start(stage: &Stage, path: &str, id: &str) -> Result<Service> {
        let client = stage.connect().await?;
        let cache = until(Cache::tree(&client, path).decode(Utf8).start()).await??;
        let (sender, mut known) = watch::channel(Known::default());
        let following = stage.spawn(&client, follow(cache, id.to_owned(), sender));
        // The task ends with the client, after the scenario; `has` finds out what it did not apply.
        tokio::spawn(following);
        until(known.changed()).await??;
        Ok(Service { client, known })
    }

    /// Waits until the service works with these settings.
    async fn has(&mut self, expected: &Settings) -> Result<()> {
        until(self.known.wait_for(|known| known.settings == *expected)).await??;
        Ok(())
    }
}

/// An operator, and what the settings should be.
struct Operator {
    client: Client,
    path: String,
    settings: Settings,
}

impl Operator {
    async fn set(&mut self, name: &str, value: &str) -> Result<()> {
        println!("operator: sets {name} to {value}");
        self.settings.insert(name.to_owned(), value.to_owned());
        set(&self.client, &self.path, name, value).await
    }

    async fn remove(&mut self, name: &str) -> Result<()> {
        println!("operator: removes {name}");
        self.settings.remove(name);
        Ok(self.client.delete(&format!("{}/{name}", self.path), None).await?)
    }
}

/// Changes settings; then cuts one service off while they change.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("A configuration at {path}, on {stage}\n");
    let mut operator = Operator { client: stage.connect().await?, path: path.to_owned(), settings: Settings::new() };
    for (name, value) in [("limit", "100"), ("mode", "safe"), ("backends", "round-robin"), ("backends/a", "10.0.0.1")] {
        operator.set(name, value).await?;
    }
    println!("\n          Two services start.");
    let mut api = Service::start(stage, path, "api").await?;
    let mut worker = Service::start(stage, path, "worker").await?;

    println!("\n          The operator edits, and both follow.");
    operator.set("limit", "250").await?;
    both_have(&mut api, &mut worker, &operator).await?;
    operator.set("backends/b", "10.0.0.2").await?;
    both_have(&mut api, &mut worker, &operator).await?;
    operator.remove("mode").await?;
    both_have(&mut api, &mut worker, &operator).await?;

    if let Some(server) = stage.embedded() {
        outage(server, &mut api, &mut worker, &mut operator).await?;
    }
    both_have(&mut api, &mut worker, &operator).await?;
    println!("\n          Both services have the {} settings of the operator.", operator.settings.len());
    Ok(())
}

async fn both_have(api: &mut Service, worker: &mut Service, operator: &Operator) -> Result<()> {
    api.has(&operator.settings).await?;
    worker.has(&operator.settings).await
}

/// Cuts the api off while the operator edits; reconnected, the api receives what differs.
async fn outage(
    server: &TestingServer,
    api: &mut Service,
    worker: &mut Service,
    operator: &mut Operator,
) -> Result<()> {
    println!("\n          The api is cut off. It keeps what it has, and the worker follows.");
    tell_connection(&api.client, "     api");
    let mut states = api.client.connection_states();
    server.refuse(&api.client);
    server.disconnect(&api.client);
    while until(states.next()).await?.ok_or("the client is closed")?? != ConnectionState::Suspended {}
    let before = api.known.borrow().settings.clone();
    operator.set("limit", "300").await?;
    worker.has(&operator.settings).await?;
    operator.set("backends/c", "10.0.0.3").await?;
    worker.has(&operator.settings).await?;
    operator.remove("backends/c").await?;
    operator.remove("backends/a").await?;
    worker.has(&operator.settings).await?;
    operator.set("limit", "275").await?;
    worker.has(&operator.settings).await?;
    if api.known.borrow().settings != before {
        return Err("the api was not cut off".into());
    }
    println!("\n          It is connected again, and told what differs. backends/c has come and gone.");
    server.heal();
    until(api.known.wait_for(|known| known.comparisons > 0)).await??;
    Ok(())
}
