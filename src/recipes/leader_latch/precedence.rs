//! The priorities of an election: what a participant that waits does about them.
//!
//! The leader is always the first of the line, so a priority cannot put a participant in front of others: those that
//! have a higher number step back. Only the next in line compares, and whenever the line changes:
//!
//! * If one behind it has a lower number, it goes to the end of the line.
//! * If it has a lower number than the leader, it asks the leader to resign. It takes part itself, so it is alive.
//!
//! One that [gives way](crate::layout::rank::GivesWay) to another does not count as lower than that.
//!
//! This comes to an end: each lets only those with a lower number pass, so one that lets none pass stays next once it
//! is next, and then the same holds among the others.
//!
//! A participant becomes the next when one of the last two before it is gone and one remains. So one further back
//! watches these two, and lists the line when one is gone: if one participant leaves, two take notice. After a
//! reconnect it watches the same two, and lists nothing if both are there.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, select_all, try_join_all};

use super::requests::request;
use crate::client::core::Core;
use crate::client::session::Session;
use crate::contender::queue;
use crate::engine::{self, Multi, Watch};
use crate::layout::latch::{RESIGN_FOR_PRIORITY, asker_of, request_of};
use crate::layout::line::LATCH;
use crate::layout::rank::precedes;
use crate::util::backoff::{AFTER_REFUSAL, Backoff};
use crate::util::clock::Instant;
use crate::util::path::{join as join_path, split};
use crate::util::wait::forever;

/// Whether a participant that waits has to step back.
pub(super) struct Precedence {
    core: Arc<Core>,
    /// The path of the election, for the log.
    path: Arc<str>,
    /// The node with which it waits, and a future that resolves when it has to step back.
    waiting: Option<(Arc<str>, BoxFuture<'static, ()>)>,
}

impl Precedence {
    pub(super) fn new(core: &Arc<Core>, path: &Arc<str>) -> Self {
        Precedence { core: Arc::clone(core), path: Arc::clone(path), waiting: None }
    }

    /// Compares while the participant waits with this node, and no longer.
    pub(super) fn follow(&mut self, place: Option<(&Arc<Session>, &Arc<str>)>) {
        let Some((session, node)) = place else {
            self.waiting = None;
            return;
        };
        if self.waiting.as_ref().is_none_or(|(present, _)| present != node) {
            let waiter = Waiter::new(&self.core, session, &self.path, node);
            self.waiting = Some((Arc::clone(node), Box::pin(waiter.until_outranked())));
        }
    }

