//! Commands that ask the servers, or tell them something, and end.

mod inspect;

use clap::Subcommand;

use crate::connection::{Connection, path};
use crate::ending::Ending;
use crate::output::Output;
use crate::run::LookAtLock;

/// What is asked.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Show the line at a path: who holds, who waits
    Ls {
        /// The path of the lock or the election
        #[arg(value_parser = path)]
        path: String,
    },
}

impl From<LookAtLock> for Command {
    fn from(look: LookAtLock) -> Command {
        match look {
            LookAtLock::Ls { path } => Command::Ls { path },
        }
    }
}

/// Does what was asked.
pub fn play(connection: Connection, output: Output, command: Command) -> Ending {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Ending::failed(error),
    };
    runtime.block_on(async {
        match answer(&connection, output, command).await {
            Ok(ending) | Err(ending) => ending,
        }
    })
}

async fn answer(connection: &Connection, output: Output, command: Command) -> Result<Ending, Ending> {
    let client = connection.open().await?;
    let ending = match command {
        Command::Ls { path } => inspect::line(&client, output, &path).await,
    };
    // The session ends at once, and not by its timeout.
    let _ = client.close().await;
    ending
}
