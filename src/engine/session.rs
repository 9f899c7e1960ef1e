//! The task of one session, from the first attempt to open it until it ends: connects, serves, and reconnects.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::{mpsc, oneshot};

use super::authentication::FirstToken;
use super::configuration;
use super::connect::in_turn;
use super::departure::{Departure, Leave, Place};
use super::environment::Environment;
use super::error::Error;
use super::failure::Failure;
use super::handshake::{Handshake, Identity, is_of_keeper};
use super::hosts::{SrvrSupport, Turn};
use super::observer::{Loss, Observer, SessionEvent};
use super::requests::Session;
use super::restore::authenticate_and_restore;
use super::serve::{End, Served, Serving};
use super::state::{SessionEnd, SessionState};
use crate::util::clock::Instant;
use crate::util::wait::forever;

/// The shortest time limit of an attempt.
const LEAST_ATTEMPT: Duration = Duration::from_secs(1);
/// How often the time limit of an attempt to open a session may double.
const MOST_DOUBLINGS: u32 = 5;
/// How long after the end of a connection a server may still report that it serves, because it has not noticed yet that
/// its leader is gone. It closes all connections when it notices.
const UNNOTICED: Duration = Duration::from_millis(300);
/// That wait is at most the session timeout divided by this.
const MOST_UNNOTICED: u32 = 20;
/// A lookup of SRV records may take the session timeout divided by this, while some servers are known.
const LOOKUP: u32 = 20;

/// A session that was just opened, and its events.
pub(crate) struct Opened {
    pub(crate) session: Arc<Session>,
    pub(crate) events: BoxStream<'static, SessionEvent>,
}

/// A connection that takes requests.
struct Connected {
    handshake: Handshake,
    host: usize,
    /// Where the host is: what the list of servers is compared with.
    place: Place,
    /// The server only answers reads.
    read_only: bool,
    /// The server has answered something after the connect request.
    is_usable: bool,
}

/// The task of a session.
pub(crate) struct Task {
    state: SessionState,
    events: mpsc::UnboundedSender<SessionEvent>,
    /// Present until the session is handed to the caller that opens it.
    opening: Option<Opening>,
    /// The observer was notified of the current connection.
    reported_connected: bool,
    over: bool,
}

struct Opening {
    opened: oneshot::Sender<Result<Opened, Error>>,
    events: mpsc::UnboundedReceiver<SessionEvent>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("session", &format_args!("{:#x}", self.state.identity.id)).finish_non_exhaustive()
    }
}

impl Task {
    pub(crate) fn new(
        environment: Environment,
        observer: Arc<dyn Observer>,
        opened: oneshot::Sender<Result<Opened, Error>>,
    ) -> Self {
        let (events, received) = mpsc::unbounded_channel();
        Task {
            state: SessionState::new(environment, observer),
            events,
            opening: Some(Opening { opened, events: received }),
            reported_connected: false,
            over: false,
        }
    }

    /// Runs until the session has ended.
    pub(crate) async fn run(mut self) {
        let end = loop {
            match self.establish().await {
                Err(end) => break end,
                Ok(connected) => {
                    let Served { host, is_usable, end, departure } = self.serve(connected).await;
                    match end {
                        End::Session(end) => break end,
                        End::Lost(cause) => self.lost(host, is_usable, cause),
                        End::Left(leave) => self.leave(&leave),
                    }
                    drop(departure);
                }
            }
        };
        self.finish(Some(end));
    }

    /// Connects the session, however long it takes. If the session is being closed, retries only while the servers may
    /// still know it.
    async fn establish(&mut self) -> Result<Connected, SessionEnd> {
        if self.state.shared.link.closing().is_none() {
            let mut opening = self.opening.take();
            let is_first = opening.is_some();
            let connected = tokio::select! {
                biased;
                () = self.state.shared.close_requested() => None,
                () = given_up(&mut opening) => None,
                connected = self.attempts(is_first) => Some(connected),
            };
            self.opening = opening;
            match connected {
                Some(connected) => return connected,
                None => self.state.shared.close(),
            }
        }
        if self.state.identity.id == 0 {
            return Err(SessionEnd::Closed);
        }
        let clock = self.state.environment.options.clock;
        loop {
            let forgotten = self.forgotten();
            tokio::select! {
                biased;
                // An attempt may have renewed the session in the meantime.
                () = clock.sleep_until(forgotten) => if self.forgotten() <= forgotten {
                    return Err(SessionEnd::Closed);
                },
                connected = self.attempts(false) => return connected.map_err(|_| SessionEnd::Closed),
            }
        }
    }

