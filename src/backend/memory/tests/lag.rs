//! Servers that lag behind.

use std::time::Duration;

use super::{T, create, next, open, session, three};
use crate::backend::memory::{MemoryEnsemble, Who};
use crate::backend::{Event, Session, SessionEvent};
use crate::types::CreateMode;
use std::sync::Arc;

/// Two sessions on different servers.
async fn apart(ensemble: &MemoryEnsemble) -> (Arc<dyn Session>, Arc<dyn Session>) {
    let writer = session(ensemble, 1).await;
    loop {
        let reader = session(ensemble, 2).await;
        let infos = ensemble.sessions();
        if infos.first().map(|info| info.server) != infos.last().map(|info| info.server) {
            return (writer, reader);
        }
        reader.close().await;
    }
}

/// Whether a read right after another session's write misses it.
async fn is_stale(reader: &Arc<dyn Session>, writer: &Arc<dyn Session>, path: &str) -> bool {
    create(writer, path, CreateMode::Persistent).await;
    reader.exists(path).await.unwrap().is_none()
}

#[tokio::test(start_paused = true)]
async fn reads_are_stale_without_a_sync_and_fresh_with_one() {
    let ensemble = three(2, 50);
    let (writer, reader) = apart(&ensemble).await;
    let mut stale = 0;
    for round in 0..50 {
        let path = format!("/n{round}");
        stale += usize::from(is_stale(&reader, &writer, &path).await);
        let (synced, found) = (reader.sync("/"), reader.exists(&path));
        synced.await.unwrap();
        assert!(found.await.unwrap().is_some(), "round {round}");
        assert!(writer.exists(&path).await.unwrap().is_some(), "an own write is seen");
    }
    assert!(stale > 10, "{stale} of 50 reads were stale");
}

#[tokio::test(start_paused = true)]
async fn a_session_never_goes_back() {
    for seed in 0..20 {
        let ensemble = three(seed, 200);
        let writer = session(&ensemble, 1).await;
        let mut reader = open(&ensemble, 2).await;
        create(&writer, "/n", CreateMode::Persistent).await;
        let mut seen = 0;
        for _ in 0..5 {
            for _ in 0..4 {
                writer.set_data("/n", b"", None).await.unwrap();
                if let Ok((_, stat)) = reader.session.get_data("/n").await {
                    assert!(stat.version >= seen, "seed {seed}: {} after {seen}", stat.version);
                    seen = stat.version;
                }
            }
            ensemble.disconnect(Who::Group(2));
            assert_eq!(next(&mut reader).await, SessionEvent::Disconnected);
            assert_eq!(next(&mut reader).await, SessionEvent::Connected);
        }
        assert!(seen > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_cut_off_serves_the_past_and_then_nobody() {
    let ensemble = three(3, 0);
    let (writer, mut reader) = (session(&ensemble, 1).await, open(&ensemble, 2).await);
    let server = ensemble.sessions()[1].server.unwrap();
    create(&writer, "/n", CreateMode::Persistent).await;
    reader.session.sync("/").await.unwrap();
    let (_, _, watch) = reader.session.watch_data("/n").await.unwrap();
    ensemble.cut_off(server, Duration::from_secs(3), false);
    writer.set_data("/n", b"new", None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(reader.session.get_data("/n").await.unwrap().1.version, 0);
    let unanswered = reader.session.sync("/");
    assert_eq!(next(&mut reader).await, SessionEvent::Disconnected);
    assert_eq!(unanswered.await, Err(crate::backend::Error::ConnectionLoss));
    assert_eq!(next(&mut reader).await, SessionEvent::Connected);
    assert_eq!(watch.await, Event::NodeDataChanged, "what was missed is told after the reconnect");
    assert_ne!(ensemble.sessions()[1].server, Some(server));
    assert_eq!(reader.session.get_data("/n").await.unwrap().1.version, 1);
    ensemble.rejoin(server);
    tokio::time::sleep(T).await;
    for _ in 0..3 {
        ensemble.disconnect(Who::Group(2));
        assert_eq!(next(&mut reader).await, SessionEvent::Disconnected);
        assert_eq!(next(&mut reader).await, SessionEvent::Connected);
        assert_eq!(reader.session.get_data("/n").await.unwrap().1.version, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_itself_for_the_leader_answers_syncs() {
    let ensemble = three(3, 0);
    let (writer, reader) = (session(&ensemble, 1).await, session(&ensemble, 2).await);
    let server = ensemble.sessions()[1].server.unwrap();
    ensemble.cut_off(server, Duration::from_secs(3), true);
    create(&writer, "/n", CreateMode::Persistent).await;
    let (synced, found) = (reader.sync("/"), reader.exists("/n"));
    assert_eq!(synced.await, Ok(()));
    assert_eq!(found.await, Ok(None), "and is wrong");
    let late = reader.set_data("/n", b"", None);
    ensemble.rejoin(server);
    assert_eq!(late.await.unwrap().version, 1, "a short cut only delays");
}
