//! A process that holds the lock is stopped (SIGSTOP) for longer than its session.

use std::time::Duration;

use zookeeper_recipes::ErrorKind;

use super::fixture::{Fixture, acquired, builder, connect, mutex};
use crate::support::elsewhere::{Elsewhere, ordered, say};
use crate::support::unique_path;

const SESSION: Duration = Duration::from_secs(2);

/// A resource outside ZooKeeper that refuses older tokens than it has seen.
#[derive(Default)]
struct Resource {
    newest: i64,
}

impl Resource {
    fn write(&mut self, token: i64) -> bool {
        let accepted = token >= self.newest;
        self.newest = self.newest.max(token);
        accepted
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_was_stopped_wakes_without_the_lock_and_no_fenced_write_of_it_is_accepted() {
    if let Some(order) = ordered() {
        return hold(order).await;
    }
    let fixture = Fixture::with_directory("stopped").await;
    let node = unique_path("resource");
    fixture.observer.create(&node, b"").await;
    let test = concat!(
        module_path!(),
        "::a_holder_that_was_stopped_wakes_without_the_lock_and_no_fenced_write_of_it_is_accepted"
    );
    let mut stopped = Elsewhere::start(test, &[&fixture.server.connect_string(), &fixture.path, &node]);
    let mut resource = Resource::default();
    let token: i64 = stopped.word().await.parse().expect("a token");
    assert!(resource.write(token), "the holder writes");

    // Its next command is ready when it resumes.
    stopped.stop().await;
    stopped.tell("write").await;
    let client = fixture.client().await;
    let next = acquired(&mutex(&client, &fixture.path)).await;
    assert!(next.fencing_token() > token);
    assert!(resource.write(next.fencing_token()));
    let fenced = client.transaction().check(&next.fence()).set_data(&node, b"next", None);
    fenced.commit().await.expect("the holder writes");

    stopped.go_on();
    let word = stopped.word().await;
    let [held, fenced, unfenced] = &word.split(' ').collect::<Vec<_>>()[..] else { panic!("{word}") };
    assert_eq!(*held, "false", "is_held at the first look, in {word}");
    assert!(["SessionLost", "Fenced"].contains(fenced), "a fenced write: {fenced}");
    assert_eq!(*unfenced, "accepted", "nothing stops a write without a fence");
    assert!(!resource.write(token), "its token is too old");
    assert_eq!(fixture.observer.data(&node).await.as_deref(), Some(&b"unfenced"[..]));
    assert!(next.is_held());
}

/// In the process that is stopped.
async fn hold([server, path, node]: [String; 3]) {
    let client = connect(builder(&server, SESSION)).await;
    let guard = acquired(&mutex(&client, &path)).await;
    say(guard.fencing_token());
    let order = tokio::task::spawn_blocking(|| std::io::stdin().lines().next().is_some());
    assert!(order.await.expect("no panic"), "the parent is running");
    let held = guard.is_held();
    let fenced = client.transaction().check(&guard.fence()).set_data(&node, "fenced", None).commit().await;
    let fenced = fenced.map_or_else(|error| format!("{:?}", error.kind()), |_| "accepted".into());
    // A client of its own, so that the end of a session cannot come in between.
    let fresh = connect(builder(&server, SESSION)).await;
    let unfenced = match fresh.set(&node, "unfenced", None).await {
        Ok(_) => "accepted".into(),
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => "unknown".into(),
        Err(error) => format!("{:?}", error.kind()),
    };
    say(format_args!("{held} {fenced} {unfenced}"));
}
