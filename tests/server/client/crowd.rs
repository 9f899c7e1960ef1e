//! Many clients of one process that connect at the same moment.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use zookeeper_recipes::Client;

use crate::support::{ZooKeeper, within};

const CLIENTS: usize = 500;
/// Of the queue of 50 connections from which a server accepts.
const AT_ONCE: usize = 32;
/// Asked for, so that no attempt is slow compared with its time limit.
const T: Duration = Duration::from_secs(120);

/// Forwards connections to a server, and counts those that are not answered yet.
#[derive(Debug, Default)]
struct Gate {
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl Gate {
    async fn start(server: SocketAddr) -> (Arc<Gate>, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("a port");
        let gate = Arc::<Gate>::default();
        let counts = Arc::clone(&gate);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.expect("a connection");
                tokio::spawn(Arc::clone(&counts).forward(client, server));
            }
        });
        (gate, addr)
    }

    async fn forward(self: Arc<Self>, client: TcpStream, server: SocketAddr) {
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(under_way, Ordering::SeqCst);
        let server = TcpStream::connect(server).await.expect("connected");
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
        let mut answer = [0; 1024];
        let read = from_server.read(&mut answer).await.expect("an answer");
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        to_client.write_all(&answer[..read]).await.expect("forwarded");
        // Until one end is closed.
        copy(&mut from_server, &mut to_client).await.ok();
    }
}

#[tokio::test]
async fn five_hundred_clients_have_a_bounded_number_of_attempts_under_way() {
    let server = ZooKeeper::shared().await;
    let (gate, addr) = Gate::start(server.addr()).await;
    let clients = (0..CLIENTS).map(|_| Client::builder(addr.to_string()).session_timeout(T).connect());
    let clients = within("all are connected", T, join_all(clients)).await;
    let most = gate.most.load(Ordering::SeqCst);
    assert!((1..=AT_ONCE).contains(&most), "{most}");
    within("all are closed", T, join_all(clients.iter().map(|client| client.as_ref().expect("connected").close())))
        .await;
}
