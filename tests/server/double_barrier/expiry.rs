//! Sessions that end: which no test of Curator's covers.

use std::time::Duration;

use zookeeper_recipes::{ErrorKind, ErrorPolicy};

use super::fixture::{Fixture, SOON, leave_all, member, still_pending};
use crate::support::{Fault, within};

const SESSION: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_killed_while_entering_is_an_error_and_its_member_is_not_counted() {
    let fixture = Fixture::with_directory("entering").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let (one, two) = (member(&client, &fixture.path, 2), member(&fixture.client().await, &fixture.path, 2));
    let mut entering = Box::pin(one.enter());
    still_pending("alone", &mut entering).await;
    proxy.kill_session().await;
    proxy.cut().await;
    let error = within("an error", SOON, entering).await.expect_err("its session is over");
    assert!(error.kind() == ErrorKind::SessionLost && error.is_lost(), "{error}");
    let mut alone = Box::pin(two.enter());
    still_pending("alone with a dead one", &mut alone).await;
    let (again, other) = within("both", SOON, async { tokio::join!(one.enter(), alone) }).await;
    again.expect("in");
    other.expect("in");
    leave_all(&[one, two]).await;
    assert!(fixture.nodes().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_killed_inside_or_while_leaving_is_an_error_and_delays_no_other_member() {
    for while_leaving in [false, true] {
        let fixture = Fixture::with_directory("inside").await;
        let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Session).await;
        let (one, two) = (member(&client, &fixture.path, 2), member(&fixture.client().await, &fixture.path, 2));
        let (one_in, two_in) = within("both", SOON, async { tokio::join!(one.enter(), two.enter()) }).await;
        one_in.expect("in");
        two_in.expect("in");
        let mut leaving = Box::pin(one.leave());
        if while_leaving {
            still_pending("the other is inside", &mut leaving).await;
        }
        proxy.kill_session().await;
        proxy.cut().await;
        let error = match while_leaving {
            true => within("an error", SOON, leaving).await.expect_err("its session is over"),
            false => {
                crate::support::eventually("it knows", SOON, || async {
                    client.session_id() != proxy.sessions().first().map(|session| session.id)
                })
                .await;
                within("an error", SOON, leaving).await.expect_err("its session is over")
            }
        };
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
        within("the other leaves", SOON, two.leave()).await.expect("out");
        let (one_in, two_in) = within("again", SOON, async { tokio::join!(one.enter(), two.enter()) }).await;
        one_in.expect("in");
        two_in.expect("in");
        leave_all(&[one, two]).await;
        assert!(fixture.nodes().await.is_empty());
    }
}

/// Its process is as good as stopped: nothing comes through any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_falls_silent_inside_is_waited_for_until_its_session_is_over() {
    let fixture = Fixture::with_directory("silent").await;
    let (proxy, client) = fixture.client_behind_proxy(SESSION, ErrorPolicy::Standard).await;
    let (one, two) = (member(&client, &fixture.path, 2), member(&fixture.client().await, &fixture.path, 2));
    let (one_in, two_in) = within("both", SOON, async { tokio::join!(one.enter(), two.enter()) }).await;
    one_in.expect("in");
    two_in.expect("in");
    proxy.set(Fault::BlackHole).await;
    let mut leaving = Box::pin(two.leave());
    still_pending("its session is alive", &mut leaving).await;
    within("its session is over", SOON, leaving).await.expect("out");
    let error = within("it knows", SOON, one.leave()).await.expect_err("its session is over");
    assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    proxy.set(Fault::Pass).await;
    crate::support::eventually("nothing is left", SOON, || async { fixture.nodes().await.is_empty() }).await;
}
