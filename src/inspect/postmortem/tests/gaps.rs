//! Logs of several servers, missing logs, and snapshots.

use super::super::Error;
use super::*;

const A: &str = "/l/a-lock-0000000001";
const B: &str = "/l/b-lock-0000000002";

/// A log with a holder and one that waits, in four transactions.
fn both() -> Log {
    let mut log = Log::from(1);
    log.open(7).open(8).create(7, A).create(8, B);
    log
}

#[test]
fn logs_of_several_servers_fill_each_others_gaps() {
    let directory = Directory::new();
    let mut whole = both();
    whole.delete(7, A).close(8, true);
    let (mut one, mut other) = (Log::from(1), Log::from(4));
    one.open(7).open(8).create(7, A).create(8, B);
    other.create(8, B).delete(7, A).close(8, true);
    let files = [directory.file("one", &one.bytes), directory.file("other", &other.bytes)];
    let expected = told(&[directory.file("whole", &whole.bytes)], "/l");
    let (holds, summary) = told(&files, "/l");
    assert_eq!(holds, expected.0);
    assert_eq!((summary.transactions, summary.logs, summary.is_complete), (6, 2, true));
}

#[test]
fn after_a_gap_it_is_not_known_who_was_there() {
    let directory = Directory::new();
    let mut next = Log::from(9);
    next.create(7, "/l/c-lock-0000000003").delete(8, B);
    let mut before = Log::from(1);
    before.open(7).create(7, A).delete(8, A).create(8, B);
    let files = [directory.file("log.1", &before.bytes), directory.file("log.9", &next.bytes)];
    let (holds, summary) = told(&files, "/l");
    let expected = [
        "/l/a-lock-0000000001 held from 2 to 3, Deleted by 8",
        "gap 0x4 0x9",
        "/l/b-lock-0000000002 held from 4 to 9, Unknown",
        "/l/a-lock-0000000001 and /l/b-lock-0000000002 from 4 to 9, 0 others",
        "/l/c-lock-0000000003 held from 9, Remains",
    ];
    assert_eq!(holds, expected);
    assert!(!summary.is_complete);
}

#[test]
fn a_new_leader_begins_with_its_first_transaction() {
    let directory = Directory::new();
    let mut next = Log::from(0x2_0000_0001);
    next.delete(7, A);
    let files = [directory.file("log.1", &both().bytes), directory.file("log.200000001", &next.bytes)];
    let (holds, summary) = told(&files, "/l");
    assert_eq!(holds[0], "/l/a-lock-0000000001 held from 3 to 1, Released");
    assert!(summary.is_complete);
    let mut late = Log::from(0x2_0000_0002);
    late.delete(7, A);
    let files = [files[0].clone(), directory.file("log.200000002", &late.bytes)];
    assert_eq!(told(&files, "/l").0[0], "gap 0x4 0x200000002");
}

/// As after a leader that has logged a transaction which the others never had.
#[test]
fn what_only_a_failed_leader_has_logged_did_not_happen() {
    let [leader, other] = [Directory::new(), Directory::new()];
    let mut failed = Log::from(0x1_0000_0001);
    failed.open(7).open(8).create(7, A).create(8, B);
    let common = failed.clone();
    failed.delete(7, A).close(7, true);
    let mut next = Log::from(0x2_0000_0001);
    next.close(8, true);
    let alone = [leader.file("log.100000001", &failed.bytes)];
    assert_eq!(told(&alone, "/l").0[0], "/l/a-lock-0000000001 held from 3 to 5, Released", "there is no other log");
    let files =
        [alone[0].clone(), other.file("log.100000001", &common.bytes), other.file("log.200000001", &next.bytes)];
    let (holds, summary) = told(&files, "/l");
    let expected =
        ["/l/b-lock-0000000002 waited from 4 to 1, SessionExpired", "/l/a-lock-0000000001 held from 3, Remains"];
    assert_eq!(holds, expected);
    assert_eq!(
        (summary.uncommitted, summary.transactions, summary.is_complete),
        (2, 5, false),
        "a file may be missing"
    );
    let range = [summary.uncommitted_first, summary.uncommitted_last].map(|at| at.map(|at| at.zxid));
    assert_eq!(range, [Some(0x1_0000_0005), Some(0x1_0000_0006)]);
    // The logs of one server are in one directory, however that is named.
    let name = other.0.file_name().expect("it has a name");
    let in_other_words = other.0.join("..").join(name).join("log.200000001");
    assert_eq!(told(&[files[0].clone(), files[1].clone(), in_other_words], "/l").0, expected);

    // The other server was given a snapshot, or the leader has the next epoch too: then they were committed.
    let snapshot = other.file("snapshot.100000006", &snapshot(&[8], &[]));
    assert_eq!(told(&[&files[..], &[snapshot]].concat(), "/l").1.uncommitted, 0);
    failed.zxid = next.zxid;
    failed.open(9);
    let goes_on = [leader.file("log.100000001", &failed.bytes), files[1].clone(), files[2].clone()];
    let (_, summary) = told(&goes_on, "/l");
    assert_eq!((summary.uncommitted, summary.transactions), (0, 8));
}

