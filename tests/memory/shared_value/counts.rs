//! Curator's scenarios of shared counts.

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::shared_value::Error;

use super::fixture::{PATH, count, now, setup, until_is};
use crate::fixture::{T, within};

#[tokio::test(start_paused = true)]
async fn the_bytes_are_curators() {
    let (server, [client]) = setup().await;
    let value = count(&client, 258).await;
    assert_eq!(server.get(PATH), Some(vec![0, 0, 1, 2]));
    value.set(-2).await.expect("set");
    assert_eq!(server.get(PATH), Some(vec![255, 255, 255, 254]));
    server.set_data_by_hand(PATH, 77_i32.to_be_bytes()).expect("it is there");
    until_is(&value, 77).await;
}

/// `testMultiClients`: five see the same hundred values in order.
#[tokio::test(start_paused = true)]
async fn five_clients_see_the_values_in_order() {
    let (_server, clients) = setup::<5>().await;
    let mut readers = Vec::new();
    for client in &clients {
        let value = count(client, 10).await;
        readers.push((value.changes(), value));
    }
    let (_, writer) = &readers[0];
    let writer = writer.clone();
    for number in 11..=110 {
        writer.set(number).await.expect("set");
    }
    for (changes, _) in &mut readers {
        let mut last = 10;
        while last < 110 {
            let next = within("the next", T, changes.next()).await.expect("it goes on").expect("a value");
            assert!(*next > last, "{} after {last}", *next);
            last = *next;
        }
    }
}

/// `testSimpleVersioned`.
#[tokio::test(start_paused = true)]
async fn a_wrong_version_is_refused() {
    let (server, [client]) = setup().await;
    let value = count(&client, 0).await;
    let first = value.get().expect("there is one");
    value.set(5).await.expect("set");
    value.set(0).await.expect("set");
    assert_eq!(value.compare_and_set(&first, 9).await, Ok(false), "the value is the same, the version is not");
    let current = value.get().expect("there is one");
    assert_eq!(value.compare_and_set(&current, 20).await, Ok(true));
    assert_eq!(now(&value), 20);
    server.set_version(PATH, -1).expect("it is there");
    let current = within("it is synced", T, value.synced()).await.expect("synced");
    assert_eq!(current.version(), -1);
    let refused = Error::VersionOverflow { path: PATH.into() };
    assert_eq!(value.compare_and_set(&current, 21).await, Err(refused.clone()));
    assert_eq!(value.update(|now| Some(now + 1)).await.expect_err("any version"), refused);
    assert_eq!(server.get(PATH), Some(20_i32.to_be_bytes().to_vec()));
    value.set(21).await.expect("a set moves it on");
    assert_eq!(value.update(|now| Some(now + 1)).await.expect("updated").as_deref(), Some(&22));
}

/// `testMultiClientVersioned`: the loser reads again, and then wins.
#[tokio::test(start_paused = true)]
async fn the_loser_reads_again_and_wins() {
    let (_server, [one, two]) = setup().await;
    let (first, second) = (count(&one, 0).await, count(&two, 0).await);
    let (before, same) = (first.get().expect("there is one"), second.get().expect("there is one"));
    assert_eq!(second.compare_and_set(&same, 1).await, Ok(true));
    assert_eq!(first.compare_and_set(&before, 2).await, Ok(false));
    let again = first.synced().await.expect("synced");
    assert_eq!(*again, 1);
    assert_eq!(first.compare_and_set(&again, 2).await, Ok(true));
    until_is(&second, 2).await;
}

/// `testDisconnectReconnectWithMultipleClients`: the value is seen after each reconnect.
#[tokio::test(start_paused = true)]
async fn after_each_reconnect_the_value_is_that_of_the_servers() {
    let (server, [one, two]) = setup().await;
    let (reader, writer) = (count(&one, 0).await, count(&two, 0).await);
    let mut changes = reader.changes();
    for number in 1..=10 {
        server.refuse(&one);
        server.disconnect(&one);
        writer.set(number).await.expect("set");
        server.heal();
        until_is(&reader, number).await;
        assert_eq!(*within("it is told", T, changes.next()).await.expect("it goes on").expect("a value"), number);
    }
}

#[tokio::test(start_paused = true)]
async fn other_data_is_an_error_and_a_set_replaces_it() {
    for data in [&b""[..], b"abc", b"12345678"] {
        let (server, [client]) = setup().await;
        server.create_by_hand("/config", "", CreateMode::Persistent).expect("a new node");
        server.create_by_hand(PATH, data, CreateMode::Persistent).expect("a new node");
        let value = count(&client, 1).await;
        let error = value.get().expect_err("no count");
        let Error::Undecodable { bytes, version: 0, .. } = &error else { panic!("{error:?}") };
        assert_eq!(bytes, data);
        assert!(error.to_string().contains(PATH) && error.to_string().contains("a count has four"), "{error}");
        let refused = within("it is synced", T, value.update(|now| Some(now + 1))).await.expect_err("no count");
        assert_eq!(refused, error);
        assert_eq!(server.get(PATH).as_deref(), Some(data));
        value.set(4).await.expect("it is replaced");
        assert_eq!(now(&value), 4);
    }
}
