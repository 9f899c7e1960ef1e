//! Tests of the rig itself: that servers, faults and the view from outside do what the other tests rely on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::four_letter;
use crate::support::{Ensemble, Fault, How, Observer, OpCode, Proxy, ZooKeeper, eventually, unique_path, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zookeeper::{Acls, Client, CreateMode, CreateOptions, Error, SessionState};

const SOON: Duration = Duration::from_secs(5);
const AT_ONCE: Duration = Duration::from_millis(300);
const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());

async fn connect(to: &str) -> Client {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(10));
    within("a client connects", SOON, connector.connect(to)).await.expect("the client connects")
}

/// A server, a proxy before it, a client through the proxy and an observer.
async fn setup() -> (Arc<ZooKeeper>, Proxy, Client, Observer) {
    let server = ZooKeeper::shared().await;
    let proxy = Proxy::start(server.addr()).await;
    let client = connect(&proxy.connect_string()).await;
    let observer = Observer::connect(&server.connect_string()).await;
    (server, proxy, client, observer)
}

#[tokio::test]
async fn the_settings_of_the_server_take_effect() {
    let server =
        ZooKeeper::builder().tick_time(Duration::from_millis(200)).config("globalOutstandingLimit=500").start().await;
    let conf = server.four_letter("conf").await;
    for line in ["tickTime=200", "minSessionTimeout=500", "maxSessionTimeout=60000", "maxClientCnxns=0"] {
        assert!(conf.lines().any(|found| found == line), "no {line} in {conf}");
    }
    assert_eq!(server.mntr().await["zk_server_state"], "standalone");

    let observer = Observer::connect(&server.connect_string()).await;
    let container = unique_path("container");
    let options = CreateMode::Container.with_acls(Acls::anyone_all());
    observer.client().create(&container, b"", &options).await.expect("a container node");
    observer.create(&format!("{container}/child"), b"").await;
    observer.delete(&format!("{container}/child")).await;
    let short_lived = unique_path("ttl");
    let options = PERSISTENT.with_ttl(Duration::from_millis(1));
    observer.client().create(&short_lived, b"", &options).await.expect("a node with a time to live");
    within("the server removes both nodes", SOON, async {
        observer.wait_until_gone(&container).await;
        observer.wait_until_gone(&short_lived).await;
    })
    .await;
}

#[tokio::test]
async fn a_server_keeps_data_and_port_over_stop_and_kill() {
    let server = ZooKeeper::start().await;
    let path = unique_path("kept");
    let observer = Observer::connect(&server.connect_string()).await;
    observer.create(&path, b"data").await;
    let addr = server.addr();

    server.stop().await;
    assert!(TcpStream::connect(addr).await.is_err(), "a stopped server has no listener");
    server.start_again().await;
    assert_eq!(observer.data(&path).await.as_deref(), Some(b"data".as_slice()));

    server.kill().await;
    assert!(TcpStream::connect(addr).await.is_err(), "a killed server has no listener");
    server.start_again().await;
    assert_eq!(observer.data(&path).await.as_deref(), Some(b"data".as_slice()));

    server.pause().await;
    assert_eq!(four_letter::mode(addr).await, None, "a paused server does not answer");
    server.unpause().await;
    server.wait_until_serving().await;

    drop(server);
    assert!(TcpStream::connect(addr).await.is_err(), "a dropped server is gone");
}

#[test]
fn the_shared_server_is_one_for_all_runtimes_and_outlives_the_first() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let first = runtime();
    let server = first.block_on(ZooKeeper::shared());
    drop(first);
    let addr = std::thread::spawn(move || {
        let second = runtime();
        let again = second.block_on(ZooKeeper::shared());
        assert_eq!(again.addr(), server.addr());
        drop(server);
        second.block_on(again.wait_until_serving());
        again.addr()
    });
    let addr: SocketAddr = addr.join().expect("both get the same server");
    assert_ne!(addr.port(), 0);
}

