//! Curator's scenarios: reading, adding, comparing, initializing, setting.

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::atomic_long::Error;

use super::fixture::{PATH, held, number, pair, setup, setup_with, writers};

#[tokio::test(start_paused = true)]
async fn a_missing_node_is_0_and_the_first_write_creates_it() {
    let (server, [client]) = setup().await;
    let hits = number(&client);
    assert_eq!(hits.path(), PATH);
    assert_eq!(hits.get().await, Ok(0));
    assert_eq!(server.stat(PATH), None, "a read creates nothing");
    assert_eq!(pair(hits.increment().await.expect("added")), (0, 1));
    assert_eq!(pair(hits.add(10).await.expect("added")), (1, 11));
    assert_eq!(pair(hits.decrement().await.expect("added")), (11, 10));
    assert_eq!(pair(hits.add(-50).await.expect("added")), (10, -40));
    assert_eq!(pair(hits.add(0).await.expect("added")), (-40, -40));
    assert_eq!(hits.get().await, Ok(-40));
    assert_eq!(server.get(PATH), Some((-40_i64).to_be_bytes().to_vec()));
    assert_eq!(server.stat(PATH).expect("it is there").ephemeral_owner, 0);
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_counts_as_a_missing_one_and_further_bytes_are_ignored() {
    let (server, [client]) = setup_with(0).await;
    let hits = number(&client);
    server.set_data_by_hand(PATH, "").expect("it is there");
    assert_eq!(hits.get().await, Ok(0));
    assert_eq!(hits.compare_and_set(0, 5).await, Ok(false));
    assert_eq!(pair(hits.add(2).await.expect("added")), (0, 2));
    server.set_data_by_hand(PATH, [0, 0, 0, 0, 0, 0, 0, 7, 1, 2]).expect("it is there");
    assert_eq!(hits.get().await, Ok(7));
    assert_eq!(pair(hits.add(2).await.expect("added")), (7, 9));
    assert_eq!(held(&server), Some(9));
}

#[tokio::test(start_paused = true)]
async fn compare_and_set_with_a_fresh_instance_fails_until_it_is_initialized() {
    let (server, [client, other]) = setup().await;
    let hits = number(&client);
    assert_eq!(hits.compare_and_set(0, 1).await, Ok(false));
    assert_eq!(server.stat(PATH), None, "it creates nothing");
    assert_eq!(hits.initialize(0).await, Ok(true));
    assert_eq!(number(&other).initialize(5).await, Ok(false));
    assert_eq!(held(&server), Some(0));
    assert_eq!(hits.compare_and_set(0, 1).await, Ok(true));
    assert_eq!(held(&server), Some(1));
}

#[tokio::test(start_paused = true)]
async fn compare_and_set_compares_what_the_ensemble_has() {
    let (server, [client, other]) = setup_with(10).await;
    let (hits, others) = (number(&client), number(&other));
    assert_eq!(hits.compare_and_set(11, 12).await, Ok(false));
    assert_eq!(hits.compare_and_set(10, 12).await, Ok(true));
    assert_eq!(pair(others.increment().await.expect("added")), (12, 13));
    assert_eq!(hits.compare_and_set(12, 14).await, Ok(false), "what it remembers is not there any more");
    assert_eq!(hits.compare_and_set(13, 14).await, Ok(true), "nor does that decide");
    assert_eq!(others.compare_and_set(14, 15).await, Ok(true));
    assert_eq!(hits.compare_and_set(15, 15).await, Ok(true));
    assert_eq!(held(&server), Some(15));
}

#[tokio::test(start_paused = true)]
async fn set_replaces_whatever_is_there() {
    let (server, [client, other]) = setup().await;
    let hits = number(&client);
    hits.set(7).await.expect("set");
    assert_eq!(held(&server), Some(7));
    number(&other).set(-1).await.expect("set");
    hits.set(i64::MAX).await.expect("set");
    assert_eq!(held(&server), Some(i64::MAX));
}

#[tokio::test(start_paused = true)]
async fn a_corrupted_node_is_an_error_and_is_left_as_it_is() {
    for length in 1..8 {
        let (server, [client]) = setup_with(0).await;
        let hits = number(&client);
        let bytes = vec![1; length];
        server.set_data_by_hand(PATH, &bytes).expect("it is there");
        let corrupted = Error::Corrupted { path: PATH.into(), bytes: bytes.clone() };
        assert!(corrupted.to_string().contains(&format!("{length} bytes")), "{corrupted}");
        assert_eq!(hits.get().await, Err(corrupted.clone()));
        assert_eq!(hits.increment().await, Err(corrupted.clone()));
        assert_eq!(hits.compare_and_set(0, 1).await, Err(corrupted.clone()));
        assert_eq!(hits.initialize(1).await, Err(corrupted));
        assert_eq!(server.get(PATH), Some(bytes));
        hits.set(3).await.expect("it is repaired");
        assert_eq!(pair(hits.increment().await.expect("added")), (3, 4));
    }
}

#[tokio::test(start_paused = true)]
async fn a_sum_that_does_not_fit_is_an_error_and_nothing_is_written() {
    let (server, [client, other]) = setup_with(i64::MAX - 1).await;
    let hits = number(&client);
    assert_eq!(pair(hits.increment().await.expect("added")), (i64::MAX - 1, i64::MAX));
    let overflow = Error::Overflow { path: PATH.into(), before: i64::MAX, delta: 1 };
    assert_eq!(hits.increment().await, Err(overflow));
    assert_eq!(held(&server), Some(i64::MAX));
    number(&other).set(0).await.expect("set");
    assert_eq!(pair(hits.increment().await.expect("it fits by now")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_version_that_stands_for_any_is_an_error_until_a_set() {
    let (server, [client]) = setup_with(5).await;
    let hits = number(&client);
    server.set_version(PATH, -2).expect("it is there");
    assert_eq!(pair(hits.increment().await.expect("added")), (5, 6));
    assert_eq!(server.stat(PATH).expect("it is there").version, -1);
    let refused = Error::VersionOverflow { path: PATH.into() };
    assert_eq!(hits.increment().await, Err(refused.clone()));
    assert_eq!(hits.compare_and_set(6, 7).await, Err(refused));
    assert_eq!(held(&server), Some(6));
    hits.set(6).await.expect("set");
    assert_eq!(pair(hits.increment().await.expect("added")), (6, 7));
    server.set_version(PATH, i32::MAX).expect("it is there");
    assert_eq!(pair(hits.increment().await.expect("added")), (7, 8));
    assert_eq!(pair(hits.increment().await.expect("added")), (8, 9));
}

#[tokio::test(start_paused = true)]
async fn the_node_of_a_handle_is_there_once_and_goes_with_the_last_clone() {
    let (server, [client]) = setup().await;
    let hits = number(&client);
    let clone = hits.clone();
    hits.increment().await.expect("added");
    clone.increment().await.expect("added");
    let [node] = &writers(&server)[..] else { panic!("one node: {:?}", writers(&server)) };
    assert_eq!(server.stat(node).expect("it is there").ephemeral_owner, client.session_id().expect("a session"));
    drop(hits);
    clone.increment().await.expect("added");
    drop(clone);
    server.until(|| writers(&server).is_empty()).await;
    assert_eq!(held(&server), Some(3));
    assert_eq!(server.watches(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_client_writes_as_curator_does() {
    let (_server, [client, java]) = setup_with(1).await;
    let hits = number(&client);
    for before in [1_i64, 12, 23] {
        assert_eq!(pair(hits.increment().await.expect("added")), (before, before + 1));
        let (data, stat) = java.get(PATH).await.expect("it is there");
        assert_eq!(data, (before + 1).to_be_bytes());
        java.set(PATH, (before + 11).to_be_bytes(), Some(stat.version)).await.expect("the version is right");
    }
    assert_eq!(hits.get().await, Ok(34));
    let created = java.create("/counters/new", 9_i64.to_be_bytes(), CreateMode::Persistent).await;
    created.expect("created");
}
