//! Numbered nodes.

use zookeeper_recipes::persistent_node::{NodeMode, PersistentNode};

use super::fixture::{DIR, is_there, present, settle, setup};

#[tokio::test(start_paused = true)]
async fn each_gets_a_number_and_keeps_it_with_its_data() {
    let (server, [client, other]) = setup().await;
    let start = |client, data: &str| {
        let builder = PersistentNode::builder(client, format!("{DIR}/n-")).data(data);
        builder.mode(NodeMode::EphemeralSequential).start().expect("it starts")
    };
    let mut nodes = Vec::new();
    for (number, owner) in [&client, &other, &client].into_iter().enumerate() {
        let node = start(owner, &number.to_string());
        let path = node.created().await.expect("created");
        let name = path.strip_prefix(&format!("{DIR}/_c_")).expect("protected");
        assert_eq!(&name[36..], format!("-n-{number:010}"), "{path}");
        nodes.push((node, path, owner));
    }
    server.expire_session(&client);
    settle().await;
    for (number, (node, path, owner)) in nodes.iter().enumerate() {
        present(node).await;
        is_there(&server, owner, path, &number.to_string());
        node.set_data("new").await.expect("written");
        is_there(&server, owner, path, "new");
    }
    assert_eq!(server.children(DIR).len(), 3);
    for (node, ..) in &nodes {
        node.close().await.expect("closed");
    }
    assert!(server.children(DIR).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_create_that_may_not_be_looked_for_ends_in_one_node_when_it_may() {
    use zookeeper_recipes::testing::{Loss, Operation};

    let (server, [client]) = setup().await;
    server.lose_next_reply(&client, Operation::Create, Loss::Applied);
    let builder = PersistentNode::builder(&client, format!("{DIR}/n-")).mode(NodeMode::EphemeralSequential);
    let node = builder.start().expect("it starts");
    server.until(|| !server.children(DIR).is_empty()).await;
    server.deny(DIR);
    node.created().await.expect_err("it may not be looked for");
    tokio::time::sleep(crate::fixture::T).await;
    assert_eq!(server.children(DIR).len(), 1, "no further node is made");
    server.allow(DIR);
    present(&node).await;
    assert_eq!(server.children(DIR).len(), 1);
    node.close().await.expect("closed");
    assert!(server.children(DIR).is_empty());
}
