//! One session, from the first attempt to open it to its end: a task that connects, serves, loses and finds connections.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::StreamExt;
use tokio::sync::{mpsc, oneshot};

use super::configuration;
use super::connect::{Connector, cause};
use super::handshake::{Failure, Fresh, Hears, Identity};
use super::hosts::{Hosts, Notice, Turn};
use super::link::Interrupted;
use super::port::ZooKeeperSession;
use super::serve::{Serving, Stop};
use super::shared::Shared;
use super::{Options, lock};
use crate::backend::{self, Loss, Observer, Opened, Proof, SessionEvent};
use crate::clock::Instant;
use crate::protocol::WatcherEvent;

/// An attempt has at least this long.
const LEAST_ATTEMPT: Duration = Duration::from_secs(1);

/// What the sessions of an ensemble have in common.
#[derive(Clone)]
pub(super) struct Ground {
    pub(super) options: Arc<Options>,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) hosts: Arc<Mutex<Hosts>>,
}

impl Ground {
    pub(super) fn now(&self) -> Instant {
        self.options.clock.now()
    }

    fn failed(&self, host: usize, cause: String) {
        let notice = lock(&self.hosts).failed(host, cause, self.now(), (self.options.jitter)());
        log(notice);
    }

    /// A connection to this host answered more than the handshake.
    pub(super) fn works(&self, host: usize) {
        let notice = lock(&self.hosts).works(host, self.now());
        log(notice);
    }
}

fn log(notice: Option<Notice>) {
    match notice {
        Some(Notice::Begins { causes }) => tracing::warn!(%causes, "no ZooKeeper server can be reached"),
        Some(Notice::GoesOn { causes, tries, lasting }) => {
            tracing::warn!(%causes, tries, ?lasting, "still no ZooKeeper server can be reached");
        }
        Some(Notice::Over { host, tries, lasted }) => {
            tracing::warn!(%host, tries, ?lasted, "a ZooKeeper server can be reached again");
        }
        None => {}
    }
}

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Expired,
    AuthFailed,
    Closed,
}

/// A connection that takes requests.
pub(super) struct Connected {
    pub(super) fresh: Fresh,
    pub(super) host: usize,
    /// It answered more than the handshake.
    pub(super) works: bool,
}

/// The task of a session.
pub(super) struct Task {
    pub(super) ground: Ground,
    pub(super) shared: Arc<Shared>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) identity: Identity,
    /// The shortest timeout that was granted: a new leader takes the first one for every session.
    pub(super) shortest: Duration,
    /// When the server was last heard of.
    pub(super) last_contact: Instant,
    events: mpsc::UnboundedSender<SessionEvent>,
    /// Until the session is handed to the caller that opens it.
    opening: Option<Opening>,
    /// The observer knows of a connection.
    told_up: bool,
    over: bool,
}

struct Opening {
    opened: oneshot::Sender<Result<Opened, backend::Error>>,
    events: mpsc::UnboundedReceiver<SessionEvent>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("session", &format_args!("{:#x}", self.identity.id)).finish_non_exhaustive()
    }
}

