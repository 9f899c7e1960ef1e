//! Leaders that are asked to resign, and those that are chosen.

use zookeeper_recipes::Permissions;
use zookeeper_recipes::leader_latch::{LatchStatus, LeaderLatchBuilder};

use super::*;

/// Starts a latch that can be asked if it has a grace period, and waits until it has settled.
async fn latch(fixture: &Fixture, id: &str, grace: Option<Duration>) -> LeaderLatch {
    settled(fixture, LeaderLatch::builder(&fixture.client, &fixture.path).id(id), grace).await
}

async fn settled(fixture: &Fixture, latch: LeaderLatchBuilder, grace: Option<Duration>) -> LeaderLatch {
    let latch = match grace {
        Some(grace) => latch.revocable(grace),
        None => latch,
    };
    let latch = latch.start().expect("it starts");
    let mut states = latch.state();
    let is_settled = |status| matches!(status, LatchStatus::Waiting | LatchStatus::Leading);
    drop(within("it settles", SOON, states.wait_for(|state| is_settled(state.status()))).await.expect("it is open"));
    if grace.is_some() {
        let request = latch.our_path().expect("a node").replace(&fixture.path, &format!("{}-requests", fixture.path));
        let accepts =
            || async { fixture.client.exists(&format!("{request}-request")).await.expect("an answer").is_some() };
        eventually("it can be asked", SOON, accepts).await;
    }
    latch
}

