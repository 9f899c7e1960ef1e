//! How the leader reads listings, records and acknowledgements.

use super::*;
use crate::throughput_balancer::leader::holding::UNKNOWN;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn decision(sequence: u64) -> Decision {
    Decision { epoch: 1, sequence }
}

fn acks(acks: &[(&str, u64)]) -> BTreeMap<String, Decision> {
    acks.iter().map(|(name, sequence)| ((*name).to_owned(), decision(*sequence))).collect()
}

fn stat(created: i64, version: i32) -> Stat {
    Stat { czxid: created, version, ..Stat::default() }
}

fn write(view: &mut View, name: &str, throughput: u64, sequence: u64, version: i32) {
    let held = held(view, name);
    let change = Change { member: 0, throughput, ceiling: held.max(throughput) };
    let write = view.next_write(name, &change, decision(sequence)).expect("a member");
    view.set_written(name, write.record, version);
}

fn elsewhere(view: &View) -> u64 {
    let held = view.held_elsewhere();
    if held.is_unknown { UNKNOWN } else { held.known }
}

fn held(view: &View, name: &str) -> u64 {
    view.states[name].held()
}

/// Two members; `a` was lowered from 9 to 4 and has acknowledged nothing yet.
fn lowered(now: Instant) -> View {
    let mut view = View::default();
    assert!(view.list_acks(acks(&[("a", 0), ("b", 0)])));
    assert!(view.list_members(names(&["a", "b"])));
    for name in ["a", "b"] {
        view.read(name, &stat(7, 0), Ok(Record::new(name, 9)), now);
    }
    view.overdue(now);
    write(&mut view, "a", 4, 1, 1);
    view.overdue(now);
    view
}

#[test]
fn a_lowered_member_holds_what_it_had_until_it_acknowledges() {
    let mut view = lowered(Instant::now());
    assert_eq!((held(&view, "a"), view.awaits()), (9, true));
    assert!(!view.list_acks(acks(&[("a", 1), ("b", 0)])), "no member joined or left");
    assert_eq!((held(&view, "a"), view.awaits()), (4, false));
}

#[test]
fn a_member_is_gone_when_both_of_its_nodes_are() {
    let mut view = lowered(Instant::now());
    assert!(view.list_members(names(&["b"])));
    assert_eq!((view.candidates(Instant::now()).len(), elsewhere(&view)), (1, 9), "its session lives");
    assert!(view.list_acks(acks(&[("b", 0)])));
    assert_eq!(elsewhere(&view), 0);
    assert!(view.list_acks(acks(&[])));
    assert_eq!((view.candidates(Instant::now()).len(), elsewhere(&view)), (0, 9), "the record still exists");
}

#[test]
fn an_acknowledgement_without_a_record_blocks_everything_if_a_session_stands_behind_it() {
    let now = Instant::now();
    let mut view = lowered(now);
    view.list_acks(acks(&[("a", 1), ("b", 0), ("x", 7), ("y", 7)]));
    assert_eq!(view.unverified_acks(), [("x".into(), decision(7)), ("y".into(), decision(7))]);
    assert_eq!(elsewhere(&view), 0);
    view.set_ack_owned("x", false);
    view.set_ack_owned("y", true);
    assert_eq!((view.unverified_acks(), elsewhere(&view)), (vec![], UNKNOWN));
    // What is known counts beside it.
    view.list_members(names(&["a"]));
    assert_eq!(view.held_elsewhere(), Held { known: 9, is_unknown: true });
    view.list_acks(acks(&[("a", 1), ("b", 0), ("x", 7)]));
    assert_eq!((view.unverified_acks(), elsewhere(&view)), (vec![], 9));
}

#[test]
fn a_record_that_was_changed_by_hand_is_ignored_and_its_member_keeps_what_it_held() {
    let now = Instant::now();
    let mut view = lowered(now);
    view.mark_unread("b");
    assert_eq!((view.unread(), view.must_reread()), (names(&["b"]), true));
    view.read("b", &stat(7, 5), Ok(Record::new("b", 0)), now);
    assert_eq!((view.candidates(now).len(), elsewhere(&view)), (1, 9));
    // Reading it again changes nothing; another node of that name is another member.
    view.reread_unusable();
    view.read("b", &stat(7, 5), Ok(Record::new("b", 0)), now);
    assert_eq!(elsewhere(&view), 9);
    view.mark_unread("b");
    view.read("b", &stat(8, 0), Ok(Record::new("b", 3)), now);
    assert_eq!((view.candidates(now).len(), held(&view, "b"), elsewhere(&view)), (2, 3, 0));
}

