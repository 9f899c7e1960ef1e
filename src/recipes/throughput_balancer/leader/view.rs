//! What the leader knows of the members.
//!
//! A member is a pair of nodes: a readable record, and an acknowledgement. The leader ignores everything else. But a
//! node that a session owns keeps what it held until both nodes of its pair are deleted, as the end of the session
//! deletes both. The leader does not repair nodes that were changed by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::holding::{Held, Holding};
use super::plan::{Change, PlannedMember};
use super::writer::Write;
use crate::layout::throughput_balancer::Decision;
use crate::throughput_balancer::allocation;
use crate::throughput_balancer::events::Event;
use crate::throughput_balancer::record::Record;
use crate::util::znode::Stat;

/// A member that has not followed for this long counts with what it holds: the others divide the rest.
const SLOW: Duration = Duration::from_millis(500);
/// How long a member may take to follow, or a node to become a pair, before an event reports it.
const PATIENCE: Duration = Duration::from_secs(5);

/// All nodes, by the names of the members.
#[derive(Debug, Default)]
pub(super) struct View {
    states: BTreeMap<String, MemberState>,
}

/// What is known under one name.
#[derive(Debug, Default)]
struct MemberState {
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

/// What a member's node contains.
#[derive(Debug, Default)]
enum Content {
    /// It must be read.
    #[default]
    Unread,
    /// The last record.
    Usable,
    /// Not usable, and why.
    Unusable(String),
}

/// Since when the leader has been waiting for something.
#[derive(Debug, Clone, Copy)]
struct Overdue {
    since: Instant,
    is_reported: bool,
}

/// A member that gets a share in a division.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) member: allocation::Member,
    pub(super) held: u64,
    /// It has not followed for a while.
    pub(super) is_slow: bool,
}

impl MemberState {
    fn record(&self) -> Option<&Record> {
        self.last.as_ref().filter(|_| matches!(self.content, Content::Usable))
    }

    /// Returns the record and what is held, if this is a member.
    fn member(&self) -> Option<(&Record, &Holding)> {
        let is_pair = self.is_listed && self.ack.is_some();
        self.record().zip(self.holding.as_ref()).filter(|_| is_pair)
    }

    fn held(&self) -> u64 {
        self.holding.as_ref().map_or(0, Holding::most)
    }

    /// Returns whether an acknowledgement is awaited.
    fn is_awaited(&self) -> bool {
        self.member().is_some_and(|(record, holding)| holding.is_above(record.throughput))
    }

    fn is_slow(&self, now: Instant) -> bool {
        self.is_awaited() && self.overdue.is_some_and(|overdue| now >= overdue.since + SLOW)
    }

    /// Starts to count what is held: by a pair, and by one node of a pair if a session owns it. The other node may have
    /// been deleted by hand.
    fn count_held(&mut self, has_session: bool) {
        if self.holding.is_none() {
            self.holding = match (self.record(), self.ack) {
                (Some(record), ack) if ack.is_some() || has_session => Some(Holding::read(record, ack)),
                (None, _) if has_session => Some(Holding::unknown()),
                _ => None,
            };
        }
    }

    /// Forgets the previous member, because another one has the name now.
    fn forget_member(&mut self) {
        (self.holding, self.target, self.overdue) = (None, None, None);
        (self.is_by_hand, self.is_refused) = (false, false);
    }

    fn set_ack(&mut self, ack: Option<Decision>) {
        // The owner of another node is not known yet.
        self.is_by_hand &= ack == self.ack;
        self.ack = ack;
        let before = self.held();
        if let (Some(holding), Some(ack)) = (&mut self.holding, ack) {
            holding.acknowledged(ack);
        }
        if self.held() < before {
            // The member has followed in part, so its time starts again.
            self.overdue = None;
        }
        self.count_held(false);
    }

    /// Returns the event to report if this name stays as it is for too long.
    fn complaint(&self, name: &str) -> Option<Event> {
        let (held, is_member) = (self.held(), self.member().is_some());
        if is_member && !self.is_awaited() {
            return None;
        }
        let member = self.last.as_ref().map_or_else(|| name.to_owned(), |record| record.display_name(name));
        if is_member {
            return Some(Event::Unacked { member, held });
        }
        let why = match &self.content {
            Content::Unusable(why) => why.as_str(),
            _ if !self.is_listed => "its record is gone, its acknowledgement is not",
            _ => "it has no acknowledgement",
        };
        Some(Event::MemberIgnored { member, held, why: why.to_owned() })
    }
}

