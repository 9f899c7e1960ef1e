//! A directory whose counter of sequential nodes is nearly used up.

use futures::future::join_all;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::leader_latch::LeaderLatch;

use super::fixture::{PATH, latch, leads, leads_in_the_end, line_of, name_of, node_of, setup, waits};

/// The counter of the directory at the start.
const COUNTER: i32 = i32::MAX - 4;

/// The leader closes until none is left; each time exactly the next of the line leads.
async fn close_one_after_the_other(mut line: Vec<LeaderLatch>) {
    while !line.is_empty() {
        leads(&line[0]).await;
        let lead: Vec<_> = line.iter().filter(|latch| latch.has_leadership()).collect();
        assert_eq!(lead.len(), 1, "{lead:?}");
        line.remove(0).close().await.expect("closed");
    }
}

#[tokio::test(start_paused = true)]
async fn the_line_keeps_its_order_past_the_end_of_the_counter_and_a_new_directory_counts_from_zero() {
    let (server, [client]) = setup().await;
    // With a child in it, the directory is not removed.
    let filler = server.create_by_hand(&format!("{PATH}/filler"), "", CreateMode::Persistent).expect("a new node");
    server.set_sequence(PATH, COUNTER).expect("it exists");

    // One after the other: the last ordinary numbers, then the greatest one again and again.
    let mut line = Vec::new();
    let mut numbers = Vec::new();
    for number in 0..8 {
        let next = latch(&client, &number.to_string());
        if number == 0 {
            leads(&next).await;
        } else {
            waits(&next).await;
        }
        let path = node_of(&next);
        numbers.push(name_of(&path).rsplit_once("latch-").expect("a latch").1.to_owned());
        line.push(next);
    }
    assert_eq!(numbers[0], COUNTER.to_string());
    assert_eq!(numbers[7], i32::MAX.to_string());
    assert_eq!(numbers[6], numbers[7], "the counter sticks");
    let ids: Vec<_> = (0..8).map(|number| number.to_string()).collect();
    assert_eq!(line_of(&line[7]).await, ids);
    close_one_after_the_other(line).await;

    // All at once.
    let burst: Vec<_> = (0..8).map(|number| latch(&client, &format!("burst {number}"))).collect();
    server.until(|| burst.iter().all(|latch| latch.our_path().is_some())).await;
    let leader = burst[0].leader().await.expect("read").expect("there is a leader");
    let order = line_of(&burst[0]).await;
    let mut burst: Vec<_> = burst.into_iter().map(|latch| (latch.id().to_owned(), latch)).collect();
    burst.sort_by_key(|(id, _)| order.iter().position(|other| other == id));
    assert_eq!(burst[0].0, leader.id);
    let created = |latch: &LeaderLatch| server.stat(&node_of(latch)).expect("the node exists").czxid;
    let elders: Vec<i64> = burst.iter().map(|(_, latch)| created(latch)).collect();
    assert!(elders.is_sorted(), "in the order of their creation: {elders:?}");
    let (last, before) = burst.split_last().expect("eight");
    join_all(before.iter().map(|(_, latch)| latch.close())).await;
    leads_in_the_end(&last.1).await;

    // A directory that is deleted and made again counts from zero.
    server.delete_by_hand(&filler).expect("it exists");
    last.1.close().await.expect("closed");
    server.delete_by_hand(PATH).expect("it is empty");
    let fresh = latch(&client, "fresh");
    leads(&fresh).await;
    assert!(node_of(&fresh).ends_with("latch-0000000000"), "{:?}", fresh.our_path());
}
