//! Elections: who leads and who waits, a leader that is to resign, and the one that is to lead next.

use std::time::Duration;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use futures::StreamExt;
use serde::Serialize;
use zookeeper_recipes::leader_latch::{
    Participant, ResignError, ask_to_resign, observe_leader, pending_requests, transfer,
};
use zookeeper_recipes::{Client, ErrorKind};

use super::{check_exists, failed, inspect};
use crate::connection::{Connection, path, time};
use crate::ending::{Ending, Status};
use crate::output::{Output, note, shown};

/// What is asked of an election.
#[derive(Subcommand, Debug)]
pub enum Latch {
    /// Show who leads and who waits, and which of them were asked to resign
    ///
    /// It shows any line, also those of `zkr elect` and of locks. Only the participants of latches (latch- in the names
    /// of their nodes) can be asked to resign.
    Ls {
        /// The path of the election
        #[arg(value_parser = path)]
        path: String,
        /// Show the address of each session too; the servers must permit the four-letter word cons
        #[arg(long)]
        addresses: bool,
    },
    /// Ask the leader to resign: it goes to the end of the line, and the next one leads
    ///
    /// The leader may finish what is under way, for as long as its program allows. This command does not wait for
    /// that. A leader that is alone leads again. If the leader changes before it is asked, nothing is asked, and the
    /// status is 1. If it has a priority, that gives it no precedence until it has led again.
    ///
    /// Only leaders whose program permits it can be asked: those of this library with the option revocable. For any
    /// other, stop its process instead. Nothing is written then, and the status is 1.
    #[command(after_help = "Example: zkr latch resign /jobs/leader")]
    Resign {
        /// The path of the election
        #[arg(value_parser = path)]
        path: String,
    },
    /// Let a participant lead next, although others came before it, and wait until it is first in line
    ///
    /// First those between the leader and the chosen one go to the end of the line. Then, if the chosen one is still
    /// there, the leader is asked to resign and goes to the end as well. Each may finish what is under way, for as long
    /// as its program allows.
    ///
    /// The leader and those between must be participants whose program permits it: of this library, with the option
    /// revocable. If one of them does not, nothing is written, and the status is 1. The chosen one may be any
    /// participant, also one of Curator. If participants have priorities, those behind the chosen one that have a lower
    /// number go to the end of the line first, and must permit it too. All that were asked give way to the chosen one
    /// while that keeps its place.
    ///
    /// The chosen one leads as soon as its process takes notice. Choose one that runs: while it is stopped or cut off,
    /// there is no leader, until its session ends.
    ///
    /// If the time is over, requests that were not followed are withdrawn, and the status is 124; a participant that
    /// has read its request before may still follow it. If the chosen one leaves meanwhile, the status is 1. In both
    /// cases the message says who leads. If this command is interrupted, as with Ctrl-C, requests that it has made
    /// stand, and are followed.
    #[command(after_help = "Examples: zkr latch transfer /jobs/leader --to worker-7\n          \
                            zkr latch transfer /jobs/leader --to worker-7 --wait 2m")]
    Transfer {
        /// The path of the election
        #[arg(value_parser = path)]
        path: String,
        /// The id of the participant, as `zkr latch ls` shows it; if several have the same, its node
        #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
        to: String,
        /// How long all that are asked may take together, such as 30s or 2m
        #[arg(long, value_name = "TIME", value_parser = time, default_value = "30s")]
        wait: Duration,
    },
}

/// A leader that was asked.
#[derive(Serialize)]
struct Asked<'a> {
    asked: &'a Participant,
}

/// A participant that is first in line.
#[derive(Serialize)]
struct Leads<'a> {
    leader: &'a Participant,
}

impl Latch {
    /// Returns whether it changes nothing.
    pub fn only_looks(&self) -> bool {
        matches!(self, Latch::Ls { .. })
    }