impl View {
    /// Records a listing of the records. Returns whether a member joined or left.
    pub(super) fn list_members(&mut self, names: Vec<String>) -> bool {
        let mut names: BTreeSet<String> = names.into_iter().collect();
        let mut changed = false;
        self.states.retain(|name, state| {
            let is_listed = names.remove(name);
            if is_listed != state.is_listed {
                // A name that is listed again belongs to another node.
                (changed, state.content) = (true, Content::Unread);
            }
            state.is_listed = is_listed;
            is_listed || state.ack.is_some()
        });
        changed |= !names.is_empty();
        let listed = |name| (name, MemberState { is_listed: true, ..MemberState::default() });
        self.states.extend(names.into_iter().map(listed));
        changed
    }

    /// Records a listing of the acknowledgements. Returns whether a member joined or left.
    pub(super) fn list_acks(&mut self, mut acks: BTreeMap<String, Decision>) -> bool {
        let mut changed = false;
        self.states.retain(|name, state| {
            let ack = acks.remove(name);
            changed |= ack.is_some() != state.ack.is_some();
            state.set_ack(ack);
            state.is_listed || ack.is_some()
        });
        changed |= !acks.is_empty();
        let acked = |(name, ack)| (name, MemberState { ack: Some(ack), ..MemberState::default() });
        self.states.extend(acks.into_iter().map(acked));
        changed
    }

