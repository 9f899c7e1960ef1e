//! Members come and go, and what one had is refused once another has it.

use zookeeper_recipes::partition_assigner::{Error, Owned, PartitionAssigner};
use zookeeper_recipes::{Client, ErrorKind};

use super::fixture::{Fixture, SOON, have, member, nodes, tokens};
use crate::support::{unique_path, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_come_and_go_share_the_partitions() {
    let fixture = Fixture::new("assigner").await;
    let base = fixture.path.as_str();
    let first = fixture.client().await;
    let one = member(&first, base, "one").await;
    have(&[&one], &[12]).await;
    let two = member(&fixture.client().await, base, "two").await;
    have(&[&one, &two], &[6, 6]).await;
    let three = member(&fixture.client().await, base, "three").await;
    have(&[&one, &two, &three], &[4, 4, 4]).await;
    let four = member(&fixture.client().await, base, "four").await;
    let all = [&one, &two, &three, &four];
    have(&all, &[3, 3, 3, 3]).await;
    assert!(one.is_leader() && !two.is_leader() && !three.is_leader() && !four.is_leader());
    assert_eq!(nodes(&fixture.observer, base).await, [4, 4, 12, 4]);

    // The leader's session ends, as its client is closed.
    let before = tokens(&all[1..]);
    first.close().await.expect("closed");
    have(&all, &[0, 4, 4, 4]).await;
    assert!(two.is_leader() && !one.is_leader());
    let after = tokens(&all[1..]);
    assert!(before.iter().all(|(name, token)| after[name] == *token), "who stays keeps what it has");
    within("it leaves", SOON, four.leave()).await;
    have(&all, &[0, 6, 6, 0]).await;
    assert_eq!(nodes(&fixture.observer, base).await, [2, 2, 12, 2]);
    let five = member(&fixture.client().await, base, "five").await;
    have(&[&two, &three, &five], &[4, 4, 4]).await;
    for member in [five, three, two] {
        within("it leaves", SOON, member.leave()).await;
    }
    assert_eq!(nodes(&fixture.observer, base).await, [0; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_transaction_is_refused_after_the_hand_over() {
    let fixture = Fixture::new("fenced").await;
    let base = fixture.path.as_str();
    let resource = unique_path("resource");
    fixture.observer.create(&resource, b"").await;
    let (client, other) = (fixture.client().await, fixture.client().await);
    let one = member(&client, base, "one").await;
    have(&[&one], &[12]).await;
    let before = one.assigned();
    let write = |client: &Client, partition: &Owned, data: &'static str| {
        client.transaction().check(&partition.fence()).set_data(&resource, data, None).commit()
    };
    for partition in &before {
        write(&client, partition, "one").await.expect("it holds");
    }
    let two = member(&other, base, "two").await;
    have(&[&one, &two], &[6, 6]).await;
    for partition in two.assigned() {
        let old = before.iter().find(|old| old.id() == partition.id()).expect("one had all");
        assert!(partition.fencing_token() > old.fencing_token());
        write(&other, &partition, "two").await.expect("it holds");
        let refused = write(&client, old, "late").await.expect_err("it was handed over");
        assert_eq!(refused.kind(), ErrorKind::Fenced);
    }
    for partition in one.assigned() {
        write(&client, &partition, "one").await.expect("it still holds");
    }
    assert_eq!(fixture.observer.data(&resource).await.as_deref(), Some(&b"one"[..]));
}

/// Of one and the same id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_member_with_an_id_gets_nothing_until_the_first_is_gone() {
    let fixture = Fixture::new("sameid").await;
    let base = fixture.path.as_str();
    let first = fixture.client().await;
    let one = member(&first, base, "one").await;
    have(&[&one], &[12]).await;
    let before = tokens(&[&one]);
    let again = member(&fixture.client().await, base, "one").await;
    let other = member(&fixture.client().await, base, "other").await;
    have(&[&one, &again, &other], &[6, 0, 6]).await;
    first.close().await.expect("closed");
    have(&[&one, &again, &other], &[0, 6, 6]).await;
    let after = tokens(&[&again]);
    assert!(after.iter().all(|(name, token)| *token > before[name]), "{after:?} after {before:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_path_of_another_recipe_of_kazoos_is_refused() {
    let fixture = Fixture::with_directory("foreign").await;
    for foreign in ["locks", "party"] {
        let base = format!("{}/{foreign}-base", fixture.path);
        fixture.observer.create_all(&format!("{base}/{foreign}")).await;
        let joining = PartitionAssigner::builder(&fixture.client().await, &base).partitions(0..2).join();
        let refused = within("an answer", SOON, joining).await.expect_err("it is refused");
        assert!(matches!(&refused, Error::ForeignPath { node, .. } if node == foreign), "{refused}");
        assert_eq!(fixture.observer.children(&base).await, [foreign], "nothing was created");
    }
}
