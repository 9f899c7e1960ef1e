//! The example of the service discovery.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_service_discovery");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "on an ensemble in memory",
        "alice is registered at 127.0.0.1:",
        "carol is registered at 127.0.0.1:",
        "caller: finds carol with weight 1",
        "these have answered: alice 6, bob 3, carol 3",
        "bob is about to end",
        "caller: now there is bob with weight 1, which accepts no new calls",
        "these have answered: alice 8, carol 4",
        "caller: bob is gone",
        "carol's process is killed",
        "caller: carol does not answer",
        "caller: carol does not answer",
        "these have answered: alice 12",
        "carol's session expires",
        "caller: carol is gone",
        "dave starts",
        "caller: finds dave with weight 2",
        "these have answered: alice 6, dave 6",
        "alice asks for fewer calls",
        "caller: now there is alice with weight 1",
        "these have answered: alice 4, dave 8",
        "60 calls, 0 unanswered.",
        "Done.",
    ]);
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "bob is about to end", Signal::INT).await.lacks("unanswered");
    // A killed process does not keep the example from ending.
    ends_when_asked(PROGRAM, "carol's session expires", Signal::TERM).await.lacks("unanswered");
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "bob is about to end").await;
}

#[tokio::test]
async fn one_process_needs_a_real_ensemble() {
    needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
    needs_a_real_ensemble(PROGRAM, &["--call"]).await;
}

#[tokio::test]
async fn refuses_bad_options() {
    refuses(PROGRAM, &["--weight", "2"], &["--id <NAME>"]).await;
    refuses(PROGRAM, &["--id", "alice", "--call"], &["'--id <NAME>'", "'--call'"]).await;
    let arguments = ["--id", "alice", "--connect", "a:1", "--weight", "0"];
    refuses(PROGRAM, &arguments, &["'0' for '--weight <N>'", "from 1 to 100 is allowed"]).await;
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["service-discovery-PID/api"]).await;
    super::helps(PROGRAM, &["--call"], &["service-discovery/api"]).await;
}
