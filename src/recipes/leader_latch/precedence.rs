//! The priorities of an election: what the participant that is next in the line does about them.
//!
//! The leader is always the first of the line, so a priority cannot put a participant in front of others: those that
//! have a higher number step back. Only the next in line compares, and whenever the line changes:
//!
//! * If one behind it precedes it, it goes to the end of the line. So in the end the next in line is the best.
//! * If it precedes the leader, it asks the leader to resign. It takes part itself, so it is alive.
//!
//! This comes to an end: a participant steps back only for a node that it is behind from then on.
//!
//! A participant is next as soon as one of the last two before it is gone and one remains. So one further back watches
//! these two: the contender the last one, and this the one before that. If one participant leaves, two take notice.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::requests::request;
use crate::client::core::Core;
use crate::client::session::Session;
use crate::contender::queue;
use crate::engine::{self, Multi, Watch};
use crate::layout::latch::{RESIGN_FOR_PRIORITY, request_of};
use crate::layout::line::LATCH;
use crate::layout::rank::precedes;
use crate::util::backoff::{AFTER_REFUSAL, Backoff};
use crate::util::path::{join, split};
use crate::util::wait::{fired, forever};

/// Whether the next in line has to step back.
pub(super) struct Precedence {
    core: Arc<Core>,
    /// The path of the election, for the log.
    path: Arc<str>,
    waiting: Option<Waiting>,
}

/// A participant that waits in the line.
struct Waiting {
    node: Arc<str>,
    /// The contender knows that it is next. Otherwise it may have become next unnoticed.
    is_next: bool,
    outranked: BoxFuture<'static, ()>,
}

impl Precedence {
    pub(super) fn new(core: &Arc<Core>, path: &Arc<str>) -> Self {
        Precedence { core: Arc::clone(core), path: Arc::clone(path), waiting: None }
    }

    /// Compares while the participant waits with this node, and no longer.
    pub(super) fn follow(&mut self, place: Option<(&Arc<Session>, &Arc<str>)>, is_next: bool) {
        let Some((session, node)) = place else {
            self.waiting = None;
            return;
        };
        let is_same = |waiting: &Waiting| waiting.node == *node && waiting.is_next == is_next;
        if !self.waiting.as_ref().is_some_and(is_same) {
            let waiter = Waiter::new(&self.core, session, &self.path, node, is_next);
            self.waiting = Some(Waiting { node: Arc::clone(node), is_next, outranked: Box::pin(waiter.outranked()) });
        }
    }

    /// Resolves when the participant has to go to the end of the line. If it is dropped, the next call resumes it.
    pub(super) async fn outranked(&mut self) {
        match &mut self.waiting {
            Some(waiting) => (&mut waiting.outranked).await,
            None => return forever().await,
        }
        self.waiting = None;
    }
}

