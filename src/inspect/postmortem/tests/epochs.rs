//! What is missing at the end of an epoch, where the numbers of the transactions do not tell.

use super::*;

const A: &str = "/l/a-lock-0000000001";
const B: &str = "/l/b-lock-0000000002";
const FIRST: i64 = 0x1_0000_0001;
const SECOND: i64 = 0x2_0000_0001;

/// The end of the first epoch is in no file: session 1 has ended, and its node.
#[test]
fn a_node_that_is_created_again_shows_that_transactions_are_missing() {
    let directory = Directory::new();
    let (mut first, mut second) = (Log::from(FIRST), Log::from(SECOND));
    first.open(1).create(1, "/controller").create_persistent(1, "/q/queue-0000000001");
    second.open(2).create(2, "/controller").delete(2, "/controller").create_persistent(2, "/q/queue-0000000001");
    let files = [directory.file("log.100000001", &first.bytes), directory.file("log.200000001", &second.bytes)];
    let (events, summary) = told(&files, "/controller");
    let expected = [
        "gap 0x100000002 0x200000002",
        "/controller held from 2 to 2, Unknown",
        "/controller held from 2 to 3, Released",
    ];
    assert_eq!(events, expected);
    assert!(!summary.is_complete);
    let (events, _) = told(&files, "/q");
    let item = "/q/queue-0000000001";
    assert_eq!(
        events,
        ["gap 0x100000003 0x200000004".to_owned(), format!("{item} Unknown"), format!("{item} Remains")]
    );
}

/// The log of a failed leader has the end of a session, which was never committed.
#[test]
fn a_session_that_creates_a_node_after_its_end_shows_that_transactions_are_missing() {
    let directory = Directory::new();
    let (mut first, mut second) = (Log::from(FIRST), Log::from(SECOND));
    first.open(7).create(7, A).close(7, true);
    second.open(8).create(7, B);
    let files = [directory.file("log.100000001", &first.bytes), directory.file("log.200000001", &second.bytes)];
    let (events, summary) = told(&files, "/l");
    let expected = [
        "/l/a-lock-0000000001 held from 2 to 3, SessionExpired",
        "gap 0x100000003 0x200000002",
        "/l/b-lock-0000000002 held from 2, Remains",
    ];
    assert_eq!(events, expected);
    assert!(!summary.is_complete);
}

#[test]
fn a_snapshot_of_later_transactions_shows_that_the_end_of_an_epoch_is_missing() {
    let directory = Directory::new();
    let (mut first, mut second) = (Log::from(FIRST), Log::from(SECOND));
    first.open(7).open(8).create(7, A).create(8, B);
    second.open(9).delete(8, B);
    let logs = [directory.file("log.100000001", &first.bytes), directory.file("log.200000001", &second.bytes)];
    let of = |name: &str| {
        let snapshot = directory.file(name, &snapshot(&[8], &[(B, 8, FIRST + 3)]));
        let told = told(&[&logs[..], std::slice::from_ref(&snapshot)].concat(), "/l");
        std::fs::remove_file(snapshot).expect("it is removed");
        told
    };
    // By the number in the name; or by the contents, if it was given to the server at the beginning of the epoch.
    let (events, summary) = of("snapshot.100000009");
    let expected = [
        "gap 0x100000004 0x200000001",
        "/l/a-lock-0000000001 held from 3 to 9, Unknown",
        "/l/b-lock-0000000002 held before 9 to 2, Released",
    ];
    assert_eq!((&events[..], summary.is_complete), (&expected.map(str::to_owned)[..], true));
    let (events, summary) = of("snapshot.200000000");
    let expected = [
        "gap 0x100000004 0x200000001",
        "/l/a-lock-0000000001 held from 3 to 0, Unknown",
        "/l/b-lock-0000000002 held before 0 to 2, Released",
    ];
    assert_eq!((&events[..], summary.is_complete), (&expected.map(str::to_owned)[..], true));
    let same = snapshot(&[7, 8], &[(A, 7, FIRST + 2), (B, 8, FIRST + 3)]);
    let snapshot = directory.file("snapshot.200000000", &same);
    let (events, summary) = told(&[&logs[..], &[snapshot]].concat(), "/l");
    let expected = ["/l/b-lock-0000000002 waited from 4 to 2, Released", "/l/a-lock-0000000001 held from 3, Remains"];
    assert_eq!((&events[..], summary.is_complete), (&expected.map(str::to_owned)[..], true), "nothing is missing");
}

