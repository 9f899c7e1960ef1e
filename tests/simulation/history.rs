//! Every version that a node ever had, and the call that wrote it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zookeeper_recipes::testing::TestingServer;

use crate::seeds::Outcome;
use crate::world::World;

/// A call on the node. No two calls of a seed write the same, so a version shows which call wrote it.
pub(crate) trait Call: Debug + Clone + Send + 'static {
    /// Returns whether the call turns `before` into `after`. A new node has no `before`.
    fn makes(&self, before: Option<&[u8]>, after: &[u8]) -> bool;

    /// Returns whether the call is allowed to do so.
    fn may(&self, before: Option<&[u8]>, after: &[u8]) -> bool;

    /// Returns whether the call may be carried out more than once.
    fn may_repeat(&self) -> bool {
        false
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// There was nothing to write, or an error other than `OutcomeUnknown`.
    NotDone,
    /// `OutcomeUnknown`, or the call was dropped.
    Unknown,
}

/// The data before and after a call.
pub(crate) type Made = (Option<Vec<u8>>, Vec<u8>);

struct Inner<C> {
    path: &'static str,
    server: Option<TestingServer>,
    /// The czxid and the data of the node; `None` while there is none.
    last: Option<(i64, Vec<u8>)>,
    calls: BTreeMap<usize, C>,
    made: BTreeMap<usize, Vec<Made>>,
    /// The data of each transaction.
    contents: BTreeMap<i64, Vec<u8>>,
    /// Data that was written by hand, and not seen yet.
    by_hand: Vec<Vec<u8>>,
    /// The call that made the last change, and how often the next change was another call's.
    maker: Option<usize>,
    hand_overs: u64,
    violation: Option<String>,
}

/// The history of one node. Clones share it.
pub(crate) struct History<C>(Arc<Mutex<Inner<C>>>);

impl<C> Clone for History<C> {
    fn clone(&self) -> Self {
        History(Arc::clone(&self.0))
    }
}

impl<C: Call> History<C> {
    pub(crate) fn new(path: &'static str) -> Self {
        History(Arc::new(Mutex::new(Inner {
            path,
            server: None,
            last: None,
            calls: BTreeMap::new(),
            made: BTreeMap::new(),
            contents: BTreeMap::new(),
            by_hand: Vec::new(),
            maker: None,
            hand_overs: 0,
            violation: None,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self, server: &TestingServer) {
        let mut inner = self.inner();
        server.keep_versions(inner.path);
        inner.server = Some(server.clone());
    }

    /// Returns the outcome of the seed.
    pub(crate) fn outcome(&self, mut world: World, played: Result<(), String>) -> Outcome {
        let mut inner = self.inner();
        // The server's check after each step refers to this history.
        inner.server = None;
        world.figures.hand_overs = inner.hand_overs;
        world.trace.note_records(&world.server);
        let violation = inner.violation.take().or(played.err());
        Outcome { figures: world.figures, violation, trace: world.trace.lines() }
    }

    pub(crate) fn violation(&self) -> Option<String> {
        self.inner().violation.clone()
    }

    /// Returns whether the transaction wrote this data.
    pub(crate) fn had(&self, mzxid: i64, data: &[u8]) -> bool {
        self.look();
        self.inner().contents.get(&mzxid).is_some_and(|had| had == data)
    }

    /// Announces a call.
    pub(crate) fn begins(&self, id: usize, call: C) {
        self.inner().calls.insert(id, call);
    }

    /// Announces a write by hand.
    pub(crate) fn by_hand(&self, data: impl Into<Vec<u8>>) {
        self.inner().by_hand.push(data.into());
    }

    /// Returns the last change that a call has made so far.
    pub(crate) fn made(&self, id: usize) -> Option<Made> {
        self.look();
        self.inner().made.get(&id).and_then(|made| made.last().cloned())
    }

    /// Checks the new versions, after each step.
    pub(crate) fn look(&self) {
        let mut inner = self.inner();
        let Some(server) = inner.server.clone() else { return };
        for version in server.take_versions() {
            let Some((data, stat)) = version else {
                inner.last = None;
                continue;
            };
            inner.contents.insert(stat.mzxid, data.clone());
            let last = inner.last.replace((stat.czxid, data.clone()));
            let before = last.filter(|(czxid, _)| *czxid == stat.czxid).map(|(_, data)| data);
            inner.changed(before, data);
        }
    }

    /// Compares how a call ended with what it has written. Also called at the end of the seed, as a call that was not
    /// done must not be carried out later.
    pub(crate) fn ended(&self, id: usize, end: End) {
        self.look();
        let mut inner = self.inner();
        let made = inner.made.get(&id).map_or(0, Vec::len);
        let is_right = match end {
            End::Done => made == 1,
            End::NotDone => made == 0,
            End::Unknown => made <= 1,
        };
        if !is_right {
            let call = inner.calls.get(&id).cloned();
            inner.object(format!("call {id}, {call:?}, ended with {end:?}, but was carried out {made} times"));
        }
    }
}

impl<C: Call> Inner<C> {
    fn object(&mut self, violation: String) {
        self.violation.get_or_insert(violation);
    }

    /// Finds the call that made a change.
    fn changed(&mut self, before: Option<Vec<u8>>, after: Vec<u8>) {
        if let Some(at) = self.by_hand.iter().position(|data| *data == after) {
            self.by_hand.remove(at);
            return;
        }
        let makes = |(_, call): &(&usize, &C)| call.makes(before.as_deref(), &after);
        let Some((id, call)) = self.calls.iter().find(makes).map(|(id, call)| (*id, call.clone())) else {
            // A node may be created empty.
            if !after.is_empty() || before.is_some() {
                self.object(format!("no call turned {before:?} into {after:?}"));
            }
            return;
        };
        let (may, may_repeat) = (call.may(before.as_deref(), &after), call.may_repeat());
        let made = self.made.entry(id).or_default();
        made.push((before.clone(), after.clone()));
        let times = made.len();
        if (times > 1 && !may_repeat) || !may {
            self.object(format!(
                "call {id}, {call:?}, turned {before:?} into {after:?}, and was carried out {times} times"
            ));
        }
        self.hand_overs += u64::from(self.maker.is_some_and(|maker| maker != id));
        self.maker = Some(id);
    }
}
