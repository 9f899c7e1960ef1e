//! A transaction that creates the missing nodes above its own: all of them, or nothing.

use std::time::Duration;

use futures::future::join_all;
use zookeeper_recipes::testing::{Dialect, Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind, RequestCounts, TransactionResult};

async fn setup() -> (TestingServer, Client) {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    (server, client)
}

/// Transactions, reads, and all requests.
fn spent(client: &Client, before: RequestCounts) -> (u64, u64, u64) {
    let spent = client.request_counts() - before;
    (spent.multis, spent.reads, spent.total())
}

#[tokio::test(start_paused = true)]
async fn it_costs_nothing_if_none_is_missing() {
    let (server, client) = setup().await;
    server.create_by_hand("/a", "", CreateMode::Persistent).expect("created");
    let before = client.request_counts();
    let both = client.transaction().create("/a/b", "1", CreateMode::Persistent);
    both.create("/a/b/c", "2", CreateMode::Persistent).create_parents().commit().await.expect("committed");
    assert_eq!(spent(&client, before), (1, 0, 1));
    assert_eq!(server.paths(), ["/a", "/a/b", "/a/b/c"]);
}

#[tokio::test(start_paused = true)]
async fn missing_ones_are_created_in_the_same_transaction() {
    let (server, client) = setup().await;
    server.create_by_hand("/other", "", CreateMode::Persistent).expect("created");
    let before = client.request_counts();
    let results = client
        .transaction()
        .set_data("/other", "new", Some(0))
        .create("/a/b/schema", "int", CreateMode::Persistent)
        .create("/a/b/owner-", "", CreateMode::EphemeralSequential)
        .create("/a/log/1", "", CreateMode::Persistent)
        .create_parents()
        .commit()
        .await
        .expect("committed");
    assert_eq!(spent(&client, before), (2, 3, 5));
    let created = |path: &str| TransactionResult::Created { path: path.to_owned() };
    assert!(matches!(results[0], TransactionResult::DataSet { stat } if stat.version == 1), "{results:?}");
    assert_eq!(results[1..], [created("/a/b/schema"), created("/a/b/owner-0000000001"), created("/a/log/1")]);
    let all = ["/a", "/a/b", "/a/b/owner-0000000001", "/a/b/schema", "/a/log", "/a/log/1", "/other"];
    assert_eq!(server.paths(), all);
    let stat = server.stat("/a").expect("it is there");
    assert_eq!((stat.ephemeral_owner, stat.data_length), (0, 0), "persistent and empty");
    assert_eq!(stat.czxid, server.stat("/a/log/1").expect("it is there").czxid, "one transaction");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_one_that_is_refused() {
    let (server, client) = setup().await;
    server.create_by_hand("/other", "", CreateMode::Persistent).expect("created");
    let refused = client.transaction().create("/a/b/c", "", CreateMode::Persistent).check_version("/other", 7);
    let error = refused.create_parents().commit().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::BadVersion);
    assert!(error.to_string().contains("nothing was changed; step 2 of 2, check"), "{error}");
    assert_eq!(server.paths(), ["/other"]);
}

#[tokio::test(start_paused = true)]
async fn without_it_the_error_says_what_to_do() {
    let (server, client) = setup().await;
    let error = client.transaction().create("/a/b", "", CreateMode::Persistent).commit().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoNode);
    assert!(
        error.to_string().contains("step 1 of 1, create") && error.to_string().contains("create_parents"),
        "{error}"
    );
    assert_eq!(server.paths().len(), 0);
}

/// Several clients create nodes below the same missing ones at the same moment.
#[tokio::test(start_paused = true)]
async fn clients_that_create_the_same_ones_do_not_fail_each_other() {
    let flight = Duration::from_millis(20);
    let server = TestingServer::builder().latency(Duration::ZERO..=flight).start();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(server.client().await.expect("a client"));
    }
    let above = "/a".repeat(30);
    let create = |(number, client): (usize, &Client)| {
        let path = format!("{above}/{number}");
        client.transaction().create(&path, "", CreateMode::Persistent).create_parents().commit()
    };
    for outcome in join_all(clients.iter().enumerate().map(create)).await {
        outcome.expect("committed");
    }
    assert_eq!(server.children(&above).len(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_node_comes_before_those_below_it() {
    let (server, client) = setup().await;
    let create = || client.transaction().create("/a/b/1", "", CreateMode::Persistent);
    let wrong = create().create("/a/b", "data", CreateMode::Persistent).create_parents();
    let error = wrong.commit().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = error.to_string();
    assert!(text.contains("step 1 of 2, create /a/b/1: step 2 creates a node above it"), "{text}");
    assert_eq!(server.paths().len(), 0);
    // One that gets a number is another node.
    let other = create().create("/a/b", "", CreateMode::PersistentSequential).create_parents();
    other.commit().await.expect("committed");
    assert_eq!(server.paths(), ["/a", "/a/b", "/a/b/1", "/a/b0000000001"]);
}

/// Even if only the nodes above make it too long.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_too_long_is_not_sent() {
    let server = TestingServer::start();
    let client = Client::builder_for_testing(&server).max_request_bytes(10_000).connect().await.expect("a client");
    let mut many = client.transaction();
    for number in 0..300 {
        many = many.create(&format!("/{number}"), "", CreateMode::Persistent);
    }
    let error = many.create_parents().commit().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("servers accept at most 10000"), "{error}");
    let mut deep = client.transaction();
    for number in 0..50 {
        deep = deep.create(&format!("/{0}/{0}{0}/{0}", format!("{number:020}")), "", CreateMode::Persistent);
    }
    let error = deep.create_parents().commit().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(server.count(&client, Operation::Multi), 1, "the first attempt of the second one: {error}");
    assert!(server.paths().is_empty() && client.connection_state().is_connected());
}