#[test]
fn damage_at_the_end_of_an_epoch_is_a_gap() {
    let [directory, other] = [Directory::new(), Directory::new()];
    let (mut first, mut second) = (Log::from(FIRST), Log::from(SECOND));
    first.open(7).create(7, A);
    let readable = first.bytes.len();
    first.delete(7, A);
    let whole = first.bytes.clone();
    first.bytes[readable + 20] ^= 1;
    second.open(8).create(8, B);
    let files = [directory.file("log.100000001", &first.bytes), directory.file("log.200000001", &second.bytes)];
    let (events, summary) = told(&files, "/l");
    assert!(events[0].starts_with("damage at"), "{events:?}");
    let expected = [
        "gap 0x100000002 0x200000001",
        "/l/a-lock-0000000001 held from 2 to 1, Unknown",
        "/l/b-lock-0000000002 held from 2, Remains",
    ];
    assert_eq!(events[1..], expected);
    assert!(!summary.is_complete);
    // A snapshot from before the damage does not tell what follows it.
    let before = directory.file("snapshot.100000002", &snapshot(&[7], &[(A, 7, FIRST + 1)]));
    let (with_snapshot, summary) = told(&[&files[..], &[before]].concat(), "/l");
    assert_eq!(with_snapshot, events);
    assert!(!summary.is_complete);
    let (events, summary) = told(&[&files[..], &[other.file("log.100000001", &whole)]].concat(), "/l");
    assert_eq!(events[1..], ["/l/a-lock-0000000001 held from 2 to 3, Released", expected[2]]);
    assert!(summary.is_complete);
    // Its very first transaction is damaged: the name has its number.
    let mut third = Log::from(FIRST + 3);
    third.create(7, A);
    third.bytes[30] ^= 1;
    let third = directory.file("log.100000004", &third.bytes);
    directory.file("log.100000001", &whole);
    let (events, _) = told(&[&files[..], &[third]].concat(), "/l");
    assert_eq!(events[2], "gap 0x100000003 0x200000001", "{events:?}");
}

/// The time in a transaction is its number, as [`Log`] has it.
#[test]
fn the_times_that_the_logs_cover() {
    let [directory, other] = [Directory::new(), Directory::new()];
    let (mut first, mut second) = (Log::from(FIRST), Log::from(SECOND));
    for session in 0..9 {
        first.open(session);
    }
    second.open(20);
    let span = |files: &[PathBuf]| {
        let span = Postmortem::open(files, "/l").expect("they are logs").span().expect("it has transactions");
        (span.first.ms, span.last.ms)
    };
    // The last file has none yet, and a copy has another name.
    let logs = [directory.file("a-copy", &first.bytes), directory.file("log.100000010", &Log::from(1).bytes)];
    directory.file("log.100000010", &[&Log::from(1).bytes[..], &[0; 64]].concat());
    assert_eq!(span(&logs), (1000, 9000));
    let mut end = Log::from(FIRST + 9);
    end.open(10);
    let logs = [logs[0].clone(), directory.file("b-copy", &end.bytes)];
    assert_eq!(span(&logs), (1000, 10_000), "neither name has a number");
    // The clock of the next leader is slow.
    let logs = [other.file("log.100000001", &first.bytes), directory.file("log.200000001", &second.bytes)];
    assert_eq!(span(&logs), (1000, 9000));
    let mut late = Log::from(FIRST + 4);
    late.open(9);
    let logs = [directory.file("c-copy", &late.bytes), directory.file("log.200000001", &second.bytes)];
    assert_eq!(span(&logs), (1000, 5000), "the earliest one comes first");
}
