//! Starting, reading, setting, comparing, and hearing of changes.

use serde::{Deserialize, Serialize};
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::shared_value::{Json, SharedValue, Utf8};
use zookeeper_recipes::testing::Operation::{Create, GetData, SetData};

use super::fixture::{PATH, held, missing, now, setup, text, until_is};
use crate::fixture::{SOON, T, requests, within};

#[tokio::test(start_paused = true)]
async fn the_first_seed_counts() {
    let (server, [one, two]) = setup().await;
    let first = text(&one, "a").await;
    let second = text(&two, "b").await;
    assert_eq!((now(&first), now(&second)), ("a".to_owned(), "a".to_owned()));
    assert_eq!(first.path(), PATH);
    let stat = server.stat(PATH).expect("it is there");
    assert_eq!((stat.ephemeral_owner, stat.version), (0, 0));
    let value = second.get().expect("there is a value");
    assert_eq!((value.version(), value.zxid(), *value.stat()), (0, stat.mzxid, stat));
    assert_eq!((value.to_string(), value.len()), ("a".to_owned(), 1), "it dereferences");
}

#[tokio::test(start_paused = true)]
async fn without_a_seed_nothing_is_created_and_the_value_comes_with_its_node() {
    let (server, [client]) = setup().await;
    let value = SharedValue::builder(&client, PATH).decode(Utf8).start().await.expect("it starts");
    assert_eq!(value.get().expect_err("no node"), missing());
    assert_eq!(value.set("x").await.expect_err("no node"), missing());
    assert_eq!(value.update(|_| Some("x".to_owned())).await.expect_err("no node"), missing());
    assert_eq!(server.paths(), [""; 0]);
    server.create_by_hand("/config", "", CreateMode::Persistent).expect("a new node");
    server.create_by_hand(PATH, "here", CreateMode::Persistent).expect("a new node");
    until_is(&value, "here".to_owned()).await;
    value.set("there").await.expect("set");
    assert_eq!(now(&value), "there");
}

#[tokio::test(start_paused = true)]
async fn an_own_write_is_read_at_once_and_others_see_it_soon() {
    let (server, [one, two]) = setup().await;
    let (writer, reader) = (text(&one, "0").await, text(&two, "0").await);
    for number in 1..20 {
        let written = writer.set(number.to_string()).await.expect("set");
        assert_eq!(written.version(), number);
        assert_eq!(now(&writer), number.to_string());
        assert_eq!(writer.get().expect("there is one").zxid(), written.zxid());
        assert_eq!(held(&server), Some(number.to_string()));
    }
    until_is(&reader, "19".to_owned()).await;
    assert_eq!(within("it is synced", SOON, writer.synced()).await.expect("synced").value(), "19");
}

#[tokio::test(start_paused = true)]
async fn a_clone_is_the_same_handle() {
    let (_server, [client]) = setup().await;
    let value = text(&client, "a").await;
    let clone = value.clone();
    value.set("b").await.expect("set");
    assert_eq!(now(&clone), "b");
}

#[tokio::test(start_paused = true)]
async fn compare_and_set_writes_only_over_the_version_it_was_given() {
    let (server, [one, two]) = setup().await;
    let (value, other) = (text(&one, "a").await, text(&two, "a").await);
    let first = value.get().expect("there is one");
    assert_eq!(value.compare_and_set(&first, "b").await, Ok(true));
    assert_eq!(value.compare_and_set(&first, "c").await, Ok(false), "known to be replaced");
    // The other one has not seen it, maybe; the server has.
    assert_eq!(other.compare_and_set(&first, "d").await, Ok(false));
    assert_eq!(held(&server), Some("b".to_owned()));
    let seen = other.synced().await.expect("synced");
    assert_eq!(other.compare_and_set(&seen, "d").await, Ok(true));
    assert_eq!(held(&server), Some("d".to_owned()));
    until_is(&value, "d".to_owned()).await;
}

#[tokio::test(start_paused = true)]
async fn changes_are_told_in_order_and_nothing_that_does_not_differ() {
    let (server, [one, two]) = setup().await;
    let (value, other) = (text(&one, "a").await, text(&two, "a").await);
    let mut changes = value.changes();
    assert_eq!(changes.start().expect("there is one").value(), "a");
    other.set("b").await.expect("set");
    value.set("c").await.expect("set");
    server.disconnect(&one);
    tokio::time::sleep(SOON).await;
    other.set("d").await.expect("set");
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "d") {
        let change = within("a change", T, changes.next()).await.expect("it goes on");
        seen.push(change.expect("a value").value().clone());
    }
    assert!(seen.is_sorted() && seen.windows(2).all(|two| two[0] != two[1]), "{seen:?}");
    drop((value, other));
    assert!(within("the end", T, changes.next()).await.is_none());
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Limits {
    most: u32,
}

#[tokio::test(start_paused = true)]
async fn a_value_can_be_of_any_type() {
    let (server, [client]) = setup().await;
    let builder = SharedValue::builder(&client, PATH).decode(Json::<Limits>::new()).seed(Limits { most: 3 });
    let limits = builder.start().await.expect("it starts");
    limits.update(|now| Some(Limits { most: now.most + 1 })).await.expect("updated").expect("written");
    assert_eq!(held(&server), Some(r#"{"most":4}"#.to_owned()));
    assert_eq!(limits.get().expect("there is one").most, 4);
}

#[tokio::test(start_paused = true)]
async fn a_seed_stays_as_the_bytes_that_it_was() {
    let (_server, [client]) = setup().await;
    let value = SharedValue::builder(&client, PATH).seed("bytes").decode(Utf8).start().await.expect("it starts");
    assert_eq!(now(&value), "bytes");
}

#[tokio::test(start_paused = true)]
async fn reading_costs_nothing_and_a_write_one_request() {
    let (server, [client]) = setup().await;
    server.create_by_hand("/config", "", CreateMode::Persistent).expect("a new node");
    server.clear_records();
    let value = text(&client, "a").await;
    assert_eq!(requests(&server).iter().filter(|operation| **operation == Create).count(), 1);
    server.clear_records();
    for _ in 0..100 {
        assert_eq!(now(&value), "a");
    }
    assert_eq!(requests(&server), []);
    value.set("b").await.expect("set");
    assert_eq!(now(&value), "b");
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), [SetData, GetData], "the read is that of the copy");
    server.clear_records();
    let before = value.get().expect("there is one");
    assert_eq!(value.compare_and_set(&before, "c").await, Ok(true));
    assert_eq!(value.compare_and_set(&before, "d").await, Ok(false));
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), [SetData, GetData], "the second was known to be replaced");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_but_the_node() {
    let (server, [client]) = setup().await;
    let value = text(&client, "a").await;
    value.set("b").await.expect("set");
    drop(value);
    server.until(|| server.watches() == 0).await;
    assert_eq!(held(&server), Some("b".to_owned()));
    assert!(server.panics().is_empty());
}
