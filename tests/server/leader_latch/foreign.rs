//! Curator's names and data as a real server has them, and containers that it removes.

use super::fixture::{Fixture, latch, leads, name_of, waits};

fn is_uuid(text: &str) -> bool {
    let groups: Vec<_> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.concat().bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn name_data_owner_and_parents_of_a_node_are_curators() {
    let fixture = Fixture::new("format").await;
    let client = fixture.client().await;
    let dir = format!("{}/deep/line", fixture.path);
    let mut latches = Vec::new();
    for (expected_number, id) in ["node-1", "", "größer"].into_iter().enumerate() {
        let latch = latch(&client, &dir, id);
        if expected_number == 0 {
            leads(&latch).await;
        } else {
            waits(&latch).await;
        }
        let node = latch.our_path().expect("it has a node");
        let uuid_and_number = name_of(&node).strip_prefix("_c_").expect("protected");
        let (uuid, number) = uuid_and_number.rsplit_once("-latch-").expect("a latch");
        assert!(is_uuid(uuid), "{uuid}");
        assert_eq!(number, format!("{expected_number:010}"));
        let (data, stat) = fixture.observer.get(&node).await.expect("the node exists");
        assert_eq!(data, id.as_bytes());
        assert_eq!(Some(stat.ephemeral_owner), client.session_id());
        latches.push(latch);
    }
    assert_eq!(fixture.observer.data(&dir).await.as_deref(), Some(&b""[..]));
    for latch in latches {
        latch.close().await.expect("closed");
    }
    // Containers: the server removes them once they are empty, from the bottom up.
    fixture.observer.wait_until_gone(&dir).await;
    fixture.observer.wait_until_gone(&fixture.path).await;
}
