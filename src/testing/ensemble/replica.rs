//! One server: what it has applied, and what it has heard.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::link::{Forward, Step};
use super::tree::Tree;
use super::watching::Watches;
use super::{Millis, Zxid};

/// A server that is cut off from the leader.
#[derive(Debug)]
pub(crate) struct CutOff {
    /// The sessions that it knows, if it was the leader and believes that it still is.
    pub(crate) deposed: Option<BTreeSet<i64>>,
    /// Whether it has noticed, and therefore serves no clients.
    pub(crate) looking: bool,
    pub(crate) held: Vec<Forward>,
}

#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) tree: Tree,
    pub(crate) applied: Zxid,
    pub(crate) watches: Watches,
    /// Sessions heard from since the last report to the leader, with the timeouts of their connections.
    pub(crate) touched: BTreeMap<i64, Millis>,
    /// The leader's messages that are not applied yet, each with its arrival time.
    pub(crate) inbox: VecDeque<(Millis, Step)>,
    pub(crate) last_in: Millis,
    pub(crate) last_out: Millis,
    pub(crate) cut_off: Option<CutOff>,
    /// The sessions that it has opened as a read-only server.
    pub(crate) local_sessions: BTreeSet<i64>,
    /// How often it was cut off.
    pub(crate) cuts: u32,
}

impl Replica {
    pub(crate) fn new() -> Self {
        Replica {
            tree: Tree::new(),
            applied: 0,
            watches: Watches::default(),
            touched: BTreeMap::new(),
            inbox: VecDeque::new(),
            last_in: 0,
            last_out: 0,
            cut_off: None,
            local_sessions: BTreeSet::new(),
            cuts: 0,
        }
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.cut_off.as_ref().is_none_or(|cut_off| !cut_off.looking)
    }

    /// Makes everything that it missed while it was cut off arrive now.
    pub(crate) fn catch_up(&mut self, now: Millis) {
        for (at, _) in &mut self.inbox {
            *at = now;
        }
        self.last_in = self.last_in.min(now);
    }

    pub(crate) fn take_held(&mut self) -> Vec<Forward> {
        self.cut_off.take().map(|cut_off| cut_off.held).unwrap_or_default()
    }
}
