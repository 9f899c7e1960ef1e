//! The state that all sessions of an ensemble share.

use std::sync::Arc;
use std::time::Duration;

use super::connect::{Connector, Stream, cause, in_turn};
use super::handshake::Failure;
use super::hosts::{Hosts, Notice, SrvrSupport, Turn};
use super::lacking_operations::LackingOperations;
use super::options::Options;
use super::question::{self, ServerState};
use super::request_limit::RequestLimit;
use crate::util::clock::Instant;
use crate::util::mutex::Mutex;

/// The shared state of an ensemble's sessions: their options, the hosts they try, and what is known of the servers.
#[derive(Clone)]
pub(crate) struct Environment {
    pub(crate) options: Arc<Options>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) hosts: Arc<Mutex<Hosts>>,
    pub(crate) request_limit: Arc<RequestLimit>,
    pub(crate) lacking: Arc<LackingOperations>,
}

impl Environment {
    pub(crate) fn now(&self) -> Instant {
        self.options.clock.now()
    }

    pub(crate) async fn connect(&self, turn: &Turn) -> Result<Stream, Failure> {
        let stream = self.connector.connect(turn.endpoint.clone(), turn.tries).await;
        stream.map_err(|error| Failure::new(cause(&error)))
    }

    /// Asks a host whether it serves.
    async fn ask(&self, turn: &Turn, limit: Duration) -> Result<ServerState, Failure> {
        let question = async { Ok(question::ask(self.connect(turn).await?).await?) };
        in_turn(self.connector.turns(), limit, question).await.unwrap_or_else(|_| Err(timed_out(limit)))
    }

    /// Checks that a host serves sessions. Returns the reason as an error if it does not.
    pub(crate) async fn check(&self, turn: &Turn, limit: Duration) -> Result<(), Failure> {
        let state = self.ask(turn, limit).await?;
        if state != ServerState::Unknown {
            self.hosts.lock().note_srvr(turn.host, SrvrSupport::Answers);
        }
        match state {
            ServerState::Serving => Ok(()),
            ServerState::ReadOnly => Err(Failure::new("the server is read-only")),
            ServerState::NotServing => {
                Err(Failure::new("the server is not serving: it is starting, stopping, or has no leader"))
            }
            ServerState::Unknown => Err(Failure::new("the server closed the connection: it is not serving yet")),
        }
    }

    /// Finds out whether a host that serves answers the question. If the host closes the connection, asks once more,
    /// because a server that is stopping closes it too.
    pub(crate) async fn learn_srvr(self, turn: Turn, limit: Duration) {
        let mut state = self.ask(&turn, limit).await;
        if let Ok(ServerState::Unknown) = state {
            self.options.clock.sleep_until(self.now() + limit).await;
            state = self.ask(&turn, limit).await;
        }
        let Ok(state) = state else { return };
        let srvr = if state == ServerState::Unknown { SrvrSupport::Closes } else { SrvrSupport::Answers };
        self.hosts.lock().note_srvr(turn.host, srvr);
    }

    pub(crate) fn failed(&self, host: usize, cause: String) {
        let notice = self.hosts.lock().failed(host, cause, self.now(), (self.options.jitter)());
        log(notice);
    }

    /// Records that a connection to this host answered more than the connect request.
    pub(crate) fn mark_usable(&self, host: usize) {
        let notice = self.hosts.lock().mark_usable(host, self.now());
        log(notice);
    }
}

pub(crate) fn timed_out(limit: Duration) -> Failure {
    Failure::new(format!("timed out after {limit:?}"))
}

fn log(notice: Option<Notice>) {
    match notice {
        Some(Notice::Begins { causes }) => {
            tracing::warn!(event = "outage_began", causes, "no ZooKeeper server can be reached");
        }
        Some(Notice::Continues { causes, tries, lasting }) => {
            tracing::warn!(
                event = "outage_continues",
                causes,
                tries,
                ?lasting,
                "still no ZooKeeper server can be reached"
            );
        }
        Some(Notice::Over { host, tries, lasted }) => {
            tracing::warn!(event = "outage_ended", %host, tries, ?lasted, "a ZooKeeper server can be reached again");
        }
        None => {}
    }
}
