//! Removes items by their id.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde::Serialize;
use zookeeper_recipes::Client;

use super::{check_exists, of, open};
use crate::connection::path;
use crate::ending::{Ending, Status};
use crate::output::{Output, count};

/// What is removed.
#[derive(Args, Debug)]
pub struct Options {
    /// The path of the queue
    #[arg(value_parser = path)]
    path: String,
    /// The id of the items
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    id: String,
}

/// How many items were removed.
#[derive(Serialize)]
struct Removed<'a> {
    path: &'a str,
    id: &'a str,
    removed: usize,
}

/// Removes the items.
pub async fn remove(client: &Client, output: Output, options: &Options) -> Result<Ending, Ending> {
    let Options { path, id } = options;
    check_exists(client, path).await?;
    let removed = open(client, path)?.remove(id).await.map_err(of)?;
    if removed == 0 {
        let why = format_args!("{path}: no item with the id {id:?} that is not claimed");
        return Err(Ending::because(Status::No, why));
    }
    output.print(format_args!("{} removed", count(removed, "item", "items")), &Removed { path, id, removed }).await?;
    Ok(Ending::Success)
}
