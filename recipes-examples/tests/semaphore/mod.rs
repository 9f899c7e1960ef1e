//! The example of the semaphore.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_semaphore");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "6 workers and 3 licences",
        "3 at work",
        "the operator sets the number of licences to 1",
        "1 at work",
        "the operator sets the number of licences to 3",
        "24 jobs, at most 3 at a time.",
        "Done.",
    ]);
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "at work", Signal::INT).await.lacks("24 jobs");
    ends_when_asked(PROGRAM, "the operator sets", Signal::TERM).await.lacks("24 jobs");
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "at work").await;
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["semaphore-PID/leases", "semaphore-PID-count"]).await;
}
