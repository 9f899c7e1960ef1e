//! Removing items by their ids.

use std::sync::Arc;

use super::dead_letter;
use super::error::Error;
use crate::client;
use crate::client::core::Core;
use crate::client::ops::{Retry, outcome_unknown};
use crate::client::parents;
use crate::client::session::Session;
use crate::engine::{Error as Refusal, Multi, Op, Reply};
use crate::layout::queue::{Key, Paths};
use crate::util::path::join;
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
    let path = join(&paths.path, name);
    let mut retry = Retry::new(core);
    // Whether a copy whose answer was lost may have removed it, or may still do so once it is free.
    let mut in_doubt = false;
    let mut is_made = false;
    loop {
        let again = match core.answer_to_write("remove", &path, |session, _| send(session, core, paths, name)).await {
            Ok(Ok(Multi::Committed(_))) => return Ok(true),
            Ok(Ok(
                Multi::Refused { index: CREATE_CLAIM, error: Refusal::NodeExists }
                | Multi::Refused { index: DELETE_ITEM, error: Refusal::NoNode },
            )) if !in_doubt => return Ok(false),
            Ok(Ok(Multi::Refused { index: CREATE_CLAIM, error: Refusal::NoNode })) => {
                let created =
                    core.read("remove", &path, |session, _| create_claims(Arc::clone(session), core, paths)).await;
                // If another client deletes it each time, the policy is the bound.
                match std::mem::replace(&mut is_made, true) {
                    true if created.is_ok() => retry.pause_after("remove", &path, Refusal::NoNode, |_| true).await,
                    _ => created,
                }
            }
            Ok(Ok(Multi::Refused { error, .. }) | Err(error)) => {
                in_doubt |= error.leaves_outcome_unknown();
                retry.pause_after("remove", &path, error, Refusal::is_transient).await
            }
            Err(error) => Err(error),
        };
        again.map_err(|error| if in_doubt { outcome_unknown("remove", &path) } else { error })?;
    }
}

/// Creates the directory of the claims. That is harmless to repeat, so it is retried as a read.
async fn create_claims(session: Arc<Session>, core: &Core, paths: &Paths) -> Result<(), Refusal> {
    parents::ensure(&session, &paths.claims, &[], &core.config.acls).await
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::client::{Client, ErrorKind, RetryPolicy};
    use crate::testing::TestingServer;

    /// The client refuses requests as a server that throttles does, while it has too many bytes of unanswered ones.
    #[tokio::test(start_paused = true)]
    async fn a_removal_that_is_always_throttled_fails_as_the_retry_policy_says() {
        let (server, delay, bytes) = (TestingServer::start(), Duration::from_millis(10), 1 << 26);
        let builder = Client::builder_for_testing(&server).retry(RetryPolicy::n_times(3, delay));
        let client = builder.max_request_bytes(2 * bytes).connect().await.expect("a client");
        let session = client.core().connected_session().await.expect("a session");
        server.black_hole(&client);
        let _unanswered = session.set_data("/a", &vec![0; bytes], None);
        let (paths, began) = (Paths::new("/q", None, str::to_owned), Instant::now());
        let error = remove_item(client.core(), &paths, "queue-0000000001").await.expect_err("throttled");
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::Throttled, 3 * delay));
    }

    /// Its name is from a listing, and a consumer may have acked it since.
    #[tokio::test(start_paused = true)]
    async fn an_item_that_has_left_the_queue_is_not_removed_even_if_no_directory_is_left() {
        let server = TestingServer::start();
        let client = Client::builder_for_testing(&server).connect().await.expect("a client");
        let paths = Paths::new("/q", None, str::to_owned);
        assert_eq!(remove_item(client.core(), &paths, "queue-0000000001").await, Ok(false));
        assert_eq!(server.paths(), ["/q-claims"]);
    }
}
