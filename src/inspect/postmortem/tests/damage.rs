//! Bytes that are not as a server wrote them.

use fastrand::Rng;

use super::super::log_file::{Entry, LogReader, Opened};
use super::super::snapshot_file::{Visit, contents};
use super::super::state::State;
use super::*;
use crate::protocol::{SnapshotNode, SnapshotSession, Txn};

const A: &str = "/l/a-lock-0000000001";
const B: &str = "/l/b-lock-0000000002";

/// A log of six transactions.
fn log() -> Log {
    let mut log = Log::from(1);
    log.open(7).open(8).create(7, A).create(8, B).delete(7, A).close(8, true);
    log
}

/// The transactions that are read of these bytes, and how that ends.
fn entries(bytes: &[u8]) -> (Vec<i64>, Entry) {
    let mut read = Vec::new();
    let Ok(Opened::Log(mut log)) = LogReader::open(bytes) else { return (read, Entry::End) };
    loop {
        match log.next().expect("bytes are read") {
            Entry::Txn(txn) => read.push(txn.header.zxid),
            Entry::Unreadable { header, .. } => read.extend(header.map(|header| header.zxid)),
            end => return (read, end),
        }
    }
}

fn is_damaged(end: &Entry, why: &str) -> bool {
    matches!(end, Entry::Damaged(reason) if reason.contains(why))
}

#[test]
fn a_log_that_ends_anywhere_is_read_up_to_there() {
    let bytes = log().bytes;
    let mut last = 0;
    for end in 16..=bytes.len() {
        let (read, entry) = entries(&bytes[..end]);
        assert_eq!(entry, Entry::End, "{end}");
        assert!(read.len() >= last && read.iter().copied().eq(1..=read.len() as i64), "{end}: {read:?}");
        last = read.len();
        // Servers allocate a file in advance.
        let padded = [&bytes[..end], &[0; 64]].concat();
        assert_eq!(entries(&padded), (read, Entry::End), "{end}");
    }
    assert_eq!(last, 6);
}

#[test]
fn changed_bytes_are_noticed() {
    let bytes = log().bytes;
    // The second transaction opens the second session, and each of the first two has 36 bytes and a frame of 13.
    let second = 16 + 49;
    let changed = |at: usize, bit: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= bit;
        entries(&bytes)
    };
    let (read, end) = changed(second + 20, 4);
    assert!(read == [1] && is_damaged(&end, "checksum"), "{end:?}");
    let (read, end) = changed(second + 9, 1);
    assert!(read == [1] && is_damaged(&end, "its length is not that of its bytes"), "{end:?}");
    let (read, end) = changed(second + 11, 4);
    assert!(read == [1] && is_damaged(&end, "mark"), "{end:?}");
    let (read, end) = changed(second + 8, 0x80);
    assert!(read == [1] && is_damaged(&end, "is no length"), "{end:?}");
    let mut hole = bytes.to_vec();
    hole[second..second + 49].fill(0);
    let (read, end) = entries(&hole);
    assert!(read == [1] && is_damaged(&end, "zeros"), "{end:?}");
}

#[test]
fn damage_is_told_and_another_server_has_what_is_missing() {
    let directory = Directory::new();
    let whole = log().bytes;
    let mut changed = whole.to_vec();
    changed[16 + 49 + 20] ^= 1;
    let expected = told(&[directory.file("whole", &whole)], "/l").0;
    let damaged = directory.file("log.1", &changed);
    let (alone, summary) = told(std::slice::from_ref(&damaged), "/l");
    assert_eq!(alone, ["damage at 65: its checksum is not that of its bytes"]);
    assert_eq!((summary.transactions, summary.last.map(|last| last.zxid)), (1, Some(1)));
    let (both, summary) = told(&[damaged, directory.file("log.2", &whole)], "/l");
    assert_eq!(both[1..], expected);
    assert!(both[0].starts_with("damage at 65") && summary.transactions == 6, "{both:?}");
}

#[test]
fn a_transaction_of_a_later_version_is_told_and_the_next_one_is_read() {
    let directory = Directory::new();
    let mut log = Log::from(1);
    log.open(7).txn(7, 1, OpCode::Other(77), &[]).create(7, A);
    let file = directory.file("log.1", &log.bytes);
    let (events, summary) = told(std::slice::from_ref(&file), "/l");
    assert!(events[0].starts_with("damage at 65") && events[0].contains("later version"), "{events:?}");
    assert_eq!((&*events[1], summary.transactions), ("/l/a-lock-0000000001 held from 3, Remains", 3));
    assert!(!summary.is_complete, "it may have deleted a node");
    // The log of another server has it in a form that is read. It does not matter which file comes first.
    let mut readable = Log::from(1);
    readable.open(7).txn(7, 1, OpCode::Create, &created("/l/b-lock-0000000000", true)).create(7, A);
    let mut unreadable = Log::from(1);
    unreadable.open(7).txn(7, 1, OpCode::Create, &[1]).create(7, A);
    let [file, readable] =
        [("log.1", &unreadable), ("other", &readable)].map(|(name, log)| directory.file(name, &log.bytes));
    for files in [[file.clone(), readable.clone()], [readable, file]] {
        let (events, summary) = told(&files, "/l");
        let expected = ["/l/b-lock-0000000000 held from 2, Remains", "/l/a-lock-0000000001 waited from 3, Remains"];
        assert_eq!(events[1..], expected);
        assert_eq!((summary.transactions, summary.is_complete), (3, true));
    }
}

