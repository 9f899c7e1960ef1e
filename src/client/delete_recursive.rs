//! Deletes a node with everything below it.

use std::collections::HashSet;

use futures::stream::{self, StreamExt};

use super::Client;
use super::core::Core;
use super::error::{Error, ErrorKind};
use super::ops::{Retry, write_failed};
use crate::engine::{Error as Refusal, Multi, Op};
use crate::util::path::{self, join, split};

/// How many list requests are under way at a time.
const LISTS: usize = 64;
/// How many nodes a transaction deletes at most.
const BATCH: usize = 100;
/// The largest total length of the paths in a transaction of several nodes: far below the servers' limit.
const BATCH_BYTES: usize = 16 * 1024;
/// How often the tree is walked at most if other clients keep creating nodes in it.
const PASSES: usize = 10;
/// The servers' own nodes.
const RESERVED: &str = "/zookeeper";

impl Client {
    /// Deletes a node and everything below it, including the ephemeral nodes of live sessions.
    ///
    /// It lists all nodes first, so it deletes nothing if it may not list one of them; it keeps all paths in memory.
    /// Then it deletes the nodes in transactions of up to 100, children before their parents. Other clients see a part
    /// of the tree in between. It also deletes nodes that they create meanwhile, in up to ten passes.
    ///
    /// It retries until the node is known to be gone. If another client has meanwhile created a node at the same path,
    /// and that node is there when the tree is listed again, it is left alone.
    ///
    /// ```no_run
    /// # async fn example(client: zookeeper_recipes::Client) -> Result<(), zookeeper_recipes::Error> {
    /// client.delete_recursive("/my-service/tenants/acme").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NoNode`] if the node does not exist, [`ErrorKind::NoAuth`]; [`ErrorKind::NotEmpty`] if others kept
    /// creating nodes there; [`ErrorKind::InvalidArgument`] for `/zookeeper` and what is below it, which belong to the
    /// servers; [`ErrorKind::ConnectionLoss`] or [`ErrorKind::OutcomeUnknown`] if the connection is lost for long; also
    /// `OutcomeUnknown` if an answer cannot be read. What was deleted before an error stays deleted; repeating the call
    /// continues from there.
    ///
    /// # Cancel safety
    /// Some of the nodes may have been deleted. A transaction that was sent before the future was dropped may still be
    /// carried out.
    #[doc(alias = "deletingChildrenIfNeeded")]
    #[doc(alias = "deleteall")]
    pub async fn delete_recursive(&self, path: &str) -> Result<(), Error> {
        path::validate(path)?;
        let core = self.core();
        core.check_writes("delete everything at", path)?;
        if path::ancestors(&core.full_path(path)).next() == Some(RESERVED) {
            let why = "the servers keep their own nodes there; delete a single quota with Client::delete";
            return Err(Error::at(ErrorKind::InvalidArgument, "delete everything at", path, why));
        }
        let mut retry = Retry::new(core);
        let (mut created, mut passes) = (None, 0);
        loop {
            let (nodes, czxid) = match walk(core, path).await {
                Err(error) if error.kind() == ErrorKind::NoNode && created.is_some() => return Ok(()),
                found => found?,
            };
            // The node is gone, and another client has created this one.
            if created.replace(czxid).is_some_and(|before| before != czxid) {
                return Ok(());
            }
            match delete_all(core, nodes, &mut retry).await? {
                Pass::Done => return Ok(()),
                // It is not known which of the nodes are gone.
                Pass::Broken(error) => retry.pause_after("delete", path, error, Refusal::is_transient).await?,
                Pass::Filled(node) => {
                    passes += 1;
                    if passes == PASSES {
                        let why =
                            format!("other clients created nodes in {node} meanwhile, {PASSES} times; stop them first");
                        return Err(Error::at(ErrorKind::NotEmpty, "delete everything at", path, why));
                    }
                }
            }
        }
    }
}

/// The outcome of a pass.
enum Pass {
    /// Everything is gone.
    Done,
    /// Another client has created nodes in this one since it was listed.
    Filled(String),
    /// A transaction has no known outcome.
    Broken(Refusal),
}

/// Lists everything at and below a path, each node after its parent. Also returns the transaction that created the
/// first node.
async fn walk(core: &Core, root: &str) -> Result<(Vec<String>, i64), Error> {
    let (mut nodes, mut czxid) = (Vec::new(), 0);
    let mut level = vec![root.to_owned()];
    while !level.is_empty() {
        let lists = level.into_iter().map(|path| async {
            let listed = core.read("delete everything at", &path, |session, path| session.list_children(path)).await;
            (path, listed)
        });
        let mut lists = stream::iter(lists).buffered(LISTS);
        let mut next = Vec::new();
        while let Some((path, listed)) = lists.next().await {
            match listed {
                Ok((names, stat)) => {
                    next.extend(names.iter().map(|name| join(&path, name)));
                    czxid = if nodes.is_empty() { stat.czxid } else { czxid };
                    nodes.push(path);
                }
                // It was deleted after its name was listed.
                Err(error) if error.kind() == ErrorKind::NoNode && !nodes.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        level = next;
    }
    Ok((nodes, czxid))
}

/// Deletes the nodes, the last one first.
async fn delete_all<'a>(core: &'a Core, mut nodes: Vec<String>, retry: &mut Retry<'a>) -> Result<Pass, Error> {
    // Nodes that have new children of others, and the nodes above them.
    let (mut kept, mut filled) = (HashSet::new(), None);
    loop {
        let mut batch = next_batch(&mut nodes, &mut kept);
        let Some(first) = batch.first() else { return Ok(filled.map_or(Pass::Done, Pass::Filled)) };
        let ops = batch.iter().map(|path| Op::Delete { path: core.full_path(path), version: None }).collect();
        let session = core.session_in_time("delete", first).await?;
        match core.bounded("delete", first, session.multi(ops)).await? {
            Ok(Multi::Committed(_)) => *retry = Retry::new(core),
            Ok(Multi::Refused { index, error }) if index < batch.len() => {
                let node = batch.remove(index);
                match error {
                    Refusal::NoNode => {}
                    Refusal::NotEmpty => {
                        kept.insert(split(&node).0.to_owned());
                        filled = Some(node);
                    }
                    error => return Err(Error::from_engine("delete", &node, error)),
                }
                nodes.extend(batch.into_iter().rev());
            }
            Ok(Multi::Refused { error, .. }) => return Err(Error::from_engine("delete", first, error)),
            Err(error) if error.is_transient() => return Ok(Pass::Broken(error)),
            Err(error) => return Err(write_failed("delete", first, error)),
        }
    }
}

/// Takes the next nodes from the end, without those that cannot be deleted.
fn next_batch(nodes: &mut Vec<String>, kept: &mut HashSet<String>) -> Vec<String> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while let Some(node) = nodes.pop_if(|node| {
        bytes += node.len();
        batch.is_empty() || (batch.len() < BATCH && bytes <= BATCH_BYTES)
    }) {
        if kept.contains(&node) {
            kept.insert(split(&node).0.to_owned());
        } else {
            batch.push(node);
        }
    }
    batch
}
