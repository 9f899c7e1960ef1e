//! How long a client waits for a session that the servers may still know.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::{ConnectionState, CreateMode, ErrorPolicy};

use super::fixture::{Fixture, SOON};
use crate::support::{Fault, eventually, unique_path, within};

/// The last contact is the answer to a request that was sent after `since` and had come by `by`.
struct Contact {
    since: Instant,
    by: Instant,
}

impl Contact {
    async fn now(client: &zookeeper_recipes::Client) -> Contact {
        let since = Instant::now();
        client.exists("/").await.expect("an answer");
        Contact { since, by: Instant::now() }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_nine_tenths_of_the_session_timeout_keeps_the_session() {
    // A tenth of it is more than what passes between two attempts to connect.
    let timeout = Duration::from_secs(15);
    let fixture = Fixture::with(|builder| builder.session_timeout(timeout)).await;
    let Fixture { proxy, client, outside, .. } = &fixture;
    let path = unique_path("kept");
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let session = client.session_id();
    let contact = Contact::now(client).await;
    proxy.set(Fault::Refuse).await;
    eventually("the loss is seen", SOON, async || client.connection_state() == ConnectionState::Suspended).await;
    // The outage itself.
    tokio::time::sleep_until((contact.by + timeout.mul_f64(0.9)).into()).await;
    assert_eq!(
        client.connection_state(),
        ConnectionState::Suspended,
        "not lost before the servers can have forgotten it"
    );
    proxy.set(Fault::Pass).await;
    eventually("the connection is back", SOON, async || client.connection_state().is_connected()).await;
    assert_eq!(client.session_id(), session);
    assert_eq!(outside.owner(&path).await, session, "its node is still there");
    // In the same session, and without a loss.
    client.set(&path, b"again", None).await.expect("the session works");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_is_told_after_the_session_timeout_and_after_everything_held_has_ended() {
    let timeout = Duration::from_secs(4);
    let cases = [Fault::Refuse, Fault::Reset, Fault::BlackHole, Fault::DropAnswers].map(|fault| async move {
        let fixture =
            Fixture::with(|builder| builder.session_timeout(timeout).error_policy(ErrorPolicy::Session)).await;
        let Fixture { proxy, client, .. } = &fixture;
        let latch = LeaderLatch::builder(client, unique_path("outage")).start().unwrap();
        let leadership = within("leadership", SOON, latch.wait_for_leadership()).await.unwrap();
        // When it was told, and whether it was still held then.
        let told: Arc<Mutex<Option<(Instant, bool)>>> = Arc::default();
        client.add_listener({
            let told = Arc::clone(&told);
            move |state: ConnectionState| {
                let at = Instant::now();
                if state == ConnectionState::Lost {
                    told.lock().unwrap().get_or_insert((at, leadership.is_held()));
                }
                std::future::ready(())
            }
        });
        let contact = Contact::now(client).await;
        proxy.set(fault).await;
        eventually("it is lost", timeout * 2 + SOON, async || told.lock().unwrap().is_some()).await;
        let (at, held) = told.lock().unwrap().expect("told");
        let after = at - contact.since;
        println!("{fault:?}: Lost {after:?} after the last request, with a session timeout of {timeout:?}");
        assert!(!held, "{fault:?}: held when Lost was told");
        assert!(after >= timeout, "{fault:?}: Lost {after:?} after the last request");
        proxy.set(Fault::Pass).await;
        within("leadership in the next session", SOON, latch.wait_for_leadership()).await.unwrap();
    });
    futures::future::join_all(cases).await;
}
