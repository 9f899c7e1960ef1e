//! The instances of a service for tower's balancers.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tower::balance::p2c::Balance;
use tower::discover::Change;
use tower::load::{CompleteOnResponse, PendingRequestsDiscover};
use tower::{BoxError, Service as _, ServiceExt, service_fn};
use zookeeper_recipes::service_discovery::{
    DownPolicy, MadeService, MadeServices, Registration, Service, ServiceInstance, Targets,
};
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

/// The service of the only instance, for the balancer.
async fn only<T, M>(made: &mut MadeServices<T, M>) -> MadeService<T, M>
where
    M: tower::Service<T>,
    MadeServices<T, M>: StreamExt<Item = Result<Change<Arc<str>, MadeService<T, M>>, Infallible>> + Unpin,
{
    match within("it is there", SOON, made.next()).await {
        Some(Ok(Change::Insert(_, service))) => service,
        _ => panic!("it is inserted"),
    }
}

/// A process at each port that lives.
#[derive(Clone, Default)]
struct Living(Arc<Mutex<BTreeSet<u16>>>);

impl Living {
    fn starts(&self, port: u16) {
        self.0.lock().expect("no panic").insert(port);
    }

    fn is_killed(&self, port: u16) {
        self.0.lock().expect("no panic").remove(&port);
    }

    /// Whether a call to this port is answered.
    fn answer(&self, port: u16) -> Result<u16, BoxError> {
        if self.0.lock().expect("no panic").contains(&port) { Ok(port) } else { Err("it is closed".into()) }
    }

    /// Connects, and counts the attempts.
    fn connect(&self, attempts: &Arc<AtomicUsize>) -> impl Make + use<> {
        let (living, attempts) = (self.clone(), Arc::clone(attempts));
        service_fn(move |port: u16| {
            attempts.fetch_add(1, Ordering::Relaxed);
            let connected = living.answer(port).map(|port| Connection { port, living: living.clone() });
            ready(connected)
        })
    }
}

trait Make:
    tower::Service<u16, Response = Connection, Error = BoxError, Future: Send> + Clone + Send + Unpin + 'static
{
}

impl<M> Make for M where
    M: tower::Service<u16, Response = Connection, Error = BoxError, Future: Send> + Clone + Send + Unpin + 'static
{
}

struct Connection {
    port: u16,
    living: Living,
}

impl tower::Service<()> for Connection {
    type Response = u16;
    type Error = BoxError;
    type Future = Ready<Result<u16, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(self.living.answer(self.port).map(drop))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(self.living.answer(self.port))
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_is_made_as_often_as_it_takes_and_again_when_it_has_failed() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let _a = register(&first, "a").await;
    let (living, attempts) = (Living::default(), Arc::default());
    let api = service(&second).await;
    let mut made = ports(&api).make_services(living.connect(&attempts));
    let mut a = only(&mut made).await;
    for starts in [1, 2] {
        assert!(tokio::time::timeout(T, ServiceExt::<()>::ready(&mut a)).await.is_err(), "nothing listens");
        // 100 ms, 200 ms, ... with jitter.
        let tries = attempts.swap(0, Ordering::Relaxed);
        assert!((3..12).contains(&tries), "{tries} in {T:?}, at start {starts}");
        living.starts(80);
        within("it is made", T * 2, ServiceExt::<()>::ready(&mut a)).await.expect("it never fails");
        assert_eq!(a.call(()).await.expect("an answer"), 80);
        assert_eq!(attempts.swap(0, Ordering::Relaxed), 1);
        // Long enough for the pauses to begin again.
        tokio::time::sleep(T).await;
        living.is_killed(80);
    }
}

/// A service that fails at once after it was made.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_never_ready_is_made_again_after_a_pause() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let _a = register(&first, "a").await;
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let make = service_fn(move |port: u16| {
        counted.fetch_add(1, Ordering::Relaxed);
        ready(Ok::<_, Infallible>(Connection { port, living: Living::default() }))
    });
    let api = service(&second).await;
    let mut a = only(&mut ports(&api).make_services(make)).await;
    // 100 ms, 200 ms, ... 10 s, with jitter.
    assert!(tokio::time::timeout(Duration::from_secs(60), ServiceExt::<()>::ready(&mut a)).await.is_err());
    let made = attempts.load(Ordering::Relaxed);
    assert!((8..=20).contains(&made), "{made}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_closure_is_no_end() {
    let (_server, [(_, first), (_, second)]) = setup().await;
    let _both = [register(&first, "a").await, register(&first, "b").await];
    let api = service(&second).await;
    let mut some = api.targets(|instance| if instance.id() == "a" { panic!("as this test wants") } else { Some(7) });
    assert_eq!(words(&mut some).await, ["+b:7"]);
    let attempts = AtomicUsize::new(0);
    let attempts = Arc::new(attempts);
    let counted = Arc::clone(&attempts);
    let living = Living::default();
    let make = service_fn(move |port: i32| {
        if counted.fetch_add(1, Ordering::Relaxed) < 2 {
            panic!("as this test wants");
        }
        ready(Ok::<_, Infallible>(Connection { port: port as u16, living: living.clone() }))
    });
    let only_b = api.targets(|instance| (instance.id() == "b").then_some(7));
    let mut b = only(&mut only_b.make_services(make)).await;
    assert!(tokio::time::timeout(T, ServiceExt::<()>::ready(&mut b)).await.is_err(), "no process lives");
    assert!(attempts.load(Ordering::Relaxed) > 2);
}

#[tokio::test(start_paused = true)]
async fn a_balancer_fails_no_call_while_instances_drain_and_are_killed_and_others_come() {
    let (server, [(_, first), (two, second)]) = setup().await;
    let living = Living::default();
    let api = service(&second).await;
    let services = ports(&api).make_services(living.connect(&Arc::default()));
    let mut balance = Balance::new(PendingRequestsDiscover::new(services, CompleteOnResponse::default()));
    let mut registrations: VecDeque<(u16, Registration<String>)> = VecDeque::new();
    let mut killed = VecDeque::new();
    for port in 1..=20 {
        living.starts(port);
        let at = described(&port.to_string()).port(port).build().expect("good");
        registrations.push_back((port, first.register(at).await.expect("registered")));
        settle().await;
        let mut answered = BTreeSet::new();
        for _ in 0..50 {
            let ready = within("it is ready", SOON, balance.ready()).await.expect("it never fails");
            answered.insert(ready.call(()).await.expect("no call fails"));
        }
        assert!(answered.contains(&port), "{answered:?} without {port}");
        if registrations.len() < 3 {
            continue;
        }
        let (gone, registration) = registrations.pop_front().expect("three");
        if port % 2 == 0 {
            registration.set_enabled(false).await.expect("written");
            settle().await;
            living.is_killed(gone);
            registration.unregister().await.expect("unregistered");
        } else {
            // It stays registered while two others come.
            living.is_killed(gone);
            killed.push_back(registration);
            killed.drain(..killed.len().saturating_sub(2)).for_each(drop);
        }
        if port % 5 == 0 {
            server.stop();
            tokio::time::sleep(T / 4).await;
            let ready = within("in an outage it goes on", SOON, balance.ready()).await.expect("it never fails");
            ready.call(()).await.expect("no call fails");
            server.restart(Data::Kept);
            within("it is back", T, server.until(|| api.instances().is_fresh())).await;
        }
    }
    two.close().await.expect("closed");
    let ready = within("it goes on with those it has", SOON, balance.ready()).await.expect("it never fails");
    ready.call(()).await.expect("no call fails");
}
