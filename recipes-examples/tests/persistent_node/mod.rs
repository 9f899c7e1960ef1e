//! The example of the persistent node.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_persistent_node");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "Two services register",
        "alice is registered",
        "alice moves to another address",
        "the gateway finds alice at 10.0.0.9:80",
        "an operator deletes alice's znode by hand",
        "the gateway finds alice at 10.0.0.9:80",
        "alice's session expires",
        "the gateway finds alice at 10.0.0.9:80",
        "bob closes",
        "the gateway finds bob at no address",
        "The registration of alice outlived a deletion by hand and a lost session; that of bob is gone.",
        "Done.",
    ]);
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "alice moves to another address", Signal::INT).await.lacks("that of bob is gone");
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "alice moves to another address").await;
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["persistent-node-PID/alice"]).await;
}
