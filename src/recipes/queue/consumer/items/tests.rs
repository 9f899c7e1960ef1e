use proptest::prelude::*;

use super::*;

fn name(number: usize) -> String {
    format!("queue-{number:010}")
}

fn names(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(name).collect()
}

fn item() -> Item {
    Item { data: vec![1], created: 7, version: 3 }
}

fn now() -> Instant {
    Instant::now()
}

/// Creates `count` items, some of which others have claimed.
fn items(count: usize, claimed: &[usize]) -> Items {
    let mut items = Items::default();
    items.list(names(0..count).into_iter(), names(claimed.iter().copied()).into_iter(), now());
    items
}

/// Returns the claims that follow when all planned reads are done.
fn claimed(items: &mut Items, wanted: usize) -> Vec<String> {
    let mut steps = items.plan(wanted, 0, now());
    assert_eq!(steps.claim, [], "nothing was read before");
    for read in std::mem::take(&mut steps.read) {
        items.note_read(&read, item(), now());
    }
    items.plan(wanted, 0, now()).claim.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn an_item_is_read_then_claimed_and_the_next_is_read_ahead() {
    let mut items = items(5, &[]);
    let first = items.plan(1, 1, now());
    assert_eq!((first.read, first.claim), (names(0..2), vec![]));
    assert_eq!(items.plan(1, 1, now()), Steps::default(), "both are being read");
    items.note_read(&name(0), item(), now());
    let next = items.plan(1, 1, now());
    assert_eq!((next.claim, next.read), (vec![(name(0), item())], vec![]), "the next one is being read already");
    assert_eq!(items.plan(0, 1, now()), Steps::default(), "nothing more is wanted, and the next is being read");
}

#[test]
fn no_item_is_claimed_before_an_older_one() {
    let mut items = items(3, &[]);
    items.plan(2, 0, now());
    items.note_read(&name(1), item(), now());
    assert_eq!(items.plan(2, 0, now()).claim, []);
    items.note_read(&name(0), item(), now());
    let claimed: Vec<_> = items.plan(2, 0, now()).claim.into_iter().map(|(name, _)| name).collect();
    assert_eq!(claimed, names(0..2));
}

#[test]
fn what_others_hold_is_skipped_and_nothing_is_read_ahead_among_them() {
    let mut items = items(6, &[0, 2]);
    let steps = items.plan(2, 3, now());
    assert_eq!(steps.read, names([1, 3]));
}

#[test]
fn events_change_what_is_free() {
    let mut items = items(2, &[0]);
    items.note_claim(&name(0), Change::Deleted, now());
    items.note_item(&name(2), Change::Created, now());
    items.note_item(&name(1), Change::Deleted, now());
    assert_eq!(claimed(&mut items, 9), names([0, 2]));
    items.note_claim(&name(9), Change::Created, now());
    items.note_item(&name(9), Change::Created, now());
    assert_eq!(items.plan(9, 0, now()), Steps::default(), "another has it");
    items.note_claim(&name(0), Change::Created, now());
    items.note_claim(&name(0), Change::Deleted, now());
    items.note_item(&name(0), Change::Deleted, now());
    items.remove_own_claim(&name(0), now());
    assert_eq!(items.plan(9, 0, now()).read, [""; 0]);
}

#[test]
fn what_was_written_by_hand_is_read_again() {
    let mut items = items(1, &[]);
    items.plan(1, 0, now());
    items.note_read(&name(0), item(), now());
    items.note_item(&name(0), Change::Written, now());
    let next = items.plan(1, 0, now());
    assert_eq!((next.read, next.claim), (names([0]), vec![]));
    items.note_read(&name(0), item(), now());
    items.plan(1, 0, now());
    items.read_again(&name(0), now());
    assert_eq!(items.plan(1, 0, now()).read, names([0]), "the servers had another version");
}

#[test]
fn an_item_that_is_returned_is_the_next_again() {
    let mut items = items(3, &[]);
    assert_eq!(claimed(&mut items, 1), names([0]));
    items.note_claim(&name(0), Change::Created, now());
    items.note_own(name(0), 7);
    assert!(items.is_own_claim(&name(0), 7) && !items.is_own_claim(&name(0), 6));
    items.note_claim(&name(0), Change::Deleted, now());
    items.remove_own_claim(&name(0), now());
    assert_eq!(items.plan(1, 0, now()).read, names([0]), "the return has written it");
}

#[tokio::test(start_paused = true)]
async fn what_is_hidden_is_shown_in_time_and_dies_with_its_item_or_its_queue() {
    let mut items = items(4, &[]);
    let begun = now();
    let time = Duration::from_secs(1);
    (0..4).for_each(|number| items.hide(&name(number), time * (number as u32 + 1), begun));
    assert_eq!((items.plan(1, 0, begun).read, items.shown_at()), (vec![], Some(begun + time)));
    items.show_hidden(begun + time);
    assert_eq!(items.plan(9, 0, begun + time).read, names([0]));
    items.note_item(&name(1), Change::Deleted, begun);
    items.note_item(&name(1), Change::Created, begun);
    assert_eq!(items.plan(9, 0, begun + time).read, names([1]), "it is another item");
    items.list(names([2]).into_iter(), [].into_iter(), begun);
    assert_eq!(items.shown_at(), Some(begun + 3 * time));
    items.start_over();
    items.note_item(&name(2), Change::Created, begun);
    assert_eq!(items.plan(9, 0, begun).read, names([2]), "the queue is another one");
    items.hide(&name(2), Duration::MAX, begun);
    items.end_session();
    assert!(items.shown_at() > Some(begun + time), "it stays hidden in the next session");
}

/// A record of a delay that ends at this time.
fn retry(at: i64) -> Retry {
    Retry { at, delay: Some(SECOND) }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn what_no_consumer_may_claim_yet_is_not_available_and_not_read_again_before_its_time() {
    let (mut items, begun) = (items(4, &[]), now());
    assert_eq!(items.plan(2, 0, begun).read, names(0..2));
    assert!(items.note_delayed(&name(0), retry(5), SECOND * 5, begun));
    assert!(items.note_delayed(&name(1), retry(4), SECOND * 4, begun));
    assert!(!items.note_delayed(&name(2), retry(3), SECOND * 3, begun), "it was not being read");
    assert_eq!((items.shown_at(), items.free.len()), (Some(begun + SECOND * 4), 2));
    assert_eq!(items.plan(2, 0, begun).read, names(2..4), "it holds no other item up");
    items.list(names(0..4).into_iter(), [].into_iter(), begun);
    items.forget_contents();
    items.end_session();
    items.list(names(0..4).into_iter(), [].into_iter(), begun);
    items.show_hidden(begun + SECOND * 4 - SECOND / 9);
    assert_eq!(items.free.len(), 2, "no listing, reconnect or new session changes that");
    items.show_hidden(begun + SECOND * 4);
    assert_eq!((items.shown_at(), items.plan(1, 0, begun).read), (Some(begun + SECOND * 5), names([1])));
    items.note_item(&name(0), Change::Written, begun);
    assert_eq!((items.shown_at(), items.plan(1, 0, begun).read), (None, names([0])), "it may be another time now");
    assert!(items.note_delayed(&name(0), retry(6), SECOND * 6, begun));
    items.start_over();
    items.note_item(&name(0), Change::Created, begun);
    assert_eq!(items.plan(1, 0, begun).read, names([0]), "the queue is another one");
}

/// The clock of the consumer that returned the item is fast by far more than the delay.
#[test]
fn a_record_is_waited_for_only_once() {
    let (mut items, begun) = (items(1, &[]), now());
    items.plan(1, 0, begun);
    assert!(items.note_delayed(&name(0), retry(9_000), SECOND, begun));
    items.show_hidden(begun + SECOND);
    items.plan(1, 0, begun + SECOND);
    assert!(!items.note_delayed(&name(0), retry(9_000), SECOND, begun + SECOND));
    assert!(items.note_delayed(&name(0), retry(9_001), SECOND, begun + SECOND), "it has failed again");
}

#[test]
fn a_record_that_is_changed_by_hand_applies_to_the_consumer_that_returned_the_item_too() {
    let (mut items, begun) = (items(1, &[]), now());
    assert_eq!(claimed(&mut items, 1), names([0]));
    items.note_own(name(0), 7);
    items.note_item(&name(0), Change::Written, begun);
    items.note_returned(&name(0), SECOND, begun);
    assert_eq!(items.plan(1, 0, begun).read, [""; 0]);
    items.note_item(&name(0), Change::Written, begun);
    assert_eq!(items.plan(1, 0, begun).read, names([0]));
}

#[test]
fn more_and_more_are_read_at_once_while_what_was_read_is_delayed() {
    let (mut items, begun) = (items(400, &[]), now());
    let mut reads = Vec::new();
    loop {
        let read = items.plan(1, 0, begun).read;
        read.iter().filter(|read| **read < name(300)).for_each(|read| {
            items.note_delayed(read, retry(5), SECOND, begun);
        });
        reads.push(read.len());
        let last: Vec<String> = read.into_iter().filter(|read| *read >= name(300)).collect();
        if !last.is_empty() {
            last.iter().for_each(|read| items.note_read(read, item(), begun));
            break;
        }
    }
    assert!(reads.len() < 10 && reads.iter().all(|reads| *reads <= 1 + MOST_READ_BEYOND), "{reads:?}");
    assert_eq!(items.plan(1, 0, begun).claim.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn delayed_items_are_not_reserved_for_others() {
    let (mut items, begun) = (items(4, &[]), now());
    items.plan(3, 0, begun);
    (0..3).for_each(|number| assert!(items.note_delayed(&name(number), retry(5), SECOND, begun)));
    items.read_beyond = 0;
    // This consumer is the last of two, so that one item is reserved for the other.
    items.contention.note_miss(0.99, 0);
    let steps = items.plan(1, 0, begun);
    assert!(steps.read.is_empty() && steps.again_at.is_some(), "the only available one is reserved: {steps:?}");
    items.show_hidden(begun + SECOND);
    assert_eq!(items.plan(1, 0, begun).read, names([1]), "the first one is reserved");
}

#[tokio::test(start_paused = true)]
async fn the_servers_are_believed_when_they_contradict_the_events() {
    let mut items = items(2, &[]);
    assert_eq!(claimed(&mut items, 1), names([0]));
    // No event has reported a claim.
    items.note_miss(&name(0), 0.0, now());
    assert_eq!(claimed(&mut items, 1), names([1]), "not tried again at once");
    items.show_hidden(now() + AFTER_CONTRADICTION);
    assert_eq!(items.plan(1, 0, now() + AFTER_CONTRADICTION).read, names([0]));
}

#[tokio::test(start_paused = true)]
async fn as_many_are_reserved_for_others_as_are_expected_to_claim_and_no_longer_than_they_take() {
    let begun = now();
    let mut items = items(4, &[]);
    // This consumer is the last of several that were too late.
    items.contention.note_miss(0.99, 0);
    items.contention.note_miss(0.99, 0);
    assert_eq!(items.plan(1, 0, begun).read, names([3]));
    let mut items = self::items(1, &[]);
    items.contention.note_miss(0.99, 0);
    let steps = items.plan(1, 0, begun);
    let due = steps.again_at.expect("the only one is reserved for the other");
    assert_eq!((steps.read, items.plan(1, 0, due).read), (vec![], names([0])));
}

proptest! {
    #[test]
    fn as_many_as_wanted_in_order_and_none_twice(
        count in 0..40_usize,
        theirs in prop::collection::btree_set(0..40_usize, 0..20),
        wanted in 0..20_usize,
    ) {
        let claims: Vec<usize> = theirs.iter().copied().collect();
        let mut items = items(count, &claims);
        let expected: Vec<String> = names((0..count).filter(|number| !theirs.contains(number)).take(wanted));
        prop_assert_eq!(claimed(&mut items, wanted), expected);
    }

    /// After any events in any order, an item is free if it is in the queue and neither claimed, nor claimed by this
    /// consumer, nor hidden.
    #[test]
    fn what_is_free_follows_from_what_is_known(
        happened in prop::collection::vec((0..15_u8, 0..6_usize), 0..60),
    ) {
        let mut items = Items::default();
        let begun = now();
        for (what, number) in happened {
            let name = name(number);
            match what {
                0 | 1 => items.note_item(&name, Change::Created, begun),
                2 => items.note_item(&name, Change::Deleted, begun),
                3 => items.note_claim(&name, Change::Created, begun),
                4 => items.note_claim(&name, Change::Deleted, begun),
                5 => items.hide(&name, Duration::from_secs(1), begun),
                6 => {
                    let reads = items.plan(2, 0, begun).read;
                    reads.iter().for_each(|read| items.note_read(read, item(), begun));
                    items.plan(2, 0, begun);
                }
                7 => items.note_item(&name, Change::Written, begun),
                8 => items.show_hidden(begun + Duration::from_secs(number as u64 % 2)),
                9 => items.start_over(),
                10 => items.list(names(0..number).into_iter(), names([number / 2]).into_iter(), begun),
                11 => {
                    items.plan(2, 0, begun);
                    items.note_delayed(&name, retry(number as i64), Duration::from_secs(number as u64 % 2), begun);
                }
                12 => items.show_due(number as i64 / 2, begun),
                13 => items.forget_contents(),
                _ => items.remove_own_claim(&name, begun),
            }
            let taken = |name: &String| {
                let waits = items.hidden.contains(name) || items.delayed.contains(name);
                waits || items.claimed.contains(name) || items.own_claims.contains_key(name)
            };
            let free: Vec<&String> = items.present.iter().filter(|name| !taken(name)).collect();
            prop_assert_eq!(items.free.keys().map(|place| place.name()).collect::<Vec<_>>(), free);
        }
    }
}

/// The times in the names count up from this one.
const FIRST: i64 = 0x19f_9a4a_7a00;

fn delayed(after: i64, number: usize) -> String {
    format!("queue-|{:X}|{number:010}", FIRST + after)
}

#[test]
fn an_item_with_a_time_in_its_name_is_available_from_then_on() {
    let (mut items, begun) = (items(1, &[]), now());
    items.note_item(&delayed(5, 1), Change::Created, begun);
    items.note_item(&delayed(3, 2), Change::Created, begun);
    assert_eq!((items.plan(9, 0, begun).read, items.next_due()), (names([0]), Some(FIRST + 3)));
    items.show_due(FIRST + 2, begun);
    assert_eq!(items.plan(9, 0, begun).read, [""; 0]);
    items.show_due(FIRST + 3, begun);
    assert_eq!(items.plan(9, 0, begun).read, [delayed(3, 2)]);
    items.note_item(&delayed(3, 2), Change::Written, begun);
    items.show_due(FIRST + 4, begun);
    assert_eq!(items.plan(9, 0, begun).read, [delayed(3, 2)]);
    items.forget_contents();
    items.list(names([0]).into_iter().chain([delayed(5, 1), delayed(3, 2)]), [].into_iter(), begun);
    items.show_due(FIRST + 4, begun);
    assert_eq!((items.plan(9, 0, begun).read, items.next_due()), (vec![delayed(3, 2), name(0)], Some(FIRST + 5)));
    items.show_due(FIRST + 2, begun);
    assert_eq!((items.free.len(), items.next_due()), (1, Some(FIRST + 3)), "the clock was set back");
    items.show_due(FIRST + 4, begun);
    assert_eq!((items.plan(9, 0, begun).read, items.next_due()), (vec![delayed(3, 2)], Some(FIRST + 5)));
    items.note_item(&delayed(5, 1), Change::Deleted, begun);
    assert_eq!(items.next_due(), None);
}

/// A name with a priority, a time or neither.
fn keyed(kind: u8, value: i8, number: usize) -> String {
    match kind {
        0 => name(number),
        1 => delayed(value.into(), number),
        _ => format!("queue-{}{:08X}{number:010}", u8::from(value >= 0), i32::from(value)),
    }
}

proptest! {
    #[test]
    fn what_is_due_is_claimed_in_the_order_of_places_and_nothing_else_is(
        keys in prop::collection::vec((0..3_u8, any::<i8>()), 0..40),
        time in any::<i8>(),
        wanted in 0..20_usize,
    ) {
        let all = keys.iter().enumerate().map(|(number, (kind, value))| keyed(*kind, *value, number));
        let all: Vec<String> = all.collect();
        let mut items = Items::default();
        items.list(all.iter().cloned(), [].into_iter(), now());
        let time = FIRST + i64::from(time);
        items.show_due(time, now());
        let mut due: Vec<String> =
            all.into_iter().filter(|name| delayed_until_ms(name).is_none_or(|until| until <= time)).collect();
        due.sort_by_key(|name| Place::of(name));
        due.truncate(wanted);
        prop_assert_eq!(claimed(&mut items, wanted), due);
    }
}

/// The new item of the same name has other data.
#[test]
fn a_claim_made_before_the_queue_was_deleted_is_forgotten() {
    let mut items = items(2, &[]);
    assert_eq!(claimed(&mut items, 2), names(0..2));
    items.note_own(name(0), 7);
    assert!(items.is_own_claim(&name(0), 7));
    items.start_over();
    items.note_item(&name(0), Change::Created, now());
    items.note_item(&name(1), Change::Created, now());
    assert!(!items.is_own_claim(&name(0), 7));
    assert_eq!(items.plan(9, 0, now()).read, names(0..1), "the claim on the other one is still on its way");
}
