//! Numbers that run out, and clocks.

use super::{create, loses, next, open, session, start, three};
use crate::engine::{Error, Multi, Op, OpResult, SessionEvent};
use crate::protocol::ErrorCode;
use crate::testing::ensemble::{Options, Who};
use crate::util::znode::{Acl, CreateMode};

#[tokio::test(start_paused = true)]
async fn an_exhausted_counter_sticks_when_idle() {
    let ensemble = start(Options::default());
    let session = session(&ensemble, 1).await;
    ensemble.create_by_hand("/d", b"", CreateMode::Persistent).unwrap();
    ensemble.set_sequence("/d", i32::MAX - 1).unwrap();
    for number in ["2147483646", "2147483647"] {
        let path = create(&session, "/d/n-", CreateMode::EphemeralSequential).await;
        assert_eq!(path, format!("/d/n-{number}"));
    }
    for _ in 0..2 {
        let created = session.create("/d/n-", b"", CreateMode::EphemeralSequential, &[Acl::anyone_all()]).await;
        assert_eq!(created.map(drop), Err(Error::NodeExists));
    }
    let other = create(&session, "/d/m-", CreateMode::EphemeralSequential).await;
    assert_eq!(other, "/d/m-2147483647", "another prefix gets the same number");
    assert_eq!(ensemble.set_sequence("/no", 1), Err(ErrorCode::NoNode));
}

#[tokio::test(start_paused = true)]
async fn versions_wrap_around_and_the_last_one_before_0_stands_for_any() {
    let ensemble = start(Options::default());
    let session = session(&ensemble, 1).await;
    ensemble.create_by_hand("/v", b"old", CreateMode::Persistent).unwrap();
    ensemble.set_version("/v", i32::MAX).unwrap();
    let (data, stat) = session.get_data("/v").await.unwrap();
    assert_eq!((data, stat.version), (b"old".to_vec(), i32::MAX));
    let set = async |version| session.set_data("/v", b"new", version).await.map(|stat| stat.version);
    assert_eq!(set(Some(i32::MAX)).await, Ok(i32::MIN));
    ensemble.set_version("/v", -2).unwrap();
    assert_eq!(set(Some(-2)).await, Ok(-1));
    assert_eq!(set(Some(-1)).await, Ok(0));
    assert_eq!(set(Some(-1)).await, Ok(1), "any version");
    assert_eq!(ensemble.set_version("/no", 1), Err(ErrorCode::NoNode));
}

#[tokio::test(start_paused = true)]
async fn it_goes_negative_inside_a_pipeline_and_falls_back() {
    let ensemble = start(Options { commit: 5..=5, latency: 1..=1, ..Options::default() });
    let session = session(&ensemble, 1).await;
    ensemble.create_by_hand("/d", b"", CreateMode::Persistent).unwrap();
    ensemble.set_sequence("/d", i32::MAX).unwrap();
    let one = || session.create("/d/n-", b"", CreateMode::EphemeralSequential, &[Acl::anyone_all()]);
    let pipeline = [one(), one(), one()];
    let mut names = Vec::new();
    for created in pipeline {
        names.push(created.await.unwrap().0);
    }
    assert_eq!(names, ["/d/n-2147483647", "/d/n--2147483648", "/d/n--2147483647"]);
    assert_eq!(one().await.map(drop), Err(Error::NodeExists), "idle again: back at the last number");
    session.delete("/d/n-2147483647", None).await.unwrap();
    let op = |name: &str| Op::Create {
        path: format!("/d/{name}-"),
        data: Vec::new(),
        mode: CreateMode::EphemeralSequential,
        acls: vec![Acl::anyone_all()],
    };
    let created = |name: &str| OpResult::Create { path: format!("/d/{name}") };
    let multi = session.multi(vec![op("a"), op("b")]).await;
    let expected = vec![created("a-2147483647"), created("b--2147483648")];
    assert_eq!(multi, Ok(Multi::Committed(expected)), "a transaction is a pipeline of its own");
}

#[tokio::test(start_paused = true)]
async fn stamps_are_virtual_time_and_numbers_grow_over_all_sessions() {
    let ensemble = three(1, 5);
    let (a, b) = (session(&ensemble, 1).await, session(&ensemble, 2).await);
    tokio::time::sleep(std::time::Duration::from_secs(3_600)).await;
    let anyone = [Acl::anyone_all()];
    let mut last = 0;
    for (number, session) in [&a, &b, &a].into_iter().enumerate() {
        let created = session.create(&format!("/{number}"), b"", CreateMode::Persistent, &anyone);
        let stat = created.await.unwrap().1;
        assert!(stat.czxid > last);
        last = stat.czxid;
        let since_start = stat.ctime - Options::default().epoch;
        assert!((3_600_000..3_602_000).contains(&since_start), "{}", stat.ctime);
    }
    let before = ensemble.zxid();
    assert!(a.delete("/no", None).await.is_err());
    assert_eq!(ensemble.zxid(), before + 1, "a refusal takes a number too");
}

#[tokio::test(start_paused = true)]
async fn there_is_no_limit_to_the_watches_of_a_session() {
    let ensemble = start(Options::default());
    let mut opened = open(&ensemble, 1).await;
    let mut watches = Vec::new();
    for number in 0..1_000 {
        watches.push(opened.session.watch_exists(&format!("/{number:0>999}")).await.expect("a watch").1);
    }
    assert_eq!(ensemble.watches(None), watches.len());
    ensemble.disconnect(Who::All);
    loses(&mut opened).await;
    assert_eq!(next(&mut opened).await, SessionEvent::Connected);
    opened.session.exists("/").await.unwrap();
    assert_eq!(ensemble.watches(None), watches.len(), "all are restored");
}