    /// Does what was asked.
    pub async fn run(self, client: &Client, connection: &Connection, output: Output) -> Result<Ending, Ending> {
        match self {
            Latch::Ls { path, addresses } => {
                let ending = inspect::line(client, connection, output, &path, addresses).await?;
                note_requests(client, &path).await?;
                Ok(ending)
            }
            Latch::Resign { path } => resign(client, output, &path).await,
            Latch::Transfer { path, to, wait } => {
                check_exists(client, &path).await?;
                let leader = transfer(client, &path, &to, wait).await.map_err(|error| of(&path, error))?;
                let text =
                    format_args!("{path}: {} is first in line now, token {}", name(&leader), leader.fencing_token);
                output.print(text, &Leads { leader: &leader }).await?;
                Ok(Ending::Success)
            }
        }
    }
}

/// Prints which participants were asked to resign and are still there. Who may not read that has got the line all the
/// same.
async fn note_requests(client: &Client, path: &str) -> Result<(), Ending> {
    let pending = match pending_requests(client, path).await {
        Err(error) if error.kind() == ErrorKind::NoAuth => {
            note(format_args!("who was asked to resign is not known: {error}"));
            return Ok(());
        }
        pending => pending.map_err(|error| failed(error.kind(), error))?,
    };
    for node in pending {
        note(format_args!("{node} was asked to resign"));
    }
    Ok(())
}

async fn resign(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    check_exists(client, path).await?;
    let leader = leader(client, path).await?;
    if !ask_to_resign(client, &leader.path).await.map_err(|error| of(path, error))? {
        let now = self::leader(client, path).await?;
        let why = format_args!("{path}: {} was not asked, it leads no more; {} leads now", name(&leader), name(&now));
        return Err(Ending::because(Status::No, why));
    }
    output.print(format_args!("{path}: {} is asked to resign", name(&leader)), &Asked { asked: &leader }).await?;
    note(format_args!("zkr latch ls {path} shows who leads"));
    Ok(Ending::Success)
}

/// Returns the leader.
async fn leader(client: &Client, path: &str) -> Result<Participant, Ending> {
    let failed = |error: zookeeper_recipes::leader_latch::Error| failed(error.kind(), error);
    let mut leaders = observe_leader(client, path).map_err(failed)?;
    match leaders.next().await.transpose().map_err(failed)?.flatten() {
        Some(leader) => Ok(leader),
        None => Err(Ending::because(
            Status::No,
            format_args!("{path}: no latch takes part there; check the path. Commands of zkr elect cannot be asked"),
        )),
    }
}

/// Returns the name of a participant: its id, and its node.
fn name(participant: &Participant) -> String {
    format!("{:?} ({})", shown(&participant.id), participant.path)
}

/// Returns the ending after a refusal, with what to do next.
fn of(path: &str, error: ResignError) -> Ending {
    let what_next = match &error {
        ResignError::NotRevocable { .. } | ResignError::Blocked { .. } => {
            "if they have only just entered, try again; otherwise stop or restart the processes of these; their \
             programs do not permit it (builder option revocable)"
        }
        ResignError::Ambiguous { .. } => {
            return Ending::because(Status::No, format_args!("{error}; zkr latch ls {path} shows ids and nodes"));
        }
        ResignError::NotFound { .. } => {
            let why = "shows ids and nodes; only those of latches, with latch- in their names, can be chosen";
            return Ending::because(Status::No, format_args!("{error}; zkr latch ls {path} {why}"));
        }
        ResignError::Left { .. } => {
            return Ending::because(Status::No, format_args!("{error}; zkr latch ls {path} shows the line"));
        }
        ResignError::Unanswered { .. } => "look again with zkr latch ls before you try with a longer --wait",
        error => return failed(error.kind(), error),
    };
    let status = match error.kind() {
        ErrorKind::TimedOut => Status::NotAcquired,
        _ => Status::No,
    };
    Ending::because(status, format_args!("{error}; {what_next}"))
}
