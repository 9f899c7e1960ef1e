//! The example of the multi-lock.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_multi_lock");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "on an ensemble in memory",
        "has moved 1 from",
        "has moved 5 from",
        "15 transfers, the sum is 300 as before.",
        "Done.",
    ]);
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "Three tellers", Signal::TERM).await.lacks("15 transfers");
    ends_when_asked(PROGRAM, "has moved", Signal::INT).await.lacks("15 transfers");
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "Three tellers").await;
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["multi-lock-PID/alice", "multi-lock-PID-alice"]).await;
}
