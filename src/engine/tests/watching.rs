//! Watches on the wire: armed by answers, removed when dropped, restored on the next connection.

use std::time::Duration;

use futures::{FutureExt, StreamExt};

use super::script::{Peer, Stage, lost, next_event, settle, soon};
use crate::engine::{Event, Opened, PersistentEvent, SessionEvent, Watch, WatchMode};
use crate::protocol::{
    AddWatchMode, AddWatchRequest, ErrorCode, ErrorResponse, EventType, GetChildren2Response, GetDataResponse, OpCode,
    RemoveWatchesRequest, SetWatches2Request, SetWatchesRequest, WatcherType, xid,
};
use crate::util::znode::Stat;

async fn exists(opened: &Opened, peer: &mut Peer, path: &str, code: ErrorCode) -> Watch {
    let watching = opened.session.watch_exists(path);
    let asked = peer.expect(OpCode::Exists).await;
    peer.reply(asked.xid, 5, code, &Stat::default()).await;
    soon(watching).await.expect("a watch").1
}

async fn data(opened: &Opened, peer: &mut Peer, path: &str) -> Watch {
    let watching = opened.session.watch_data(path);
    let asked = peer.expect(OpCode::GetData).await;
    let body = GetDataResponse { data: None, stat: Stat::default() };
    peer.reply(asked.xid, 5, ErrorCode::Ok, &body).await;
    soon(watching).await.expect("a watch").2
}

async fn children(opened: &Opened, peer: &mut Peer, path: &str) -> Watch {
    let watching = opened.session.watch_children(path);
    let asked = peer.expect(OpCode::GetChildren2).await;
    let body = GetChildren2Response { children: Vec::new(), stat: Stat::default() };
    peer.reply(asked.xid, 5, ErrorCode::Ok, &body).await;
    soon(watching).await.expect("a watch").2
}

