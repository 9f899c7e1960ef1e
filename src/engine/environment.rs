//! The state that all sessions of an ensemble share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::connect::{Connector, Stream, cause, in_turn};
use super::connect_string::{Endpoint, list};
use super::failure::{Failure, timed_out};
use super::hosts::{Hosts, Notice, SrvrSupport, Turn};
use super::lacking_operations::LackingOperations;
use super::options::Options;
use super::question::{self, ServerState};
use super::request_limit::RequestLimit;
use super::srv::in_order;
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
    /// The servers that the user names, if they can change.
    pub(crate) named: Option<watch::Receiver<Vec<Endpoint>>>,
}

impl Environment {
    pub(crate) fn now(&self) -> Instant {
        self.options.clock.now()
    }

    /// Uses the servers that the user names now.
    pub(crate) fn refresh(&self) {
        let Some(named) = &self.named else { return };
        // Not borrowed while it is logged: a subscriber may replace the servers.
        let named = named.borrow().clone();
        if self.hosts.lock().set_named(&named, &*self.options.jitter) {
            tracing::info!(event = "servers_named", servers = list(&named), "the list of servers was changed");
        }
    }

    /// Looks up the SRV records that name the servers, if there are such and it is time to. While some servers are
    /// known, the lookup may take up to `limit`.
    pub(crate) async fn look_up(&self, limit: Duration) {
        let Some(name) = self.options.connect_string.srv() else { return };
        if !self.hosts.lock().begin_lookup(self.now()) {
            return;
        }
        // While no server is known, `connect` is to name the cause before it gives up.
        let limit = if self.hosts.lock().len() == 0 { self.options.connection_timeout / 2 } else { limit };
        let found = tokio::time::timeout(limit, self.connector.lookup_srv(name.to_owned())).await;
        let failure = match found {
            Ok(Ok(records)) if !records.is_empty() => {
                let servers = in_order(records, &*self.options.jitter);
                if self.hosts.lock().set_looked_up(&servers) {
                    tracing::info!(event = "servers_named", servers = list(&servers), "SRV records name the servers");
                }
                return;
            }
            Ok(Ok(_)) => "none of its SRV records names a server".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {limit:?}"),
        };
        log(self.hosts.lock().lookup_failed(format!("SRV records of {name}: {failure}"), self.now()));
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

    /// Returns whether a host says that it takes part in the ensemble.
    pub(crate) async fn takes_part(&self, turn: &Turn, limit: Duration) -> bool {
        matches!(self.ask(turn, limit).await, Ok(ServerState::Serving))
    }

    /// Checks that a host serves sessions. Returns the reason as an error if it does not.
    pub(crate) async fn check(&self, turn: &Turn, limit: Duration) -> Result<(), Failure> {
        let state = self.ask(turn, limit).await?;
        if state != ServerState::Unknown {
            self.hosts.lock().note_srvr(turn.host, SrvrSupport::Answers);
        }
        match state {
            ServerState::Serving | ServerState::Unsaid => Ok(()),
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
