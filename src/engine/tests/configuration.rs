//! The hosts follow the ensemble's configuration.

use std::time::Duration;

use super::script::{Peer, Stage, lost, next_event, settle};
use crate::engine::SessionEvent;
use crate::protocol::{ErrorCode, EventType, GetDataRequest, GetDataResponse, OpCode};
use crate::util::znode::Stat;

const NODE: &str = "/zookeeper/config";

async fn answer(peer: &mut Peer, configuration: &str) {
    let asked = peer.expect(OpCode::GetData).await;
    assert_eq!(asked.read::<GetDataRequest<'_>>(), GetDataRequest { path: NODE, watch: true });
    let body = GetDataResponse { data: Some(configuration.as_bytes().to_vec().into()), stat: Stat::default() };
    peer.reply(asked.xid, 5, ErrorCode::Ok, &body).await;
    settle().await;
}

/// Drops the connection. Returns the host that is tried next, and its peer.
async fn next_host(stage: &mut Stage, opened: &mut crate::engine::Opened, peer: Peer) -> (usize, Peer) {
    drop(peer);
    lost(opened).await;
    let mut peer = stage.resume().await;
    let watches = peer.expect(OpCode::SetWatches).await;
    peer.confirm(&watches, 9).await;
    assert_eq!(next_event(opened).await, Some(SessionEvent::Connected));
    (peer.host, peer)
}

#[tokio::test(start_paused = true)]
async fn each_change_replaces_the_hosts_and_keeps_the_connection() {
    let mut stage = Stage::with(1, 1 << 20, |options| options.follows_configuration = true);
    let (mut opened, mut peer) = stage.open().await;
    answer(&mut peer, "server.2=zk2:2888:3888:participant;0.0.0.0:2181\nversion=1").await;
    assert!(peer.is_quiet().await, "the connection is kept");
    let (host, mut peer) = next_host(&mut stage, &mut opened, peer).await;
    assert_eq!(host, 1, "the only host of the configuration");
    // The watch was restored, and fires.
    peer.event(EventType::NodeDataChanged, NODE).await;
    answer(&mut peer, "server.3=zk3:2888:3888:participant;2181\nversion=2").await;
    let (host, mut peer) = next_host(&mut stage, &mut opened, peer).await;
    assert_eq!(host, 2);
    // A server that lags behind does not bring an old configuration back.
    peer.event(EventType::NodeDataChanged, NODE).await;
    answer(&mut peer, "server.2=zk2:2888:3888:participant;2181\nversion=1").await;
    let (host, _peer) = next_host(&mut stage, &mut opened, peer).await;
    assert_eq!(host, 2);
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_cannot_be_used_or_read_leaves_the_hosts_alone() {
    let mut stage = Stage::with(1, 1 << 20, |options| options.follows_configuration = true);
    let (mut opened, mut peer) = stage.open().await;
    answer(&mut peer, "server.2=zk2:2888:3888:participant\nversion=1").await;
    peer.event(EventType::NodeDataChanged, NODE).await;
    let asked = peer.expect(OpCode::GetData).await;
    peer.reply(asked.xid, 5, ErrorCode::NoAuth, &()).await;
    settle().await;
    drop(peer);
    lost(&mut opened).await;
    let mut peer = stage.resume().await;
    assert_eq!(peer.host, 0);
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    // The configuration is read again, but rarely.
    let begun = tokio::time::Instant::now();
    loop {
        let asked = peer.asked().await;
        if asked.op == OpCode::GetData {
            break;
        }
        peer.confirm(&asked, 9).await;
    }
    assert!(begun.elapsed() > Duration::from_secs(50), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_if_it_is_off_or_the_session_has_ended() {
    let mut stage = Stage::new(1);
    let (_opened, mut peer) = stage.open().await;
    assert!(peer.is_quiet().await);
    let mut stage = Stage::with(1, 1 << 20, |options| options.follows_configuration = true);
    let (opened, mut peer) = stage.open().await;
    answer(&mut peer, "server.1=zk1:2888:3888;2181\nversion=1").await;
    let closing = opened.session.close();
    let asked = peer.expect(OpCode::CloseSession).await;
    peer.confirm(&asked, 9).await;
    closing.await;
    assert_eq!(peer.frame().await, None, "no request after the end");
}
