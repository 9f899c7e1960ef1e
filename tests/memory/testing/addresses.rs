//! Levers for the clients that come by the sockets of one `Listening`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use zookeeper_recipes::testing::{Listening, Loss, Operation, Target, TestingServer};
use zookeeper_recipes::{Client, CreateMode, Error, ErrorKind};

const T: Duration = Duration::from_secs(10);

async fn by_socket(listening: &Listening) -> Client {
    Client::builder(listening.connect_string()).session_timeout(T).connect().await.expect("a client")
}

/// One ensemble that listens twice, with a client at each, and one in this process.
struct Stage {
    server: TestingServer,
    listening: [Listening; 2],
    clients: [Client; 2],
    inside: Client,
}

impl Stage {
    async fn open() -> Stage {
        let server = TestingServer::builder().servers(2).latency(Duration::ZERO..=Duration::ZERO).start();
        let listening = [(); 2].map(|()| server.listen("127.0.0.1:0").expect("free ports"));
        let clients = [by_socket(&listening[0]).await, by_socket(&listening[1]).await];
        let inside = server.client().await.expect("a client");
        Stage { server, listening, clients, inside }
    }

    fn is_connected(&self, client: &Client) -> bool {
        let session = client.session_id();
        self.server.sessions().iter().any(|known| Some(known.id) == session && known.connected)
    }

    /// Waits until the client at the first address is connected, or is not. The others are connected all the time.
    async fn until_first_is_connected(&self, connected: bool) {
        self.server.until(|| self.is_connected(&self.clients[0]) == connected).await;
        assert!(self.is_connected(&self.clients[1]) && self.is_connected(&self.inside));
    }

    /// Creates a node with the client at the first address, on a task of its own. Returns when it was sent, and the
    /// others have created theirs.
    async fn create_with_all(&self) -> tokio::task::JoinHandle<Result<String, Error>> {
        let client = self.clients[0].clone();
        let first = tokio::spawn(async move { client.create("/first", "", CreateMode::Persistent).await });
        self.server.until(|| self.server.count(&self.listening[0], Operation::Create) == 1).await;
        for (client, path) in [(&self.clients[1], "/second"), (&self.inside, "/inside")] {
            client.create(path, "", CreateMode::Persistent).await.expect("created");
        }
        first
    }
}

#[tokio::test]
async fn a_cut_and_a_refusal_at_one_address_concern_its_clients_now_and_later() {
    let stage = Stage::open().await;
    let (server, first) = (&stage.server, &stage.listening[0]);
    let clients: Vec<_> = server.sessions().iter().map(|session| session.client).collect();
    assert_eq!(clients, [None, None, Some(1)]);
    server.refuse(first);
    assert_eq!(server.disconnect(first), 1);
    stage.until_first_is_connected(false).await;
    let refused = Client::builder(first.connect_string()).connection_timeout(Duration::from_millis(200)).connect();
    assert_eq!(refused.await.expect_err("it is refused").kind(), ErrorKind::ConnectionLoss);
    by_socket(&stage.listening[1]).await.close().await.expect("the other address is open");
    assert!(!stage.is_connected(&stage.clients[0]));
    server.heal();
    stage.until_first_is_connected(true).await;
    assert_eq!(server.disconnect(first), 1, "also its next connection");
}

#[tokio::test]
async fn messages_are_held_at_one_address_alone() {
    let stage = Stage::open().await;
    stage.server.black_hole(&stage.listening[0]);
    let first = stage.create_with_all().await;
    assert_eq!(stage.server.paths(), ["/inside", "/second"]);
    stage.server.heal();
    first.await.expect("no panic").expect("created late");
}

#[tokio::test]
async fn messages_are_delayed_at_one_address_alone() {
    let stage = Stage::open().await;
    stage.server.delay(&stage.listening[0], T * 360);
    let first = stage.create_with_all().await;
    assert_eq!(stage.server.paths(), ["/inside", "/second"]);
    first.abort();
}

#[tokio::test]
async fn the_reply_to_a_client_at_one_address_is_lost() {
    let stage = Stage::open().await;
    stage.server.lose_next_reply(&stage.listening[0], Operation::Create, Loss::Applied);
    for (client, path) in [(&stage.clients[1], "/second"), (&stage.inside, "/inside")] {
        client.create(path, "", CreateMode::Persistent).await.expect("created");
    }
    assert_eq!(stage.server.lost_replies(), 0);
    let lost = stage.clients[0].create("/first", "", CreateMode::Persistent).await;
    assert_eq!(lost.expect_err("it is lost").kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(stage.server.paths(), ["/first", "/inside", "/second"]);
    assert_eq!(stage.server.count(&stage.listening[1], Operation::Create), 1);
    assert_eq!(stage.server.count(Target::ALL, Operation::Create), 3);
}

#[tokio::test]
async fn a_session_of_a_client_elsewhere_is_ended_by_its_id() {
    let stage = Stage::open().await;
    let [old, other] = [0, 1].map(|number: usize| stage.clients[number].session_id().expect("a session"));
    assert!(!stage.server.expire_session_id(old ^ other), "there is no such session");
    assert!(stage.server.expire_session_id(old));
    assert!(!stage.server.expire_session_id(old), "it has ended");
    stage.server.until(|| stage.clients[0].session_id().is_some_and(|id| id != old)).await;
    assert_eq!(stage.clients[1].session_id(), Some(other));
}

#[tokio::test]
async fn every_lever_refuses_sockets_of_another_server() {
    let (server, elsewhere) = (TestingServer::start(), TestingServer::start());
    let [own, stranger] = [&server, &elsewhere].map(|server| server.listen("127.0.0.1:0").expect("a free port"));
    type Lever = fn(&TestingServer, &Listening);
    let levers: [(&str, Lever); 6] = [
        ("disconnect", |server, listening| _ = server.disconnect(listening)),
        ("refuse", |server, listening| server.refuse(listening)),
        ("black_hole", |server, listening| server.black_hole(listening)),
        ("delay", |server, listening| server.delay(listening, T)),
        ("lose_next_reply", |server, listening| server.lose_next_reply(listening, None, Loss::Applied)),
        ("count", |server, listening| _ = server.count(listening, Operation::Create)),
    ];
    for (name, lever) in levers {
        let refused = catch_unwind(AssertUnwindSafe(|| lever(&server, &stranger))).expect_err(name);
        let said = refused.downcast_ref::<&str>().copied().unwrap_or_default();
        assert!(said.contains("does not belong to this TestingServer"), "{name}: {said:?}");
        lever(&server, &own);
    }
    by_socket(&stranger).await.close().await.expect("nothing happened to it");
}
