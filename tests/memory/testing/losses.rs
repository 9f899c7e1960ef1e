//! `lose_next_reply`: for every kind of request, carried out or not.

use futures::StreamExt;
use zookeeper_recipes::ConnectionState::{Reconnected, Suspended};
use zookeeper_recipes::leader_latch::observe_leader;
use zookeeper_recipes::testing::{Loss, Operation, Target, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::fixture::{States, connect, create, latch};

/// Those that cost the connection.
const CUTS: [Loss; 3] = [Loss::Applied, Loss::NotApplied, Loss::Truncated];

/// A client, and the lever pulled for its next request of that kind.
async fn lossy(of: Operation, loss: Loss) -> (TestingServer, Client, States) {
    let server = TestingServer::start();
    let client = connect(&server).await;
    create(&client, "/node").await;
    let states = States::of(&client).await;
    server.lose_next_reply(&client, of, loss);
    (server, client, states)
}

/// One reply was lost, which cost the connection and not the session; the next request is answered.
async fn assert_lost_once(server: &TestingServer, client: &Client, mut states: States) {
    assert_eq!(server.lost_replies(), 1);
    states.are(&[Suspended, Reconnected]).await;
    assert!(client.exists("/").await.unwrap().is_some());
    assert_eq!(server.lost_replies(), 1);
    states.are_at_rest();
}

#[tokio::test(start_paused = true)]
async fn of_a_create() {
    for loss in CUTS {
        let (server, client, states) = lossy(Operation::Create, loss).await;
        assert!(client.exists("/node").await.unwrap().is_some(), "another kind is answered");
        let created = client.create("/new", "", CreateMode::Persistent).await;
        assert_eq!(created.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(server.stat("/new").is_some(), loss != Loss::NotApplied);
        assert_lost_once(&server, &client, states).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_delete() {
    for loss in CUTS {
        let (server, client, states) = lossy(Operation::Delete, loss).await;
        let deleted = client.delete("/node", Some(0)).await;
        assert_eq!(deleted.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(server.stat("/node").is_none(), loss != Loss::NotApplied);
        assert_lost_once(&server, &client, states).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_set() {
    for loss in CUTS {
        let (server, client, states) = lossy(Operation::SetData, loss).await;
        let set = client.set("/node", "new", None).await;
        assert_eq!(set.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(server.get("/node").unwrap() == b"new", loss != Loss::NotApplied);
        assert_lost_once(&server, &client, states).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_transaction() {
    for loss in CUTS {
        let (server, client, states) = lossy(Operation::Multi, loss).await;
        let steps = client.transaction().set_data("/node", "new", None).create("/new", "", CreateMode::Persistent);
        assert_eq!(steps.commit().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        let expected: &[&str] = if loss != Loss::NotApplied { &["/new", "/node"] } else { &["/node"] };
        assert_eq!(server.paths(), expected);
        assert_lost_once(&server, &client, states).await;
    }
}

/// Reads are repeated, so that all that shows is that it took two.
#[tokio::test(start_paused = true)]
async fn of_each_read() {
    for (of, loss) in
        [Operation::Exists, Operation::GetData, Operation::List].into_iter().flat_map(|of| CUTS.map(|loss| (of, loss)))
    {
        let (server, client, states) = lossy(of, loss).await;
        let before = server.count(&client, of);
        match of {
            Operation::Exists => assert!(client.exists("/node").await.unwrap().is_some()),
            Operation::GetData => assert_eq!(client.get("/node").await.unwrap().0, b""),
            _ => assert_eq!(client.children("/").await.unwrap(), ["node"]),
        }
        assert_eq!(server.count(&client, of), before + 2, "{of:?}, {loss:?}");
        assert_lost_once(&server, &client, states).await;
    }
}

/// The heartbeat of a latch.
#[tokio::test(start_paused = true)]
async fn of_a_sync() {
    for loss in CUTS {
        let (server, client, states) = lossy(Operation::Sync, loss).await;
        let latch = latch(&client).await;
        server.until(|| server.lost_replies() == 1).await;
        assert_lost_once(&server, &client, states).await;
        latch.wait_for_leadership().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn of_the_removal_of_a_watch() {
    for loss in CUTS {
        let (server, client, states) = lossy(Operation::RemoveWatch, loss).await;
        let mut leaders = observe_leader(&client, "/latch").unwrap();
        assert_eq!(leaders.next().await.unwrap().unwrap(), None);
        assert!(server.watches() > 0);
        drop(leaders);
        server.until(|| server.lost_replies() == 1).await;
        assert_lost_once(&server, &client, states).await;
        server.until(|| server.watches() == 0).await;
    }
}

/// The client comes back to hear that it is gone, or to say goodbye again.
#[tokio::test(start_paused = true)]
async fn of_a_goodbye() {
    for loss in CUTS {
        let (server, client, _) = lossy(Operation::Close, loss).await;
        client.create("/mine", "", CreateMode::Ephemeral).await.unwrap();
        client.close().await.unwrap();
        assert_eq!(server.lost_replies(), 1);
        assert_eq!(server.paths(), ["/node"]);
        assert_eq!(server.sessions(), []);
        let goodbyes = server.count(&client, Operation::Close);
        assert_eq!(goodbyes, if loss != Loss::NotApplied { 1 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn of_any_kind_and_of_several_requests() {
    let server = TestingServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    // Of creates, as a reconnect has a request of its own.
    server.lose_next_reply(&client, Operation::Create, Loss::Applied);
    server.lose_next_reply(&client, Operation::Create, Loss::NotApplied);
    assert!(other.exists("/").await.unwrap().is_some());
    assert_eq!(server.lost_replies(), 0, "another client is meant");
    let lost = |created: Result<String, zookeeper_recipes::Error>| created.unwrap_err().kind();
    // The newest lever to fit a request takes it before it is carried out.
    assert_eq!(lost(client.create("/a", "", CreateMode::Persistent).await), ErrorKind::OutcomeUnknown);
    assert_eq!(server.paths(), [""; 0]);
    assert_eq!(lost(client.create("/b", "", CreateMode::Persistent).await), ErrorKind::OutcomeUnknown);
    assert_eq!(server.paths(), ["/b"]);
    create(&client, "/c").await;
    assert_eq!(server.lost_replies(), 2);
    server.lose_next_reply(Target::ALL, None, Loss::Applied);
    assert!(other.exists("/").await.unwrap().is_some());
    assert_eq!(server.lost_replies(), 3);
}

/// Only the request fails whose answer cannot be decoded; those behind it are answered on the same connection.
#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_decoded_fails_its_request_alone() {
    use Operation::{Create, Exists, GetAcl, GetData, List, Multi, SetData};
    for of in [Create, Exists, GetAcl, GetData, List, Multi, SetData] {
        let (server, client, mut states) = lossy(of, Loss::Malformed).await;
        let asked = async {
            match of {
                Create => client.create("/new", "", CreateMode::Persistent).await.map(drop),
                Exists => client.exists("/node").await.map(drop),
                GetAcl => client.acl("/node").await.map(drop),
                GetData => client.get("/node").await.map(drop),
                List => client.children("/").await.map(drop),
                Multi => client.transaction().create("/new", "", CreateMode::Persistent).commit().await.map(drop),
                _ => client.set("/node", "new", None).await.map(drop),
            }
        };
        let (asked, behind) = tokio::join!(asked, client.exists("/"));
        let error = asked.expect_err("its answer cannot be decoded");
        assert!(error.to_string().contains("its answer cannot be read"), "{of:?}: {error}");
        let is_write = matches!(of, Create | Multi | SetData);
        assert_eq!(
            error.kind(),
            if is_write { ErrorKind::OutcomeUnknown } else { ErrorKind::Other },
            "{of:?}: {error}"
        );
        behind.expect("answered on the same connection");
        assert_eq!(server.lost_replies(), 1);
        states.are_at_rest();
        assert_eq!(server.stat("/new").is_some(), matches!(of, Create | Multi), "{of:?} was carried out");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_of_many_nodes_whose_answer_cannot_be_decoded_has_no_known_outcome() {
    let (server, client, _states) = lossy(Operation::Multi, Loss::Malformed).await;
    let error = client.delete_recursive("/node").await.expect_err("its answer cannot be decoded");
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(error.to_string().contains("its answer cannot be read"), "{error}");
    assert_eq!(server.paths(), [""; 0], "it was carried out");
}
