//! A contender of the lab in Rust: `lab-worker mutex|session|latch|client CONNECT PATH TIMEOUT_MS TICK_MS`.
//!
//! The page of the lab describes the lines that it reads and writes.

mod other;
mod ours;
mod talk;

use std::time::Duration;

use zookeeper_recipes::ErrorPolicy;

/// Where and how to contend.
struct Task {
    connect: String,
    path: String,
    timeout: Duration,
    tick: Duration,
}

fn millis(text: Option<String>) -> Duration {
    Duration::from_millis(text.and_then(|text| text.parse().ok()).expect("a number of milliseconds"))
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().expect("a kind");
    let connect = arguments.next().expect("a connect string");
    let path = arguments.next().expect("a path");
    let (timeout, tick) = (millis(arguments.next()), millis(arguments.next()));
    let task = Task { connect, path, timeout, tick };
    let wishes = talk::listen();
    match kind.as_str() {
        "mutex" => ours::mutex(task, ErrorPolicy::Standard, wishes).await,
        "session" => ours::mutex(task, ErrorPolicy::Session, wishes).await,
        "latch" => ours::latch(task, wishes).await,
        "client" => other::lock(task, wishes).await,
        _ => panic!("unknown kind: {kind}"),
    }
    // The thread that reads the standard input would keep the runtime.
    std::process::exit(0);
}
