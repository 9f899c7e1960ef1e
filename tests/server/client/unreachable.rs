//! No server answers at the addresses of the connect string: the errors, and how often the client tries.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use zookeeper_recipes::{ConnectionState, ErrorKind};

use super::fixture::{SOON, builder};
use crate::support::container::free_port;
use crate::support::{Fault, Proxy, ZooKeeper, eventually, within};

/// How long it may take until the delays between two attempts have grown.
const FIRST_PASS: Duration = Duration::from_secs(2);
/// So long it is counted after that, as the delays are random.
const COUNTED: Duration = Duration::from_secs(10);
const A_SECOND: u64 = 3;

/// How a listener treats connections.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Closes,
    SaysNothing,
}

/// A listener that is no server.
struct Stranger {
    addr: SocketAddr,
    accepted: Arc<Mutex<Vec<Instant>>>,
    task: AbortHandle,
}

impl Stranger {
    async fn start(manner: Manner) -> Stranger {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("a port");
        let accepted: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let noted = Arc::clone(&accepted);
        let accepting = tokio::spawn(async move {
            let mut kept = Vec::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                noted.lock().expect("no panic while locked").push(Instant::now());
                match manner {
                    Manner::Closes => drop(stream),
                    Manner::SaysNothing => kept.push(stream),
                }
            }
        });
        Stranger { addr, accepted, task: accepting.abort_handle() }
    }

    /// How many connected between these two.
    fn accepted(&self, from: Instant, to: Instant) -> u64 {
        let accepted = self.accepted.lock().expect("no panic while locked");
        accepted.iter().filter(|at| (from..to).contains(*at)).count() as u64
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A host that is not there, and the words that may tell why.
#[derive(Clone, Debug)]
struct Host {
    name: String,
    causes: &'static [&'static str],
}

fn wrong_name() -> Host {
    Host { name: "no-such-host.invalid:2181".to_owned(), causes: &["name not found", "no address"] }
}

fn refusing() -> Host {
    Host { name: format!("127.0.0.1:{}", free_port()), causes: &["connection refused"] }
}

fn closing(stranger: &Stranger) -> Host {
    Host {
        name: stranger.addr.to_string(),
        causes: &["connection closed", "closed the connection", "connection reset"],
    }
}

fn silent(stranger: &Stranger) -> Host {
    Host { name: stranger.addr.to_string(), causes: &["no answer", "timed out"] }
}

/// The error of `connect`, which names the cause of each host, and comes in time.
async fn refused(hosts: &[Host], wait: Duration) {
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let begun = Instant::now();
    let connecting = builder(&names.join(",")).connection_timeout(wait).connect();
    let error = within("connect returns", wait + SOON, connecting).await.expect_err("no server is there");
    let took = begun.elapsed();
    assert!(took < wait + Duration::from_secs(1), "{names:?}: {took:?} of {wait:?}");
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
    let text = error.to_string();
    for Host { name, causes } in hosts {
        let of_this_host =
            text.split_once(&format!("{name}: ")).map(|(_, rest)| rest.split(';').next().unwrap_or(rest));
        let named = of_this_host.is_some_and(|told| causes.iter().any(|cause| told.to_lowercase().contains(cause)));
        assert!(named, "{name} with one of {causes:?} is expected in: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connect_tells_the_cause_of_each_host() {
    const WAIT: Duration = Duration::from_secs(4);
    let (closes, says_nothing) = (Stranger::start(Manner::Closes).await, Stranger::start(Manner::SaysNothing).await);
    let hosts = [wrong_name(), refusing(), closing(&closes), silent(&says_nothing)];
    let alone = hosts.iter().map(|host| refused(std::slice::from_ref(host), WAIT));
    // Of several, each gets its turn in the time.
    let together = refused(&hosts, WAIT * 3);
    tokio::join!(join_all(alone), together);
}

/// Fails if there were more attempts after the first pass than may be.
fn assert_few(what: &str, first: u64, then: u64) {
    println!("{what}: {first} connects in the first {FIRST_PASS:?}, {then} in the next {COUNTED:?}");
    assert!(then <= A_SECOND * COUNTED.as_secs(), "{what}: {then} connects in {COUNTED:?}");
    // The first delays are short.
    assert!(first <= 4 * A_SECOND * FIRST_PASS.as_secs(), "{what}: {first} connects in {FIRST_PASS:?}");
    assert!(first + then > 0, "{what}: it is tried");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_no_server_sees_few_connects_from_a_client_that_opens_a_session() {
    let cases = [Manner::Closes, Manner::SaysNothing].map(|manner| async move {
        let stranger = Stranger::start(manner).await;
        let begun = Instant::now();
        let connecting = builder(&stranger.addr.to_string()).connection_timeout(FIRST_PASS + COUNTED).connect();
        within("connect returns", FIRST_PASS + COUNTED + SOON, connecting).await.expect_err("no server is there");
        let counted = begun + FIRST_PASS;
        let then = stranger.accepted(counted, counted + COUNTED);
        assert_few(&format!("{manner:?}, no session yet"), stranger.accepted(begun, counted), then);
    });
    join_all(cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_ceased_to_serve_sees_few_connects_from_a_client_that_has_a_session() {
    let server = ZooKeeper::shared().await;
    let cases = [Fault::Reset, Fault::BlackHole].map(|fault| {
        let server = &server;
        async move {
            let proxy = Proxy::start(server.addr()).await;
            let client = builder(&proxy.connect_string()).session_timeout(Duration::from_secs(12)).connect();
            let client = client.await.expect("connected");
            let before = proxy.accepted();
            proxy.set(fault).await;
            eventually("the loss is seen", SOON, async || client.connection_state() == ConnectionState::Suspended)
                .await;
            // Observations of a certain length.
            tokio::time::sleep(FIRST_PASS).await;
            let first = proxy.accepted() - before;
            tokio::time::sleep(COUNTED).await;
            assert_few(&format!("{fault:?}, with a session"), first, proxy.accepted() - before - first);
        }
    });
    join_all(cases).await;
}