async fn leads(latch: &LeaderLatch) {
    within("it leads", SOON, latch.wait_for_leadership()).await.expect("it leads");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_resigns_and_the_chosen_one_leads() {
    let fixture = Fixture::new("transfer").await;
    let path = fixture.path.as_str();
    let mut line = Vec::new();
    for id in ["host-1", "host-2", "host-3", "host-4"] {
        line.push(latch(&fixture, id, Some(Duration::ZERO)).await);
    }
    let node = line[0].our_path().expect("it leads");
    let told = fixture.zkr(&["latch", "resign", path]).await;
    assert_eq!((told.status, told.out), (0, format!("{path}: \"host-1\" ({node}) is asked to resign\n")));
    assert_eq!(told.err, format!("zkr: zkr latch ls {path} shows who leads\n"));
    leads(&line[1]).await;

    let node = line[3].our_path().expect("it waits");
    let told = fixture.answer(&["latch", "transfer", path, "--to", "host-4"]).await;
    assert!(told.starts_with(&format!("{path}: \"host-4\" ({node}) is first in line now, token ")), "{told}");
    leads(&line[3]).await;
    let again = fixture.values(&["latch", "transfer", path, "--to", &node]).await;
    let leader = &again[0]["leader"];
    assert_eq!((&leader["id"], &leader["is_leader"]), (&Value::from("host-4"), &Value::from(true)));
    let line_now = fixture.answer(&["latch", "ls", path]).await;
    assert!(line_now.contains("1 hold, 3 wait"), "{line_now}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn priorities_are_shown_and_who_gives_way() {
    let fixture = Fixture::new("priorities").await;
    let path = fixture.path.as_str();
    let mut line = Vec::new();
    for (id, priority) in [("best", 1), ("worst", 9)] {
        let builder = LeaderLatch::builder(&fixture.client, path).id(id).priority(priority);
        line.push(settled(&fixture, builder, Some(Duration::ZERO)).await);
    }
    let shown = fixture.answer(&["latch", "ls", path]).await;
    assert!(shown.contains("priority 1, session") && shown.contains("priority 9, session"), "{shown}");
    fixture.answer(&["latch", "transfer", path, "--to", "worst"]).await;
    leads(&line[1]).await;
    let gives_way =
        || async { fixture.answer(&["latch", "ls", path]).await.contains("priority 1, gives way, session") };
    eventually("the better one is in the line again", SOON, gives_way).await;
    let places = &fixture.values(&["latch", "ls", path]).await[0]["places"];
    let ranks = [0, 1].map(|at| (&places[at]["priority"], &places[at]["gives_way"]));
    let [nine, one] = [9, 1].map(Value::from);
    assert_eq!(ranks, [(&nine, &Value::from(false)), (&one, &Value::from(true))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_cannot_be_is_refused_with_the_reason() {
    let fixture = Fixture::new("transfer-refused").await;
    let path = fixture.path.as_str();
    let missing = fixture.zkr(&["latch", "transfer", path, "--to", "host-1"]).await;
    assert_eq!(missing.status, 1);
    assert!(missing.err.contains("check the path, --namespace and --connect"), "{}", missing.err);

    let plain = latch(&fixture, "plain", None).await;
    let node = plain.our_path().expect("it leads");
    let last = latch(&fixture, "last", Some(Duration::ZERO)).await;
    for arguments in [&["latch", "resign", path][..], &["latch", "transfer", path, "--to", "last"]] {
        let refused = fixture.zkr(arguments).await;
        assert_eq!((refused.status, &*refused.out), (1, ""), "{arguments:?}");
        for part in ["nothing was asked", node.as_str(), "revocable"] {
            assert!(refused.err.contains(part), "{part}: {}", refused.err);
        }
    }
    let empty = fixture.zkr(&["latch", "transfer", path, "--to", ""]).await;
    assert!(empty.status == 125 && empty.err.contains("--to"), "{}: {}", empty.status, empty.err);
    let unknown = fixture.zkr(&["latch", "transfer", path, "--to", "lats"]).await;
    assert_eq!(unknown.status, 1);
    assert!(unknown.err.contains("\"lats\"") && unknown.err.contains("zkr latch ls"), "{}", unknown.err);
    assert!(plain.has_leadership() && !last.has_leadership());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_whose_time_is_over_names_the_leader() {
    let fixture = Fixture::new("transfer-late").await;
    let path = fixture.path.as_str();
    let leader = latch(&fixture, "slow", Some(Duration::MAX)).await;
    let node = leader.our_path().expect("it leads");
    let asked = fixture.zkr(&["latch", "resign", path]).await;
    assert_eq!(asked.status, 0, "{}", asked.err);
    let line = fixture.zkr(&["latch", "ls", path]).await;
    assert_eq!((line.status, line.err), (0, format!("zkr: {node} was asked to resign\n")));
    let _target = latch(&fixture, "target", None).await;
    let late = fixture.zkr(&["latch", "transfer", path, "--to", "target", "--wait", "500ms"]).await;
    assert_eq!((late.status, &*late.out), (124, ""));
    for part in ["\"target\" does not lead within 500ms", &node, "\"slow\" leads", "--wait"] {
        assert!(late.err.contains(part), "{part}: {}", late.err);
    }
    let help = within("help", SOON, zkr(&["latch", "transfer", "--help"]).output()).await.expect("it ends");
    let help = String::from_utf8(help.stdout).expect("it is text");
    for part in ["revocable", "withdrawn", "124", "Example", "--to <ID>", "Ctrl-C", "Choose one that runs"] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_is_shown_to_one_that_may_not_read_the_requests() {
    let fixture = Fixture::new("transfer-unread").await;
    let path = fixture.path.as_str();
    let requests = format!("{path}-requests");
    let unread = Acl::new(Permissions::CREATE | Permissions::DELETE, "world", "anyone");
    let builder = Client::builder(fixture.server.addr().to_string()).acls([unread]);
    let owner = within("a session", SOON, builder.connect()).await.expect("a session");
    owner.create(&requests, "", CreateMode::Persistent).await.expect("a new node");
    let leader = latch(&fixture, "host-1", Some(Duration::ZERO)).await;
    let line = fixture.zkr(&["latch", "ls", path]).await;
    assert!(line.status == 0 && line.out.contains("host-1"), "{}: {}", line.status, line.err);
    assert!(line.err.contains("who was asked to resign is not known") && line.err.contains(&requests), "{}", line.err);
    assert!(leader.has_leadership());
}
