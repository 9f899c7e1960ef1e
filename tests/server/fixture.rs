//! Shared by the tests of the recipes on real servers: clients with short sessions, a path of the test's own, and
//! words for what becomes of a connection.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use zookeeper_recipes::{Client, ClientBuilder, ErrorPolicy};

pub(crate) use crate::states::{States, was_cut_off_and_came_back};
use crate::support::polls::Polls;
pub(crate) use crate::support::waiting::name_of;
use crate::support::{How, Observer, OneShot, OpCode, Proxy, ZooKeeper, four_letter, unique_path};
pub(crate) use crate::support::{eventually, within};

/// How long anything may take that is only a matter of requests and answers, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// For this long nothing (else) may happen: many round trips, few enough to be spent in many tests.
pub(crate) const A_WHILE: Duration = Duration::from_millis(300);
/// The tick of the servers of the tests.
const TICK: Duration = Duration::from_millis(500);

/// The options of a client of one of the tests' servers.
pub(crate) fn builder(connect_string: &str, session_timeout: Duration) -> ClientBuilder {
    Client::builder(connect_string)
        .session_timeout(session_timeout)
        .tick_time(TICK)
        .connection_timeout(Duration::from_secs(10))
}

pub(crate) async fn connect(builder: ClientBuilder) -> Client {
    let connecting = within("a client connects", SOON, builder.connect());
    connecting.await.expect("the client connects")
}

/// The shared server, a view from outside and a path of the test's own.
pub(crate) struct Fixture {
    pub(crate) server: Arc<ZooKeeper>,
    pub(crate) observer: Observer,
    pub(crate) path: String,
}

impl Fixture {
    pub(crate) async fn new(prefix: &str) -> Fixture {
        Fixture::at(ZooKeeper::shared().await, prefix).await
    }

    /// As `new`, on a server that no other test uses: for tests that occupy a server, also after their end.
    pub(crate) async fn on_a_server_of_its_own(prefix: &str) -> Fixture {
        Fixture::at(Arc::new(ZooKeeper::start().await), prefix).await
    }

    async fn at(server: Arc<ZooKeeper>, prefix: &str) -> Fixture {
        let observer = Observer::connect(&server.connect_string()).await;
        Fixture { server, observer, path: unique_path(prefix) }
    }

    /// As `new`, and the directory exists and stays.
    pub(crate) async fn with_directory(prefix: &str) -> Fixture {
        let fixture = Fixture::new(prefix).await;
        fixture.observer.create(&fixture.path, b"").await;
        fixture
    }

    /// A client whose session is long enough not to matter.
    pub(crate) async fn client(&self) -> Client {
        connect(builder(&self.server.connect_string(), Duration::from_secs(10))).await
    }

    /// A client behind a proxy of its own.
    pub(crate) async fn client_behind_proxy(&self, session_timeout: Duration, policy: ErrorPolicy) -> (Proxy, Client) {
        let proxy = Proxy::start(self.server.addr()).await;
        let client = builder(&proxy.connect_string(), session_timeout).error_policy(policy);
        let client = connect(client).await;
        (proxy, client)
    }

    pub(crate) async fn nodes(&self) -> Vec<String> {
        self.observer.children(&self.path).await
    }
}

/// Asserts that `future` is not done after a while; it can be polled further.
pub(crate) async fn still_pending<F: Future + Unpin>(what: &str, future: &mut F) {
    assert!(tokio::time::timeout(A_WHILE, future).await.is_err(), "{what}: it is done already");
}

/// Polls a future up to so many times, each time when it asked for it, then drops it; its output, if it was ready by
/// then. One that asks no more is dropped after a while.
pub(crate) async fn polled<F: Future>(times: usize, future: F) -> Option<F::Output> {
    let mut polls = Polls::new(future);
    for before in 0..times {
        if before > 0 {
            tokio::time::timeout(A_WHILE, polls.asked()).await.ok()?;
        }
        if let Poll::Ready(output) = polls.poll() {
            return Some(output);
        }
    }
    None
}

/// How many watches the server has for this client below this path.
pub(crate) async fn watches(fixture: &Fixture, client: &Client) -> usize {
    let session = client.session_id().expect("a session");
    four_letter::watches(fixture.server.addr(), session, &fixture.path).await.expect("an answer")
}

/// Waits until the client has neither node nor watch there.
pub(crate) async fn nothing_is_left(fixture: &Fixture, client: &Client, others: usize, case: &str) {
    eventually(&format!("{case}: nothing is left"), SOON, || async {
        fixture.nodes().await.len() == others && watches(fixture, client).await == 0
    })
    .await;
}

/// How a connection can end.
const ENDS: [How; 3] = [How::Fin, How::Rst, How::Silence];

/// The message that is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// The request reaches the server.
    Answer,
    /// It does not.
    Request,
}

/// Loses the next of that kind, and with it the connection.
pub(crate) fn lose(proxy: &Proxy, what: What, op: OpCode, how: How) -> OneShot {
    match what {
        What::Answer => proxy.lose_reply_of(op, how),
        What::Request => proxy.drop_request_of(op, how),
    }
}

/// Carries out `scenario` for every way to lose something, all at the same time.
pub(crate) async fn for_each_loss<F: Future<Output = ()>>(mut scenario: impl FnMut(What, How) -> F) {
    let ways = [What::Answer, What::Request].map(|what| ENDS.map(|how| (what, how)));
    futures::future::join_all(ways.concat().into_iter().map(|(what, how)| scenario(what, how))).await;
}
