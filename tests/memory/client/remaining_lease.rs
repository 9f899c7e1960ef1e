//! How much time is left, as `Client::remaining_lease` tells it.

use std::time::Duration;

use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ErrorPolicy};

use crate::fixture::{SOON, within};

const T: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(10);

#[tokio::test(start_paused = true)]
async fn what_is_held_ends_no_later_than_the_remaining_lease_says() {
    let server = TestingServer::start();
    let builder = Client::builder_for_testing(&server).session_timeout(T).error_policy(ErrorPolicy::Session);
    let client = builder.connect().await.expect("a client");
    let mutex = InterProcessMutex::new(&client, "/lock").expect("a good path");
    let guard = mutex.acquire().await.expect("held");
    for _ in 0..1_000 {
        let left = client.remaining_lease().expect("a session");
        assert!(left > T / 3 && left < T, "with heartbeats, {left:?} are left");
        tokio::time::sleep(T / 7).await;
    }
    // No answer arrives any more.
    server.stop();
    let mut end = tokio::time::Instant::now() + client.remaining_lease().expect("a session");
    while guard.is_held() {
        tokio::time::sleep(STEP).await;
        end = end.min(tokio::time::Instant::now() + client.remaining_lease().unwrap_or_default() + STEP);
    }
    assert!(tokio::time::Instant::now() <= end + STEP, "it was held for longer than was told");
    let left = client.remaining_lease().unwrap_or_default();
    assert!(left <= STEP, "it has ended, and {left:?} were still told");
    within("no time is left", SOON, server.until(|| client.remaining_lease().unwrap_or_default().is_zero())).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_an_expired_session() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let session = client.session_id();
    server.expire_session(&client);
    let over = || client.session_id() != session || client.remaining_lease().unwrap_or_default().is_zero();
    within("it is over", SOON, server.until(over)).await;
    within("the next one lasts", SOON, server.until(|| client.remaining_lease() > Some(Duration::ZERO))).await;
}
