//! The take-over, by which servers refuse the writes of earlier leaders.

use std::sync::Arc;

use super::end::End;
use crate::client::session::Session;
use crate::engine::{self, Multi, Op, OpResult};

/// A take-over: its number, and the version of the node that it wrote.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Epoch {
    pub(crate) number: i64,
    pub(crate) version: i32,
    /// When it happened, by the servers' clock in milliseconds.
    pub(crate) began: i64,
}

/// Writes the node that every write of a leader depends on. From then on, servers refuse the writes of earlier leaders.
/// `create` creates the node if it is missing.
pub(crate) async fn take_over<Fut: Future<Output = Result<(), engine::Error>>>(
    session: &Arc<Session>,
    fence: &Op,
    path: &str,
    id: &str,
    create: impl Fn() -> Fut,
) -> Result<Epoch, End> {
    let set = Op::SetData { path: path.to_owned(), data: id.as_bytes().to_vec(), version: None };
    loop {
        match session.multi(vec![fence.clone(), set.clone()]).await.map_err(End::Failed)? {
            Multi::Committed(results) => match results.last() {
                Some(OpResult::SetData { stat }) => {
                    return Ok(Epoch { number: stat.mzxid, version: stat.version, began: stat.mtime });
                }
                _ => return Err(End::Superseded),
            },
            Multi::Refused { index: 0, error: engine::Error::NoNode | engine::Error::BadVersion } => {
                return Err(End::Fenced);
            }
            Multi::Refused { index: 1, error: engine::Error::NoNode } => create().await.map_err(End::Failed)?,
            Multi::Refused { error, .. } => return Err(End::Failed(error)),
        }
    }
}
