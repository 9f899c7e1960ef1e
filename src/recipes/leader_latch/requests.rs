//! Asks participants to resign.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::Error;
use super::resign_error::ResignError;
use crate::client::session::Session;
use crate::client::{self, Client, ErrorKind};
use crate::engine::{self, Multi, Op};
use crate::layout::latch::{RESIGN, request_of};
use crate::layout::line::{LATCH, number_of};
use crate::util::path::split;

/// Asks a participant to resign: to give up its place, and the leadership with it, and to go to the end of the line.
/// The client need not take part. Returns when the request is written; the participant follows it within the grace
/// period of its latch. Returns false if its node is gone, so that nothing was asked: it has left its place meanwhile.
///
/// `node_path` is the path of its node, as [`LeaderLatch::participants`](super::LeaderLatch::participants) returns it.
/// A request is only for this node: it never reaches a later one of the same participant. If the participant is alone
/// in the line, it leads again, as a new term. If it has a [priority](super::LeaderLatchBuilder::priority), that gives
/// it no precedence until it has led again.
///
/// ```no_run
/// use zookeeper_recipes::leader_latch::{self, LeaderLatch};
///
/// # async fn example(
/// #     client: zookeeper_recipes::Client,
/// #     latch: LeaderLatch,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// if let Some(leader) = latch.leader().await? {
///     let asked = leader_latch::ask_to_resign(&client, &leader.path).await?;
///     println!("{} {}", leader.id, if asked { "is to resign" } else { "leads no more" });
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`ResignError::NotRevocable`] if the participant is one of Curator, or its latch is not
/// [`revocable`](super::LeaderLatchBuilder::revocable), or has entered so recently that it cannot be asked yet; nothing
/// was written. [`ResignError::Latch`] if a request to ZooKeeper failed, or if this is not the path of a participant.
///
/// # Cancel safety
/// A request that was sent before the future was dropped may still arrive.
#[doc(alias = "revoke")]
pub async fn ask_to_resign(client: &Client, node_path: &str) -> Result<bool, ResignError> {
    let (path, name) = split(node_path);
    let failed = |error| Error::client(path, error);
    client.open_path(node_path).map_err(failed)?;
    if number_of(name, &[LATCH]).is_none() {
        let why = "not the node of a participant: its name must end in latch- and a number; see participants()";
        return Err(failed(client::Error::at(ErrorKind::InvalidPath, ASK, node_path, why)).into());
    }
    let full = client.core().full_path(node_path);
    let steps = request(&full, RESIGN, None);
    match write(client, ASK, node_path, steps.into()).await.map_err(failed)? {
        Written::Done => Ok(true),
        Written::Refused { step: NODE, .. } => Ok(false),
        Written::Refused { .. } => {
            let participants = vec![node_path.to_owned()];
            Err(ResignError::NotRevocable { path: path.into(), participants })
        }
    }
}

/// The operation that errors name.
pub(super) const ASK: &str = "ask to resign";

/// The step of a [`request`] that fails if the participant's node is gone.
const NODE: usize = 0;

/// Returns the steps that ask the participant with this node on the server: it must be there, and accept requests. With
/// a version, its node of requests must still have it.
pub(super) fn request(node: &str, data: &[u8], version: Option<i32>) -> [Op; 2] {
    [exists(node.to_owned()), Op::SetData { path: request_of(node), data: data.to_vec(), version }]
}

/// Returns the step that fails if this node does not exist.
pub(super) fn exists(node: String) -> Op {
    Op::Check { path: node, version: None }
}

/// The outcome of a transaction.
#[derive(Debug)]
pub(super) enum Written {
    Done,
    /// The node of this step is missing, or has another version.
    Refused {
        step: usize,
        /// It was sent more than once, so an earlier copy may have been carried out. Otherwise nothing was written.
        in_doubt: bool,
    },
}

/// Carries out these steps, or none. Carried out twice, they have the same effect, or are refused the second time as a
/// version has changed; so this is retried like a read.
pub(super) async fn write(client: &Client, doing: &str, path: &str, steps: Vec<Op>) -> Result<Written, client::Error> {
    let was_sent = AtomicBool::new(false);
    let commit = |session: &Arc<Session>, _: &str| {
        let reply = session.multi(steps.clone());
        let in_doubt = was_sent.swap(true, Ordering::Relaxed);
        async move {
            match reply.await? {
                Multi::Committed(_) => Ok(Written::Done),
                Multi::Refused { index, error: engine::Error::NoNode | engine::Error::BadVersion } => {
                    Ok(Written::Refused { step: index, in_doubt })
                }
                Multi::Refused { error, .. } => Err(error),
            }
        }
    };
    client.core().read(doing, path, commit).await
}
