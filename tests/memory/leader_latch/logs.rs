//! The log lines of a latch.

use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::leader_latch::LatchStatus;
use zookeeper_recipes::testing::TestingServer;

use super::fixture::{PATH, latch, make_directory, reaches};
use crate::fixture::log::Log;

#[tokio::test(start_paused = true)]
async fn the_end_of_leadership_and_each_connection_state_are_logged_once() {
    let (log, subscriber) = Log::new(LevelFilter::INFO);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    make_directory(&server);
    let latch = latch(&client, "latch");
    reaches(&latch, LatchStatus::Leading).await;
    // A latch that is told of the loss and of the new connection at once logs one of them.
    server.until(|| client.request_counts().watches == 1).await;
    server.refuse(&client);
    server.disconnect(&client);
    reaches(&latch, LatchStatus::Suspended).await;
    server.heal();
    reaches(&latch, LatchStatus::Leading).await;
    latch.close().await.expect("closed");

    let terms = log.lines("leading");
    assert_eq!(terms.len(), 4, "{terms:#?}");
    assert!(terms.iter().all(|line| line.contains("INFO") && line.contains(PATH)), "{terms:#?}");
    assert!(terms[1].contains("no longer leading") && terms[1].contains("why=suspended"), "{terms:#?}");
    assert!(terms[3].contains("no longer leading") && terms[3].contains("why=closed"), "{terms:#?}");
    let states = log.lines("state=");
    let session = client.session_id().map(|id| format!("session=\"{id:#x}\"")).expect("a session");
    assert_eq!(states.len(), 3, "{states:#?}");
    for (line, state) in states.iter().zip(["connected", "suspended", "reconnected"]) {
        assert!(line.contains("INFO") && line.contains(&format!("state={state}")), "{states:#?}");
        assert!(line.contains(&session), "{states:#?} {session}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_to_enter_is_one_warning_with_the_fields_of_the_latch() {
    let (log, subscriber) = Log::new(LevelFilter::WARN);
    let _logging = tracing::dispatcher::set_default(&subscriber);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    make_directory(&server);
    server.deny(PATH);
    let latch = latch(&client, "latch");
    reaches(&latch, LatchStatus::Failed).await;
    let warnings = log.lines("");
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    for part in ["cannot enter the election", &format!("path=\"{PATH}\""), "id=", "kind=NoAuth"] {
        assert!(warnings[0].contains(part), "{part}: {warnings:#?}");
    }
}
