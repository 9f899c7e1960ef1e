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

/// What is said when the node has the new value at this version.
fn assert_same(call: Call, ended: Result<bool, Error>, version: i32) {
    if call == Call::Set {
        return assert_eq!(ended, Ok(true), "it is set, by whichever client");
    }
    let error = ended.expect_err("not known");
    assert_unknown(&error);
    assert_eq!(error, Error::SameValue { path: PATH.into(), version }, "{call:?}");
}

/// Another client may have written the same, and count on it. (Curator's `trySetValue` returns false.)
#[tokio::test(start_paused = true)]
async fn a_write_whose_value_is_there_is_not_repeated() {
    let same = |server: &TestingServer, _: &Client| server.set_data_by_hand(PATH, "new").expect("it is there");
    for call in CALLS {
        for is_ours in [true, false] {
            let (server, value, ended) = match is_ours {
                true => lost(call, Loss::Applied, |_, _| {}).await,
                false => lost(call, Loss::NotApplied, same).await,
            };
            assert_same(call, ended, 1);
            assert_eq!(server.stat(PATH).expect("it is there").version, 1, "{call:?}: once");
            within("it is seen", T, value.wait_for(|now| now == "new")).await.expect("it is seen");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_there_after_several_writes_is_set() {
    for call in CALLS {
        for loss in [Loss::Applied, Loss::NotApplied] {
            let others = |server: &TestingServer, _: &Client| {
                for data in ["one", "two", "new"] {
                    server.set_data_by_hand(PATH, data).expect("it is there");
                }
            };
            let (server, value, ended) = lost(call, loss, others).await;
            match call {
                Call::Set => assert_eq!((ended, now(&value)), (Ok(true), "new".to_owned())),
                _ => assert_unknown(&ended.expect_err("not known")),
            }
            assert_eq!(held(&server).as_deref(), Some("new"), "{call:?}: nothing is repeated");
        }
    }
}

/// Two clients take what is free. Only one may believe that it has it.
#[tokio::test(start_paused = true)]
async fn of_two_that_write_the_same_over_the_same_only_one_succeeds() {
    let (server, [one, two]) = setup().await;
    let (first, second) = (text(&one, "free").await, text(&two, "free").await);
    let (seen, same) = (first.get().expect("there is one"), second.get().expect("there is one"));
    server.refuse(&one);
    server.lose_next_reply(&one, Operation::SetData, Loss::NotApplied);
    let mut taking = Box::pin(first.compare_and_set(&seen, "taken"));
    still_pending("there is no connection", &mut taking).await;
    assert_eq!(second.compare_and_set(&same, "taken").await, Ok(true));
    server.heal();
    let taken = within("it is settled", T * 3, taking).await;
    assert_eq!(taken, Err(Error::SameValue { path: PATH.into(), version: 1 }));
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

#[tokio::test(start_paused = true)]
async fn a_value_that_must_be_read_first_is_waited_for_no_longer_than_a_write() {
    for call in [Call::Swap, Call::Update] {
        let (server, [client]) = setup().await;
        let value = text(&client, "old").await;
        let before = value.get().expect("there is one");
        server.delete_by_hand(PATH).expect("it is there");
        within("it is seen", T, server.until(|| value.get().is_err())).await;
        server.refuse(&client);
        server.disconnect(&client);
        let error = within("the connection timeout", T * 4, write(call, &value, &before)).await;
        let error = error.expect_err("no connection");
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{call:?}: {error}");
        assert!(error.is_retryable() && error.to_string().contains(PATH), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_cut_off_each_time_ends() {
    for call in CALLS {
        let (server, [client]) = setup().await;
        let value = text(&client, "old").await;
        let before = value.get().expect("there is one");
        for _ in 0..10_000 {
            server.lose_next_reply(&client, Operation::SetData, Loss::NotApplied);
        }
        let error = within("the connection timeout", T * 4, write(call, &value, &before)).await;
        let error = error.expect_err("cut off");
        assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{call:?}: {error}");
        server.heal();
        within("it works again", T, value.set("next")).await.expect("set");
        assert_eq!(server.stat(PATH).expect("it is there").version, 1, "{call:?}: nothing comes late");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_cannot_be_read_is_not_said_to_have_no_answer() {
    let (server, [client]) = setup().await;
    let value = text(&client, "old").await;
    server.lose_next_reply(&client, Operation::SetData, Loss::Malformed);
    within("it is looked at", T, value.set("new")).await.expect("the node shows that it was carried out");
    server.lose_next_reply(&client, Operation::SetData, Loss::Malformed);
    server.fail_reads(PATH, Operation::GetData);
    let error = within("it is looked at", T, value.set("newer")).await.expect_err("nor can the node be read");
    let text = error.to_string();
    assert!(text.contains("its answer cannot be read") && !text.contains("no answer came"), "{text}");
    let Error::Client { error, .. } = error else { panic!("{error:?}") };
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
}
