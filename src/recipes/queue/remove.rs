//! Removing items by their ids.

use std::sync::Arc;

use super::dead_letter;
use super::error::Error;
use crate::client;
use crate::client::core::Core;
use crate::client::ops::outcome_unknown;
use crate::client::parents;
use crate::client::session::Session;
use crate::engine::{self, Multi, Op, Reply};
use crate::layout::queue::{Key, Paths};
use crate::util::znode::CreateMode;

/// The steps of the transaction, as a refusal names them. A claim is created and deleted, which shows that there is
/// none: the transaction has no other way to check that a node does not exist.
const CREATE_CLAIM: usize = 0;
const DELETE_ITEM: usize = 2;

/// Removes all items with this id that no consumer has claimed, and returns how many.
pub(super) async fn remove(core: &Core, paths: &Paths, id: &str) -> Result<usize, Error> {
    let failed = |error| Error::client(&paths.path, error);
    let wanted = Key::of_id(id);
    let names = dead_letter::children(core, &paths.path).await.map_err(failed)?;
    let mut removed = 0;
    for name in names {
        if wanted.is_id_of(&name) && remove_item(core, paths, &name).await.map_err(failed)? {
            removed += 1;
        }
    }
    Ok(removed)
}

fn send(session: &Session, core: &Core, paths: &Paths, name: &str) -> Reply<Multi> {
    let path = paths.claim(name);
    let (data, acls) = (Vec::new(), core.config.acls.clone());
    session.multi(vec![
        Op::Create { path: path.clone(), data, mode: CreateMode::Persistent, acls },
        Op::Delete { path, version: None },
        Op::Delete { path: paths.item(name), version: None },
    ])
}

/// Removes an item. Returns false if it is claimed, or has left the queue before.
async fn remove_item(core: &Core, paths: &Paths, name: &str) -> Result<bool, client::Error> {
    let mut unknown = false;
    loop {
        let session = core.session_in_time("remove", name).await;
        let session: Arc<Session> =
            session.map_err(|error| if unknown { outcome_unknown("remove", name) } else { error })?;
        let error = match core.bounded("remove", name, send(&session, core, paths, name)).await? {
            Ok(Multi::Committed(_)) => return Ok(true),
            Ok(Multi::Refused { index: CREATE_CLAIM, error: engine::Error::NodeExists })
            | Ok(Multi::Refused { index: DELETE_ITEM, error: engine::Error::NoNode }) => {
                // A copy whose answer was lost may have removed it before, or may still do so once it is free.
                return if unknown { Err(outcome_unknown("remove", name)) } else { Ok(false) };
            }
            Ok(Multi::Refused { index: CREATE_CLAIM, error: engine::Error::NoNode }) => {
                match parents::ensure(&session, &paths.claims, &[], &core.config.acls).await {
                    Ok(()) => continue,
                    Err(error) => error,
                }
            }
            Ok(Multi::Refused { error, .. }) => error,
            Err(error) => {
                unknown |= error.leaves_outcome_unknown();
                error
            }
        };
        if !error.is_transient() {
            let error = client::Error::from_engine("remove", name, error);
            return Err(if unknown { outcome_unknown("remove", name) } else { error });
        }
        tokio::time::sleep(core.config.tick / 16).await;
    }
}
