//! A small store of metadata on the client alone, without a recipe: tables, their tablets, and the servers that own
//! them.
//!
//! It plays a scenario and ends: an operator creates a table in one transaction, and servers claim its tablets. Three
//! writers change the schema at the same time, and no change is lost. Then a server goes, and another claims what it
//! had.

use std::process::ExitCode;

use clap::Parser;
use futures::StreamExt;
use futures::future::{try_join_all, try_join3};
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, step, until};
use zookeeper_recipes::{Client, CreateMode, ErrorKind, WatchEvent, WatchMode};

/// A small store of metadata.
#[derive(Parser, Debug)]
#[command(name = "metadata_store")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the tables
    #[arg(long, default_value = "/examples/metadata-store", value_parser = recipes_examples::path)]
    path: String,
}

const USES: [(&str, &str); 3] = [
    ("/orders", "a table: its schema, persistent"),
    ("/orders/tablets/0", "a tablet of the table, persistent"),
    ("/orders/tablets/0/owner", "the name of the server that owns the tablet, ephemeral"),
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

const TABLETS: usize = 6;
/// How many tablets a server owns at most.
const MOST: usize = 3;
const COLUMNS: [&str; 3] = ["price int", "customer text", "day date"];

/// Who owns a tablet: not its name tells that, but the session. A former one may have had the same name.
struct Owner {
    name: String,
    session: i64,
}

/// A table, as one client sees it.
struct Table {
    client: Client,
    path: String,
}

impl Table {
    async fn of(stage: &Stage, path: &str) -> Result<Table> {
        Ok(Table { client: stage.connect().await?, path: format!("{path}/orders") })
    }

    fn tablet(&self, number: usize) -> String {
        format!("{}/tablets/{number}", self.path)
    }

    fn owner(&self, number: usize) -> String {
        format!("{}/owner", self.tablet(number))
    }

    /// Creates the table with all its tablets, or nothing. The directories above need not exist.
    async fn create(&self, schema: &str) -> Result<usize> {
        let mut create = self.client.transaction().create(&self.path, schema, CreateMode::Persistent);
        for number in 0..TABLETS {
            create = create.create(&self.tablet(number), "", CreateMode::Persistent);
        }
        Ok(create.create_parents().commit().await?.len())
    }

    /// Adds a column to the schema. Returns how often another write came between.
    async fn add(&self, column: &str) -> Result<u32> {
        let mut again = 0;
        loop {
            let (schema, stat) = self.client.get(&self.path).await?;
            let schema = String::from_utf8(schema)?;
            // Also after a write whose answer was lost.
            if schema.split(", ").any(|known| known == column) {
                return Ok(again);
            }
            let changed = format!("{schema}, {column}");
            match self.client.set(&self.path, changed, Some(stat.version)).await {
                Ok(_) => return Ok(again),
                Err(error) if error.kind() == ErrorKind::BadVersion => again += 1,
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the owner of each tablet, `None` if it has none.
    async fn owners(&self) -> Result<Vec<Option<Owner>>> {
        let owners = (0..TABLETS).map(|number| self.owner(number));
        let read = self.client.multi_get(owners).await?.into_iter().map(|read| match read {
            Ok((name, stat)) => Ok(Some(Owner { name: String::from_utf8(name)?, session: stat.ephemeral_owner })),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        });
        read.collect()
    }

    fn is_mine(&self, owner: &Option<Owner>) -> bool {
        owner.as_ref().is_some_and(|owner| Some(owner.session) == self.client.session_id())
    }

    /// Claims a tablet, but only with the schema that this server knows. Returns false if another one was first.
    async fn claim(&self, name: &str, number: usize) -> Result<bool> {
        loop {
            let stat = self.client.exists(&self.path).await?.ok_or("the table was dropped")?;
            let claim = self.client.transaction().check_version(&self.path, stat.version);
            match claim.create(&self.owner(number), name, CreateMode::Ephemeral).commit().await {
                Ok(_) => return Ok(true),
                // Also after a claim of its own whose answer was lost.
                Err(error) if error.kind() == ErrorKind::NodeExists => {
                    return Ok(self.is_mine(&self.owners().await?[number]));
                }
                // The schema has changed meanwhile, or no one knows.
                Err(error) if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::OutcomeUnknown) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Serves tablets: looks at the start and after a reconnect, and when an owner goes.
async fn serve(name: &str, table: &Table) -> Result<()> {
    let mut events = table.client.watch(&table.path, WatchMode::PersistentRecursive)?;
    while let Some(event) = events.next().await {
        match event? {
            _ if table.client.is_closed() => return Ok(()),
            WatchEvent::ReadAgain => claim_free(name, table).await?,
            WatchEvent::Deleted { path } if path.ends_with("/owner") => claim_free(name, table).await?,
            _ => {}
        }
    }
    Ok(())
}

/// Claims tablets without an owner, until the server has as many as it may have.
async fn claim_free(name: &str, table: &Table) -> Result<()> {
    let owners = table.owners().await?;
    let mut mine = owners.iter().filter(|owner| table.is_mine(owner)).count();
    for (number, _) in owners.iter().enumerate().filter(|(_, owner)| owner.is_none()) {
        if mine < MOST && table.claim(name, number).await? {
            mine += 1;
            println!("{name} owns tablet {number}");
        }
    }
    Ok(())
}

/// Waits until each tablet has an owner, none of them `gone`. Returns the owners.
async fn owned(operator: &Table, gone: Option<&str>) -> Result<Vec<String>> {
    let mut events = operator.client.watch(&operator.path, WatchMode::PersistentRecursive)?;
    loop {
        let owners = operator.owners().await?.into_iter().map(|owner| owner.map(|owner| owner.name));
        let owners: Option<Vec<String>> = owners.collect();
        match owners.filter(|owners| gone.is_none_or(|gone| owners.iter().all(|owner| owner != gone))) {
            Some(owners) => return Ok(owners),
            None => drop(events.next().await.ok_or("the watch has ended")??),
        }
    }
}

/// Plays an operator, three servers and three writers.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("A store of tables at {path}, on {stage}\n");
    let operator = Table::of(stage, path).await?;
    let created = operator.create("id int").await?;
    println!(
        "the operator has created a table with {TABLETS} tablets: {created} nodes, and those above, in one transaction"
    );
    step(&format!("three servers, alice, bob and carol, claim tablets, {MOST} at most each")).await;
    let (alice, bob, carol) = try_join3(Table::of(stage, path), Table::of(stage, path), Table::of(stage, path)).await?;
    let servers = try_join3(serve("alice", &alice), serve("bob", &bob), serve("carol", &carol));
    tokio::select! {
        outcome = operate(stage, &operator, [&alice, &bob, &carol], path) => outcome?,
        ended = servers => return ended.and(Err("the servers have ended".into())),
    }
    operator.client.delete_recursive(path).await?;
    Ok(())
}

async fn operate(stage: &Stage, operator: &Table, servers: [&Table; 3], path: &str) -> Result<()> {
    let first = until(owned(operator, None)).await??;

    step("three writers change the schema at the same time").await;
    let writers = try_join_all(COLUMNS.map(|_| Table::of(stage, path))).await?;
    let adds = writers.iter().zip(COLUMNS).map(|(writer, column)| writer.add(column));
    let again: u32 = until(try_join_all(adds)).await??.iter().sum();
    let (schema, stat) = operator.client.get(&operator.path).await?;
    let schema = String::from_utf8(schema)?;
    println!(
        "the schema is {schema:?}, version {}; a write was refused {}",
        stat.version,
        count(again as usize, "time", "times")
    );

    // Any server that owns tablets will do.
    let (leaver, server) = ["alice", "bob", "carol"]
        .into_iter()
        .zip(servers)
        .find(|(name, _)| first.contains(&(*name).to_owned()))
        .ok_or("no owner")?;
    step(&format!("{leaver} leaves: its client closes")).await;
    server.client.close().await?;
    let last = until(owned(operator, Some(leaver))).await??;
    let before = operator.client.request_counts();
    operator.owners().await?;
    let reads = (operator.client.request_counts() - before).reads;
    println!("\n{TABLETS} owners, read in {}: {}", count(reads as usize, "request", "requests"), last.join(", "));
    if COLUMNS.iter().any(|column| !schema.contains(column)) || stat.version != 3 {
        return Err("a change of the schema was lost".into());
    }
    println!("Every tablet has an owner, and the schema has all {} columns", COLUMNS.len() + 1);
    Ok(())
}