/// Random damage: bits that flip, words that become lengths, parts that are cut out or doubled.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.usize(..3) {
        let at = rng.usize(..bytes.len().max(1));
        match rng.u8(..5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.u8(..8),
            1 if at + 4 <= bytes.len() => {
                let word = [i32::MAX, i32::MIN, -1, 0, 1 << 26][rng.usize(..5)];
                bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
            }
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + rng.usize(..40)).min(bytes.len()))),
            _ => {
                let doubled = bytes[at..(at + 60).min(bytes.len())].to_vec();
                bytes.splice(at..at, doubled);
            }
        }
    }
}

/// Reads no more than there is, however often it is asked.
struct Counted<'a> {
    bytes: &'a [u8],
    largest: usize,
}

impl std::io::Read for Counted<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        self.largest = self.largest.max(to.len());
        self.bytes.read(to)
    }
}

#[test]
fn any_damage_to_a_log_ends_in_a_result() {
    let mut rng = Rng::new();
    let seed = rng.get_seed();
    let whole = log().bytes.to_vec();
    let mut damaged = 0;
    for case in 0..20_000 {
        let mut bytes = whole.clone();
        damage(&mut rng, &mut bytes);
        let mut input = Counted { bytes: &bytes, largest: 0 };
        let Ok(opened) = LogReader::open(&mut input) else { panic!("seed {seed}, case {case}") };
        let Opened::Log(mut log) = opened else { continue };
        // Each transaction takes bytes, so there are not more than that.
        let ends = (0..=bytes.len()).find_map(|_| match log.next().expect("bytes are read") {
            end @ (Entry::End | Entry::Damaged(_)) => Some(end),
            _ => None,
        });
        damaged += usize::from(matches!(ends.expect("it ends"), Entry::Damaged(_)));
        // What is reserved does not follow from a length that only stands in the file.
        assert!(input.largest <= 1 << 17, "seed {seed}, case {case}: {} bytes are reserved", input.largest);
    }
    assert!(damaged > 1000, "{damaged}");
}

/// The bodies of the transactions of a real server.
fn recorded() -> Vec<Vec<u8>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded/logs/3.9/log.1");
    let log = std::fs::read(file).expect("the recorded log");
    let (mut bodies, mut rest) = (Vec::new(), &log[16..]);
    while let Some(length) = rest.get(8..12).map(|word| u32::from_be_bytes(word.try_into().expect("four bytes"))) {
        if length == 0 {
            break;
        }
        let end = 12 + length as usize;
        bodies.push(rest[12..end].to_vec());
        rest = &rest[end + 1..];
    }
    bodies
}

/// As if a server had logged nonsense: the checksums are right, and the contents are not.
#[test]
fn any_transactions_are_replayed_to_the_end() {
    let mut rng = Rng::new();
    let seed = rng.get_seed();
    let whole = recorded();
    assert!(whole.len() > 50, "{}", whole.len());
    let (mut read, mut refused) = (0, 0);
    for case in 0..200 {
        let mut state = State::new(["/", "/history", "/history/queue"][case % 3]);
        for body in &whole {
            let mut body = body.clone();
            // The header has 32 bytes, of which the last four are the operation.
            match rng.u8(..4) {
                0 => damage(&mut rng, &mut body),
                1 => body[31] = rng.u8(..24),
                _ => {}
            }
            match Txn::decode(&body.into()) {
                Ok(txn) => {
                    state.apply(&txn);
                    read += 1;
                }
                Err(_) => refused += 1,
            }
        }
        let told = state.told.len();
        assert!(told + state.finish().len() <= 4 * whole.len(), "seed {seed}, case {case}: {told} events");
    }
    assert!(read > 1000 && refused > 1000, "{read} were read, {refused} were not");
}

/// Counts what is in a snapshot.
struct Counts(usize);

impl Visit for Counts {
    fn session(&mut self, _: &SnapshotSession) {
        self.0 += 1;
    }

    fn node(&mut self, _: &str, _: SnapshotNode) {
        self.0 += 1;
    }
}

#[test]
fn any_damage_to_a_snapshot_is_noticed() {
    let mut rng = Rng::new();
    let seed = rng.get_seed();
    let whole = snapshot(&[7, 8], &[("/l", 0, 2), (A, 7, 3), (B, 8, 4)]);
    let mut counts = Counts(0);
    contents(&whole[..], &mut counts).expect("it is whole");
    assert_eq!(counts.0, 6, "two sessions, and four nodes with the root");
    // What follows the checksum is not read.
    let end = whole.len() - 5;
    for case in 0..20_000 {
        let mut bytes = whole[..end].to_vec();
        damage(&mut rng, &mut bytes);
        let mut counts = Counts(0);
        let is_whole = contents(&bytes[..], &mut counts).is_ok();
        assert!(!is_whole || bytes.starts_with(&whole[..end]), "seed {seed}, case {case}");
        assert!(counts.0 <= bytes.len(), "seed {seed}, case {case}");
    }
}
