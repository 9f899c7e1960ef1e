//! A client of another server is a mistake in the test, and must not pass as a test without faults.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use zookeeper_recipes::Client;
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};

use super::fixture::connect;

#[tokio::test(start_paused = true)]
async fn every_lever_refuses_a_client_of_another_server() {
    let (server, elsewhere) = (TestingServer::start(), TestingServer::start());
    let (own, stranger) = (connect(&server).await, connect(&elsewhere).await);
    type Lever = fn(&TestingServer, &Client);
    let levers: [(&str, Lever); 12] = [
        ("expire_session", |server, client| _ = server.expire_session(client)),
        ("disconnect", |server, client| _ = server.disconnect(client)),
        ("refuse", |server, client| server.refuse(client)),
        ("black_hole", |server, client| server.black_hole(client)),
        ("delay", |server, client| server.delay(client, Duration::from_secs(1))),
        ("lose_next_reply", |server, client| server.lose_next_reply(client, None, Loss::Applied)),
        ("freeze_client", TestingServer::freeze_client),
        ("thaw_client", TestingServer::thaw_client),
        ("is_frozen", |server, client| _ = server.is_frozen(client)),
        ("count", |server, client| _ = server.count(client, Operation::Create)),
        ("spawn", |server, client| drop(server.spawn(client, async {}))),
        ("clones are the same server", |server, client| server.clone().refuse(client)),
    ];
    for (name, lever) in levers {
        let refused = catch_unwind(AssertUnwindSafe(|| lever(&server, &stranger))).expect_err(name);
        let said = refused.downcast_ref::<&str>().copied().unwrap_or_default();
        assert!(said.contains("does not belong to this TestingServer"), "{name}: {said:?}");
        lever(&server, &own);
    }
    server.heal();
    server.thaw_client(&own);
    stranger.exists("/").await.expect("nothing happened to it");
}
