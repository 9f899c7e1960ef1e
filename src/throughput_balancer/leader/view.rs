//! What the leader knows of the members.
//!
//! A member is a pair of nodes: a readable record, and an acknowledgement. One rule serves everything else: it is ignored; but
//! what a session stands behind keeps what it held until both of its nodes are gone, as the end of the session removes both.
//! Nodes that were changed by hand are not repaired.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::holding::Holding;
use super::plan::{Change, PlannedMember};
use crate::throughput_balancer::allocation;
use crate::throughput_balancer::record::{Decision, Record};
use crate::types::Stat;

/// A member that has not followed for so long is reckoned with as it is: the others divide what it does not hold.
const SLOW: Duration = Duration::from_millis(500);
/// How long a member may take to follow, or a node to become a pair, before an event tells of it.
const PATIENCE: Duration = Duration::from_secs(5);

/// All nodes, by the names of the members.
#[derive(Debug, Default)]
pub(super) struct View {
    known: BTreeMap<String, Known>,
}

/// What is known under one name.
#[derive(Debug)]
struct Known {
    /// Whether its node was in the latest listing.
    is_listed: bool,
    ack: Option<Decision>,
    content: Content,
    /// The node whose record was read, and its data version.
    node: Option<Node>,
    /// None if it never was a member, as far as this leader knows.
    holding: Option<Holding>,
    /// Its acknowledgement belongs to no session.
    is_by_hand: bool,
    /// The share that was decided.
    target: Option<u64>,
    overdue: Option<Overdue>,
}

/// A node among all that ever had its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    /// The transaction that created it.
    created: i64,
    version: i32,
}

/// What a member's node holds.
#[derive(Debug)]
enum Content {
    /// It must be read.
    Unread,
    Record(Record),
    /// Not usable, and why.
    Unusable(String),
}

/// Since when something is waited for.
#[derive(Debug, Clone, Copy)]
struct Overdue {
    since: Instant,
    is_told: bool,
}

/// What is to be told of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// The member has not acknowledged that it has less.
    Unacked { held: u64 },
    /// It is not, or not any more, a pair.
    Ignored { held: u64, why: String },
}

/// A member to divide among.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) member: allocation::Member,
    pub(super) held: u64,
    /// It has not followed for a while.
    pub(super) is_slow: bool,
}

impl Known {
    fn new() -> Self {
        Known {
            is_listed: false,
            ack: None,
            content: Content::Unread,
            node: None,
            holding: None,
            is_by_hand: false,
            target: None,
            overdue: None,
        }
    }

    fn record(&self) -> Option<&Record> {
        match &self.content {
            Content::Record(record) => Some(record),
            _ => None,
        }
    }

    /// The record and what is held, if this is a member.
    fn member(&self) -> Option<(&Record, &Holding)> {
        let is_pair = self.is_listed && self.ack.is_some();
        self.record().zip(self.holding.as_ref()).filter(|_| is_pair)
    }

    fn held(&self) -> u64 {
        self.holding.as_ref().map_or(0, Holding::most)
    }

    /// Whether an acknowledgement is awaited.
    fn is_awaited(&self) -> bool {
        self.member().is_some_and(|(record, holding)| holding.is_above(record.throughput))
    }

    fn is_slow(&self, now: Instant) -> bool {
        self.is_awaited() && self.overdue.is_some_and(|overdue| now >= overdue.since + SLOW)
    }

    /// Begins to reckon with it, once both nodes were seen.
    fn pair(&mut self) {
        if let (Content::Record(record), Some(ack), None) = (&self.content, self.ack, &self.holding) {
            self.holding = Some(Holding::read(record, Some(ack)));
        }
    }

    /// Reckons with a record of a session, also without an acknowledgement: that may have been deleted by hand.
    fn belongs_to_session(&mut self) {
        if self.holding.is_none() && self.ack.is_none() {
            self.holding = Some(match self.record() {
                Some(record) => Holding::read(record, None),
                None => Holding::anything(),
            });
        }
    }

    fn acknowledged(&mut self, ack: Option<Decision>) {
        self.ack = ack;
        let before = self.held();
        if let (Some(holding), Some(ack)) = (&mut self.holding, ack) {
            holding.acknowledged(ack);
        }
        if self.held() < before {
            // It follows, if not yet to the end.
            self.overdue = None;
        }
        self.pair();
    }

    /// What is waited for, if anything.
    fn late(&self) -> Option<Late> {
        let held = self.held();
        if self.member().is_some() {
            return self.is_awaited().then_some(Late::Unacked { held });
        }
        let why = match &self.content {
            Content::Unusable(why) => why.as_str(),
            _ if !self.is_listed => "its record is gone, its acknowledgement is not",
            _ => "it has no acknowledgement",
        };
        Some(Late::Ignored { held, why: why.to_owned() })
    }
}

