//! What becomes of nodes, transaction by transaction.

use bytes::Bytes;

use super::super::{End, Moment, What};
use super::*;

const A: &str = "/l/a-lock-0000000001";
const B: &str = "/l/b-lock-0000000002";
const C: &str = "/l/c-lock-0000000003";

/// What is told of one log at a path.
fn of(log: &Log, path: &str) -> Vec<String> {
    let directory = Directory::new();
    told(&[directory.file("log.1", &log.bytes)], path).0
}

#[test]
fn each_end_of_a_hold_and_of_a_wait() {
    let mut log = Log::from(1);
    log.open(7).open(8).open(9).create(7, A).create(8, B).create(9, C).delete(7, A).close(8, true).delete(7, C);
    log.create(7, A).create(9, B).close(9, false).close(7, false);
    let expected = [
        "/l/a-lock-0000000001 held from 4 to 7, Released",
        "/l/b-lock-0000000002 held from 7 to 8, SessionExpired",
        "/l/c-lock-0000000003 held from 8 to 9, Deleted by 7",
        "/l/c-lock-0000000003 and /l/a-lock-0000000001 from 10 to 11, 0 others",
        "/l/b-lock-0000000002 waited from 11 to 12, SessionClosed",
        "/l/a-lock-0000000001 held from 10 to 13, SessionClosed",
    ];
    assert_eq!(of(&log, "/l"), expected);
    assert_eq!(of(&log, "/"), expected, "everything is below the root");
    assert_eq!(of(&log, "/other"), [""; 0]);
}

#[test]
fn a_servers_own_delete_and_what_remains() {
    let mut log = Log::from(1);
    log.open(7).create_persistent(7, A).create(7, B).txn(0, 0, OpCode::DeleteContainer, &deleted(A));
    log.set(8, B, b"__REVOKE__").set(9, B, b"__REVOKE__");
    let directory = Directory::new();
    let file = directory.file("log.1", &log.bytes);
    let expected = ["/l/a-lock-0000000001 held from 2 to 4, Removed", "/l/b-lock-0000000002 held from 4, Remains"];
    assert_eq!(told(std::slice::from_ref(&file), "/l").0, expected);
    let mut revoked = None;
    let logs = Postmortem::open(&[file], "/l").expect("it is a log");
    let report = |event| {
        if let Event::Hold(hold) = event {
            revoked = hold.revoked.map(|by| (by.session_id, by.at.zxid));
        }
        ControlFlow::Continue(())
    };
    logs.replay(None, report).expect("it is read");
    assert_eq!(revoked, Some((8, 5)), "the first one who asked");
}

#[test]
fn a_session_that_was_robbed_may_hold_until_it_is_seen_again() {
    let mut log = Log::from(1);
    log.open(7).open(8).open(9).create(7, A).create(8, B).create(9, C).delete(1, A).delete(8, B).close(7, true);
    let told = of(&log, "/l");
    let overlap = "/l/a-lock-0000000001 and /l/b-lock-0000000002 from 7 to 9, 1 others";
    assert!(told.contains(&overlap.to_owned()), "{told:?}");
    assert_eq!(told.iter().filter(|line| line.contains(" and ")).count(), 1, "{told:?}");
}

#[test]
fn a_node_that_comes_before_a_holder_overtakes_it() {
    let mut log = Log::from(1);
    log.open(7).open(8).create(7, B).create(8, A).delete(8, A).delete(7, B);
    let expected = [
        "/l/a-lock-0000000001 held from 4 to 5, Released",
        "/l/b-lock-0000000002 and /l/a-lock-0000000001 from 4 to 5, 0 others",
        "/l/b-lock-0000000002 held from 3 to 6, Released",
    ];
    assert_eq!(of(&log, "/l"), expected);
}

#[test]
fn a_lock_that_is_downgraded_in_one_transaction() {
    let mut log = Log::from(1);
    let (writer, reader, next) = ("/l/__WRIT__0000000001", "/l/__READ__0000000001", "/l/__WRIT__0000000002");
    log.open(7).open(8).create(7, writer).create(8, next);
    log.multi(7, &[(OpCode::Create2, created(reader, true)), (OpCode::Delete, deleted(writer))]).delete(7, reader);
    let expected = [
        "/l/__WRIT__0000000001 held from 3 to 5, Released",
        "/l/__READ__0000000001 held from 5 to 6, Released",
        "/l/__WRIT__0000000002 held from 6, Remains",
    ];
    assert_eq!(of(&log, "/l"), expected);
}

