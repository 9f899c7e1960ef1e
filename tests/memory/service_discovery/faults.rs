//! Sessions that end, nodes that are deleted, outages, nodes that cannot be read.

use zookeeper_recipes::testing::{Data, Loss, Operation};
use zookeeper_recipes::{Acl, CreateMode, ErrorKind, Permissions};

use super::fixture::{
    API, chosen, client, described, discovery, ids, instance, register, service, settle, setup, words,
};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn in_an_outage_the_instances_stay_and_grow_old() {
    let (server, [(_, first), (two, second)]) = setup().await;
    let _a = register(&first, "a").await;
    let b = register(&first, "b").await;
    let api = service(&second).await;
    let mut changes = api.changes();
    server.refuse(&two);
    server.disconnect(&two);
    b.unregister().await.expect("unregistered");
    let _c = register(&first, "c").await;
    tokio::time::sleep(T / 2).await;
    assert_eq!(ids(&api), ["a", "b"]);
    assert_eq!(chosen(&api, 4), ["a", "b"]);
    assert!(api.instances().age() >= T / 2 && !api.instances().is_fresh());
    server.heal();
    assert_eq!(words(&mut changes).await, ["-b", "+c", "synced"]);
    assert_eq!(ids(&api), ["a", "c"]);
    assert!(api.instances().is_fresh());
}

/// Its session is lost, and all its watches with that.
#[tokio::test(start_paused = true)]
async fn after_an_outage_longer_than_the_session_none_is_stale_and_changes_are_reported_again() {
    let (server, [(_, first), (two, second)]) = setup().await;
    let a = register(&first, "a").await;
    let b = register(&first, "b").await;
    let api = service(&second).await;
    let mut changes = api.changes();
    server.refuse(&two);
    server.expire_session(&two);
    b.unregister().await.expect("unregistered");
    let c = register(&first, "c").await;
    tokio::time::sleep(T * 3).await;
    assert_eq!(chosen(&api, 4), ["a", "b"]);
    server.heal();
    within("it is connected", T, server.until(|| api.instances().is_fresh())).await;
    assert_eq!(words(&mut changes).await, ["-b", "+c", "synced"]);
    assert_eq!(
        (ids(&api), chosen(&api, 4)),
        (vec!["a".to_owned(), "c".to_owned()], vec!["a".to_owned(), "c".to_owned()])
    );
    // Later, the last one as well.
    tokio::time::sleep(T * 2).await;
    for (registration, gone) in [(a, "-a"), (c, "-c")] {
        registration.unregister().await.expect("unregistered");
        assert_eq!(words(&mut changes).await, [gone]);
    }
    assert_eq!((api.instances().len(), api.next()), (0, None));
}

/// The process that looks and the one that is looked for lose their sessions in the same outage.
#[tokio::test(start_paused = true)]
async fn instances_that_are_gone_after_an_outage_are_chosen_until_they_come_back() {
    let (server, [(one, first), (two, second)]) = setup().await;
    let _a = register(&first, "a").await;
    let api = service(&second).await;
    for back in [true, false] {
        for client in [&two, &one] {
            server.refuse(client);
            server.expire_session(client);
        }
        tokio::time::sleep(T * 3).await;
        assert_eq!(
            (ids(&api), chosen(&api, 2)),
            (vec!["a".to_owned()], vec!["a".to_owned()]),
            "it has heard of nothing else"
        );
        // The first one is still away.
        server.heal();
        server.refuse(&one);
        within("the loss is seen", T, server.until(|| api.instances().is_empty())).await;
        settle().await;
        assert_eq!(chosen(&api, 2), ["a"], "it may be on its way");
        if back {
            server.heal();
            within("it is back", T, api.wait_for(1)).await.expect("instances");
            assert_eq!(chosen(&api, 2), ["a"]);
            tokio::time::sleep(T * 3).await;
        } else {
            tokio::time::sleep(T * 2).await;
            assert_eq!(api.next(), None, "it has not come back");
        }
    }
}

