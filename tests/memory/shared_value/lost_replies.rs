//! The connection breaks after a write was handed over, and with it the answer is lost.

use zookeeper_recipes::shared_value::{Error, SharedValue, Versioned};
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{PATH, assert_unknown, held, missing, now, setup, text};
use crate::fixture::{T, still_pending, within};

/// The calls that write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Set,
    Swap,
    Update,
}

const CALLS: [Call; 3] = [Call::Set, Call::Swap, Call::Update];

async fn write(call: Call, value: &SharedValue<String>, before: &Versioned<String>) -> Result<bool, Error> {
    match call {
        Call::Set => value.set("new").await.map(|_| true),
        Call::Swap => value.compare_and_set(before, "new").await,
        Call::Update => value.update(|_| Some("new".to_owned())).await.map(|written| written.is_some()),
    }
}

/// A write whose answer is lost; `meanwhile` happens before the client is connected again.
async fn lost(
    call: Call,
    loss: Loss,
    meanwhile: impl FnOnce(&TestingServer, &Client),
) -> (TestingServer, SharedValue<String>, Result<bool, Error>) {
    let (server, [client]) = setup().await;
    let value = text(&client, "old").await;
    let before = value.get().expect("there is one");
    server.refuse(&client);
    server.lose_next_reply(&client, Operation::SetData, loss);
    let ended = {
        let mut writing = Box::pin(write(call, &value, &before));
        still_pending("there is no connection", &mut writing).await;
        assert_eq!(server.lost_replies(), 1);
        meanwhile(&server, &client);
        server.heal();
        within("it is settled", T * 3, writing).await
    };
    (server, value, ended)
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_not_carried_out_is_repeated() {
    for call in CALLS {
        let (server, value, ended) = lost(call, Loss::NotApplied, |_, _| {}).await;
        assert_eq!(ended, Ok(true), "{call:?}");
        assert_eq!(held(&server).as_deref(), Some("new"));
        assert_eq!(server.stat(PATH).expect("it is there").version, 1, "{call:?}: once");
        assert_eq!(now(&value), "new");
    }
}

/// Another client may have written the same. (Curator's `trySetValue` returns false.)
#[tokio::test(start_paused = true)]
async fn a_write_that_may_have_been_carried_out_is_not_repeated() {
    for call in CALLS {
        let (server, value, ended) = lost(call, Loss::Applied, |_, _| {}).await;
        assert_unknown(&ended.expect_err("not known"));
        assert_eq!(server.stat(PATH).expect("it is there").version, 1, "{call:?}: once");
        within("it is seen", T, value.wait_for(|now| now == "new")).await.expect("it is seen");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_another_ones_has_overtaken_was_not_carried_out() {
    for call in CALLS {
        let others = |server: &TestingServer, _: &Client| server.set_data_by_hand(PATH, "other").expect("it is there");
        let (server, _value, ended) = lost(call, Loss::NotApplied, others).await;
        assert_eq!(ended, Ok(call != Call::Swap), "{call:?}");
        let (expected, version) = if call == Call::Swap { ("other", 1) } else { ("new", 2) };
        assert_eq!(held(&server).as_deref(), Some(expected), "{call:?}");
        assert_eq!(server.stat(PATH).expect("it is there").version, version, "{call:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_several_writes_of_others_it_cannot_be_known() {
    for call in CALLS {
        for loss in [Loss::Applied, Loss::NotApplied] {
            let others = |server: &TestingServer, _: &Client| {
                server.set_data_by_hand(PATH, "one").expect("it is there");
                server.set_data_by_hand(PATH, "two").expect("it is there");
            };
            let (server, _value, ended) = lost(call, loss, others).await;
            assert_unknown(&ended.expect_err("not known"));
            assert_eq!(held(&server).as_deref(), Some("two"), "{call:?}: nothing is repeated");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_session_or_the_node_it_cannot_be_known() {
    for call in CALLS {
        let expire = |server: &TestingServer, client: &Client| assert!(server.expire_session(client));
        let (server, _value, ended) = lost(call, Loss::NotApplied, expire).await;
        assert_unknown(&ended.expect_err("not known"));
        assert_eq!(held(&server).as_deref(), Some("old"), "{call:?}: nothing is repeated");
        let delete = |server: &TestingServer, _: &Client| server.delete_by_hand(PATH).expect("it is there");
        let (server, value, ended) = lost(call, Loss::Applied, delete).await;
        assert_unknown(&ended.expect_err("not known"));
        assert_eq!(held(&server), None, "{call:?}");
        assert_eq!(within("it is synced", T, value.synced()).await.expect_err("no node"), missing());
    }
}

#[tokio::test(start_paused = true)]
async fn the_creation_with_the_seed_is_repeated() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        for operation in [Operation::Create, Operation::GetData, Operation::AddWatch, Operation::Sync] {
            let (server, [client]) = setup().await;
            server.lose_next_reply(&client, operation, loss);
            let value = text(&client, "a").await;
            assert_eq!((now(&value), server.lost_replies()), ("a".to_owned(), 1), "{operation:?} {loss:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_nothing_is_written_and_the_error_says_so() {
    for call in CALLS {
        let (server, [client]) = setup().await;
        let value = text(&client, "old").await;
        let before = value.get().expect("there is one");
        server.refuse(&client);
        server.disconnect(&client);
        within("the client knows", T, server.until(|| !client.connection_state().is_connected())).await;
        let error = within("the connection timeout", T * 4, write(call, &value, &before)).await;
        let error = error.expect_err("no connection");
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
        assert!(error.is_retryable() && error.to_string().contains(PATH), "{error}");
        assert_eq!((held(&server).as_deref(), now(&value)), (Some("old"), "old".to_owned()));
    }
}
