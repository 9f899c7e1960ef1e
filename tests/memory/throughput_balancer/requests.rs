//! The requests of a member whose share does not change.

use super::fixture::{all_joined, have, setup};
use crate::fixture::{heartbeats_in_three_timeouts, requests};

#[tokio::test(start_paused = true)]
async fn an_idle_member_sends_six_heartbeats_in_a_session_timeout_and_nothing_else() {
    let (server, clients) = setup(3).await;
    let members = all_joined(&clients).await;
    have(&server, &members.iter().collect::<Vec<_>>(), &[333; 3]).await;
    server.clear_records();
    // The leader, the next leader, and one that waits further back.
    for client in &clients {
        assert_eq!(heartbeats_in_three_timeouts(&server, client).await, 3 * 6);
    }
    assert_eq!(requests(&server), []);
}
