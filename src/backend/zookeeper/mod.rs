//! A real ensemble, by the crate `zookeeper-client`, with its traps defused:
//!
//! * I/O failures of every kind are connection losses;
//! * nothing is handed over while disconnected, where the crate would keep it and run it later;
//! * only one-shot watches, as persistent ones do not survive a reconnect, and no more than the crate can restore;
//! * the list of hosts is repeated, as the crate's reconnect back-off has no bound, and with several hosts one that does
//!   not answer is left early, as the repeated list may name it several times in a row.

pub(crate) mod connect_string;
mod convert;
mod pending;
pub(super) mod watches;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{BoxStream, StreamExt};
use zookeeper as zk;

use self::connect_string::ConnectString;
use self::convert::{classify, create_mode, event, stat};
use self::pending::Pending;
use self::watches::{WatchBudget, WatchPermit};
use super::{Ensemble, Error, Event, Multi, Op, Opened, Reply, Session, SessionEvent, Watch};
use crate::types::{Acl, CreateMode, Stat};

/// A server that pauses for less is not left for another.
const LEAST_SILENCE: Duration = Duration::from_secs(1);

/// How to reach an ensemble and what to present there.
#[derive(Clone)]
pub(crate) struct ZooKeeperEnsemble {
    pub(crate) connect_string: ConnectString,
    pub(crate) session_timeout: Duration,
    pub(crate) auths: Vec<(String, Vec<u8>)>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<zk::TlsOptions>,
    #[cfg(feature = "sasl-digest-md5")]
    pub(crate) sasl: Option<zk::SaslOptions>,
}

impl fmt::Debug for ZooKeeperEnsemble {
    // Credentials stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperEnsemble").field("servers", &self.connect_string.to_string()).finish()
    }
}

impl ZooKeeperEnsemble {
    fn connector(&self) -> zk::Connector {
        // Each attempt to open a session tries every host once; who calls repeats it, with delays of its own.
        let mut connector = zk::Client::connector().with_session_timeout(self.session_timeout).with_fail_eagerly();
        if self.connect_string.hosts().len() > 1 {
            connector = connector.with_connection_timeout(self.silence_allowed());
        }
        for (scheme, auth) in &self.auths {
            connector = connector.with_auth(scheme, auth);
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            connector = connector.with_tls(tls.clone());
        }
        #[cfg(feature = "sasl-digest-md5")]
        if let Some(sasl) = &self.sasl {
            connector = connector.with_sasl(sasl.clone());
        }
        connector
    }

    /// How long a server may be silent before another one is tried. The crate's default of 0.4 T leaves time for a single
    /// attempt at a host that has gone dark.
    fn silence_allowed(&self) -> Duration {
        let least = LEAST_SILENCE.min(self.session_timeout.mul_f64(0.4));
        (self.session_timeout / 8).max(least)
    }

    async fn connect(self) -> Result<zk::Client, zk::Error> {
        let hosts = self.connect_string.padded(self.session_timeout);
        let connector = self.connector();
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            choose_provider();
            return connector.secure_connect(&hosts).await;
        }
        connector.connect(&hosts).await
    }
}

impl Ensemble for ZooKeeperEnsemble {
    fn open(&self) -> BoxFuture<'static, Result<Opened, Error>> {
        let ensemble = self.clone();
        async move {
            let client = ensemble.connect().await.map_err(convert::classify_open)?;
            let events = events(client.state_watcher());
            Ok(Opened { session: Arc::new(ZooKeeperSession::new(client)), events })
        }
        .boxed()
    }

    fn servers(&self) -> String {
        self.connect_string.to_string()
    }
}

/// In a program with several providers of cryptography rustls panics unless one is chosen: then the client crate's own.
#[cfg(feature = "tls")]
fn choose_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error says that another thread was faster, and chose.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
}

/// The life of a session. The crate's watcher keeps only the latest state, so a quick loss and return shows as the
/// same state once more.
fn events(watcher: zk::StateWatcher) -> BoxStream<'static, SessionEvent> {
    let alive = Some((watcher, true));
    futures::stream::unfold(alive, |alive| async move {
        let (mut watcher, connected) = alive?;
        let event = match watcher.changed().await {
            zk::SessionState::SyncConnected if connected => SessionEvent::Flipped,
            zk::SessionState::SyncConnected | zk::SessionState::ConnectedReadOnly => SessionEvent::Connected,
            zk::SessionState::Disconnected => SessionEvent::Disconnected,
            zk::SessionState::Expired => SessionEvent::Expired,
            zk::SessionState::AuthFailed => SessionEvent::AuthFailed,
            zk::SessionState::Closed => SessionEvent::Closed,
        };
        let alive = match event {
            SessionEvent::Expired | SessionEvent::AuthFailed | SessionEvent::Closed => None,
            event => Some((watcher, event != SessionEvent::Disconnected)),
        };
        Some((event, alive))
    })
    .boxed()
}

/// One session of the crate.
struct ZooKeeperSession {
    id: i64,
    timeout: Duration,
    state: zk::StateWatcher,
    pending: Arc<Pending>,
    watches: Arc<WatchBudget>,
}

impl ZooKeeperSession {
    fn new(client: zk::Client) -> Self {
        ZooKeeperSession {
            id: client.session_id().0,
            timeout: client.session_timeout(),
            state: client.state_watcher(),
            watches: Arc::new(WatchBudget::new(client.path().len())),
            pending: Arc::new(Pending::new(client)),
        }
    }

