//! Records that together are more than the servers read, because their `jute.maxbuffer` is lower than the client
//! believes.

use zookeeper_recipes::testing::RecordKind;
use zookeeper_recipes::throughput_balancer::set_max_throughput;

use super::fixture::{BASE, all_joined, have_within, setup};
use crate::fixture::T;

#[tokio::test(start_paused = true)]
async fn the_leader_writes_fewer_of_them_at_once() {
    let (server, clients) = setup(20).await;
    let members = all_joined(&clients).await;
    let members: Vec<_> = members.iter().collect();
    have_within(&server, T, &members, &[50; 20]).await;
    server.max_buffer(1_500);
    set_max_throughput(&clients[0], BASE, 2_000).await.expect("a maximum");
    have_within(&server, T * 3, &members, &[100; 20]).await;
    let lost = server.records().iter().filter(|record| record.what == RecordKind::Disconnected).count();
    // Each loss may make another member the leader, whose client has to learn it.
    assert!((1..=2 * members.len()).contains(&lost), "{lost}");
}