    /// Resolves when the participant has to go to the end of the line. If it is dropped, the next call resumes it.
    pub(super) async fn outranked(&mut self) {
        match &mut self.waiting {
            Some((_, outranked)) => outranked.await,
            None => return forever().await,
        }
        self.waiting = None;
    }
}

/// What a participant that waits has to do.
#[derive(Debug, PartialEq, Eq)]
enum Duty<'a> {
    /// It is not the next before one of these is gone, the last two before it.
    Wait([&'a str; 2]),
    /// It lets this one behind it pass, and goes to the end of the line.
    StepBack(&'a str),
    /// It asks the leader with this name to resign.
    Ask(&'a str),
    /// It is the next in its turn.
    Nothing,
    /// Another client has deleted its node. The contender takes notice of that.
    Gone,
}

impl<'a> Duty<'a> {
    /// Returns the duty of the participant `own` in a line.
    fn of(line: &'a [String], own: &str) -> Self {
        let Some(at) = line.iter().position(|name| name == own) else { return Duty::Gone };
        if let [.., before, last] = &line[..at] {
            return Duty::Wait([before, last]);
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
    position: Position,
    /// The connection on which it has looked last.
    seen_on: Option<u64>,
    refusals: Backoff,
}

/// What a participant knows of its place in the line.
enum Position {
    /// Nothing, or that it has changed.
    Unknown,
    /// It is not the next while the last two before it, with these nodes, are there.
    Back([String; 2]),
    /// It is the next, so it watches the line.
    Next,
}

/// What the next in line has seen of a request to the leader.
enum Asked {
    /// It has asked, or the line or the request has changed: that is to be looked at again.
    Again,
    /// The leader was asked before, or cannot be asked: its node of requests changes then.
    Pending(Watch),
}

impl Waiter {
    fn new(core: &Arc<Core>, session: &Arc<Session>, election: &Arc<str>, node: &Arc<str>) -> Self {
        Waiter {
            core: Arc::clone(core),
            session: Arc::clone(session),
            election: Arc::clone(election),
            node: Arc::clone(node),
            position: Position::Unknown,
            seen_on: None,
            refusals: Backoff::new(AFTER_REFUSAL),
        }
    }

    /// Waits until it has to step back. Never resolves once the session is over.
    async fn until_outranked(mut self) {
        loop {
            let began = self.core.clock.now();
            let Ok(connection) = self.session.connected().await else { return forever().await };
            if self.seen_on.replace(connection).is_some_and(|before| before != connection) {
                // After a reconnect, not all participants of a session look at once.
                self.session.spread_out(&self.core.random).await;
            }
            let looked = match &self.position {
                Position::Back(before) => self.until_one_is_gone(before, connection).await.map(|is_gone| {
                    if is_gone {
                        self.position = Position::Unknown;
                    }
                    ControlFlow::Continue(())
                }),
                Position::Unknown | Position::Next => self.compare(connection).await,
            };
            match looked {
                Ok(ControlFlow::Break(())) => return,
                Ok(ControlFlow::Continue(())) => {}
                // Another client deleted the directory, and our node: the contender takes notice of that.
                Err(engine::Error::NoNode) => return forever().await,
                Err(error) => {
                    if let Err(error) = self.session.wait_if_transient(error, connection).await {
                        let delay = self.refused(&error, began);
                        self.session.sleep(delay).await;
                    }
                }
            }
        }
    }

    /// Compares itself with the line. Breaks if it has to step back; otherwise waits until that may have changed, if it
    /// is the next.
    async fn compare(&mut self, connection: u64) -> Result<ControlFlow<()>, engine::Error> {
        let node = Arc::clone(&self.node);
        let (dir, name) = split(&node);
        let (children, changed) = self.list(dir).await?;
        let queue = queue(&self.session, dir, children, &[LATCH]).await?;
        match (Duty::of(queue.names(), name), changed) {
            (Duty::Gone, _) => return forever().await,
            (Duty::Wait(before), _) => self.position = Position::Back(before.map(|name| join_path(dir, name))),
            (Duty::StepBack(by), _) => {
                let path = &*self.election;
                tracing::info!(event = "outranked", path, node = &*node, by, "steps back for a lower number");
                return Ok(ControlFlow::Break(()));
            }
            // It is the next, and the line may have changed since: the next list sets a watch.
            (Duty::Ask(_) | Duty::Nothing, None) => self.position = Position::Next,
            (Duty::Ask(leader), Some(changed)) => self.ask(&join_path(dir, leader), changed, connection).await?,
            (Duty::Nothing, Some(changed)) => self.session.changed(changed, connection).await,
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Lists the line. Only the next watches it: otherwise each change would wake all that wait.
    async fn list(&self, dir: &str) -> Result<(Vec<String>, Option<Watch>), engine::Error> {
        if let Position::Next = self.position {
            let (children, _, watch) = self.session.watch_children(dir).await?;
            return Ok((children, Some(watch)));
        }
        Ok((self.session.list_children(dir).await?.0, None))
    }

    /// Watches these two nodes until one is gone, or may be. Returns false if the connection ended before.
    async fn until_one_is_gone(&self, before: &[String; 2], connection: u64) -> Result<bool, engine::Error> {
        let session = &self.session;
        let stats = session.together(|| before.each_ref().map(|node| session.watch_exists(node)));
        let stats = try_join_all(stats).await?;
        let Some(watches) = stats.into_iter().map(|(stat, watch)| stat.map(|_| watch)).collect::<Option<Vec<Watch>>>()
        else {
            return Ok(true);
        };
        Ok(tokio::select! {
            biased;
            // A change of their data costs a list, and no more.
            _ = select_all(watches) => true,
            () = session.disconnected(connection) => false,
        })
    }

    /// Asks the leader with this node to resign, and waits until the line may have changed, or whether it was asked.
    async fn ask(&mut self, leader: &str, changed: Watch, connection: u64) -> Result<(), engine::Error> {
        let began = self.core.clock.now();
        match self.try_ask(leader).await {
            Ok(Asked::Again) => {}
            Ok(Asked::Pending(inbox)) => tokio::select! {
                biased;
                _ = inbox => {}
                () = self.session.changed(changed, connection) => {}
            },
            Err(error) if error.is_transient() => return Err(error),
            // It cannot ask, but still lets others pass when the line changes.
            Err(error) => {
                let delay = self.refused(&error, began);
                tokio::select! {
                    biased;
                    () = self.session.changed(changed, connection) => {}
                    _ = self.session.sleep(delay) => {}
                }
            }
        }
        Ok(())
    }

    /// Asks the leader with this node to resign, unless it was asked before.
    async fn try_ask(&self, leader: &str) -> Result<Asked, engine::Error> {
        let inbox = request_of(leader);
        let version = match self.session.watch_data(&inbox).await {
            Ok((data, _, watch)) if asker_of(&data).is_some() => return Ok(Asked::Pending(watch)),
            Ok((_, stat, _)) => stat.version,
            Err(engine::Error::NoNode) => {
                let (stat, watch) = self.session.watch_exists(&inbox).await?;
                return Ok(if stat.is_none() { Asked::Pending(watch) } else { Asked::Again });
            }
            Err(error) => return Err(error),
        };
        match self.session.multi(request(leader, RESIGN_FOR_PRIORITY, Some(version)).into()).await? {
            Multi::Committed(_) => {
                let (path, node) = (&*self.election, &*self.node);
                tracing::info!(event = "asked_leader", path, node, leader, "asks the leader to resign");
                Ok(Asked::Again)
            }
            // The leader has left, or another client was faster.
            Multi::Refused { error: engine::Error::NoNode | engine::Error::BadVersion, .. } => Ok(Asked::Again),
            Multi::Refused { error, .. } => Err(error),
        }
    }

    /// Logs a request that was refused. Returns when to try again.
    fn refused(&mut self, error: &engine::Error, began: Instant) -> Duration {
        let (path, node) = (&*self.election, &*self.node);
        let delay = self.core.next_delay(&mut self.refusals, began);
        tracing::warn!(
            event = "cannot_use_priority",
            path,
            node,
            ?error,
            "the next in line cannot act on its priority"
        );
        delay
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
    fn the_next_in_line_lets_a_better_one_pass_and_asks_a_worse_leader() {
        let (one, five, nine) = ("priority-0000000001-", "priority-0000000005-", "priority-0000000009-");
        let (one_gives_way, five_gives_way) = ("gives-way-0000000001-", "gives-way-0000000005-");
        let (one_to_leader, one_to_lost) =
            ("gives-way-0000000001-to-0000000000-", "gives-way-0000000001-to-0000000007-");
        for (ranks, at, expected) in [
            (&[five, five, one][..], 1, "StepBack 2"),
            (&[five, five, five, one], 1, "StepBack 3"),
            (&["", five, one], 1, "StepBack 2"),
            // It has become the first, and has not led yet.
            (&[five, one], 0, "StepBack 1"),
            (&[nine, five_gives_way, one], 1, "StepBack 2"),
            (&[nine, one_gives_way, five], 1, "Nothing"),
            (&[nine, five, nine], 1, "Ask 0"),
            (&[five_gives_way, one], 1, "Ask 0"),
            (&[nine, five, one_gives_way], 1, "Ask 0"),
            (&[nine, five_gives_way, one_gives_way], 1, "Nothing"),
            (&[nine, one_to_leader, five], 1, "Nothing"),
            (&[nine, one_to_lost, five], 1, "Ask 0"),
            (&[nine, five, one_to_leader], 1, "StepBack 2"),
            (&["", five], 1, "Nothing"),
            (&[five, five, five], 1, "Nothing"),
            (&[one, five, nine], 1, "Nothing"),
            (&[nine, nine, five], 2, "Wait 0 1"),
            (&["", nine, "", five, one], 3, "Wait 1 2"),
        ] {
            let line = line(ranks);
            let number = |name: &str| name[name.len() - 1..].to_owned();
            let found = match Duty::of(&line, &line[at]) {
                Duty::Wait([before, last]) => format!("Wait {} {}", number(before), number(last)),
                Duty::StepBack(other) => format!("StepBack {}", number(other)),
                Duty::Ask(leader) => format!("Ask {}", number(leader)),
                Duty::Nothing => "Nothing".to_owned(),
                Duty::Gone => "Gone".to_owned(),
            };
            assert_eq!(found, expected, "{ranks:?}");
        }
        assert_eq!(Duty::of(&line(&[five, one]), "gone"), Duty::Gone);
    }
}