    /// Returns when the servers must have forgotten the session. After the last contact they may have granted the whole
    /// timeout that the client requests.
    fn forgotten(&self) -> Instant {
        self.state.last_contact + self.state.shared.timeout().max(self.state.environment.options.session_timeout)
    }

    async fn attempts(&mut self, opening: bool) -> Result<Connected, SessionEnd> {
        loop {
            self.wait_for_notice(opening).await;
            let turn = self.turn().await;
            let host = turn.host;
            let cause = match self.attempt(turn, opening).await {
                Ok(Attempt::Connected(connected)) => return Ok(*connected),
                Ok(Attempt::Expired) if self.state.identity.id == 0 => "the server opened no session".to_owned(),
                Ok(Attempt::Expired) if opening => {
                    // No caller has this session yet, so a new one is as good.
                    (self.state.identity, self.state.shortest) = (Identity::default(), Duration::MAX);
                    continue;
                }
                Ok(Attempt::Expired) => return Err(SessionEnd::Expired),
                Ok(Attempt::Replaced) => return Err(SessionEnd::Replaced),
                Err(Failure::Credentials(why)) => {
                    let mut hosts = self.state.environment.hosts.lock();
                    let name = hosts.name(host);
                    tracing::warn!(
                        event = "credentials_refused",
                        host = name,
                        error = why,
                        "the server refused the credentials"
                    );
                    let is_refused = hosts.refused(host, opening);
                    drop(hosts);
                    if is_refused {
                        self.state.environment.failed(host, why);
                        return Err(SessionEnd::AuthFailed);
                    }
                    why
                }
                Err(Failure::Connection(cause)) => cause,
            };
            if let Some(loss) = self.tear_down().filter(|_| !opening) {
                // The session was connected for a moment.
                self.events.send(SessionEvent::Disconnected(loss)).ok();
            }
            tracing::debug!(
                event = "connection_failed",
                host = self.state.environment.hosts.lock().name(host),
                error = %cause,
                "could not connect"
            );
            self.state.environment.failed(host, cause);
        }
    }

    /// Waits until a host may be tried.
    async fn turn(&self) -> Turn {
        loop {
            self.state.environment.refresh();
            self.state.environment.look_up(self.state.environment.options.session_timeout / LOOKUP).await;
            let taken = self.state.environment.hosts.lock().take(self.state.environment.now());
            match taken {
                Ok(turn) => return turn,
                Err(at) => self.state.environment.options.clock.sleep_until(at).await,
            }
        }
    }

    /// Returns whether an unanswered request to resume the session could shorten a lease. If so, servers are asked
    /// first whether they serve.
    fn is_careful(&self, opening: bool) -> bool {
        self.state.identity.id != 0 && !opening && self.state.observer.outlasts_connections()
    }

    /// Waits until the servers must have noticed what ended the connection.
    async fn wait_for_notice(&self, opening: bool) {
        if self.is_careful(opening) {
            let unnoticed = UNNOTICED.min(self.state.shared.timeout() / MOST_UNNOTICED);
            if let Some(lost_at) = self.state.lost_at {
                self.state.environment.options.clock.sleep_until(lost_at + unnoticed).await;
            }
        }
    }

    /// Returns whether to ask a host first whether it serves. A host that may not support the question is asked only
    /// within half a session timeout of the last contact; after that, the session is resumed without asking. A host
    /// that is known to close the connection is never asked.
    fn asks(&self, srvr: SrvrSupport) -> bool {
        match srvr {
            SrvrSupport::Answers => true,
            SrvrSupport::Unknown => {
                self.state.environment.now() < self.state.last_contact + self.state.shared.timeout() / 2
            }
            SrvrSupport::Closes => false,
        }
    }

