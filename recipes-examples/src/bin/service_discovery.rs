//! Service discovery with `ServiceDiscovery`: instances of a service register, and a caller finds them and chooses one.
//!
//! Without further options it plays a scenario and ends. With `--id NAME` it is one instance on a real ensemble, and
//! with `--call` a caller: start them in several terminals. End an instance with Ctrl-C (it is drained, and no call
//! fails) or with `kill -9` (the caller avoids it after two calls, and finds it until its session has expired).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures::FutureExt;
use recipes_examples::{Asked, Ensemble, Example, Result, Stage, Znodes, count, println, step, tell_connection, until};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zookeeper_recipes::Client;
use zookeeper_recipes::service_discovery::{
    Change, Changes, Instance, Instances, Registration, Service, ServiceDiscovery, ServiceInstance,
};

/// Service discovery with ServiceDiscovery.
#[derive(Parser, Debug)]
#[command(name = "service_discovery")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the services
    #[arg(long, default_value = "/examples/service-discovery", value_parser = recipes_examples::path)]
    path: String,
    /// Run as one instance with this name on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, value_name = "NAME", value_parser = recipes_examples::name(), group = "process")]
    id: Option<String>,
    /// Run as a caller on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, group = "process")]
    call: bool,
    /// With --id: how many of the calls the instance gets, compared with the others
    #[arg(long, value_name = "N", default_value = "1", value_parser = weight, requires = "id")]
    weight: u32,
}

fn weight(value: &str) -> Result<u32, String> {
    recipes_examples::number(value, 1, 100).map(|weight| weight as u32)
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
        return stage.play_until_asked(|asked| serve(&stage, path, id, options.weight, asked)).await;
    }
    if options.call {
        return stage.play_until_asked(|asked| call_on(&stage, path, asked)).await;
    }
    stage.play(scenario(&stage, &stage.own_path(path))).await
}

/// The name of the service.
const SERVICE: &str = "api";
/// How long a call waits for an answer.
const CALL: Duration = Duration::from_secs(1);
/// How many instances a call tries.
const ATTEMPTS: usize = 3;

/// What an instance says about itself: the payload.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Details {
    /// How many of the calls it gets, compared with the others.
    weight: u32,
}

/// An instance of the service: a process that answers calls, with a client of its own.
struct Process {
    name: String,
    client: Client,
    registration: Registration<Details>,
    port: u16,
    /// Answers until it is aborted.
    answers: JoinHandle<()>,
}

impl Process {
    async fn start(stage: &Stage, path: &str, name: &str, weight: u32) -> Result<Process> {
        let client = stage.connect().await?;
        // It listens first: a caller that finds it can call it.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let answers = tokio::spawn(answer(listener, name.to_owned()));
        // Another process that is registered under this name, or was and has crashed, is waited for.
        let discovery = ServiceDiscovery::builder(&client, path).wait().build()?;
        let registration = discovery.register(describe(name, port, weight)?).await?;
        println!("{name:>6} is registered at 127.0.0.1:{port}, with weight {weight}");
        Ok(Process { name: name.to_owned(), client, registration, port, answers })
    }

    /// Changes how many of the calls it gets.
    async fn set_weight(&self, weight: u32) -> Result<()> {
        Ok(self.registration.update(describe(&self.name, self.port, weight)?).await?)
    }

    /// Stops answering, as a killed process does.
    async fn kill(&mut self) {
        self.answers.abort();
        // It is aborted.
        let _ = (&mut self.answers).await;
    }
}

fn describe(name: &str, port: u16, weight: u32) -> Result<ServiceInstance<Details>> {
    let instance = ServiceInstance::builder(SERVICE).id(name).address("127.0.0.1").port(port);
    Ok(instance.payload(Details { weight }).build()?)
}

/// Answers each call with the name of the instance.
async fn answer(listener: TcpListener, name: String) {
    while let Ok((mut call, _)) = listener.accept().await {
        // The caller may have given up.
        let _ = call.write_all(name.as_bytes()).await;
    }
}

