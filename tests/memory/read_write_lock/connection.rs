//! A connection that is lost for a while, or for longer than the session.

use zookeeper_recipes::ErrorPolicy;
use zookeeper_recipes::read_write_lock::Error;

use super::fixture::{PATH, gets, line, line_has, reading, setup, waits_to_read, waits_to_write, writing};
use crate::fixture::{SOON, T, client_with, still_pending, within};

#[tokio::test(start_paused = true)]
async fn under_the_standard_policy_both_guards_are_lost_with_the_connection_and_keep_their_nodes() {
    let (server, [one, two]) = setup().await;
    let writer = writing(&one).await;
    server.disconnect(&one);
    within("it is told", SOON, writer.lost()).await;
    assert!(!writer.is_held());
    let waiting = waits_to_read(&two).await;
    assert!(matches!(writer.release().await, Err(Error::Lost { .. })));
    let reader = gets(waiting).await;
    server.disconnect(&two);
    within("it is told", SOON, reader.lost()).await;
    assert_eq!(line(&server), ["__READ__0000000001"]);
    drop(reader);
    line_has(&server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn under_the_session_policy_both_survive_a_short_outage() {
    let (server, _) = setup::<0>().await;
    let client = client_with(&server, ErrorPolicy::Session).await;
    let readers = [reading(&client).await, reading(&client).await];
    server.disconnect(&client);
    tokio::time::sleep(SOON).await;
    assert!(readers.iter().all(|reader| reader.is_held()));
    let [first, second] = readers;
    first.release().await.expect("it was held");
    second.release().await.expect("it was held");
    let writer = writing(&client).await;
    server.disconnect(&client);
    tokio::time::sleep(SOON).await;
    writer.release().await.expect("it was held");
}

#[tokio::test(start_paused = true)]
async fn waiters_keep_their_nodes_and_their_places() {
    let (server, [one, two]) = setup().await;
    let first = writing(&one).await;
    let (reader, writer) = (waits_to_read(&two).await, waits_to_write(&two).await);
    let before = server.children(PATH);
    server.disconnect(&two);
    tokio::time::sleep(SOON).await;
    assert_eq!(server.children(PATH), before);
    drop(first);
    drop(gets(reader).await);
    drop(gets(writer).await);
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_writer_went_while_it_was_cut_off_reads_when_it_is_back() {
    let (server, [one, two]) = setup().await;
    let first = writing(&one).await;
    let reader = waits_to_read(&two).await;
    server.refuse(&two);
    server.disconnect(&two);
    drop(first);
    tokio::time::sleep(SOON).await;
    server.heal();
    drop(within("it reads", T, reader).await.expect("it reads"));
}

#[tokio::test(start_paused = true)]
async fn holders_lose_the_lock_with_the_session_and_waiters_take_another_place() {
    let (server, [one, two]) = setup().await;
    let writer = writing(&one).await;
    let mut waiting = waits_to_read(&two).await;
    server.expire_session(&two);
    still_pending("one writes", &mut waiting).await;
    assert_eq!(line(&server), ["__WRIT__0000000000", "__READ__0000000002"]);
    server.expire_session(&one);
    within("it is told", SOON, writer.lost()).await;
    assert!(matches!(writer.release().await, Err(Error::Lost { .. })));
    let reader = gets(waiting).await;
    server.expire_session(&two);
    within("it is told", SOON, reader.lost()).await;
    assert!(!reader.is_held());
    assert!(matches!(reader.release().await, Err(Error::Lost { .. })));
}