impl View {
    /// Takes in a listing of the records; whether a member came or went.
    pub(super) fn list_members(&mut self, names: Vec<String>) -> bool {
        let mut names: BTreeSet<String> = names.into_iter().collect();
        let mut changed = false;
        self.known.retain(|name, known| {
            let is_listed = names.remove(name);
            if is_listed != known.is_listed {
                // A name that is listed again stands for another node.
                (changed, known.content) = (true, Content::Unread);
            }
            known.is_listed = is_listed;
            is_listed || known.ack.is_some()
        });
        changed |= !names.is_empty();
        self.known.extend(names.into_iter().map(|name| (name, Known { is_listed: true, ..Known::new() })));
        changed
    }

    /// Takes in a listing of the acknowledgements; whether a member came or went.
    pub(super) fn list_acks(&mut self, mut acks: BTreeMap<String, Decision>) -> bool {
        let mut changed = false;
        self.known.retain(|name, known| {
            let ack = acks.remove(name);
            changed |= ack.is_some() != known.ack.is_some();
            known.acknowledged(ack);
            known.is_listed || ack.is_some()
        });
        changed |= !acks.is_empty();
        self.known.extend(acks.into_iter().map(|(name, ack)| (name, Known { ack: Some(ack), ..Known::new() })));
        changed
    }

    /// The names of the nodes that must be read.
    pub(super) fn unread(&self) -> Vec<String> {
        let unread = self.known.iter().filter(|(_, known)| known.is_listed && matches!(known.content, Content::Unread));
        unread.map(|(name, _)| name.clone()).collect()
    }

    /// Acknowledgements without a usable record of which it is not known yet whether a session stands behind them.
    pub(super) fn strangers(&self) -> Vec<(String, Decision)> {
        let strangers = self.known.iter().filter(|(_, known)| {
            known.holding.is_none() && !known.is_by_hand && (!known.is_listed || known.record().is_none())
        });
        strangers.filter_map(|(name, known)| Some((name.clone(), known.ack?))).collect()
    }

    /// Takes in whether a session stands behind one of the [`strangers`](Self::strangers): then it was a member, and may be
    /// applying anything.
    pub(super) fn prove(&mut self, name: &str, has_session: bool) {
        self.update(name, |known| {
            known.is_by_hand = !has_session;
            known.holding = has_session.then(Holding::anything);
        });
    }