/// Calls an instance, and returns its answer.
async fn ask(instance: &Instance<Details>) -> Result<String> {
    let address = (instance.address().unwrap_or_default(), instance.port().unwrap_or_default());
    let mut answer = String::new();
    TcpStream::connect(address).await?.read_to_string(&mut answer).await?;
    if answer.is_empty() { Err("no answer".into()) } else { Ok(answer) }
}

/// A process that calls the service.
struct Caller {
    api: Service<Details>,
    changes: Changes<Details>,
    /// The instances, according to the changes that were read so far; see [`shares`].
    seen: BTreeMap<String, u32>,
    calls: usize,
    unanswered: usize,
}

impl Caller {
    async fn start(client: &Client, path: &str) -> Result<Caller> {
        let discovery = ServiceDiscovery::new(client, path)?;
        let api = discovery.service(SERVICE).weight(weight_of).start().await?;
        let changes = api.changes();
        let seen = shares(&changes.start());
        Ok(Caller { api, changes, seen, calls: 0, unanswered: 0 })
    }

    /// Calls the service. If an instance does not answer, the next one is tried: perhaps the same, until it is down.
    async fn call(&mut self) -> Option<String> {
        self.calls += 1;
        for _ in 0..ATTEMPTS {
            let Some(instance) = self.api.next() else { break };
            if let Ok(Ok(answer)) = timeout(CALL, ask(&instance)).await {
                self.api.report_ok(&instance);
                return Some(answer);
            }
            self.api.report_error(&instance);
            println!("caller: {} does not answer", instance.id());
        }
        self.unanswered += 1;
        None
    }

    /// Makes twelve calls, and checks which instances have answered.
    async fn make_calls(&mut self, expected: &[(&str, u32)]) -> Result<()> {
        let mut answers = BTreeMap::new();
        for _ in 0..12 {
            let answer = self.call().await.unwrap_or_else(|| "no instance".to_owned());
            *answers.entry(answer).or_default() += 1;
        }
        let told: Vec<_> = answers.iter().map(|(name, number)| format!("{name} {number}")).collect();
        println!("caller: of 12 calls, these have answered: {}", told.join(", "));
        if answers == owned(expected) { Ok(()) } else { Err(format!("expected was {expected:?}").into()) }
    }

    /// Prints the changes until the instances are these; see [`shares`].
    async fn sees(&mut self, expected: &[(&str, u32)]) -> Result<()> {
        let expected = owned(expected);
        until(async {
            while self.seen != expected {
                let Some(change) = self.changes.next().await else { return Err("the client was closed".into()) };
                self.follow(&change);
            }
            // What `next` chooses among follows the changes a moment later.
            self.api.wait_until(|now| shares(now) == expected).await?;
            Ok(())
        })
        .await?
    }

    /// Prints a change, and applies it to what was seen.
    fn follow(&mut self, change: &Change<Details>) {
        match change {
            Change::Added(new) => println!("caller: finds {}", told(new)),
            Change::Updated { new, .. } => println!("caller: now there is {}", told(new)),
            Change::Removed { old } => println!("caller: {} is gone", old.id()),
            Change::Synced => println!("caller: that was everything I had missed"),
            Change::Failed(error) => println!("caller: {error}"),
            other => println!("caller: {other:?}"),
        }
        match change {
            Change::Added(new) | Change::Updated { new, .. } => self.seen.extend([share(new)]),
            Change::Removed { old } => drop(self.seen.remove(old.id())),
            Change::Lagged(now) => self.seen = shares(now),
            _ => {}
        }
    }
}

fn weight_of(instance: &ServiceInstance<Details>) -> u32 {
    instance.payload().map_or(1, |details| details.weight)
}

/// Returns each instance and its weight; one that accepts no new calls has 0.
fn shares(instances: &Instances<Details>) -> BTreeMap<String, u32> {
    instances.iter().map(|instance| share(&instance)).collect()
}

fn share(instance: &Instance<Details>) -> (String, u32) {
    (instance.id().to_owned(), if instance.is_enabled() { weight_of(instance) } else { 0 })
}

fn owned(numbers: &[(&str, u32)]) -> BTreeMap<String, u32> {
    numbers.iter().map(|(name, number)| (name.to_string(), *number)).collect()
}

fn told(instance: &Instance<Details>) -> String {
    let accepts = if instance.is_enabled() { "" } else { ", which accepts no new calls" };
    format!("{} with weight {}{accepts}", instance.id(), weight_of(instance))
}

