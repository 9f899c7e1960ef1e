//! The example of the cache.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_cache");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "on an ensemble in memory",
        "starts with 4 settings",
        "operator: sets limit to 250",
        "limit: 100 -> 250",
        "operator: sets backends/b to 10.0.0.2",
        "backends/b: 10.0.0.2 (new)",
        "operator: removes mode",
        "mode: safe (removed)",
        "The api is cut off",
        "worker: limit: 250 -> 300",
        "worker: backends/c: 10.0.0.3 (new)",
        "worker: limit: 300 -> 275",
        "It is connected again",
        "api: backends/a: 10.0.0.1 (removed)",
        "api: limit: 250 -> 275",
        "api: that was all",
        "Both services have the 3 settings of the operator",
        "Done.",
    ]);
    told.lacks("api: backends/c");
    told.lacks("api: limit: 250 -> 300");
}

#[tokio::test]
async fn ends_early_when_asked() {
    ends_when_asked(PROGRAM, "The operator edits", Signal::TERM).await.lacks("Both services have");
    ends_when_asked(PROGRAM, "The api is cut off", Signal::INT).await.lacks("Both services have");
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "Two services start").await;
}

#[tokio::test]
async fn services_and_operators_need_a_real_ensemble() {
    needs_a_real_ensemble(PROGRAM, &["--id", "api"]).await;
    needs_a_real_ensemble(PROGRAM, &["--set", "limit=1"]).await;
}

#[tokio::test]
async fn refuses_bad_options() {
    for bad in ["limit", "=1", "a//b=1"] {
        let texts = [&format!("'{bad}' for '--set <NAME=VALUE>'"), "as in limits/requests=100"];
        refuses(PROGRAM, &["--connect", "a:1", "--set", bad], &texts).await;
    }
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["cache-PID"]).await;
    super::helps(PROGRAM, &["--id", "api"], &["cache"]).await;
}
