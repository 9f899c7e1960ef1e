//! The example of the store of metadata.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_metadata_store");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "a table with 6 tablets: 7 nodes, and those above, in one transaction",
        "three servers, alice, bob and carol, claim tablets, 3 at most each",
        "owns tablet",
        "three writers change the schema at the same time",
        "version 3; a write was refused",
        "leaves: its client closes",
        "owns tablet",
        "6 owners, read in 1 request:",
        "Every tablet has an owner, and the schema has all 4 columns",
        "Done.",
    ]);
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "the operator has created", Signal::INT).await;
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "the operator has created").await;
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["metadata-store-PID/orders/tablets/0/owner"]).await;
}
