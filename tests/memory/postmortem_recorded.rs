//! What `inspect::postmortem` tells of the logs of real servers 3.4, 3.8 and 3.9, of which the history is known.
//! `tests/recorded/record-logs` records them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use zookeeper_recipes::inspect::postmortem::{Event, Hold, Item, Postmortem, Summary};

const VERSIONS: [&str; 3] = ["3.4", "3.8", "3.9"];

fn directory(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/logs").join(version)
}

/// The files of a version whose names begin so, sorted by name.
fn files(version: &str, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory(version)).expect("the recorded logs");
    let paths = entries.map(|entry| entry.expect("a file").path());
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    let mut paths: Vec<_> = paths.filter(named).collect();
    paths.sort_by_key(|path| zxid_of(path));
    paths
}

/// What is told, by the paths of the nodes.
#[derive(Debug, Default, PartialEq)]
struct Told {
    holds: BTreeMap<String, Hold>,
    items: BTreeMap<String, Item>,
    overlaps: usize,
    summary: Summary,
}

fn told(files: &[PathBuf]) -> Told {
    let mut told = Told::default();
    let logs = Postmortem::open(files, "/history").expect("they are logs");
    told.summary = logs
        .replay(None, |event| {
            match event {
                Event::Hold(hold) => assert_eq!(told.holds.insert(hold.path.clone(), hold), None, "each node once"),
                Event::Item(item) => assert_eq!(told.items.insert(item.path.clone(), item), None, "each item once"),
                Event::Overlap(_) => told.overlaps += 1,
                Event::Replayed(_) => {}
                other => panic!("nothing is missing and nothing is damaged: {other:?}"),
            }
            ControlFlow::Continue(())
        })
        .expect("they are read");
    told
}

fn history(version: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(directory(version).join("history.jsonl")).expect("the history");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn session(id: Option<i64>) -> Value {
    id.map_or(Value::Null, |id| json!(format!("{id:#x}")))
}

/// A hold as the history has it.
fn of_hold(hold: &Hold, in_second_log: &Value) -> Value {
    json!({
        "path": hold.path,
        "session": session(hold.session_id),
        "data": String::from_utf8_lossy(&hold.data),
        "held": hold.granted.is_some(),
        "end": hold.end,
        "by": session(hold.ended_by.filter(|by| Some(*by) != hold.session_id)),
        "in_second_log": in_second_log,
    })
}

fn of_item(item: &Item) -> Value {
    json!({
        "path": item.path,
        "item": item.end,
        "put_by": session(item.put_by),
        "by": session(item.ended_by),
        "claimed_by": item.deliveries.iter().map(|delivery| session(delivery.session_id)).collect::<Vec<_>>(),
    })
}

#[test]
fn each_hold_and_item_of_the_known_history() {
    for version in VERSIONS {
        let (told, history) = (told(&[directory(version)]), history(version));
        assert!(told.summary.is_complete && told.summary.logs >= 2, "{version}: {:?}", told.summary);
        let mut nodes = 0;
        for line in &history {
            let path = line["path"].as_str().expect("a path");
            let found = match told.holds.get(path) {
                Some(hold) => of_hold(hold, &line["in_second_log"]),
                None => of_item(told.items.get(path).unwrap_or_else(|| panic!("{version}: {path} is not told"))),
            };
            assert_eq!(&found, line, "{version}");
            nodes += 1;
        }
        let claims: Vec<_> = told.holds.keys().filter(|path| path.contains("-claims/")).collect();
        assert!(nodes >= 40 && claims.is_empty(), "{version}: {nodes} nodes, {claims:?}");
        assert_eq!(told.holds.len() + told.items.len(), nodes, "{version}: nothing else is told");
        let deleted = history.iter().filter(|line| line["end"] == "deleted" && line["held"] == true).count();
        assert_eq!(told.overlaps, deleted, "{version}: the sessions of those went on while the next one held");
    }
}

#[test]
fn holders_follow_each_other_without_a_pause_or_an_overlap() {
    for version in VERSIONS {
        let told = told(&[directory(version)]);
        let mut line: Vec<&Hold> = told.holds.values().filter(|hold| hold.directory() == "/history/mutex").collect();
        line.retain(|hold| hold.granted.is_some());
        line.sort_by_key(|hold| hold.granted);
        assert!(line.len() > 20, "{version}");
        for pair in line.windows(2) {
            assert_eq!(pair[0].ended, pair[1].granted, "{version}: {} and {}", pair[0].path, pair[1].path);
        }
    }
}

#[test]
fn what_remains_when_the_server_is_killed() {
    for version in VERSIONS {
        let all = files(version, "log.");
        let told = told(&all[..all.len() - 1]);
        let remaining: Vec<_> = told.holds.values().filter(|hold| hold.ended.is_none()).collect();
        let [hold] = remaining[..] else { panic!("{version}: one holds when the server stops: {remaining:?}") };
        let history = history(version);
        let expected = history.iter().find(|line| line["in_second_log"] == true).expect("the one that is left");
        assert_eq!((json!(hold.path), hold.granted.is_some()), (expected["path"].clone(), true), "{version}");
        assert!(told.summary.is_complete, "{version}");
    }
}

/// The transactions of a log after this one, as a log.
fn rest_of(log: &[u8], after: i64) -> Vec<u8> {
    // The header; and before the body of each transaction a checksum and its length, after it a mark.
    let (mut rest, mut at) = (log[..16].to_vec(), 16);
    while let Some(length) = log.get(at + 8..at + 12).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four"))) {
        if length == 0 {
            break;
        }
        let end = at + 13 + length as usize;
        let zxid = i64::from_be_bytes(log[at + 24..at + 32].try_into().expect("eight"));
        if zxid > after {
            rest.extend_from_slice(&log[at..end]);
        }
        at = end;
    }
    rest
}

