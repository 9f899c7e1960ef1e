//! Data that is decoded, and data that cannot be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zookeeper_recipes::cache::{BoxError, Cache, Content, Serializer, Utf8};

use super::fixture::{ROOT, create, setup};

#[tokio::test(start_paused = true)]
async fn data_that_cannot_be_decoded_keeps_its_bytes_and_the_error() {
    let (server, client) = setup().await;
    server.set_data_by_hand("/app/config/b", [0xff]).expect("set");
    let cache = Cache::tree(&client, ROOT).decode(Utf8).start().await.expect("a cache");
    let now = cache.snapshot();
    assert_eq!(now.root().and_then(|root| root.value()).map(String::as_str), Some("root"));
    let bad = now.get("/app/config/b").expect("it is there");
    let Content::Undecodable(undecodable) = bad.content() else { panic!("{bad:?}") };
    assert_eq!(undecodable.bytes, [0xff]);
    assert!(undecodable.error.to_string().contains("utf-8"), "{}", undecodable.error);
    server.set_data_by_hand("/app/config/b", "good").expect("set");
    let now = cache.synced().await.expect("a snapshot");
    assert_eq!(now.get("/app/config/b").and_then(|node| node.value()).map(String::as_str), Some("good"));
}

#[cfg(feature = "json")]
#[tokio::test(start_paused = true)]
async fn json_of_any_type() {
    let (server, client) = setup().await;
    create(&server, &[("/limits", ""), ("/limits/a", "[1,\"x\"]"), ("/limits/b", "{")]);
    let json = zookeeper_recipes::cache::Json::<(u32, String)>::new();
    let cache = Cache::children(&client, "/limits").decode(json).start().await.expect("a cache");
    let now = cache.snapshot();
    assert_eq!(now.get("/limits/a").and_then(|node| node.value()), Some(&(1, "x".to_owned())));
    assert!(matches!(now.get("/limits/b").expect("it is there").content(), Content::Undecodable(_)));
}

/// Panics at some data, and counts how often it is called.
#[derive(Debug)]
struct Fragile(Arc<AtomicUsize>);

impl Serializer for Fragile {
    type Item = usize;

    fn serialize(&self, _: &usize) -> Result<Vec<u8>, BoxError> {
        Err("only read".into())
    }

    fn deserialize(&self, bytes: &[u8]) -> Result<usize, BoxError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        assert!(bytes != b"root", "no roots");
        Ok(bytes.len())
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_serializer_is_the_error_and_each_version_is_decoded_once() {
    let (server, client) = setup().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let cache = Cache::tree(&client, ROOT).decode(Fragile(Arc::clone(&calls))).start().await.expect("a cache");
    let now = cache.snapshot();
    let Content::Undecodable(undecodable) = now.root().expect("it is there").content() else { panic!("{now:?}") };
    assert!(undecodable.error.to_string().contains("no roots"));
    assert_eq!(calls.load(Ordering::Relaxed), 6);
    server.disconnect(&client);
    cache.synced().await.expect("a snapshot");
    assert_eq!(calls.load(Ordering::Relaxed), 6);
}

#[tokio::test(start_paused = true)]
async fn a_filter_that_panics_leaves_the_node_out() {
    let (_server, client) = setup().await;
    let filter = |path: &str| {
        assert!(!path.ends_with("/b"), "not this one");
        true
    };
    let cache = Cache::tree(&client, ROOT).filter(filter).start().await.expect("a cache");
    assert_eq!(cache.snapshot().len(), 5);
    assert!(cache.snapshot().get("/app/config/b").is_none());
}
