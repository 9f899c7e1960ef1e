//! Commands on nodes, whatever their recipe: read, write, count, watch and delete.

mod count;
mod rm;
mod set;
mod watch;

use std::io::IsTerminal;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Subcommand;
use serde::Serialize;
use zookeeper_recipes::{Client, Stat};

use super::content::hex;
use super::{check_exists, failed};
use crate::connection::path_or_root;
use crate::ending::Ending;
use crate::output::{self, Output};

/// What is asked of a node.
#[derive(Subcommand, Debug)]
pub enum Node {
    /// Print the data of a node, as it is
    #[command(after_help = "Example: zkr get /service/config >config.json")]
    Get {
        /// The path of the node
        #[arg(value_parser = path_or_root)]
        path: String,
    },
    /// Show when a node was created and changed, who owns it, and who may do what with it
    #[command(after_help = "Example: zkr stat /service/config")]
    Stat {
        /// The path of the node
        #[arg(value_parser = path_or_root)]
        path: String,
    },
    /// Write the data of a node: from the argument, from a file, or from the standard input
    #[command(after_help = "Example: zkr set /service/config --file config.json --version 4")]
    Set(set::Options),
    /// Print the number in a node, set it, or add to it
    ///
    /// Four bytes are a SharedCount (or DistributedAtomicInteger) of Curator, eight bytes a DistributedAtomicLong.
    #[command(after_help = "Example: zkr count /service/workers --add 1")]
    Count(count::Options),
    /// Print a line for each event of a node and its children, until a signal ends it with status 0
    #[command(after_help = "Example: zkr --json watch /service -r | jq .")]
    Watch(watch::Options),
    /// Delete a node; with -r, also everything below it
    #[command(after_help = "Example: zkr rm -r /service/tenants/acme --dry-run")]
    Rm(rm::Options),
}

/// The bytes of a node, for JSON. Serialized flat: as `data`, or as `data_hex` if they are not text.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Data {
    Data(String),
    DataHex(String),
}

/// The data of a node, and its stat.
#[derive(Serialize)]
struct Read<'a> {
    path: &'a str,
    #[serde(flatten)]
    data: Data,
    stat: Stat,
}

/// The stat of a node, and its ACL; `None` if this client may not read that.
#[derive(Serialize)]
struct Shown<'a> {
    path: &'a str,
    #[serde(flatten)]
    stat: Stat,
    acl: Option<Vec<String>>,
}

impl Node {
    /// Returns whether it changes nothing.
    pub fn only_looks(&self) -> bool {
        match self {
            Node::Get { .. } | Node::Stat { .. } | Node::Watch(_) => true,
            Node::Count(options) => options.only_looks(),
            Node::Rm(options) => options.only_looks(),
            Node::Set(_) => false,
        }
    }

    /// Does what was asked.
    pub async fn run(self, client: &Client, output: Output) -> Result<Ending, Ending> {
        match self {
            Node::Get { path } => get(client, output, &path).await,
            Node::Stat { path } => stat(client, output, &path).await,
            Node::Set(options) => set::set(client, output, options).await,
            Node::Count(options) => count::count(client, output, &options).await,
            Node::Watch(options) => watch::watch(client, output, &options).await,
            Node::Rm(options) => rm::remove(client, output, &options).await,
        }
    }
}

async fn get(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    let (mut bytes, stat) = client.get(path).await.map_err(|error| failed(error.kind(), error))?;
    if output.json {
        let data = String::from_utf8(bytes).map_or_else(|error| Data::DataHex(hex(error.as_bytes())), Data::Data);
        output.print("", &Read { path, data, stat }).await?;
    } else {
        // The prompt should begin on a line of its own; a file gets the bytes unchanged.
        if std::io::stdout().is_terminal() && bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        output::write(bytes).await?;
    }
    Ok(Ending::Success)
}

async fn stat(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    let stat = check_exists(client, path).await?;
    // The ACL requires permission to read, which the stat does not.
    let acl = client.acl(path).await.ok();
    let acl = acl.map(|acl| acl.iter().map(ToString::to_string).collect::<Vec<_>>());
    output.print(text(&stat, acl.as_deref()), &Shown { path, stat, acl: acl.clone() }).await?;
    Ok(Ending::Success)
}

fn text(stat: &Stat, acl: Option<&[String]>) -> String {
    let owner = match stat.ephemeral_owner {
        0 => "none".to_owned(),
        session => format!("{session:#x}"),
    };
    let rows = [
        ("data", format!("{}, version {}", output::count(stat.data_length as usize, "byte", "bytes"), stat.version)),
        ("children", format!("{}, version {}", stat.num_children, stat.cversion)),
        ("owner", owner),
        ("created", format!("{}, transaction {:#x}", time(stat.ctime), stat.czxid)),
        ("changed", format!("{}, transaction {:#x}", time(stat.mtime), stat.mzxid)),
        ("children changed", format!("transaction {:#x}", stat.pzxid)),
        ("ACL", format!("{}, version {}", acl.map_or("not readable".to_owned(), |acl| acl.join(", ")), stat.aversion)),
    ];
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    rows.map(|(name, value)| format!("{name:<width$}  {value}")).join("\n")
}

/// Formats a time of the servers, in milliseconds since 1970. They do not say when they created their own nodes.
fn time(ms: i64) -> String {
    match u64::try_from(ms) {
        Ok(0) | Err(_) => "by the servers".to_owned(),
        Ok(ms) => humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string(),
    }
}

/// Returns the current time, for a line of output.
fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}