#[tokio::test]
async fn an_observer_sees_the_tree() {
    let server = ZooKeeper::shared().await;
    let observer = Observer::connect(&server.connect_string()).await;
    let path = unique_path("observed");
    assert!(!observer.exists(&path).await);
    assert!(observer.children(&path).await.is_empty());

    observer.create_all(&format!("{path}/b")).await;
    observer.create_ephemeral(&format!("{path}/a"), b"mine").await;
    assert_eq!(observer.wait_for_children(&path, 2).await, ["a", "b"]);
    assert_ne!(observer.owner(&format!("{path}/a")).await, Some(0));
    assert_eq!(observer.owner(&format!("{path}/b")).await, Some(0));
    observer.set_data(&path, b"new").await;
    observer.wait_for_data(&path, b"new").await;

    let forbidden = format!("{path}/forbidden");
    observer.create_forbidden(&forbidden).await;
    assert_eq!(observer.client().get_data(&forbidden).await.err(), Some(Error::NoAuth));
    let below = observer.client().create(&format!("{forbidden}/child"), b"", &PERSISTENT).await;
    assert_eq!(below.err(), Some(Error::NoAuth));
}

#[tokio::test]
async fn the_proxy_tells_sessions_and_requests() {
    let (_server, proxy, client, observer) = setup().await;
    let path = unique_path("told");
    client.create(&path, b"", &EPHEMERAL).await.expect("the proxy passes a create on");
    assert_eq!(proxy.request_count(OpCode::Create2), 1);
    assert_eq!(proxy.request_count(OpCode::Delete), 0);
    let sessions = proxy.sessions();
    assert_eq!(sessions.len(), 1);
    assert_eq!(Some(sessions[0].id), observer.owner(&path).await);
    assert_eq!(sessions[0].timeout_ms, 10_000);
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn an_answer_is_lost_and_the_request_applied() {
    let (_server, proxy, client, observer) = setup().await;
    for how in [How::Fin, How::Rst, How::Silence] {
        let path = unique_path("applied");
        let lost = proxy.lose_reply_of(OpCode::Create2, how);
        // Other requests do not set it off.
        client.check_stat(&path).await.expect("another request is answered");
        assert!(!lost.has_fired());
        let created = within("the create ends", SOON, client.create(&path, b"", &PERSISTENT)).await;
        match (how, created.err()) {
            (How::Fin, Some(Error::ConnectionLoss)) => {}
            (How::Rst | How::Silence, Some(Error::Custom(_))) => {}
            (how, error) => panic!("{how:?}: {error:?}"),
        }
        lost.fired().await;
        assert!(observer.exists(&path).await, "{how:?}");
        // Once only; and the session continues.
        let next = unique_path("applied");
        within("the next create ends", SOON, client.create(&next, b"", &PERSISTENT)).await.expect("the next create");
    }
}

#[tokio::test]
async fn a_request_is_lost_and_not_applied() {
    let (_server, proxy, client, observer) = setup().await;
    for how in [How::Fin, How::Rst, How::Silence] {
        let path = unique_path("lost");
        let lost = proxy.drop_request_of(OpCode::Create2, how);
        let created = within("the create ends", SOON, client.create(&path, b"", &PERSISTENT)).await;
        assert!(matches!(created, Err(Error::ConnectionLoss | Error::Custom(_))), "{how:?}: {created:?}");
        lost.fired().await;
        assert!(!observer.exists(&path).await, "{how:?}");
        within("the next create ends", SOON, client.create(&path, b"", &PERSISTENT)).await.expect("the next create");
    }
}

#[tokio::test]
async fn a_killed_session_ends_on_the_server_and_for_its_client() {
    let (_server, proxy, client, observer) = setup().await;
    let path = unique_path("killed");
    client.create(&path, b"", &EPHEMERAL).await.expect("an ephemeral node");
    let mut states = client.state_watcher();
    proxy.kill_session().await;
    within("the ephemeral node is removed", Duration::from_millis(200), observer.wait_until_gone(&path)).await;
    let expired = async { while states.changed().await != SessionState::Expired {} };
    within("the client learns of it", SOON, expired).await;
    assert_eq!(client.check_stat(&path).await.err(), Some(Error::SessionExpired));
}

#[tokio::test]
async fn one_of_several_sessions_is_killed_by_its_id() {
    let (_server, proxy, first, _observer) = setup().await;
    let second = connect(&proxy.connect_string()).await;
    let id = proxy.sessions()[0].id;
    proxy.kill_session_id(id).await;
    // That it is over the client hears with its next connection.
    eventually("the first session is over", SOON, || async { first.state() == SessionState::Expired }).await;
    second.check_stat("/").await.expect("the second session continues");
}

#[tokio::test]
async fn connections_end_as_ordered() {
    let (_server, proxy, client, _observer) = setup().await;
    let connect = || async { TcpStream::connect(proxy.addr()).await };
    let end_of = |mut connection: TcpStream| async move {
        let end = within("the connection ends", SOON, connection.read(&mut [0; 1])).await;
        end.map_err(|error| error.kind())
    };
    let reset = Err(std::io::ErrorKind::ConnectionReset);

    let open = connect().await.expect("the proxy accepts");
    eventually("the proxy counts both", SOON, || async { proxy.connections() == 2 }).await;
    proxy.cut().await;
    assert_eq!(end_of(open).await, Ok(0), "a FIN");

    let open = connect().await.expect("the proxy accepts");
    // The client is back as well, or will be.
    eventually("the proxy counts it", SOON, || async { proxy.connections() == 2 }).await;
    proxy.reset_once().await;
    assert_eq!(end_of(open).await, reset);

    let open = connect().await.expect("the proxy accepts");
    eventually("the proxy counts it", SOON, || async { proxy.connections() == 2 }).await;
    proxy.set(Fault::Reset).await;
    assert_eq!(end_of(open).await, reset);
    // The reset may come so early that not even the connect succeeds.
    let new = match connect().await {
        Ok(connection) => end_of(connection).await,
        Err(error) => Err(error.kind()),
    };
    assert_eq!(new, reset);

    proxy.set(Fault::Refuse).await;
    assert_eq!(connect().await.err().map(|error| error.kind()), Some(std::io::ErrorKind::ConnectionRefused));
    assert_eq!(proxy.connections(), 0);

    proxy.set(Fault::Pass).await;
    within("the session continues", SOON, client.check_stat("/")).await.expect("the session continues");
}

#[tokio::test]
async fn a_black_hole_carries_nothing_until_it_ends() {
    let (_server, proxy, client, observer) = setup().await;
    let path = unique_path("hole");
    proxy.set(Fault::BlackHole).await;
    let mut create = std::pin::pin!(client.create(&path, b"", &PERSISTENT));
    assert!(timeout(AT_ONCE, create.as_mut()).await.is_err(), "no answer comes out of a black hole");
    assert!(!observer.exists(&path).await, "no request comes through a black hole");
    assert_eq!(proxy.connections(), 1, "a black hole closes nothing");
    let mut new = TcpStream::connect(proxy.addr()).await.expect("a black hole accepts");
    assert!(timeout(AT_ONCE, new.read(&mut [0; 1])).await.is_err(), "and says nothing");

    proxy.set(Fault::Pass).await;
    within("the held request is forwarded", SOON, create).await.expect("the create");
    assert!(observer.exists(&path).await);
}

#[tokio::test]
async fn dropped_answers_are_lost_and_their_requests_applied() {
    let (_server, proxy, client, observer) = setup().await;
    let path = unique_path("answer");
    proxy.set(Fault::DropAnswers).await;
    let mut create = std::pin::pin!(client.create(&path, b"", &PERSISTENT));
    assert!(timeout(AT_ONCE, create.as_mut()).await.is_err(), "the answer is dropped");
    observer.wait_until_exists(&path).await;
    proxy.set(Fault::Pass).await;
    let created = within("the create ends", SOON, create).await;
    assert_eq!(created.err(), Some(Error::ConnectionLoss));
    within("the session continues", SOON, client.check_stat(&path)).await.expect("the session continues");
}

#[tokio::test]
async fn a_delay_counts_both_ways() {
    let (_server, proxy, client, _observer) = setup().await;
    proxy.set(Fault::Delay(Duration::from_millis(100))).await;
    let begin = Instant::now();
    client.check_stat("/").await.expect("a slow answer");
    let took = begin.elapsed();
    assert!((Duration::from_millis(200)..Duration::from_secs(2)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn the_proxy_forwards_what_it_does_not_understand() {
    let server = ZooKeeper::shared().await;
    let proxy = Proxy::start(server.addr()).await;
    // No frame at all; the answer is none either, and ends with the connection.
    assert_eq!(four_letter::mode(proxy.addr()).await.as_deref(), Some("standalone"));
    // Frames without the fields that the proxy looks for.
    for odd in [&[0, 0, 0, 0, 0, 0, 0, 1, 7][..], &[0, 0, 0, 2, 1], &[0xff; 9]] {
        let mut connection = TcpStream::connect(proxy.addr()).await.expect("the proxy accepts");
        connection.write_all(odd).await.expect("odd bytes");
        connection.shutdown().await.expect("the end of the odd bytes");
        let _ = within("the server ends it", SOON, connection.read_to_end(&mut Vec::new())).await;
    }
    connect(&proxy.connect_string()).await.check_stat("/").await.expect("the proxy still works");
}

#[tokio::test]
async fn the_proxy_follows_a_server_that_moves() {
    let (first, proxy, client, _observer) = setup().await;
    let second = ZooKeeper::start().await;
    let path = unique_path("moved");
    Observer::connect(&second.connect_string()).await.create(&path, b"").await;
    assert_eq!(client.check_stat(&path).await.expect("an answer of the first"), None);
    assert_ne!(first.addr(), second.addr());
    proxy.follow(second.addr());
    let moved = connect(&proxy.connect_string()).await;
    assert!(moved.check_stat(&path).await.expect("an answer of the second").is_some());
}

#[tokio::test]
async fn an_ensemble_survives_what_is_done_to_one_member() {
    let ensemble = Ensemble::start().await;
    let observer = Observer::connect(&ensemble.connect_string()).await;
    let path = unique_path("ensemble");
    observer.create(&path, b"").await;
    let leader = ensemble.leader().await;
    let followers = ensemble.followers().await;
    assert_eq!(followers.len(), 2);
    assert!(!followers.contains(&leader));

    // A follower that is cut off loses no client connection by the cut itself, and stops serving when it
    // notices.
    let cut_off = ensemble.member(followers[0]);
    let client = connect(&cut_off.connect_string()).await;
    let mut raw = TcpStream::connect(cut_off.addr()).await.expect("a connection to the follower");
    ensemble.cut_follower_from_leader(followers[0]).await;
    raw.write_all(b"ruok").await.expect("the connection is open after the cut");
    let mut answer = String::new();
    let answered = within("an answer after the cut", SOON, raw.read_to_string(&mut answer)).await;
    assert_eq!((answered.ok(), answer.as_str()), (Some(4), "imok"));
    cut_off.wait_until_not_serving().await;
    observer.set_data(&path, b"without the follower").await;
    assert_eq!(ensemble.leader().await, leader, "the leader keeps its quorum");
    ensemble.rejoin(followers[0]).await;
    assert_eq!(ensemble.leader().await, leader, "the follower is back");
    within("the client's session continues", SOON, client.sync("/")).await.expect("the session continues");
    let (data, _) = client.get_data(&path).await.expect("an answer of the follower");
    assert_eq!(data, b"without the follower");

    // The others elect another leader while the leader is paused, and while it is cut off.
    ensemble.pause(leader).await;
    let second = ensemble.leader().await;
    assert_ne!(second, leader);
    observer.set_data(&path, b"second").await;
    ensemble.unpause(leader).await;
    assert_eq!(ensemble.leader().await, second, "the first leader follows now");

    ensemble.isolate(second).await;
    let third = ensemble.leader().await;
    assert_ne!(third, second);
    ensemble.member(second).wait_until_not_serving().await;
    observer.set_data(&path, b"third").await;
    ensemble.rejoin(second).await;
    assert_eq!(ensemble.leader().await, third);

    ensemble.kill(third).await;
    let fourth = ensemble.leader().await;
    assert_ne!(fourth, third);
    observer.wait_for_data(&path, b"third").await;
    ensemble.start_again(third).await;
    ensemble.stop(fourth).await;
    assert_ne!(ensemble.leader().await, fourth);
    ensemble.start_again(fourth).await;
    ensemble.wait_for_quorum().await;
}