/// What a participant that waits has to do.
#[derive(Debug, PartialEq, Eq)]
enum Duty<'a> {
    /// It is not next before this one is gone, or the last one before it.
    Wait(&'a str),
    /// This one behind it precedes it: it goes to the end of the line.
    StepBack(&'a str),
    /// It precedes the leader with this name, and asks it to resign.
    Ask(&'a str),
    /// It is next in its turn.
    Nothing,
}

impl<'a> Duty<'a> {
    /// Returns the duty of the participant `own` in a line.
    fn of(line: &'a [String], own: &str) -> Self {
        let Some(at) = line.iter().position(|name| name == own) else { return Duty::Nothing };
        if let [.., before, _] = &line[..at] {
            return Duty::Wait(before);
        }
        if let Some(other) = line[at + 1..].iter().find(|other| precedes(other, own)) {
            return Duty::StepBack(other);
        }
        match &line[..at] {
            [leader] if precedes(own, leader) => Duty::Ask(leader),
            _ => Duty::Nothing,
        }
    }
}

/// A participant that waits.
struct Waiter {
    core: Arc<Core>,
    session: Arc<Session>,
    /// The path of the election, for the log.
    election: Arc<str>,
    node: Arc<str>,
    is_next: bool,
    refusals: Backoff,
}

impl Waiter {
    fn new(core: &Arc<Core>, session: &Arc<Session>, election: &Arc<str>, node: &Arc<str>, is_next: bool) -> Self {
        Waiter {
            core: Arc::clone(core),
            session: Arc::clone(session),
            election: Arc::clone(election),
            node: Arc::clone(node),
            is_next,
            refusals: Backoff::new(AFTER_REFUSAL),
        }
    }

    /// Waits until it has to step back. Never resolves once the session is over.
    async fn outranked(mut self) {
        loop {
            let began = self.core.clock.now();
            let Ok(connection) = self.session.connected().await else { return forever().await };
            match self.compare(connection).await {
                Ok(true) => return,
                Ok(false) => {}
                // Another client deleted the directory, and our node: the contender takes notice of that.
                Err(engine::Error::NoNode) => return forever().await,
                Err(error) => {
                    if let Err(error) = self.session.wait_if_transient(error, connection).await {
                        let delay = self.core.next_delay(&mut self.refusals, began);
                        let (path, node) = (&*self.election, &*self.node);
                        tracing::warn!(
                            event = "cannot_use_priority",
                            path,
                            node,
                            ?error,
                            "the next in line cannot act on its priority"
                        );
                        self.session.sleep(delay).await;
                    }
                }
            }
        }
    }

    /// Compares itself with the line, and waits until that may have changed. Returns whether it has to step back.
    async fn compare(&mut self, connection: u64) -> Result<bool, engine::Error> {
        let (dir, name) = split(&self.node);
        let (children, changed) = self.list(dir).await?;
        let queue = queue(&self.session, dir, children, &[LATCH]).await?;
        let (path, node) = (&*self.election, &*self.node);
        let sleep = match (Duty::of(queue.names(), name), changed) {
            (Duty::StepBack(by), _) => {
                tracing::info!(event = "outranked", path, node, by, "one with a lower priority is to lead first");
                return Ok(true);
            }
            (Duty::Wait(before), _) => {
                let (stat, gone) = self.session.watch_exists(&join(dir, before)).await?;
                // It is watched for its end: a change of its data only costs a list.
                stat.map(|_| [Some(gone), None])
            }
            // It has become next without notice, and needs the watch of the line.
            (_, None) => {
                self.is_next = true;
                None
            }
            (Duty::Ask(leader), changed) => self.ask(&join(dir, leader)).await?.map(|inbox| [changed, inbox]),
            (Duty::Nothing, changed) => Some([changed, None]),
        };
        if let Some([mut first, mut second]) = sleep {
            tokio::select! {
                biased;
                _ = fired(&mut first) => {}
                _ = fired(&mut second) => {}
                () = self.session.disconnected(connection) => {}
            }
        }
        Ok(false)
    }

    /// Lists the line. The next in line watches it.
    async fn list(&self, dir: &str) -> Result<(Vec<String>, Option<Watch>), engine::Error> {
        if self.is_next {
            let (children, _, watch) = self.session.watch_children(dir).await?;
            return Ok((children, Some(watch)));
        }
        Ok((self.session.list_children(dir).await?.0, None))
    }

    /// Asks the leader with this node to resign, if it can be asked and was not asked before; otherwise returns a watch
    /// that fires when that has changed. Returns `None` if the line is to be listed again.
    async fn ask(&self, leader: &str) -> Result<Option<Option<Watch>>, engine::Error> {
        let (inbox, watch) = self.session.watch_exists(&request_of(leader)).await?;
        let Some(inbox) = inbox.filter(|stat| stat.data_length == 0) else { return Ok(Some(Some(watch))) };
        let steps = request(leader, RESIGN_FOR_PRIORITY, Some(inbox.version));
        match self.session.multi(steps.into()).await? {
            Multi::Committed(_) => {
                let (path, node) = (&*self.election, &*self.node);
                tracing::info!(
                    event = "asked_leader",
                    path,
                    node,
                    leader,
                    "the leader has a higher number as priority"
                );
                Ok(Some(None))
            }
            // The leader has left, or another client was faster.
            Multi::Refused { error: engine::Error::NoNode | engine::Error::BadVersion, .. } => Ok(None),
            Multi::Refused { error, .. } => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ranks: &[&str]) -> Vec<String> {
        let name = |(at, rank): (usize, &&str)| format!("_c_u-{rank}latch-{at:010}");
        ranks.iter().enumerate().map(name).collect()
    }

    #[test]
    fn the_next_in_line_steps_back_for_a_better_one_and_asks_a_worse_leader() {
        let (low, five, nine) = ("priority-0000000001-", "priority-0000000005-", "priority-0000000009-");
        let (low_yields, five_yields) = ("gives-way-0000000001-", "gives-way-0000000005-");
        for (ranks, at, duty) in [
            (&[five, five, low][..], 1, "StepBack(2)"),
            (&[five, five, five, low], 1, "StepBack(3)"),
            (&["", five, low], 1, "StepBack(2)"),
            // It has become the first, and has not led yet.
            (&[five, low], 0, "StepBack(1)"),
            (&[nine, five_yields, low], 1, "StepBack(2)"),
            (&[nine, five, nine], 1, "Ask(0)"),
            (&[five_yields, low], 1, "Ask(0)"),
            (&[nine, five, low_yields], 1, "Ask(0)"),
            (&[nine, five_yields], 1, "Nothing"),
            (&["", five], 1, "Nothing"),
            (&[five, five], 1, "Nothing"),
            (&[low, five], 1, "Nothing"),
            (&[nine, nine, five], 2, "Wait(0)"),
            (&["", nine, "", five, low], 3, "Wait(1)"),
        ] {
            let line = line(ranks);
            let found = match Duty::of(&line, &line[at]) {
                Duty::StepBack(other) => format!("StepBack({})", &other[other.len() - 1..]),
                Duty::Wait(other) => format!("Wait({})", &other[other.len() - 1..]),
                Duty::Ask(leader) => format!("Ask({})", &leader[leader.len() - 1..]),
                Duty::Nothing => "Nothing".to_owned(),
            };
            assert_eq!(found, duty, "{ranks:?}");
        }
        assert_eq!(Duty::of(&line(&[five, low]), "gone"), Duty::Nothing);
    }
}
