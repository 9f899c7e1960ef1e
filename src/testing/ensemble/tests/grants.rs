//! The session timeout is a property of the connection.

use std::time::Duration;

use super::{T, create, loses, next, open, start, takes, three, within};
use crate::engine::{Opened, SessionEvent};
use crate::testing::ensemble::{MemoryEnsemble, Options, Who};
use crate::util::znode::CreateMode;

/// Reconnects the client, whose new connection is granted this session timeout.
async fn reconnect(ensemble: &MemoryEnsemble, opened: &mut Opened, granted: Duration) {
    ensemble.grant(None, &(granted..=granted));
    ensemble.disconnect(Who::All);
    loses(opened).await;
    assert_eq!(next(opened).await, SessionEvent::Connected);
    assert_eq!(opened.session.timeout(), granted);
    assert_eq!(ensemble.sessions()[0].timeout, granted);
}

/// Creates an ephemeral node and silences the client. Returns how long the node exists after that.
async fn lives_for(ensemble: &MemoryEnsemble, opened: &Opened) -> Duration {
    let node = create(&opened.session, "/mine-", CreateMode::EphemeralSequential).await;
    ensemble.black_hole(Some(1), true);
    takes(|| ensemble.stat(&node).is_none()).await
}

#[tokio::test(start_paused = true)]
async fn a_smaller_grant_brings_the_end_forward() {
    for ensemble in [start(Options::default()), three(1, 100)] {
        let mut opened = open(&ensemble, 1).await;
        reconnect(&ensemble, &mut opened, T / 2).await;
        // The server of the old connection may report the session once more, with the old timeout.
        tokio::time::sleep(T / 5).await;
        // With several servers, a sign of life is reported up to a second late.
        within(lives_for(&ensemble, &opened).await, 0.4, 0.61);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_alone_brings_the_end_forward() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    create(&opened.session, "/mine", CreateMode::Ephemeral).await;
    reconnect(&ensemble, &mut opened, T / 2).await;
    ensemble.black_hole(Some(1), true);
    let expired = takes(|| ensemble.stat("/mine").is_none()).await;
    within(expired, 0.49, 0.51);
}

#[tokio::test(start_paused = true)]
async fn a_greater_grant_counts_as_well_and_each_connection_asks_for_what_was_wanted() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    reconnect(&ensemble, &mut opened, T / 2).await;
    ensemble.grant(None, &(T / 5..=T * 5));
    ensemble.disconnect(Who::All);
    loses(&mut opened).await;
    assert_eq!(next(&mut opened).await, SessionEvent::Connected);
    assert_eq!(opened.session.timeout(), T, "what the client asked for");
    reconnect(&ensemble, &mut opened, T * 3).await;
    within(lives_for(&ensemble, &opened).await, 2.99, 3.01);
}

#[tokio::test(start_paused = true)]
async fn servers_grant_differently() {
    let ensemble = three(1, 0);
    for server in 0..3 {
        let granted = T + Duration::from_secs(server as u64);
        ensemble.grant(Some(server), &(granted..=granted));
    }
    let mut opened = open(&ensemble, 1).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..6 {
        let server = ensemble.sessions()[0].server.unwrap();
        assert_eq!(opened.session.timeout(), T + Duration::from_secs(server as u64));
        seen.insert(server);
        ensemble.disconnect(Who::All);
        loses(&mut opened).await;
        assert_eq!(next(&mut opened).await, SessionEvent::Connected);
    }
    assert_eq!(seen.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn servers_that_start_know_the_first_timeout_only() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    create(&opened.session, "/mine", CreateMode::Ephemeral).await;
    reconnect(&ensemble, &mut opened, T * 3).await;
    ensemble.refuse(None, true);
    ensemble.stop();
    ensemble.start(true);
    within(takes(|| ensemble.stat("/mine").is_none()).await, 0.99, 1.01);
}