/// All processes lose their sessions, and come back one after the other.
#[tokio::test(start_paused = true)]
async fn the_first_that_are_back_after_an_outage_do_not_get_the_calls_for_all() {
    let (server, [_, (two, second)]) = setup().await;
    let mut registrations = Vec::new();
    for id in ["a", "b", "c", "d"] {
        let client = client(&server).await;
        registrations.push((register(&discovery(&client), id).await, client));
    }
    let api = service(&second).await;
    for client in registrations.iter().map(|(_, client)| client).chain([&two]) {
        server.refuse(client);
        server.expire_session(client);
    }
    tokio::time::sleep(T * 3).await;
    server.heal();
    registrations.iter().for_each(|(_, client)| server.refuse(client));
    within("the loss is seen", T, server.until(|| api.instances().is_empty())).await;
    for (back, expected) in [(1, &["a", "b", "c", "d"][..]), (2, &["a", "b"]), (3, &["a", "b", "c"])] {
        server.heal();
        registrations[back..].iter().for_each(|(_, client)| server.refuse(client));
        within("it is back", T, api.wait_for(back)).await.expect("instances");
        settle().await;
        assert_eq!(chosen(&api, 8), expected, "{back} are back");
    }
}

/// The sessions of the others have outlived the outage as well, so what is gone has ended.
#[tokio::test(start_paused = true)]
async fn after_an_outage_that_the_session_outlives_only_those_that_are_there_are_chosen() {
    let (server, [(_, first), (two, second)]) = setup().await;
    let [_a, b, c] = [register(&first, "a").await, register(&first, "b").await, register(&first, "c").await];
    let api = service(&second).await;
    server.refuse(&two);
    server.disconnect(&two);
    for registration in [b, c] {
        registration.unregister().await.expect("unregistered");
    }
    tokio::time::sleep(T / 2).await;
    server.heal();
    within("it is seen", T, api.wait_until(|now| now.len() == 1)).await.expect("instances");
    assert_eq!(chosen(&api, 6), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn reports_count_among_instances_that_are_gone_after_an_outage() {
    let (server, [(one, first), (two, second)]) = setup().await;
    let _a = register(&first, "a").await;
    let _b = register(&first, "b").await;
    let api = service(&second).await;
    for client in [&two, &one] {
        server.refuse(client);
        server.expire_session(client);
    }
    tokio::time::sleep(T * 3).await;
    server.heal();
    server.refuse(&one);
    within("the loss is seen", T, server.until(|| api.instances().is_empty())).await;
    settle().await;
    let failing = api.next().expect("one of before");
    api.report_error(&failing);
    api.report_error(&failing);
    settle().await;
    let other = chosen(&api, 6);
    assert!(other.len() == 1 && other[0] != failing.id(), "{other:?}");
}

#[tokio::test(start_paused = true)]
async fn instances_that_are_unregistered_without_an_outage_are_gone_at_once() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let a = register(&first, "a").await;
    let api = service(&second).await;
    a.unregister().await.expect("unregistered");
    settle().await;
    assert_eq!(api.next(), None);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_by_hand_comes_back() {
    let (server, [(_, first), (_, second)]) = setup().await;
    let _a = register(&first, "a").await;
    let api = service(&second).await;
    let mut changes = api.changes();
    server.delete_by_hand(&format!("{API}/a")).expect("deleted");
    settle().await;
    assert_eq!(words(&mut changes).await, ["-a", "+a"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_makes_one_node() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, [(one, first), (_, second)]) = setup().await;
        server.lose_next_reply(&one, Operation::Create, loss);
        let a = within("it is registered", T, first.register(instance("a"))).await.expect("registered");
        assert_eq!(server.children(API), ["a"]);
        server.lose_next_reply(&one, Operation::Delete, loss);
        within("it is unregistered", T, a.unregister()).await.expect("unregistered");
        assert_eq!(server.children(API), [""; 0]);
        assert!(service(&second).await.instances().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_past_its_session_is_found_again() {
    let (server, [(one, first), (_, second)]) = setup().await;
    let _a = register(&first, "a").await;
    let api = service(&second).await;
    server.freeze_client(&one);
    within("it is gone", T * 3, server.until(|| api.instances().is_empty())).await;
    server.thaw_client(&one);
    within("it is back", T * 3, api.wait_for(1)).await.expect("instances");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_read_does_not_hide_the_others() {
    let (server, [(one, first), (two, second)]) = setup().await;
    let _a = register(&first, "a").await;
    server.create_by_hand(&format!("{API}/bad"), "{", CreateMode::Persistent).expect("a new node");
    let other = zookeeper_recipes::Client::builder_for_testing(&server);
    let hidden = Acl::new(Permissions::WRITE, "world", "anyone");
    let other = other.acls([hidden]).connect().await.expect("a client");
    other.create(&format!("{API}/denied"), "{}", CreateMode::Persistent).await.expect("a new node");
    let api = service(&second).await;
    assert_eq!(ids(&api), ["a"]);
    let unreadable: Vec<_> = api.instances().unreadable().map(|node| node.name().to_owned()).collect();
    assert_eq!(unreadable, ["bad", "denied"]);
    let mut changes = api.changes();
    server.set_data_by_hand(&format!("{API}/a"), "?").expect("it is there");
    assert_eq!(words(&mut changes).await, ["-a", "?a"]);
    assert_eq!(api.next(), None);
    drop((one, two));
}

#[tokio::test(start_paused = true)]
async fn without_permission_a_registration_fails() {
    let (server, [(_, first), _]) = setup().await;
    let read = Acl::new(Permissions::READ, "world", "anyone");
    let other = zookeeper_recipes::Client::builder_for_testing(&server).acls([read]).connect().await.expect("a client");
    other.create("/services", "", CreateMode::Persistent).await.expect("a new node");
    let error = first.register(instance("a")).await.expect_err("no permission");
    assert_eq!(error.kind(), ErrorKind::NoAuth);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_is_refused_changes_nothing() {
    let (server, [(one, first), (_, second)]) = setup().await;
    let a = register(&first, "a").await;
    let api = service(&second).await;
    let large = described("a").payload("x".repeat(2 << 20)).build().expect("good");
    assert_eq!(a.update(large).await.expect_err("too large").kind(), ErrorKind::InvalidArgument);
    assert_eq!(a.instance(), instance("a"));
    server.expire_session(&one);
    within("it is gone", T, server.until(|| api.instances().is_empty())).await;
    within("it is back", T, api.wait_for(1)).await.expect("instances");
    assert_eq!(*api.next().expect("an instance"), instance("a"));
}

#[tokio::test(start_paused = true)]
async fn of_two_updates_at_once_the_later_one_counts_everywhere() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let a = register(&first, "a").await;
    let api = service(&second).await;
    let with_port = |port| described("a").port(port).build().expect("good");
    let (one, two) = futures::join!(a.update(with_port(1)), a.update(with_port(2)));
    one.and(two).expect("written");
    settle().await;
    assert_eq!(*api.next().expect("an instance"), a.instance());
    assert_eq!(a.instance().port(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_ends_it() {
    let (_server, [(one, first), _]) = setup().await;
    let a = register(&first, "a").await;
    let api = service(&first).await;
    let mut changes = api.changes();
    one.close().await.expect("closed");
    assert!(within("the end", SOON, changes.next()).await.is_none());
    let error = within("it ends", SOON, api.wait_for(2)).await.expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(a.set_enabled(false).await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(first.register(instance("b")).await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(first.service("api").start().await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(first.names().await.expect_err("closed").kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn servers_that_lost_their_data_have_the_registration_again() {
    let (server, [(_, first), (_, second)]) = setup().await;
    let _a = register(&first, "a").await;
    let api = service(&second).await;
    server.restart(Data::Lost);
    within("it is back", T * 3, server.until(|| !server.children(API).is_empty())).await;
    within("it is found", T * 3, api.wait_for(1)).await.expect("instances");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_dropped_leaves_nothing() {
    let (server, [(_, first), _]) = setup().await;
    let api = service(&first).await;
    assert!(server.watches() > 0);
    drop(api.clone());
    settle().await;
    assert!(server.watches() > 0, "there is another handle");
    drop(api);
    within("its watches are gone", SOON, server.until(|| server.watches() == 0)).await;
    // One that is dropped while it starts.
    drop(tokio::time::timeout(std::time::Duration::from_millis(1), first.service("api").start()).await);
    within("its watches are gone", SOON, server.until(|| server.watches() == 0)).await;
}
