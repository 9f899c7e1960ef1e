//! Moves a session away from a server that the list of servers no longer has, because an operator will stop it soon;
//! and away from a read-only server, which is in contact with no other.
//!
//! Nothing is lost by the move. The connection is kept until another server of the list says that it serves. Then no
//! further request is written, and the connection ends when the last answer has arrived. The requests that were held
//! back fail as not connected, like all others until the session is resumed.
//!
//! All clients of a fleet see a change of the list at once, so each waits for a random time. If the session cannot be
//! moved, it stays where it is. The attempts have growing pauses, and end after [`MOST_TRIES`]; a later change of the
//! list starts them again. On a read-only server they go on, every half a minute or so.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::connect_string::Endpoint;
use super::environment::Environment;
use super::handshake::is_of_keeper;
use super::hosts::{SrvrSupport, Turn};
use super::shared::Shared;
use super::state::SessionState;
use crate::util::clock::Instant;
use crate::util::wait::forever;

/// The longest random pause before the first attempt. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MOST_TRIES: u32 = 10;
/// From this attempt on, a server that does not say whether it serves need only accept a connection. It may be behind a
/// proxy that passes no four-letter words.
const TRUSTING: u32 = 4;
/// How long a server may take to say whether it serves.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last answers may take the session timeout divided by this.
const LAST_ANSWERS: u32 = 10;
/// On a read-only server the pauses double so often.
const MOST_DOUBLINGS: u32 = 6;

/// Why a session is to leave its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The list of servers may change, and no longer have it.
    NotListed,
    /// It only answers reads.
    ReadOnly,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NotListed => "the list of servers no longer has its server",
            Reason::ReadOnly => "its server only answers reads",
        })
    }
}

/// The server that a session is connected to.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: Option<SocketAddr>,
    /// The number of the list that the server was taken from.
    pub(crate) list: u64,
}

/// Decides when the session leaves its server.
pub(crate) struct Departure {
    environment: Environment,
    shared: Arc<Shared>,
    place: Place,
    reason: Reason,
    /// How long the last answers may take.
    limit: Duration,
    phase: Phase,
}

enum Phase {
    /// Until the session is to leave the server, and another one serves. A future that is polled only when it was
    /// woken: this is on the way of every answer.
    Staying(FuturesUnordered<BoxFuture<'static, Found>>),
    /// Until the last answers have arrived, or the time is over.
    Draining { over: BoxFuture<'static, ()>, found: Found, _held_back: HeldBack },
}

/// A server that serves, and is the next one to be tried.
#[derive(Debug)]
struct Found {
    name: String,
    /// How many attempts to leave there were.
    tries: u32,
}

/// The session leaves its server.
pub(crate) struct Leave {
    pub(crate) from: Endpoint,
    pub(crate) to: String,
    pub(crate) reason: Reason,
}

/// Holds requests back until it is dropped.
struct HeldBack(Arc<Shared>);

impl HeldBack {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.link.cork();
        HeldBack(Arc::clone(shared))
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        self.0.link.uncork_later();
    }
}

impl Departure {
    /// Returns what moves the session away from a server that is read-only, or that a list which can change no longer
    /// has. ClickHouse Keeper cannot move a session.
    pub(crate) fn of(state: &SessionState, place: Place, read_only: bool) -> Option<Self> {
        let (environment, shared) = (state.environment.clone(), Arc::clone(&state.shared));
        let can_change = environment.options.servers.is_some() || environment.options.follows_configuration;
        let may_move = shared.link.closing().is_none() && !is_of_keeper(&state.identity.password.0);
        if !may_move || !(can_change || read_only) {
            return None;
        }
        let reason = if read_only { Reason::ReadOnly } else { Reason::NotListed };
        let limit = shared.timeout() / LAST_ANSWERS;
        let phase = Phase::staying(Search::new(environment.clone(), place.clone(), reason));
        Some(Departure { environment, shared, place, reason, limit, phase })
    }

    /// Resolves when the connection is to be closed. Until `self` is dropped, requests are held back then.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Leave> {
        loop {
            match &mut self.phase {
                Phase::Staying(search) => {
                    let Some(found) = std::task::ready!(search.poll_next_unpin(cx)) else { return Poll::Pending };
                    let (clock, limit) = (self.environment.options.clock, self.limit);
                    let over = async move { clock.sleep_until(clock.now() + limit).await };
                    let (over, held_back) = (over.boxed(), HeldBack::new(&self.shared));
                    self.phase = Phase::Draining { over, found, _held_back: held_back };
                }
                Phase::Draining { found, .. } if self.shared.link.is_idle() => {
                    let (from, to) = (self.place.endpoint.clone(), std::mem::take(&mut found.name));
                    return Poll::Ready(Leave { from, to, reason: self.reason });
                }
                Phase::Draining { over, found, .. } => {
                    std::task::ready!(over.poll_unpin(cx));
                    let late = "the last answers did not arrive in time";
                    let search = Search::new(self.environment.clone(), self.place.clone(), self.reason);
                    self.phase = Phase::staying(Search { tries: found.tries, failure: late, ..search });
                }
            }
        }
    }
}

