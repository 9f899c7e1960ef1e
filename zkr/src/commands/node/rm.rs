//! Deletes a node, or a tree after saying how large it is and asking.

use std::io::{IsTerminal, Write};

use clap::Args;
use futures::{StreamExt, stream};
use serde::Serialize;
use zookeeper_recipes::{Client, Error, ErrorKind, Stat};

use crate::commands::{check_exists, failed};
use crate::connection::path;
use crate::ending::{Ending, Status};
use crate::output::{self, Output, note, shown};

/// How many nodes are looked at at a time.
const LOOKS: usize = 64;

/// What is deleted.
#[derive(Args, Debug)]
pub struct Options {
    /// The path of the node
    #[arg(value_parser = path)]
    path: String,
    /// Also delete everything below it, including nodes of live sessions; says how many nodes that is, and asks
    #[arg(short, long)]
    recursive: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Print the paths of what would be deleted, one per line, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete only if the node has this version, as zkr stat shows it; otherwise status 1
    #[arg(long, value_name = "N", allow_negative_numbers = true, conflicts_with = "recursive")]
    version: Option<i32>,
}

/// A node that would be deleted.
#[derive(Serialize)]
struct Found {
    path: String,
    /// Whether it belongs to a live session.
    ephemeral: bool,
}

/// What was deleted.
#[derive(Serialize)]
struct Deleted<'a> {
    path: &'a str,
    deleted: usize,
}

impl Found {
    fn new(path: &str, stat: Option<Stat>) -> Found {
        Found { path: path.to_owned(), ephemeral: stat.is_some_and(|stat| stat.ephemeral_owner != 0) }
    }
}

impl Options {
    /// Returns whether it changes nothing.
    pub fn only_looks(&self) -> bool {
        self.dry_run
    }
}

/// Deletes what was asked for.
pub async fn remove(client: &Client, output: Output, options: &Options) -> Result<Ending, Ending> {
    let path = options.path.as_str();
    if path == "/zookeeper" || path.starts_with("/zookeeper/") {
        return Err(Ending::failed(format_args!("{path} belongs to the servers; nothing was deleted")));
    }
    let stat = check_exists(client, path).await?;
    let found = if options.recursive {
        walk(client, path).await.map_err(|error| failed(error.kind(), error))?
    } else {
        vec![Found::new(path, Some(stat))]
    };
    if options.dry_run {
        for found in &found {
            output.print(shown(&found.path), found).await?;
        }
        note(format_args!("{}{} would be deleted; nothing was", nodes(found.len()), live(&found)));
        return Ok(Ending::Success);
    }
    if options.recursive {
        confirm(options, &found).await?;
        if let Err(error) = client.delete_recursive(path).await {
            return Err(not_all(client, path, &error).await);
        }
    } else {
        client.delete(path, options.version).await.map_err(|error| not_that(path, &error))?;
    }
    output
        .print(format_args!("{path}: {} deleted", nodes(found.len())), &Deleted { path, deleted: found.len() })
        .await?;
    Ok(Ending::Success)
}

fn nodes(number: usize) -> String {
    output::count(number, "node", "nodes")
}

/// Returns how many nodes belong to live sessions, which may miss them.
fn live(found: &[Found]) -> String {
    match found.iter().filter(|found| found.ephemeral).count() {
        0 => String::new(),
        live => format!(" ({} of live sessions)", nodes(live)),
    }
}

/// Returns a node, and the names of its children.
async fn look(client: &Client, path: &str) -> Result<(Found, Vec<String>), Error> {
    let names = client.children(path).await?;
    // The node of a session has no children.
    let stat = if names.is_empty() { client.exists(path).await? } else { None };
    Ok((Found::new(path, stat), names))
}

/// Returns a node and all below it, each after the one above it.
async fn walk(client: &Client, root: &str) -> Result<Vec<Found>, Error> {
    let (mut found, mut level) = (Vec::new(), vec![root.to_owned()]);
    while !level.is_empty() {
        let looks = level.into_iter().map(|path| async move { look(client, &path).await });
        let mut looks = stream::iter(looks).buffered(LOOKS);
        let mut below = Vec::new();
        while let Some(seen) = looks.next().await {
            match seen {
                Ok((node, names)) => {
                    below.extend(names.iter().map(|name| format!("{}/{name}", node.path)));
                    found.push(node);
                }
                // It has disappeared since.
                Err(error) if error.kind() == ErrorKind::NoNode && !found.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        level = below;
    }
    Ok(found)
}

/// Returns an error unless the user wants all of them to be deleted.
async fn confirm(options: &Options, found: &[Found]) -> Result<(), Ending> {
    if options.yes {
        return Ok(());
    }
    let path = shown(&options.path);
    let below = match found.len() {
        1 => "nothing".to_owned(),
        found => nodes(found - 1),
    };
    let what = format!("{path} and {below} below it{}", live(found));
    if !std::io::stdin().is_terminal() {
        return Err(Ending::failed(format_args!(
            "{what} would be deleted; use --yes to delete, or --dry-run to list them"
        )));
    }
    let answer = tokio::task::spawn_blocking(move || {
        let mut answer = String::new();
        let _ = write!(std::io::stderr(), "delete {what}? [y/N] ");
        std::io::stdin().read_line(&mut answer).map(|_| answer)
    });
    match answer.await.map_err(Ending::failed)?.map_err(Ending::failed)?.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Ending::because(Status::No, "nothing was deleted")),
    }
}

/// Returns the ending after a single node was not deleted.
fn not_that(path: &str, error: &Error) -> Ending {
    let next = match error.kind() {
        ErrorKind::NotEmpty => "zkr rm -r deletes them as well".to_owned(),
        ErrorKind::BadVersion => format!("zkr stat {path} shows the version that it has"),
        kind => return failed(kind, error),
    };
    Ending::because(Status::No, format_args!("{error}; nothing was deleted; {next}"))
}

/// Returns the ending after only a part of a tree was deleted. Says what is left.
async fn not_all(client: &Client, path: &str, error: &Error) -> Ending {
    let left = match walk(client, path).await {
        Ok(left) => format!("{} left, such as {}", nodes(left.len()), left.last().map_or("", |last| &last.path)),
        Err(gone) if gone.kind() == ErrorKind::NoNode => "nothing is left".to_owned(),
        Err(_) => "what is left is not known".to_owned(),
    };
    match failed(error.kind(), error) {
        Ending::Status(status, Some(why)) => Ending::because(status, format_args!("{why}; {left}")),
        other => other,
    }
}
