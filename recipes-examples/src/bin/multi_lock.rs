//! Several locks as one, `InterProcessMultiLock`: tellers move money between accounts, each of which has a lock.
//!
//! It plays a scenario and ends: three tellers transfer between three accounts in circles, which would be a deadlock if
//! each teller locked its accounts in its own order.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, count, println, until};
use zookeeper_recipes::multi_lock::{InterProcessMultiLock, MultiLockGuard};
use zookeeper_recipes::{Client, CreateMode};

/// Several locks as one.
#[derive(Parser, Debug)]
#[command(name = "multi_lock")]
struct Options {
    #[command(flatten)]
    ensemble: Ensemble,
    /// The path of the accounts
    #[arg(long, default_value = "/examples/multi-lock", value_parser = recipes_examples::path)]
    path: String,
}

const USES: [(&str, &str); 2] = [
    ("/alice", "a lock for each account: a znode for each teller that holds it or waits for it, ephemeral"),
    ("-alice", "the balance of each account, ephemeral"),
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

const ACCOUNTS: [&str; 3] = ["alice", "bob", "carol"];
const AT_FIRST: i64 = 100;
const ROUNDS: i64 = 5;

/// Plays three tellers, each of which moves money from one account to the next.
async fn scenario(stage: &Stage, path: &str) -> Result<()> {
    println!("Three tellers and three accounts below {path}, on {stage}\n");
    let client = stage.connect().await?;
    if let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
        client.create_containers(parent).await?;
    }
    for account in ACCOUNTS {
        client.create(&balance_of(path, account), AT_FIRST.to_string(), CreateMode::Ephemeral).await?;
    }
    let tellers = (0..ACCOUNTS.len()).map(|teller| work(stage, path, teller));
    until(futures::future::try_join_all(tellers)).await??;
    tell(&client, path).await
}

fn lock_of(path: &str, account: &str) -> String {
    format!("{path}/{account}")
}

fn balance_of(path: &str, account: &str) -> String {
    format!("{path}-{account}")
}

/// Runs one teller, which moves a little more in each round.
async fn work(stage: &Stage, path: &str, teller: usize) -> Result<()> {
    let client = stage.connect().await?;
    let (from, to) = (ACCOUNTS[teller], ACCOUNTS[(teller + 1) % ACCOUNTS.len()]);
    // Named in this order, and acquired in the order of the paths.
    let locks = InterProcessMultiLock::new(&client, [lock_of(path, from), lock_of(path, to)])?;
    for round in 1..=ROUNDS {
        let guard = locks.acquire().await?;
        // Once one of the locks is lost, the transfer is dropped at the next await that has to wait.
        guard.run(transfer(&client, &guard, path, [from, to], round)).await??;
        guard.release().await?;
        println!("teller {} has moved {round} from {from} to {to}", teller + 1);
    }
    Ok(())
}

async fn transfer(
    client: &Client,
    guard: &MultiLockGuard,
    path: &str,
    [from, to]: [&str; 2],
    amount: i64,
) -> Result<()> {
    let [from, to] = [balance_of(path, from), balance_of(path, to)];
    let (has, had) = (balance(client, &from).await?, balance(client, &to).await?);
    tokio::time::sleep(Duration::from_millis(5)).await;
    // The ensemble refuses the write once another teller can hold one of the locks.
    let write = client.transaction().check(&guard.fence());
    let write = write.set_data(&from, (has - amount).to_string(), None).set_data(&to, (had + amount).to_string(), None);
    write.commit().await?;
    Ok(())
}

async fn balance(client: &Client, path: &str) -> Result<i64> {
    let (data, _) = client.get(path).await?;
    Ok(String::from_utf8(data)?.parse()?)
}

/// Prints the balances, and checks them.
async fn tell(client: &Client, path: &str) -> Result<()> {
    println!("");
    let mut sum = 0;
    for account in ACCOUNTS {
        let balance = balance(client, &balance_of(path, account)).await?;
        sum += balance;
        println!("{account:>6} has {balance}");
        // Each account gives as much as it gets.
        if balance != AT_FIRST {
            return Err(format!("{account} should have {AT_FIRST}").into());
        }
    }
    let transfers = ACCOUNTS.len() * ROUNDS as usize;
    println!("{}, the sum is {sum} as before.", count(transfers, "transfer", "transfers"));
    Ok(())
}
