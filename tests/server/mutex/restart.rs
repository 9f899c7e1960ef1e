//! The server restarts while one client holds and another waits.

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

use super::fixture::{SOON, builder, connect, mutex, released};
use crate::support::{Observer, ZooKeeper, unique_path, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_and_waiter_both_finish_when_the_server_is_restarted() {
    let server = ZooKeeper::start().await;
    let path = unique_path("restart");
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        let client = |policy| connect(builder(&server.connect_string(), Duration::from_secs(10)).error_policy(policy));
        let (one, two) = (client(policy).await, client(policy).await);
        let guard = super::fixture::acquired(&mutex(&one, &path)).await;
        let waiting = mutex(&two, &path);
        let waiting = tokio::spawn(async move { waiting.acquire().await });
        Observer::connect(&server.connect_string()).await.wait_for_children(&path, 2).await;
        let token = guard.fencing_token();
        server.restart().await;
        // Lost or not, by the policy and by how long it took: to let go works in the end.
        within("the holder lets go", SOON * 2, async move { drop(guard.release().await) }).await;
        let next = within("its turn comes", SOON * 2, waiting).await.expect("no panic").expect("held");
        assert!(next.fencing_token() > token && next.is_held());
        released(next).await;
        Observer::connect(&server.connect_string()).await.wait_for_children(&path, 0).await;
    }
}
