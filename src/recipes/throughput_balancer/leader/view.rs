//! What the leader knows of the members.
//!
//! A member is a pair of nodes: a readable record, and an acknowledgement. One rule covers everything else: the leader
//! ignores it. But a node that a session owns keeps what it held until both nodes of its pair are deleted, as the end
//! of the session deletes both. Nodes that were changed by hand are not repaired.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::holding::{Held, Holding};
use super::plan::{Change, PlannedMember};
use crate::layout::throughput_balancer::Decision;
use crate::throughput_balancer::allocation;
use crate::throughput_balancer::record::Record;
use crate::util::znode::Stat;

/// After this time without following, a member counts with what it holds: the others divide the rest.
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
    /// The record that was read or written last.
    last: Option<Record>,
    /// The node whose record was read, and its data version.
    node: Option<Node>,
    /// `None` if it never was a member, as far as this leader knows.
    holding: Option<Holding>,
    /// Whether its acknowledgement belongs to no session.
    is_by_hand: bool,
    /// Whether the latest attempt to write its record was refused.
    is_refused: bool,
    /// The share that was decided.
    target: Option<u64>,
    overdue: Option<Overdue>,
}

/// Identifies a node among all that ever had its name.
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
    /// The last record.
    Usable,
    /// Not usable, and why.
    Unusable(String),
}

/// Since when something is waited for.
#[derive(Debug, Clone, Copy)]
struct Overdue {
    since: Instant,
    is_told: bool,
}

