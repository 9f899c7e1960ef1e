//! `zkr serve --faults`: what clients at two addresses see of it, and what it says.

use std::io::Write;

use futures::{FutureExt, StreamExt};
use tempfile::NamedTempFile;
use tokio::process::ChildStdin;
use zookeeper_recipes::ConnectionState;

use super::serve::{Served, connect_to};
use super::*;

/// One ensemble at two addresses.
const AT_TWO_ADDRESSES: [&str; 5] = ["serve", "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"];

fn script(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn name(file: &NamedTempFile) -> &str {
    file.path().to_str().expect("a name of text")
}

/// Two addresses, and the standard input of the process behind them.
struct Driven {
    served: Served,
    input: ChildStdin,
    addresses: [String; 2],
}

impl Driven {
    async fn start(options: &[&str]) -> Driven {
        let mut command = zkr(&[&AT_TWO_ADDRESSES, &["--faults", "-"][..], options].concat());
        command.stdin(Stdio::piped());
        let mut served = Served::of(command).await;
        let addresses = [served.connect.clone(), served.next_line().await];
        let input = served.process.stdin.take().expect("its input");
        Driven { served, input, addresses }
    }

    async fn say(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    /// Says a command, and waits until it is carried out. Returns what is said of it.
    async fn play(&mut self, line: &str) -> String {
        self.say(line).await;
        self.served.next_line().await
    }

    async fn clients(&self) -> [Client; 2] {
        [connect_to(&self.addresses[0]).await, connect_to(&self.addresses[1]).await]
    }

    /// Ends the input, and then the process. Returns what it has said on the standard error.
    async fn interrupt(self) -> String {
        drop(self.input);
        connect_to(&self.addresses[1]).await.close().await.expect("it serves after the end of the input");
        self.served.interrupt().await
    }
}

async fn create(client: &Client, path: &str) -> Result<String, zookeeper_recipes::Error> {
    within("it is answered", SOON, client.create(path, "", CreateMode::Persistent)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_cuts_the_client_at_one_address_and_not_the_one_at_another() {
    // Until the clients are there, nothing is to be cut.
    let file = script(&"wait 500ms\ncut 1\n".repeat(1_000));
    let mut served = Served::of(zkr(&[&AT_TWO_ADDRESSES, &["--faults", name(&file)][..]].concat())).await;
    let addresses = [served.connect.clone(), served.next_line().await];
    let other = connect_to(&addresses[1]).await;
    let mut others = other.connection_states();
    others.next().await.expect("the state of now").expect("it is not behind");
    let client = connect_to(&addresses[0]).await;
    let mut states = client.connection_states();
    let mut is_suspended = async || {
        let next = within("it is cut", SOON, states.next()).await;
        next.expect("a state").expect("it is not behind") == ConnectionState::Suspended
    };
    while !is_suspended().await {}
    let mut said = Vec::new();
    while said.last().is_none_or(|line| line != "fault: cut 1: 1 connection") {
        said.push(served.next_line().await);
    }
    assert_eq!(said[0], "fault: wait 500ms");
    assert!(other.exists("/").await.expect("an answer").is_some());
    assert!(others.next().now_or_never().is_none(), "it was connected all the time");
    // Also in the middle of the script.
    signal(&served.process, Signal::SIGTERM);
    assert_eq!(ended(served.process).await.status, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_loses_a_reply_and_refuses_clients_at_one_address() {
    let file = script("# for the first service\nlose-reply 1 create applied\n\nrefuse 2 # the second one");
    let mut served = Served::of(zkr(&[&AT_TWO_ADDRESSES, &["--json", "--faults", name(&file)][..]].concat())).await;
    let lines = [served.connect.clone(), served.next_line().await, served.next_line().await, served.next_line().await];
    let values = lines.map(|line| serde_json::from_str::<Value>(&line).expect("it is JSON"));
    let [first, second] = [0, 1].map(|address: usize| values[address]["connect"].as_str().expect("its connect string"));
    let faults = [
        serde_json::json!({ "fault": "lose-reply 1 create applied", "line": 2 }),
        serde_json::json!({ "fault": "refuse 2", "line": 4 }),
    ];
    assert_eq!(values[2..], faults);
    let refused = Client::builder(second).connection_timeout(Duration::from_secs(1)).connect().await;
    assert_eq!(refused.expect_err("it is refused").kind(), ErrorKind::ConnectionLoss);
    let client = connect_to(first).await;
    assert_eq!(create(&client, "/a").await.expect_err("it is lost").kind(), ErrorKind::OutcomeUnknown);
    assert!(client.exists("/a").await.expect("an answer").is_some());
    served.interrupt().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_drives_the_faults_by_the_standard_input() {
    let mut driven = Driven::start(&["--servers", "2"]).await;
    let [client, other] = driven.clients().await;
    assert_eq!(driven.play("lose-reply 2 create not-applied").await, "fault: lose-reply 2 create not-applied");
    create(&client, "/a").await.expect("the other address");
    assert_eq!(create(&other, "/b").await.expect_err("it is lost").kind(), ErrorKind::OutcomeUnknown);
    assert!(client.exists("/b").await.expect("an answer").is_none());

    assert_eq!(driven.play("  cut\t1  # now").await, "fault: cut 1: 1 connection");
    let (old, kept) = (client.session_id().expect("a session"), other.session_id());
    assert_eq!(driven.play(&format!("expire {old:#x}")).await, format!("fault: expire {old:#x}"));
    let is_new = async || client.session_id().is_some_and(|id| id != old);
    eventually("it opens another session", SOON, is_new).await;
    assert_eq!(other.session_id(), kept);
    let none = format!("fault: expire {old}: there is no such session");
    assert_eq!(driven.play(&format!("expire {old}")).await, none);

    assert_eq!(driven.play("restart-empty").await, "fault: restart-empty");
    let is_empty = async || client.exists("/a").await.is_ok_and(|stat| stat.is_none());
    eventually("its data is gone", SOON, is_empty).await;
    let said = driven.interrupt().await;
    assert_eq!(said.lines().count(), 1, "for development and tests only: {said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_the_standard_input_without_an_end_is_not_kept() {
    let mut driven = Driven::start(&[]).await;
    assert_eq!(driven.play("heal").await, "fault: heal");
    // The pipe is closed to what follows the limit.
    driven.input.write_all(&vec![b'x'; 1024 * 1024]).await.ok();
    let told = ended(driven.served.process).await;
    assert_eq!(told.status, 125, "{}", told.err);
    assert!(told.err.contains("--faults -: line 2 must have fewer than 1048576 bytes"), "{}", told.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_line_of_the_standard_input_is_reported_and_the_rest_is_played() {
    let mut driven = Driven::start(&["--json"]).await;
    driven.say("# nothing").await;
    for (number, (line, why)) in [
        ("cut 3", "\"3\" is not a TARGET; it must be all, or the number of a --listen, 1 to 2"),
        ("explode", "there is no command \"explode\"; it must be one of wait, cut, "),
        ("cut-off 0 1s", "there is only one server; this needs --servers 2 or more"),
        (&"x".repeat(100_000), "there is no command \"xxxx"),
    ]
    .into_iter()
    .enumerate()
    {
        let told = driven.play(line).await;
        assert!(told.len() < 1_000, "{} bytes", told.len());
        let told: Value = serde_json::from_str(&told).expect("it is JSON");
        assert_eq!(told["line"], number + 2);
        assert!(told["error"].as_str().is_some_and(|error| error.starts_with(why)), "{told}");
    }
    let played: Value = serde_json::from_str(&driven.play("cut all").await).expect("it is JSON");
    assert_eq!(played, serde_json::json!({ "fault": "cut all", "line": 6, "connections": 0 }));
    let none: Value = serde_json::from_str(&driven.play("expire 7").await).expect("it is JSON");
    assert_eq!(none, serde_json::json!({ "fault": "expire 7", "line": 7, "expired": false }));
    // Also while it waits for the next line.
    let Driven { served, input, .. } = driven;
    let said = served.interrupt().await;
    drop(input);
    assert_eq!(said.lines().count(), 1, "for development and tests only: {said}");
}

#[tokio::test]
async fn a_file_with_a_bad_line_is_refused_before_anything_is_served() {
    let file = script("wait 1s\ncut-off 3 1s\ncut 9\n");
    let file = name(&file);
    for (arguments, why) in [
        (
            &["--servers", "3", "--faults", file][..],
            "line 2: \"3\" is not a SERVER; it must be the number of a server, 0 ",
        ),
        (&["--servers", "4", "--faults", file], "line 3: \"9\" is not a TARGET; it must be all, or the number of a "),
        (&["--faults", "/no/such"], "zkr: --faults /no/such: No such file"),
    ] {
        let told = ended(zkr(&[&AT_TWO_ADDRESSES, arguments].concat()).spawn().expect("it starts")).await;
        assert_eq!((told.status, &*told.out, told.err.lines().count()), (125, "", 1), "{}", told.err);
        assert!(told.err.contains(why) && told.err.starts_with("zkr: --faults /"), "{}", told.err);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_go_on_for_a_reader_of_the_first_line_alone() {
    let file = script(&"wait 100ms\nlose-reply all create applied\n".repeat(3_000));
    let served = Served::of(zkr(&["serve", "--listen", "127.0.0.1:0", "--faults", name(&file)])).await;
    let Served { mut process, lines, connect } = served;
    drop(lines);
    let client = connect_to(&connect).await;
    for path in ["/a", "/b"] {
        let is_lost =
            async || create(&client, path).await.is_err_and(|error| error.kind() == ErrorKind::OutcomeUnknown);
        let again = async || {
            let lost = is_lost().await;
            client.delete(path, None).await.ok();
            lost
        };
        eventually("a reply is lost", SOON, again).await;
    }
    assert!(process.try_wait().expect("its state").is_none(), "it serves");
    signal(&process, Signal::SIGINT);
    assert_eq!(ended(process).await.status, 0);
}
