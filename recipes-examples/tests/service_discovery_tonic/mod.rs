//! The example of the service discovery for gRPC.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_service_discovery_tonic");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "on an ensemble in memory",
        "alice is registered at http://127.0.0.1:",
        "carol is registered at http://127.0.0.1:",
        "these have answered: alice ",
        ", bob ",
        ", carol ",
        "bob is about to end",
        "these have answered: alice ",
        ", carol ",
        "carol's process is killed",
        "these have answered: alice ",
        "carol starts again",
        "carol is registered at http://127.0.0.1:",
        "these have answered: alice ",
        ", carol ",
        "The session of the killed process expires",
        "dave starts",
        "these have answered: alice ",
        ", carol ",
        ", dave ",
        "alice's process is killed",
        "these have answered: carol ",
        ", dave ",
        "alice is registered at http://127.0.0.1:",
        "these have answered: alice ",
        ", carol ",
        ", dave ",
        " repeated, 0 unanswered.",
        "Done.",
    ]);
    let before_the_kill = told.out().split("carol's process is killed").next().unwrap_or_default();
    assert!(!before_the_kill.contains("fails"), "{before_the_kill}");
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "bob is about to end", Signal::INT).await.lacks("unanswered");
    // A killed process does not keep the example from ending.
    ends_when_asked(PROGRAM, "The session of the killed process expires", Signal::TERM).await.lacks("unanswered");
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
    refuses(PROGRAM, &["--id", "alice", "--call"], &["'--id <NAME>'", "'--call'"]).await;
    for bad in ["", "al ice", "älice"] {
        let texts = [&format!("'{bad}' for '--id <NAME>'"), "ASCII letters, digits and signs are allowed"];
        refuses(PROGRAM, &["--connect", "a:1", "--id", bad], &texts).await;
    }
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["service-discovery-tonic-PID/api"]).await;
    super::helps(PROGRAM, &["--call"], &["service-discovery-tonic/api"]).await;
}
