//! Nodes whose reads fail, while all others can be read.

use std::time::Duration;

use zookeeper_recipes::cache::{Cache, Content, Snapshot};
use zookeeper_recipes::testing::Operation::{Exists, GetData, List};
use zookeeper_recipes::testing::{Operation, TestingServer};
use zookeeper_recipes::{CreateMode, ErrorKind};

use super::fixture::{ROOT, create, grow, setup, tree, words};
use crate::fixture::{SOON, T, requests, within};

const BAD: &str = "/app/config/a";
/// The longest delay until a node is tried again.
const LONGEST: Duration = Duration::from_secs(600);

fn is_unreadable(now: &Snapshot<Vec<u8>>, path: &str) -> bool {
    now.get(path).is_some_and(|node| matches!(node.content(), Content::Unreadable(_)))
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_read_is_a_state_of_that_node_and_all_others_stay_fresh() {
    for persistent_watches in [true, false] {
        let server = TestingServer::builder().persistent_watches(persistent_watches).start();
        grow(&server);
        let client = server.client().await.expect("a client");
        server.fail_reads(BAD, GetData);
        let cache = tree(&client).await;
        let now = cache.snapshot();
        let Content::Unreadable(error) = now.get(BAD).expect("it is there").content() else { panic!("{now:?}") };
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().starts_with("read /app/config/a: "), "{error}");
        assert_eq!(now.get(BAD).map(|node| *node.stat()), server.stat(BAD));
        assert_eq!((now.len(), cache.last_error()), (6, None));
        let mut changes = cache.changes();
        tokio::time::sleep(LONGEST).await;
        assert!(cache.snapshot().is_fresh());
        create(&server, &[("/app/config/a/new", "")]);
        server.set_data_by_hand("/app/config/b", "written").expect("set");
        let now = within("synced", SOON, cache.synced()).await.expect("a snapshot");
        assert!(now.get("/app/config/a/new").is_some() && is_unreadable(&now, BAD));
        assert_eq!(words(&mut changes).await, ["+/app/config/a/new", "~/app/config/b"]);
        assert_eq!(cache.last_error(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_read_again_after_a_delay_that_grows_and_with_each_event() {
    let (server, client) = setup().await;
    server.fail_reads(BAD, GetData);
    let cache = tree(&client).await;
    server.clear_records();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let reads = requests(&server).into_iter().filter(|of| *of == GetData).count();
    // 1, 2, 4 seconds and so on, then ten minutes, of which a random part is left out.
    assert!((9..=22).contains(&reads), "{reads} reads in an hour");
    let mut changes = cache.changes();
    server.heal();
    server.set_data_by_hand(BAD, "small").expect("set");
    assert_eq!(words(&mut changes).await, ["~/app/config/a"]);
    assert_eq!(cache.snapshot().get(BAD).and_then(|node| node.value()), Some(&b"small".to_vec()));
    server.clear_records();
    tokio::time::sleep(LONGEST * 2).await;
    assert!(!requests(&server).contains(&GetData), "it is not tried again");
}

#[tokio::test(start_paused = true)]
async fn what_can_be_read_again_is_found_without_an_event_and_is_one_change() {
    for of in [GetData, Exists, List] {
        let (server, client) = setup().await;
        let cache = tree(&client).await;
        server.fail_reads(BAD, of);
        let mut changes = cache.changes();
        match of {
            GetData => server.set_data_by_hand(BAD, "large").expect("set"),
            _ => {
                server.refuse(&client);
                server.disconnect(&client);
                create(&server, &[("/app/config/a/new", "")]);
                server.heal();
                server.fail_reads(BAD, of);
                if of == Exists {
                    server.fail_reads(BAD, GetData);
                }
                tokio::time::sleep(T).await;
            }
        }
        let now = within("synced", SOON, cache.synced()).await.expect("a snapshot");
        let is_listable = now.unlistable().next().is_none();
        assert_eq!((is_unreadable(&now, BAD), is_listable), (of != List, of == GetData), "{of:?}");
        assert!(now.is_fresh() && now.get("/app/config/a/x").is_some(), "{of:?}");
        server.heal();
        tokio::time::sleep(LONGEST).await;
        let now = cache.snapshot();
        assert_eq!((is_unreadable(&now, BAD), now.unlistable().count()), (false, 0), "{of:?}");
        let expected: &[&str] = match of {
            GetData => &["~/app/config/a", "~/app/config/a"],
            Exists => &["~/app/config/a", "synced", "~/app/config/a", "+/app/config/a/new"],
            _ => &["synced", "+/app/config/a/new"],
        };
        assert_eq!(words(&mut changes).await, expected, "{of:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_read_goes_with_its_deletion() {
    let (server, client) = setup().await;
    server.fail_reads("/app/config/b", GetData);
    let cache = tree(&client).await;
    server.delete_by_hand("/app/config/b").expect("deleted");
    server.until(|| cache.snapshot().len() == 5).await;
    server.clear_records();
    tokio::time::sleep(LONGEST * 2).await;
    let reads: Vec<Operation> = requests(&server);
    assert!(!reads.contains(&GetData), "it is forgotten: {reads:?}");
    server.create_by_hand("/app/config/b", "", CreateMode::Persistent).expect("created");
    let now = within("synced", SOON, cache.synced()).await.expect("a snapshot");
    assert!(is_unreadable(&now, "/app/config/b"));
}

#[tokio::test(start_paused = true)]
async fn a_root_that_cannot_be_read_or_listed_is_no_error_of_the_cache() {
    let (server, client) = setup().await;
    server.fail_reads(ROOT, GetData);
    server.fail_reads(ROOT, List);
    let cache = tree(&client).await;
    let now = cache.snapshot();
    assert!(is_unreadable(&now, ROOT));
    assert_eq!((now.len(), now.unlistable().collect::<Vec<_>>()), (1, vec![ROOT]));
    let children = Cache::children(&client, ROOT).start().await.expect("a cache");
    assert!(children.snapshot().is_empty());
    server.heal();
    tokio::time::sleep(SOON + Duration::from_secs(1)).await;
    assert_eq!((cache.snapshot().len(), children.snapshot().len()), (6, 3));
}
