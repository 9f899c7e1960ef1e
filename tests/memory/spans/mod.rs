//! The spans around the code of users, which give its log lines the fields of the recipe, and those that tell who
//! waited for whom.

mod recorder;

use std::sync::Arc;

use tokio::sync::Notify;
use tracing::{Instrument, Level};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry};
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::leader_selector::{LeaderSelector, Leadership};
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::queue::{ClaimHandle, DistributedQueue, Utf8};
use zookeeper_recipes::semaphore::InterProcessSemaphore;
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};

use self::recorder::Recorder;
use crate::fixture::log::{Log, ask_each_thread};
use crate::fixture::{SOON, T};
use crate::waiting::within;

/// The only line with the message.
fn line(log: &Log, message: &str) -> String {
    let lines = log.lines(message);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    lines[0].clone()
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_listener_has_the_fields_of_its_term() {
    let (log, subscriber) = Log::new(LevelFilter::INFO);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let leads = Arc::new(Notify::new());
    let lead = {
        let leads = Arc::clone(&leads);
        move |leadership: Leadership| {
            let leads = Arc::clone(&leads);
            async move {
                tracing::info!("the nightly job starts");
                leads.notify_one();
                leadership.lost().await;
            }
        }
    };
    let selector = LeaderSelector::builder(&client, "/job").id("one").start(lead).expect("started");
    within("it leads", T, leads.notified()).await;
    let line = line(&log, "the nightly job starts");
    for field in ["term{", "path=\"/job\"", "id=\"one\"", "token="] {
        assert!(line.contains(field), "{field}: {line}");
    }
    drop(selector);
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_handler_has_the_fields_of_its_delivery() {
    let (log, subscriber) = Log::new(LevelFilter::INFO);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let queue = DistributedQueue::builder(&client, "/orders", Utf8).build().expect("built");
    queue.producer().put("seven".to_owned()).await.expect("put");
    let consumer = queue.consumer();
    let handled = Arc::new(Notify::new());
    let ship = {
        let handled = Arc::clone(&handled);
        move |order: String, _: ClaimHandle| {
            let handled = Arc::clone(&handled);
            async move {
                tracing::info!(order, "shipping");
                handled.notify_one();
                Ok::<(), std::io::Error>(())
            }
        }
    };
    let consuming = tokio::spawn(async move { consumer.consume(1, ship).await });
    within("it is handled", T, handled.notified()).await;
    let line = line(&log, "shipping");
    for field in ["delivery{", "path=\"/orders\"", "item=", "attempt=1"] {
        assert!(line.contains(field), "{field}: {line}");
    }
    consuming.abort();
}

#[tokio::test(start_paused = true)]
async fn who_waited_for_whom_is_the_node_of_the_one_ahead() {
    let (spans, subscriber) = Recorder::new();
    let _recording = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let clients = [server.client().await.expect("a client"), server.client().await.expect("a client")];
    let locks = clients.each_ref().map(|client| InterProcessMutex::new(client, "/lock").expect("a path"));
    let guard = locks[0].acquire().await.expect("held");
    let token = guard.fencing_token().to_string();
    let waiting = tokio::spawn({
        let other = locks[1].clone();
        async move { other.acquire().await.expect("held") }
    });
    tokio::time::sleep(SOON).await;
    guard.release().await.expect("released");
    let _guard = within("it is its turn", T, waiting).await.expect("no panic");
    let acquired = spans.closed("acquire");
    let [first, second] = &acquired[..] else { panic!("{acquired:#?}") };
    assert_eq!((first.field("path"), first.field("recipe")), (Some("/lock"), Some("mutex")));
    assert_eq!((first.field("token"), first.field("behind")), (Some(&*token), None));
    assert_eq!(first.field("outcome"), Some("acquired"));
    assert!(first.field("node").is_some_and(|node| node.contains("-lock-")));
    assert_eq!(second.field("behind"), first.field("node"));
    assert_ne!(second.field("node"), first.field("node"));

    let permits = InterProcessSemaphore::builder(&clients[0], "/permits").permits(2).build().expect("built");
    drop(permits.acquire(2).await.expect("two"));
    let acquired = spans.closed("acquire");
    let node = acquired.last().and_then(|span| span.field("node")).expect("a node");
    assert!(node.contains("-lock-"), "its place in the line, and no lease: {node}");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_lasts_until_it_is_settled_and_belongs_to_the_caller() {
    let (spans, subscriber) = Recorder::new();
    let _recording = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let queue = DistributedQueue::builder(&client, "/orders", Utf8).build().expect("built");
    queue.producer().put("seven".to_owned()).await.expect("put");
    let consumer = queue.consumer();
    let taken = async { consumer.take().await.expect("an item") }.instrument(tracing::info_span!("request"));
    let delivery = within("an item", T, taken).await;
    let name = delivery.name().to_owned();
    async { tracing::info_span!("ship").in_scope(|| {}) }.instrument(delivery.span().clone()).await;
    assert_eq!(spans.closed("ship")[0].parent(), Some("delivery"));
    assert!(spans.closed("delivery").is_empty(), "it is not settled");
    delivery.ack().await.expect("acked");
    let closed = spans.closed("delivery");
    assert_eq!(closed.len(), 1, "{closed:#?}");
    assert_eq!(closed[0].parent(), Some("request"));
    assert_eq!(
        ["path", "item", "attempt", "outcome"].map(|field| closed[0].field(field)),
        [Some("/orders"), Some(&*name), Some("1"), Some("acked")]
    );
    // Also if no caller waits for it.
    queue.producer().put("eight".to_owned()).await.expect("put");
    drop(within("an item", T, consumer.take()).await.expect("an item"));
    within("it is returned", T, consumer.take()).await.expect("the item").reject("bad").await.expect("rejected");
    let outcomes: Vec<_> =
        spans.closed("delivery").iter().map(|span| span.field("outcome").map(str::to_owned)).collect();
    assert_eq!(outcomes, ["acked", "returned", "dead_letter"].map(|outcome| Some(outcome.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn the_term_of_a_latch_and_the_comparison_of_a_cache_are_spans() {
    let (spans, subscriber) = Recorder::new();
    let _recording = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let latch = LeaderLatch::builder(&client, "/leader").id("one").start().expect("started");
    let leadership = within("it leads", T, latch.wait_for_leadership()).await.expect("it leads");
    let token = leadership.fencing_token().to_string();
    assert!(spans.closed("term").is_empty(), "it leads");
    latch.close().await.expect("closed");
    let terms = spans.closed("term");
    assert_eq!(terms.len(), 1, "{terms:#?}");
    let fields = ["path", "id", "token", "why"].map(|field| terms[0].field(field));
    assert_eq!(fields, [Some("/leader"), Some("one"), Some(&*token), Some("closed")]);

    server.create_by_hand("/config", "", CreateMode::Persistent).expect("a node");
    server.create_by_hand("/config/a", "1", CreateMode::Persistent).expect("a node");
    let cache = within("it is there", T, Cache::tree(&client, "/config").start()).await.expect("a cache");
    let resyncs = spans.closed("cache_resync");
    assert_eq!(resyncs.len(), 1, "{resyncs:#?}");
    // What is there at the beginning has not changed.
    assert_eq!(
        ["path", "nodes", "changes"].map(|field| resyncs[0].field(field)),
        [Some("/config"), Some("2"), Some("0")]
    );
    // One is broken off by another loss of the connection; its span ends then, and not with the next comparison.
    server.lose_next_reply(&client, Operation::Exists, Loss::Applied);
    server.disconnect(&client);
    within("it is compared once more", T, server.until(|| spans.closed("cache_resync").len() == 3)).await;
    let nodes: Vec<_> =
        spans.closed("cache_resync").iter().map(|span| span.field("nodes").map(str::to_owned)).collect();
    assert_eq!(nodes, [Some("2".to_owned()), None, Some("2".to_owned())]);
    assert!(within("it is synced", T, cache.synced()).await.is_ok());

    let session = format!("{:#x}", client.session_id().expect("a session"));
    client.close().await.expect("closed");
    let sessions = spans.closed("session");
    assert_eq!(sessions.iter().filter(|span| span.field("session") == Some(&*session)).count(), 1, "{sessions:#?}");
}

/// A span of the user's own, with fields of the same names.
fn own_span() -> tracing::Span {
    let empty = tracing::field::Empty;
    tracing::info_span!(target: "shop", "own", node = empty, behind = empty, token = empty, outcome = empty)
}

fn is_untouched(spans: &Recorder) {
    let own = spans.closed("own");
    assert_eq!(own.len(), 1, "{own:#?}");
    assert_eq!(["node", "behind", "token", "outcome"].map(|field| own[0].field(field)), [None; 4]);
}

/// The usual way to make a library quiet: `RUST_LOG=info,zookeeper_recipes=warn`.
#[tokio::test(start_paused = true)]
async fn without_spans_of_the_library_nothing_is_recorded_into_those_of_the_user() {
    ask_each_thread();
    let spans = Recorder::default();
    let filter = Targets::new().with_target("zookeeper_recipes", Level::WARN).with_target("shop", Level::INFO);
    let dispatch = tracing::Dispatch::new(Registry::default().with(spans.clone().with_filter(filter)));
    let _recording = tracing::dispatcher::set_default(&dispatch);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let mutex = InterProcessMutex::new(&client, "/lock").expect("a path");
    let guard = mutex.acquire().instrument(own_span()).await.expect("held");
    drop(guard);
    is_untouched(&spans);
}

/// All tasks of a runtime of one thread run inside of the span around it.
#[test]
fn the_tasks_of_a_latch_record_nothing_into_the_span_around_their_runtime() {
    let (spans, subscriber) = Recorder::new();
    let _recording = tracing::dispatcher::set_default(&subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let two_latches = async {
        let server = TestingServer::start();
        let clients = [server.client().await.expect("a client"), server.client().await.expect("a client")];
        let first = LeaderLatch::builder(&clients[0], "/latch").start().expect("started");
        within("it leads", T, first.wait_for_leadership()).await.expect("it leads");
        let _second = LeaderLatch::builder(&clients[1], "/latch").start().expect("started");
        tokio::time::sleep(SOON).await;
    };
    own_span().in_scope(|| runtime.block_on(two_latches));
    drop(runtime);
    is_untouched(&spans);
}
