//! Updates: none is lost, however many clients write.

use futures::future::join_all;
use zookeeper_recipes::testing::Operation::{GetData, SetData};

use super::fixture::{PATH, count, now, setup, text};
use crate::fixture::{SOON, T, requests, within};

#[tokio::test(start_paused = true)]
async fn ten_clients_add_twenty_times_each_and_none_is_lost() {
    let (server, clients) = setup::<10>().await;
    let values = join_all(clients.iter().map(|client| count(client, 0))).await;
    let add = async |value: &zookeeper_recipes::shared_value::SharedCount| {
        for _ in 0..20 {
            value.update(|now| Some(now + 1)).await.expect("updated").expect("written");
        }
    };
    within("all are done", T * 10, join_all(values.iter().map(add))).await;
    assert_eq!(server.get(PATH), Some(200_i32.to_be_bytes().to_vec()));
    assert_eq!(server.stat(PATH).expect("it is there").version, 200);
}

#[tokio::test(start_paused = true)]
async fn concurrent_updates_of_one_handle_are_not_lost_either() {
    let (server, [client]) = setup().await;
    let value = count(&client, 0).await;
    let updates = join_all((0..10).map(|_| value.update(|now| Some(now + 1))));
    for updated in within("all are done", T, updates).await {
        updated.expect("updated").expect("written");
    }
    assert_eq!(now(&value), 10);
    assert_eq!(server.stat(PATH).expect("it is there").version, 10);
}

#[tokio::test(start_paused = true)]
async fn an_update_of_what_is_known_is_one_request() {
    let (server, [client]) = setup().await;
    let value = count(&client, 0).await;
    server.clear_records();
    let written = value.update(|now| Some(now + 1)).await.expect("updated").expect("written");
    assert_eq!((*written, written.version()), (1, 1));
    assert_eq!(requests(&server)[..1], [SetData]);
    tokio::time::sleep(SOON).await;
    assert_eq!(requests(&server), [SetData, GetData], "the read is that of the copy");
}

#[tokio::test(start_paused = true)]
async fn only_what_the_servers_have_now_decides_that_nothing_is_written() {
    let (server, [client]) = setup().await;
    let value = text(&client, "full").await;
    let mut seen = Vec::new();
    server.refuse(&client);
    server.disconnect(&client);
    server.set_data_by_hand(PATH, "free").expect("it is there");
    let updating = value.update(|now| {
        seen.push(now.clone());
        (now == "free").then(|| "taken".to_owned())
    });
    let mut updating = Box::pin(updating);
    crate::fixture::still_pending("there is no connection", &mut updating).await;
    server.heal();
    let updated = within("it is read", T, updating).await.expect("updated").expect("written");
    assert_eq!(*updated, "taken");
    assert_eq!(seen, ["full", "free"]);
    assert!(value.update(|_| None).await.expect("it is known").is_none());
    assert_eq!(now(&value), "taken");
}