    async fn attempt(&mut self, turn: Turn, opening: bool) -> Result<Attempt, Failure> {
        let Turn { host, list, .. } = turn;
        let endpoint = turn.endpoint.clone();
        let options = Arc::clone(&self.state.environment.options);
        // The time for one pass through all hosts. Until the session is open, the caller's timeout limits it as well;
        // later only the session timeout does.
        let pass = match self.state.identity.id {
            0 => (options.session_timeout / 3).min(options.connection_timeout),
            _ => self.state.shared.timeout() / 3,
        };
        let hosts = u32::try_from(self.state.environment.hosts.lock().len()).unwrap_or(u32::MAX).max(1);
        let limit = (pass / hosts).max(LEAST_ATTEMPT);
        let limit = if opening {
            // Waits longer at each try, for an ensemble that is slow to open sessions.
            let longer = limit * 2u32.pow(turn.tries.min(MOST_DOUBLINGS));
            longer.min(options.connection_timeout).max(limit)
        } else {
            limit
        };
        let asks = self.is_careful(opening) && self.asks(turn.srvr);
        if asks {
            // The question can be repeated at no cost, so its limit is short.
            self.state.environment.check(&turn, (limit / 4).max(LEAST_ATTEMPT)).await?;
        }
        // Another server may take part in the ensemble.
        let read_only = options.read_only && self.state.environment.hosts.lock().have_all_failed();
        let connector = Arc::clone(&self.state.environment.connector);
        let first_token = FirstToken::new(options.sasl.as_deref());
        let opened = in_turn(connector.turns(), limit, async {
            let stream = self.state.environment.connect(&turn).await?;
            let mut handshake = Handshake::new(stream, options.longest_answer, options.clock);
            // Before the server hears of the session: a client without a ticket must not keep its session alive.
            let authentication = first_token.of(turn.endpoint.name(), handshake.address).await?;
            let about_to = |at| self.state.observer.connecting(at);
            let answer =
                handshake.open_session(&self.state.identity, options.session_timeout, read_only, about_to).await?;
            Ok((handshake, authentication, answer))
        });
        let opened = opened.await.unwrap_or_else(|_| Err(first_token.timed_out(limit)));
        let (mut handshake, authentication, answer) = opened?;
        let read_only = answer.read_only == Some(true);
        if answer.is_expired() {
            if options.read_only && !read_only {
                // It takes part in the ensemble: the next session is to be opened there.
                self.state.environment.hosts.lock().prefer(host);
            }
            return Ok(Attempt::Expired);
        }
        if answer.session_id == 0 {
            return Err(Failure::new("the server returned no session id"));
        }
        if self.state.identity.id != 0 && self.state.identity.id != answer.session_id && !opening {
            return Ok(self.replaced(handshake, answer.session_id, limit).await);
        }
        if self.state.identity.id != answer.session_id {
            let is_keeper = is_of_keeper(&answer.password.0);
            self.state.environment.lacking.opened(is_keeper, self.state.environment.now());
        }
        (self.state.identity.id, self.state.identity.password) = (answer.session_id, answer.password);
        self.state.last_contact = handshake.latest_read;
        let granted = Duration::from_millis(u64::try_from(answer.timeout).unwrap_or_default());
        self.state.shared.set_timeout(granted);
        self.state.shortest = self.state.shortest.min(granted);
        if self.state.shared.link.closing().is_none() {
            self.reported_connected = true;
            if read_only {
                self.state.observer.connected_read_only(granted);
            } else {
                self.state.environment.hosts.lock().takes_part();
                self.state.observer.connected(granted);
            }
        }
        let is_usable = authenticate_and_restore(&self.state, &mut handshake, authentication, opening).await;
        self.state.last_contact = handshake.latest_read;
        let is_usable = is_usable?;
        if is_usable {
            self.state.environment.mark_usable(host);
        }
        if !asks && turn.srvr != SrvrSupport::Answers && self.state.observer.outlasts_connections() {
            let environment = &self.state.environment;
            (environment.options.spawn)(Box::pin(environment.clone().learn_srvr(turn, limit)));
        }
        let place = Place { endpoint, address: handshake.address, list };
        Ok(Attempt::Connected(Box::new(Connected { handshake, host, place, read_only, is_usable })))
    }

    /// Handles a server that opens another session instead of resuming this one, as ClickHouse Keeper does. Closes the
    /// other session, which no caller asked for. The old session expires by itself.
    async fn replaced(&self, mut handshake: Handshake, other: i64, limit: Duration) -> Attempt {
        tracing::warn!(
            event = "session_replaced",
            session = format_args!("{:#x}", self.state.identity.id),
            other = format_args!("{other:#x}"),
            "the server opened another session instead of resuming the requested one"
        );
        if let Err(error) = handshake.close(limit).await {
            tracing::debug!(
                event = "session_left",
                session = format_args!("{other:#x}"),
                ?error,
                "could not close the other session"
            );
        }
        Attempt::Replaced
    }

