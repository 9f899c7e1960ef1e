//! What the leader knows of the members. It trusts what it wrote itself more than what it reads, as records can be edited.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::allocation;
use super::known::{Content, Known, PATIENCE};
use super::plan::Seat;
use super::record::{Record, Stamp};

/// Everybody the leader has to reckon with.
#[derive(Debug)]
pub(super) struct View {
    /// By the names of their nodes.
    pub(super) members: BTreeMap<String, Known>,
    /// Acknowledgements, by members; also of those whose node is gone.
    acks: BTreeMap<String, Stamp>,
    /// Those that have acknowledged and have no node: their session may live.
    orphans: BTreeMap<String, Orphan>,
    /// Acknowledgements that no session stands behind: made by hand.
    junk: BTreeMap<String, Stamp>,
    session_timeout: Duration,
}

/// A member whose own node is gone while its session lives: deleted by hand. It may be applying its share until it notices.
#[derive(Debug)]
struct Orphan {
    /// What it may be applying. None: anything.
    held: Option<u64>,
    /// Whether a session stands behind it.
    is_proven: bool,
    /// Since when it is seen; none once that was told.
    since: Option<Instant>,
}

/// What is to be told of a member that does not follow.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Late {
    Unacked { held: u64 },
    Assumed,
    Orphaned { held: Option<u64> },
}

impl View {
    pub(super) fn new(session_timeout: Duration) -> Self {
        View {
            members: BTreeMap::new(),
            acks: BTreeMap::new(),
            orphans: BTreeMap::new(),
            junk: BTreeMap::new(),
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
            if let Some(ack) = self.acks.get(&name) {
                let held = known.held(Some(*ack));
                self.orphans.insert(name, Orphan { held, is_proven: true, since: Some(now) });
            }
        }
        came || went
    }

    /// Takes in a listing of the acknowledgements.
    pub(super) fn list_acks(&mut self, mut acks: BTreeMap<String, Stamp>, now: Instant) {
        self.junk.retain(|name, stamp| acks.get(name) == Some(stamp));
        acks.retain(|name, _| !self.junk.contains_key(name));
        self.orphans.retain(|name, _| acks.contains_key(name));
        for name in acks.keys().filter(|name| !self.members.contains_key(*name)) {
            // What it held was never seen.
            let stranger = || Orphan { held: None, is_proven: false, since: Some(now) };
            self.orphans.entry(name.clone()).or_insert_with(stranger);
        }
        self.acks = acks;
    }

    /// Acknowledgements of which nobody knows yet whether a session stands behind them.
    pub(super) fn strangers(&self) -> Vec<(String, Stamp)> {
        let strangers = self.orphans.iter().filter(|(_, orphan)| !orphan.is_proven);
        strangers.filter_map(|(name, _)| Some((name.clone(), *self.acks.get(name)?))).collect()
    }

    /// Takes in whether a session stands behind one of the [`strangers`](Self::strangers).
    pub(super) fn prove(&mut self, name: &str, has_session: bool) {
        if has_session {
            if let Some(orphan) = self.orphans.get_mut(name) {
                orphan.is_proven = true;
            }
        } else if let Some(stamp) = self.acks.remove(name) {
            self.orphans.remove(name);
            self.junk.insert(name.to_owned(), stamp);
        }
    }

    /// Whether there is a node of this member, or was when it was looked for.
    pub(super) fn is_there(&self, name: &str) -> bool {
        self.members.contains_key(name) || self.acks.contains_key(name)
    }

