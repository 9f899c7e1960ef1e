//! `listen`: clients that come by a socket, beside those in this process.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_recipes::testing::{Operation, Target, TestingServer};
use zookeeper_recipes::{Acl, Client, ConnectionState, CreateMode, ErrorKind, Permissions, WatchMode};

use super::raw::{frame, hello, int, path_and};
use crate::fixture::{SOON, within};

const T: Duration = Duration::from_secs(10);

async fn by_socket(connect_string: String) -> Client {
    Client::builder(connect_string).session_timeout(T).connect().await.expect("a client")
}

#[tokio::test]
async fn who_comes_by_a_socket_is_no_client_of_this_process() {
    let server = TestingServer::builder().servers(3).start();
    let listening = server.listen("127.0.0.1:0").expect("free ports");
    assert_eq!(listening.addresses().len(), 3);
    let inside = Client::builder_for_testing(&server).session_timeout(T).connect().await.expect("a client");
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

fn get_data(number: u32, path: &str) -> Vec<u8> {
    frame(&[&number.to_be_bytes(), &int(4), &path_and(path, &[0])])
}

/// Reads the answers to so many requests.
async fn answers(socket: &mut TcpStream, count: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut answers = Vec::new();
    for _ in 0..count {
        let mut answer = vec![0; socket.read_u32().await? as usize];
        socket.read_exact(&mut answer).await?;
        answers.push(answer);
    }
    Ok(answers)
}

#[tokio::test]
async fn who_asks_and_does_not_read_waits_and_others_do_not() {
    const ASKED: u32 = 300;
    let server = TestingServer::builder().latency(Duration::ZERO..=Duration::ZERO).start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let client = by_socket(listening.connect_string()).await;
    client.create("/large", vec![1; 1_000_000], CreateMode::Persistent).await.expect("created");
    let mut lazy = TcpStream::connect(listening.addresses()[0]).await.expect("a connection");
    lazy.write_all(&hello()).await.expect("written");
    for number in 1..=ASKED {
        lazy.write_all(&get_data(number, "/large")).await.expect("written");
    }
    for _ in 0..20 {
        assert_eq!(client.get("/large").await.expect("there").0.len(), 1_000_000);
    }
    // Less than a third of the answers fits into the buffers of the sockets.
    assert!(server.count(Target::ALL, Operation::GetData) < 20 + u64::from(ASKED) / 3);
    let answers = answers(&mut lazy, 1 + ASKED as usize).await.expect("all are answered");
    let numbers: Vec<u32> =
        answers[1..].iter().map(|answer| u32::from_be_bytes(*answer.first_chunk().expect("one"))).collect();
    assert_eq!(numbers, (1..=ASKED).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_closes_its_own_direction_alone_is_answered() {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    for _ in 0..50 {
        let mut brief = TcpStream::connect(listening.addresses()[0]).await.expect("a connection");
        brief.write_all(&[hello(), get_data(1, "/"), get_data(2, "/")].concat()).await.expect("written");
        brief.shutdown().await.expect("closed");
        assert_eq!(answers(&mut brief, 3).await.expect("three answers").len(), 3);
        assert_eq!(brief.read(&mut [0]).await.expect("an end"), 0);
    }
}

#[tokio::test]
async fn who_does_not_read_is_cut_all_the_same() {
    let server = TestingServer::builder().latency(Duration::ZERO..=Duration::ZERO).start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let client = server.client().await.expect("a client");
    client.create("/large", vec![1; 1_000_000], CreateMode::Persistent).await.expect("created");
    let mut lazy = TcpStream::connect(listening.addresses()[0]).await.expect("a connection");
    lazy.write_all(&hello()).await.expect("written");
    for number in 1..=100 {
        lazy.write_all(&get_data(number, "/large")).await.expect("written");
    }
    server.until(|| server.count(&listening, Operation::GetData) > 1).await;
    assert_eq!(server.disconnect(&listening), 1);
    // The buffers of the sockets are full, and it learns of the end by what it writes.
    let end = async {
        while lazy.write_all(&get_data(1, "/large")).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within("an end", SOON, end).await;
}

#[tokio::test]
async fn what_is_asked_before_the_welcome_is_answered_after_it() {
    let server = TestingServer::builder().servers(3).start();
    let listening = server.listen("127.0.0.1:0").expect("free ports");
    let mut eager = TcpStream::connect(listening.addresses()[1]).await.expect("a connection");
    eager.write_all(&[hello(), get_data(1, "/"), get_data(2, "/none")].concat()).await.expect("written");
    let answers = answers(&mut eager, 3).await.expect("three answers");
    let numbers: Vec<u8> = answers[1..].iter().map(|answer| answer[3]).collect();
    assert_eq!(numbers, [1, 2]);
}

/// It refers to the same data again and again.
#[tokio::test]
async fn a_short_request_for_more_than_fits_ends_its_connection() {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let client = by_socket(listening.connect_string()).await;
    client.create("/large", vec![1; 1_000_000], CreateMode::Persistent).await.expect("created");
    let read = [&4_u32.to_be_bytes()[..], &[0; 1], &u32::MAX.to_be_bytes(), &6_u32.to_be_bytes(), b"/large", &[0]];
    let end = [&u32::MAX.to_be_bytes()[..], &[1; 1], &u32::MAX.to_be_bytes()];
    let many = |count: usize| {
        let (head, reads) = ([&7_u32.to_be_bytes()[..], &22_u32.to_be_bytes()].concat(), read.concat().repeat(count));
        frame(&[&head, &reads, &end.concat()])
    };
    for (count, is_answered) in [(20, true), (20_000, false)] {
        let mut socket = TcpStream::connect(listening.addresses()[0]).await.expect("a connection");
        socket.write_all(&hello()).await.expect("written");
        answers(&mut socket, 1).await.expect("the welcome");
        socket.write_all(&many(count)).await.expect("written");
        let answer = answers(&mut socket, 1).await;
        assert_eq!(answer.is_ok_and(|answers| answers[0].len() > count * 1_000_000), is_answered, "{count}");
    }
    assert_eq!(client.get("/large").await.expect("there").0.len(), 1_000_000);
}

#[tokio::test]
async fn who_asks_for_no_session_is_not_kept() {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let client = by_socket(listening.connect_string()).await;
    let mut silent = TcpStream::connect(listening.addresses()[0]).await.expect("a connection");
    silent.write_all(&1_000_u32.to_be_bytes()).await.expect("written");
    let mut nothing = Vec::new();
    silent.read_to_end(&mut nothing).await.ok();
    assert!(nothing.is_empty());
    assert!(client.exists("/").await.expect("still connected").is_some());
    assert_eq!(server.sessions().iter().filter(|session| session.connected).count(), 1);
}

async fn word(address: SocketAddr, word: &str) -> String {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    socket.write_all(word.as_bytes()).await.expect("written");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("an answer, and its end");
    answer
}

#[tokio::test]
async fn words_tell_of_clients_nodes_and_watches() {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let client = by_socket(listening.connect_string()).await;
    client.create("/mine", "", CreateMode::Ephemeral).await.expect("created");
    let mut watch = client.watch("/mine", WatchMode::Persistent).expect("a watch");
    watch.next().await.expect("the first event").expect("it is armed");
    let address = listening.addresses()[0];
    let session = format!("sid={:#x},", client.session_id().expect("a session"));
    for (asked, expected) in [
        ("ruok", "imok"),
        ("srvr", "Mode: standalone\n"),
        ("stat", "Node count: 2\n"),
        ("mntr", "zk_ephemerals_count\t1\n"),
        ("conf", "maxSessionTimeout=40000\n"),
        ("cons", &session),
        ("wchs", "Total watches:1\n"),
        ("envi", "zookeeper.version=3.9"),
        ("dump", "not in the whitelist"),
    ] {
        let answer = word(address, asked).await;
        assert!(answer.contains(expected), "{asked}: {answer}");
    }
}

#[tokio::test]
async fn an_acl_of_a_user_binds_all_but_this_user() {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let all_to_me = Acl::new(Permissions::ALL, "auth", "");
    let of_user = Client::builder(listening.connect_string()).auth("digest", "u:p").acls([all_to_me]);
    let user = of_user.connect().await.expect("a client");
    user.create("/secret", "1", CreateMode::Persistent).await.expect("created");
    assert_eq!(user.get("/secret").await.expect("permitted").0, b"1");
    let other = by_socket(listening.connect_string()).await;
    assert_eq!(other.get("/secret").await.expect_err("not permitted").kind(), ErrorKind::NoAuth);
    let of_nobody = Client::builder(listening.connect_string()).auth("unheard-of", "u:p");
    assert_eq!(of_nobody.connect().await.expect_err("not known").kind(), ErrorKind::AuthFailed);
}
