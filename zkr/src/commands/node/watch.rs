//! Prints what happens to a node, line by line.

use clap::Args;
use futures::StreamExt;
use serde::Serialize;
use zookeeper_recipes::{Client, WatchEvent, WatchMode};

use super::now;
use crate::commands::{failed, missing};
use crate::connection::path_or_root;
use crate::ending::Ending;
use crate::output::{Output, note, shown};

/// What is watched.
#[derive(Args, Debug)]
pub struct Options {
    /// The path of the node; it need not exist yet
    #[arg(value_parser = path_or_root)]
    path: String,
    /// Watch everything below it as well
    #[arg(short, long)]
    recursive: bool,
}

/// An event, and when it arrived.
#[derive(Serialize)]
struct Seen<'a> {
    time: &'a str,
    #[serde(flatten)]
    event: &'a WatchEvent,
}

/// Prints a line for each event, until the client is closed.
pub async fn watch(client: &Client, output: Output, options: &Options) -> Result<Ending, Ending> {
    let path = options.path.as_str();
    let mode = if options.recursive { WatchMode::PersistentRecursive } else { WatchMode::Persistent };
    let mut events = client.watch(path, mode).map_err(|error| failed(error.kind(), error))?;
    let mut is_first = true;
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| failed(error.kind(), error))?;
        let time = now();
        output.print(text(&time, path, &event, is_first), &Seen { time: &time, event: &event }).await?;
        if std::mem::take(&mut is_first)
            && client.exists(path).await.map_err(|error| failed(error.kind(), error))?.is_none()
        {
            let Ending::Status(_, Some(why)) = missing(client, path).await else { continue };
            note(format_args!("not there yet: {why}"));
        }
    }
    Err(client.last_error().map_or(Ending::failed("the client was closed"), |error| failed(error.kind(), error)))
}

fn text(time: &str, watched: &str, event: &WatchEvent, is_first: bool) -> String {
    let what = match event {
        WatchEvent::ReadAgain if is_first => "watching",
        WatchEvent::ReadAgain => "reconnected, and events may be missing:",
        WatchEvent::Created { .. } => "created",
        WatchEvent::DataChanged { .. } => "data changed",
        WatchEvent::ChildrenChanged { .. } => "children changed",
        WatchEvent::Deleted { .. } => "deleted",
        _ => "something happened to",
    };
    format!("{time} {what} {}", shown(event.path().unwrap_or(watched)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_happened_and_where() {
        let line = |event, is_first| text("now", "/a", &event, is_first);
        assert_eq!(line(WatchEvent::ReadAgain, true), "now watching /a");
        assert_eq!(line(WatchEvent::ReadAgain, false), "now reconnected, and events may be missing: /a");
        let event = WatchEvent::DataChanged { path: "/a/b\u{1b}".to_owned() };
        let json = serde_json::to_value(Seen { time: "now", event: &event }).expect("a value");
        assert_eq!(json, serde_json::json!({ "time": "now", "event": "data_changed", "path": "/a/b\u{1b}" }));
        assert_eq!(line(event, false), "now data changed /a/b\\u{1b}");
    }
}
