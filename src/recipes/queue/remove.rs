//! Removing items by their ids.

use super::dead_letter;
use super::error::Error;
use super::transaction::{Refused, Transaction};
use crate::client;
use crate::client::core::Core;
use crate::engine::{Error as Refusal, Op};
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

/// Removes an item. Returns false if it is claimed, or has left the queue before.
async fn remove_item(core: &Core, paths: &Paths, name: &str) -> Result<bool, client::Error> {
    let (claim, acls) = (paths.claim(name), core.config.acls.clone());
    let steps = vec![
        Op::Create { path: claim.clone(), data: Vec::new(), mode: CreateMode::Persistent, acls },
        Op::Delete { path: claim, version: None },
        Op::Delete { path: paths.item(name), version: None },
    ];
    let path = join(&paths.path, name);
    let removal = Transaction { core, doing: "remove", path: &path, directory: &paths.claims, steps };
    let judge = |step: usize, error: &Refusal, in_doubt: &mut bool| match (step, error) {
        (CREATE_CLAIM, Refusal::NoNode) => Refused::NoDirectory,
        // A copy whose answer was lost may have removed it, or may still do so once it is free.
        (CREATE_CLAIM, Refusal::NodeExists) | (DELETE_ITEM, Refusal::NoNode) if !*in_doubt => Refused::Done(false),
        _ => Refused::Other,
    };
    removal.commit(true, judge).await
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