#[tokio::test(start_paused = true)]
async fn it_is_not_tried_again_if_the_transaction_itself_deletes_the_node_above() {
    let (server, client) = setup().await;
    server.create_by_hand("/a", "", CreateMode::Persistent).expect("created");
    let before = client.request_counts();
    let impossible = client.transaction().delete("/a", None).create("/a/b", "", CreateMode::Persistent);
    let error = impossible.create_parents().commit().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoNode);
    let text = error.to_string();
    assert!(text.contains("step 2 of 2, create /a/b: the node above it does not exist: an earlier step"), "{text}");
    assert_eq!(spent(&client, before), (1, 0, 1));
    assert_eq!(server.paths(), ["/a"]);
}

/// The parent is the one to which the server gives that name in the same transaction.
#[tokio::test(start_paused = true)]
async fn a_sequential_node_may_be_the_parent() {
    let (server, client) = setup().await;
    let both = client.transaction().create("/q/n-", "", CreateMode::PersistentSequential);
    let both = both.create("/q/n-0000000000/child", "", CreateMode::Persistent);
    both.create_parents().commit().await.expect("committed");
    assert_eq!(server.paths(), ["/q", "/q/n-0000000000", "/q/n-0000000000/child"]);
}

/// Others create and delete the nodes above all the time. No attempt is without a bound.
#[tokio::test(start_paused = true)]
async fn churn_of_the_nodes_above_fails_no_one() {
    let flight = Duration::from_millis(5);
    let server = TestingServer::builder().latency(Duration::ZERO..=flight).start();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(server.client().await.expect("a client"));
    }
    let churn = async |number: usize, client: &Client| {
        for round in 0..50 {
            let path = format!("/a/b/c/{number}-{round}");
            let before = client.request_counts();
            let create = client.transaction().create(&path, "", CreateMode::Persistent).create_parents();
            let outcome = create.commit().await;
            assert!((client.request_counts() - before).multis <= 20);
            outcome.expect("committed");
            for path in [&path, "/a/b/c", "/a/b", "/a"] {
                // Others may have nodes below it.
                let _ = client.delete(path, None).await;
            }
        }
    };
    join_all(clients.iter().enumerate().map(|(number, client)| churn(number, client))).await;
}

#[tokio::test(start_paused = true)]
async fn the_session_may_end_between_two_attempts() {
    for dialect in [Dialect::ZooKeeper, Dialect::Keeper26] {
        let server = TestingServer::builder().dialect(dialect).start();
        let client = server.client().await.expect("a client");
        server.lose_next_reply(&client, Operation::Exists, Loss::NotApplied);
        let expire = async {
            server.until(|| server.lost_replies() == 1).await;
            server.expire_session(&client);
        };
        let create = client.transaction().create("/a/b", "", CreateMode::Persistent).create_parents().commit();
        let (created, ()) = tokio::join!(create, expire);
        created.expect("committed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_path_of_many_levels_is_too_long_and_disturbs_no_one() {
    let (server, client) = setup().await;
    let create = client.transaction().create(&"/a".repeat(12_000), "", CreateMode::Persistent).create_parents();
    let error = create.commit().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(server.paths().is_empty() && client.connection_state().is_connected());
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_created_is_named() {
    let (server, client) = setup().await;
    server.create_by_hand("/closed", "", CreateMode::Persistent).expect("created");
    server.deny("/closed");
    let create = client.transaction().create("/closed/a/b", "", CreateMode::Persistent).create_parents();
    let error = create.commit().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoAuth);
    let text = error.to_string();
    assert!(text.contains("step 1 of 1, create the missing node /closed/a:"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_namespace_is_created_too_and_is_in_no_result() {
    let server = TestingServer::start();
    let client = Client::builder_for_testing(&server).namespace("/app").connect().await.expect("a client");
    let create = client.transaction().create("/a/b", "", CreateMode::Persistent).create_parents();
    let results = create.commit().await.expect("committed");
    assert_eq!(results, [TransactionResult::Created { path: "/a/b".to_owned() }]);
    assert_eq!(server.paths(), ["/app", "/app/a", "/app/a/b"]);
    let again = client.transaction().create("/a/b", "", CreateMode::Persistent).commit().await.expect_err("refused");
    assert!(again.to_string().contains("step 1 of 1, create /a/b:"), "{again}");
}

/// Also that of an attempt that was refused: without its answer, no one knows that.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_outcome_unknown() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        for has_parent in [false, true] {
            let (server, client) = setup().await;
            if has_parent {
                server.create_by_hand("/a", "", CreateMode::Persistent).expect("created");
            }
            server.lose_next_reply(&client, Operation::Multi, loss);
            let create = client.transaction().create("/a/b", "", CreateMode::Persistent).create_parents();
            let error = create.commit().await.expect_err("no answer");
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
            assert_eq!(server.get("/a/b").is_some(), has_parent && loss == Loss::Applied, "{has_parent} {loss:?}");
        }
    }
}
