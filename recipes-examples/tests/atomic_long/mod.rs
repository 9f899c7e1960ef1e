//! The example `atomic_long`.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_atomic_long");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "on an ensemble in memory",
        "ticket 15 for 20",
        "raises the price to 25",
        "An answer to each window is lost",
        "ticket 30 for 25",
        "30 tickets, each number once, for 675.",
        "Done.",
    ]);
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "A ticket office", Signal::TERM).await.lacks("30 tickets");
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "A ticket office").await;
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["atomic-long-PID/sold", "atomic-long-PID/price"]).await;
}
