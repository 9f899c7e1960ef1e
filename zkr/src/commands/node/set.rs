//! Writes the data of a node.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tokio::io::AsyncReadExt;
use zookeeper_recipes::{Client, CreateMode, Error, ErrorKind, Stat};

use crate::commands::failed;
use crate::connection::path;
use crate::ending::{Ending, Status};
use crate::output::{Output, count};

/// What is written.
#[derive(Args, Debug)]
pub struct Options {
    /// The path of the node
    #[arg(value_parser = path)]
    path: String,
    /// The data [default: all of the standard input]
    #[arg(value_name = "DATA", conflicts_with = "file")]
    data: Option<OsString>,
    /// Read the data from this file; - is the standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Write only if the node has this version, as zkr stat shows it; otherwise status 1
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    version: Option<i32>,
    /// Create the node if it is missing, and any missing nodes above it
    #[arg(long, conflicts_with = "version")]
    create: bool,
}

/// What was written.
#[derive(Serialize)]
struct Written<'a> {
    path: &'a str,
    /// The stat after the write.
    stat: Stat,
}

/// Writes the data.
pub async fn set(client: &Client, output: Output, options: Options) -> Result<Ending, Ending> {
    let Options { path, data, file, version, create } = options;
    let data = match (data, file) {
        (Some(data), _) => data.into_vec(),
        (None, Some(file)) if file.as_os_str() != "-" => {
            let read = tokio::fs::read(&file).await;
            read.map_err(|error| Ending::failed(format_args!("{}: {error}", file.display())))?
        }
        (None, _) => {
            let mut data = Vec::new();
            tokio::io::stdin().read_to_end(&mut data).await.map_err(Ending::failed)?;
            data
        }
    };
    let written = match client.set(&path, &data, version).await {
        Err(error) if error.kind() == ErrorKind::NoNode && create => create_with(client, &path, &data).await,
        written => written,
    };
    let stat = match written {
        Err(error) if error.kind() == ErrorKind::BadVersion => {
            let next = format!("zkr stat {path} shows the version that it has");
            return Err(Ending::because(Status::No, format_args!("{error}; nothing was written; {next}")));
        }
        Err(error) if error.kind() == ErrorKind::NoNode && !create => {
            return Err(Ending::because(Status::No, format_args!("{error}; check the path, or use --create")));
        }
        written => written.map_err(|error| failed(error.kind(), error))?,
    };
    let text = format!("{path}: {} written, version {}", count(data.len(), "byte", "bytes"), stat.version);
    output.print(text, &Written { path: &path, stat }).await?;
    Ok(Ending::Success)
}

/// Creates the node, and those above it if they are missing. If another client is faster, its data is replaced.
async fn create_with(client: &Client, path: &str, data: &[u8]) -> Result<Stat, Error> {
    let create = async || client.create(path, data, CreateMode::Persistent).await;
    let created = match create().await {
        Err(error) if error.kind() == ErrorKind::NoNode => {
            // For a node at the top, this is the namespace.
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            client.create_containers(if above.is_empty() { "/" } else { above }).await?;
            create().await
        }
        created => created,
    };
    match created {
        Err(error) if error.kind() == ErrorKind::NodeExists => client.set(path, data, None).await,
        created => {
            created?;
            Ok(client.exists(path).await?.unwrap_or_default())
        }
    }
}
