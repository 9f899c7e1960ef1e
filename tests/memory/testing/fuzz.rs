//! Bytes that no client would send, by chance, while another client is served.
//!
//! `FUZZ_CONNECTIONS` says how many connections send them, and `FUZZ_SEED` what the first of them sends: a run that
//! fails prints the seed at which it did.

use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zookeeper_recipes::testing::{Listening, TestingServer};
use zookeeper_recipes::{Client, CreateMode};

use super::raw::{create, create_ttl, frame, hello, int, path_and, set};
use crate::fixture::{SOON, within};

const CONNECTIONS: u64 = 300;
/// An answer may not come; this is no error.
const A_MOMENT: Duration = Duration::from_millis(2);

fn number(name: &str, default: impl FnOnce() -> u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or_else(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: must be a number")))
}

/// A request that a server understands.
fn request(random: &mut Rng) -> Vec<u8> {
    let path = ["/", "/a", "/a/b", "/zookeeper", "a", ""][random.usize(..6)];
    let op = random.i32(-11..110);
    let body = match random.u8(..6) {
        0 => create(path, random.i32(-1..8)),
        1 => create_ttl(path, random.i64(..)),
        2 => set(path),
        3 => path_and(path, &int(random.i32(-2..3))),
        4 => [&int(4)[..], &[0], &int(-1), &path_and(path, &[0]), &int(-1), &[1], &int(-1)].concat(),
        _ => Vec::new(),
    };
    frame(&[&int(random.i32(-9..9)), &int(op), &body])
}

/// Some of its bytes are others, or missing, or twice there.
fn spoil(random: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..random.u8(..4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.usize(..bytes.len());
        match random.u8(..4) {
            0 => bytes[at] = random.u8(..),
            1 => bytes.truncate(at),
            2 => bytes.extend_from_within(at..),
            // What is small becomes large, and what is positive negative.
            _ => bytes[at] = [0, 0x7f, 0x80, 0xff][random.usize(..4)],
        }
    }
}

/// One client, from its connection to its end.
async fn misbehave(listening: &Listening, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut socket = TcpStream::connect(listening.addresses()[0]).await.expect("a connection");
    let mut said = hello();
    if random.u8(..4) == 0 {
        spoil(&mut random, &mut said);
    }
    for _ in 0..random.u8(..12) {
        let mut next = request(&mut random);
        if random.bool() {
            spoil(&mut random, &mut next);
        }
        said.extend(next);
    }
    // The server may have closed the connection already.
    socket.write_all(&said).await.ok();
    if random.bool() {
        let mut answers = [0; 4096];
        while let Ok(Ok(1..)) = timeout(A_MOMENT, socket.read(&mut answers)).await {}
    }
}

#[tokio::test]
async fn whatever_bytes_come_the_servers_go_on_and_others_are_served() {
    let seed = number("FUZZ_SEED", || fastrand::u64(..1 << 40));
    let connections = number("FUZZ_CONNECTIONS", || CONNECTIONS);
    println!("{connections} connections from FUZZ_SEED={seed}");
    let server = TestingServer::builder().servers(3).extended_types(true).start();
    let listening = server.listen("127.0.0.1:0").expect("free ports");
    let client = Client::builder(listening.connect_string()).connect().await.expect("a client");
    client.create("/served", "", CreateMode::Ephemeral).await.expect("created");
    for number in 0..connections {
        misbehave(&listening, seed.wrapping_add(number)).await;
        let what = format!("an answer beside FUZZ_SEED={}", seed.wrapping_add(number));
        let stat = within(&what, SOON, client.exists("/served")).await.expect(&what);
        assert!(stat.is_some(), "{what}");
    }
    assert!(server.panics().is_empty(), "{:?}", server.panics());
}