    /// Whether a node that was read before must be read again.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.known.values().any(|known| known.holding.is_some() && matches!(known.content, Content::Unread))
    }

    /// Takes in what a node holds, and since when it has held that.
    pub(super) fn read(&mut self, name: &str, stat: &Stat, record: Result<Record, String>, since: Instant) {
        let node = Node { created: stat.czxid, version: stat.version };
        self.update(name, |known| {
            known.content = match record {
                // The leader knows every version that it has written.
                Ok(_) if known.node.is_some_and(|known| known.created == node.created && known != node) => {
                    Content::Unusable("its record was changed by hand".into())
                }
                Ok(record) => {
                    if known.node.replace(node) != Some(node) {
                        // Whatever was held under this name, this is what is held now.
                        known.holding = None;
                    }
                    Content::Record(record)
                }
                Err(why) => Content::Unusable(why),
            };
            known.pair();
            if stat.ephemeral_owner != 0 {
                known.belongs_to_session();
            }
            known.overdue.get_or_insert(Overdue { since, is_told: false });
        });
    }

    /// The next record of a member, and the version at which it may be written.
    pub(super) fn next_record(&self, name: &str, change: &Change, decision: Decision) -> Option<(Record, i32)> {
        let known = self.known.get(name)?;
        let (record, _) = known.member()?;
        Some((record.next(change.throughput, change.ceiling, decision), known.node?.version))
    }

    /// Notes that a record was written.
    pub(super) fn wrote(&mut self, name: &str, record: Record, version: i32) {
        self.update(name, |known| {
            if let Some(holding) = &mut known.holding {
                holding.gave(&record);
            }
            known.node = known.node.map(|node| Node { version, ..node });
            known.content = Content::Record(record);
        });
    }

    /// The node must be read again before it is written.
    pub(super) fn doubt(&mut self, name: &str) {
        self.update(name, |known| known.content = Content::Unread);
    }

    /// The node cannot be used until something changes.
    pub(super) fn ignore(&mut self, name: &str, why: String) {
        self.update(name, |known| known.content = Content::Unusable(why));
    }

    /// Looks again at all that are ignored: they may be usable by now.
    pub(super) fn reconsider(&mut self) {
        for known in self.known.values_mut() {
            if matches!(known.content, Content::Unusable(_)) {
                known.content = Content::Unread;
            }
        }
    }

    fn update(&mut self, name: &str, change: impl FnOnce(&mut Known)) {
        self.known.get_mut(name).map(change);
    }

    fn members(&self) -> impl Iterator<Item = (&String, &Known, &Record, &Holding)> {
        self.known.iter().filter_map(|(name, known)| {
            let (record, holding) = known.member()?;
            Some((name, known, record, holding))
        })
    }

    /// What may be applied under names that are no members any more.
    pub(super) fn held_elsewhere(&self) -> u64 {
        let ignored = self.known.values().filter(|known| known.member().is_none());
        ignored.fold(0, |sum, known| sum.saturating_add(known.held()))
    }

    /// As well, and what slow members may be applying.
    pub(super) fn withheld(&self, now: Instant) -> u64 {
        let slow = self.known.values().filter(|known| known.is_slow(now));
        slow.fold(self.held_elsewhere(), |sum, known| sum.saturating_add(known.held()))
    }

    /// The members as the allocation sees them.
    pub(super) fn candidates(&self, now: Instant) -> Vec<Candidate> {
        let candidate = |(name, known, record, holding): (&String, &Known, &Record, &Holding)| {
            let member = allocation::Member::new(name).weight(record.weight).min(record.min);
            let member = record.max.into_iter().fold(member, allocation::Member::max);
            Candidate { member, held: holding.most(), is_slow: known.is_slow(now) }
        };
        self.members().map(candidate).collect()
    }

    /// Sets the shares that were decided for the [`candidates`](Self::candidates).
    pub(super) fn aim(&mut self, shares: &[u64]) {
        let members = self.known.values_mut().filter(|known| known.member().is_some());
        for (known, share) in members.zip(shares) {
            known.target = Some(*share);
        }
    }

    /// The members as the plan sees them, with their names.
    pub(super) fn planned(&self) -> (Vec<String>, Vec<PlannedMember>) {
        let planned = self.members().map(|(name, known, record, holding)| {
            let planned = PlannedMember {
                throughput: record.throughput,
                held: holding.most(),
                // One that came after the last decision keeps what it has.
                target: known.target.unwrap_or(record.throughput),
                is_new: record.epoch == 0 && known.target.is_some(),
            };
            (name.clone(), planned)
        });
        planned.unzip()
    }

    /// Whether an acknowledgement is awaited.
    pub(super) fn awaits(&self) -> bool {
        self.known.values().any(Known::is_awaited)
    }

    /// Whether one is awaited that is likely to come soon.
    pub(super) fn awaits_soon(&self, now: Instant) -> bool {
        self.known.values().any(|known| known.is_awaited() && !known.is_slow(now))
    }

    /// Looks after everything that is waited for; what is to be told of it.
    pub(super) fn late(&mut self, now: Instant) -> Vec<(String, Late)> {
        let mut told = Vec::new();
        for (name, known) in &mut self.known {
            let Some(late) = known.late() else {
                known.overdue = None;
                continue;
            };
            let overdue = known.overdue.get_or_insert(Overdue { since: now, is_told: false });
            if !overdue.is_told && now >= overdue.since + PATIENCE {
                overdue.is_told = true;
                told.push((name.clone(), late));
            }
        }
        told
    }

    /// When that, or who is slow, has to be looked at again.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let overdue = self.known.values().filter_map(|known| known.overdue);
        let times = overdue.flat_map(|Overdue { since, .. }| [since + SLOW, since + PATIENCE]);
        times.filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let (record, _) = view.next_record(name, &change, decision(sequence)).expect("a member");
        view.wrote(name, record, version);
    }

    fn held(view: &View, name: &str) -> u64 {
        view.known[name].held()
    }

    /// Two members; `a` was lowered from 9 to 4 and has acknowledged nothing yet.
    fn lowered(now: Instant) -> View {
        let mut view = View::default();
        assert!(view.list_acks(acks(&[("a", 0), ("b", 0)])));
        assert!(view.list_members(names(&["a", "b"])));
        for name in ["a", "b"] {
            view.read(name, &stat(7, 0), Ok(Record::new(name, 9)), now);
        }
        view.late(now);
        write(&mut view, "a", 4, 1, 1);
        view.late(now);
        view
    }

    #[test]
    fn a_lowered_member_holds_what_it_had_until_it_acknowledges() {
        let mut view = lowered(Instant::now());
        assert_eq!((held(&view, "a"), view.awaits()), (9, true));
        assert!(!view.list_acks(acks(&[("a", 1), ("b", 0)])), "nobody came or went");
        assert_eq!((held(&view, "a"), view.awaits()), (4, false));
    }

    #[test]
    fn a_member_is_gone_when_both_of_its_nodes_are() {
        let mut view = lowered(Instant::now());
        assert!(view.list_members(names(&["b"])));
        assert_eq!((view.candidates(Instant::now()).len(), view.held_elsewhere()), (1, 9), "its session lives");
        assert!(view.list_acks(acks(&[("b", 0)])));
        assert_eq!(view.held_elsewhere(), 0);
        assert!(view.list_acks(acks(&[])));
        assert_eq!((view.candidates(Instant::now()).len(), view.held_elsewhere()), (0, 9), "the record stands");
    }

    #[test]
    fn an_acknowledgement_without_a_record_blocks_everything_if_a_session_stands_behind_it() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.list_acks(acks(&[("a", 1), ("b", 0), ("x", 7), ("y", 7)]));
        assert_eq!(view.strangers(), [("x".into(), decision(7)), ("y".into(), decision(7))]);
        assert_eq!(view.held_elsewhere(), 0);
        view.prove("x", false);
        view.prove("y", true);
        assert_eq!((view.strangers(), view.held_elsewhere()), (vec![], u64::MAX));
        view.list_acks(acks(&[("a", 1), ("b", 0), ("x", 7)]));
        assert_eq!((view.strangers(), view.held_elsewhere()), (vec![], 0));
    }

    #[test]
    fn a_record_that_was_changed_by_hand_is_ignored_and_its_member_keeps_what_it_held() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.doubt("b");
        assert_eq!((view.unread(), view.is_in_doubt()), (names(&["b"]), true));
        view.read("b", &stat(7, 5), Ok(Record::new("b", 0)), now);
        assert_eq!((view.candidates(now).len(), view.held_elsewhere()), (1, 9));
        // It stays so, as often as it is read; another node of that name is another member.
        view.reconsider();
        view.read("b", &stat(7, 5), Ok(Record::new("b", 0)), now);
        assert_eq!(view.held_elsewhere(), 9);
        view.doubt("b");
        view.read("b", &stat(8, 0), Ok(Record::new("b", 3)), now);
        assert_eq!((view.candidates(now).len(), held(&view, "b"), view.held_elsewhere()), (2, 3, 0));
    }

    #[test]
    fn a_node_that_could_not_be_used_for_a_while_is_a_member_again_if_nobody_has_changed_it() {
        let now = Instant::now();
        let mut view = lowered(now);
        view.ignore("b", "it cannot be written".into());
        assert_eq!(view.held_elsewhere(), 9);
        view.reconsider();
        view.read("b", &stat(7, 0), Ok(Record::new("b", 9)), now);
        assert_eq!((view.candidates(now).len(), view.held_elsewhere()), (2, 0));
    }

    #[test]
    fn a_member_is_slow_when_it_has_not_followed_for_a_while_and_not_when_it_is_on_its_way() {
        let now = Instant::now();
        let mut view = lowered(now);
        let slow = |view: &View, at| view.candidates(at).iter().filter(|candidate| candidate.is_slow).count();
        assert_eq!((slow(&view, now), view.awaits_soon(now), view.withheld(now)), (0, true, 0));
        let later = now + SLOW;
        assert_eq!((slow(&view, later), view.awaits_soon(later), view.withheld(later)), (1, false, 9));
        write(&mut view, "a", 3, 2, 2);
        assert_eq!(slow(&view, later), 1, "another decision is no excuse");
        view.list_acks(acks(&[("a", 1), ("b", 0)]));
        view.late(later);
        assert_eq!((held(&view, "a"), slow(&view, later)), (4, 0), "it has followed the first one");
        assert_eq!(slow(&view, later + SLOW), 1);
    }

    #[test]
    fn what_is_late_is_told_once() {
        let now = Instant::now();
        let mut view = lowered(now);
        assert_eq!(view.next_look(now), Some(now + SLOW));
        assert_eq!(view.late(now + SLOW), []);
        assert_eq!(view.next_look(now + SLOW), Some(now + PATIENCE));
        assert_eq!(view.late(now + PATIENCE), [("a".into(), Late::Unacked { held: 9 })]);
        assert_eq!((view.late(now + PATIENCE * 2), view.next_look(now + PATIENCE)), (vec![], None));
        view.list_acks(acks(&[("a", 1)]));
        view.late(now + PATIENCE);
        let why = "it has no acknowledgement".to_owned();
        assert_eq!(view.late(now + PATIENCE * 2), [("b".into(), Late::Ignored { held: 9, why })]);
    }
}