#[test]
fn a_refused_transaction_changes_nothing() {
    let mut log = Log::from(1);
    let error = Bytes::copy_from_slice(&(-103_i32).to_be_bytes());
    log.open(7).create(7, A).multi(7, &[(OpCode::Delete, deleted(A)), (OpCode::Error, error.clone())]);
    log.txn(7, 3, OpCode::Error, &error);
    assert_eq!(of(&log, "/l"), ["/l/a-lock-0000000001 held from 2, Remains"]);
}

#[test]
fn a_directory_that_is_named_like_a_contender_holds_nothing() {
    let mut log = Log::from(1);
    log.open(7).create_persistent(7, A).create(7, "/l/a-lock-0000000001/b-lock-0000000000").create(7, B);
    let expected =
        ["/l/a-lock-0000000001/b-lock-0000000000 held from 3, Remains", "/l/b-lock-0000000002 held from 4, Remains"];
    assert_eq!(of(&log, "/l"), expected);
}

#[test]
fn permits_are_held_once_their_places_have_left_the_line() {
    let mut log = Log::from(1);
    let (place, lease) = ("/s/locks/a-lock-0000000000", "/s/leases/a-lease-0000000000");
    log.open(7).create(7, place).create(7, lease).delete(7, place).create(7, "/s/locks/b-lock-0000000001");
    log.create(7, "/s/leases/b-lease-0000000001").close(7, true);
    let expected = [
        "/s/locks/a-lock-0000000000 held from 2 to 4, Released",
        "/s/leases/a-lease-0000000000 held from 4 to 7, SessionExpired",
        "/s/leases/b-lease-0000000001 waited from 6 to 7, SessionExpired",
        "/s/locks/b-lock-0000000001 held from 5 to 7, SessionExpired",
    ];
    assert_eq!(of(&log, "/s"), expected);
}

#[test]
fn containers_hold_nothing_and_nodes_with_a_time_to_live_have_no_session() {
    let record = |path: &str| {
        written(|to| {
            to.raw(&created(path, false)[..]);
            // In place of the two last fields, the version of the directory and the time to live.
            to.long(60_000);
        })
    };
    let without_flag = |path: &str| {
        let bytes = record(path);
        let flag = bytes.len() - 13;
        Bytes::from([&bytes[..flag], &bytes[flag + 1..]].concat())
    };
    let mut log = Log::from(1);
    log.open(7).txn(7, 1, OpCode::CreateContainer, &without_flag("/l")).txn(7, 2, OpCode::CreateTtl, &without_flag(A));
    log.create(7, B).txn(0, 0, OpCode::DeleteContainer, &deleted(A));
    let expected = ["/l/a-lock-0000000001 held from 3 to 5, Removed", "/l/b-lock-0000000002 held from 5, Remains"];
    assert_eq!(of(&log, "/"), expected);
}

#[test]
fn other_ephemeral_nodes_are_held_by_their_sessions() {
    let mut log = Log::from(1);
    log.open(7).create(7, "/controller").create_persistent(7, "/config").close(7, true);
    assert_eq!(of(&log, "/"), ["/controller held from 2 to 4, SessionExpired"]);
    assert_eq!(of(&log, "/controller"), ["/controller held from 2 to 4, SessionExpired"], "the path itself");
}