/// As after a server was far behind: it is given a snapshot, which it writes, and no log of what is in it.
#[test]
fn what_is_in_a_snapshot_right_after_a_gap_goes_on() {
    let directory = Directory::new();
    let mut next = Log::from(9);
    next.create(7, "/l/c-lock-0000000003").close(8, false);
    let nodes = [("/l", 0, 2), (B, 8, 4), ("/l/d-lock-0000000004", 9, 7)];
    let files = [
        directory.file("log.1", &both().bytes),
        directory.file("snapshot.8", &snapshot(&[8, 9], &nodes)),
        directory.file("log.9", &next.bytes),
    ];
    let (holds, summary) = told(&files, "/l");
    let expected = [
        "gap 0x4 0x9",
        "/l/a-lock-0000000001 held from 3 to 8, Unknown",
        "/l/b-lock-0000000002 held before 8 to 10, SessionClosed",
        "/l/d-lock-0000000004 waited from 7, Remains",
        "/l/c-lock-0000000003 held from 10, Remains",
    ];
    assert_eq!(holds, expected);
    assert!(summary.is_complete);
    directory.file("snapshot.8", &snapshot(&[8, 9], &nodes)[..50]);
    let (holds, summary) = told(&files, "/l");
    assert!(holds[1].starts_with("damage at ") && !summary.is_complete, "{holds:?}");
    let expected = [
        "/l/a-lock-0000000001 held from 3 to 9, Unknown",
        "/l/b-lock-0000000002 waited from 4 to 9, Unknown",
        "/l/c-lock-0000000003 held from 9, Remains",
    ];
    assert_eq!(holds[2..], expected);
}

/// Servers write on while they take a snapshot: it may have nodes of later transactions, and lack some that these
/// delete.
#[test]
fn a_snapshot_that_is_newer_than_its_name() {
    let directory = Directory::new();
    let mut log = Log::from(5);
    log.create(8, "/l/c-lock-0000000003").create(8, "/l/d-lock-0000000004").delete(7, A).delete(7, A);
    let nodes = [("/l", 0, 2), (B, 8, 4), ("/l/d-lock-0000000004", 8, 6)];
    let files = [directory.file("snapshot.4", &snapshot(&[7, 8], &nodes)), directory.file("log.5", &log.bytes)];
    let (holds, summary) = told(&files, "/l");
    let expected = [
        "/l/b-lock-0000000002 held before 4, Remains",
        "/l/c-lock-0000000003 waited from 5, Remains",
        "/l/d-lock-0000000004 waited from 6, Remains",
    ];
    assert_eq!(holds, expected);
    assert!(summary.is_complete);
}

#[test]
fn who_seemed_to_hold_before_a_snapshot_was_known_may_not_have_held() {
    let directory = Directory::new();
    let mut log = Log::from(5);
    log.create(8, B).create_persistent(8, "/x").delete(7, A);
    let nodes = [(A, 7, 2), (B, 8, 5)];
    let files = [directory.file("log.5", &log.bytes), directory.file("snapshot.6", &snapshot(&[7, 8], &nodes))];
    let expected = ["/l/a-lock-0000000001 held before 6 to 7, Released", "/l/b-lock-0000000002 held from 7, Remains"];
    let (holds, summary) = told(&files, "/l");
    assert_eq!(holds, expected);
    assert!(summary.is_complete);
    let (holds, summary) = told(&files[..1], "/l");
    assert_eq!(holds, ["/l/b-lock-0000000002 held from 5, Remains"], "nothing is known of the other one");
    assert!(!summary.is_complete);
}

