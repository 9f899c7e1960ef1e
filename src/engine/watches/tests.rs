//! Tests of how watches are armed, fired, removed and restored.

use super::*;
use crate::protocol::{AnyRequest, decode_client_frame};

fn arm(watches: &mut Watches, kind: Kind, path: &str) -> (u64, Armed) {
    watches.arm(kind, &Arc::from(path))
}

/// Removes a holder. Returns what the server may remove now.
fn unneeded_without(watches: &mut Watches, kind: Kind, number: u64) -> Vec<WatcherType> {
    watches.disarm(kind, &Arc::from("/a"), number);
    watches.take_stale(&Arc::from("/a"))
}

fn fired(armed: &mut Armed) -> Option<Event> {
    match armed {
        Armed::Once(fired) => fired.try_recv().ok().map(|(event, _)| event),
        Armed::Persistent(_) => None,
    }
}

fn read(armed: &Armed) -> Vec<PersistentEvent> {
    let Armed::Persistent(queue) = armed else { return Vec::new() };
    let mut cx = Context::from_waker(Waker::noop());
    std::iter::from_fn(|| match queue.poll_next(&mut cx) {
        Poll::Ready(event) => event,
        Poll::Pending => None,
    })
    .collect()
}

fn node(path: &str, event: Event) -> PersistentEvent {
    PersistentEvent::Node { path: path.to_owned(), event }
}

#[test]
fn an_event_uses_up_the_one_shot_watches_that_it_fires() {
    use Event::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
    for (event, concerned) in [
        (NodeCreated, [true, true, false]),
        (NodeDataChanged, [true, true, false]),
        (NodeChildrenChanged, [false, false, true]),
        (NodeDeleted, [true, true, true]),
    ] {
        let mut watches = Watches::default();
        let mut armed = [Kind::Data, Kind::Exist, Kind::Child].map(|kind| arm(&mut watches, kind, "/a").1);
        let mut other = arm(&mut watches, Kind::Data, "/a/b").1;
        watches.fire(event, "/a");
        for (armed, concerned) in armed.iter_mut().zip(concerned) {
            assert_eq!(fired(armed), concerned.then_some(event), "{event:?}");
        }
        assert_eq!(fired(&mut other), None);
        watches.fire(NodeDeleted, "/a");
        let left: usize = watches.tables.iter().map(BTreeMap::len).sum();
        assert_eq!(left, 1, "{event:?}: only the other path is watched");
    }
}

#[test]
fn a_watch_is_removed_with_its_last_holder() {
    let mut watches = Watches::default();
    let (first, _a) = arm(&mut watches, Kind::Data, "/a");
    let (second, _b) = arm(&mut watches, Kind::Data, "/a");
    let (exists, _c) = arm(&mut watches, Kind::Exist, "/a");
    let (child, _d) = arm(&mut watches, Kind::Child, "/a");
    let on_data = vec![WatcherType::Data];
    assert_eq!(unneeded_without(&mut watches, Kind::Data, first), vec![]);
    assert_eq!(unneeded_without(&mut watches, Kind::Data, first), vec![], "it was removed before");
    assert_eq!(unneeded_without(&mut watches, Kind::Data, second), vec![], "the watch on existence is kept with it");
    assert_eq!(unneeded_without(&mut watches, Kind::Exist, exists), on_data);
    assert_eq!(unneeded_without(&mut watches, Kind::Child, child), vec![WatcherType::Children]);
    let (spent, _e) = arm(&mut watches, Kind::Data, "/a");
    watches.fire(Event::NodeDeleted, "/a");
    assert_eq!(unneeded_without(&mut watches, Kind::Data, spent), vec![], "the server's watch is spent as well");
    assert!(watches.tables.iter().all(BTreeMap::is_empty) && watches.stale.is_empty());
}

#[test]
fn old_servers_would_remove_a_persistent_watch_together_with_one_beside_it() {
    let mut watches = Watches::default();
    let (data, _a) = arm(&mut watches, Kind::Data, "/a");
    let (child, _b) = arm(&mut watches, Kind::Child, "/a");
    let (again, _c) = arm(&mut watches, Kind::Child, "/a");
    let (standing, _d) = arm(&mut watches, Kind::Persistent, "/a");
    let (below, _e) = arm(&mut watches, Kind::Recursive, "/a");
    assert_eq!(unneeded_without(&mut watches, Kind::Data, data), vec![]);
    assert_eq!(unneeded_without(&mut watches, Kind::Child, child), vec![]);
    assert_eq!(unneeded_without(&mut watches, Kind::Persistent, standing), vec![WatcherType::Persistent]);
    let all = vec![WatcherType::Data, WatcherType::PersistentRecursive];
    assert_eq!(unneeded_without(&mut watches, Kind::Recursive, below), all);
    assert_eq!(unneeded_without(&mut watches, Kind::Child, again), vec![WatcherType::Children]);
    assert!(watches.tables.iter().all(BTreeMap::is_empty) && watches.stale.is_empty());
}

