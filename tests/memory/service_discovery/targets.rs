//! The instances of a service for tower's balancers.

use std::convert::Infallible;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tower::balance::p2c::Balance;
use tower::discover::Change;
use tower::load::Constant;
use tower::{BoxError, Service as _, ServiceExt, service_fn};
use zookeeper_recipes::service_discovery::{DownPolicy, Service, ServiceInstance, Targets};
use zookeeper_recipes::testing::Data;

use super::fixture::{API, described, instance, register, service, settle, setup};
use crate::fixture::{SOON, T, within};

/// The ports of the instances.
fn ports(service: &Service<String>) -> Targets<u16> {
    service.targets(|instance| instance.port())
}

/// A change in words.
fn word<S: ToString>(change: Result<Change<Arc<str>, S>, Infallible>) -> String {
    match change {
        Ok(Change::Insert(path, target)) => format!("+{}:{}", &path[API.len() + 1..], target.to_string()),
        Ok(Change::Remove(path)) => format!("-{}", &path[API.len() + 1..]),
        Err(never) => match never {},
    }
}

/// The next changes in words, until there are no more.
async fn words<S: ToString>(
    changes: &mut (impl StreamExt<Item = Result<Change<Arc<str>, S>, Infallible>> + Unpin),
) -> Vec<String> {
    let mut words = Vec::new();
    while let Ok(Some(change)) = tokio::time::timeout(SOON, changes.next()).await {
        words.push(word(change));
    }
    words
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_inserted_once_for_each_place_where_it_can_be_reached() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let a = register(&first, "a").await;
    let api = service(&second).await;
    let mut ports = ports(&api);
    assert_eq!(words(&mut ports).await, ["+a:80"]);
    a.update(described("a").payload("other".into()).build().expect("good")).await.expect("updated");
    assert!(words(&mut ports).await.is_empty(), "it is where it was");
    a.update(a.instance().to_builder().port(81).build().expect("good")).await.expect("updated");
    assert_eq!(words(&mut ports).await, ["+a:81"]);
    assert_eq!(a.instance().payload().map(String::as_str), Some("other"), "the builder has all of it");
    let b = register(&first, "b").await;
    assert_eq!(words(&mut ports).await, ["+b:80"]);
    a.set_enabled(false).await.expect("written");
    assert_eq!(words(&mut ports).await, ["-a"]);
    a.set_enabled(true).await.expect("written");
    assert_eq!(words(&mut ports).await, ["+a:81"]);
    b.unregister().await.expect("unregistered");
    assert_eq!(words(&mut ports).await, ["-b"]);
}

