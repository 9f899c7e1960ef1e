//! Queues: what is put, taken and given up.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_go_into_a_queue_and_come_out_in_order() {
    let fixture = Fixture::new("queue").await;
    let path = fixture.path.as_str();
    let missing = fixture.zkr(&["queue", "depth", path]).await;
    assert_eq!((missing.status, &*missing.out), (1, ""));
    assert!(missing.err.starts_with(&format!("zkr: {path}: no such node; check the path")), "{}", missing.err);

    let missing = fixture.zkr(&["queue", "take", path, "--wait", "0s"]).await;
    assert_eq!((missing.status, &*missing.out), (1, ""));
    assert!(missing.err.starts_with(&format!("zkr: {path}: no such node; check the path")), "{}", missing.err);
    let claims = fixture.client.exists(&format!("{path}-claims")).await.expect("an answer");
    assert!(claims.is_none(), "a look leaves nothing behind");

    assert_eq!(fixture.answer(&["queue", "put", path, "one", "--", "--two"]).await, "2 items put\n");
    let mut lines =
        fixture.command(&["queue", "put", path, "--json"]).stdin(Stdio::piped()).spawn().expect("it starts");
    let mut input = lines.stdin.take().expect("its input");
    input.write_all(b"three\n\nfi\xffve").await.expect("it reads");
    drop(input);
    assert_eq!(ended(lines).await.out, format!("{{\"path\":\"{path}\",\"put\":3}}\n"));
    assert_eq!(fixture.answer(&["queue", "depth", path]).await, "5\n");

    assert_eq!(fixture.answer(&["queue", "take", path]).await, "one\n");
    assert_eq!(fixture.answer(&["queue", "take", path, "--count", "2", "--wait", "0s"]).await, "--two\nthree\n");
    let rest = fixture.values(&["queue", "take", path, "--count", "9", "--wait", "1s"]).await;
    let contents: Vec<_> = rest.iter().map(|item| (item["item"].as_str(), item["item_hex"].as_str())).collect();
    assert_eq!(contents, [(Some(""), None), (None, Some("6669ff7665"))]);
    assert!(rest[0]["path"].as_str().is_some_and(|node| node.starts_with(&format!("{path}/queue-"))), "{rest:?}");

    let none = fixture.zkr(&["queue", "take", path, "--wait", "0s"]).await;
    assert_eq!((none.status, &*none.out), (1, ""));
    assert_eq!(none.err, format!("zkr: no item in {path} within 0s\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_stays_in_the_queue_if_the_output_is_closed() {
    let fixture = Fixture::new("pipe").await;
    let path = fixture.path.as_str();
    fixture.client.create_containers(path).await.expect("it is created");
    let mut child = fixture.start(&["queue", "take", path, "--count", "2"]);
    drop(child.stdout.take());
    fixture.answer(&["queue", "put", path, "one"]).await;
    let told = ended(child).await;
    assert_eq!((told.status, &*told.err), (0, ""));
    assert_eq!(fixture.answer(&["queue", "take", path, "--wait", "5s"]).await, "one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_cannot_be_decoded_is_told() {
    let fixture = Fixture::new("malformed").await;
    let path = fixture.path.as_str();
    fixture.client.create_containers(path).await.expect("it is created");
    let item = format!("{path}/queue-");
    let item = fixture.client.create(&item, "raw", CreateMode::PersistentSequential).await.expect("it is created");
    let told = fixture.zkr(&["queue", "take", path, "--wait", "2s"]).await;
    assert_eq!((told.status, &*told.out), (1, ""));
    assert!(told.err.starts_with(&format!("zkr: {item} is a dead letter now: it cannot be decoded")), "{}", told.err);
    let letters = fixture.values(&["queue", "dead", "ls", path]).await;
    assert_eq!(letters.iter().map(|letter| &letter["data_hex"]).collect::<Vec<_>>(), ["726177"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_another_consumer_has_claimed_is_not_there() {
    let fixture = Fixture::new("claimed").await;
    let path = fixture.path.as_str();
    fixture.answer(&["queue", "put", path, "one"]).await;
    let queue = DistributedQueue::builder(&fixture.client, path, Utf8).build().expect("a good path");
    let delivery = within("it is taken", SOON, queue.consumer().take()).await.expect("an item");
    assert_eq!(fixture.zkr(&["queue", "take", path, "--wait", "0s"]).await.status, 1);
    assert_eq!(fixture.answer(&["queue", "depth", path]).await, "1\n");
    delivery.release().await.expect("it is returned");
    assert_eq!(fixture.answer(&["queue", "take", path, "--wait", "0s"]).await, "one\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_what_waits_together_with_its_session() {
    let fixture = Fixture::new("signal").await;
    let path = fixture.path.as_str();
    for (number, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        fixture.answer(&["queue", "put", path, "one"]).await;
        let mut child = fixture.start(&["queue", "take", path, "--count", "2", "--session-timeout", "60s"]);
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let line = within("it takes one", SOON, lines.next_line()).await.expect("it is text");
        assert_eq!(line.as_deref(), Some("one"));
        signal(&child, number);
        let told = ended(child).await;
        assert_eq!((told.status, &*told.err), (status, ""));
    }
    // Also one that reads its standard input.
    let path = &unique_path("signal-put");
    let arguments = ["queue", "put", path, "--session-timeout", "60s"];
    let mut child = fixture.command(&arguments).stdin(Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(b"one\n").await.expect("it reads");
    let is_put = async || fixture.zkr(&["queue", "depth", path]).await.out == "1\n";
    eventually("it is put", SOON, is_put).await;
    signal(&child, Signal::SIGINT);
    assert_eq!(ended(child).await.status, 130);
    let producers = fixture.client.exists(&format!("{path}-producers")).await.expect("an answer");
    assert_eq!(producers.map_or(0, |stat| stat.num_children), 0, "its session has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_shown_retried_and_dropped() {
    let fixture = Fixture::new("dead").await;
    let path = fixture.path.as_str();
    fixture.answer(&["queue", "put", path, "one", "two", "three"]).await;
    assert_eq!(fixture.answer(&["queue", "dead", "ls", path]).await, "");
    let queue = DistributedQueue::builder(&fixture.client, path, Utf8).build().expect("a good path");
    let consumer = queue.consumer();
    for _ in 0..3 {
        let delivery = within("it is taken", SOON, consumer.take()).await.expect("an item");
        delivery.reject("no such order").await.expect("it is rejected");
    }
    consumer.close().await;
    let letters = fixture.values(&["queue", "dead", "ls", path]).await;
    let names: Vec<&str> = letters.iter().filter_map(|letter| letter["name"].as_str()).collect();
    assert_eq!((names.len(), &letters[1]["items"][0]["item"]), (3, &"two".into()));
    let text = fixture.answer(&["queue", "dead", "ls", path]).await;
    assert!(text.starts_with(&format!("{}: \"one\", after 1 delivery: no such order\n", names[0])), "{text}");

    let unknown = fixture.zkr(&["queue", "dead", "retry", path, names[0], "x"]).await;
    assert_eq!((unknown.status, &*unknown.out), (1, ""));
    assert!(unknown.err.contains(&format!("{path} has no dead letter x")), "{}", unknown.err);
    let retried = fixture.answer(&["queue", "dead", "retry", path, names[1]]).await;
    assert_eq!(retried, format!("{}: put back\n", names[1]));
    let dropped = fixture.values(&["queue", "dead", "drop", path, "--all"]).await;
    assert_eq!(dropped.iter().map(|done| &done["done"]).collect::<Vec<_>>(), ["dropped", "dropped"]);
    let none = fixture.zkr(&["queue", "dead", "retry", path, "--all"]).await;
    assert!(none.status == 0 && none.out.is_empty() && none.err.contains("has no dead letters"), "{}", none.err);
    assert_eq!(fixture.answer(&["queue", "dead", "ls", path]).await, "");
    assert_eq!(fixture.answer(&["queue", "take", path, "--wait", "5s"]).await, "two\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_with_a_priority_a_delay_or_an_id() {
    let fixture = Fixture::new("settings").await;
    let path = fixture.path.as_str();
    let missing = fixture.zkr(&["queue", "remove", path, "order-7"]).await;
    assert_eq!((missing.status, &*missing.out), (1, ""));
    assert!(missing.err.starts_with(&format!("zkr: {path}: no such node; check the path")), "{}", missing.err);

    fixture.answer(&["queue", "put", path, "--after", "1h", "late"]).await;
    fixture.answer(&["queue", "put", path, "plain"]).await;
    fixture.answer(&["queue", "put", path, "--priority", "5", "last"]).await;
    fixture.answer(&["queue", "put", path, "--priority=-1", "first"]).await;
    fixture.answer(&["queue", "put", path, "--id", "order-7", "one", "other"]).await;
    fixture.answer(&["queue", "put", path, "--id", "order-8", "kept"]).await;
    let removed = fixture.values(&["queue", "remove", path, "order-7"]).await;
    assert_eq!(removed, [serde_json::json!({ "path": path, "id": "order-7", "removed": 2 })]);
    let none = fixture.zkr(&["queue", "remove", path, "order-7"]).await;
    assert_eq!((none.status, &*none.out), (1, ""));
    assert_eq!(none.err, format!("zkr: {path}: no item with the id \"order-7\" that is not claimed\n"));
    let taken = fixture.zkr(&["queue", "take", path, "--count", "9", "--wait", "1s"]).await;
    assert_eq!(taken.out, "first\nplain\nkept\nlast\n");
    assert_eq!(fixture.answer(&["queue", "depth", path]).await, "1\n", "one is for later");

    let id = "x".repeat(256);
    for refused in [&["--id", ""][..], &["--after", "soon"], &["--priority", "high"], &["--id", "a", "--priority", "1"]]
    {
        let told = fixture.zkr(&[&["queue", "put", path, "item"][..], refused].concat()).await;
        assert_eq!((told.status, &*told.out), (125, ""), "{refused:?}: {}", told.err);
    }
    let told = fixture.zkr(&["queue", "put", path, "item", "--priority", "9999999999"]).await;
    assert!(told.err.contains("a whole number from -2147483648 to 2147483647"), "{}", told.err);
    let told = fixture.zkr(&["queue", "put", path, "item", "--after", "99999999999999999999s"]).await;
    assert!(told.err.contains("longer than can be counted"), "{}", told.err);
    let told = fixture.zkr(&["queue", "put", path, "item", "--id", &id]).await;
    assert!(
        told.status == 125 && told.err.contains("from 1 to 255 are allowed; nothing was put"),
        "{} {}",
        told.status,
        told.err
    );
    assert_eq!(fixture.answer(&["queue", "depth", path]).await, "1\n", "nothing was put");
}
