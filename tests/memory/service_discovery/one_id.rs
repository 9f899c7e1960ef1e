//! One id in several processes or sessions: one node at a time, and none is taken from its owner.

use futures::FutureExt;
use zookeeper_recipes::Client;
use zookeeper_recipes::persistent_node::NodeState;
use zookeeper_recipes::service_discovery::{Error, ServiceDiscovery};
use zookeeper_recipes::testing::{Data, Loss, Operation, TestingServer};

use super::fixture::{API, BASE, Discovery, client, described, ids, instance, register, service, settle, setup, words};
use crate::fixture::{SOON, T, still_pending, within};

fn patient(client: &Client) -> Discovery {
    ServiceDiscovery::builder(client, BASE).wait().build().expect("a good path")
}

/// The session that has the instance `a`.
fn owner(server: &TestingServer) -> Option<i64> {
    server.stat(&format!("{API}/a")).map(|stat| stat.ephemeral_owner)
}

#[tokio::test(start_paused = true)]
async fn two_processes_with_one_id_do_not_replace_each_other() {
    let (server, [(one, _), (two, _)]) = setup().await;
    let looks = client(&server).await;
    let api = service(&patient(&looks)).await;
    let mut changes = api.changes();
    let first = register(&patient(&one), "a").await;
    let other = described("a").payload("other".to_owned()).build().expect("good");
    let waiting = patient(&two);
    let mut registering = Box::pin(waiting.register(other));
    still_pending("the id is taken", &mut registering).await;
    tokio::time::sleep(T * 5).await;
    assert_eq!((owner(&server), words(&mut changes).await), (one.session_id(), vec!["+a".to_owned()]));

    // Its session ends, and it comes back: the other one has the id by then.
    server.refuse(&one);
    server.expire_session(&one);
    let second = within("it follows", SOON, registering).await.expect("registered");
    server.heal();
    let waits = server.until(|| first.state().get() == NodeState::Waiting);
    within("it waits", T, waits).await;
    tokio::time::sleep(T * 5).await;
    assert_eq!(owner(&server), two.session_id());
    assert_eq!(words(&mut changes).await, ["-a", "+a"], "one hand-over");
    assert_eq!(*api.next().expect("an instance"), second.instance());

    second.unregister().await.expect("unregistered");
    within("the first one follows", SOON, server.until(|| owner(&server) == one.session_id())).await;
    assert_eq!(words(&mut changes).await, ["-a", "+a"]);
    assert_eq!(*api.next().expect("an instance"), first.instance());
}

/// The former process only seems to have crashed: it goes on later.
#[tokio::test(start_paused = true)]
async fn a_process_that_starts_again_with_its_id_keeps_it_whatever_the_former_one_does() {
    for closes in [true, false] {
        let (server, [(former, first), (_, second)]) = setup().await;
        let of_former = register(&first, "a").await;
        let api = service(&second).await;
        server.freeze_client(&former);
        let next = client(&server).await;
        let error = ServiceDiscovery::<String>::new(&next, BASE).expect("a good path");
        let error = error.register(instance("a")).await.expect_err("the session of the former one lives");
        assert!(matches!(error, Error::Taken { session, .. } if Some(session) == owner(&server)), "{error}");
        let other = described("a").payload("next".to_owned()).build().expect("good");
        let _of_next = within("the id is free", T * 2, patient(&next).register(other)).await.expect("registered");
        let node = server.stat(&format!("{API}/a"));
        assert_eq!(owner(&server), next.session_id());

        // What it wants then comes late.
        assert!(of_former.set_enabled(false).now_or_never().is_none());
        if closes {
            assert!(of_former.unregister().now_or_never().is_none());
        }
        server.thaw_client(&former);
        if closes {
            within("it ends", T, of_former.unregister()).await.expect("unregistered");
        }
        tokio::time::sleep(T * 3).await;
        drop(of_former);
        settle().await;
        assert_eq!(server.stat(&format!("{API}/a")), node, "closes: {closes}");
        assert_eq!(api.next().and_then(|found| found.payload().cloned()).as_deref(), Some("next"));
    }
}

/// The servers still have the former session while the client has another one already.
#[tokio::test(start_paused = true)]
async fn an_instance_of_a_former_session_is_replaced_when_that_ends() {
    let (server, [(one, first), (_, second)]) = setup().await;
    let registration = register(&first, "a").await;
    let api = service(&second).await;
    let former = one.session_id();
    // The servers let no session expire while they are stopped.
    server.stop();
    within("it is given up", T * 2, server.until(|| one.session_id() != former)).await;
    server.restart(Data::Kept);
    within("there is another", T, server.until(|| one.session_id().is_some())).await;
    let error = within("it is taken", SOON, first.register(instance("a"))).await.expect_err("by the former session");
    assert!(matches!(error, Error::Taken { session, .. } if Some(session) == former), "{error}");
    assert_eq!((owner(&server), ids(&api)), (former, vec!["a".to_owned()]));
    within("it is replaced", T * 2, server.until(|| owner(&server) == one.session_id())).await;
    tokio::time::sleep(T * 3).await;
    assert_eq!((owner(&server), ids(&api)), (one.session_id(), vec!["a".to_owned()]));
    assert_eq!(registration.state().get(), NodeState::Present);
}

/// The only node with the id is that of the call itself, from a session that its client has given up.
#[tokio::test(start_paused = true)]
async fn a_registration_waits_for_the_end_of_its_own_former_session() {
    let (server, [(one, first), _]) = setup().await;
    one.create_containers(API).await.expect("created");
    let former = one.session_id();
    server.lose_next_reply(&one, Operation::Create, Loss::Applied);
    let losing = async {
        server.until(|| owner(&server).is_some()).await;
        server.stop();
        within("it is given up", T * 2, server.until(|| one.session_id() != former)).await;
        server.restart(Data::Kept);
        within("there is another", T, server.until(|| one.session_id().is_some())).await;
        assert_eq!((owner(&server), server.lost_replies()), (former, 1));
    };
    let (registered, ()) = tokio::join!(first.register(instance("a")), losing);
    let _registration = registered.expect("registered");
    assert_eq!(owner(&server), one.session_id());
}
