//! `zkr serve`: an ensemble in memory on TCP ports.
//!
//! `command.rs` has the language of `--faults`, and `faults.rs` plays it.

mod command;
mod faults;

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use serde_json::json;
use zookeeper_recipes::testing::{self, Listening, TestingServer};

use self::command::Scope;
pub use self::command::help;
use self::faults::{Player, Script};
use crate::commands::signals::Signals;
use crate::connection::time;
use crate::ending::Ending;
use crate::output::{self, Output};
use crate::runtime::block_on;

/// The options of `zkr serve`.
#[derive(Args, Debug)]
pub struct Options {
    /// The address of the first server; with port 0, each server gets a free port. If this is given several times, the
    /// clients of each address can have faults of their own
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:2181")]
    listen: Vec<String>,
    /// How many servers to run; they take the port of --listen and the ones after it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    servers: u8,
    /// Which kind of server to imitate
    #[arg(long, value_enum, default_value_t = Dialect::Zookeeper)]
    dialect: Dialect,
    /// Permit nodes with a time to live, as the servers' option extendedTypesEnabled does
    #[arg(long)]
    extended_types: bool,
    /// The tickTime of the servers, which grant session timeouts of 2 to 20 ticks
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = tick)]
    tick: Duration,
    /// The seed of everything random, such as the passwords of sessions [default: random]. Clients of another run with
    /// the same seed could mistake a session of this run for their own
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Play the faults in this file, or from the standard input if FILE is -; see below
    #[arg(long, value_name = "FILE")]
    faults: Option<String>,
}

/// The servers that can be imitated.
#[derive(ValueEnum, Debug, Clone, Copy)]
enum Dialect {
    /// ZooKeeper 3.9
    Zookeeper,
    /// ClickHouse Keeper of 2025: resumes no session, and closes connections on requests that it does not know
    Keeper,
    /// ClickHouse Keeper of the beginning of 2026: the same, but knows create2 and persistent watches
    Keeper26,
}

impl From<Dialect> for testing::Dialect {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Zookeeper => testing::Dialect::ZooKeeper,
            Dialect::Keeper => testing::Dialect::Keeper,
            Dialect::Keeper26 => testing::Dialect::Keeper26,
        }
    }
}

/// Draws a seed. With the seed of another run, its clients could mistake a session of this run for their own.
fn draw() -> u64 {
    RandomState::new().hash_one(SystemTime::now())
}

/// Parses a tick time that servers can have.
fn tick(value: &str) -> Result<Duration, String> {
    let tick = time(value)?;
    let allowed = Duration::from_millis(1)..=Duration::from_secs(3600);
    if allowed.contains(&tick) { Ok(tick) } else { Err("must be at least 1ms and at most 1h".to_owned()) }
}

/// Serves until a signal arrives.
pub fn serve(output: Output, options: &Options) -> Ending {
    block_on(async {
        match listen(output, options).await {
            Ok(ending) | Err(ending) => ending,
        }
    })
}

async fn listen(output: Output, options: &Options) -> Result<Ending, Ending> {
    let scope = Scope { addresses: options.listen.len(), servers: usize::from(options.servers) };
    let script = options.faults.as_deref().map(|file| Script::read(file, scope)).transpose()?;
    let mut signals = Signals::new()?;
    // No latency of its own: the sockets have one.
    let server = TestingServer::builder()
        .seed(options.seed.unwrap_or_else(draw))
        .starts_at(SystemTime::now())
        .dialect(options.dialect.into())
        .servers(scope.servers)
        .tick_time(options.tick)
        .extended_types(options.extended_types)
        .latency(Duration::ZERO..=Duration::ZERO)
        .start();
    let listening = options.listen.iter().map(|address| open(&server, address)).collect::<Result<Vec<_>, _>>()?;
    output::note("for development and tests only: all data is in memory, and is lost when this ends");
    for address in &listening {
        let servers = address.connect_string();
        output.print(&servers, &json!({ "connect": servers })).await?;
    }
    let play = async {
        if let Some(script) = script {
            Player { output, server: &server, listening: &listening }.play(script).await?;
        }
        // The servers keep running.
        std::future::pending().await
    };
    tokio::select! {
        biased;
        _ = signals.next() => Ok(Ending::Success),
        failed = play => failed,
    }
}

/// Listens on an address and those that follow, one for each of the servers.
fn open(server: &TestingServer, address: &str) -> Result<Listening, Ending> {
    server.listen(address).map_err(|error| {
        let next = match error.kind() {
            ErrorKind::AddrInUse => "; the servers take this port and the next ones, or free ones with port 0",
            ErrorKind::InvalidInput => "; it must be ADDRESS:PORT, with a port for each server from PORT on",
            _ => "",
        };
        Ending::failed(format_args!("--listen {address}: {error}{next}"))
    })
}