#[tokio::test(start_paused = true)]
async fn one_without_a_target_is_left_out_until_it_has_one() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let without = ServiceInstance::builder("api").id("a").build().expect("good");
    let a = first.register(without).await.expect("registered");
    let api = service(&second).await;
    let mut ports = ports(&api);
    assert!(words(&mut ports).await.is_empty());
    a.update(instance("a")).await.expect("updated");
    assert_eq!(words(&mut ports).await, ["+a:80"]);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_down_is_removed_until_it_is_probed() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let _both = [register(&first, "a").await, register(&first, "b").await];
    let policy = DownPolicy::default().errors(1).pause(Duration::from_secs(20));
    let api = second.service("api").down_policy(policy).start().await.expect("a service");
    let mut instances = api.targets(|instance| Some(instance.clone()));
    let mut both = Vec::new();
    while let Some(Some(Ok(Change::Insert(_, instance)))) = instances.next().now_or_never() {
        both.push(instance);
    }
    assert_eq!(both.len(), 2);
    let mut ports = ports(&api);
    words(&mut ports).await;
    api.report_error(&both[0]);
    assert_eq!(words(&mut ports).await, ["-a"]);
    api.report_error(&both[1]);
    assert_eq!(words(&mut ports).await, ["+a:80"], "if all are down, all are chosen");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(words(&mut ports).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn in_an_outage_none_is_removed_and_a_new_registration_replaces_the_old_one() {
    let (server, [(one, first), (two, second)]) = setup().await;
    let _a = register(&first, "a").await;
    let api = service(&second).await;
    let mut ports = ports(&api);
    assert_eq!(words(&mut ports).await, ["+a:80"]);
    for client in [&two, &one] {
        server.refuse(client);
        server.expire_session(client);
    }
    tokio::time::sleep(T * 3).await;
    server.heal();
    server.refuse(&one);
    within("the loss is seen", T, server.until(|| api.instances().is_empty())).await;
    assert!(words(&mut ports).await.is_empty(), "it may be on its way");
    server.heal();
    within("it is back", T, api.wait_for(1)).await.expect("instances");
    assert_eq!(words(&mut ports).await, ["+a:80"], "its connections may be those of a process that has ended");
    server.refuse(&one);
    server.expire_session(&one);
    tokio::time::sleep(T * 3).await;
    assert_eq!(words(&mut ports).await, ["-a"], "this client had no outage");
}

#[tokio::test(start_paused = true)]
async fn it_keeps_the_service_and_ends_with_the_client() {
    let (_server, [(_, first), (two, second)]) = setup().await;
    let _a = register(&first, "a").await;
    let mut ports = ports(&service(&second).await);
    assert_eq!(words(&mut ports).await, ["+a:80"]);
    let _b = register(&first, "b").await;
    assert_eq!(words(&mut ports).await, ["+b:80"]);
    two.close().await.expect("closed");
    for _again in 0..2 {
        assert!(within("it ends", SOON, ports.next()).await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_be_made_is_made_later_and_hides_no_other() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let _both = [register(&first, "a").await, register(&first, "b").await];
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let make = service_fn(move |path: String| {
        let attempt = if path.ends_with("/a") { counted.fetch_add(1, Ordering::Relaxed) } else { usize::MAX };
        async move { if attempt < 3 { Err("not yet") } else { Ok(path.len()) } }
    });
    let api = service(&second).await;
    let mut made = api.targets(|instance| Some(instance.path().to_owned())).make_services(make);
    let length = API.len() + 2;
    for expected in [format!("+b:{length}"), format!("+a:{length}")] {
        assert_eq!(within("it is made", T, made.next()).await.map(word), Some(expected));
    }
    assert_eq!(attempts.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn a_service_is_made_no_more_if_its_instance_is_gone_or_elsewhere() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let a = register(&first, "a").await;
    let dropped = Arc::new(());
    let alive = Arc::clone(&dropped);
    let make = service_fn(move |port: u16| {
        let alive = Arc::clone(&alive);
        async move {
            let _alive = alive;
            if port != 82 {
                pending::<()>().await;
            }
            Ok::<_, Infallible>(port)
        }
    });
    let api = service(&second).await;
    let mut made = ports(&api).make_services(make);
    assert!(words(&mut made).await.is_empty());
    let being_made = Arc::strong_count(&dropped);
    let moved = |port| a.instance().to_builder().port(port).build().expect("good");
    a.update(moved(81)).await.expect("updated");
    assert!(words(&mut made).await.is_empty());
    assert_eq!(Arc::strong_count(&dropped), being_made, "only the second one is being made");
    a.update(moved(82)).await.expect("updated");
    assert_eq!(words(&mut made).await, ["+a:82"]);
    a.update(moved(83)).await.expect("updated");
    assert!(words(&mut made).await.is_empty(), "until the new one is made, the balancer keeps the old one");
    a.unregister().await.expect("unregistered");
    assert_eq!(words(&mut made).await, ["-a"]);
    assert_eq!(Arc::strong_count(&dropped), 2, "only the test and `make` are left");
    let b = register(&first, "b").await;
    assert!(words(&mut made).await.is_empty());
    b.unregister().await.expect("unregistered");
    assert!(words(&mut made).await.is_empty(), "what was never inserted is not removed");
}

/// A service that answers with its port, and fails once its process is gone.
fn connect(
    living: &Arc<Mutex<Vec<u16>>>,
) -> impl tower::Service<u16, Response = Answers, Error = BoxError, Future: Send> + Clone + use<> {
    let living = Arc::clone(living);
    service_fn(move |port: u16| {
        let living = Arc::clone(&living);
        let answer =
            Box::new(move || if living.lock().unwrap().contains(&port) { Ok(port) } else { Err("gone".into()) });
        async move { Ok::<_, BoxError>(Constant::new(Answering(answer), 1)) }
    })
}

type Answers = Constant<Answering, u32>;

struct Answering(Box<dyn Fn() -> Result<u16, BoxError> + Send>);

impl tower::Service<()> for Answering {
    type Response = u16;
    type Error = BoxError;
    type Future = futures::future::Ready<Result<u16, BoxError>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        futures::future::ready((self.0)())
    }
}

#[tokio::test(start_paused = true)]
async fn a_balancer_fails_no_request_while_instances_drain_and_others_come() {
    let (server, [(_, first), (two, second)]) = setup().await;
    let living = Arc::new(Mutex::new(Vec::new()));
    let at = |id: &str, port| described(id).port(port).build().expect("good");
    let api = service(&second).await;
    let mut balance = Balance::new(ports(&api).make_services(connect(&living)));
    let ask = async |balance: &mut Balance<_, ()>| -> u16 {
        within("it answers", SOON, balance.ready()).await.expect("ready").call(()).await.expect("no request fails")
    };
    let mut before = None;
    for port in 1..20 {
        living.lock().unwrap().push(port);
        let new = first.register(at(&port.to_string(), port)).await.expect("registered");
        settle().await;
        for _ in 0..10 {
            ask(&mut balance).await;
        }
        if let Some((registration, port)) = before.replace((new, port)) {
            let registration: zookeeper_recipes::service_discovery::Registration<String> = registration;
            registration.set_enabled(false).await.expect("written");
            settle().await;
            living.lock().unwrap().retain(|one| *one != port);
            for _ in 0..10 {
                assert_eq!(ask(&mut balance).await, port + 1);
            }
            registration.unregister().await.expect("unregistered");
        }
        if port % 5 == 0 {
            server.stop();
            tokio::time::sleep(T / 4).await;
            assert_eq!(ask(&mut balance).await, port, "in an outage it goes on");
            server.restart(Data::Kept);
            within("it is back", T, server.until(|| api.instances().is_fresh())).await;
        }
    }
    two.close().await.expect("closed");
    ask(&mut balance).await;
}
