//! What the leader knows of the members. It trusts what it wrote itself more than what it reads, as records can be edited.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::allocation;
use super::known::{Content, Known};
use super::plan::Seat;
use super::record::{Record, Stamp};

/// How long a member may take to follow before that is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// Everybody the leader has to reckon with.
#[derive(Debug)]
pub(super) struct View {
    /// By the names of their nodes.
    pub(super) members: BTreeMap<String, Known>,
    /// Acknowledgements, by members; also of those whose node is gone.
    acks: BTreeMap<String, Stamp>,
    /// What somebody may be applying whose own node is gone while its session lives: deleted by hand. None: anything.
    orphans: BTreeMap<String, Option<u64>>,
    /// Kept free for those that went with a fallback, until then.
    reserved: Vec<(Instant, u64)>,
    session_timeout: Duration,
}

/// What is to be told of a member that does not follow.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Late {
    Unacked { held: u64 },
    Assumed,
}

impl View {
    pub(super) fn new(session_timeout: Duration) -> Self {
        View {
            members: BTreeMap::new(),
            acks: BTreeMap::new(),
            orphans: BTreeMap::new(),
            reserved: Vec::new(),
            session_timeout,
        }
    }

    /// Takes in a listing of the members; whether somebody came or went.
    pub(super) fn list_members(&mut self, names: Vec<String>, now: Instant) -> bool {
        let mut old = std::mem::take(&mut self.members);
        let mut came = false;
        for name in names {
            let known = old.remove(&name).unwrap_or_else(|| {
                came = true;
                Known::unread()
            });
            self.orphans.remove(&name);
            self.members.insert(name, known);
        }
        let went = !old.is_empty();
        for (name, known) in old {
            let held = known.held(self.acks.get(&name).copied());
            if self.acks.contains_key(&name) {
                // Its session lives: it may be applying its share until it notices.
                self.orphans.insert(name, held);
            } else if let Content::Record(Record { fallback: Some(fallback), .. }) = known.content {
                self.reserved.push((now + self.session_timeout, held.unwrap_or(fallback).min(fallback)));
            }
        }
        came || went
    }

    /// Takes in a listing of the acknowledgements.
    pub(super) fn list_acks(&mut self, acks: BTreeMap<String, Stamp>) {
        self.orphans.retain(|name, _| acks.contains_key(name));
        for name in acks.keys() {
            if !self.members.contains_key(name) {
                // What it held was never seen.
                self.orphans.entry(name.clone()).or_insert(None);
            }
        }
        self.acks = acks;
    }

    /// The names of those whose node must be read.
    pub(super) fn unread(&self) -> Vec<String> {
        let unread = self.members.iter().filter(|(_, known)| matches!(known.content, Content::Unread(_)));
        unread.map(|(name, _)| name.clone()).collect()
    }

