//! Dead letters: items that could not be handled.

use clap::{ArgGroup, Args, Subcommand};
use serde::Serialize;
use zookeeper_recipes::queue::{DeadLetter, RawBytes};
use zookeeper_recipes::{Client, ErrorKind};

use super::{check_exists, of, open};
use crate::commands::content::{Content, hex, quoted};
use crate::connection::path;
use crate::ending::{Ending, Status};
use crate::output::{Output, count, note};

/// What is asked of dead letters.
#[derive(Subcommand, Debug)]
pub enum Dead {
    /// Show the dead letters of a queue, oldest first
    Ls {
        /// The path of the queue
        #[arg(value_parser = path)]
        path: String,
    },
    /// Put items into the queue again, as new ones with their priorities or ids
    #[command(override_usage = "zkr queue dead retry <PATH> <NODE-NAME...|--all>")]
    Retry(Letters),
    /// Delete dead letters together with their items
    #[command(override_usage = "zkr queue dead drop <PATH> <NODE-NAME...|--all>")]
    Drop(Letters),
}

/// Some of the dead letters of a queue.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("letters").required(true).args(["names", "all"])))]
pub struct Letters {
    /// The path of the queue
    #[arg(value_parser = path)]
    path: String,
    /// The node names of dead letters, as `zkr queue dead ls` shows them
    #[arg(value_name = "NODE-NAME")]
    names: Vec<String>,
    /// All dead letters of the queue
    #[arg(long)]
    all: bool,
}

/// What is done with a letter.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Deed {
    Retried,
    Dropped,
}

/// A letter that something was done with.
#[derive(Serialize)]
struct Done<'a> {
    name: &'a str,
    done: Deed,
}

/// A letter, as it is shown.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    item: &'a str,
    attempts: u32,
    reason: &'a str,
    /// `None` if the node of the item was malformed.
    items: Option<Vec<Content>>,
    /// The whole node of a malformed item.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_hex: Option<String>,
}

impl Dead {
    /// Does what was asked.
    pub async fn run(self, client: &Client, output: Output) -> Result<Ending, Ending> {
        match self {
            Dead::Ls { path } => show(client, &path, output).await,
            Dead::Retry(letters) => each(client, output, &letters, Deed::Retried).await,
            Dead::Drop(letters) => each(client, output, &letters, Deed::Dropped).await,
        }
    }
}

async fn show(client: &Client, path: &str, output: Output) -> Result<Ending, Ending> {
    let letters = open(client, path)?.dead_letters().await.map_err(of)?;
    if letters.is_empty() {
        check_exists(client, path).await?;
    }
    for letter in letters {
        output.print(text(&letter), &Shown::new(&letter)).await?;
    }
    Ok(Ending::Success)
}

async fn each(client: &Client, output: Output, letters: &Letters, deed: Deed) -> Result<Ending, Ending> {
    let queue = open(client, &letters.path)?;
    let found = queue.dead_letters().await.map_err(of)?;
    if found.is_empty() && letters.all {
        check_exists(client, &letters.path).await?;
        note(format_args!("{} has no dead letters", letters.path));
    }
    for letter in letters.chosen(&found)? {
        let done = match deed {
            Deed::Retried => queue.retry(letter).await,
            Deed::Dropped => queue.drop(letter).await,
        };
        match done {
            // Another operator was faster.
            Err(error) if error.kind() == ErrorKind::NoNode => continue,
            done => done.map_err(of)?,
        }
        let what = match deed {
            Deed::Retried => "put back",
            Deed::Dropped => "dropped",
        };
        output.print(format_args!("{}: {what}", letter.name), &Done { name: &letter.name, done: deed }).await?;
    }
    Ok(Ending::Success)
}

impl Letters {
    /// Returns the chosen letters. Fails if one is missing: then nothing is done.
    fn chosen<'a>(&self, found: &'a [DeadLetter]) -> Result<Vec<&'a DeadLetter>, Ending> {
        if self.all {
            return Ok(found.iter().collect());
        }
        let find = |name: &String| {
            found.iter().find(|letter| letter.name == *name).ok_or_else(|| {
                let path = &self.path;
                let why = format!("{path} has no dead letter {name}; zkr queue dead ls {path} shows those it has");
                Ending::because(Status::No, why)
            })
        };
        self.names.iter().map(find).collect()
    }
}

impl<'a> Shown<'a> {
    fn new(letter: &'a DeadLetter) -> Shown<'a> {
        let items = letter.items(&RawBytes).ok();
        Shown {
            name: &letter.name,
            item: &letter.item,
            attempts: letter.attempts,
            reason: &letter.reason,
            data_hex: items.is_none().then(|| hex(&letter.data)),
            items: items.map(|items| items.iter().map(|item| Content::of(item)).collect()),
        }
    }
}

/// Returns the line of a letter.
fn text(letter: &DeadLetter) -> String {
    let attempts = count(letter.attempts as usize, "delivery", "deliveries");
    let items = match letter.items(&RawBytes) {
        Ok(items) => items.iter().map(|item| quoted(item)).collect::<Vec<_>>().join(", "),
        Err(_) => format!("{} that are not an item", count(letter.data.len(), "byte", "bytes")),
    };
    format!("{}: {items}, after {attempts}: {}", letter.name, letter.reason)
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::testing::TestingServer;

    use super::*;

    async fn letters() -> (TestingServer, Client, Vec<DeadLetter>) {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let queue = open(&client, "/q").expect("a good path");
        for item in [&b"one"[..], b"\xff"] {
            queue.producer().put(item).await.expect("it is put");
        }
        let consumer = queue.consumer();
        for _ in 0..2 {
            consumer.take().await.expect("an item").reject("no such order").await.expect("it is rejected");
        }
        let letters = queue.dead_letters().await.expect("they can be read");
        (server, client, letters)
    }

    #[tokio::test(start_paused = true)]
    async fn a_letter_is_shown_with_its_item_and_the_reason() {
        let (_server, _client, letters) = letters().await;
        let name = &letters[0].name;
        assert_eq!(text(&letters[0]), format!("{name}: \"one\", after 1 delivery: no such order"));
        let json = letters.iter().map(|letter| serde_json::to_value(Shown::new(letter)).expect("a value"));
        let items: Vec<_> = json.map(|json| json["items"].to_string()).collect();
        assert_eq!(items, [r#"[{"item":"one"}]"#, r#"[{"item_hex":"ff"}]"#]);
    }

    #[tokio::test(start_paused = true)]
    async fn letters_are_chosen_by_name_and_one_that_is_missing_is_named() {
        let (_server, _client, found) = letters().await;
        let letters = |names: &[&str], all| Letters {
            path: "/q".to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            all,
        };
        assert_eq!(letters(&[], true).chosen(&found).expect("all").len(), 2);
        let name = found[1].name.as_str();
        assert_eq!(letters(&[name], false).chosen(&found).expect("it is there"), [&found[1]]);
        let Err(Ending::Status(Status::No, Some(why))) = letters(&[name, "x"], false).chosen(&found) else {
            panic!("x does not exist");
        };
        assert!(why.contains("/q has no dead letter x"), "{why}");
    }
}
