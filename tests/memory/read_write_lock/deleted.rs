//! Nodes that another client deletes.

use zookeeper_recipes::read_write_lock::Error;

use super::fixture::{PATH, gets, line, reading, setup, waits_to_read, waits_to_write, writing};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn a_holder_that_watches_its_node_is_told_and_the_next_one_holds() {
    let (server, [one, two]) = setup().await;
    let writer = writing(&one).await;
    let told = writer.run(tokio::time::sleep(SOON)).await;
    assert_eq!(told, Ok(()));
    let waiting = waits_to_read(&two).await;
    server.delete_by_hand(writer.node_path()).expect("it is there");
    within("it is told", SOON, writer.lost()).await;
    let reader = gets(waiting).await;
    assert!(reader.is_held() && !writer.is_held());
    assert!(matches!(writer.release().await, Err(Error::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_reader_whose_node_is_deleted_leaves_the_other_readers_alone() {
    let (server, [one, two]) = setup().await;
    let readers = [reading(&one).await, reading(&two).await];
    assert!(readers[0].run(async {}).await.is_ok());
    tokio::time::sleep(SOON).await;
    server.delete_by_hand(readers[0].node_path()).expect("it is there");
    within("it is told", SOON, readers[0].lost()).await;
    assert!(readers[1].is_held());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_node_is_deleted_takes_another_place() {
    let (server, [one, two]) = setup().await;
    let first = writing(&one).await;
    let (reader, writer) = (waits_to_read(&two).await, waits_to_write(&two).await);
    for name in server.children(PATH) {
        let path = format!("{PATH}/{name}");
        if path != first.node_path() {
            server.delete_by_hand(&path).expect("it is there");
        }
    }
    first.release().await.expect("it was held");
    let both = futures::future::join(async { drop(reader.await.expect("it reads")) }, async {
        drop(writer.await.expect("it writes"))
    });
    within("both come to their turn", T, both).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(line(&server), [""; 0]);
}
