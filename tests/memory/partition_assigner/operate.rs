//! What operators use: the state of an assigner, and its configuration, through lost answers and other writers.

use std::time::Duration;

use zookeeper_recipes::partition_assigner::{AssignerState, Error, drain, pin, rebalance, state, undrain, unpin};
use zookeeper_recipes::testing::{Loss, Operation, TestingServer};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use crate::fixture::{SOON, within};

const BASE: &str = "/app/jobs";
const CONFIG: &str = "/app/jobs/config";
const LATENCY: Duration = Duration::from_millis(3);

async fn server() -> (TestingServer, Client) {
    let server = TestingServer::builder().latency(LATENCY..=LATENCY).start();
    let client = server.client().await.expect("a client");
    (server, client)
}

fn by_hand(server: &TestingServer, nodes: &[(&str, &str)]) {
    for (path, data) in nodes {
        server.create_by_hand(&format!("{BASE}{path}"), data, CreateMode::Persistent).expect("created");
    }
}

/// An assigner with these data in its configuration.
async fn with_config(data: &str) -> (TestingServer, Client) {
    let (server, client) = server().await;
    server.create_by_hand("/app", "", CreateMode::Persistent).expect("created");
    by_hand(&server, &[("", ""), ("/config", data)]);
    (server, client)
}

fn config(server: &TestingServer) -> String {
    String::from_utf8(server.get(CONFIG).expect("it is there")).expect("it is text")
}

async fn read(client: &Client) -> AssignerState {
    within("it is read", SOON, state(client, BASE)).await.expect("the state")
}