/// What is to be reported for a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// The member has not acknowledged that it has less.
    Unacked { held: u64 },
    /// It is not a pair, or no longer one.
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
            last: None,
            node: None,
            holding: None,
            is_by_hand: false,
            is_refused: false,
            target: None,
            overdue: None,
        }
    }

    fn record(&self) -> Option<&Record> {
        self.last.as_ref().filter(|_| matches!(self.content, Content::Usable))
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

    /// Begins to count what it holds: what a pair holds, and what less than a pair holds if a session owns it. The
    /// missing node may have been deleted by hand.
    fn begin(&mut self, has_session: bool) {
        if self.holding.is_none() {
            self.holding = match (self.record(), self.ack) {
                (Some(record), ack) if ack.is_some() || has_session => Some(Holding::read(record, ack)),
                (None, _) if has_session => Some(Holding::anything()),
                _ => None,
            };
        }
    }

    /// Forgets what was known: another member has the name now.
    fn begin_anew(&mut self) {
        (self.holding, self.target, self.overdue) = (None, None, None);
        (self.is_by_hand, self.is_refused) = (false, false);
    }

    fn acknowledged(&mut self, ack: Option<Decision>) {
        // Another node must be proven again.
        self.is_by_hand &= ack == self.ack;
        self.ack = ack;
        let before = self.held();
        if let (Some(holding), Some(ack)) = (&mut self.holding, ack) {
            holding.acknowledged(ack);
        }
        if self.held() < before {
            // It follows, but not yet to the end.
            self.overdue = None;
        }
        self.begin(false);
    }

    /// Returns what is overdue, if anything.
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
    /// Takes in a listing of the records. Returns whether a member joined or left.
    pub(super) fn list_members(&mut self, names: Vec<String>) -> bool {
        let mut names: BTreeSet<String> = names.into_iter().collect();
        let mut changed = false;
        self.known.retain(|name, known| {
            let is_listed = names.remove(name);
            if is_listed != known.is_listed {
                // A name that is listed again belongs to another node.
                (changed, known.content) = (true, Content::Unread);
            }
            known.is_listed = is_listed;
            is_listed || known.ack.is_some()
        });
        changed |= !names.is_empty();
        self.known.extend(names.into_iter().map(|name| (name, Known { is_listed: true, ..Known::new() })));
        changed
    }

    /// Takes in a listing of the acknowledgements. Returns whether a member joined or left.
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

    /// Returns the names of the nodes that must be read.
    pub(super) fn unread(&self) -> Vec<String> {
        let unread = self.known.iter().filter(|(_, known)| known.is_listed && matches!(known.content, Content::Unread));
        unread.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the acknowledgements without a usable record for which it is not known yet whether a session owns them.
    pub(super) fn strangers(&self) -> Vec<(String, Decision)> {
        let strangers = self.known.iter().filter(|(_, known)| {
            known.holding.is_none() && !known.is_by_hand && (!known.is_listed || known.record().is_none())
        });
        strangers.filter_map(|(name, known)| Some((name.clone(), known.ack?))).collect()
    }

    /// Takes in whether a session owns one of the [`strangers`](Self::strangers). If so, it was a member and may be
    /// applying anything.
    pub(super) fn prove(&mut self, name: &str, has_session: bool) {
        self.update(name, |known| {
            known.is_by_hand = !has_session;
            known.begin(has_session);
        });
    }

    /// Returns whether a node that was read before must be read again.
    pub(super) fn is_in_doubt(&self) -> bool {
        let was_read = |known: &Known| known.is_listed && known.holding.is_some();
        self.known.values().any(|known| was_read(known) && matches!(known.content, Content::Unread))
    }

    /// Takes in what a node holds and since when. Returns whether another member has the name now.
    pub(super) fn read(&mut self, name: &str, stat: &Stat, record: Result<Record, String>, since: Instant) -> bool {
        let node = Node { created: stat.czxid, version: stat.version };
        let mut is_another = false;
        self.update(name, |known| {
            known.content = match record {
                // The leader knows every version that it has written. The same bytes, written by hand, change nothing.
                Ok(record)
                    if known.node.is_some_and(|known| known.created == node.created && known != node)
                        && known.last.as_ref() != Some(&record) =>
                {
                    Content::Unusable("its record was changed by hand".into())
                }
                Ok(record) => {
                    let before = known.node.replace(node);
                    if before.is_none_or(|before| before.created != node.created) {
                        is_another = before.is_some();
                        known.begin_anew();
                    }
                    known.last = Some(record);
                    Content::Usable
                }
                Err(why) => Content::Unusable(why),
            };
            known.begin(stat.ephemeral_owner != 0);
            known.overdue.get_or_insert(Overdue { since, is_told: false });
        });
        is_another
    }

    /// Returns the next record of a member, and the version at which it may be written.
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
            (known.last, known.content) = (Some(record), Content::Usable);
            if std::mem::take(&mut known.is_refused) {
                known.overdue = None;
            }
        });
    }

    /// Notes that the node must be read again before it is written.
    pub(super) fn doubt(&mut self, name: &str) {
        self.update(name, |known| known.content = Content::Unread);
    }

    /// Notes that the node cannot be read until something changes.
    pub(super) fn ignore(&mut self, name: &str, why: String) {
        self.update(name, |known| known.content = Content::Unusable(why));
    }

    /// Notes that the node cannot be written until something changes.
    pub(super) fn refuse(&mut self, name: &str, why: String) {
        self.update(name, |known| (known.content, known.is_refused) = (Content::Unusable(why), true));
    }

    /// Has all ignored nodes read again: they may be usable by now.
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

    /// Returns what may be applied under names that are no longer members.
    pub(super) fn held_elsewhere(&self) -> Held {
        self.known.values().filter(|known| known.member().is_none()).map(Known::held).collect()
    }

    /// Returns the same, plus what slow members may be applying.
    pub(super) fn withheld(&self, now: Instant) -> Held {
        self.known.values().filter(|known| known.member().is_none() || known.is_slow(now)).map(Known::held).collect()
    }

    /// Returns the members as the allocation sees them.
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

    /// Returns the members as the plan sees them, with their names.
    pub(super) fn planned(&self) -> (Vec<String>, Vec<PlannedMember>) {
        let planned = self.members().map(|(name, known, record, holding)| {
            let planned = PlannedMember {
                throughput: record.throughput,
                held: holding.most(),
                // A member that joined after the last decision keeps what it has.
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

    /// Returns whether an acknowledgement is awaited that is likely to come soon.
    pub(super) fn awaits_soon(&self, now: Instant) -> bool {
        self.known.values().any(|known| known.is_awaited() && !known.is_slow(now))
    }

    /// Checks everything that is waited for. Returns what is to be reported, and of whom.
    pub(super) fn late(&mut self, now: Instant) -> Vec<(String, Late)> {
        let mut told = Vec::new();
        for (name, known) in &mut self.known {
            let Some(late) = known.late() else {
                // A record that could not be written stays overdue while it is read again.
                if !known.is_refused {
                    known.overdue = None;
                }
                continue;
            };
            let overdue = known.overdue.get_or_insert(Overdue { since: now, is_told: false });
            if !overdue.is_told && now >= overdue.since + PATIENCE {
                overdue.is_told = true;
                let shown = known.last.as_ref().map_or_else(|| name.clone(), |record| record.shown(name));
                told.push((shown, late));
            }
        }
        told
    }

    /// Returns when overdue and slow members have to be checked again.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let overdue = self.known.values().filter_map(|known| known.overdue);
        let times = overdue.flat_map(|Overdue { since, .. }| [since + SLOW, since + PATIENCE]);
        times.filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests;