    /// Returns the names of the nodes that must be read.
    pub(super) fn unread(&self) -> Vec<String> {
        let unread =
            self.states.iter().filter(|(_, state)| state.is_listed && matches!(state.content, Content::Unread));
        unread.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the acknowledgements without a usable record of which it is not known yet whether a session owns them.
    pub(super) fn unverified_acks(&self) -> Vec<(String, Decision)> {
        let unverified = self.states.iter().filter(|(_, state)| {
            state.holding.is_none() && !state.is_by_hand && (!state.is_listed || state.record().is_none())
        });
        unverified.filter_map(|(name, state)| Some((name.clone(), state.ack?))).collect()
    }

    /// Records whether a session owns one of the [`unverified_acks`](Self::unverified_acks). If so, there was a member,
    /// which may be applying anything.
    pub(super) fn set_ack_owned(&mut self, name: &str, has_session: bool) {
        self.update(name, |state| {
            state.is_by_hand = !has_session;
            state.count_held(has_session);
        });
    }

    /// Returns whether a node that was read before must be read again.
    pub(super) fn must_reread(&self) -> bool {
        let was_read = |state: &MemberState| state.is_listed && state.holding.is_some();
        self.states.values().any(|state| was_read(state) && matches!(state.content, Content::Unread))
    }

    /// Records what a node contains, and since when it has been waiting. Returns whether another member has the name
    /// now.
    pub(super) fn read(&mut self, name: &str, stat: &Stat, record: Result<Record, String>, since: Instant) -> bool {
        let node = Node { created: stat.czxid, version: stat.version };
        let mut is_another = false;
        self.update(name, |state| {
            state.content = match record {
                // The leader knows every version that it has written. The same bytes, written by hand, change nothing.
                Ok(record)
                    if state.node.is_some_and(|known| known.created == node.created && known != node)
                        && state.last.as_ref() != Some(&record) =>
                {
                    Content::Unusable("its record was changed by hand".into())
                }
                Ok(record) => {
                    let before = state.node.replace(node);
                    if before.is_none_or(|before| before.created != node.created) {
                        is_another = before.is_some();
                        state.forget_member();
                    }
                    state.last = Some(record);
                    Content::Usable
                }
                Err(why) => Content::Unusable(why),
            };
            state.count_held(stat.ephemeral_owner != 0);
            state.overdue.get_or_insert(Overdue { since, is_reported: false });
        });
        is_another
    }

    /// Returns the next record of a member, with the version at which it may be written.
    pub(super) fn next_write(&self, name: &str, change: &Change, decision: Decision) -> Option<Write> {
        let state = self.states.get(name)?;
        let (record, _) = state.member()?;
        let record = record.next(change.throughput, change.ceiling, decision);
        Some(Write { name: name.to_owned(), record, version: state.node?.version })
    }

    /// Records that a record was written.
    pub(super) fn set_written(&mut self, name: &str, record: Record, version: i32) {
        self.update(name, |state| {
            if let Some(holding) = &mut state.holding {
                holding.add(&record);
            }
            state.node = state.node.map(|node| Node { version, ..node });
            (state.last, state.content) = (Some(record), Content::Usable);
            if std::mem::take(&mut state.is_refused) {
                state.overdue = None;
            }
        });
    }

    /// Records that the node must be read again before it is written.
    pub(super) fn mark_unread(&mut self, name: &str) {
        self.update(name, |state| state.content = Content::Unread);
    }

    /// Records that the node cannot be read until something changes.
    pub(super) fn mark_unusable(&mut self, name: &str, why: String) {
        self.update(name, |state| state.content = Content::Unusable(why));
    }

    /// Records that the node cannot be written until something changes.
    pub(super) fn mark_refused(&mut self, name: &str, why: String) {
        self.update(name, |state| (state.content, state.is_refused) = (Content::Unusable(why), true));
    }

    /// Marks all ignored nodes as unread, because they may be usable by now.
    pub(super) fn reread_unusable(&mut self) {
        for state in self.states.values_mut() {
            if matches!(state.content, Content::Unusable(_)) {
                state.content = Content::Unread;
            }
        }
    }

    fn update(&mut self, name: &str, change: impl FnOnce(&mut MemberState)) {
        self.states.get_mut(name).map(change);
    }

    fn members(&self) -> impl Iterator<Item = (&String, &MemberState, &Record, &Holding)> {
        self.states.iter().filter_map(|(name, state)| {
            let (record, holding) = state.member()?;
            Some((name, state, record, holding))
        })
    }

    /// Returns what may be applied under names that are no longer members.
    pub(super) fn held_elsewhere(&self) -> Held {
        self.states.values().filter(|state| state.member().is_none()).map(MemberState::held).collect()
    }

    /// Returns what may be applied under names that are no longer members, and by slow members.
    pub(super) fn withheld(&self, now: Instant) -> Held {
        let withheld = self.states.values().filter(|state| state.member().is_none() || state.is_slow(now));
        withheld.map(MemberState::held).collect()
    }

    /// Returns the members as the allocation sees them.
    pub(super) fn candidates(&self, now: Instant) -> Vec<Candidate> {
        let candidate = |(name, state, record, holding): (&String, &MemberState, &Record, &Holding)| {
            let member = allocation::Member::new(name).weight(record.weight).min(record.min);
            let member = record.max.into_iter().fold(member, allocation::Member::max);
            Candidate { member, held: holding.most(), is_slow: state.is_slow(now) }
        };
        self.members().map(candidate).collect()
    }

    /// Sets the shares that were decided for the [`candidates`](Self::candidates).
    pub(super) fn set_targets(&mut self, shares: &[u64]) {
        let members = self.states.values_mut().filter(|state| state.member().is_some());
        for (state, share) in members.zip(shares) {
            state.target = Some(*share);
        }
    }

    /// Returns the members as the plan sees them, with their names.
    pub(super) fn planned(&self) -> (Vec<String>, Vec<PlannedMember>) {
        let planned = self.members().map(|(name, state, record, holding)| {
            let planned = PlannedMember {
                throughput: record.throughput,
                held: holding.most(),
                // A member that joined after the last decision keeps what it has.
                target: state.target.unwrap_or(record.throughput),
                is_new: record.epoch == 0 && state.target.is_some(),
            };
            (name.clone(), planned)
        });
        planned.unzip()
    }

    /// Returns whether an acknowledgement is awaited.
    pub(super) fn awaits(&self) -> bool {
        self.states.values().any(MemberState::is_awaited)
    }

    /// Returns whether an acknowledgement is awaited that is likely to come soon.
    pub(super) fn awaits_soon(&self, now: Instant) -> bool {
        self.states.values().any(|state| state.is_awaited() && !state.is_slow(now))
    }

    /// Checks everything that the leader waits for. Returns the events to report now.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        for (name, state) in &mut self.states {
            let Some(complaint) = state.complaint(name) else {
                // A record that could not be written stays overdue while it is read again.
                if !state.is_refused {
                    state.overdue = None;
                }
                continue;
            };
            let overdue = state.overdue.get_or_insert(Overdue { since: now, is_reported: false });
            if !overdue.is_reported && now >= overdue.since + PATIENCE {
                overdue.is_reported = true;
                events.push(complaint);
            }
        }
        events
    }

    /// Returns when overdue and slow members have to be checked again.
    pub(super) fn next_check(&self, now: Instant) -> Option<Instant> {
        let overdue = self.states.values().filter_map(|state| state.overdue);
        let times = overdue.flat_map(|Overdue { since, .. }| [since + SLOW, since + PATIENCE]);
        times.filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests;
