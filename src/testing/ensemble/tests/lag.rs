//! Servers that lag behind.

use std::time::Duration;

use super::{T, create, loses, next, open, session, takes, three, within};
use crate::engine::{Event, Opened, Session, SessionEvent};
use crate::testing::ensemble::{MemoryEnsemble, Who};
use crate::util::znode::CreateMode;
use std::sync::Arc;

/// Opens two sessions on different servers.
async fn apart(ensemble: &MemoryEnsemble) -> (Arc<Session>, Opened) {
    let writer = session(ensemble, 1).await;
    loop {
        let reader = open(ensemble, 2).await;
        let infos = ensemble.sessions();
        if infos.first().map(|info| info.server) != infos.last().map(|info| info.server) {
            return (writer, reader);
        }
        reader.session.close().await;
    }
}

/// Returns whether a read right after another session's write misses it.
async fn is_stale(reader: &Arc<Session>, writer: &Arc<Session>, path: &str) -> bool {
    create(writer, path, CreateMode::Persistent).await;
    reader.exists(path).await.unwrap().is_none()
}

#[tokio::test(start_paused = true)]
async fn reads_are_stale_without_a_sync_and_fresh_with_one() {
    let ensemble = three(2, 50);
    let (writer, Opened { session: reader, .. }) = apart(&ensemble).await;
    let mut stale = 0;
    for round in 0..50 {
        let path = format!("/n{round}");
        stale += usize::from(is_stale(&reader, &writer, &path).await);
        let (synced, found) = (reader.sync("/"), reader.exists(&path));
        synced.await.unwrap();
        assert!(found.await.unwrap().is_some(), "round {round}");
        assert!(writer.exists(&path).await.unwrap().is_some(), "the writer sees its own write");
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
            loses(&mut reader).await;
            assert_eq!(next(&mut reader).await, SessionEvent::Connected);
        }
        assert!(seen > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_cut_off_serves_the_past_and_then_nobody() {
    let ensemble = three(3, 0);
    let (writer, mut reader) = apart(&ensemble).await;
    let server = ensemble.sessions()[1].server.unwrap();
    create(&writer, "/n", CreateMode::Persistent).await;
    reader.session.sync("/").await.unwrap();
    let (_, _, watch) = reader.session.watch_data("/n").await.unwrap();
    ensemble.cut_off(server, Duration::from_secs(3));
    writer.set_data("/n", b"new", None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(reader.session.get_data("/n").await.unwrap().1.version, 0);
    let unanswered = reader.session.sync("/");
    loses(&mut reader).await;
    assert_eq!(unanswered.await, Err(crate::engine::Error::ConnectionLoss));
    assert_eq!(next(&mut reader).await, SessionEvent::Connected);
    assert_eq!(watch.await, Event::NodeDataChanged, "the missed event is sent after the reconnect");
    assert_ne!(ensemble.sessions()[1].server, Some(server));
    assert_eq!(reader.session.get_data("/n").await.unwrap().1.version, 1);
    ensemble.rejoin(server);
    tokio::time::sleep(T).await;
    for _ in 0..3 {
        ensemble.disconnect(Who::Group(2));
        loses(&mut reader).await;
        assert_eq!(next(&mut reader).await, SessionEvent::Connected);
        assert_eq!(reader.session.get_data("/n").await.unwrap().1.version, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_answers_syncs_and_is_wrong() {
    let ensemble = three(3, 0);
    let (writer, mut reader) = (open(&ensemble, 1).await, open(&ensemble, 2).await);
    let mut writer = (writer.session.clone(), writer);
    let server = ensemble.sessions()[1].server.unwrap();
    ensemble.depose(server, Duration::from_secs(3));
    if ensemble.sessions()[0].server != Some(server) {
        loses(&mut writer.1).await;
    }
    // The deposed leader resumes sessions: the writer may reconnect to it, and then cannot write.
    while ensemble.sessions()[0].server == Some(server) || !ensemble.sessions()[0].connected {
        ensemble.disconnect(Who::Group(1));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    create(&writer.0, "/n", CreateMode::Persistent).await;
    let (synced, found) = (reader.session.sync("/"), reader.session.exists("/n"));
    assert_eq!(synced.await, Ok(()));
    assert_eq!(found.await, Ok(None));
    let void = reader.session.set_data("/n", b"", None);
    ensemble.rejoin(server);
    loses(&mut reader).await;
    assert!(void.await.is_err(), "what only the deposed leader received is discarded");
    assert_eq!(next(&mut reader).await, SessionEvent::Connected);
    reader.session.sync("/").await.unwrap();
    assert_eq!(reader.session.get_data("/n").await.unwrap().1.version, 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_counts_from_its_start_with_the_first_timeout_and_hears_nothing_of_the_old_one() {
    let ensemble = three(3, 0);
    let mut opened = open(&ensemble, 1).await;
    ensemble.grant(None, &(T * 2..=T * 2));
    ensemble.disconnect(Who::All);
    loses(&mut opened).await;
    assert_eq!(next(&mut opened).await, SessionEvent::Connected);
    assert_eq!(opened.session.timeout(), T * 2);
    create(&opened.session, "/mine", CreateMode::Ephemeral).await;
    tokio::time::sleep(T).await;
    ensemble.depose(ensemble.sessions()[0].server.unwrap(), T * 10);
    let expired = takes(|| ensemble.stat("/mine").is_none()).await;
    within(expired, 0.99, 1.01);
    assert_eq!(opened.session.sync("/").await, Ok(()), "the deposed leader still answers");
}
