//! The participants of an election, which any client can read.

use std::fmt;
use std::sync::Arc;

use super::names;
use crate::client::{Client, Error, ErrorKind};
use crate::layout::rank::{self, Rank};
use crate::util::path::{join, split};
use crate::util::task_set::TaskSet;
use crate::util::znode::Stat;

/// How many participants' ids are read at once.
const AT_ONCE: usize = 64;

/// The largest id in bytes. A list of participants holds every id; this is plenty, and far below a node's limit of a
/// megabyte.
const MAX_ID_BYTES: usize = 64 * 1024;

/// Checks the id of a participant. The error names the value and what is allowed.
pub(crate) fn check_id(id: &str) -> Result<(), String> {
    if id.len() <= MAX_ID_BYTES {
        return Ok(());
    }
    Err(format!("an id of {} bytes; at most {MAX_ID_BYTES} are allowed", id.len()))
}

/// One participant of an election.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Participant {
    /// The id of the participant. Bytes that are not UTF-8 are replaced.
    pub id: String,
    /// Whether it is first in the line.
    pub is_leader: bool,
    /// The path of its node.
    pub path: String,
    /// The transaction that created its node, which is its fencing token while it leads.
    pub fencing_token: i64,
    /// The priority of a leader latch, if it has one: a participant with a lower number is to lead before it.
    pub priority: Option<u32>,
    /// Its priority gives it no precedence: over any other, if it had resigned by itself or because an operator asked,
    /// and had not led again when it entered; or over the one that a transfer had chosen and those before it, while
    /// they keep their places. It means nothing for one that leads.
    pub gives_way: bool,
}

impl Participant {
    /// Returns the participant with this node, in a line of these names.
    pub(crate) fn new(id: &[u8], path: String, stat: &Stat, line: &[String]) -> Self {
        let name = split(&path).1;
        let (priority, gives_way) = (Rank::of(name).map(|rank| rank.priority), rank::gives_way(name, line));
        let id = String::from_utf8_lossy(id).into_owned();
        Participant { id, is_leader: false, path, fencing_token: stat.czxid, priority, gives_way }
    }
}

impl fmt::Display for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}", self.id, self.path)?;
        if let Some(priority) = self.priority {
            let gives_way = if self.gives_way && !self.is_leader { ", gives way" } else { "" };
            write!(f, ", priority {priority}{gives_way}")?;
        }
        f.write_str(if self.is_leader { ", leading)" } else { ")" })
    }
}

/// Returns the first of the line, if there is one.
pub(crate) async fn leader(client: &Client, path: &str, base: &str) -> Result<Option<Participant>, Error> {
    let line = names(client, path, &[base]).await?;
    for name in &line {
        // A participant that left since the list is skipped: the next one leads.
        if let Some(leader) = read(client, path, name, &line).await? {
            return Ok(Some(Participant { is_leader: true, ..leader }));
        }
    }
    Ok(None)
}

/// Returns all participants, in order.
pub(crate) async fn participants(client: &Client, path: &Arc<str>, base: &str) -> Result<Vec<Participant>, Error> {
    let line: Arc<[String]> = names(client, path, &[base]).await?.into();
    let (mut found, mut reads, mut next) = (Vec::with_capacity(line.len()), TaskSet::new(), 0..line.len());
    loop {
        for at in next.by_ref().take(AT_ONCE - reads.len()) {
            let (client, path, line) = (client.clone(), Arc::clone(path), Arc::clone(&line));
            reads.push(async move { read(&client, &path, &line[at], &line).await });
        }
        if reads.is_empty() {
            break;
        }
        found.extend(reads.next_in_order().await?);
    }
    if let Some(first) = found.first_mut() {
        first.is_leader = true;
    }
    Ok(found)
}

/// Reads the participant with this name in a line. Returns `None` if it has left.
async fn read(client: &Client, path: &str, name: &str, line: &[String]) -> Result<Option<Participant>, Error> {
    let node = join(path, name);
    match client.core().read("read", &node, |session, path| session.get_data(path)).await {
        Ok((data, stat)) => Ok(Some(Participant::new(&data, node, &stat, line))),
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
        Err(error) => Err(error),
    }
}