    /// Serves the connection until it is lost or the session ends.
    async fn serve(&mut self, connected: Connected) -> Served {
        let Connected { handshake, host, place, read_only, is_usable } = connected;
        let Handshake { frames, write, latest_xid, latest_read, .. } = handshake;
        self.state.shared.link.up(write, latest_xid, self.state.shared.timeout());
        self.state.shared.remove_all_stale();
        tracing::debug!(
            event = "connected",
            session = format_args!("{:#x}", self.state.identity.id),
            host = self.state.environment.hosts.lock().name(host),
            read_only,
            "connected"
        );
        match self.opening.take() {
            None if self.state.shared.link.closing().is_some() => {}
            None => drop(self.events.send(SessionEvent::Connected)),
            Some(Opening { opened, events }) => {
                let chroot = self.state.environment.options.connect_string.chroot();
                if self.state.environment.options.follows_configuration {
                    self.follow_configuration();
                }
                let session = Session::new(Arc::clone(&self.state.shared), self.state.identity.id, chroot);
                let events =
                    futures::stream::unfold(events, |mut events| async move { Some((events.recv().await?, events)) });
                // A caller that no longer waits drops the session, which closes it.
                opened.send(Ok(Opened { session: Arc::new(session), events: events.boxed() })).ok();
            }
        }
        let departure = Departure::of(&self.state, place, read_only);
        Serving::new(&mut self.state, frames, latest_read, host, is_usable, departure).run().await
    }

    /// Keeps the list of hosts up to date while the session lasts.
    fn follow_configuration(&self) {
        let (environment, shared) = (self.state.environment.clone(), Arc::clone(&self.state.shared));
        let ended = shared.ended();
        (self.state.environment.options.spawn)(Box::pin(async move {
            tokio::select! {
                () = ended => {}
                () = configuration::follow(&environment, &shared) => {}
            }
        }));
    }

    fn lost(&mut self, host: usize, is_usable: bool, cause: String) {
        tracing::debug!(
            event = "connection_lost",
            session = format_args!("{:#x}", self.state.identity.id),
            host = self.state.environment.hosts.lock().name(host),
            error = %cause,
            "connection lost"
        );
        let loss = self.tear_down();
        if is_usable {
            let options = &self.state.environment.options;
            let spread = options.spread_reconnects.then(|| (options.jitter)());
            self.state.environment.hosts.lock().cut(host, cause, self.state.environment.now(), spread);
        } else {
            self.state.environment.failed(host, cause);
        }
        if let Some(loss) = loss {
            self.events.send(SessionEvent::Disconnected(loss)).ok();
        }
    }

    /// Ends the connection to a server, to move to another one.
    fn leave(&mut self, Leave { from, to, reason }: &Leave) {
        tracing::info!(
            event = "server_left",
            session = format_args!("{:#x}", self.state.identity.id),
            host = %from,
            to,
            %reason,
            "the session moves to another server"
        );
        let loss = self.tear_down();
        self.state.lost_at = None;
        if let Some(loss) = loss {
            self.events.send(SessionEvent::Disconnected(loss)).ok();
        }
    }

    /// Tears the connection down. The observer is notified before the waiting callers. Returns `None` if there is
    /// nothing to report.
    fn tear_down(&mut self) -> Option<Loss> {
        let interrupted = self.state.shared.link.down();
        let is_closing = self.state.shared.link.closing().is_some();
        let reported_connected = std::mem::take(&mut self.reported_connected) && !is_closing;
        let loss = reported_connected.then_some(Loss { at: interrupted.at, last_contact: self.state.last_contact });
        if let Some(loss) = loss {
            self.state.lost_at = Some(loss.at);
            self.state.observer.disconnected(loss);
        }
        interrupted.fail(if is_closing { Error::SessionEnded } else { Error::ConnectionLoss });
        loss
    }

    /// Ends the session. `end` is `None` if its runtime has shut down.
    fn finish(&mut self, end: Option<SessionEnd>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        self.state.shared.link.over().fail(Error::SessionEnded);
        self.state.shared.watches.lock().end();
        if let Some(Opening { opened, .. }) = self.opening.take() {
            opened
                .send(Err(match end {
                    Some(SessionEnd::AuthFailed) => Error::AuthFailed,
                    _ => Error::Other("opening the session failed: its runtime ended".to_owned()),
                }))
                .ok();
        }
        let event = end.map(|end| match end {
            SessionEnd::Expired => SessionEvent::Expired,
            SessionEnd::AuthFailed => SessionEvent::AuthFailed,
            SessionEnd::Replaced => SessionEvent::Replaced,
            SessionEnd::Closed => SessionEvent::Closed,
        });
        if let Some(event) = event {
            self.events.send(event).ok();
        }
        self.state.shared.end();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.finish(None);
    }
}

enum Attempt {
    Connected(Box<Connected>),
    Expired,
    /// The server opened another session.
    Replaced,
}

/// Resolves when the caller no longer waits for the session to be opened.
async fn given_up(opening: &mut Option<Opening>) {
    match opening {
        Some(Opening { opened, .. }) => opened.closed().await,
        None => forever().await,
    }
}
