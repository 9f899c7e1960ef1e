//! Servers that change while the client runs.

use std::time::Duration;

use futures::FutureExt;
use futures::StreamExt;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ConnectionState, CreateMode, ErrorKind, ErrorPolicy, ServerList};

use crate::fixture::{SOON, within};

const T: Duration = Duration::from_secs(8);

/// Three servers, and a client of the first with this policy.
async fn on_the_first(policy: ErrorPolicy) -> (TestingServer, ServerList, Client) {
    let server = TestingServer::builder().servers(3).latency(Duration::ZERO..=Duration::from_millis(5)).start();
    let servers = ServerList::new(&server.server_name(0)).expect("a list");
    let builder = Client::builder_for_testing(&server).session_timeout(T).error_policy(policy);
    let client = builder.server_list(&servers).connect().await.expect("a client");
    assert_eq!(server.sessions()[0].server, Some(0));
    (server, servers, client)
}

async fn moved(server: &TestingServer, to: usize) {
    within("the session moves", SOON, server.until(|| server.sessions()[0].server == Some(to))).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_and_its_session_outlast_every_move_and_no_write_is_in_doubt() {
    let (server, servers, client) = on_the_first(ErrorPolicy::Session).await;
    let session = client.session_id();
    let mutex = InterProcessMutex::new(&client, "/lock").expect("a good path");
    let guard = mutex.acquire().await.expect("held");
    client.create("/a", b"", CreateMode::Persistent).await.expect("created");
    let writer = client.clone();
    let writes = server.spawn(&client, async move {
        let mut written = 0;
        while writer.exists("/end").await.is_ok_and(|end| end.is_none()) {
            match writer.set("/a", b"", None).await {
                Ok(_) => written += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}"),
            }
        }
        written
    });
    for round in 1..=20 {
        let next = round % 3;
        assert!(servers.replace(&server.server_name(next)).expect("a list"));
        moved(&server, next).await;
        within("connected", SOON, server.until(|| client.connection_state().is_connected())).await;
        assert!(guard.is_held(), "round {round}");
    }
    assert_eq!(client.session_id(), session);
    assert_eq!(server.sessions().len(), 1);
    client.create("/end", b"", CreateMode::Persistent).await.expect("created");
    let written: i32 = within("the writer ends", SOON, writes).await.expect("no panic");
    assert_eq!(server.stat("/a").expect("there").version, written, "each write was carried out once, or never");
}

#[tokio::test(start_paused = true)]
async fn the_state_says_that_it_moves() {
    let (server, servers, client) = on_the_first(ErrorPolicy::Standard).await;
    let mut states = client.connection_states().skip(1);
    servers.replace(&server.server_name(1)).expect("a list");
    assert_eq!(within("it leaves", SOON, states.next()).await, Some(Ok(ConnectionState::Suspended)));
    assert_eq!(within("it is back", SOON, states.next()).await, Some(Ok(ConnectionState::Reconnected)));
    tokio::time::sleep(T * 5).await;
    assert_eq!(states.next().now_or_never(), None, "nothing has happened since");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_has_the_server_changes_nothing() {
    let (server, servers, client) = on_the_first(ErrorPolicy::Standard).await;
    let mut states = client.connection_states().skip(1);
    for list in [[0, 1], [2, 0]] {
        servers.replace(&list.map(|number| server.server_name(number)).join(",")).expect("a list");
        tokio::time::sleep(T).await;
    }
    assert_eq!(states.next().now_or_never(), None);
}

/// The servers of the first list have gone, and the second has come meanwhile.
#[tokio::test(start_paused = true)]
async fn a_client_without_a_connection_finds_the_servers_of_the_new_list() {
    let (server, servers, client) = on_the_first(ErrorPolicy::Session).await;
    let session = client.session_id();
    server.cut_off(0, Duration::ZERO);
    within("it is cut off", SOON, server.until(|| !client.connection_state().is_connected())).await;
    servers.replace(&[1, 2].map(|number| server.server_name(number)).join(",")).expect("a list");
    within("it is back", SOON, server.until(|| client.connection_state().is_connected())).await;
    assert_eq!(client.session_id(), session);
    assert_ne!(server.sessions()[0].server, Some(0));
}

#[tokio::test(start_paused = true)]
async fn only_one_place_names_the_servers() {
    let servers = ServerList::new("zk1").expect("a list");
    for builder in [Client::builder("zk1"), Client::builder("srv://zk.example/apps")] {
        let error = builder.server_list(&servers).validate().expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("names servers although a server list is given"), "{error}");
    }
    for root in ["", "/", "/apps/a"] {
        Client::builder(root).server_list(&servers).validate().expect(root);
    }
    let error = Client::builder("/apps/").server_list(&servers).validate().expect_err("refused");
    assert!(error.to_string().contains("must not end with"), "{error}");
    let error = Client::builder("srv://zk1,zk2").validate().expect_err("refused");
    assert!(error.to_string().contains("one name without a port must follow srv://"), "{error}");
}
