//! The example of the group member.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_group_member");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "on an ensemble in memory",
        "alice joins, and sees alice at 10.0.0.1:80",
        "carol joins, and sees alice at 10.0.0.1:80, bob at 10.0.0.2:80, carol at 10.0.0.3:80",
        "alice: bob has joined, at 10.0.0.2:80",
        "alice: carol has joined, at 10.0.0.3:80",
        "bob leaves",
        "alice: bob has left",
        "carol's process is stopped",
        "alice: carol has left",
        "carol's process continues",
        "alice: carol has joined, at 10.0.0.3:80",
        "bob comes back",
        "alice: bob has joined, at 10.0.0.4:80",
        "carol: bob has joined, at 10.0.0.4:80",
        "members: alice, bob, carol",
        "Done.",
    ]);
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "bob leaves", Signal::INT).await.lacks("members:");
    // A stopped process continues first.
    ends_when_asked(PROGRAM, "carol's process is stopped", Signal::TERM).await.lacks("members:");
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "bob leaves").await;
}

#[tokio::test]
async fn one_member_needs_a_real_ensemble() {
    needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
}

#[tokio::test]
async fn refuses_bad_options() {
    refuses(PROGRAM, &["--address", "localhost:81"], &["--id <NAME>"]).await;
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["group-member-PID"]).await;
    super::helps(PROGRAM, &["--id", "alice"], &["group-member"]).await;
}
