//! Everything at a path and below, as a tree with the recipe of each directory.

mod draw;

use std::io::IsTerminal;
use std::time::{Duration, SystemTime};

use anstream::{AutoStream, ColorChoice};
use clap::Args;
use zookeeper_recipes::Client;
use zookeeper_recipes::inspect::{self, Tree};

use super::addresses::{Addresses, WithAddresses};
use super::{not_inspected, owners};
use crate::connection::{Connection, path_or_root, time};
use crate::ending::Ending;
use crate::output::Output;

/// What is shown, and how often.
#[derive(Args, Debug)]
pub struct TreeOptions {
    /// Where the tree begins
    #[arg(value_parser = path_or_root)]
    pub path: String,
    /// Show the tree again every TIME, until Ctrl-C [default: 2s]
    #[arg(
        long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "2s",
        value_parser = interval
    )]
    pub watch: Option<Duration>,
    /// Show the address of each session too; the servers must permit the four-letter word cons
    #[arg(long)]
    pub addresses: bool,
}

/// Shows the tree at a path, once or repeatedly.
pub async fn tree(
    client: &Client,
    connection: &Connection,
    output: Output,
    options: &TreeOptions,
) -> Result<Ending, Ending> {
    let addresses = async || if options.addresses { Addresses::ask(connection).await.map(Some) } else { Ok(None) };
    let found = async || inspect::tree(client, &options.path).await.map_err(|error| not_inspected(&error));
    let Some(interval) = options.watch else {
        let (tree, addresses) = (found().await?, addresses().await?);
        output.print_tree(&tree, addresses.as_ref(), Screen::Keep).await?;
        addresses.iter().for_each(Addresses::note_silent);
        return Ok(Ending::Success);
    };
    let mut screen = if std::io::stdout().is_terminal() && !output.json { Screen::Clear } else { Screen::Keep };
    loop {
        let (tree, addresses) = (found().await?, addresses().await?);
        output.print_tree(&tree, addresses.as_ref(), screen).await?;
        screen = screen.next();
        tokio::time::sleep(interval).await;
    }
}

/// What happens to the text that is on the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Screen {
    /// It stays.
    Keep,
    /// It is deleted first.
    Clear,
    /// It is overwritten, which does not flicker.
    Overwrite,
}

impl Screen {
    fn next(self) -> Screen {
        if self == Screen::Keep { Screen::Keep } else { Screen::Overwrite }
    }

    /// Returns what draws this text.
    fn drawing(self, text: String) -> String {
        let start = match self {
            Screen::Keep => return text,
            Screen::Clear => "\x1b[2J\x1b[H",
            Screen::Overwrite => "\x1b[H",
        };
        // Clears the rest of each line, and the lines below, where the previous text may remain.
        format!("{start}{}\x1b[K\x1b[J", text.replace('\n', "\x1b[K\n"))
    }
}

impl Output {
    async fn print_tree(self, tree: &Tree, addresses: Option<&Addresses>, screen: Screen) -> Result<(), Ending> {
        let text = draw::text(tree, addresses, SystemTime::now());
        let value = WithAddresses::new(tree, addresses, sessions(tree));
        self.print(screen.drawing(in_colour_if_wanted(text)), &value).await
    }
}

/// Returns the sessions that own nodes, some of them several times.
fn sessions(tree: &Tree) -> impl Iterator<Item = i64> {
    let plain = tree.nodes.iter().filter_map(|node| node.stat.as_ref()?.session_id);
    plain.chain(owners::of_tree(tree).map(|owner| owner.session_id))
}

/// Removes the colours unless the output is a terminal that shows them and `NO_COLOR` is not set.
fn in_colour_if_wanted(text: String) -> String {
    match AutoStream::choice(&std::io::stdout()) {
        ColorChoice::Never => anstream::adapter::strip_str(&text).to_string(),
        _ => text,
    }
}

fn interval(value: &str) -> Result<Duration, String> {
    let interval = time(value)?;
    if interval >= Duration::from_millis(100) { Ok(interval) } else { Err("it must be 100ms or more".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_watched() {
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        assert!(interval("0s").is_err() && interval("soon").is_err());
        assert_eq!(path_or_root("/"), Ok("/".to_owned()));
        assert!(path_or_root("/app").is_ok() && path_or_root("app").is_err() && path_or_root("/app/").is_err());
    }

    #[test]
    fn a_terminal_is_cleared_once_and_then_overwritten() {
        let text = || "a\nb".to_owned();
        assert_eq!(Screen::Keep.next().drawing(text()), "a\nb");
        assert_eq!(Screen::Clear.drawing(text()), "\x1b[2J\x1b[Ha\x1b[K\nb\x1b[K\x1b[J");
        assert_eq!(Screen::Clear.next().drawing(text()), "\x1b[Ha\x1b[K\nb\x1b[K\x1b[J");
    }
}
