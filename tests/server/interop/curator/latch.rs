//! Curator's leader latch in a line with ours, some of which are asked to resign.

use zookeeper_recipes::leader_latch::{ResignError, ask_to_resign, transfer};

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
