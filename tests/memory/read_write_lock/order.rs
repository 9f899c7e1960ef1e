//! Who waits for whom: none overtakes another, and each wakes once.

use zookeeper_recipes::testing::{Operation, RecordKind};

use super::fixture::{gets, line, line_has, lock, reading, setup, waits_to_read, waits_to_write, writing};
use crate::fixture::{SOON, requests, still_pending};

#[tokio::test(start_paused = true)]
async fn a_writer_is_not_starved_by_readers() {
    let (_server, [one, two, three]) = setup().await;
    let first = reading(&one).await;
    let writer = waits_to_write(&two).await;
    let later = waits_to_read(&three).await;
    let same = waits_to_read(&one).await;
    drop(first);
    let writer = gets(writer).await;
    assert!(lock(&three).read().try_acquire().await.expect("an answer").is_none());
    drop(writer);
    let (later, same) = (gets(later).await, gets(same).await);
    assert!(later.is_held() && same.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_each_reader_before_it() {
    let (_server, [one, two]) = setup().await;
    let readers = [reading(&one).await, reading(&one).await, reading(&two).await];
    let mut writer = waits_to_write(&two).await;
    let [first, second, third] = readers;
    // The one directly before it goes first, then it waits for another.
    drop(third);
    still_pending("two readers are left", &mut writer).await;
    drop(first);
    still_pending("a reader is left", &mut writer).await;
    drop(second);
    drop(gets(writer).await);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_readers_behind_a_writer_wake_once_each_and_send_nothing_then() {
    let (server, [one, two]) = setup().await;
    let writer = writing(&one).await;
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let lock = lock(&two).read();
        waiting.push(server.spawn(&two, async move { lock.acquire().await.expect("it reads") }));
    }
    line_has(&server, 101).await;
    tokio::time::sleep(SOON).await;
    server.clear_records();
    writer.release().await.expect("it was held");
    let mut readers = Vec::new();
    for one in waiting {
        readers.push(one.await.expect("no panic"));
    }
    assert!(readers.iter().all(|reader| reader.is_held()));
    assert_eq!(requests(&server), [Operation::Delete], "that of the writer");
    let woken = server.records().iter().filter(|record| matches!(record.what, RecordKind::Event { .. })).count();
    // The session is told of the node once, however many of its readers watch it.
    assert_eq!(woken, 1);
    drop(readers);
    line_has(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_behind_two_writers_waits_for_the_nearer_one_only() {
    let (server, [one, two, three]) = setup().await;
    let first = writing(&one).await;
    let second = waits_to_write(&two).await;
    let reader = waits_to_read(&three).await;
    server.clear_records();
    drop(first);
    let second = gets(second).await;
    tokio::time::sleep(SOON).await;
    let of_reader = three.session_id().expect("a session");
    let heard = server.records().into_iter().filter(|record| record.session == of_reader);
    let heard: Vec<_> = heard.filter(|record| matches!(record.what, RecordKind::Event { .. })).collect();
    assert_eq!(heard.len(), 0, "{heard:?}");
    drop(second);
    drop(gets(reader).await);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    let (server, [one, two, three]) = setup().await;
    let first = reading(&one).await;
    let writer = waits_to_write(&two).await;
    let reader = waits_to_read(&three).await;
    drop(writer);
    let reader = gets(reader).await;
    assert!(first.is_held() && reader.is_held());
    line_has(&server, 2).await;
    assert_eq!(line(&server), ["__READ__0000000000", "__READ__0000000002"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_writer_that_gives_up_still_waits_for_the_one_before() {
    let (_server, [one, two, three]) = setup().await;
    let first = writing(&one).await;
    let second = waits_to_write(&two).await;
    let mut reader = waits_to_read(&three).await;
    drop(second);
    still_pending("the first writes still", &mut reader).await;
    drop(first);
    drop(gets(reader).await);
}
