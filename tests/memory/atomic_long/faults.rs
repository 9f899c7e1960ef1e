//! Sessions that end, connections that are suspended, processes that stop.

use zookeeper_recipes::atomic_long::Error;

use super::fixture::{held, number, pair, setup, setup_with, writers};
use crate::fixture::{T, still_pending, within};

#[tokio::test(start_paused = true)]
async fn the_next_session_goes_on() {
    let (server, [client]) = setup_with(0).await;
    let hits = number(&client);
    for round in 0..3 {
        assert_eq!(pair(within("it is added", T, hits.increment()).await.expect("added")), (round, round + 1));
        let [before] = &writers(&server)[..] else { panic!("one node: {:?}", writers(&server)) };
        let session = client.session_id();
        server.expire_session(&client);
        within("its nodes are gone", T, server.until(|| server.stat(before).is_none())).await;
        within("the client knows", T, server.until(|| client.session_id() != session)).await;
    }
    assert_eq!(held(&server), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_costs_nothing() {
    let (server, [client]) = setup_with(0).await;
    let hits = number(&client);
    hits.increment().await.expect("added");
    let node = writers(&server);
    server.disconnect(&client);
    let added = within("it is added", T, hits.increment()).await.expect("added");
    assert_eq!(pair(added), (1, 2));
    assert_eq!(writers(&server), node, "the node is the same");
}

#[tokio::test(start_paused = true)]
async fn a_suspended_call_goes_on_when_there_is_a_connection() {
    let (server, [client, other]) = setup_with(0).await;
    let hits = number(&client);
    hits.increment().await.expect("added");
    server.refuse(&client);
    server.disconnect(&client);
    let mut adding = Box::pin(hits.increment());
    still_pending("there is no connection", &mut adding).await;
    number(&other).add(10).await.expect("added");
    server.heal();
    assert_eq!(pair(within("connected", T, adding).await.expect("added")), (11, 12));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_for_long_adds_to_what_is_there_then() {
    let (server, [client, other]) = setup_with(0).await;
    let hits = number(&client);
    hits.increment().await.expect("added");
    server.freeze_client(&client);
    number(&other).add(10).await.expect("added");
    server.until(|| writers(&server).len() == 1).await;
    tokio::time::sleep(T * 2).await;
    server.thaw_client(&client);
    // The session is over; what it has not sent is sent by the next one.
    let added = within("in the next session", T * 3, hits.increment()).await.expect("added");
    assert_eq!(pair(added), (11, 12));
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_a_call_is_under_way_counts_once_or_is_unknown() {
    let (server, [client]) = setup_with(0).await;
    let hits = number(&client);
    hits.increment().await.expect("added");
    let adding = {
        let hits = hits.clone();
        server.spawn(&client, async move { hits.add(10).await })
    };
    tokio::task::yield_now().await;
    server.freeze_client(&client);
    tokio::time::sleep(T * 3).await;
    server.thaw_client(&client);
    let added = within("it ends", T * 3, adding).await.expect("no panic");
    match added {
        Ok(added) => assert_eq!((pair(added), held(&server)), ((1, 11), Some(11))),
        Err(error) => super::fixture::assert_unknown(&error),
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_is_an_error() {
    let (server, [client]) = setup().await;
    let hits = number(&client);
    hits.increment().await.expect("added");
    client.close().await.expect("closed");
    let error = hits.increment().await.expect_err("closed");
    assert!(matches!(error, Error::Closed { .. }) && error.is_lost(), "{error:?}");
    assert!(matches!(hits.get().await, Err(Error::Closed { .. })));
    server.until(|| writers(&server).is_empty()).await;
    assert_eq!(held(&server), Some(1));
}
