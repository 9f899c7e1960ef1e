//! A process that is stopped for longer than its session.

use super::fixture::{PATH, lock, reading, setup, waits_to_write, writing};
use crate::fixture::{T, within};

#[tokio::test(start_paused = true)]
async fn a_holder_that_was_stopped_wakes_without_the_lock_and_its_fenced_write_is_refused() {
    let (server, [one, two]) = setup().await;
    server.create_by_hand("/work", "", zookeeper_recipes::CreateMode::Persistent).expect("a new node");
    for writes in [true, false] {
        let (writer, reader) =
            if writes { (Some(writing(&one).await), None) } else { (None, Some(reading(&one).await)) };
        let fence = writer.as_ref().map(|guard| guard.fence()).or(reader.as_ref().map(|guard| guard.fence()));
        server.freeze_client(&one);
        let other = within("the other writes", T * 3, lock(&two).write().acquire()).await.expect("it writes");
        let is_held = |writer: &Option<zookeeper_recipes::read_write_lock::WriteGuard>| {
            writer.as_ref().map(|guard| guard.is_held())
        };
        assert_ne!(is_held(&writer), Some(true));
        assert_ne!(reader.as_ref().map(|guard| guard.is_held()), Some(true));
        server.thaw_client(&one);
        assert_ne!(is_held(&writer), Some(true));
        assert_ne!(reader.as_ref().map(|guard| guard.is_held()), Some(true));
        let fence = fence.expect("one of them is held");
        let write = one.transaction().check(&fence).set_data("/work", "1", None);
        write.commit().await.expect_err("another writes");
        assert!(other.is_held());
        drop((writer, reader, other));
        server.until(|| server.children(PATH).is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_behind_a_reader_that_was_stopped_writes_when_that_session_is_over() {
    let (server, [one, two]) = setup().await;
    let reader = reading(&one).await;
    let waiting = waits_to_write(&two).await;
    server.freeze_client(&one);
    let writer = within("it writes", T * 3, waiting).await.expect("it writes");
    assert!(writer.is_held() && !reader.is_held());
    server.thaw_client(&one);
    assert!(!reader.is_held());
}
