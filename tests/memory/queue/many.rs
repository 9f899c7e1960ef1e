//! Several producers.

use futures::future::join_all;

use super::fixture::{drained, filled, queue, setup, texts};
use crate::fixture::{T, within};

#[tokio::test(start_paused = true)]
async fn each_producers_items_are_in_its_order_and_none_is_there_twice() {
    let (server, one, two) = setup().await;
    let _first = filled(&one, &[]).await;
    let producers = [queue(&one).producer(), queue(&two).producer(), queue(&one).producer()];
    let puts = join_all(producers.iter().enumerate().map(|(who, producer)| async move {
        for number in 0..100 {
            producer.put(format!("{who} {number:02}")).await.expect("put");
            if number == 50 {
                tokio::task::yield_now().await;
            }
        }
    }));
    let disturb = async {
        for client in [&one, &two, &one] {
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            server.disconnect(client);
        }
    };
    within("all are put", T, futures::future::join(puts, disturb)).await;
    let all = texts(&server);
    assert_eq!(all.len(), 300);
    for who in ["0 ", "1 ", "2 "] {
        let of: Vec<_> = all.iter().filter(|item| item.starts_with(who)).cloned().collect();
        assert_eq!(of, (0..100).map(|number| format!("{who}{number:02}")).collect::<Vec<_>>());
    }
    let taken = drained(&queue(&two).consumer(), 300).await;
    assert_eq!(taken, all);
}