/// The transaction in the name of a file.
fn zxid_of(file: &Path) -> i64 {
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let digits = name.split('.').nth(1).expect("its transaction");
    i64::from_str_radix(digits, 16).expect("hexadecimal digits")
}

#[test]
fn a_snapshot_takes_the_place_of_the_logs_before_it() {
    let mut taken = 0;
    for version in VERSIONS {
        let whole = told(&[directory(version)]);
        for snapshot in files(version, "snapshot.") {
            let zxid = zxid_of(&snapshot);
            let cut = std::env::temp_dir().join(format!("postmortem-{version}-{zxid}-{}", std::process::id()));
            std::fs::create_dir_all(&cut).expect("it is created");
            let mut names = vec![snapshot];
            for log in files(version, "log.") {
                let name = cut.join(log.file_name().expect("a name"));
                std::fs::write(&name, rest_of(&std::fs::read(log).expect("it is read"), zxid)).expect("it is written");
                names.push(name);
            }
            let part = told(&names);
            std::fs::remove_dir_all(cut).expect("it is removed");
            assert!(part.summary.is_complete, "{version}, {zxid}: {:?}", part.summary);
            compare(&whole, &part, zxid);
            taken += 1;
        }
    }
    assert!(taken > VERSIONS.len(), "some are from the middle of the history: {taken}");
}

/// Compares what is told from the first transaction on with what is told from a snapshot on.
fn compare(whole: &Told, part: &Told, zxid: i64) {
    let is_later = |hold: &&Hold| hold.ended.is_none_or(|ended| ended.zxid > zxid);
    let expected: Vec<_> = whole.holds.values().filter(is_later).collect();
    assert_eq!(expected.len(), part.holds.len(), "{zxid}");
    for (one, other) in expected.into_iter().zip(part.holds.values()) {
        let of = |hold: &Hold| (hold.path.clone(), hold.session_id, hold.joined, hold.ended, hold.end, hold.ended_by);
        assert_eq!(of(one), of(other));
        assert_eq!((&one.data, one.session_timeout_ms), (&other.data, other.session_timeout_ms), "{}", one.path);
        let held_before = one.granted.is_some_and(|granted| granted.zxid <= zxid);
        assert_eq!(held_before, other.granted_before, "{}", one.path);
        assert_eq!(one.granted.filter(|_| !held_before), other.granted.filter(|_| !held_before), "{}", one.path);
    }
    let is_later = |item: &&Item| item.ended.is_none_or(|ended| ended.zxid > zxid);
    let ends = |told: &Told| {
        let items = told.items.values().filter(is_later);
        items.map(|item| (item.path.clone(), item.put, item.ended, item.end)).collect::<Vec<_>>()
    };
    assert_eq!(ends(whole), ends(part), "{zxid}");
}

#[test]
fn the_same_logs_of_several_servers_count_once() {
    for version in VERSIONS {
        let once = told(&[directory(version)]);
        let twice = told(&[files(version, "log."), vec![directory(version)]].concat());
        assert_eq!((twice.holds, twice.items), (once.holds, once.items), "{version}");
        assert_eq!(twice.summary.transactions, once.summary.transactions, "{version}");
        assert_eq!(twice.summary.last, once.summary.last, "{version}");
    }
}