    /// Whether this member has a node and cannot be served.
    pub(super) fn is_aside(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|known| known.record().is_none())
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
        let (before, held) = (known.last_record().cloned(), known.held(ack));
        known.version = version;
        let Some(mut record) = record else {
            known.content = Content::Unreadable(before);
            return false;
        };
        let edited = before.is_some_and(|before| before != record);
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
        self.set_aside(name, Content::Unread);
    }

    /// The node cannot be written.
    pub(super) fn give_up(&mut self, name: &str) {
        self.set_aside(name, Content::Unreadable);
    }

    fn set_aside(&mut self, name: &str, content: fn(Option<Record>) -> Content) {
        if let Some(known) = self.members.get_mut(name) {
            known.content = content(known.last_record().cloned());
        }
    }

    /// What somebody may be applying who is no member; `u64::MAX` if nobody knows.
    pub(super) fn held_elsewhere(&self) -> u64 {
        let unseen = self.members.iter().filter_map(|(name, known)| match &known.content {
            Content::Record(_) => None,
            // Gone since the listing, or spoiled: what it was last known to hold.
            _ => {
                let ack = self.acks.get(name).copied();
                let held = known.held(ack);
                Some(if ack.is_some() { held } else { held.or(Some(0)) })
            }
        });
        let all = self.orphans.values().map(|orphan| orphan.held).chain(unseen);
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
                is_new: record.epoch == 0 && known.target.is_some(),
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
                (known.waiting, known.nudges) = (None, 0);
                continue;
            }
            let (since, told) = *known.waiting.get_or_insert((now, false));
            let patience = known.patience();
            let Content::Record(record) = &known.content else { continue };
            if !record.acks && now >= since + self.session_timeout {
                known.assumed = Some(record.stamp());
                late.push((name.clone(), Late::Assumed));
            } else if !told && now >= since + patience {
                known.waiting = Some((since, true));
                // Its node of acknowledgement was deleted by somebody: it makes a new one when it is asked.
                known.nudge = record.acks && ack.is_none();
                known.nudges += u32::from(known.nudge);
                late.push((name.clone(), Late::Unacked { held: known.held(ack).unwrap_or(record.ceiling) }));
            }
        }
        for (name, orphan) in &mut self.orphans {
            if orphan.since.is_some_and(|since| now >= since + PATIENCE) {
                orphan.since = None;
                late.push((name.clone(), Late::Orphaned { held: orphan.held }));
            }
        }
        late
    }

    /// When [`late`](Self::late) has to be looked at again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let late = self.members.values().filter_map(|known| {
            let Content::Record(record) = &known.content else { return None };
            let (since, told) = known.waiting?;
            match (told, record.acks) {
                (false, _) => Some(since + known.patience()),
                (true, true) => None,
                (true, false) => Some(since + self.session_timeout),
            }
        });
        late.chain(self.orphans.values().filter_map(|orphan| Some(orphan.since? + PATIENCE))).min()
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
        view.list_acks(acks(&[("a", 0), ("b", 0)]), now);
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
        view.list_acks(acks(&[("a", 1), ("b", 0)]), now);
        assert_eq!((held(&view), view.awaits()), (vec![4, 9], false));
    }

    #[test]
    fn a_member_is_gone_when_both_of_its_nodes_are() {
        let now = Instant::now();
        let mut view = lowered(now);
        assert!(view.list_members(names(&["b"]), now));
        assert_eq!((held(&view), view.held_elsewhere()), (vec![9], 9), "its session lives");
        view.list_acks(acks(&[("b", 0)]), now);
        assert_eq!(view.held_elsewhere(), 0);
    }

    #[test]
    fn of_a_node_that_was_gone_before_it_was_read_nobody_knows_what_it_stood_for() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.list_acks(acks(&[("a", 1), ("b", 0), ("c", 0)]), now);
        assert_eq!(view.held_elsewhere(), u64::MAX);
        view.list_members(names(&["a", "b", "c"]), now);
        assert_eq!(view.held_elsewhere(), u64::MAX, "it may be anything before it is read");
        view.read("c", 1, Some(Record::new("c", 0)));
        assert_eq!(view.held_elsewhere(), 0, "it was only the order of two listings");
    }

    #[test]
    fn what_was_edited_does_not_count_for_what_is_held() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.list_acks(acks(&[("a", 1), ("b", 0)]), now);
        view.doubt("b");
        assert_eq!(view.unread(), ["b"]);
        assert!(view.read("b", 5, Some(Record::new("b", 0))), "somebody has changed it");
        assert_eq!(held(&view), [4, 9]);
        assert!(view.seats().1[1].rewrite);
        view.doubt("b");
        view.read("b", 6, None);
        assert_eq!(view.held_elsewhere(), 9);
    }

    #[test]
    fn a_member_that_went_since_the_listing_holds_what_it_was_last_known_to_hold() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.doubt("a");
        assert_eq!((held(&view), view.held_elsewhere()), (vec![9], 9));
        view.list_members(names(&["a", "b", "c"]), now);
        assert_eq!(view.held_elsewhere(), 9, "one that just came has said nothing yet");
        view.list_acks(acks(&[("a", 0), ("b", 0), ("c", 0)]), now);
        assert_eq!(view.held_elsewhere(), u64::MAX, "it may be anything before it is read");
    }

    #[test]
    fn junk_is_given_nothing_and_blocks_nobody_unless_a_session_stands_behind_it() {
        let now = Instant::now();
        let mut view = View::new(T);
        view.list_members(names(&["junk"]), now);
        view.read("junk", 0, None);
        assert_eq!((view.seats().1.len(), view.held_elsewhere()), (0, 0));
        view.list_acks(acks(&[("junk", 3)]), now);
        assert_eq!(view.held_elsewhere(), u64::MAX);
    }

    #[test]
    fn an_acknowledgement_made_by_hand_blocks_nobody_and_one_of_a_session_is_told_of() {
        let now = Instant::now();
        let mut view = lowered(now);
        let listed = acks(&[("a", 1), ("b", 0), ("x", 7), ("y", 7)]);
        view.list_acks(listed.clone(), now);
        assert_eq!(view.strangers(), [("x".into(), stamp(7)), ("y".into(), stamp(7))]);
        assert_eq!((view.held_elsewhere(), view.next_look()), (u64::MAX, Some(now + PATIENCE)));
        view.prove("x", false);
        view.prove("y", true);
        assert_eq!((view.strangers(), view.held_elsewhere()), (vec![], u64::MAX));
        assert_eq!(view.late(now + PATIENCE), [("y".into(), Late::Orphaned { held: None })]);
        assert_eq!(view.late(now + PATIENCE * 2), []);
        // The next listing has forgotten neither.
        view.list_acks(listed, now);
        assert_eq!((view.strangers(), view.held_elsewhere()), (vec![], u64::MAX));
        view.list_acks(acks(&[("a", 1), ("b", 0), ("x", 7)]), now);
        assert_eq!((view.held_elsewhere(), view.is_there("x"), view.is_there("y")), (0, false, false));
    }

    #[test]
    fn one_that_became_unreadable_holds_what_it_had_also_when_it_is_read_again() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.doubt("b");
        view.read("b", 3, None);
        assert_eq!((view.held_elsewhere(), view.unread()), (9, vec![]));
        view.doubt("b");
        assert!(view.read("b", 4, Some(Record::new("b", 2))));
        assert_eq!(held(&view), [9, 9]);
        view.give_up("a");
        assert_eq!((held(&view), view.held_elsewhere()), (vec![9], 9));
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
        view.list_acks(acks(&[("a", 1)]), now);
        assert!(!view.seats().1[1].ready && view.awaits());
        view.late(now);
        assert_eq!(view.late(now + PATIENCE).len(), 1);
        assert!(view.seats().1[1].rewrite);
    }
}
