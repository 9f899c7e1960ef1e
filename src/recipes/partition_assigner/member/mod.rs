//! The task of a member. In each session it registers, follows its assignment, takes and hands over partitions.

mod claims;
mod following;
pub(super) mod registration;
mod transact;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use self::following::{End, Following};
use self::registration::{Failed, Registrar};
use super::changes::Channel;
use super::error::Error;
use super::events::{Event, Publisher};
use crate::client;
use crate::client::core::KeepAlive;
use crate::client::session::{Condition, Session};
use crate::layout::partition_assigner::Presence;
use crate::util::backoff::Backoff;
use crate::util::clock::Instant;

/// Delays before registering again after the server has refused, or the node was deleted by hand.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// How a member leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    /// Others get its partitions.
    HandOver,
    /// Its partitions stay reserved for it, as after a crash.
    ComeBack,
}

/// Whether a member is registered, for its handle.
#[derive(Debug, Clone, Default)]
pub(super) struct Registration {
    pub(super) is_registered: bool,
    /// Why it is not, if the server has refused.
    pub(super) error: Option<Error>,
}

/// The options of a member.
#[derive(Debug, Clone)]
pub(super) struct MemberOptions {
    pub(super) id: String,
    pub(super) presence: Presence,
    pub(super) grace_period: Duration,
}

pub(super) struct Member {
    pub(super) registrar: Registrar,
    pub(super) options: MemberOptions,
    pub(super) channel: Arc<Channel>,
    pub(super) events: Publisher,
    pub(super) registration: watch::Sender<Registration>,
    pub(super) stop: watch::Receiver<Option<Leave>>,
    /// Holders wake the member when they release.
    pub(super) wake: Arc<Notify>,
    pub(super) delays: Backoff,
    pub(super) _keep_alive: KeepAlive,
}

/// The task may be dropped before it has finished: with its runtime, or by a panic.
impl Drop for Member {
    fn drop(&mut self) {
        self.channel.leave();
    }
}

impl Member {
    pub(super) fn delays() -> Backoff {
        Backoff::new(RETRY_DELAYS)
    }

    /// Runs until the member leaves, or the client is closed.
    pub(super) async fn run(mut self) {
        // Nodes of sessions that were given up, which may exist until the servers notice, and nodes that the server
        // refused to delete.
        let mut leftovers: Vec<Arc<str>> = Vec::new();
        let mut latest = None;
        // When the attempt that failed began.
        let mut failed = None;
        loop {
            let session = tokio::select! {
                biased;
                _ = self.stop.wait_for(Option::is_some) => break,
                session = self.registrar.core.connected_session() => session,
            };
            let Ok(session) = session else { break };
            latest = Some(Arc::clone(&session));
            let began = self.registrar.core.clock.now();
            // A member never has two registrations.
            if let Err(error) = self.registrar.remove(&session, &leftovers).await {
                self.refused(error);
                self.pause(began).await;
                continue;
            }
            leftovers.clear();
            if let Some(began) = failed.take() {
                self.pause(began).await;
                continue;
            }
            let registration = self.registrar.draw();
            let node: Arc<str> = self.registrar.paths.member(&self.options.id, &registration).into();
            leftovers.push(Arc::clone(&node));
            match self.registrar.register(&session, &node, &self.options.presence.bytes()).await {
                Ok(()) => {}
                Err(Failed::SessionOver) => continue,
                Err(Failed::Refused(error)) => {
                    self.refused(error);
                    failed = Some(began);
                    continue;
                }
            }
            let member = self.options.id.clone();
            self.registration.send_replace(Registration { is_registered: true, error: None });
            self.events.report(Event::Registered { member: member.clone() });
            let mut following = Following::new(&self, &session, registration, node);
            let end = following.run().await;
            leftovers.extend(following.end().await);
            self.registration.send_replace(Registration::default());
            if matches!(end, End::Left) {
                leftovers.clear();
                break;
            }
            self.events.report(Event::Unregistered { member });
            if let End::Refused(error) = &end {
                self.refused(client::Error::from_engine("take part in", &self.registrar.paths.base, error.clone()));
            }
            failed = (!matches!(end, End::SessionOver)).then_some(began);
        }
        self.channel.leave();
        tracing::info!(event = "left", path = self.registrar.paths.base, "left the partition assigner");
        if let Some(session) = latest {
            self.clear(&session, leftovers).await;
        }
        self.registration.send_replace(Registration::default());
    }

    /// Deletes what is left of the registrations of a session. Retries until the nodes are deleted or the session is
    /// over, which deletes them too.
    async fn clear(&mut self, session: &Arc<Session>, leftovers: Vec<Arc<str>>) {
        while !matches!(session.condition(), Condition::Ended(_)) {
            let began = self.registrar.core.clock.now();
            match self.registrar.remove(session, &leftovers).await {
                Ok(()) => return,
                Err(error) => self.refused(error),
            }
            let delay = self.registrar.core.next_delay(&mut self.delays, began);
            let _: Result<(), _> = tokio::time::timeout(delay, session.ended()).await;
        }
    }

    fn refused(&self, error: client::Error) {
        let error = Error::client(&self.registrar.paths.base, error);
        self.registration.send_replace(Registration { is_registered: false, error: Some(error.clone()) });
        self.events.report(Event::Failed { error });
    }

    /// Waits before the next attempt, unless the member is to leave.
    async fn pause(&mut self, began: Instant) {
        let delay = self.registrar.core.next_delay(&mut self.delays, began);
        let mut stop = self.stop.clone();
        let _ = tokio::time::timeout(delay, stop.wait_for(Option::is_some)).await;
    }
}
