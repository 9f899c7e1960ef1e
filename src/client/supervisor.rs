//! Opens sessions, one after the other, for as long as the client exists.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use tokio::sync::watch;

use super::core::{Core, Current, Ending};
use super::error::Error;
use super::keepalive::Keepalive;
use super::lease::Lease;
use super::session::{EndReason, Session};
use super::state::ConnectionState;
use crate::engine::{self, Opened, SessionEvent};
use crate::util::clock::Instant;

/// Delay before a session is opened after an error that is not transient.
const AFTER_FAILURE: Duration = Duration::from_secs(3);
/// Delay after refused credentials: they rarely become valid by themselves, and repeated attempts lock accounts.
const AFTER_AUTH_FAILED: Duration = Duration::from_secs(30);

/// Runs until the client is closed or its last handle is dropped.
pub(crate) struct Supervisor {
    pub(crate) core: Arc<Core>,
    pub(crate) closing: watch::Receiver<bool>,
    /// Set once the client is closed: whether the server was informed.
    pub(crate) closed: watch::Sender<Option<bool>>,
}

/// A runtime that ends drops its tasks. After that nothing keeps the session alive.
impl Drop for Supervisor {
    fn drop(&mut self) {
        self.core.abandon();
    }
}

impl Supervisor {
    pub(crate) async fn run(mut self, mut session: Arc<Session>, mut events: BoxStream<'static, SessionEvent>) {
        loop {
            // The span is not entered, because each event names the session itself.
            let span = tracing::info_span!("session", session = session.label());
            let (reason, last_contact) = Keepalive::new(&self.core, &session, events).keep(&mut self.closing).await;
            self.log_end(&session, reason, last_contact);
            drop(span);
            session.end(reason);
            self.core.count_end(reason);
            self.core.current.send_replace(Current::None);
            let close = session.close();
            if reason == EndReason::Closed {
                self.finish(&session, close).await;
                return;
            }
            self.core.states.publish(ConnectionState::Lost);
            // The next session is opened without waiting until the server knows of the end of this one.
            let close = tokio::time::timeout(session.timeout() * 2, close);
            self.core.runtime.spawn_system(async move { drop(close.await) });
            let Some((opened, lease)) = self.reopen(reason).await else {
                self.finish(&session, Box::pin(std::future::ready(()))).await;
                return;
            };
            let state = if lease.is_read_only() { ConnectionState::ReadOnly } else { ConnectionState::Reconnected };
            session = self.install(&opened, lease, state, last_contact);
            self.core.states.publish(state);
            events = opened.events;
        }
    }

    /// Logs the end of a session, and what a lost one costs.
    fn log_end(&self, session: &Session, reason: EndReason, last_contact: Option<Instant>) {
        let session_id = session.label();
        if reason == EndReason::Closed {
            tracing::info!(event = "session_ended", session = session_id, ?reason, "session closed");
            return;
        }
        tracing::warn!(
            event = "session_ended",
            session = session_id,
            ?reason,
            state = %ConnectionState::Lost,
            places = session.contenders(),
            users = self.core.users_now(),
            out = self.out(last_contact),
            "session lost, with all its ephemeral nodes"
        );
    }

    /// Returns the time since the last contact with a server, for the log.
    fn out(&self, last_contact: Option<Instant>) -> Option<tracing::field::DebugValue<Duration>> {
        last_contact.map(|at| tracing::field::debug(self.core.clock.now().since(at)))
    }

    /// Makes a session the current one. `state` is the client's state with it; `last_contact` is the last contact in
    /// the previous session, if that was lost without a connection.
    pub(crate) fn install(
        &self,
        opened: &Opened,
        lease: Arc<Lease>,
        state: ConnectionState,
        last_contact: Option<Instant>,
    ) -> Arc<Session> {
        let engine = Arc::clone(&opened.session);
        let read_only = self.core.config.read_only;
        let session = Arc::new(Session::new(engine, lease, &self.core.log, &self.core.runtime, read_only));
        tracing::info!(
            event = "session_opened",
            session = session.label(),
            timeout = ?session.timeout(),
            %state,
            out = self.out(last_contact),
            "session opened"
        );
        self.core.current.send_replace(Current::Live(Arc::clone(&session)));
        session
    }

    async fn finish(&self, session: &Arc<Session>, close: futures::future::BoxFuture<'static, ()>) {
        self.core.current.send_replace(Current::Closed(Ending::Closed));
        self.core.states.end();
        // After the session timeout there is no session left to close.
        let closed = tokio::time::timeout(self.core.config.connection_timeout.min(session.timeout()), close).await;
        self.closed.send_replace(Some(closed.is_ok()));
    }

    /// Opens the next session, however long it takes. Returns `None` if the client is closed meanwhile.
    async fn reopen(&mut self, reason: EndReason) -> Option<(Opened, Arc<Lease>)> {
        if reason == EndReason::Refused {
            self.pause(AFTER_AUTH_FAILED).await?;
        }
        loop {
            let lease = self.core.new_lease();
            let outcome = tokio::select! {
                biased;
                _ = self.closing.wait_for(|closing| *closing) => return None,
                outcome = self.core.ensemble.open(Arc::clone(&lease) as _) => outcome,
            };
            match outcome {
                Ok(opened) => return Some((opened, lease)),
                Err(error) => {
                    let pause = if error == engine::Error::AuthFailed { AFTER_AUTH_FAILED } else { AFTER_FAILURE };
                    let causes = self.core.ensemble.causes();
                    let servers = &self.core.config.servers;
                    self.core.report(Error::of_session("open a session with", servers, &causes, error));
                    self.pause(pause).await?;
                }
            }
        }
    }

    /// Waits for `least` and up to half as long again. Returns `None` if the client is closed meanwhile.
    async fn pause(&mut self, least: Duration) -> Option<()> {
        tokio::select! {
            biased;
            _ = self.closing.wait_for(|closing| *closing) => None,
            _ = tokio::time::sleep(least.mul_f64(1.0 + self.core.random.unit() / 2.0)) => Some(()),
        }
    }
}