    /// Hands a request over, if the session is connected, and returns the wait for its reply.
    fn request<T, F, Fut>(&self, send: F) -> Reply<T>
    where
        T: Send + 'static,
        F: FnOnce(zk::Client) -> Fut,
        Fut: Future<Output = Result<T, Error>> + Send + 'static,
    {
        if self.state.peek_state() != zk::SessionState::SyncConnected {
            return futures::future::ready(Err(Error::NotConnected)).boxed();
        }
        Pending::hand_over(&self.pending, send)
    }

    /// As `request`, for a read that leaves a watch: its path counts against what a session can restore.
    fn watched<T, F, Fut>(&self, path: &str, send: F) -> Reply<T>
    where
        T: Send + 'static,
        F: FnOnce(zk::Client, WatchPermit) -> Fut,
        Fut: Future<Output = Result<T, Error>> + Send + 'static,
    {
        match WatchBudget::reserve(&self.watches, path) {
            Ok(permit) => self.request(|client| send(client, permit)),
            Err(error) => futures::future::ready(Err(error)).boxed(),
        }
    }
}

fn watch(watcher: zk::OneshotWatcher, permit: WatchPermit) -> Watch {
    Watch::new(
        async move {
            // The crate panics here when its task is gone, and with it the runtime it ran on.
            let fired = AssertUnwindSafe(watcher.changed()).catch_unwind().await;
            drop(permit);
            fired.map_or(Event::SessionEnded, |fired| event(fired.event_type))
        }
        .boxed(),
    )
}

impl fmt::Debug for ZooKeeperSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperSession").field("id", &format_args!("{:#x}", self.id)).finish()
    }
}

impl Session for ZooKeeperSession {
    fn id(&self) -> i64 {
        self.id
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn create(&self, path: &str, data: &[u8], mode: CreateMode, acls: &[Acl]) -> Reply<(String, Stat)> {
        let (mut path, data, acls) = (path.to_owned(), data.to_owned(), convert::acls(acls));
        self.request(|client| async move {
            let options = create_mode(mode).with_acls(zk::Acls::new(&acls));
            let (created, sequence) = client.create(&path, &data, &options).await.map_err(classify)?;
            if mode.is_sequential() {
                path.push_str(&sequence.to_string());
            }
            Ok((path, stat(&created)))
        })
    }

    fn delete(&self, path: &str, version: Option<i32>) -> Reply<()> {
        let path = path.to_owned();
        self.request(|client| async move { client.delete(&path, version).await.map_err(classify) })
    }

    fn exists(&self, path: &str) -> Reply<Option<Stat>> {
        let path = path.to_owned();
        self.request(|client| async move {
            let found = client.check_stat(&path).await.map_err(classify)?;
            Ok(found.as_ref().map(stat))
        })
    }

    fn watch_exists(&self, path: &str) -> Reply<(Option<Stat>, Watch)> {
        let owned = path.to_owned();
        self.watched(path, |client, permit| async move {
            let (found, watcher) = client.check_and_watch_stat(&owned).await.map_err(classify)?;
            Ok((found.as_ref().map(stat), watch(watcher, permit)))
        })
    }

    fn get_data(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        let path = path.to_owned();
        self.request(|client| async move {
            let (data, found) = client.get_data(&path).await.map_err(classify)?;
            Ok((data, stat(&found)))
        })
    }

    fn watch_data(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        let owned = path.to_owned();
        self.watched(path, |client, permit| async move {
            let (data, found, watcher) = client.get_and_watch_data(&owned).await.map_err(classify)?;
            Ok((data, stat(&found), watch(watcher, permit)))
        })
    }

    fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        let (path, data) = (path.to_owned(), data.to_owned());
        self.request(|client| async move {
            let changed = client.set_data(&path, &data, version).await.map_err(classify)?;
            Ok(stat(&changed))
        })
    }

    fn list_children(&self, path: &str) -> Reply<(Vec<String>, Stat)> {
        let path = path.to_owned();
        self.request(|client| async move {
            let (children, found) = client.get_children(&path).await.map_err(classify)?;
            Ok((children, stat(&found)))
        })
    }

    fn watch_children(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)> {
        let owned = path.to_owned();
        self.watched(path, |client, permit| async move {
            let (children, found, watcher) = client.get_and_watch_children(&owned).await.map_err(classify)?;
            Ok((children, stat(&found), watch(watcher, permit)))
        })
    }

    fn multi(&self, ops: Vec<Op>) -> Reply<Multi> {
        self.request(|client| async move {
            let mut writer = client.new_multi_writer();
            for op in &ops {
                convert::add_op(&mut writer, op).map_err(classify)?;
            }
            match writer.commit().await {
                Ok(results) => {
                    Ok(Multi::Committed(results.into_iter().map(convert::op_result).collect::<Result<_, _>>()?))
                }
                Err(zk::MultiWriteError::OperationFailed { index, source }) => {
                    Ok(Multi::Refused { index, error: classify(source) })
                }
                Err(zk::MultiWriteError::RequestFailed { source }) => Err(classify(source)),
            }
        })
    }

    fn sync(&self, path: &str) -> Reply<()> {
        let path = path.to_owned();
        self.request(|client| async move { client.sync(&path).await.map_err(classify) })
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.pending.abandon();
        let mut state = self.state.clone();
        async move {
            while !state.peek_state().is_terminated() {
                state.changed().await;
            }
        }
        .boxed()
    }
}