#[test]
fn persistent_watches_get_the_events_of_their_part_of_the_tree() {
    let mut watches = Watches::default();
    let (_, single) = arm(&mut watches, Kind::Persistent, "/a");
    let (_, below) = arm(&mut watches, Kind::Recursive, "/a");
    let (_, all) = arm(&mut watches, Kind::Recursive, "/");
    watches.fire(Event::NodeChildrenChanged, "/a");
    watches.fire(Event::NodeCreated, "/a/b");
    watches.fire(Event::NodeDataChanged, "/a");
    watches.fire(Event::NodeDeleted, "/ab");
    let (children, created) = (node("/a", Event::NodeChildrenChanged), node("/a/b", Event::NodeCreated));
    let (changed, deleted) = (node("/a", Event::NodeDataChanged), node("/ab", Event::NodeDeleted));
    assert_eq!(read(&single), [children, changed.clone()]);
    assert_eq!(read(&below), [created.clone(), changed.clone()]);
    assert_eq!(read(&all), [created, changed, deleted]);
}

#[test]
fn too_many_unread_events_become_one_resync() {
    let mut watches = Watches::default();
    let (_, armed) = arm(&mut watches, Kind::Persistent, "/a");
    for _ in 0..UNREAD + 10 {
        watches.fire(Event::NodeDataChanged, "/a");
    }
    let events = read(&armed);
    assert_eq!(events.len(), 11);
    assert_eq!(events[0], PersistentEvent::Resync);
    watches.resync();
    watches.resync();
    assert_eq!(read(&armed), [PersistentEvent::Resync], "two in a row are one");
}

#[test]
fn the_end_reaches_every_holder_even_one_that_comes_late() {
    let mut watches = Watches::default();
    let (_, mut once) = arm(&mut watches, Kind::Exist, "/a");
    let (_, standing) = arm(&mut watches, Kind::Recursive, "/a");
    watches.fire(Event::NodeCreated, "/a/b");
    watches.end();
    let (_, mut late) = arm(&mut watches, Kind::Data, "/a");
    assert_eq!(fired(&mut once), Some(Event::SessionEnded));
    assert_eq!(fired(&mut late), Some(Event::SessionEnded));
    assert_eq!(read(&standing).len(), 1, "what came before the end is read");
    let Armed::Persistent(queue) = &standing else { unreachable!() };
    assert!(matches!(queue.poll_next(&mut Context::from_waker(Waker::noop())), Poll::Ready(None)));
}

#[test]
fn after_a_restore_that_failed_the_chunks_are_smaller() {
    let mut watches = Watches::default();
    let kept: Vec<_> = (0..3_000).map(|number| arm(&mut watches, Kind::Data, &format!("/{number:0>90}"))).collect();
    let longest = |watches: &mut Watches| watches.restore(7).iter().map(BytesMut::len).max().unwrap_or_default();
    let mut before = longest(&mut watches);
    for _ in 0..4 {
        let now = longest(&mut watches);
        assert!(now < before * 6 / 10, "{now} after {before}");
        before = now;
    }
    watches.resync();
    assert_eq!(longest(&mut watches), before, "as long as the servers have read");
    for _ in 0..10 {
        longest(&mut watches);
    }
    assert!(longest(&mut watches) > LEAST_RESTORED_AT_ONCE / 2);
    drop(kept);
}

#[test]
fn all_are_restored_in_chunks_that_a_server_reads() {
    let mut watches = Watches::default();
    let name = |number: usize| format!("/{number:0>90}");
    let mut kept: Vec<Armed> = Vec::new();
    for number in 0..5_000 {
        let kind = Kind::ALL[number % 3];
        kept.push(arm(&mut watches, kind, &name(number)).1);
    }
    let long = format!("/{}", "x".repeat(200_000));
    kept.push(arm(&mut watches, Kind::Child, &long).1);
    for persistent in [false, true] {
        if persistent {
            kept.push(arm(&mut watches, Kind::Persistent, "/p").1);
            kept.push(arm(&mut watches, Kind::Recursive, "/r").1);
        }
        let mut seen: Vec<String> = Vec::new();
        let mut latest = 0;
        let requests = watches.restore(77);
        watches.resync();
        assert!(requests.len() >= 5, "{}", requests.len());
        for request in requests {
            let frame = request.freeze().slice(4..);
            assert!(frame.len() < 128 * 1024 || frame.len() < 200_100, "{}", frame.len());
            let decoded = decode_client_frame(&frame).expect("a request");
            assert_eq!(decoded.header.xid, xid::SET_WATCHES);
            let lists = match decoded.request {
                AnyRequest::SetWatches(set) if !persistent => {
                    assert_eq!(set.relative_zxid, 77);
                    [set.data, set.exist, set.child, Vec::new(), Vec::new()]
                }
                AnyRequest::SetWatches2(set) if persistent => {
                    assert_eq!(set.relative_zxid, 77);
                    [set.data, set.exist, set.child, set.persistent, set.persistent_recursive]
                }
                other => panic!("{other:?}"),
            };
            for (kind, list) in lists.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
                assert!(kind >= latest, "the order of the Java client");
                latest = kind;
                seen.extend(list.iter().map(|path| format!("{kind}{path}")));
            }
        }
        let mut expected: Vec<String> = watches
            .tables
            .iter()
            .enumerate()
            .flat_map(|(kind, table)| table.keys().map(move |path| format!("{kind}{path}")))
            .collect();
        expected.sort();
        seen.sort();
        assert_eq!(seen, expected);
    }
    assert!(Watches::default().restore(1).is_empty());
}
