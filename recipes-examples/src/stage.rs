//! Where an example plays: on an ensemble of its own in memory, or on a real one.

use std::fmt;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, Shared, TryFutureExt, join_all};
use tokio::sync::oneshot;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ClientBuilder};

use crate::ending::{OUTPUT_CLOSED, asked_to_end};
use crate::{Ensemble, Error, Result, println};

/// The tick of the ensemble in memory: it grants session timeouts from 1 to 10 s.
const TICK: Duration = Duration::from_millis(500);

/// Resolves when the program is asked to end.
pub type Asked = Shared<BoxFuture<'static, ()>>;

/// Why a second request to end is an error.
const ASKED_AGAIN: &str = "asked to end a second time: sessions expire by their timeouts";

#[derive(Debug)]
enum Location {
    /// In memory, in this process.
    Embedded(TestingServer),
    /// At this connect string.
    Real(String),
}

/// Where an example plays, and all clients in it.
#[derive(Debug)]
pub struct Stage {
    location: Location,
    session_timeout: Duration,
    clients: Mutex<Vec<Client>>,
}

impl Stage {
    /// Starts the ensemble in memory, or notes where the real one is. Must be called inside the runtime.
    pub fn new(options: &Ensemble) -> Stage {
        let location = match &options.connect {
            Some(hosts) => Location::Real(hosts.clone()),
            None => Location::Embedded(TestingServer::builder().tick_time(TICK).start()),
        };
        Stage { location, session_timeout: options.session_timeout(), clients: Mutex::default() }
    }

    /// Returns the ensemble in memory, which can inject failures; `None` on a real one.
    pub fn embedded(&self) -> Option<&TestingServer> {
        match &self.location {
            Location::Embedded(server) => Some(server),
            Location::Real(_) => None,
        }
    }

    /// Returns a path that no other run uses.
    pub fn own_path(&self, base: &str) -> String {
        match &self.location {
            Location::Real(_) => format!("{base}-{}", std::process::id()),
            Location::Embedded(_) => base.to_owned(),
        }
    }

    /// Connects a client with the session timeout of the options.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub async fn connect(&self) -> Result<Client> {
        self.connect_as(|builder| builder).await
    }

    /// Connects a client with further options.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub async fn connect_as(&self, options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Result<Client> {
        let builder = match &self.location {
            Location::Embedded(server) => Client::builder_for_testing(server),
            Location::Real(hosts) => Client::builder(hosts),
        };
        let client = options(builder.session_timeout(self.session_timeout)).connect().await?;
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client.clone());
        Ok(client)
    }

    /// Runs `work` in the process of the client: in memory, it stops while that client is frozen. Dropping the returned
    /// future cancels the work at its current await.
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
        let working = match &self.location {
            Location::Embedded(server) => server.spawn(client, work).map_err(Error::from).boxed(),
            Location::Real(_) => tokio::spawn(work).map_err(Error::from).boxed(),
        };
        Box::pin(async move {
            let outcome = working.await?;
            drop(wanted);
            outcome.ok_or_else(|| "the work was ended".into())
        })
    }

    /// Plays `scenario` until it ends, until the program is asked to end (Ctrl-C, SIGTERM), or until the reader of its
    /// output closes it. Then closes every client, which releases everything that the client still holds.
    ///
    /// # Errors
    /// Those of the scenario; or if a client could not be closed, or a task in memory panicked.
    pub async fn play(&self, scenario: impl Future<Output = Result<()>>) -> Result<()> {
        let played = tokio::select! {
            biased;
            asked = asked_to_end() => asked.map(|()| println!("\nAsked to end: all clients close.")),
            () = OUTPUT_CLOSED.notified() => Ok(()),
            played = scenario => played,
        };
        self.end(played).await
    }

    /// Plays as [`play`](Self::play) does, but only notifies the scenario when the program is asked to end, so that it
    /// can finish the work in hand. If the program is asked again, it ends at once.
    ///
    /// # Errors
    /// As [`play`](Self::play); or if the program was asked twice.
    pub async fn play_until_asked<F>(&self, scenario: impl FnOnce(Asked) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let (ask, asked) = oneshot::channel::<()>();
        let mut playing = pin!(scenario(asked.map(drop).boxed().shared()));
        let played = tokio::select! {
            biased;
            asked = asked_to_end() => asked.map(|()| {
                println!("\nAsked to end: the work in hand is finished first (Ctrl-C again to end at once).");
                None
            }),
            () = OUTPUT_CLOSED.notified() => Ok(None),
            played = &mut playing => played.map(Some),
        };
        let played = match played {
            Ok(None) => {
                // The scenario holds the other end until it has ended.
                let _ = ask.send(());
                tokio::select! {
                    biased;
                    asked = asked_to_end() => return asked.and_then(|()| Err(ASKED_AGAIN.into())),
                    played = playing => played,
                }
            }
            played => played.map(drop),
        };
        self.end(played).await
    }

    async fn end(&self, played: Result<()>) -> Result<()> {
        let closed = tokio::select! {
            biased;
            asked = asked_to_end() => asked.and_then(|()| Err(ASKED_AGAIN.into())),
            closed = self.close() => closed,
        };
        // If there are two errors, the first one is more useful.
        played.and(closed)?;
        println!("\nDone.");
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        let clients = std::mem::take(&mut *self.clients.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(server) = self.embedded() {
            // A failure that the scenario has injected must not keep a client from closing its session.
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
        match &self.location {
            Location::Embedded(_) => f.write_str("an ensemble in memory"),
            Location::Real(hosts) => f.write_str(hosts),
        }
    }
}