impl Phase {
    fn staying(search: Search) -> Self {
        let found = match search.reason {
            Reason::NotListed => search.not_listed().boxed(),
            Reason::ReadOnly => search.read_only().boxed(),
        };
        Phase::Staying(FuturesUnordered::from_iter([found]))
    }
}

/// Waits until the session is to leave the server, and looks for another one.
struct Search {
    environment: Environment,
    place: Place,
    reason: Reason,
    lists: watch::Receiver<u64>,
    named: Option<watch::Receiver<Vec<Endpoint>>>,
    /// How many attempts to leave there were since the latest change of the list.
    tries: u32,
    /// Why the latest attempt failed.
    failure: &'static str,
}

impl Search {
    fn new(environment: Environment, place: Place, reason: Reason) -> Self {
        let (lists, mut named) = (environment.hosts.lock().lists(), environment.named.clone());
        if let Some(named) = &mut named {
            named.mark_unchanged();
        }
        environment.refresh();
        Search { environment, place, reason, lists, named, tries: 0, failure: "" }
    }

    /// Resolves when the list no longer has the server, and another one serves.
    async fn not_listed(mut self) -> Found {
        loop {
            if *self.lists.borrow_and_update() == self.place.list {
                self.changed().await;
                continue;
            }
            if self.tries == MOST_TRIES {
                tracing::warn!(
                    event = "server_not_left",
                    host = %self.place.endpoint,
                    reason = self.failure,
                    "the list of servers no longer has the server of this session, which could not be moved"
                );
                self.changed().await;
                continue;
            }
            self.pause().await;
            // Asked again in each attempt: the name of a server may have had no address for a moment.
            if self.is_listed().await {
                self.changed().await;
                continue;
            }
            self.tries += 1;
            self.failure = "no other server of the list could be reached, or said that it serves";
            if let Some(name) = self.find().await {
                return Found { name, tries: self.tries };
            }
        }
    }

    /// Resolves when a server was found that does not only answer reads. Such a server says so.
    async fn read_only(mut self) -> Found {
        loop {
            // Sessions end with each read-only server, so the looks of all of them count.
            self.tries = self.environment.hosts.lock().look().min(MOST_DOUBLINGS);
            self.pause().await;
            self.environment.look_up(PATIENCE).await;
            if let Some(name) = self.find().await {
                return Found { name, tries: self.tries };
            }
        }
    }

    /// Resolves when the list was changed.
    async fn changed(&mut self) {
        let named = async {
            let changed = match &mut self.named {
                Some(named) => named.changed().await.is_ok(),
                None => false,
            };
            if !changed {
                // The user can name no others, or no longer.
                forever().await
            }
        };
        tokio::select! {
            _ = self.lists.changed() => {}
            () = named => {}
        }
        self.environment.refresh();
        self.tries = 0;
    }

    /// Waits before the next attempt. A change of the list only shortens the wait: if the list changes all the time,
    /// there are attempts all the same.
    async fn pause(&mut self) {
        let clock = self.environment.options.clock;
        let mut until = self.after_pause();
        loop {
            tokio::select! {
                biased;
                () = clock.sleep_until(until) => return,
                () = self.changed() => until = until.min(self.after_pause()),
            }
        }
    }

    fn after_pause(&self) -> Instant {
        let pause = FIRST_PAUSE * 2u32.pow(self.tries);
        self.environment.now() + pause.mul_f64((self.environment.options.jitter)())
    }

    /// Returns whether the list in use has the server, under this name or another.
    async fn is_listed(&self) -> bool {
        let all = self.environment.hosts.lock().all();
        if all.iter().any(|turn| turn.endpoint == self.place.endpoint) {
            return true;
        }
        let Some(address) = self.place.address else { return false };
        let same = all.into_iter().map(|turn| self.environment.connector.is_at(turn.endpoint, address));
        futures::future::join_all(same).await.contains(&true)
    }

    /// Makes a server of the list that serves the next one to be tried, and returns its name.
    async fn find(&self) -> Option<String> {
        let all = self.environment.hosts.lock().all();
        for mut turn in all {
            // If the name has several addresses, each attempt begins with another one.
            turn.tries += self.tries;
            if self.serves(&turn).await && self.environment.hosts.lock().prefer_address(&turn) {
                return Some(turn.endpoint.to_string());
            }
        }
        None
    }

    async fn serves(&self, turn: &Turn) -> bool {
        let accepts_suffices = match turn.srvr {
            _ if self.reason == Reason::ReadOnly => return self.environment.takes_part(turn, PATIENCE).await,
            SrvrSupport::Answers => false,
            SrvrSupport::Unknown => self.tries >= TRUSTING,
            SrvrSupport::Closes => true,
        };
        if !accepts_suffices {
            return self.environment.check(turn, PATIENCE).await.is_ok();
        }
        let connected = tokio::time::timeout(PATIENCE, self.environment.connect(turn)).await;
        matches!(connected, Ok(Ok(_)))
    }
}
