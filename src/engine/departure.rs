//! Moves a session away from a server that the list of servers no longer has: an operator will stop it soon.
//!
//! Nothing is lost by the move. The connection is kept until another server of the list says that it serves. Then no
//! further request is written, and the connection ends when the last answer has arrived. The requests that were held
//! back fail as not connected, like all others until the session is resumed.
//!
//! All clients of a fleet see a change of the list at once, so each waits for a random time. If the session cannot be
//! moved, it stays where it is. The attempts have growing pauses, and end after [`MOST_TRIES`]; a later change of the
//! list starts them again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

use super::connect_string::Endpoint;
use super::environment::Environment;
use super::hosts::{SrvrSupport, Turn};
use super::shared::Shared;
use crate::util::wait::forever;

/// The longest random pause before the first attempt. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MOST_TRIES: u32 = 10;
/// How long a server may take to say whether it serves.
const PATIENCE: Duration = Duration::from_secs(2);

/// The server that a session is connected to.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) host: usize,
    pub(crate) address: Option<SocketAddr>,
    /// The number of the list that the server was taken from.
    pub(crate) list: u64,
}

/// Decides when the session leaves its server.
pub(crate) struct Departure {
    environment: Environment,
    shared: Arc<Shared>,
    place: Place,
    tries: u32,
    /// How long the last answers may take.
    limit: Duration,
    phase: Phase,
}

enum Phase {
    /// Until the list lacks the server, and another server serves. Resolves to the number of attempts so far.
    Staying(BoxFuture<'static, u32>),
    /// Until the last answers have arrived, or the time is over.
    Draining(BoxFuture<'static, ()>, HeldBack),
    Left,
}

/// Holds requests back until it is dropped.
pub(crate) struct HeldBack(Arc<Shared>);

impl HeldBack {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.link.cork();
        HeldBack(Arc::clone(shared))
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        self.0.link.uncork();
    }
}

impl Departure {
    /// `limit` is how long the last answers may take.
    pub(crate) fn new(environment: Environment, shared: Arc<Shared>, place: Place, limit: Duration) -> Self {
        let staying = due(environment.clone(), place.clone(), 0).boxed();
        Departure { environment, shared, place, tries: 0, limit, phase: Phase::Staying(staying) }
    }

    /// Resolves when the connection is to be closed. The requests are held back until what it returns is dropped.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<HeldBack> {
        loop {
            match &mut self.phase {
                Phase::Staying(due) => {
                    self.tries = std::task::ready!(due.poll_unpin(cx));
                    let (clock, limit) = (self.environment.options.clock, self.limit);
                    let over = async move { clock.sleep_until(clock.now() + limit).await };
                    self.phase = Phase::Draining(over.boxed(), HeldBack::new(&self.shared));
                }
                Phase::Draining(..) if self.shared.link.is_idle() => {
                    match std::mem::replace(&mut self.phase, Phase::Left) {
                        Phase::Draining(_, held_back) => return Poll::Ready(held_back),
                        _ => return Poll::Pending,
                    }
                }
                Phase::Draining(over, _) => {
                    std::task::ready!(over.poll_unpin(cx));
                    let due = due(self.environment.clone(), self.place.clone(), self.tries);
                    self.phase = Phase::Staying(due.boxed());
                }
                Phase::Left => return Poll::Pending,
            }
        }
    }
}

/// Resolves when the list no longer has the server, and another one serves. The next connection is made to that one.
/// `tries` is the number of attempts so far; returns the new number.
async fn due(environment: Environment, place: Place, mut tries: u32) -> u32 {
    let mut lists = environment.hosts.lock().lists();
    let mut named = environment.named.clone();
    loop {
        environment.refresh();
        let list = *lists.borrow_and_update();
        let changed = async {
            tokio::select! {
                _ = lists.changed() => {}
                () = changed(&mut named) => {}
            }
        };
        let moved = async {
            if list == place.list || is_listed(&environment, &place).await {
                forever().await
            }
            find(&environment, &mut tries).await
        };
        tokio::select! {
            biased;
            () = changed => tries = 0,
            () = moved => return tries,
        }
    }
}

/// Resolves when the user names other servers.
async fn changed(named: &mut Option<watch::Receiver<Vec<Endpoint>>>) {
    let changed = match named {
        Some(named) => named.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        // They cannot change, or no longer.
        forever().await
    }
}

/// Returns whether the list in use has the server, under this name or another.
async fn is_listed(environment: &Environment, place: &Place) -> bool {
    if environment.hosts.lock().has(place.host) {
        return true;
    }
    let Some(address) = place.address else { return false };
    let all = environment.hosts.lock().all();
    let same = all.into_iter().map(|turn| environment.connector.is_at(turn.endpoint, address));
    futures::future::join_all(same).await.contains(&true)
}

/// Resolves when a server of the list serves, and makes it the next one to try. Never resolves after too many attempts.
async fn find(environment: &Environment, tries: &mut u32) {
    while *tries < MOST_TRIES {
        let pause = (FIRST_PAUSE * 2u32.pow(*tries)).mul_f64((environment.options.jitter)());
        *tries += 1;
        environment.options.clock.sleep_until(environment.now() + pause).await;
        let all = environment.hosts.lock().all();
        for turn in all {
            if serves(environment, &turn).await {
                environment.hosts.lock().prefer(turn.host);
                return;
            }
        }
    }
    tracing::warn!(
        event = "server_not_left",
        tries,
        "the list of servers no longer has the server of this session, but none that it has could be reached"
    );
    forever().await
}

/// Returns whether a server serves. Of one that is known not to say so, returns whether it accepts connections.
async fn serves(environment: &Environment, turn: &Turn) -> bool {
    if turn.srvr == SrvrSupport::Closes {
        let connected = tokio::time::timeout(PATIENCE, environment.connect(turn)).await;
        return matches!(connected, Ok(Ok(_)));
    }
    environment.check(turn, PATIENCE).await.is_ok()
}