#[tokio::test(start_paused = true)]
async fn what_operators_set_is_in_the_configuration_and_what_was_set_before_is_answered() {
    let (server, client) = server().await;
    pin(&client, BASE, "7", "w-1").await.expect("pinned");
    assert_eq!(config(&server), r#"{"pins":{"7":"w-1"},"rebalances":0}"#, "the directories were created");
    drain(&client, BASE, "w-2").await.expect("drained");
    rebalance(&client, BASE).await.expect("asked for");
    pin(&client, BASE, "7", "w-3").await.expect("pinned");
    assert_eq!(config(&server), r#"{"pins":{"7":"w-3"},"drained":["w-2"],"rebalances":1}"#);
    let version = || server.stat(CONFIG).expect("it is there").version;
    let before = version();
    pin(&client, BASE, "7", "w-3").await.expect("it is pinned");
    drain(&client, BASE, "w-2").await.expect("it is drained");
    assert!(!unpin(&client, BASE, "8").await.expect("an answer"));
    assert!(!undrain(&client, BASE, "w-1").await.expect("an answer"));
    assert_eq!(version(), before, "nothing was written");
    assert!(unpin(&client, BASE, "7").await.expect("an answer"));
    assert!(undrain(&client, BASE, "w-2").await.expect("an answer"));
    assert_eq!(config(&server), r#"{"rebalances":1}"#);
}

#[tokio::test(start_paused = true)]
async fn fields_of_a_later_version_are_kept_and_a_configuration_that_cannot_be_read_is_left_alone() {
    let (server, client) = with_config(r#"{"rebalances":4,"pace":{"b":1}}"#).await;
    pin(&client, BASE, "7", "w-1").await.expect("pinned");
    assert_eq!(config(&server), r#"{"pins":{"7":"w-1"},"rebalances":4,"pace":{"b":1}}"#);
    for bad in ["nonsense", "[]", r#"{"pins":3}"#, r#"{"rebalances":-1}"#] {
        server.set_data_by_hand(CONFIG, bad).expect("set");
        for outcome in [
            pin(&client, BASE, "7", "w-1").await,
            unpin(&client, BASE, "7").await.map(drop),
            drain(&client, BASE, "w-1").await,
            undrain(&client, BASE, "w-1").await.map(drop),
            rebalance(&client, BASE).await,
        ] {
            let error = outcome.expect_err("it cannot be read");
            assert!(matches!(error, Error::InvalidNode { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.starts_with("partition assigner at /app/jobs: config: \""), "{text}");
        }
        assert_eq!(config(&server), bad);
        assert_eq!(read(&client).await.unreadable.iter().map(|one| one.node.as_str()).collect::<Vec<_>>(), ["config"]);
    }
}

#[tokio::test(start_paused = true)]
async fn names_and_paths_that_are_none_are_refused_before_anything_is_sent() {
    let (server, client) = server().await;
    server.clear_records();
    for name in ["", "a/b", ".", "a\u{0}"] {
        for outcome in [
            pin(&client, BASE, name, "w-1").await,
            pin(&client, BASE, "7", name).await,
            unpin(&client, BASE, name).await.map(drop),
            drain(&client, BASE, name).await,
            undrain(&client, BASE, name).await.map(drop),
        ] {
            let error = outcome.expect_err("it is refused");
            assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        }
    }
    for error in [
        rebalance(&client, "jobs").await.expect_err("a malformed path"),
        state(&client, "jobs").await.map(drop).expect_err("a malformed path"),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidPath);
    }
    assert_eq!(server.get(CONFIG), None);
}

/// Each change, whose answer is lost in each way, while the node exists and while it does not.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_settled_by_reading_again_and_nothing_is_done_twice() {
    for loss in [Loss::Applied, Loss::NotApplied, Loss::Truncated, Loss::Malformed] {
        let (server, client) = server().await;
        server.lose_next_reply(&client, Operation::Create, loss);
        within("it is asked for", SOON * 3, rebalance(&client, BASE)).await.expect("asked for");
        assert_eq!(config(&server), r#"{"rebalances":1}"#, "{loss:?}");

        let (server, client) = with_config(r#"{"pins":{"8":"w"},"drained":["b"],"rebalances":5}"#).await;
        let mut writes = 0;
        let mut lose = || {
            writes += 1;
            server.lose_next_reply(&client, Operation::SetData, loss);
        };
        lose();
        pin(&client, BASE, "7", "w").await.expect("pinned");
        lose();
        assert!(unpin(&client, BASE, "8").await.expect("unpinned"), "{loss:?}");
        lose();
        drain(&client, BASE, "a").await.expect("drained");
        lose();
        assert!(undrain(&client, BASE, "b").await.expect("undrained"), "{loss:?}");
        lose();
        rebalance(&client, BASE).await.expect("asked for");
        assert_eq!(config(&server), r#"{"pins":{"7":"w"},"drained":["a"],"rebalances":6}"#, "{loss:?}");
        assert_eq!(server.stat(CONFIG).map(|stat| stat.version), Some(writes), "{loss:?}: each was written once");
        assert!(server.lost_replies() > 0, "{loss:?}");
    }
}

/// Starts a call, and lets others write before its write arrives, once as often as given.
async fn overtaken(
    server: &TestingServer,
    client: &Client,
    call: impl Future<Output = Result<(), Error>> + Send + 'static,
    loss: Option<Loss>,
    written: &[&str],
) -> Result<(), Error> {
    let sets = server.count(client, Operation::SetData);
    let call = server.spawn(client, call);
    let reads = server.count(client, Operation::GetData);
    server.until(|| server.count(client, Operation::GetData) > reads).await;
    match loss {
        // After the read of ours, before its write.
        None => {}
        Some(loss) => {
            server.lose_next_reply(client, Operation::SetData, loss);
            let version = server.stat(CONFIG).expect("it is there").version;
            match loss {
                Loss::NotApplied => {
                    let lost = server.lost_replies();
                    server.until(|| server.lost_replies() > lost).await;
                }
                _ => server.until(|| server.stat(CONFIG).is_some_and(|stat| stat.version > version)).await,
            }
        }
    }
    for data in written {
        server.set_data_by_hand(CONFIG, data).expect("written");
    }
    let outcome = within("it ends", SOON * 3, call).await.expect("no panic");
    assert!(server.count(client, Operation::SetData) > sets);
    outcome
}

#[tokio::test(start_paused = true)]
async fn what_another_client_writes_first_is_kept() {
    let (server, client) = with_config("").await;
    let of = client.clone();
    let pinned = async move { pin(&of, BASE, "7", "w").await };
    overtaken(&server, &client, pinned, None, &[r#"{"pins":{"8":"x"},"rebalances":2}"#]).await.expect("pinned");
    assert_eq!(config(&server), r#"{"pins":{"7":"w","8":"x"},"rebalances":2}"#);
}

#[tokio::test(start_paused = true)]
async fn only_what_cannot_be_known_has_an_unknown_outcome() {
    let pinned = |client: &Client| {
        let client = client.clone();
        async move { pin(&client, BASE, "7", "w").await }
    };
    let asked = |client: &Client| {
        let client = client.clone();
        async move { rebalance(&client, BASE).await }
    };
    // Ours was carried out, and undone by another one; or it was not, and two others wrote.
    for (loss, others) in [(Loss::Applied, &["{}"][..]), (Loss::NotApplied, &["{}", r#"{"rebalances":1}"#])] {
        let (server, client) = with_config("").await;
        let error =
            overtaken(&server, &client, pinned(&client), Some(loss), others).await.expect_err("it cannot be known");
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        assert_eq!(config(&server), *others.last().expect("one"), "it is not overwritten");
    }
    // One write of another client shows that ours was refused.
    let (server, client) = with_config("").await;
    let others = [r#"{"pins":{"8":"x"}}"#];
    overtaken(&server, &client, pinned(&client), Some(Loss::NotApplied), &others).await.expect("pinned");
    assert_eq!(config(&server), r#"{"pins":{"7":"w","8":"x"},"rebalances":0}"#);
    // The count shows it, however often others write.
    let (server, client) = with_config(r#"{"rebalances":3}"#).await;
    let others = [r#"{"rebalances":3,"drained":["a"]}"#, r#"{"rebalances":3}"#];
    overtaken(&server, &client, asked(&client), Some(Loss::NotApplied), &others).await.expect("asked for");
    assert_eq!(config(&server), r#"{"rebalances":4}"#);
    let (server, client) = with_config(r#"{"rebalances":3}"#).await;
    let others = [r#"{"rebalances":4,"drained":["a"]}"#, r#"{"rebalances":4}"#];
    overtaken(&server, &client, asked(&client), Some(Loss::Applied), &others).await.expect("asked for");
    assert_eq!(config(&server), r#"{"rebalances":4}"#, "it was ours");
}

#[tokio::test(start_paused = true)]
async fn who_is_always_overtaken_gives_up() {
    let (server, client) = with_config("").await;
    let mut written = 0;
    let mut call = Box::pin(pin(&client, BASE, "7", "w"));
    let error = loop {
        let (reads, sets) = (server.count(&client, Operation::GetData), server.count(&client, Operation::SetData));
        let is_next = server.until(|| {
            server.count(&client, Operation::GetData) > reads || server.count(&client, Operation::SetData) > sets
        });
        tokio::select! {
            biased;
            outcome = &mut call => break outcome.expect_err("it gives up"),
            () = is_next => {}
        }
        written += 1;
        server.set_data_by_hand(CONFIG, format!(r#"{{"rebalances":{written}}}"#)).expect("written");
    };
    assert_eq!(error.kind(), ErrorKind::BadVersion, "{error}");
    assert!(error.to_string().contains("have written first 32 times"), "{error}");
    assert!(!config(&server).contains("pins"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_carried_out() {
    let (server, client) = with_config("").await;
    let mut call = Box::pin(rebalance(&client, BASE));
    assert!(futures::poll!(&mut call).is_pending());
    drop(call);
    within("it is written", SOON, server.until(|| config(&server) == r#"{"rebalances":1}"#)).await;
}

#[tokio::test(start_paused = true)]
async fn the_state_of_an_assigner_with_what_cannot_be_read() {
    let (server, client) = server().await;
    assert_eq!(read(&client).await, AssignerState::default(), "there is none");
    server.create_by_hand("/app", "", CreateMode::Persistent).expect("created");
    let other = server.client().await.expect("a client");
    by_hand(
        &server,
        &[
            ("", ""),
            ("/leader", ""),
            ("/leader/_c_x-latch-0000000000", "w-1"),
            ("/members", ""),
            ("/assignments", ""),
            ("/assignments/w-1", r#"{"member":"000000000000000a","assigned":["2"],"held":["2","10"]}"#),
            ("/assignments/w-9", r#"{"member":"000000000000000c","assigned":["3"]}"#),
            ("/assignments/broken", "x"),
            ("/assignments/secret", "{}"),
            ("/owned", ""),
            ("/config", r#"{"pins":{"2":"w-9"},"drained":["w-9"],"rebalances":6}"#),
        ],
    );
    for (node, data) in [
        ("members/w-1~000000000000000a", r#"{"weight":3,"capacity":8,"labels":{"zone":"a"}}"#),
        ("members/w-2~000000000000000b", "{}"),
        ("members/odd", "{}"),
        ("members/zero~000000000000000d", r#"{"weight":0}"#),
        ("owned/2~000000000000000a.1", ""),
        ("owned/odd", ""),
    ] {
        other.create(&format!("{BASE}/{node}"), data, CreateMode::Ephemeral).await.expect("created");
    }
    server.deny(&format!("{BASE}/assignments/secret"));
    let state = read(&client).await;
    assert_eq!((state.leader.as_deref(), state.rebalances), (Some("w-1"), 6));
    let members: Vec<_> = state.members.iter().map(ToString::to_string).collect();
    let expected = [
        "w-1: present, holds 2 of 1 assigned",
        "w-2: present, holds 0 of 0 assigned",
        "w-9: away, drained, 1 reserved",
        "zero: present, holds 0 of 0 assigned",
    ];
    assert_eq!(members, expected);
    let one = &state.members[0];
    assert_eq!((one.weight, one.capacity, one.labels["zone"].as_str()), (Some(3), Some(8), "a"));
    assert_eq!(one.held, ["2", "10"], "numbers count by their value");
    assert_eq!((state.members[1].weight, state.members[3].weight), (Some(1), None));
    let token = server.stat(&format!("{BASE}/owned/2~000000000000000a.1")).expect("it is there").czxid;
    let partitions: Vec<_> = state.partitions.iter().map(ToString::to_string).collect();
    let expected = [
        format!("2: w-1 (token {token}), pinned to w-9"),
        "3: unowned, reserved for w-9".to_owned(),
        "10: unowned".to_owned(),
    ];
    assert_eq!(partitions, expected);
    let mut unreadable: Vec<_> = state.unreadable.iter().map(|one| one.node.as_str()).collect();
    unreadable.sort_unstable();
    let expected =
        ["assignments/broken", "assignments/secret", "members/odd", "members/zero~000000000000000d", "owned/odd"];
    assert_eq!(unreadable, expected);
    let json = serde_json::to_value(&state).expect("a value");
    assert_eq!((&json["members"][0]["is_present"], &json["partitions"][0]["token"]), (&true.into(), &token.into()));

    server.deny(&format!("{BASE}/members"));
    server.deny(&format!("{BASE}/leader"));
    let denied = read(&client).await;
    assert!(denied.members.iter().all(|member| !member.is_present) && denied.leader.is_none());
    assert!(denied.unreadable.iter().any(|one| one.node == "members" && one.why.contains("list")), "{denied:?}");
    assert!(denied.unreadable.iter().any(|one| one.node == "leader"), "{denied:?}");
}
