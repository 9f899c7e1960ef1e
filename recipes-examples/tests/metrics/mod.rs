//! The example of the metrics.

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_metrics");
/// The dashboard in the documentation.
const DASHBOARD: &str = include_str!("../../../docs/grafana-dashboard.json");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "Prometheus can read http://127.0.0.1:",
        "3 workers share a lock, an election and a queue",
        "the connection of the leader is lost for a moment",
        "they have handled 11 orders",
        "clients connected:    3",
        "terms of a leader:    2",
        "15 locks acquired, 11 orders acked, 1 dead letter.",
        "Done.",
    ]);
}

#[tokio::test]
async fn serves_until_it_is_asked_to_end() {
    let mut program = Program::start(PROGRAM, &["--serve"]);
    // This is printed in the second round.
    program.says("30 locks acquired").await;
    program.signal(Signal::INT);
    program.ends(0).await.in_order(&["Asked to end", "Done."]);
}

#[tokio::test]
async fn prints_the_dashboard_of_the_documentation() {
    let told = Program::start(PROGRAM, &["--dashboard"]).succeeds().await;
    let [printed, documented] = [told.out(), DASHBOARD].map(serde_json::from_str::<serde_json::Value>);
    let is_the_same = printed.expect("JSON") == documented.expect("JSON");
    assert!(is_the_same, "docs/grafana-dashboard.json is not what `metrics --dashboard` prints");
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "Prometheus can read").await;
}

#[tokio::test]
async fn refuses_an_address_that_is_in_use() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let told = Program::start(PROGRAM, &["--listen", &address]).ends(1).await;
    told.complains(&format!("cannot listen at {address}"));
    refuses(PROGRAM, &["--listen", "nowhere"], &["'nowhere' for '--listen <ADDRESS:PORT>'"]).await;
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["metrics-PID/lock", "metrics-PID/orders-dead"]).await;
}
