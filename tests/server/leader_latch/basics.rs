//! The order of the line on a real server, and many real threads that ask who leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::join_all;

use super::fixture::{Fixture, SOON, leads, waits};
use crate::support::within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_follows_the_order_of_start_when_each_leader_closes() {
    let fixture = Fixture::new("sequence").await;
    let (one, other) = (fixture.client().await, fixture.client().await);
    let mut latches = Vec::new();
    for number in 0..6 {
        let latch = fixture.latch(if number % 2 == 0 { &one } else { &other }, &number.to_string());
        if number == 0 {
            leads(&latch).await;
        } else {
            waits(&latch).await;
        }
        latches.push(latch);
    }
    let mut newest = 0;
    for (number, latch) in latches.iter().enumerate() {
        let leadership = leads(latch).await;
        assert!(leadership.fencing_token() > newest, "tokens grow");
        newest = leadership.fencing_token();
        assert!(latches[number + 1..].iter().all(|later| !later.has_leadership()));
        latch.close().await.expect("closed");
        assert!(!leadership.is_held() && !latch.has_leadership());
        assert_eq!(fixture.nodes().await.len(), latches.len() - number - 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_wait_and_work_never_two_lead_at_once() {
    const TASKS: usize = 24;
    let fixture = Fixture::new("waiting").await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(fixture.client().await);
    }
    let latches: Arc<Vec<_>> = Arc::new(
        (0..TASKS).map(|number| fixture.latch(&clients[number % clients.len()], &number.to_string())).collect(),
    );
    let (done, samples) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    // Two that lead at the same instant, seen from a thread of its own as fast as it can.
    let sampler = std::thread::spawn({
        let (latches, done, samples) = (Arc::clone(&latches), Arc::clone(&done), Arc::clone(&samples));
        move || {
            while !done.load(Ordering::SeqCst) {
                for (number, one) in latches.iter().enumerate() {
                    let Some(led) = one.state().get().leadership() else {
                        continue;
                    };
                    for (_, other) in latches.iter().enumerate().filter(|(other, _)| *other != number) {
                        // Its leadership still lasts after the other one was seen to lead.
                        assert!(!(other.has_leadership() && led.is_held()), "two lead at once");
                    }
                    samples.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    });
    let inside = AtomicUsize::new(0);
    let work = latches.iter().map(|latch| async {
        let leadership = leads(latch).await;
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two work at once");
        // No term goes by unseen, however busy the machine is.
        let before = samples.load(Ordering::SeqCst);
        within("the sampler looks", SOON, async {
            while samples.load(Ordering::SeqCst) < before + 2 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert!(leadership.is_held());
        inside.fetch_sub(1, Ordering::SeqCst);
        latch.close().await.expect("closed");
    });
    join_all(work).await;
    done.store(true, Ordering::SeqCst);
    sampler.join().expect("never two leaders");
    assert!(samples.load(Ordering::SeqCst) >= 2 * TASKS);
    assert_eq!(fixture.nodes().await, [""; 0]);
}
