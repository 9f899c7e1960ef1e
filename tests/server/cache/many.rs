//! More children than fit into sixteen bits.

use futures::future::try_join_all;
use zookeeper_recipes::cache::Cache;
use zookeeper_recipes::{Client, CreateMode};

use super::fixture::*;

const CHILDREN: usize = 65_540;
const A_TRANSACTION: usize = 2_000;

fn name(number: usize) -> String {
    format!("{number:05}")
}

/// Creates all of them; in transactions, as one by one would take long.
async fn fill(client: &Client, path: &str) {
    let all: Vec<usize> = (0..CHILDREN).collect();
    let transactions = all.chunks(A_TRANSACTION).map(|numbers| {
        let create = |transaction: zookeeper_recipes::Transaction, number: &usize| {
            transaction.create(&format!("{path}/{}", name(*number)), "x", CreateMode::Persistent)
        };
        numbers.iter().fold(client.transaction(), create).commit()
    });
    try_join_all(transactions).await.expect("created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_64_k_children_are_read_and_followed() {
    // Its own server: it would burden the others.
    let fixture = Fixture::on_a_server_of_its_own("many").await;
    fixture.observer.create(&fixture.path, b"").await;
    let client = fixture.client().await;
    fill(&client, &fixture.path).await;
    let cache = crate::support::within("the first snapshot", SOON * 3, Cache::children(&client, &fixture.path).start())
        .await
        .expect("a cache");
    let now = cache.snapshot();
    assert_eq!(now.len(), CHILDREN);
    assert!(now.iter().enumerate().all(|(number, node)| node.name() == name(number)), "all, in their order");
    assert!(now.iter().all(|node| node.value() == Some(&b"x".to_vec())));
    let mut changes = cache.changes();
    delete(&fixture.observer, &fixture.path, &["/00000", "/65539"]).await;
    fixture.observer.set_data(&format!("{}/32768", fixture.path), b"y").await;
    fixture.observer.create(&format!("{}/new", fixture.path), b"").await;
    let mut words = told(&cache, &mut changes).await;
    words.sort();
    assert_eq!(words, ["+/new", "-/00000", "-/65539", "~/32768"]);
    assert_eq!((now.len(), cache.snapshot().len()), (CHILDREN, CHILDREN - 1));
}
