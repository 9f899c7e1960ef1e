//! SRV records name the hosts.

use std::time::Duration;

use super::script::{Stage, T, delete, lost, next_event, soon};
use crate::engine::SessionEvent;
use crate::engine::connect_string::{ConnectString, Endpoint};
use crate::engine::srv::Record;
use crate::protocol::OpCode;

fn record(host: &str, priority: u16) -> Record {
    Record { endpoint: Endpoint::new(host, "2181").expect("a name"), priority, weight: 0 }
}

fn stage() -> Stage {
    Stage::with(1, 1 << 20, |options| {
        options.connect_string = ConnectString::parse("srv://_zookeeper._tcp.example/apps").expect("a name");
    })
}

#[tokio::test(start_paused = true)]
async fn the_records_are_looked_up_at_the_start_and_in_each_pass() {
    let mut stage = stage();
    stage.set_records(Ok(vec![record("zk2", 20), record("zk1", 10)]));
    let (mut opened, peer) = stage.open().await;
    assert_eq!((peer.host, stage.lookups()), (0, 1), "the lower priority comes first");
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage.set_records(Ok(vec![record("zk3", 10)]));
    drop(peer);
    lost(&mut opened).await;
    let peer = stage.resume().await;
    assert_eq!((peer.host, stage.lookups()), (2, 2), "the servers have moved");
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    tokio::time::sleep(T / 4).await;
    assert_eq!(stage.lookups(), 2, "nothing is looked up while it is connected");
}

/// RFC 2782: the lowest number that can be reached.
#[tokio::test(start_paused = true)]
async fn after_a_lost_connection_the_lower_priority_comes_first_again() {
    let mut stage = stage();
    stage.set_records(Ok(vec![record("zk2", 20), record("zk1", 10)]));
    let (mut opened, mut peer) = stage.open().await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(peer);
        lost(&mut opened).await;
        peer = stage.resume().await;
        assert_eq!(peer.host, 0);
        assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
        let deleted = delete(&opened.session, "/a");
        let asked = peer.expect(OpCode::Delete).await;
        peer.confirm(&asked, 7).await;
        soon(deleted).await.expect("it serves");
    }
    stage.set_records(Ok(vec![record("zk2", 10), record("zk1", 20)]));
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(peer);
    lost(&mut opened).await;
    assert_eq!(stage.resume().await.host, 1, "the priorities have changed");
}

#[tokio::test(start_paused = true)]
async fn a_name_server_that_does_not_answer_is_the_cause_before_the_caller_gives_up() {
    let stage = stage();
    let _opening = tokio::spawn(stage.opening());
    tokio::time::sleep(T - Duration::from_millis(1)).await;
    assert_eq!(stage.ensemble.causes(), "SRV records of _zookeeper._tcp.example: no answer within 5s");
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_known_hosts_stay_in_use() {
    let mut stage = stage();
    stage.set_records(Ok(vec![record("zk1", 0)]));
    let (mut opened, peer) = stage.open().await;
    let mut peer = peer;
    for (lookups, records) in (2..).zip([Err("connection refused"), Ok(Vec::new())]) {
        stage.set_records(records);
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(peer);
        lost(&mut opened).await;
        peer = stage.resume().await;
        assert_eq!((peer.host, stage.lookups()), (0, lookups));
        assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_without_records_is_the_cause_and_is_asked_for_once_in_a_second() {
    let mut stage = stage();
    stage.set_records(Err("there is no such name"));
    let opening = tokio::spawn(stage.opening());
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(stage.ensemble.causes(), "SRV records of _zookeeper._tcp.example: there is no such name");
    assert!((10..=11).contains(&stage.lookups()), "{}", stage.lookups());
    stage.set_records(Ok(Vec::new()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(stage.ensemble.causes().ends_with("none of its SRV records names a server"), "{}", stage.ensemble.causes());
    stage.set_records(Ok(vec![record("zk1", 0)]));
    let mut peer = stage.peer().await;
    peer.greet(T).await;
    peer.serve_first().await;
    soon(opening).await.expect("no panic").expect("a session");
    assert_eq!(stage.ensemble.causes(), "");
}
