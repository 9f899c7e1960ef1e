//! The example of the barrier.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_barrier");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "4 workers and a barrier",
        "the operator sets the barrier",
        "no job is under way; the maintenance begins",
        "the operator removes the barrier",
        "no job is under way; the maintenance begins",
        " 0 of them during 2 maintenances.",
        "Done.",
    ]);
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "the operator sets the barrier", Signal::INT).await.lacks("maintenances.");
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "the operator sets the barrier").await;
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["barrier-PID"]).await;
}
