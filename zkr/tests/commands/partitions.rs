//! Partition assigners: who has what, what operators set, and each change as a line.

use super::*;

/// Creates the nodes of an assigner with a member that is present and one that is away.
async fn assigner(fixture: &Fixture) {
    let nodes = [
        ("", "", CreateMode::Persistent),
        ("/leader", "", CreateMode::Persistent),
        ("/leader/_c_x-latch-0000000000", "w-1", CreateMode::Ephemeral),
        ("/members", "", CreateMode::Persistent),
        ("/members/w-1~000000000000000a", r#"{"weight":2,"labels":{"zone":"a"}}"#, CreateMode::Ephemeral),
        ("/assignments", "", CreateMode::Persistent),
        (
            "/assignments/w-1",
            r#"{"member":"000000000000000a","assigned":["7","8","9"],"held":["7"]}"#,
            CreateMode::Persistent,
        ),
        ("/assignments/w-2", r#"{"member":"000000000000000b","assigned":["3"]}"#, CreateMode::Persistent),
        ("/owned", "", CreateMode::Persistent),
        ("/owned/7~000000000000000a.1", "", CreateMode::Ephemeral),
    ];
    for (node, data, mode) in nodes {
        fixture.client.create(&format!("{}{node}", fixture.path), data, mode).await.expect("it is created");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_shown_pinned_and_drained() {
    let fixture = Fixture::new("partitions").await;
    let path = fixture.path.as_str();
    for command in ["show", "watch", "rebalance"] {
        let missing = fixture.zkr(&["partitions", command, path]).await;
        assert_eq!((missing.status, &*missing.out), (1, ""), "{command}");
        assert!(missing.err.starts_with(&format!("zkr: {path}: no such node; check the path")), "{}", missing.err);
    }
    assigner(&fixture).await;
    let table = "\
        MEMBER  LEADS    STATE  WEIGHT  CAPACITY  HOLDS  LABELS  PARTITIONS\n\
        w-1       yes  present       2         -      1  zone=a  7\n\
        w-2               away       -         -      0  -       (reserved: 3)\n\
        moving: 8,9: unowned -> w-1\n";
    assert_eq!(fixture.answer(&["partitions", "show", path]).await, table);

    let pinned = fixture.answer(&["partitions", "pin", path, "7", "w-1"]).await;
    assert_eq!(pinned, format!("{path}: partition 7 pinned to w-1; it was not pinned\n"));
    let absent = fixture.zkr(&["partitions", "pin", path, "7", "w-2"]).await;
    assert_eq!(absent.status, 0);
    assert_eq!(absent.out, format!("{path}: partition 7 pinned to w-2; it was pinned to w-1\n"));
    assert!(absent.err.contains("w-2 is not present; zkr partitions show"), "{}", absent.err);
    let unpinned = fixture.values(&["partitions", "unpin", path, "7"]).await;
    let expected = serde_json::json!({ "set": "pin", "path": path, "partition": "7", "pinned": null, "before": "w-2" });
    assert_eq!(unpinned, [expected]);
    let drained = fixture.answer(&["partitions", "drain", path, "w-1"]).await;
    assert_eq!(drained, format!("{path}: member w-1 drained; it was not drained\n"));
    let asked = fixture.answer(&["partitions", "rebalance", path]).await;
    assert_eq!(asked, format!("{path}: the leader is asked to move what absent members had\n"));
    let values = fixture.values(&["partitions", "show", path]).await;
    assert_eq!(
        (&values[0]["path"], &values[0]["leader"], &values[0]["rebalances"]),
        (&path.into(), &"w-1".into(), &1.into())
    );
    assert_eq!(values[0]["members"][0]["is_drained"], true);
    assert_eq!(values[0]["partitions"][1]["owner"], "w-1");
    let undrained = fixture.answer(&["partitions", "undrain", path, "w-1"]).await;
    assert_eq!(undrained, format!("{path}: member w-1 undrained; it was drained\n"));

    fixture.client.set(&format!("{path}/config"), "x", None).await.expect("written");
    let unreadable = fixture.zkr(&["partitions", "show", path]).await;
    assert_eq!((unreadable.status, &*unreadable.err), (1, "zkr: 1 node cannot be read\n"));
    assert!(unreadable.out.contains("\nunreadable: config: "), "{}", unreadable.out);
    let refused = fixture.zkr(&["partitions", "drain", path, "w-1"]).await;
    assert_eq!((refused.status, refused.err.contains("config: \"x\": expected value")), (125, true), "{}", refused.err);
    assert_eq!(fixture.client.get(&format!("{path}/config")).await.expect("its data").0, b"x");
    let bad = fixture.zkr(&["partitions", "pin", path, "a/b", "w-1"]).await;
    assert_eq!((bad.status, bad.err.contains("the name of a node")), (125, true), "{}", bad.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_changes_of_an_assigner_are_lines() {
    let fixture = Fixture::new("partitions-watched").await;
    assigner(&fixture).await;
    let path = fixture.path.as_str();
    let mut child = fixture.start(&["partitions", "watch", path]);
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut line = async || within("a line", SOON, lines.next_line()).await.expect("it is text").expect("a line");
    let first = line().await;
    assert!(first.ends_with("Z watching: 1 member present, 4 partitions, leader w-1"), "{first}");
    let taken = format!("{path}/owned/8~000000000000000a.2");
    fixture.client.create(&taken, "", CreateMode::Ephemeral).await.expect("it is created");
    assert!(line().await.ends_with("Z partition 8: unowned -> w-1"));
    fixture.answer(&["partitions", "pin", path, "8", "w-1"]).await;
    assert!(line().await.ends_with("Z partition 8 pinned to w-1"));
    fixture.client.delete(&format!("{path}/members/w-1~000000000000000a"), None).await.expect("it is deleted");
    assert!(line().await.ends_with("Z member w-1 left"));
    signal(&child, Signal::SIGINT);
    let told = ended(child).await;
    assert_eq!((told.status, &*told.err), (0, ""));
}
