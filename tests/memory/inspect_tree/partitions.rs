//! A partition assigner as an operator sees it.

use super::*;

/// The nodes of an assigner, one of whose members has the name of an item of a queue.
#[tokio::test(start_paused = true)]
async fn a_partition_assigner_and_what_it_costs() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let session = client.session_id();
    for (node, data, mode) in [
        ("", "", CreateMode::Persistent),
        ("/members", "", CreateMode::Persistent),
        ("/members/queue-0000000001~000000000000000a", "{}", CreateMode::Ephemeral),
        ("/assignments", "", CreateMode::Persistent),
        (
            "/assignments/queue-0000000001",
            r#"{"member":"000000000000000a","assigned":["0","1"],"held":["1","2"]}"#,
            CreateMode::Persistent,
        ),
        ("/assignments/gone", r#"{"member":"000000000000000b","assigned":["3"]}"#, CreateMode::Persistent),
        ("/owned", "", CreateMode::Persistent),
        ("/owned/1~000000000000000a.1", "", CreateMode::Ephemeral),
        ("/owned/2~000000000000000a.2", "", CreateMode::Ephemeral),
        ("/epoch", "x", CreateMode::Persistent),
        ("/config", r#"{"drained":["gone"],"rebalances":1}"#, CreateMode::Persistent),
        ("/leader", "", CreateMode::Persistent),
        ("/leader/_c_x-latch-0000000000", "queue-0000000001", CreateMode::Ephemeral),
    ] {
        client.create(&format!("/jobs{node}"), data, mode).await.expect("created");
    }
    let (tree, cost) = cost(&server, &client, "/jobs").await;
    // The path, its four directories, and the epoch; the member, two assignments, the configuration and the candidate.
    assert_eq!(cost, [6, 5, 0]);
    assert_eq!(paths(&tree), ["/jobs"], "its directories are parts of it");
    let Recipe::PartitionAssigner(assigner) = at(&tree, "/jobs") else { panic!("an assigner: {tree}") };
    assert_eq!((assigner.partitions, assigner.owned, &assigner.unreadable[..]), (4, 2, &[][..]));
    let [gone, present] = &assigner.members[..] else { panic!("two members: {tree}") };
    assert_eq!((gone.is_present(), gone.is_drained, &gone.assigned[..]), (false, true, &["3".to_owned()][..]));
    assert_eq!((present.is_returning, sessions(&present.nodes)), (false, vec![session]));
    assert_eq!(present.handing_over().collect::<Vec<_>>(), ["2"]);
    assert_eq!(assigner.leader.holders().map(|place| place.session_id()).collect::<Vec<_>>(), [session]);

    server.deny("/jobs/assignments/gone");
    let found = inspect::tree(&client, "/jobs").await.expect("the tree");
    assert_eq!(found.denied, ["/jobs/assignments/gone"]);
    let Recipe::PartitionAssigner(assigner) = at(&found, "/jobs") else { panic!("an assigner: {found}") };
    let unreadable: Vec<_> = assigner.unreadable.iter().map(|record| record.path.as_str()).collect();
    assert_eq!(unreadable, ["/jobs/assignments/gone"]);
}