/// Runs one instance in a process of its own.
async fn serve(stage: &Stage, path: &str, id: &str, weight: u32, asked: Asked) -> Result<()> {
    println!("{id}: connecting to {stage}; if another process is {id}, this one waits until that one is gone");
    let process = tokio::select! {
        biased;
        () = asked.clone() => return Ok(()),
        started = Process::start(stage, path, id, weight) => started?,
    };
    tell_connection(&process.client, id);
    println!("{id}: answers calls (Ctrl-C to end)");
    asked.await;
    process.registration.set_enabled(false).await?;
    println!("{id}: accepts no new calls; those that are under way have two seconds");
    // For the longest call, and for the callers to hear of it.
    sleep(CALL * 2).await;
    process.registration.unregister().await?;
    println!("{id}: is unregistered");
    Ok(())
}

/// Runs a caller in a process of its own.
async fn call_on(stage: &Stage, path: &str, asked: Asked) -> Result<()> {
    println!("caller: connecting to {stage}");
    let client = stage.connect().await?;
    let mut caller = Caller::start(&client, path).await?;
    tell_connection(&client, "caller");
    println!("caller: finds {} (Ctrl-C to end)", count(caller.seen.len(), "instance", "instances"));
    loop {
        while let Some(Some(change)) = caller.changes.next().now_or_never() {
            caller.follow(&change);
        }
        match caller.call().await {
            Some(name) => println!("caller: {name} answers"),
            None => println!("caller: no instance answers"),
        }
        tokio::select! {
            biased;
            () = asked.clone() => break,
            () = sleep(Duration::from_millis(500)) => {}
        }
    }
    println!("{}, {} unanswered.", count(caller.calls, "call", "calls"), caller.unanswered);
    Ok(())
}

/// Three instances are called. One is drained, one is killed, one is started, and one asks for fewer calls.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("The service {SERVICE} at {path}, on {stage}\n");
    let mut caller = Caller::start(&stage.connect().await?, path).await?;
    let alice = until(Process::start(stage, path, "alice", 2)).await??;
    let bob = until(Process::start(stage, path, "bob", 1)).await??;
    let mut carol = until(Process::start(stage, path, "carol", 1)).await??;
    caller.sees(&[("alice", 2), ("bob", 1), ("carol", 1)]).await?;
    caller.make_calls(&[("alice", 6), ("bob", 3), ("carol", 3)]).await?;

    step("bob is about to end: it accepts no new calls, and then unregisters.").await;
    bob.registration.set_enabled(false).await?;
    caller.sees(&[("alice", 2), ("bob", 0), ("carol", 1)]).await?;
    caller.make_calls(&[("alice", 8), ("carol", 4)]).await?;
    bob.registration.unregister().await?;
    caller.sees(&[("alice", 2), ("carol", 1)]).await?;

    step("carol's process is killed. Her session goes on.").await;
    if let Some(server) = stage.embedded() {
        server.freeze_client(&carol.client);
    }
    carol.kill().await;
    caller.make_calls(&[("alice", 12)]).await?;

    match stage.embedded() {
        Some(_) => step("carol's session expires.").await,
        // A real client cannot be killed from here; `--id` shows that case.
        None => {
            step("carol's client closes, which ends her session.").await;
            carol.client.close().await?;
        }
    }
    caller.sees(&[("alice", 2)]).await?;

    step("dave starts.").await;
    let dave = until(Process::start(stage, path, "dave", 2)).await??;
    caller.sees(&[("alice", 2), ("dave", 2)]).await?;
    caller.make_calls(&[("alice", 6), ("dave", 6)]).await?;

    step("alice asks for fewer calls.").await;
    alice.set_weight(1).await?;
    caller.sees(&[("alice", 1), ("dave", 2)]).await?;
    caller.make_calls(&[("alice", 4), ("dave", 8)]).await?;

    let Caller { calls, unanswered, .. } = caller;
    println!("\n{}, {unanswered} unanswered.", count(calls, "call", "calls"));
    for process in [alice, dave] {
        process.registration.unregister().await?;
    }
    Ok(())
}
