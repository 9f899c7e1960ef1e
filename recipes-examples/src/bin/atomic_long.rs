//! Tickets numbered by a `DistributedAtomicLong`, at a price in a `SharedCount`: several windows sell them.
//!
//! It plays a scenario and ends: three windows sell numbered tickets at the same time, while the office changes the
//! price. In memory, some answers of the servers are lost meanwhile.

use std::process::ExitCode;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, until};
use zookeeper_recipes::Client;
use zookeeper_recipes::atomic_long::DistributedAtomicLong;
use zookeeper_recipes::shared_value::SharedCount;
use zookeeper_recipes::testing::{Loss, Operation};

/// Numbered tickets at a price that changes.
#[derive(Parser, Debug)]
#[command(name = "atomic_long")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the office
    #[arg(long, default_value = "/examples/atomic-long", value_parser = recipes_examples::path)]
    path: String,
}

const USES: [(&str, &str); 2] = [
    ("/sold", "how many tickets are sold, eight bytes; below it an ephemeral znode for each window"),
    ("/price", "the price of a ticket, four bytes"),
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
    stage.play(scenario(&stage, &stage.own_path(&options.path))).await
}

const WINDOWS: [&str; 3] = ["north", "east", "west"];
/// How many tickets each window sells before the price changes, and after that.
const TICKETS: usize = 5;

/// A ticket that was sold.
struct Ticket {
    number: i64,
    price: i32,
}

async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("A ticket office at {path}, on {stage}\n");
    let client = stage.connect().await?;
    let (sold, price) = (format!("{path}/sold"), format!("{path}/price"));
    let office = until(SharedCount::count(&client, &*price).seed(20).start()).await??;
    let mut windows = Vec::new();
    for name in WINDOWS {
        windows.push(Window::open(stage, name, &sold, &price).await?);
    }
    let mut tickets = sell(&windows).await?;

    if let Some(raised) = office.update(|price| price.checked_add(5)).await? {
        println!("\n  The office raises the price to {raised}.\n");
        for window in &windows {
            // A watch notifies each window a moment later.
            until(window.price.wait_for(|price| *price == *raised)).await??;
        }
    }
    if let Some(server) = stage.embedded() {
        println!("  An answer to each window is lost: it cannot know whether its ticket was counted.\n");
        for (at, window) in windows.iter().enumerate() {
            let loss = if at == 0 { Loss::NotApplied } else { Loss::Applied };
            server.lose_next_reply(&window.client, Operation::Multi, loss);
        }
    }
    tickets.extend(sell(&windows).await?);
    tell(tickets)?;
    drop(windows);
    drop(office);
    clean(&client, path).await
}

/// One window, in a process of its own.
struct Window {
    name: &'static str,
    client: Client,
    sold: DistributedAtomicLong,
    price: SharedCount,
}

impl Window {
    async fn open(stage: &Stage, name: &'static str, sold: &str, price: &str) -> Result<Window> {
        let client = stage.connect().await?;
        let price = until(SharedCount::count(&client, price).start()).await??;
        let sold = DistributedAtomicLong::new(&client, sold)?;
        Ok(Window { name, client, sold, price })
    }

    async fn sell(&self) -> Result<Vec<Ticket>> {
        let mut tickets = Vec::new();
        for _ in 0..TICKETS {
            // Each ticket is counted once, even if an answer is lost.
            let number = self.sold.increment().await?.after;
            // Read from memory, without a request.
            let price = *self.price.get()?;
            println!("{:>7}: ticket {number} for {price}", self.name);
            tickets.push(Ticket { number, price });
        }
        Ok(tickets)
    }
}

/// Lets all windows sell at the same time.
async fn sell(windows: &[Window]) -> Result<Vec<Ticket>> {
    let tickets = until(futures::future::try_join_all(windows.iter().map(Window::sell))).await??;
    Ok(tickets.into_iter().flatten().collect())
}

/// Prints what was sold, and checks that each number is there once.
fn tell(mut tickets: Vec<Ticket>) -> Result<()> {
    tickets.sort_by_key(|ticket| ticket.number);
    let numbers: Vec<i64> = tickets.iter().map(|ticket| ticket.number).collect();
    if !numbers.iter().copied().eq(1..=(WINDOWS.len() * TICKETS * 2) as i64) {
        return Err(format!("the numbers should be in one sequence: {numbers:?}").into());
    }
    let taken: i32 = tickets.iter().map(|ticket| ticket.price).sum();
    println!("\n{}, each number once, for {taken}.", count(tickets.len(), "ticket", "tickets"));
    Ok(())
}

/// Deletes what outlasts the sessions.
async fn clean(client: &Client, path: &str) -> Result<()> {
    let sold = format!("{path}/sold");
    until(without_children(client, &sold)).await??;
    client.delete(&sold, None).await?;
    Ok(client.delete(&format!("{path}/price"), None).await?)
}

/// Waits until the windows' own nodes are deleted, which happens in the background.
async fn without_children(client: &Client, path: &str) -> Result<()> {
    while !client.children(path).await?.is_empty() {
        tokio::task::yield_now().await;
    }
    Ok(())
}
