//! The example of the health page.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_health_page");

#[tokio::test]
async fn plays_its_scenario() {
    let told = Program::start(PROGRAM, &[]).ends(0).await;
    told.in_order(&[
        "The page is at http://127.0.0.1:",
        "200: the connection is \"connected\", the service in the election \"leading\"",
        "the connection is lost",
        "503: the connection is ",
        "200: the connection is \"reconnected\"",
        "The page said 200, 503, 200.",
        "Done.",
    ]);
}

async fn get(address: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).await.expect("it is served");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.expect("it listens");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("it answers");
    answer
}

#[tokio::test]
async fn serves_until_it_is_asked_to_end() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let address = format!("127.0.0.1:{port}");
    let mut program = Program::start(PROGRAM, &["--serve", "--listen", &address]);
    program.says("the servers can be reached again").await;
    let answer = get(&address, "/health").await;
    let (head, page) = answer.split_once("\r\n\r\n").expect("a head and a page");
    let page: serde_json::Value = serde_json::from_str(page).expect("JSON");
    assert!(head.contains(&format!("Content-Length: {}", answer.len() - head.len() - 4)), "{head}");
    assert!(page["requests"]["creates"].as_u64() > Some(0), "{page}");
    assert_eq!(page["group"]["members"], serde_json::json!(["api-1"]), "{page}");
    assert!(get(&address, "/").await.starts_with("HTTP/1.1 404 "));
    program.signal(Signal::INT);
    program.ends(0).await.in_order(&["Asked to end", "Done."]);
}

#[tokio::test]
async fn ends_when_its_output_is_closed() {
    super::ends_when_its_output_is_closed(PROGRAM, "The page is at").await;
}

#[tokio::test]
async fn refuses_an_address_that_is_in_use() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let told = Program::start(PROGRAM, &["--listen", &address]).ends(1).await;
    told.complains(&format!("cannot listen at {address}"));
}

#[tokio::test]
async fn helps() {
    super::helps(PROGRAM, &[], &["health-PID/leader", "health-PID/group"]).await;
}
