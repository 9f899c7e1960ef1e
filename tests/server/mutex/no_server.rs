//! Acquiring while no server can be reached.

use std::time::{Duration, Instant};

use zookeeper_recipes::{ErrorKind, ErrorPolicy};

use super::fixture::{Fixture, SOON, States, mutex};
use crate::support::{Fault, within};

/// `None` means that another participant holds the lock, which is unknown here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_with_a_timeout_says_that_there_is_no_server_and_never_none() {
    const LIMIT: Duration = Duration::from_secs(2);
    let fixture = Fixture::with_directory("nowhere").await;
    for policy in [ErrorPolicy::Standard, ErrorPolicy::Session] {
        for fault in [Fault::Refuse, Fault::Reset, Fault::BlackHole] {
            let case = format!("{policy:?}, {fault:?}");
            let (proxy, client) = fixture.client_behind_proxy(Duration::from_secs(4), policy).await;
            let mut states = States::of(&client);
            proxy.set(fault).await;
            states.wait_for(zookeeper_recipes::ConnectionState::Suspended).await;
            let begun = Instant::now();
            let tried = within(&case, SOON, mutex(&client, &fixture.path).acquire_timeout(LIMIT)).await;
            let error = tried.expect_err(&format!("{case}: the holder is unknown"));
            assert!(matches!(error.kind(), ErrorKind::ConnectionLoss | ErrorKind::TimedOut), "{case}: {error}");
            assert!(error.is_retryable(), "{case}: {error}");
            let text = error.to_string();
            assert!(text.contains("connect") && text.contains(&proxy.connect_string()), "{case}: {text}");
            assert!(begun.elapsed() < LIMIT + Duration::from_secs(1), "{case}: {:?}", begun.elapsed());
        }
    }
}
