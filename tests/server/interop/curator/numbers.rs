//! Numbers that participants of both libraries add to, all at once.

use futures::future::join_all;

use super::Curator;
use crate::fixture::Fixture;
use crate::interop::judge::Judge;
use crate::interop::{EACH, PATIENCE};
use crate::support::within;

/// How often each participant adds one.
const TURNS: usize = 60;

/// Lets Curator's participants add to the number at the path of the fixture, and waits for them and for ours.
async fn together(fixture: &Fixture, recipe: &str, ours: impl Future<Output = ()>) {
    let judge = Judge::start().await;
    let mut curator = Curator::start(&fixture.server.connect_string(), judge.addr(), EACH).await;
    let command = format!("{recipe} {TURNS} {}", fixture.path);
    let both = async { tokio::join!(curator.ask(&command), ours) };
    let (answer, ()) = within("all have added", PATIENCE, both).await;
    assert_eq!(answer, "done");
}

#[cfg(feature = "atomic-long")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn no_addition_to_an_atomic_long_is_lost() {
    use zookeeper_recipes::atomic_long::DistributedAtomicLong;
    let fixture = Fixture::new("curator-long").await;
    let client = fixture.client().await;
    let handles: Vec<_> =
        (0..EACH).map(|_| DistributedAtomicLong::new(&client, &fixture.path).expect("a number")).collect();
    let ours = join_all(handles.iter().map(|number| async move {
        for _ in 0..TURNS {
            number.increment().await.expect("added");
        }
    }));
    together(&fixture, "long", async { drop(ours.await) }).await;
    assert_eq!(handles[0].get().await.expect("the number"), (2 * EACH * TURNS) as i64);
}

#[cfg(feature = "shared-value")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a JDK and Curator's jars; .ci/full runs it"]
async fn no_addition_to_a_shared_count_is_lost() {
    use zookeeper_recipes::shared_value::SharedCount;
    let fixture = Fixture::new("curator-count").await;
    let client = fixture.client().await;
    let mut handles = Vec::new();
    for _ in 0..EACH {
        handles.push(SharedCount::count(&client, &fixture.path).seed(0).start().await.expect("a count"));
    }
    let ours = join_all(handles.iter().map(|count| async move {
        for _ in 0..TURNS {
            count.update(|number| Some(number + 1)).await.expect("written").expect("it is added always");
        }
    }));
    together(&fixture, "count", async { drop(ours.await) }).await;
    assert_eq!(*handles[0].synced().await.expect("the count"), (2 * EACH * TURNS) as i32);
}