impl Task {
    pub(super) fn new(
        ground: Ground,
        observer: Arc<dyn Observer>,
        opened: oneshot::Sender<Result<Opened, backend::Error>>,
    ) -> Self {
        let (events, told) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::new(ground.options.clock));
        Task {
            shortest: Duration::MAX,
            last_contact: ground.now(),
            ground,
            shared,
            observer,
            identity: Identity::default(),
            events,
            opening: Some(Opening { opened, events: told }),
            told_up: false,
            over: false,
        }
    }

    /// Runs until the session is over.
    pub(super) async fn run(mut self) {
        let end = loop {
            match self.establish().await {
                Err(end) => break end,
                Ok(connected) => match self.serve(connected).await {
                    (_, _, Stop::End(end)) => break end,
                    (host, works, Stop::Lost(cause)) => self.lost(host, works, cause),
                },
            }
        };
        self.finish(Some(end));
    }

    /// Finds a connection for the session, however long it takes; or, when it is to be closed, as long as the servers may know
    /// it.
    async fn establish(&mut self) -> Result<Connected, End> {
        if self.shared.link.closing().is_none() {
            let mut opening = self.opening.take();
            let is_first = opening.is_some();
            let connected = tokio::select! {
                biased;
                () = self.shared.close_requested() => None,
                () = given_up(&mut opening) => None,
                connected = self.attempts(is_first) => Some(connected),
            };
            self.opening = opening;
            match connected {
                Some(connected) => return connected,
                None => self.shared.close(),
            }
        }
        if self.identity.id == 0 {
            return Err(End::Closed);
        }
        let clock = self.ground.options.clock;
        loop {
            let forgotten = self.forgotten();
            tokio::select! {
                biased;
                // An attempt may have renewed the session meanwhile.
                () = clock.sleep_until(forgotten) => if self.forgotten() <= forgotten {
                    return Err(End::Closed);
                },
                connected = self.attempts(false) => return connected.map_err(|_| End::Closed),
            }
        }
    }

    /// When the servers no longer know the session: they may have granted all that was asked for since the last contact.
    fn forgotten(&self) -> Instant {
        self.last_contact + self.shared.timeout().max(self.ground.options.session_timeout)
    }

    async fn attempts(&mut self, opening: bool) -> Result<Connected, End> {
        loop {
            let turn = self.turn().await;
            let host = turn.host;
            let cause = match self.attempt(turn, opening).await {
                Ok(Attempt::Connected(connected)) => return Ok(connected),
                Ok(Attempt::Expired) if self.identity.id == 0 => "the server opened no session".to_owned(),
                Ok(Attempt::Expired) if opening => {
                    // No caller has this session yet, so a new one serves as well.
                    (self.identity, self.shortest) = (Identity::default(), Duration::MAX);
                    continue;
                }
                Ok(Attempt::Expired) => return Err(End::Expired),
                Err(Failure::Credentials(why)) => {
                    tracing::warn!(host = lock(&self.ground.hosts).name(host), "{why}");
                    self.ground.failed(host, why);
                    return Err(End::AuthFailed);
                }
                Err(Failure::Connection(cause)) => cause,
            };
            if let Some(loss) = self.fall().filter(|_| !opening) {
                // The session was renewed, for a moment.
                self.events.send(SessionEvent::Disconnected(loss)).ok();
            }
            tracing::debug!(host = lock(&self.ground.hosts).name(host), %cause, "no connection");
            self.ground.failed(host, cause);
        }
    }

    /// Waits until a host may be tried.
    async fn turn(&self) -> Turn {
        loop {
            let taken = lock(&self.ground.hosts).take(self.ground.now());
            match taken {
                Ok(turn) => return turn,
                Err(at) => self.ground.options.clock.sleep_until(at).await,
            }
        }
    }

    async fn attempt(&mut self, turn: Turn, opening: bool) -> Result<Attempt, Failure> {
        let Turn { host, endpoint, tries } = turn;
        let options = Arc::clone(&self.ground.options);
        // For a whole pass through the hosts: the first within its caller's patience, later ones within the session's time.
        let pass = match self.identity.id {
            0 => (options.session_timeout / 3).min(options.connection_timeout),
            _ => self.shared.timeout() / 3,
        };
        let hosts = u32::try_from(lock(&self.ground.hosts).len()).unwrap_or(u32::MAX).max(1);
        let limit = (pass / hosts).max(LEAST_ATTEMPT);
        let welcomed = tokio::time::timeout(limit, async {
            let stream = self.ground.connector.connect(endpoint, tries).await;
            let stream = stream.map_err(|error| Failure::new(cause(&error)))?;
            let mut fresh = Fresh::new(stream, options.longest_answer, options.clock);
            let about_to = |at| self.observer.connecting(at);
            let answer = fresh.welcome(&self.identity, options.session_timeout, about_to).await?;
            Ok((fresh, answer))
        });
        let timed_out = |_| Err(Failure::new(format!("timed out after {limit:?}")));
        let (mut fresh, answer) = welcomed.await.unwrap_or_else(timed_out)?;
        if answer.is_expired() {
            return Ok(Attempt::Expired);
        }
        if answer.session_id == 0 {
            return Err(Failure::new("the server named no session"));
        }
        if self.identity.id != 0 && self.identity.id != answer.session_id {
            return Err(Failure::new(format!("the server answered for the session {:#x}", answer.session_id)));
        }
        (self.identity.id, self.identity.password) = (answer.session_id, answer.password);
        self.last_contact = fresh.latest_read;
        let granted = Duration::from_millis(u64::try_from(answer.timeout).unwrap_or_default());
        self.shared.set_timeout(granted);
        self.shortest = self.shortest.min(granted);
        if self.shared.link.closing().is_none() {
            self.told_up = true;
            self.observer.connected(granted);
        }
        let works = self.introduce(&mut fresh, opening, self.ground.options.silence(self.shortest)).await;
        self.last_contact = fresh.latest_read;
        let works = works?;
        if works {
            self.ground.works(host);
        }
        Ok(Attempt::Connected(Connected { fresh, host, works }))
    }

    /// Says who the client is, and restores the watches; a first connection has none, and must show that it is served. Tells
    /// whether anything was answered.
    async fn introduce(&mut self, fresh: &mut Fresh, opening: bool, patience: Duration) -> Result<bool, Failure> {
        let mut hears = Introduction { shared: &self.shared, observer: &*self.observer, answered: false };
        #[cfg(feature = "sasl-digest-md5")]
        if let Some(credentials) = &self.ground.options.sasl {
            fresh.sasl(credentials, patience, &mut hears).await?;
        }
        fresh.authenticate(&self.ground.options.auths, patience, &mut hears).await?;
        if opening {
            fresh.ping(patience, &mut hears).await?;
        } else if self.shared.link.closing().is_none() {
            // The answers tell later transactions, which only count when all watches are restored.
            let requests = lock(&self.shared.watches).restore(self.identity.zxid);
            fresh.restore(requests, patience, &mut hears).await?;
            lock(&self.shared.watches).resync();
        }
        Ok(hears.answered)
    }

    /// The connection takes requests until it is lost or the session ends.
    async fn serve(&mut self, connected: Connected) -> (usize, bool, Stop) {
        let Connected { fresh: Fresh { frames, write, latest_xid, latest_read, .. }, host, works } = connected;
        self.shared.link.up(write, latest_xid, self.shared.timeout());
        self.shared.remove_stale();
        tracing::debug!(
            session = format_args!("{:#x}", self.identity.id),
            host = lock(&self.ground.hosts).name(host),
            "connected"
        );
        match self.opening.take() {
            None if self.shared.link.closing().is_some() => {}
            None => drop(self.events.send(SessionEvent::Connected)),
            Some(Opening { opened, events }) => {
                let chroot = self.ground.options.connect_string.chroot();
                if self.ground.options.follows_configuration {
                    self.follow_configuration();
                }
                let session = ZooKeeperSession::new(Arc::clone(&self.shared), self.identity.id, chroot);
                let events =
                    futures::stream::unfold(events, |mut events| async move { Some((events.recv().await?, events)) });
                // A caller that no longer waits drops the session, which closes it.
                opened.send(Ok(Opened { session: Arc::new(session), events: events.boxed() })).ok();
            }
        }
        Serving::new(self, frames, latest_read, host, works).run().await
    }

    /// Keeps the hosts up to date, for as long as the session lasts.
    fn follow_configuration(&self) {
        let (ground, shared) = (self.ground.clone(), Arc::clone(&self.shared));
        let ended = shared.ended();
        (self.ground.options.spawn)(Box::pin(async move {
            tokio::select! {
                () = ended => {}
                () = configuration::follow(&ground, &shared) => {}
            }
        }));
    }

    fn lost(&mut self, host: usize, works: bool, cause: String) {
        tracing::debug!(session = format_args!("{:#x}", self.identity.id), host = lock(&self.ground.hosts).name(host), %cause, "connection lost");
        let loss = self.fall();
        if works {
            let options = &self.ground.options;
            let spread = options.spread_reconnects.then(|| (options.jitter)());
            lock(&self.ground.hosts).cut(host, cause, self.ground.now(), spread);
        } else {
            self.ground.failed(host, cause);
        }
        if let Some(loss) = loss {
            self.events.send(SessionEvent::Disconnected(loss)).ok();
        }
    }

    /// Takes the connection down: the observer learns of it before those who wait. `None` if there is nothing to tell.
    fn fall(&mut self) -> Option<Loss> {
        let Interrupted { at, sent, unsent } = self.shared.link.down();
        let told_up = std::mem::take(&mut self.told_up) && self.shared.link.closing().is_none();
        let loss = told_up.then_some(Loss { at, last_contact: self.last_contact });
        if let Some(loss) = loss {
            self.observer.disconnected(loss);
        }
        for entry in sent {
            entry.fail(backend::Error::ConnectionLoss);
        }
        for entry in unsent {
            entry.fail(backend::Error::NotConnected);
        }
        loss
    }

    /// The session is over; without an end its runtime is.
    fn finish(&mut self, end: Option<End>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let Interrupted { sent, unsent, .. } = self.shared.link.over();
        for entry in sent.into_iter().chain(unsent) {
            entry.fail(backend::Error::SessionEnded);
        }
        lock(&self.shared.watches).end();
        if let Some(Opening { opened, .. }) = self.opening.take() {
            opened
                .send(Err(match end {
                    Some(End::AuthFailed) => backend::Error::AuthFailed,
                    _ => backend::Error::Other("opening the session failed: its runtime ended".to_owned()),
                }))
                .ok();
        }
        let event = end.map(|end| match end {
            End::Expired => SessionEvent::Expired,
            End::AuthFailed => SessionEvent::AuthFailed,
            End::Closed => SessionEvent::Closed,
        });
        if let Some(event) = event {
            self.events.send(event).ok();
        }
        self.shared.end();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.finish(None);
    }
}

enum Attempt {
    Connected(Connected),
    Expired,
}

/// Resolves when the caller no longer waits for the session to be opened.
async fn given_up(opening: &mut Option<Opening>) {
    match opening {
        Some(Opening { opened, .. }) => opened.closed().await,
        None => std::future::pending().await,
    }
}

struct Introduction<'a> {
    shared: &'a Shared,
    observer: &'a dyn Observer,
    answered: bool,
}

impl Hears for Introduction<'_> {
    fn answered(&mut self, sent: Instant) {
        self.answered = true;
        self.observer.answered(sent, Proof::Contact);
    }

    fn event(&mut self, event: WatcherEvent) {
        self.shared.fire(&event);
    }
}
