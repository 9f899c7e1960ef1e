//! Input that makes no sense is refused at once, with the value and what is allowed.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::semaphore::{Error, InterProcessSemaphore};
use zookeeper_recipes::testing::Operation;

use super::fixture::{PATH, counted, make_count, semaphore, setup};
use crate::fixture::requests;

fn refused(error: &Error, part: &str) {
    assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(!error.is_retryable() && !error.is_lost());
    assert!(error.to_string().contains(part) && error.to_string().contains(PATH), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_number_of_permits_that_none_could_have_is_refused_without_a_request() {
    let (server, [client]) = setup().await;
    make_count(&server, 1);
    server.clear_records();
    for n in [0, 4, u32::MAX] {
        let part = "1 to 3 can";
        let semaphore = semaphore(&client, 3);
        refused(&semaphore.acquire(n).await.expect_err("refused"), part);
        refused(&semaphore.acquire_timeout(n, Duration::ZERO).await.expect_err("refused"), part);
        refused(&semaphore.try_acquire(n).await.expect_err("refused"), part);
    }
    for n in [0, 1001] {
        refused(&counted(&client).acquire(n).await.expect_err("refused"), "1 to 1000 can");
        refused(&semaphore(&client, u32::MAX).acquire(n).await.expect_err("refused"), "1 to 1000 can");
    }
    assert_eq!(requests(&server), [Operation::Create; 0]);
}

#[tokio::test(start_paused = true)]
async fn options_out_of_their_range_are_refused() {
    let (_server, [client]) = setup().await;
    let builder = || InterProcessSemaphore::builder(&client, PATH);
    refused(&builder().build().expect_err("refused"), "permits() or permits_from()");
    refused(&builder().permits(0).build().expect_err("refused"), "at least 1");
    refused(&builder().permits(1).data(vec![0; 65_537]).build().expect_err("refused"), "65536");
    // Java would count such a node as a lease, or let it wait in the line.
    for path in ["/licences/leases/count", "/licences/locks/count", "/licences/leases"] {
        refused(&builder().permits_from(path).build().expect_err("refused"), path);
    }
    builder().permits_from("/licences/leases-count").build().expect("beside the directories");
}

#[tokio::test(start_paused = true)]
async fn a_malformed_path_and_a_closed_client_are_refused() {
    let (_server, [client]) = setup().await;
    for path in ["", "/", "relative", "/trailing/", "/a//b"] {
        let error = InterProcessSemaphore::new(&client, path, 1).expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
        let builder = InterProcessSemaphore::builder(&client, PATH).permits_from(path);
        let error = builder.build().expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}: {error}");
    }
    let semaphore = semaphore(&client, 1);
    client.close().await.expect("closed");
    assert!(matches!(semaphore.acquire(1).await, Err(Error::Closed { .. })));
    assert!(matches!(semaphore.try_acquire(1).await, Err(Error::Closed { .. })));
    assert!(matches!(InterProcessSemaphore::new(&client, PATH, 1), Err(Error::Closed { .. })));
}