#[test]
fn a_snapshot_that_is_not_whole_is_passed_over() {
    let directory = Directory::new();
    let whole = snapshot(&[7], &[(A, 7, 2)]);
    let mut log = Log::from(5);
    log.delete(7, A);
    let files = |broken: &[u8]| {
        [
            directory.file("snapshot.4", broken),
            directory.file("snapshot.3", &whole),
            directory.file("log.5", &log.bytes),
        ]
    };
    let (told_of_whole, _) = told(&files(&whole), "/l");
    assert_eq!(told_of_whole, ["/l/a-lock-0000000001 held before 4 to 5, Released"]);
    for (end, why) in [(whole.len() - 6, "ends early"), (40, "ends early")] {
        let (told, summary) = told(&files(&whole[..end]), "/l");
        let [damage] = &told[..] else { panic!("the older snapshot does not fit: {told:?}") };
        assert!(damage.contains(why) && !summary.is_complete, "{damage}");
    }
    let mut changed = whole.clone();
    changed[60] ^= 1;
    assert!(told(&files(&changed), "/l").0[0].contains("checksum"));
}

#[test]
fn a_directory_and_its_version_2() {
    let directory = Directory::new();
    let empty = directory.0.clone();
    assert!(matches!(Postmortem::open(std::slice::from_ref(&empty), "/l"), Err(Error::NoLogs { .. })));
    std::fs::create_dir(empty.join("version-2")).expect("it is created");
    std::fs::write(empty.join("version-2/log.1"), &both().bytes).expect("it is written");
    assert_eq!(told(&[empty], "/l").0.len(), 2);
}

#[test]
fn files_of_other_programs_are_errors() {
    let directory = Directory::new();
    let open = |bytes: &[u8]| {
        let file = directory.file("some.log", bytes);
        let logs = Postmortem::open(&[file], "/l")?;
        logs.replay(None, |_| ControlFlow::Continue(()))
    };
    let text = open(b"2026-11-30 INFO it started").expect_err("it is text").to_string();
    assert!(text.contains("it begins with \"2026-11-\", and a transaction log of ZooKeeper with ZKLG"), "{text}");
    let version = open(b"ZKLG\0\0\0\x03\0\0\0\0\0\0\0\0").expect_err("a later version").to_string();
    assert!(version.contains("its format has version 3, and this reads version 2"), "{version}");
    assert!(matches!(open(&snapshot(&[], &[])), Err(Error::Unnamed { .. })), "a snapshot without its name");
    for empty in [&[][..], b"ZKLG", &[0; 100], &Log::from(1).bytes] {
        let error = open(empty).expect_err("there is no transaction").to_string();
        assert!(error.starts_with("no transaction in /") && error.contains("some.log; a server writes"), "{error}");
    }
    assert!(matches!(Postmortem::open(&[directory.0.join("none")], "/l"), Err(Error::Io { .. })));
    assert!(matches!(Postmortem::open(&[], "l"), Err(Error::InvalidPath(_))));
}

#[test]
fn a_compressed_log_and_logs_of_two_ensembles_are_errors() {
    let directory = Directory::new();
    let compressed = directory.file("log.1.gz", &[0x1f, 0x8b, 8, 0]);
    let error = Postmortem::open(&[compressed], "/l").expect_err("a log must be unpacked");
    assert!(matches!(error, Error::Compressed { .. }), "{error}");
    let mut other = Log::from(1);
    other.open(9);
    let files = [directory.file("log.1", &both().bytes), directory.file("other", &other.bytes)];
    let replayed = Postmortem::open(&files, "/l").expect("they are logs").replay(None, |_| ControlFlow::Continue(()));
    assert!(matches!(replayed, Err(Error::Mixed { zxid: 1, .. })), "{replayed:?}");
}

#[test]
fn a_directory_that_is_named_like_a_log_is_none() {
    let directory = Directory::new();
    std::fs::create_dir(directory.0.join("log.d")).expect("it is created");
    directory.file("log.1", &both().bytes);
    assert_eq!(told(std::slice::from_ref(&directory.0), "/l").1.transactions, 4);
}
