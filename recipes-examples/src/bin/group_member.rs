//! Membership in a group with `GroupMember`: who is there, at which address, and who joins and leaves.
//!
//! Without `--id` it plays a scenario with several services and ends. With `--id NAME` it is one service on a real
//! ensemble: start it in several terminals, and end one with Ctrl-C (it leaves, and the others see it at once) or with
//! `kill -9` (the others see it leave when its session has expired).

use std::process::ExitCode;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, println, tell_connection, until};
use zookeeper_recipes::Client;
use zookeeper_recipes::group_member::{Change, Changes, GroupMember, Members};
use zookeeper_recipes::testing::TestingServer;

/// Membership in a group with GroupMember.
#[derive(Parser, Debug)]
#[command(name = "group_member")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the group
    #[arg(long, default_value = "/examples/group-member", value_parser = recipes_examples::path)]
    path: String,
    /// Run as one service with this name on a real ensemble, until Ctrl-C [default: play a scenario]
    #[arg(long, value_name = "NAME", value_parser = recipes_examples::name())]
    id: Option<String>,
    /// With --id: the address that the others see
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:80", requires = "id")]
    address: String,
}

impl Example for Options {
    fn ensemble(&self) -> &Ensemble {
        &self.ensemble
    }

    fn znodes(&self) -> Znodes<'_> {
        let shared_by = self.id.as_ref().map(|_| "--id");
        Znodes { path: &self.path, shared_by, uses: &[("", "the group: a znode for each member, ephemeral")] }
    }
}

fn main() -> ExitCode {
    recipes_examples::main(play)
}

async fn play(options: Options) -> Result<()> {
    let stage = Stage::new(&options.ensemble);
    match &options.id {
        Some(id) => stage.play(serve(&stage, &options.path, id, &options.address)).await,
        None => stage.play(scenario(&stage, &stage.own_path(&options.path))).await,
    }
}

/// Runs one service in a process of its own.
async fn serve(stage: &Stage, path: &str, id: &str, address: &str) -> Result<()> {
    println!("{id}: connecting to {stage}");
    let client = stage.connect().await?;
    println!("{id}: joins the group at {path}; if another process is {id}, this one waits until that one has left");
    let member = GroupMember::builder(&client, path, id).data(address).wait().join().await?;
    println!("{id}: is a member (Ctrl-C to leave)");
    tell_connection(&client, id);
    let mut changes = member.changes();
    println!("{id}: the members are {}", with_addresses(&member.members()));
    while let Some(change) = changes.next().await {
        tell(id, &change);
    }
    Ok(())
}

/// Prints a change as the member `id` sees it.
fn tell(id: &str, change: &Change) {
    match change {
        Change::Joined { id: other, data } => println!("{id:>6}: {other} has joined, at {}", text(data)),
        Change::Left { id: other, .. } => println!("{id:>6}: {other} has left"),
        Change::Updated { id: other, new, .. } => println!("{id:>6}: {other} is at {} now", text(new)),
        Change::Synced => println!("{id:>6}: that was everything I had missed"),
        Change::Lagged(members) => println!("{id:>6}: too many changes; now there are {}", with_addresses(members)),
        Change::Failed(error) => println!("{id:>6}: {error}"),
        other => println!("{id:>6}: {other:?}"),
    }
}

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

fn with_addresses(members: &Members) -> String {
    let all: Vec<_> = members.iter().map(|(id, data)| format!("{id} at {}", text(data))).collect();
    all.join(", ")
}

/// A service of the scenario, with a client of its own.
struct Service {
    id: &'static str,
    client: Client,
    member: GroupMember,
    changes: Changes,
    /// The members, according to the changes that were read so far.
    seen: Members,
}

impl Service {
    async fn join(stage: &Stage, path: &str, id: &'static str, address: &str) -> Result<Service> {
        let client = stage.connect().await?;
        let member = until(GroupMember::join(&client, path, id, address)).await??;
        let changes = member.changes();
        let seen = changes.start();
        println!("{id:>6} joins, and sees {}", with_addresses(&seen));
        Ok(Service { id, client, member, changes, seen })
    }

    /// Prints the changes until the members are the expected ones.
    async fn sees(&mut self, expected: &[(&str, &str)]) -> Result<()> {
        let expected: Members = expected.iter().map(|(id, data)| (id.to_string(), data.as_bytes().to_vec())).collect();
        until(async {
            while self.seen != expected {
                let Some(change) = self.changes.next().await else { return Err("the client was closed".into()) };
                tell(self.id, &change);
                apply(change, &mut self.seen);
            }
            Ok(())
        })
        .await?
    }
}

/// Applies a change to the members.
fn apply(change: Change, members: &mut Members) {
    match change {
        Change::Joined { id, data } | Change::Updated { id, new: data, .. } => drop(members.insert(id, data)),
        Change::Left { id, .. } => drop(members.remove(&id)),
        Change::Lagged(now) => *members = now,
        _ => {}
    }
}

const ALICE: (&str, &str) = ("alice", "10.0.0.1:80");
const BOB: (&str, &str) = ("bob", "10.0.0.2:80");
const CAROL: (&str, &str) = ("carol", "10.0.0.3:80");
const BOB_LATER: (&str, &str) = ("bob", "10.0.0.4:80");

/// Three join, one leaves, one fails and comes back, and the one that left comes back with another address.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("A group at {path}, on {stage}\n");
    let mut alice = Service::join(stage, path, ALICE.0, ALICE.1).await?;
    let bob = Service::join(stage, path, BOB.0, BOB.1).await?;
    let carol = Service::join(stage, path, CAROL.0, CAROL.1).await?;
    alice.sees(&[ALICE, BOB, CAROL]).await?;

    println!("\n       bob leaves.");
    bob.member.leave().await?;
    alice.sees(&[ALICE, CAROL]).await?;

    let mut carol = match stage.embedded() {
        Some(server) => freeze(server, &mut alice, carol).await?,
        None => restart(stage, path, &mut alice, carol).await?,
    };
    println!("\n       bob comes back, at another address.");
    let mut bob = Service::join(stage, path, BOB.0, BOB_LATER.1).await?;
    let all = [ALICE, BOB_LATER, CAROL];
    for service in [&mut alice, &mut bob, &mut carol] {
        service.sees(&all).await?;
    }
    println!("\n       All see the same.");
    let members: Vec<_> = alice.member.members().into_keys().collect();
    println!("members: {}", members.join(", "));
    Ok(())
}

/// Stops carol's process, as `kill -STOP` does, until her session has expired. She joins again by herself.
async fn freeze(server: &TestingServer, alice: &mut Service, mut carol: Service) -> Result<Service> {
    println!("\n       carol's process is stopped for longer than her session timeout.");
    server.freeze_client(&carol.client);
    alice.sees(&[ALICE]).await?;
    println!("       carol's process continues.");
    server.thaw_client(&carol.client);
    alice.sees(&[ALICE, CAROL]).await?;
    carol.sees(&[ALICE, CAROL]).await?;
    Ok(carol)
}

/// Closes carol's client and starts her again. A real client cannot be stopped from here; `--id` shows that case.
async fn restart(stage: &Stage, path: &str, alice: &mut Service, carol: Service) -> Result<Service> {
    println!("\n       carol's client closes, which ends her session; she has not left.");
    carol.client.close().await?;
    alice.sees(&[ALICE]).await?;
    println!("       carol starts again.");
    let carol = Service::join(stage, path, CAROL.0, CAROL.1).await?;
    alice.sees(&[ALICE, CAROL]).await?;
    Ok(carol)
}