/// Even if it happens repeatedly. The next write uses the latest version.
#[test]
fn a_record_that_was_written_again_with_the_same_bytes_stays_a_member() {
    let now = Instant::now();
    let mut view = lowered(now);
    let same = view.states["b"].last.clone().expect("a record");
    for version in [1, 4] {
        view.mark_unread("b");
        assert!(!view.read("b", &stat(7, version), Ok(same.clone()), now), "it is the same member");
        assert_eq!((view.candidates(now).len(), held(&view, "b"), elsewhere(&view)), (2, 9, 0));
        let change = Change { member: 0, throughput: 3, ceiling: 9 };
        let write = view.next_write("b", &change, decision(2)).expect("a member");
        assert_eq!(write.version, version);
    }
}

#[test]
fn a_node_that_could_not_be_used_for_a_while_is_a_member_again_if_nobody_has_changed_it() {
    let now = Instant::now();
    let mut view = lowered(now);
    view.mark_unusable("b", "it cannot be read".into());
    assert_eq!(elsewhere(&view), 9);
    view.reread_unusable();
    view.read("b", &stat(7, 0), Ok(Record::new("b", 9)), now);
    assert_eq!((view.candidates(now).len(), elsewhere(&view)), (2, 0));
}

#[test]
fn a_member_that_cannot_be_written_is_reported_however_often_others_come_and_go() {
    let now = Instant::now();
    let mut view = lowered(now);
    let mut events = Vec::new();
    for second in 0..=6 {
        let now = now + Duration::from_secs(second);
        view.reread_unusable();
        if second > 0 {
            view.read("b", &stat(7, 0), Ok(Record::new("b", 9)), now);
        }
        events.extend(view.overdue(now));
        view.mark_refused("b", "it cannot be written".into());
        events.extend(view.overdue(now));
    }
    events.retain(|event| *event != Event::Unacked { member: "a".into(), held: 9 });
    let why = "it cannot be written".to_owned();
    assert_eq!(events, [Event::MemberIgnored { member: "b".into(), held: 9, why }]);
    view.reread_unusable();
    view.read("b", &stat(7, 0), Ok(Record::new("b", 9)), now);
    write(&mut view, "b", 5, 2, 1);
    let later = now + Duration::from_secs(7);
    let slow = view.candidates(later).into_iter().filter(|candidate| candidate.is_slow).map(|slow| slow.member.id);
    assert_eq!(slow.collect::<Vec<_>>(), ["a"], "nothing was awaited of b while it could not be written");
}

#[test]
fn a_member_is_slow_when_it_has_not_followed_for_a_while_and_not_when_it_is_on_its_way() {
    let now = Instant::now();
    let mut view = lowered(now);
    let slow = |view: &View, at| view.candidates(at).iter().filter(|candidate| candidate.is_slow).count();
    assert_eq!((slow(&view, now), view.awaits_soon(now), view.withheld(now).known), (0, true, 0));
    let later = now + SLOW;
    assert_eq!((slow(&view, later), view.awaits_soon(later), view.withheld(later).known), (1, false, 9));
    write(&mut view, "a", 3, 2, 2);
    assert_eq!(slow(&view, later), 1, "another decision does not give it more time");
    view.list_acks(acks(&[("a", 1), ("b", 0)]));
    view.overdue(later);
    assert_eq!((held(&view, "a"), slow(&view, later)), (4, 0), "it has followed the first one");
    assert_eq!(slow(&view, later + SLOW), 1);
}

#[test]
fn what_is_overdue_is_reported_once() {
    let now = Instant::now();
    let mut view = lowered(now);
    assert_eq!(view.next_check(now), Some(now + SLOW));
    assert_eq!(view.overdue(now + SLOW), []);
    assert_eq!(view.next_check(now + SLOW), Some(now + PATIENCE));
    assert_eq!(view.overdue(now + PATIENCE), [Event::Unacked { member: "a".into(), held: 9 }]);
    assert_eq!((view.overdue(now + PATIENCE * 2), view.next_check(now + PATIENCE)), (vec![], None));
    view.list_acks(acks(&[("a", 1)]));
    view.overdue(now + PATIENCE);
    let why = "it has no acknowledgement".to_owned();
    assert_eq!(view.overdue(now + PATIENCE * 2), [Event::MemberIgnored { member: "b".into(), held: 9, why }]);
}