#[test]
fn items_and_what_became_of_them() {
    let mut log = Log::from(1);
    let item = |number: u8| format!("/q/queue-000000000{number}");
    let claim = |number: u8| format!("/q-claims/queue-000000000{number}");
    let letter = "/q-dead/letter-queue-0000000002-0000000000";
    log.open(7).open(8);
    for number in 0..6 {
        log.create_persistent(7, &item(number));
    }
    log.create(8, &claim(0)).close(8, true).create(7, &claim(0));
    log.multi(7, &[(OpCode::Delete, deleted(&item(0))), (OpCode::Delete, deleted(&claim(0)))]);
    log.delete(9, &item(1));
    let dead = [
        (OpCode::Delete, deleted(&item(2))),
        (OpCode::Delete, deleted(&claim(2))),
        (OpCode::Create, created(letter, false)),
    ];
    log.create(7, &claim(2)).multi(7, &dead);
    log.create(7, &claim(3)).delete(7, &item(3)).delete(7, &claim(3));
    log.create(7, &claim(4)).delete(9, &item(4));
    log.create(7, &claim(5)).delete(7, &claim(5));
    let expected = [
        "/q/queue-0000000000 Done 8:SessionExpired 7:Released",
        "/q/queue-0000000001 Taken",
        "/q/queue-0000000002 DeadLettered as /q-dead/letter-queue-0000000002-0000000000 7:Released",
        "/q/queue-0000000003 Done 7:Released",
        "/q/queue-0000000004 Deleted 7:Deleted",
        "/q/queue-0000000005 Remains 7:Released",
    ];
    assert_eq!(of(&log, "/q"), expected);
}

#[test]
fn it_is_told_as_it_was_at_a_time() {
    let mut log = Log::from(1);
    log.open(7).create(7, A).create(7, B).delete(7, A);
    let directory = Directory::new();
    let files = [directory.file("log.1", &log.bytes)];
    let expected = ["/l/a-lock-0000000001 held from 2, Remains", "/l/b-lock-0000000002 waited from 3, Remains"];
    assert_eq!(told_until(&files, "/l", Some(3999)).0, expected);
    assert_eq!(told_until(&files, "/l", Some(4000)).0.len(), 2);
    let logs = Postmortem::open(&files, "/l").expect("it is a log");
    let span = logs.span().expect("it has transactions");
    assert_eq!((span.first.ms, span.last.ms), (1000, 4000));
}

#[test]
fn a_caller_that_has_had_enough_hears_no_more() {
    let mut log = Log::from(1);
    log.open(7).create(7, A).create(7, B).delete(7, A).delete(7, B).create(7, C);
    let directory = Directory::new();
    let logs = Postmortem::open(&[directory.file("log.1", &log.bytes)], "/l").expect("it is a log");
    for (enough, transactions) in [(1, 4), (2, 5), (3, 6), (4, 6)] {
        let mut events = 0;
        let report = |_| {
            events += 1;
            if events == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let summary = logs.replay(None, report).expect("it is read");
        assert_eq!((events, summary.transactions), (enough, transactions));
    }
}

#[test]
fn a_node_without_a_session_is_released_by_its_creator() {
    let mut log = Log::from(1);
    log.open(7).create_persistent(7, A).delete(7, A).create_persistent(7, B).delete(8, B);
    let expected =
        ["/l/a-lock-0000000001 held from 2 to 3, Released by 7", "/l/b-lock-0000000002 held from 4 to 5, Deleted by 8"];
    assert_eq!(of(&log, "/l"), expected);
}

#[test]
fn a_session_that_comes_after_a_gap_has_no_timeout_of_before() {
    let directory = Directory::new();
    let (mut before, mut after) = (Log::from(1), Log::from(9));
    before.open(7);
    after.create(7, A);
    let files = [directory.file("log.1", &before.bytes), directory.file("log.9", &after.bytes)];
    let mut timeouts = Vec::new();
    let report = |event| {
        if let Event::Hold(hold) = event {
            timeouts.push(hold.session_timeout_ms);
        }
        ControlFlow::Continue(())
    };
    Postmortem::open(&files, "/l").expect("they are logs").replay(None, report).expect("they are read");
    assert_eq!(timeouts, [None], "whether the session is the same one is not known");
}

#[test]
fn times_without_sense_do_not_overflow() {
    let moment = |ms| Moment { zxid: 1, ms };
    let hold = Hold {
        path: A.to_owned(),
        what: What::Node,
        session_id: None,
        session_timeout_ms: None,
        created_by: None,
        data: Vec::new(),
        joined: moment(i64::MIN),
        granted: Some(moment(i64::MIN)),
        granted_before: false,
        revoked: None,
        ended: Some(moment(i64::MAX)),
        end: End::Released,
        ended_by: None,
    };
    assert_eq!(hold.held_ms(), Some(i64::MAX));
}
