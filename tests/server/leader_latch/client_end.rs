//! The end of a client without a close, by what the server says of its connections and sessions.

use std::time::Duration;

use zookeeper_recipes::Client;

use super::fixture::{Fixture, SOON, builder, connect, leads, waits};
use crate::support::eventually;

/// A session that, if it had to expire, would delay the others for longer than any test waits.
async fn client_with_a_long_session(fixture: &Fixture) -> Client {
    connect(builder(&fixture.server.connect_string(), Duration::from_secs(60))).await
}

/// Whether the server still has a connection of this session.
async fn is_connected(fixture: &Fixture, session: i64) -> bool {
    let cons = fixture.server.four_letter("cons").await;
    cons.contains(&format!("sid=0x{session:x},"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_last_handle_ends_the_session_and_a_latch_is_such_a_handle() {
    let fixture = Fixture::new("last-handle").await;
    let client = client_with_a_long_session(&fixture).await;
    let session = client.session_id().expect("a session");
    let clone = client.clone();
    drop(client);
    let kept = fixture.latch(&clone, "kept");
    let leadership = leads(&kept).await;
    drop(clone);
    let other = fixture.latch(&fixture.client().await, "other");
    waits(&other).await;
    // The latch keeps its client: it leads on, and reads.
    assert!(leadership.is_held());
    let leader = kept.leader().await.expect("read").expect("there is a leader");
    assert_eq!(leader.id, "kept");
    assert!(is_connected(&fixture, session).await);

    drop(kept);
    leads(&other).await;
    assert!(!leadership.is_held());
    eventually("the session is closed", SOON, || async { !is_connected(&fixture, session).await }).await;
    assert_eq!(fixture.nodes().await.len(), 1);
}
