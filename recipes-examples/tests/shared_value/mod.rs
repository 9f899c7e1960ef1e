//! The example of the shared value.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_shared_value");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "3 services follow the settings",
        "is in mode \"normal\", version 0",
        "the operator sets the mode to \"read-only\"",
        "is in mode \"read-only\", version 1",
        "the operator sets the mode to \"maintenance\"",
        "has raised the limit 5 times",
        "3 services have followed 3 modes, and the limit is 15.",
        "Done.",
    ]);
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "the operator sets the mode", Signal::INT).await.lacks("the limit is 15");
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "the operator sets the mode").await;
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["shared-value-PID/mode"]).await;
}
