//! The task of a member. In each session it registers, follows its own node and acknowledges its shares.

pub(super) mod limiter;
pub(super) mod registration;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::watch;

use self::registration::{Failed, Registered, Registrar};
use super::error::Error;
use super::events::{Event, Publisher};
use super::record::Record;
use super::share::Channel;
use crate::client;
use crate::client::core::KeepAlive;
use crate::client::session::{Condition, Session};
use crate::engine::{self, Event as Change, Watch};
use crate::util::backoff::Backoff;
use crate::util::clock::Instant;
use crate::util::wait::fired;

/// Delays before registering again after the server has refused, or the node was deleted or overwritten by hand. Each
/// is twice the previous one, up to the second value.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(30));

/// How long a member waits for the first decision before it reports that there is none.
const UNDECIDED: Duration = Duration::from_secs(5);

/// The options of a member that go into its record.
#[derive(Debug, Clone)]
pub(super) struct MemberOptions {
    /// The random id, which its latch has too.
    pub(super) id: String,
    /// The id that its user has given it.
    pub(super) label: Option<String>,
    pub(super) weight: u64,
    pub(super) min: u64,
    pub(super) max: Option<u64>,
}

/// Whether a member is registered, for its handle.
#[derive(Debug, Clone, Default)]
pub(super) struct Registration {
    /// The name of its node, while it has one.
    pub(super) name: Option<String>,
    /// Why it has none, if the server has refused.
    pub(super) error: Option<Error>,
}

pub(super) struct Member {
    pub(super) registrar: Registrar,
    pub(super) options: MemberOptions,
    pub(super) channel: Arc<Channel>,
    pub(super) events: Publisher,
    pub(super) registration: watch::Sender<Registration>,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) delays: Backoff,
    pub(super) _keep_alive: KeepAlive,
}

/// Why a member stops following its node.
enum End {
    /// It has been asked to leave.
    Leaving,
    SessionOver,
    /// The node was deleted, or contains what no leader writes.
    NodeInvalid,
    Refused(engine::Error),
}

