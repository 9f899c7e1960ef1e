//! `listen`: clients that come by a socket, beside those in this process.

use std::io;
use std::time::Duration;

use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_recipes::testing::{Operation, Target, TestingServer};
use zookeeper_recipes::{Client, ConnectionState, CreateMode};

const T: Duration = Duration::from_secs(10);

async fn by_socket(connect_string: String) -> Client {
    Client::builder(connect_string).session_timeout(T).connect().await.expect("a client")
}

#[tokio::test]
async fn who_comes_by_a_socket_is_no_client_of_this_process() {
    let server = TestingServer::builder().servers(3).start();
    let listening = server.listen("127.0.0.1:0").expect("free ports");
    assert_eq!(listening.addresses().len(), 3);
    let inside = Client::builder_for(&server).session_timeout(T).connect().await.expect("a client");
    let outside = by_socket(listening.connect_string()).await;
    outside.create("/from-outside", "", CreateMode::Persistent).await.expect("created");
    assert_eq!(server.paths(), ["/from-outside"]);

    let sessions = server.sessions();
    let of = |client: &Client| sessions.iter().find(|session| Some(session.id) == client.session_id());
    assert_eq!(of(&inside).map(|session| session.client), Some(Some(1)));
    assert_eq!(of(&outside).map(|session| session.client), Some(None));
    assert_eq!(server.disconnect(&inside), 1, "the client by the socket stays connected");
}

#[tokio::test]
async fn an_address_that_is_in_use_is_an_error_and_a_drop_closes_all() {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let error = server.listen(listening.addresses()[0]).expect_err("it is in use");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);

    let client = by_socket(listening.connect_string()).await;
    let mut states = client.connection_states();
    states.next().await.expect("the state of now").expect("it is not behind");
    drop(listening);
    assert_eq!(states.next().await.expect("a state").expect("it is not behind"), ConnectionState::Suspended);
    assert_eq!(server.sessions().len(), 1, "the ensemble goes on");
}

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    let length = u32::try_from(payload.len()).expect("a short frame");
    [&length.to_be_bytes()[..], &payload].concat()
}

/// A request for a new session: the version, no transaction seen, a timeout of 10 s, no id, an empty password.
fn hello() -> Vec<u8> {
    frame(&[&[0; 12], &10_000_u32.to_be_bytes(), &[0; 8], &16_u32.to_be_bytes(), &[0; 16]])
}

fn get_data(number: u32, path: &str) -> Vec<u8> {
    let length = u32::try_from(path.len()).expect("a short path");
    frame(&[&number.to_be_bytes(), &4_u32.to_be_bytes(), &length.to_be_bytes(), path.as_bytes(), &[0]])
}

#[tokio::test]
async fn who_asks_and_does_not_read_is_cut_off_and_others_are_not() {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let client = by_socket(listening.connect_string()).await;
    client.create("/large", vec![1; 1_000_000], CreateMode::Persistent).await.expect("created");
    let mut lazy = TcpStream::connect(listening.addresses()[0]).await.expect("a connection");
    lazy.write_all(&hello()).await.expect("written");
    let connected = || server.sessions().iter().filter(|session| session.connected).count();
    server.until(|| connected() == 2).await;
    let mut ask = async |numbers: std::ops::Range<u32>| {
        for number in numbers {
            // A write fails once the connection is cut.
            lazy.write_all(&get_data(number, "/large")).await.ok();
        }
    };
    ask(0..200).await;
    server.until(|| server.count(Target::ALL, Operation::GetData) == 200).await;
    assert_eq!(connected(), 2);
    ask(200..300).await;
    server.until(|| connected() == 1).await;
    let mut rest = Vec::new();
    // The buffers of the sockets, and then the end or a reset.
    lazy.read_to_end(&mut rest).await.ok();
    assert!(rest.len() < 100_000_000, "{}", rest.len());
    assert_eq!(client.get("/large").await.expect("there").0.len(), 1_000_000);
}
