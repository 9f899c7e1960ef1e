//! What a client says of an outage that is shorter than the session timeout, and what a lock outlasts.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ConnectionState, ErrorPolicy};

use crate::fixture::{SOON, within};

const T: Duration = Duration::from_secs(8);

/// A lease that counted from the loss of the old connection would end within two seconds of such a reconnect, before
/// any heartbeat on the new connection could extend it.
#[tokio::test(start_paused = true)]
async fn a_reconnect_late_in_the_session_timeout_is_not_followed_by_a_second_loss() {
    for millis in [5_300, 5_800, 6_400, 6_900] {
        let outage = Duration::from_millis(millis);
        let server = TestingServer::start();
        let builder = Client::builder_for_testing(&server).session_timeout(T).error_policy(ErrorPolicy::Session);
        let client = builder.connect().await.expect("a client");
        let session = client.session_id();
        let mutex = InterProcessMutex::new(&client, "/lock").expect("a good path");
        let guard = mutex.acquire().await.expect("held");
        let mut states = client.connection_states().skip(1);
        server.refuse(&client);
        server.disconnect(&client);
        assert_eq!(states.next().await, Some(Ok(ConnectionState::Suspended)));
        tokio::time::sleep(outage).await;
        server.heal();
        assert_eq!(within("it is back", SOON, states.next()).await, Some(Ok(ConnectionState::Reconnected)));
        assert_eq!(client.session_id(), session);
        drop(guard);
        let guard = within("the lock", SOON, mutex.acquire()).await.expect("held");
        tokio::time::sleep(T * 3).await;
        assert_eq!(states.next().now_or_never(), None, "{outage:?}: nothing has happened since");
        assert!(guard.is_held(), "{outage:?}");
    }
}

/// No server is handed the session while none serves, so the lease keeps its time.
#[tokio::test(start_paused = true)]
async fn a_lock_outlasts_an_outage_of_half_the_session_timeout() {
    for timeout in [10, 30].map(Duration::from_secs) {
        let server = TestingServer::start();
        let builder = Client::builder_for_testing(&server).session_timeout(timeout).error_policy(ErrorPolicy::Session);
        let client = builder.connect().await.expect("a client");
        let mutex = InterProcessMutex::new(&client, "/lock").expect("a good path");
        let guard = mutex.acquire().await.expect("held");
        server.stop();
        tokio::time::sleep(timeout / 2).await;
        server.restart(zookeeper_recipes::testing::Data::Kept);
        within("it is back", SOON, server.until(|| client.connection_state() == ConnectionState::Reconnected)).await;
        tokio::time::sleep(timeout * 2).await;
        assert!(guard.is_held(), "{timeout:?}");
    }
}

/// A proxy may let only sessions through: then no server can be asked whether it serves.
#[tokio::test(start_paused = true)]
async fn a_session_comes_back_to_servers_that_answer_no_words() {
    let server = TestingServer::builder().servers(3).four_letter_words(false).start();
    let builder = Client::builder_for_testing(&server).session_timeout(T).error_policy(ErrorPolicy::Session);
    let client = builder.connect().await.expect("a client");
    let session = client.session_id();
    let mutex = InterProcessMutex::new(&client, "/lock").expect("a good path");
    let guard = mutex.acquire().await.expect("held");
    for _ in 0..5 {
        tokio::time::sleep(T).await;
        let mut states = client.connection_states().skip(1);
        server.disconnect(&client);
        assert_eq!(states.next().await, Some(Ok(ConnectionState::Suspended)));
        assert_eq!(within("it is back", T, states.next()).await, Some(Ok(ConnectionState::Reconnected)));
    }
    assert!(guard.is_held());
    assert_eq!(client.session_id(), session);
}
