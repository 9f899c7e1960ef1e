//! Where an example plays: on an ensemble of its own in memory, or on a real one.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use futures::future::{BoxFuture, FutureExt, TryFutureExt, join_all};
use tokio::sync::oneshot;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ClientBuilder};

use crate::ending::{NOBODY_READS, asked_to_end};
use crate::{Error, Result};

/// The session timeout in seconds: short in memory, so that nobody waits long for what a crash does.
const SECONDS_EMBEDDED: u64 = 3;
const SECONDS_REAL: u64 = 6;
/// Of the ensemble in memory: it grants session timeouts from 1 to 10 s.
const TICK: Duration = Duration::from_millis(500);

/// The options that say where an example plays.
#[derive(Args, Debug, Clone, Default)]
pub struct Ensemble {
    /// A real ensemble: `host:port`, more of them after commas, then `/root` if there is one; without it the example brings
    /// one of its own, in memory
    #[arg(long, env = "ZOOKEEPER_CONNECT", value_name = "HOSTS")]
    pub connect: Option<String>,
    /// Session timeout: how long a crashed participant is waited for [default: 6, or 3 in memory]
    #[arg(long, value_name = "SECONDS")]
    pub session_timeout: Option<u64>,
}

#[derive(Debug)]
enum Ground {
    /// In memory, in this process.
    Embedded(TestingServer),
    /// Where the connect string says.
    Real(String),
}

/// Where an example plays, and all clients in it.
#[derive(Debug)]
pub struct Stage {
    ground: Ground,
    session_timeout: Duration,
    clients: Mutex<Vec<Client>>,
}

impl Stage {
    /// Starts the ensemble, or notes where it is. Inside the runtime.
    pub fn new(options: &Ensemble) -> Stage {
        let (ground, usual) = match &options.connect {
            Some(hosts) => (Ground::Real(hosts.clone()), SECONDS_REAL),
            None => (Ground::Embedded(TestingServer::builder().tick_time(TICK).start()), SECONDS_EMBEDDED),
        };
        let session_timeout = Duration::from_secs(options.session_timeout.unwrap_or(usual));
        Stage { ground, session_timeout, clients: Mutex::default() }
    }

    /// The ensemble in memory, with its levers; none on a real one.
    pub fn embedded(&self) -> Option<&TestingServer> {
        match &self.ground {
            Ground::Embedded(server) => Some(server),
            Ground::Real(_) => None,
        }
    }

    /// For what takes several processes.
    ///
    /// # Errors
    /// If the ensemble is in memory, which other processes cannot see; `what` asked for it.
    pub fn needs_real(&self, what: &str) -> Result<()> {
        match &self.ground {
            Ground::Real(_) => Ok(()),
            Ground::Embedded(_) => Err(format!(
                "{what} needs a real ensemble, which other processes can see too: start one, for example with \
                 `docker run -d --rm --name zk -p 2181:2181 zookeeper:3.9`, and add `--connect localhost:2181` (or set \
                 ZOOKEEPER_CONNECT)"
            )
            .into()),
        }
    }

    /// A path that no other run uses.
    pub fn own_path(&self, base: &str) -> String {
        match &self.ground {
            Ground::Real(_) => format!("{base}-{}", std::process::id()),
            Ground::Embedded(_) => base.to_owned(),
        }
    }

    /// A client as the options want it.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub async fn connect(&self) -> Result<Client> {
        self.connect_as(|builder| builder).await
    }

    /// A client with further options.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub async fn connect_as(&self, options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Result<Client> {
        let builder = match &self.ground {
            Ground::Embedded(server) => Client::builder_for(server),
            Ground::Real(hosts) => Client::builder(hosts),
        };
        let client = options(builder.session_timeout(self.session_timeout)).connect().await?;
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client.clone());
        Ok(client)
    }

    /// Runs `work` in the process of the client: in memory it stands still while that client is frozen. Dropping what is
    /// returned ends the work at the await it is in.
    pub fn spawn<T: Send + 'static>(
        &self,
        client: &Client,
        work: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (wanted, unwanted) = oneshot::channel::<()>();
        let work = async move {
            tokio::select! {
                biased;
                _ = unwanted => None,
                outcome = work => Some(outcome),
            }
        };
        let working = match &self.ground {
            Ground::Embedded(server) => server.spawn(client, work).map_err(Error::from).boxed(),
            Ground::Real(_) => tokio::spawn(work).map_err(Error::from).boxed(),
        };
        Box::pin(async move {
            let outcome = working.await?;
            drop(wanted);
            outcome.ok_or_else(|| "the work was ended".into())
        })
    }

    /// Plays until the end, or until the program is asked to end (Ctrl-C, SIGTERM), or nobody reads what it prints; then every
    /// client is closed, and with it all that it still holds is given back.
    ///
    /// # Errors
    /// Of the scenario; or if a client could not be closed, or a task in memory panicked.
    pub async fn play(&self, scenario: impl Future<Output = Result<()>>) -> Result<()> {
        let played = tokio::select! {
            biased;
            asked = asked_to_end() => asked.map(|()| println!("\nAsked to end: everybody leaves.")),
            () = NOBODY_READS.notified() => Ok(()),
            played = scenario => played,
        };
        let closed = tokio::select! {
            biased;
            asked = asked_to_end() => asked.and_then(|()| Err("asked again: sessions end by their timeouts".into())),
            closed = self.close() => closed,
        };
        // Of two errors the first one tells more.
        played.and(closed)?;
        println!("\nDone.");
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        let clients = std::mem::take(&mut *self.clients.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(server) = self.embedded() {
            // Nothing that the scenario was in the middle of keeps a client from saying goodbye.
            server.heal();
            clients.iter().for_each(|client| server.thaw_client(client));
        }
        join_all(clients.iter().map(Client::close)).await.into_iter().collect::<Result<(), _>>()?;
        let panics = self.embedded().map(TestingServer::panics).unwrap_or_default();
        if !panics.is_empty() {
            return Err(format!("tasks panicked: {}", panics.join("; ")).into());
        }
        Ok(())
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ground {
            Ground::Embedded(_) => f.write_str("an ensemble in memory"),
            Ground::Real(hosts) => f.write_str(hosts),
        }
    }
}