    /// Whether some of them were known before.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.members.values().any(|known| matches!(known.content, Content::Unread(Some(_))))
    }

    /// Takes in what a node holds. True if somebody has changed what the leader had written.
    pub(super) fn read(&mut self, name: &str, version: i32, record: Option<Record>) -> bool {
        let ack = self.acks.get(name).copied();
        let Some(known) = self.members.get_mut(name) else { return false };
        let before = match &known.content {
            Content::Record(record) | Content::Unread(Some(record)) => Some(record.clone()),
            _ => None,
        };
        let held = known.held(ack);
        known.version = version;
        let Some(mut record) = record else {
            known.content = Content::Unreadable(before.and(held));
            return false;
        };
        let edited = before.as_ref().is_some_and(|before| *before != record);
        if edited {
            record.ceiling = record.ceiling.max(held.unwrap_or(0));
            known.edited = true;
        }
        known.content = Content::Record(record);
        edited
    }

    /// Notes that a record was written.
    pub(super) fn wrote(&mut self, name: &str, record: Record, version: i32, now: Instant) {
        if let Some(known) = self.members.get_mut(name) {
            known.waiting = record.wants_ack().then_some((now, false));
            (known.edited, known.nudge, known.version) = (false, false, version);
            known.content = Content::Record(record);
        }
    }

    /// The node must be read again before anything is written there.
    pub(super) fn doubt(&mut self, name: &str) {
        if let Some(known) = self.members.get_mut(name) {
            let old = std::mem::replace(&mut known.content, Content::Unread(None));
            known.content = match old {
                Content::Record(record) => Content::Unread(Some(record)),
                other => other,
            };
        }
    }

    /// What somebody may be applying who is no member; `u64::MAX` if nobody knows.
    pub(super) fn held_elsewhere(&mut self, now: Instant) -> u64 {
        self.reserved.retain(|(until, _)| *until > now);
        let unseen = self.members.iter().filter_map(|(name, known)| match &known.content {
            Content::Record(_) => None,
            // Gone since the listing, or spoiled: what it was last known to hold.
            _ => {
                let ack = self.acks.get(name).copied();
                let held = known.held(ack);
                Some(if ack.is_some() { held } else { held.or(Some(0)) })
            }
        });
        let unknown = self.orphans.values().copied().chain(unseen);
        let all = unknown.chain(self.reserved.iter().map(|(_, held)| Some(*held)));
        all.fold(0, |sum: u64, held| sum.saturating_add(held.unwrap_or(u64::MAX)))
    }

    /// Those that have a record, as the allocation sees them.
    pub(super) fn candidates(&self) -> Vec<allocation::Member> {
        let records = self.members.iter().filter_map(|(name, known)| Some((name, known.record()?)));
        records
            .map(|(name, record)| {
                let member = allocation::Member::new(name).weight(record.weight).min(record.min);
                match record.max {
                    Some(max) => member.max(max),
                    None => member,
                }
            })
            .collect()
    }

    /// Sets what each of the candidates is to have.
    pub(super) fn aim(&mut self, shares: &[u64]) {
        let candidates = self.members.values_mut().filter(|known| known.record().is_some());
        for (known, share) in candidates.zip(shares) {
            known.target = Some(*share);
        }
    }

    /// Those that have a record, as the plan sees them, with their names.
    pub(super) fn seats(&self) -> (Vec<String>, Vec<Seat>) {
        let seats = self.members.iter().filter_map(|(name, known)| {
            let record = known.record()?;
            let ack = self.acks.get(name).copied();
            let seat = Seat {
                throughput: record.throughput,
                held: known.held(ack).unwrap_or(record.ceiling),
                // One that came after the last decision keeps what it has.
                target: known.target.unwrap_or(record.throughput),
                ready: ack.is_some() || !record.acks,
                rewrite: known.edited || known.nudge,
            };
            Some((name.clone(), seat))
        });
        seats.unzip()
    }

    /// Whether somebody is yet to say that it follows.
    pub(super) fn awaits(&self) -> bool {
        self.members.iter().any(|(name, known)| known.is_awaited(self.acks.get(name).copied()))
    }

    /// Looks after those that do not follow: what is to be told of them.
    pub(super) fn late(&mut self, now: Instant) -> Vec<(String, Late)> {
        let mut late = Vec::new();
        for (name, known) in &mut self.members {
            let ack = self.acks.get(name).copied();
            if !known.is_awaited(ack) {
                known.waiting = None;
                continue;
            }
            let (since, told) = *known.waiting.get_or_insert((now, false));
            let Content::Record(record) = &known.content else { continue };
            if !record.acks && now >= since + self.session_timeout {
                known.assumed = Some(record.stamp());
                late.push((name.clone(), Late::Assumed));
            } else if !told && now >= since + PATIENCE {
                known.waiting = Some((since, true));
                // Its node of acknowledgement was deleted by somebody: it makes a new one when it is asked.
                known.nudge = record.acks && ack.is_none();
                late.push((name.clone(), Late::Unacked { held: known.held(ack).unwrap_or(record.ceiling) }));
            }
        }
        late
    }

    /// When [`late`](Self::late), or what is reserved, has to be looked at again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let late = self.members.values().filter_map(|known| {
            let Content::Record(record) = &known.content else { return None };
            let (since, told) = known.waiting?;
            match (told, record.acks) {
                (false, _) => Some(since + PATIENCE),
                (true, true) => None,
                (true, false) => Some(since + self.session_timeout),
            }
        });
        late.chain(self.reserved.iter().map(|(until, _)| *until)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(10);

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn stamp(sequence: u64) -> Stamp {
        Stamp { epoch: 1, sequence }
    }

    fn acks(acks: &[(&str, u64)]) -> BTreeMap<String, Stamp> {
        acks.iter().map(|(name, sequence)| ((*name).to_owned(), stamp(*sequence))).collect()
    }

    /// Two members; `a` was lowered from 9 to 4 and has said nothing yet.
    fn lowered(now: Instant) -> View {
        let mut view = View::new(T);
        assert!(view.list_members(names(&["a", "b"]), now));
        view.list_acks(acks(&[("a", 0), ("b", 0)]));
        for name in ["a", "b"] {
            view.read(name, 0, Some(Record::new(name, 9)));
        }
        view.wrote("a", Record::new("a", 9).next(4, 9, false, stamp(1)), 1, now);
        view
    }

    fn held(view: &View) -> Vec<u64> {
        view.seats().1.iter().map(|seat| seat.held).collect()
    }

    #[test]
    fn a_lowered_member_holds_what_it_had_until_it_says_that_it_follows() {
        let now = Instant::now();
        let mut view = lowered(now);
        assert_eq!((held(&view), view.awaits()), (vec![9, 9], true));
        view.list_acks(acks(&[("a", 1), ("b", 0)]));
        assert_eq!((held(&view), view.awaits()), (vec![4, 9], false));
    }

    #[test]
    fn a_member_is_gone_when_both_of_its_nodes_are() {
        let now = Instant::now();
        let mut view = lowered(now);
        assert!(view.list_members(names(&["b"]), now));
        assert_eq!((held(&view), view.held_elsewhere(now)), (vec![9], 9), "its session lives");
        view.list_acks(acks(&[("b", 0)]));
        assert_eq!(view.held_elsewhere(now), 0);
    }

    #[test]
    fn of_a_node_that_was_gone_before_it_was_read_nobody_knows_what_it_stood_for() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.list_acks(acks(&[("a", 1), ("b", 0), ("c", 0)]));
        assert_eq!(view.held_elsewhere(now), u64::MAX);
        view.list_members(names(&["a", "b", "c"]), now);
        assert_eq!(view.held_elsewhere(now), u64::MAX, "it may be anything before it is read");
        view.read("c", 1, Some(Record::new("c", 0)));
        assert_eq!(view.held_elsewhere(now), 0, "it was only the order of two listings");
    }

    #[test]
    fn what_was_edited_does_not_count_for_what_is_held() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.list_acks(acks(&[("a", 1), ("b", 0)]));
        view.doubt("b");
        assert_eq!(view.unread(), ["b"]);
        assert!(view.read("b", 5, Some(Record::new("b", 0))), "somebody has changed it");
        assert_eq!(held(&view), [4, 9]);
        assert!(view.seats().1[1].rewrite);
        view.doubt("b");
        view.read("b", 6, None);
        assert_eq!(view.held_elsewhere(now), 9);
    }

    #[test]
    fn a_member_that_went_since_the_listing_holds_what_it_was_last_known_to_hold() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.doubt("a");
        assert_eq!((held(&view), view.held_elsewhere(now)), (vec![9], 9));
        view.list_members(names(&["a", "b", "c"]), now);
        assert_eq!(view.held_elsewhere(now), 9, "one that just came has said nothing yet");
        view.list_acks(acks(&[("a", 0), ("b", 0), ("c", 0)]));
        assert_eq!(view.held_elsewhere(now), u64::MAX, "it may be anything before it is read");
    }

    #[test]
    fn junk_is_given_nothing_and_blocks_nobody_unless_a_session_stands_behind_it() {
        let now = Instant::now();
        let mut view = View::new(T);
        view.list_members(names(&["junk"]), now);
        view.read("junk", 0, None);
        assert_eq!((view.seats().1.len(), view.held_elsewhere(now)), (0, 0));
        view.list_acks(acks(&[("junk", 3)]));
        assert_eq!(view.held_elsewhere(now), u64::MAX);
    }

    #[test]
    fn a_fallback_is_kept_free_for_a_session_timeout() {
        let now = Instant::now();
        let mut view = View::new(T);
        view.list_members(names(&["a"]), now);
        view.read("a", 0, Some(Record { fallback: Some(3), ..Record::new("a", 9) }));
        view.list_members(Vec::new(), now);
        assert_eq!((view.held_elsewhere(now), view.next_look()), (3, Some(now + T)));
        assert_eq!(view.held_elsewhere(now + T), 0);
    }

    #[test]
    fn who_does_not_follow_is_told_once_and_one_that_never_says_so_is_believed_after_a_session_timeout() {
        let now = Instant::now();
        let mut view = lowered(now);
        assert_eq!((view.late(now), view.next_look()), (vec![], Some(now + PATIENCE)));
        assert_eq!(view.late(now + PATIENCE), [("a".into(), Late::Unacked { held: 9 })]);
        assert_eq!((view.late(now + PATIENCE * 2), view.next_look()), (vec![], None));
        let foreign = Record { acks: false, ..Record::new("b", 9) };
        view.wrote("b", foreign.next(4, 9, false, stamp(2)), 1, now);
        view.late(now + PATIENCE);
        assert_eq!(view.next_look(), Some(now + T));
        assert_eq!(view.late(now + T), [("b".into(), Late::Assumed)]);
        assert_eq!(held(&view), [9, 4]);
    }

    #[test]
    fn one_whose_acknowledgement_was_deleted_is_asked_for_it() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.list_acks(acks(&[("a", 1)]));
        assert!(!view.seats().1[1].ready && view.awaits());
        view.late(now);
        assert_eq!(view.late(now + PATIENCE).len(), 1);
        assert!(view.seats().1[1].rewrite);
    }
}
