//! What is done with single nodes and trees of them, and what all commands say that find nothing.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::atomic_long::DistributedAtomicLong;
use zookeeper_recipes::shared_value::SharedCount;

use crate::support::{ZooKeeper, container::free_port, within};
use crate::{Fixture, SOON, Told, command_at, connect, ended, signal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_of_a_node_is_written_and_read_as_it_is() {
    let fixture = Fixture::new("node").await;
    let path = &format!("{}/a", fixture.path);
    let missing = fixture.zkr(&["set", path, "x"]).await;
    assert_eq!(missing.status, 1);
    assert!(missing.err.contains("no such node; check the path, or use --create"), "{}", missing.err);
    let written = fixture.answer(&["set", path, r#"{"n": 1}"#, "--create"]).await;
    assert_eq!(written, format!("{path}: 8 bytes written, version 0\n"));
    assert_eq!(fixture.answer(&["get", path]).await, r#"{"n": 1}"#);

    let stale = fixture.zkr(&["set", path, "y", "--version", "7"]).await;
    assert_eq!((stale.status, &*stale.out), (1, ""));
    assert!(stale.err.contains("nothing was written; zkr stat"), "{}", stale.err);
    let directory = tempfile::TempDir::new().expect("a directory");
    let file = directory.path().join("data");
    std::fs::write(&file, b"\xff\n").expect("written");
    let file = file.to_str().expect("it is text");
    let written = fixture.values(&["set", path, "--file", file, "--version", "0"]).await;
    assert_eq!((&written[0]["stat"]["version"], &written[0]["stat"]["data_length"]), (&1.into(), &2.into()));
    assert_eq!(fixture.values(&["get", path]).await[0]["data_hex"], "ff0a");

    let mut from_input = fixture.command(&["set", path]).stdin(Stdio::piped()).spawn().expect("it starts");
    let mut input = from_input.stdin.take().expect("its input");
    input.write_all(b"two\nlines\n").await.expect("it reads");
    drop(input);
    assert_eq!(ended(from_input).await.status, 0);
    assert_eq!(fixture.answer(&["get", path]).await, "two\nlines\n");
    let text = fixture.answer(&["stat", path]).await;
    assert!(
        text.starts_with("data              10 bytes, version 2\nchildren          0, version 0\nowner "),
        "{text}"
    );
    assert!(text.contains("ACL               world:anyone:cdrwa, version 0\n"), "{text}");
    let stat = fixture.values(&["stat", path]).await;
    assert_eq!((&stat[0]["path"], &stat[0]["num_children"]), (&path.as_str().into(), &0.into()));
    assert_eq!(stat[0]["acl"], json!(["world:anyone:cdrwa"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_the_servers_would_not_read_is_refused_unless_they_are_said_to_read_more() {
    let server = ZooKeeper::builder().jvm_flag("-Djute.maxbuffer=4194304").start().await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), vec![b'x'; 2 << 20]).expect("written");
    let arguments = ["set", "/large", "--create", "--file", file.path().to_str().expect("it is text")];
    let hosts = server.addr().to_string();
    let set =
        async |more: &[&str]| ended(command_at(&hosts, &[&arguments, more].concat()).spawn().expect("it starts")).await;
    let refused = set(&[]).await;
    assert_eq!((refused.status, &*refused.out), (125, ""));
    assert!(refused.err.ends_with("(their jute.maxbuffer; see --max-buffer)\n"), "{}", refused.err);
    let written = set(&["--max-buffer", "4194304"]).await;
    assert_eq!((written.status, &*written.out), (0, "/large: 2097152 bytes written, version 0\n"), "{}", written.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_numbers_of_curators_recipes_are_printed_and_changed() {
    let fixture = Fixture::new("count").await;
    let [int, long, new, text] = ["int", "long", "new", "text"].map(|name| format!("{}/{name}", fixture.path));
    let count = SharedCount::count(&fixture.client, &int).seed(-4).start().await.expect("it starts");
    assert_eq!(fixture.answer(&["count", &int]).await, "-4\n");
    assert_eq!(fixture.answer(&["count", &int, "--add", "-2"]).await, "-6\n");
    within("it is seen", SOON, count.wait_for(|number| *number == -6)).await.expect("it goes on");
    let sum = fixture.zkr(&["count", &int, "--set", "2147483648"]).await;
    assert_eq!(sum.status, 125);
    assert!(sum.err.contains("does not fit in four bytes"), "{}", sum.err);

    let number = DistributedAtomicLong::new(&fixture.client, &long).expect("a good path");
    number.set(1 << 40).await.expect("set");
    assert_eq!(fixture.answer(&["count", &long, "--add", "1"]).await, format!("{}\n", (1i64 << 40) + 1));
    assert_eq!(number.get().await, Ok((1 << 40) + 1));
    assert_eq!(fixture.zkr(&["count", &new]).await.status, 1);
    assert_eq!(fixture.answer(&["count", &new, "--set", "7", "--as", "int"]).await, "7\n");
    let value = json!({ "path": new, "number": 7, "format": "int" });
    assert_eq!(fixture.values(&["count", &new]).await, [value]);

    fixture.client.create(&text, "host", CreateMode::Persistent).await.expect("it is created");
    let refused = fixture.zkr(&["count", &text, "--add", "1"]).await;
    assert_eq!(refused.status, 1);
    assert!(refused.err.contains("use --as if it is a number; nothing was written"), "{}", refused.err);
    fixture.client.set(&text, "hello", None).await.expect("set");
    assert!(fixture.zkr(&["count", &text]).await.err.contains("has 5 bytes, which is not a number"));
    // An empty node is 0, also for what only looks.
    fixture.client.set(&text, "", None).await.expect("set");
    assert_eq!(fixture.answer(&["count", &text]).await, "0\n");
    assert_eq!(fixture.answer(&["count", &text, "--add", "0"]).await, "0\n");
    assert_eq!(fixture.values(&["count", &text]).await, [json!({ "path": text, "number": 0, "format": "long" })]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_to_a_node_is_a_line_each_until_a_signal() {
    let fixture = Fixture::new("watch").await;
    let path = fixture.path.as_str();
    fixture.client.create(path, "", CreateMode::Persistent).await.expect("it is created");
    let child = format!("{path}/child");
    for (arguments, number) in [(&["watch", path][..], Signal::SIGINT), (&["watch", path, "-r"], Signal::SIGTERM)] {
        let mut watch = fixture.start(&[&["--json"], arguments].concat());
        let mut lines = BufReader::new(watch.stdout.take().expect("its output")).lines();
        let mut next = async || {
            let line = within("an event", SOON, lines.next_line()).await.expect("it is text").expect("a line");
            let value: Value = serde_json::from_str(&line).expect("it is JSON");
            assert!(value["time"].is_string(), "{value}");
            (value["event"].clone(), value["path"].clone())
        };
        assert_eq!(next().await, ("read_again".into(), Value::Null));
        fixture.client.create(&child, "", CreateMode::Persistent).await.expect("it is created");
        fixture.client.set(path, "new", None).await.expect("set");
        fixture.client.delete(&child, None).await.expect("deleted");
        if arguments.len() == 2 {
            for event in ["children_changed", "data_changed", "children_changed"] {
                assert_eq!(next().await, (event.into(), path.into()));
            }
        } else {
            for (event, path) in [("created", &*child), ("data_changed", path), ("deleted", &child)] {
                assert_eq!(next().await, (event.into(), path.into()));
            }
        }
        signal(&watch, number);
        let told = ended(watch).await;
        assert_eq!((told.status, &*told.err), (0, ""));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_with_its_reader_and_at_a_signal_though_the_server_hangs() {
    let server = Arc::new(ZooKeeper::start().await);
    let fixture = Fixture { client: connect(&server).await, server, path: "/none".to_owned() };
    let watching = async || {
        let mut watch = fixture.start(&["watch", &fixture.path, "--session-timeout", "60s"]);
        let mut lines = BufReader::new(watch.stdout.take().expect("its output")).lines();
        let line = within("it watches", SOON, lines.next_line()).await.expect("it is text").expect("a line");
        assert!(line.ends_with("watching /none"), "{line}");
        (watch, lines)
    };
    let missing = "zkr: not there yet: /none: no such node; check the path, --namespace and --connect\n";
    let (watch, lines) = watching().await;
    drop(lines);
    let told = ended(watch).await;
    assert!(told.status == 0 && (told.err == missing || told.err.is_empty()), "{}", told.err);

    let (watch, _lines) = watching().await;
    fixture.server.pause().await;
    let begin = Instant::now();
    signal(&watch, Signal::SIGINT);
    let told = ended(watch).await;
    let took = begin.elapsed();
    fixture.server.unpause().await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(told.status, 0, "{}", told.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_is_deleted_only_if_that_is_said() {
    let fixture = Fixture::new("rm").await;
    let path = fixture.path.as_str();
    let [below, deep] = ["a", "a/b"].map(|name| format!("{path}/{name}"));
    fixture.client.create_containers(path).await.expect("it is created");
    for node in [&below, &deep] {
        fixture.client.create(node, "", CreateMode::Persistent).await.expect("it is created");
    }
    let Told { status, out, err } = fixture.zkr(&["rm", "-r", path, "--dry-run"]).await;
    assert_eq!((status, out), (0, format!("{path}\n{below}\n{deep}\n")));
    assert_eq!(err, "zkr: 3 nodes would be deleted; nothing was\n");
    let of_session = format!("{path}/a/b/c");
    fixture.client.create(&of_session, "", CreateMode::Ephemeral).await.expect("it is created");
    let told = fixture.zkr(&["rm", "-r", path]).await;
    let why = format!("zkr: {path} and 3 nodes below it (1 node of live sessions) would be deleted; use --yes");
    assert!(told.status == 125 && told.err.starts_with(&why), "{}", told.err);
    let found = fixture.values(&["rm", "-r", &deep, "--dry-run"]).await;
    let node = |path: &str, ephemeral: bool| json!({ "path": path, "ephemeral": ephemeral });
    assert_eq!(found, [node(&deep, false), node(&of_session, true)]);
    let told = fixture.zkr(&["rm", &of_session, "--dry-run"]).await;
    assert_eq!(told.err, "zkr: 1 node (1 node of live sessions) would be deleted; nothing was\n");
    fixture.client.delete(&of_session, None).await.expect("deleted");
    let not_asked = fixture.zkr(&["rm", "-r", path]).await;
    assert_eq!((not_asked.status, &*not_asked.out), (125, ""));
    let why =
        format!("zkr: {path} and 2 nodes below it would be deleted; use --yes to delete, or --dry-run to list them\n");
    assert_eq!(not_asked.err, why);
    let full = fixture.zkr(&["rm", &below]).await;
    assert_eq!(full.status, 1);
    assert!(full.err.contains("nothing was deleted; zkr rm -r deletes them as well"), "{}", full.err);
    assert_eq!(fixture.zkr(&["rm", &deep, "--version", "3"]).await.status, 1);
    assert_eq!(fixture.answer(&["rm", &deep, "--version", "0"]).await, format!("{deep}: 1 node deleted\n"));
    let deleted = fixture.values(&["rm", "-r", path, "--yes"]).await;
    assert_eq!(deleted, [json!({ "path": path, "deleted": 2 })]);
    assert_eq!(fixture.client.exists(path).await.expect("an answer"), None);
    for (reserved, status) in [("/zookeeper", 125), ("/zookeeper/quota", 125), ("/", 125), (path, 1)] {
        assert_eq!(fixture.zkr(&["rm", "-r", reserved, "--yes"]).await.status, status, "{reserved}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_does_not_exist_is_told_by_all_that_look() {
    let fixture = Fixture::new("missing").await;
    let path = fixture.path.as_str();
    let looks = [
        &["get"][..],
        &["stat"],
        &["count"],
        &["inspect"],
        &["doctor"],
        &["deadlocks"],
        &["lock", "ls"],
        &["latch", "ls"],
        &["queue", "depth"],
        &["queue", "dead", "ls"],
        &["balancer", "show"],
        &["balancer", "watch"],
        &["rm", "--dry-run"],
        &["rm", "-r", "--yes"],
    ];
    let of_recipes = ["inspect", "doctor", "deadlocks", "lock", "latch"];
    let no_root = format!("{}/no/root", fixture.server.connect_string());
    for look in looks {
        let told = fixture.zkr(&[look, &[path]].concat()).await;
        assert_eq!((told.status, &*told.out), (1, ""), "{look:?}: {}", told.err);
        assert!(told.err.contains("no such node; check the path, --namespace"), "{look:?}: {}", told.err);
        assert_eq!(told.err.contains("(a path that nothing"), of_recipes.contains(&look[0]), "{look:?}: {}", told.err);
        if look[0] == "rm" {
            assert!(told.err.starts_with(&format!("zkr: {path}: no such node")), "{look:?}: {}", told.err);
        }
        let told = ended(command_at(&no_root, &[look, &[path]].concat()).spawn().expect("it starts")).await;
        assert_eq!((told.status, &*told.out), (125, ""), "{look:?}: {}", told.err);
        assert!(told.err.contains("the root that the connect string names does not exist"), "{look:?}: {}", told.err);
        assert!(!told.err.contains("check the path"), "{look:?}: {}", told.err);
        let told = fixture.zkr(&[look, &[path, "--json"]].concat()).await;
        let error: Value = serde_json::from_str(&told.err).expect("it is JSON");
        assert_eq!((told.status, &*told.out, &error["status"]), (1, "", &1.into()), "{look:?}");
        assert!(error["error"].as_str().is_some_and(|why| why.contains("no such node")), "{error}");
    }
    for (arguments, status) in [(&["get"][..], 125), (&["lock", path, "--", "/no/such/command"], 127)] {
        let told = fixture.zkr(&[&["--json"], arguments].concat()).await;
        let error: Value = serde_json::from_str(&told.err).expect("it is JSON");
        assert_eq!((told.status, &error["status"]), (status, &status.into()), "{error}");
    }
}

/// Answers a message of so many bytes at least with this, and keeps the connection open.
async fn answering(to: usize, answer: &'static [u8], and_closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut message = [0; 64];
            let length = connection.read(&mut message).await.unwrap_or_default();
            if (length == 4) == (to == 4) {
                let _ = connection.write_all(answer).await;
            }
            if !and_closes {
                open.push(connection);
            }
        }
    });
    address.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_no_server_could_be_reached_is_told_soon() {
    let refused = format!("127.0.0.1:{}", free_port());
    let asked = async |hosts: &str, more: &[&str]| {
        ended(command_at(hosts, &[&["rm", "/a", "--dry-run"], more].concat()).spawn().expect("it starts")).await
    };
    let read_only = answering(4, b"Zookeeper version: 3.9.4\nMode: read-only\nNode count: 5\n", true).await;
    let speaks_tls = answering(45, b"\x15\x03\x03\0\x02\x02\x46", false).await;
    let at_once = ["--connection-timeout", "1s"];
    let (by_default, read_only_told, tls_told) =
        tokio::join!(asked(&refused, &[]), asked(&read_only, &at_once), asked(&speaks_tls, &at_once));
    for told in [&by_default, &read_only_told, &tls_told] {
        assert_eq!((told.status, &*told.out), (122, ""), "{}", told.err);
    }
    let why = format!("zkr: connect: not connected within 5s: {refused}: connection refused");
    assert!(by_default.err.starts_with(&why), "{}", by_default.err);
    let why = format!("; {read_only} is in read-only mode: it has lost the other servers");
    assert!(read_only_told.err.contains(&why), "{}", read_only_told.err);
    let why = format!("{speaks_tls}: the server speaks TLS on this port");
    assert!(tls_told.err.contains(&why), "{}", tls_told.err);
}
