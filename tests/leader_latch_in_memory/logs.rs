//! What is logged of a latch that leads.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::filter::LevelFilter;
use zookeeper_recipes::leader_latch::LatchStatus;
use zookeeper_recipes::testing::TestingServer;

use super::scene::{PATH, latch, make_directory, reaches};
use crate::in_memory::SOON;

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The lines that contain one of these.
    fn lines(&self, parts: &[&str]) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).expect("text");
        text.lines().filter(|line| parts.iter().any(|part| line.contains(part))).map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_leadership_and_each_connection_state_are_logged_once() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    make_directory(&server);
    let latch = latch(&client);
    reaches(&latch, LatchStatus::Leading).await;
    // A latch that is told of the loss and of the new connection at once logs one of them.
    tokio::time::sleep(SOON).await;
    server.refuse(&client);
    server.disconnect(&client);
    reaches(&latch, LatchStatus::Suspended).await;
    server.heal();
    reaches(&latch, LatchStatus::Leading).await;
    latch.close().await.expect("closed");

    let terms = log.lines(&["leading"]);
    assert_eq!(terms.len(), 4, "{terms:#?}");
    assert!(terms.iter().all(|line| line.contains("INFO") && line.contains(PATH)), "{terms:#?}");
    assert!(terms[1].contains("leading no more") && terms[1].contains("why=suspended"), "{terms:#?}");
    assert!(terms[3].contains("leading no more") && terms[3].contains("why=closed"), "{terms:#?}");
    let states = log.lines(&["state="]);
    let session = client.session_id().map(|id| format!("session=\"{id:#x}\"")).expect("a session");
    assert_eq!(states.len(), 3, "{states:#?}");
    for (line, state) in states.iter().zip(["connected", "suspended", "reconnected"]) {
        assert!(line.contains("INFO") && line.contains(&format!("state={state}")), "{states:#?}");
        assert!(line.contains(&session), "{states:#?} {session}");
    }
}
