//! Curator's leader latch in a line with ours, some of which are asked to resign.

use std::time::Duration;

use zookeeper_recipes::leader_latch::{LeaderLatch, ResignError, ask_to_resign, transfer};

use super::Curator;
use crate::interop::{PATIENCE, connect};
use crate::latches::askable;
use crate::support::{ZooKeeper, eventually, unique_path, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn a_latch_of_curator_is_never_asked_and_can_be_chosen() {
    let server = ZooKeeper::shared().await;
    let path = unique_path("curator-latch");
    let client = connect(server.connect_string()).await;
    let mut curator = Curator::latch(&server.connect_string(), &path, "java").await;
    let (one, two) = (askable(&client, &path, "one").await, askable(&client, &path, "two").await);
    within("it leads", PATIENCE, one.wait_for_leadership()).await.expect("it leads");
    assert_eq!(curator.ask("start").await, "ok");
    let javas = || async {
        let all = client.children(&path).await.expect("the line");
        all.len() == 3
    };
    eventually("Curator is in the line", PATIENCE, javas).await;
    let last = askable(&client, &path, "last").await;

    ask_to_resign(&client, &one.our_path().expect("it leads")).await.expect("asked");
    within("the next one leads", PATIENCE, two.wait_for_leadership()).await.expect("it leads");
    assert_eq!(curator.ask("leader").await, "two", "getLeader() of Curator");
    let refused = transfer(&client, &path, "last", PATIENCE).await.expect_err("Curator is before it");
    let node = last.participants().await.expect("read").into_iter().find(|one| one.id == "java").expect("it is there");
    assert!(
        matches!(&refused, ResignError::NotRevocable { participants, .. } if *participants == [node.path.clone()]),
        "{refused}"
    );

    let leader = transfer(&client, &path, "java", PATIENCE).await.expect("transferred");
    assert_eq!(leader.path, node.path);
    assert_eq!((curator.ask("await").await.as_str(), curator.ask("leader").await.as_str()), ("leads", "java"));
    let refused = ask_to_resign(&client, &node.path).await.expect_err("Curator cannot be asked");
    assert!(matches!(refused, ResignError::NotRevocable { .. }), "{refused}");
    let mut ids: Vec<String> = curator.ask("participants").await.split(' ').map(str::to_owned).collect();
    ids.sort();
    assert_eq!(ids, ["java", "last", "one", "two"]);
    assert_eq!(curator.ask("close").await, "ok");
    within("the next one leads", PATIENCE, last.wait_for_leadership()).await.expect("it leads");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn a_latch_of_curator_takes_part_in_a_line_with_priorities() {
    let server = ZooKeeper::shared().await;
    let path = unique_path("curator-priority");
    let client = connect(server.connect_string()).await;
    let ranked = |id: &str, priority: u32| {
        let latch = LeaderLatch::builder(&client, &path).id(id).priority(priority).revocable(Duration::ZERO);
        latch.start().expect("the latch starts")
    };
    let mut curator = Curator::latch(&server.connect_string(), &path, "java").await;
    let worse = ranked("worse", 5);
    within("it leads", PATIENCE, worse.wait_for_leadership()).await.expect("it leads");
    assert_eq!(curator.ask("start").await, "ok");
    let line = |expected: &'static [&'static str]| {
        let worse = &worse;
        eventually("the line is as expected", PATIENCE, move || async move {
            let all = worse.participants().await.expect("read");
            all.iter().map(|one| one.id.as_str()).eq(expected.iter().copied())
        })
    };
    line(&["worse", "java"]).await;
    // It is behind Curator's member, which neither steps back nor can ask.
    let _better = ranked("better", 1);
    line(&["worse", "java", "better"]).await;
    assert_eq!(curator.ask("leader").await, "worse", "getLeader() of Curator");
    let leadership = within("it leads", PATIENCE, worse.wait_for_leadership()).await.expect("it leads");
    worse.resign(&leadership).await;
    assert_eq!((curator.ask("await").await.as_str(), curator.ask("leader").await.as_str()), ("leads", "java"));
    line(&["java", "better", "worse"]).await;
    let mut ids: Vec<String> = curator.ask("participants").await.split(' ').map(str::to_owned).collect();
    ids.sort();
    assert_eq!(ids, ["better", "java", "worse"]);
    // The next in line steps back for a better one, while Curator leads.
    let best = ranked("best", 0);
    line(&["java", "best", "better", "worse"]).await;
    assert_eq!(curator.ask("close").await, "ok");
    within("the best one leads", PATIENCE, best.wait_for_leadership()).await.expect("it leads");
}
