//! Reads the whole state of an assigner, for any client.

use std::sync::Arc;

use futures::stream::{self, StreamExt};

use super::super::error::Error;
use super::assemble::{Found, Owned, Present, assemble};
use super::value::AssignerState;
use crate::client::session::Session;
use crate::client::{self, Client, ErrorKind};
use crate::contender::participants;
use crate::engine;
use crate::layout::line;
use crate::layout::partition_assigner::{
    ASSIGNMENTS, Assignment, CONFIG, Config, LEADER, MEMBERS, OWNED, Paths, Presence, read_member, read_owned,
};
use crate::util::path::{self, join};
use crate::util::znode::Stat;

/// How many nodes are read at once.
const AT_ONCE: usize = 256;

/// Why a node of which the client knows only the name was not read.
const NO_PERMISSION: &str = "no permission to read it";

/// Reads the state of the assigner at `base`: its members, its partitions, and what operators have set.
///
/// This is for operators, who need not be members. It sends one request for each node, many at once, and sets no watch.
/// It is not a snapshot: what changes meanwhile may be in it or not. Without an assigner at `base`, everything is
/// empty.
///
/// # Errors
/// [`Error::Client`] if a request failed, with [`ErrorKind::InvalidPath`] for a malformed path. [`Error::Closed`] if
/// the client was closed. A node that may not be read, or does not contain what it should, is in
/// [`unreadable`](AssignerState::unreadable).
///
/// # Cancel safety
/// Cancel safe: it only reads.
pub async fn state(client: &Client, base: &str) -> Result<AssignerState, Error> {
    path::validate(base).map_err(|error| Error::client(base, error.into()))?;
    let paths = Paths::new(base, |path| client.core().full_path(path));
    read(client, &paths).await.map_err(|error| Error::client(base, error))
}

async fn read(client: &Client, paths: &Paths) -> Result<AssignerState, client::Error> {
    let leader = participants::leader(client, &paths.latch, line::LATCH).await;
    let look = |session: &Arc<Session>, _: &str| {
        let session = Arc::clone(session);
        async move { look(&session, paths).await }
    };
    let mut found = client.core().read("read the state of", &paths.base, look).await?;
    match leader {
        Ok(leader) => found.leader = leader.map(|leader| leader.id),
        Err(error) if error.kind() == ErrorKind::NoAuth => found.refuse(LEADER, NO_PERMISSION),
        Err(error) => return Err(error),
    }
    Ok(assemble(found))
}

/// Reads all nodes. The members come last: so a member that has just joined is not taken for one that is away, though
/// it has been assigned something.
async fn look(session: &Session, paths: &Paths) -> Result<Found, engine::Error> {
    let mut found = Found::default();
    let (synced, config) = session.together(|| (session.sync(&paths.root), session.get_data(&paths.config)));
    let (synced, config) = futures::join!(synced, config);
    synced?;
    match config {
        Ok((data, _)) => found.parse(CONFIG, Config::parse(&data), |found, config| found.config = config),
        Err(engine::Error::NoNode) => {}
        Err(engine::Error::NoAuth) => found.refuse(CONFIG, NO_PERMISSION),
        Err(error) => return Err(error),
    }
    for Node { name, read } in nodes(session, &paths.assignments, ASSIGNMENTS, &mut found).await? {
        let Some((data, _)) = read else { continue };
        let assignment = Assignment::parse(&data);
        found.parse(&join(ASSIGNMENTS, &name), assignment, |found, one| drop(found.assignments.insert(name, one)));
    }
    for Node { name, read } in nodes(session, &paths.owned, OWNED, &mut found).await? {
        let token = read.map(|(_, stat)| stat.czxid);
        match read_owned(&name) {
            Some((partition, registration)) => {
                let (partition, registration) = (partition.to_owned(), registration.to_owned());
                found.owned.push(Owned { name, partition, registration, token });
            }
            None => found.refuse(&join(OWNED, &name), "it is not named like the node of a partition that is held"),
        }
    }
    for Node { name, read } in nodes(session, &paths.members, MEMBERS, &mut found).await? {
        let Some((id, registration)) = read_member(&name) else {
            found.refuse(&join(MEMBERS, &name), "it is not named like the node of a member");
            continue;
        };
        let czxid = read.as_ref().map(|(_, stat)| stat.czxid);
        let mut present = Present { registration: registration.to_owned(), czxid, presence: None };
        if let Some((data, _)) = read {
            let presence = Presence::parse(&data);
            found.parse(&join(MEMBERS, &name), presence, |_, presence| present.presence = Some(presence));
        }
        found.members.entry(id.to_owned()).or_default().push(present);
    }
    Ok(found)
}

/// A node of a directory.
struct Node {
    name: String,
    /// Its data and stat; `None` if the client may not read it.
    read: Option<(Vec<u8>, Stat)>,
}

/// Reads all nodes of a directory; none if it does not exist. Notes what may not be read.
async fn nodes(session: &Session, dir: &str, what: &str, found: &mut Found) -> Result<Vec<Node>, engine::Error> {
    let names = match session.list_children(dir).await {
        Ok((names, _)) => names,
        Err(engine::Error::NoNode) => return Ok(Vec::new()),
        Err(engine::Error::NoAuth) => {
            found.refuse(what, "no permission to list it");
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    let mut reads = stream::iter(names)
        .map(|name| async move {
            let read = session.get_data(&join(dir, &name)).await;
            (name, read)
        })
        .buffered(AT_ONCE);
    let mut nodes = Vec::new();
    while let Some((name, read)) = reads.next().await {
        match read {
            Ok(read) => nodes.push(Node { name, read: Some(read) }),
            Err(engine::Error::NoNode) => {}
            Err(engine::Error::NoAuth) => {
                found.refuse(&format!("{what}/{name}"), NO_PERMISSION);
                nodes.push(Node { name, read: None });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(nodes)
}