async fn persistent(opened: &Opened, peer: &mut Peer, path: &str, mode: WatchMode) -> crate::engine::PersistentWatch {
    let watching = opened.session.watch_persistent(path, mode);
    let asked = peer.expect(OpCode::AddWatch).await;
    assert_eq!(asked.read::<AddWatchRequest<'_>>(), AddWatchRequest { path, mode: AddWatchMode::from(mode) });
    peer.reply(asked.xid, 5, ErrorCode::Ok, &ErrorResponse { err: ErrorCode::Ok }).await;
    soon(watching).await.expect("a watch")
}

/// Expects a request to remove a watch, and answers it with this code.
async fn expect_removal(peer: &mut Peer, path: &str, watcher: WatcherType, code: ErrorCode) {
    let asked = peer.expect(OpCode::RemoveWatches).await;
    assert_eq!(asked.read::<RemoveWatchesRequest<'_>>(), RemoveWatchesRequest { path, watcher });
    peer.reply(asked.xid, 5, code, &()).await;
}

#[tokio::test(start_paused = true)]
async fn watches_are_restored_before_the_connection_is_reported() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let mut created = exists(&opened, &mut peer, "/new", ErrorCode::NoNode).await;
    let mut there = exists(&opened, &mut peer, "/old", ErrorCode::Ok).await;
    let _data = data(&opened, &mut peer, "/data").await;
    let _children = children(&opened, &mut peer, "/dir").await;
    drop(peer);
    lost(&mut opened).await;
    let mut peer = stage.resume().await;
    let asked = peer.expect(OpCode::SetWatches).await;
    assert_eq!(asked.xid, xid::SET_WATCHES);
    let mut request: SetWatchesRequest<'_> = asked.read();
    request.data.sort_unstable();
    let expected =
        SetWatchesRequest { relative_zxid: 5, data: vec!["/data", "/old"], exist: vec!["/new"], child: vec!["/dir"] };
    assert_eq!(request, expected);
    peer.event(EventType::NodeCreated, "/new").await;
    assert_eq!(soon(&mut created).await, Event::NodeCreated, "the missed event");
    assert!(opened.events.next().now_or_never().is_none());
    assert_eq!(opened.session.sync("/").await, Err(crate::engine::Error::NotConnected));
    peer.confirm(&asked, 9).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    peer.event(EventType::NodeDeleted, "/old").await;
    assert_eq!(soon(&mut there).await, Event::NodeDeleted);
}

/// The answer to the first chunk carries a later zxid. If the second chunk used it, changes in between would be missed.
#[tokio::test(start_paused = true)]
async fn all_chunks_use_the_same_zxid_even_when_they_are_sent_again() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let mut watches = Vec::new();
    for number in 0..3 {
        let path = format!("/{number}{}", "x".repeat(60_000));
        watches.push(exists(&opened, &mut peer, &path, ErrorCode::NoNode).await);
    }
    drop(peer);
    lost(&mut opened).await;
    let mut peer = stage.resume().await;
    let asked = peer.expect(OpCode::SetWatches).await;
    assert_eq!(asked.read::<SetWatchesRequest<'_>>().relative_zxid, 5);
    assert!(peer.is_quiet().await, "chunks are sent one after the other");
    peer.confirm(&asked, 100).await;
    peer.expect(OpCode::SetWatches).await;
    drop(peer);
    lost(&mut opened).await;
    let mut peer = stage.peer().await;
    assert_eq!(peer.hello().await.zxid, 5);
    peer.connect_response(10_000, super::script::ID).await;
    // The chunks are shorter now: their length may have been the reason for the loss.
    for _ in 0..3 {
        let asked = peer.expect(OpCode::SetWatches).await;
        assert_eq!(asked.read::<SetWatchesRequest<'_>>().relative_zxid, 5);
        peer.confirm(&asked, 100).await;
    }
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_is_removed_if_no_other_needs_it() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let first = data(&opened, &mut peer, "/a").await;
    let second = exists(&opened, &mut peer, "/a", ErrorCode::Ok).await;
    drop(first);
    assert!(peer.is_quiet().await);
    drop(second);
    expect_removal(&mut peer, "/a", WatcherType::Data, ErrorCode::Ok).await;
    drop(children(&opened, &mut peer, "/a").await);
    expect_removal(&mut peer, "/a", WatcherType::Children, ErrorCode::Ok).await;
    // The removal would also remove a watch that is being armed.
    let dropped = data(&opened, &mut peer, "/a").await;
    let asked = opened.session.watch_exists("/a");
    drop(dropped);
    let exists = peer.expect(OpCode::Exists).await;
    assert!(peer.is_quiet().await);
    // The request arms a watch that no caller takes.
    drop(asked);
    peer.reply(exists.xid, 1, ErrorCode::NoNode, &()).await;
    expect_removal(&mut peer, "/a", WatcherType::Data, ErrorCode::Ok).await;
    assert!(peer.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_removal_waits_for_the_answers_to_requests_that_arm_the_same_watch() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let dropped = exists(&opened, &mut peer, "/a", ErrorCode::NoNode).await;
    let (first, second) = (opened.session.watch_data("/a"), opened.session.watch_data("/a"));
    drop(dropped);
    let [one, other] = [peer.expect(OpCode::GetData).await, peer.expect(OpCode::GetData).await];
    peer.reply(one.xid, 1, ErrorCode::NoNode, &()).await;
    assert!(soon(first).await.is_err());
    assert!(peer.is_quiet().await, "the other request may arm a watch");
    peer.reply(other.xid, 1, ErrorCode::NoNode, &()).await;
    assert!(soon(second).await.is_err());
    expect_removal(&mut peer, "/a", WatcherType::Data, ErrorCode::Ok).await;
    assert!(peer.is_quiet().await);
}

/// Servers from 3.9 on remove each kind separately.
#[tokio::test(start_paused = true)]
async fn watches_dropped_beside_a_persistent_watch_are_removed_with_it() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let dropped = (data(&opened, &mut peer, "/a").await, children(&opened, &mut peer, "/a").await);
    let watching = opened.session.watch_persistent("/a", WatchMode::Persistent);
    let asked = peer.expect(OpCode::AddWatch).await;
    drop(dropped);
    assert!(peer.is_quiet().await, "the persistent watch is being armed");
    peer.reply(asked.xid, 5, ErrorCode::Ok, &ErrorResponse { err: ErrorCode::Ok }).await;
    let standing = soon(watching).await.expect("a watch");
    drop(exists(&opened, &mut peer, "/a", ErrorCode::Ok).await);
    assert!(peer.is_quiet().await, "the persistent watch is armed");
    drop(standing);
    for watcher in [WatcherType::Children, WatcherType::Data, WatcherType::Persistent] {
        expect_removal(&mut peer, "/a", watcher, ErrorCode::Ok).await;
    }
    assert!(peer.is_quiet().await);
}

/// The request is not written yet when it is dropped.
#[tokio::test(start_paused = true)]
async fn a_removal_that_waits_for_a_dropped_request_is_not_forgotten() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let dropped = exists(&opened, &mut peer, "/a", ErrorCode::NoNode).await;
    opened.session.cork();
    let arming = opened.session.watch_data("/a");
    drop((dropped, arming));
    opened.session.uncork();
    let asked = peer.expect(OpCode::GetData).await;
    peer.reply(asked.xid, 1, ErrorCode::NoNode, &()).await;
    expect_removal(&mut peer, "/a", WatcherType::Data, ErrorCode::Ok).await;
    assert!(peer.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_removed_if_no_caller_takes_the_answer() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let watching = opened.session.watch_exists("/a");
    let asked = peer.expect(OpCode::Exists).await;
    drop(watching);
    peer.reply(asked.xid, 1, ErrorCode::NoNode, &()).await;
    expect_removal(&mut peer, "/a", WatcherType::Data, ErrorCode::Ok).await;
    // A failed request leaves no watch.
    let watching = opened.session.watch_data("/a");
    let asked = peer.expect(OpCode::GetData).await;
    peer.reply(asked.xid, 1, ErrorCode::NoNode, &()).await;
    assert!(soon(watching).await.is_err());
    assert!(peer.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_dropped_while_it_is_restored_is_removed_afterwards() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let early = data(&opened, &mut peer, "/early").await;
    let late = data(&opened, &mut peer, "/late").await;
    let _kept = data(&opened, &mut peer, "/kept").await;
    drop(peer);
    lost(&mut opened).await;
    drop(early);
    let mut peer = stage.resume().await;
    let asked = peer.expect(OpCode::SetWatches).await;
    assert_eq!(asked.read::<SetWatchesRequest<'_>>().data.len(), 2);
    drop(late);
    settle().await;
    peer.confirm(&asked, 5).await;
    expect_removal(&mut peer, "/late", WatcherType::Data, ErrorCode::Ok).await;
    assert!(peer.is_quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_persistent_watch_survives_and_reports_that_it_may_have_missed_events() {
    let mut stage = Stage::new(1);
    let (mut opened, mut peer) = stage.open().await;
    let mut node = persistent(&opened, &mut peer, "/a", WatchMode::Persistent).await;
    let mut tree = persistent(&opened, &mut peer, "/", WatchMode::PersistentRecursive).await;
    peer.event(EventType::NodeChildrenChanged, "/a").await;
    peer.event(EventType::NodeCreated, "/a/b").await;
    let event = |path: &str, event| Some(PersistentEvent::Node { path: path.to_owned(), event });
    assert_eq!(soon(node.next()).await, event("/a", Event::NodeChildrenChanged));
    assert_eq!(soon(tree.next()).await, event("/a/b", Event::NodeCreated));
    drop(peer);
    lost(&mut opened).await;
    let mut peer = stage.resume().await;
    let asked = peer.expect(OpCode::SetWatches2).await;
    let request: SetWatches2Request<'_> = asked.read();
    assert_eq!((request.persistent, request.persistent_recursive), (vec!["/a"], vec!["/"]));
    peer.confirm(&asked, 6).await;
    assert_eq!(soon(node.next()).await, Some(PersistentEvent::Resync));
    assert_eq!(soon(tree.next()).await, Some(PersistentEvent::Resync));
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    peer.event(EventType::NodeDeleted, "/a").await;
    assert_eq!(soon(node.next()).await, event("/a", Event::NodeDeleted));
    drop(node);
    expect_removal(&mut peer, "/a", WatcherType::Persistent, ErrorCode::Ok).await;
    let closed = opened.session.close();
    let asked = peer.expect(OpCode::CloseSession).await;
    peer.confirm(&asked, 7).await;
    soon(closed).await;
    assert_eq!(soon(tree.next()).await, event("/a", Event::NodeDeleted), "an event from before the end");
    assert_eq!(soon(tree.next()).await, None);
}

/// Such servers can remove a persistent watch only together with all other watches of its path.
#[tokio::test(start_paused = true)]
async fn servers_before_3_9_remove_all_watches_of_a_path_or_none() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    for alone in [true, false] {
        let watch = persistent(&opened, &mut peer, "/a", WatchMode::PersistentRecursive).await;
        let beside = if alone { None } else { Some(children(&opened, &mut peer, "/a").await) };
        drop(watch);
        expect_removal(&mut peer, "/a", WatcherType::PersistentRecursive, ErrorCode::MarshallingError).await;
        if alone {
            expect_removal(&mut peer, "/a", WatcherType::Any, ErrorCode::Ok).await;
        } else {
            settle().await;
            assert!(peer.is_quiet().await);
        }
        drop(beside);
    }
}

#[tokio::test(start_paused = true)]
async fn persistent_watches_are_unimplemented_before_3_6() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let watching = opened.session.watch_persistent("/a", WatchMode::Persistent);
    let asked = peer.expect(OpCode::AddWatch).await;
    peer.reply(asked.xid, 1, ErrorCode::Unimplemented, &()).await;
    assert_eq!(soon(watching).await.err(), Some(crate::engine::Error::Unimplemented(OpCode::AddWatch)));
}

#[tokio::test(start_paused = true)]
async fn events_come_in_the_order_of_the_wire() {
    let mut stage = Stage::new(1);
    let (opened, mut peer) = stage.open().await;
    let mut watch = data(&opened, &mut peer, "/a").await;
    let read = opened.session.get_data("/a");
    let asked = peer.expect(OpCode::GetData).await;
    peer.event(EventType::NodeDataChanged, "/a").await;
    let body = GetDataResponse { data: None, stat: Stat::default() };
    peer.reply(asked.xid, 6, ErrorCode::Ok, &body).await;
    soon(read).await.expect("data");
    assert_eq!((&mut watch).now_or_never(), Some(Event::NodeDataChanged));
    drop(watch);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(peer.is_quiet().await, "it has fired: there is nothing to remove");
}