/// What a member knows of its node.
struct View {
    watch: Option<Watch>,
    /// The connection on which it was read.
    verified: Option<u64>,
    /// A request failed on this connection. No other is sent until the connection is known to be lost.
    failed_on: Option<u64>,
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
        // Registrations of sessions that were given up, which may exist until the servers notice, and registrations
        // that the server refused to delete.
        let mut leftovers: Vec<Registered> = Vec::new();
        // When the attempt that failed began.
        let mut failed = None;
        loop {
            let session = tokio::select! {
                biased;
                _ = self.stop.wait_for(|stop| *stop) => break,
                session = self.registrar.core.connected_session() => session,
            };
            let Ok(session) = session else { break };
            let began = self.registrar.core.clock.now();
            // A member never has two registrations.
            if let Err(error) = self.sweep(&session, &mut leftovers).await {
                self.refused(error);
                self.pause(began).await;
                continue;
            }
            if let Some(began) = failed.take() {
                self.pause(began).await;
                continue;
            }
            let mut registered = match self.registrar.register(&session, self.record()).await {
                Ok(registered) => registered,
                Err(Failed::SessionOver) => continue,
                Err(Failed::Refused(error, left)) => {
                    leftovers.extend(left.map(|left| *left));
                    self.refused(error);
                    failed = Some(began);
                    continue;
                }
            };
            self.registration.send_replace(Registration { name: Some(registered.name.clone()), error: None });
            self.events.report(Event::Registered { member: registered.display_name() });
            let end = self.follow(&mut registered).await;
            if let End::Leaving = end {
                self.leave(session.timeout()).await;
                leftovers.push(registered);
                break;
            }
            self.channel.suspend();
            self.registration.send_replace(Registration::default());
            self.events.report(Event::Unregistered { member: registered.display_name() });
            failed = (!matches!(end, End::SessionOver)).then_some(began);
            self.give_up(&session, end).await;
            leftovers.push(registered);
        }
        self.channel.leave();
        tracing::info!(event = "leaving", path = self.registrar.paths.base, "leaving the throughput balancer");
        self.clear(leftovers).await;
        self.registration.send_replace(Registration::default());
    }

    /// Deletes what is left of earlier registrations.
    async fn sweep(&self, session: &Arc<Session>, leftovers: &mut Vec<Registered>) -> Result<(), client::Error> {
        while let Some(old) = leftovers.last() {
            self.registrar.remove(session, old).await?;
            let has_ended = matches!(session.condition(), Condition::Ended(_));
            if has_ended && !Arc::ptr_eq(session, &old.session) {
                // The old session's nodes may still exist: our next session deletes them.
                break;
            }
            leftovers.pop();
        }
        Ok(())
    }

    /// Deletes what is left of all registrations. Retries until the nodes are deleted or their sessions are over.
    async fn clear(&mut self, mut leftovers: Vec<Registered>) {
        while let Some(old) = leftovers.last() {
            let (session, began) = (Arc::clone(&old.session), self.registrar.core.clock.now());
            if let Err(error) = self.sweep(&session, &mut leftovers).await {
                self.refused(error);
                let delay = self.registrar.core.next_delay(&mut self.delays, began);
                let _: Result<(), _> = tokio::time::timeout(delay, session.ended()).await;
            }
        }
    }

    fn refused(&self, error: client::Error) {
        let error = Error::client(&self.registrar.paths.base, error);
        self.registration.send_replace(Registration { name: None, error: Some(error.clone()) });
        self.events.report(Event::Failed { error });
    }

    fn record(&self) -> Record {
        let MemberOptions { id, label, weight, min, max } = self.options.clone();
        // The leader must count what the member applies at this moment.
        Record { label, weight, min, max, ..Record::new(&id, self.channel.latest().throughput()) }
    }

    /// Follows the node until the member has to leave or register again.
    async fn follow(&mut self, registered: &mut Registered) -> End {
        let session = Arc::clone(&registered.session);
        let mut conditions = session.conditions();
        let mut stop = self.stop.clone();
        let mut view = View { watch: None, verified: None, failed_on: None };
        let mut undecided = std::pin::pin!(tokio::time::sleep(UNDECIDED).fuse());
        loop {
            if *stop.borrow() {
                return End::Leaving;
            }
            // Created before the lease is read, so that no extension is missed.
            let extended = session.lease().extended();
            let condition = *conditions.borrow_and_update();
            match condition {
                Condition::Ended(_) => return End::SessionOver,
                // Under `ErrorPolicy::Session` the lease continues; the condition also reports its end.
                Condition::Suspended if self.channel.latest().is_current() => {}
                Condition::Suspended => self.channel.suspend(),
                Condition::Connected(connection) if view.failed_on == Some(connection) => {
                    session.wait_for_disconnect(connection).await;
                    view.failed_on = None;
                    continue;
                }
                Condition::Connected(connection) => {
                    let read = tokio::select! {
                        biased;
                        _ = conditions.changed() => continue,
                        read = self.look(registered, &mut view, connection) => read,
                    };
                    match read {
                        Ok(()) => {}
                        Err(End::Refused(error)) if error.is_transient() => {
                            view.failed_on = Some(connection);
                            continue;
                        }
                        Err(end) => return end,
                    }
                    self.publish(registered);
                }
            }
            let connected = matches!(condition, Condition::Connected(_));
            let is_undecided = connected && registered.record.epoch == 0;
            let owed = connected && registered.record.wants_ack() && registered.acked < registered.record.decision();
            let acknowledged = async {
                // Acknowledges what is applied, even while listeners still apply the next decision.
                let followed = self.channel.followed_after(registered.acked).await;
                self.registrar.acknowledge(registered, followed).await
            };
            // If the lease lapsed unnoticed while the process was stopped, or the share is not proven, waits until the
            // lease is extended. Other extensions do not count: an acknowledgement itself causes one, and waking then
            // would drop its answer.
            let renewed = async {
                let mut extended = extended;
                loop {
                    extended.await;
                    // Created before the share is read, so that no extension is missed.
                    extended = session.lease().extended();
                    if !self.channel.latest().is_current() {
                        break;
                    }
                }
            };
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return End::Leaving,
                event = fired(&mut view.watch) => {
                    view.watch = None;
                    match event {
                        Change::NodeDeleted => return End::NodeInvalid,
                        Change::SessionEnded => view.verified = None,
                        _ => {}
                    }
                }
                _ = conditions.changed() => {}
                () = renewed => {}
                () = &mut undecided, if is_undecided => {
                    self.events.report(Event::Undecided { member: registered.display_name() });
                }
                outcome = acknowledged, if owed => match outcome {
                    Ok(()) => {}
                    Err(error) if error.is_transient() => {
                        if let Condition::Connected(connection) = condition {
                            view.failed_on = Some(connection);
                        }
                    }
                    Err(error) => return End::Refused(error),
                },
            }
        }
    }

    /// Reads the node, with a watch, if it was not read on this connection or has changed.
    async fn look(&self, registered: &mut Registered, view: &mut View, connection: u64) -> Result<(), End> {
        if view.watch.is_some() && view.verified == Some(connection) {
            return Ok(());
        }
        let path = self.registrar.paths.member(&registered.name);
        let (data, stat, watch) = match registered.session.watch_data(&path).await {
            Ok(read) => read,
            Err(engine::Error::NoNode) => return Err(End::NodeInvalid),
            Err(error) => return Err(End::Refused(error)),
        };
        if stat.ephemeral_owner != registered.session.id() {
            return Err(End::NodeInvalid);
        }
        let Ok(record) = Record::parse(&data) else { return Err(End::NodeInvalid) };
        // Leaders write each record with a newer decision than the previous one.
        if record != registered.record && record.decision() <= registered.record.decision() {
            return Err(End::NodeInvalid);
        }
        (registered.record, registered.version) = (record, stat.version);
        (view.watch, view.verified) = (Some(watch), Some(connection));
        Ok(())
    }

    /// Publishes the record as the share, unless it is published already.
    fn publish(&self, registered: &Registered) {
        let (record, latest) = (&registered.record, self.channel.latest());
        let decision = record.decision();
        let is_published =
            latest.is_current() && (latest.epoch(), latest.sequence()) == (decision.epoch, decision.sequence);
        if is_published {
            return;
        }
        match registered.session.grant() {
            Some(grant) => {
                tracing::debug!(
                    event = "share_changed",
                    path = self.registrar.paths.base,
                    member = registered.display_name(),
                    throughput = record.throughput,
                    epoch = decision.epoch,
                    sequence = decision.sequence,
                    "this member has a new share"
                );
                self.channel.publish(record.throughput, decision, &registered.session, grant);
            }
            // Not proven yet: the next extension of the lease runs this again.
            None => self.channel.publish_unproven(record.throughput, decision),
        }
    }

    /// Sets the share to zero and waits until the listeners have applied it, for at most `timeout`.
    async fn leave(&self, timeout: Duration) {
        self.channel.leave();
        if tokio::time::timeout(timeout, self.channel.applied()).await.is_err() {
            tracing::warn!(
                event = "leave_timed_out",
                path = self.registrar.paths.base,
                ?timeout,
                "left, but not all listeners have applied the share of zero"
            );
        }
    }

    /// Ends a registration. Waits until no listener applies a share of it, unless the session is over.
    async fn give_up(&mut self, session: &Arc<Session>, end: End) {
        match end {
            End::SessionOver => return,
            End::Refused(error) => {
                let doing = "follow the share in";
                let error = client::Error::from_engine(doing, &self.registrar.paths.base, error);
                self.events.report(Event::Failed { error: Error::client(&self.registrar.paths.base, error) });
            }
            End::Leaving | End::NodeInvalid => {}
        }
        let mut stop = self.stop.clone();
        let given_up = async {
            let _ = stop.wait_for(|stop| *stop).await;
            // The same limit as when it leaves.
            tokio::time::sleep(session.timeout()).await;
        };
        tokio::select! {
            biased;
            () = self.channel.applied() => {}
            () = given_up => {}
            () = session.ended() => {}
        }
    }

    async fn pause(&mut self, began: Instant) {
        let delay = self.registrar.core.next_delay(&mut self.delays, began);
        // It ends early when the handle is dropped.
        let _: Result<Result<_, _>, _> = tokio::time::timeout(delay, self.stop.wait_for(|stop| *stop)).await;
    }
}
