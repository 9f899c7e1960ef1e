//! Many nodes are read in few requests, and each has its own result.

use std::time::Duration;

use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, Error, ErrorKind, Stat};

/// Creates so many nodes, whose data are their numbers, and returns their paths.
fn numbered(server: &TestingServer, count: usize) -> Vec<String> {
    let create = |number: usize| {
        let path = format!("/{number:03}");
        server.create_by_hand(&path, number.to_string(), CreateMode::Persistent).expect("created")
    };
    (0..count).map(create).collect()
}

/// What was read, as text.
fn texts(read: Vec<Result<(Vec<u8>, Stat), Error>>) -> Vec<Result<String, ErrorKind>> {
    let text = |(data, _): (Vec<u8>, Stat)| String::from_utf8(data).expect("text");
    read.into_iter().map(|read| read.map(text).map_err(|error| error.kind())).collect()
}

fn numbers(count: usize) -> Vec<Result<String, ErrorKind>> {
    (0..count).map(|number| Ok(number.to_string())).collect()
}

#[tokio::test(start_paused = true)]
async fn each_node_has_its_own_result_in_order() {
    let server = TestingServer::start();
    numbered(&server, 3);
    server.deny("/001");
    let client = server.client().await.expect("a client");
    let read = client.multi_get(["/002", "/none", "/001", "/000", "/002"]).await.expect("read");
    let stats: Vec<_> = read.iter().map(|read| read.as_ref().map(|(_, stat)| *stat).ok()).collect();
    assert_eq!(stats[0], server.stat("/002"));
    let error = read[1].as_ref().expect_err("it is missing").to_string();
    assert!(error.contains("/none"), "the node is named: {error}");
    let two = Ok("2".to_owned());
    let expected = [two.clone(), Err(ErrorKind::NoNode), Err(ErrorKind::NoAuth), Ok("0".to_owned()), two];
    assert_eq!(texts(read), expected);
}

#[tokio::test(start_paused = true)]
async fn sixteen_nodes_or_four_hundred_bytes_of_paths_in_a_request() {
    let server = TestingServer::start();
    let short = numbered(&server, 100);
    let client = server.client().await.expect("a client");
    let before = client.request_counts();
    assert_eq!(texts(client.multi_get(&short).await.expect("read")), numbers(100));
    let spent = client.request_counts() - before;
    assert_eq!((spent.reads, spent.total()), (7, 7));
    let before = client.request_counts();
    let long: Vec<_> = (0..6).map(|number| format!("/{number}{}", "x".repeat(190))).collect();
    let missing = client.multi_get(&long).await.expect("read");
    assert!(missing.iter().all(|read| read.as_ref().is_err_and(|error| error.kind() == ErrorKind::NoNode)));
    assert_eq!((client.request_counts() - before).reads, 3);
}

/// One request at first, then two, and at most eight.
#[tokio::test(start_paused = true)]
async fn a_long_call_leaves_room_for_others() {
    let flight = Duration::from_millis(10);
    let server = TestingServer::builder().latency(flight..=flight).start();
    let all = numbered(&server, 640);
    let client = server.client().await.expect("a client");
    let begun = tokio::time::Instant::now();
    assert_eq!(texts(client.multi_get(&all).await.expect("read")), numbers(640));
    // 1 + 2 + 8 + 8 + 8 + 8 + 5 requests.
    assert_eq!(begun.elapsed(), flight * 2 * 7);
}

/// Of large nodes fewer are read together, and fewer requests are under way.
#[tokio::test(start_paused = true)]
async fn large_nodes_are_read_a_few_at_a_time() {
    for (size, reads) in [(1_000, 7), (20_000, 1 + 28), (100_000, 1 + 84)] {
        let server = TestingServer::start();
        let data = "x".repeat(size);
        let paths: Vec<_> = (0..100).map(|number| format!("/{number}")).collect();
        for path in &paths {
            server.create_by_hand(path, &data, CreateMode::Persistent).expect("created");
        }
        let client = server.client().await.expect("a client");
        let before = client.request_counts();
        let read = texts(client.multi_get(&paths).await.expect("read"));
        assert!(read.iter().all(|read| read.as_ref() == Ok(&data)) && read.len() == 100);
        assert_eq!((client.request_counts() - before).reads, reads, "{size}");
    }
}

/// Also those of the root that the connect string names.
#[tokio::test]
async fn long_roots_count() {
    let server = TestingServer::start();
    let root = format!("/{}", "r".repeat(100));
    server.create_by_hand(&root, "", CreateMode::Persistent).expect("created");
    let listening = server.listen("127.0.0.1:0").expect("it listens");
    let client = Client::builder(format!("{}{root}", listening.connect_string())).connect().await.expect("a client");
    client.create("/a", "", CreateMode::Persistent).await.expect("created");
    let before = client.request_counts();
    let read = client.multi_get((0..9).map(|_| "/a")).await.expect("read");
    assert!(read.iter().all(Result::is_ok));
    assert_eq!((client.request_counts() - before).reads, 3, "three paths of 103 bytes in a request");
}

#[tokio::test(start_paused = true)]
async fn without_paths_nothing_is_sent() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    server.stop();
    assert_eq!(client.multi_get(Vec::<String>::new()).await.expect("nothing to read"), []);
}

#[tokio::test(start_paused = true)]
async fn old_servers_get_a_request_for_each_node() {
    let server = TestingServer::builder().persistent_watches(false).start();
    let all = numbered(&server, 320);
    let client = server.client().await.expect("a client");
    let before = client.request_counts();
    assert_eq!(texts(client.multi_get(&all).await.expect("read")), numbers(320));
    assert_eq!((client.request_counts() - before).reads, 1 + 320, "the first request is refused");
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_too_long_together_are_asked_for_one_by_one() {
    let server = TestingServer::start();
    let data = |number: usize| number.to_string().repeat(50_000);
    let paths: Vec<_> = (0..10).map(|number| format!("/{number}")).collect();
    for (number, path) in paths.iter().enumerate() {
        server.create_by_hand(path, data(number), CreateMode::Persistent).expect("created");
    }
    let client = Client::builder_for_testing(&server).max_response_bytes(200_000).connect().await.expect("a client");
    server.create_by_hand("/longest", "x".repeat(300_000), CreateMode::Persistent).expect("created");
    let paths = paths.iter().map(String::as_str).chain(["/longest"]);
    let read = texts(client.multi_get(paths).await.expect("read"));
    let expected: Vec<_> = (0..10).map(|number| Ok(data(number))).chain([Err(ErrorKind::Other)]).collect();
    assert_eq!(read, expected);
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way_when_the_connection_broke_is_read_again() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let server = TestingServer::start();
        let all = numbered(&server, 100);
        let client = server.client().await.expect("a client");
        server.lose_next_reply(&client, Operation::GetMany, loss);
        assert_eq!(texts(client.multi_get(&all).await.expect("read")), numbers(100));
        assert_eq!(server.lost_replies(), 1, "{loss:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_reads_nothing() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    client.close().await.expect("closed");
    let error = client.multi_get(["/a", "/b"]).await.expect_err("closed");
    assert_eq!(error.kind(), client.get("/a").await.expect_err("closed").kind());
}
