//! Keeps an instance registered, as long as it is wanted.

use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;
use zookeeper_recipes::persistent_node::NodeState;
use zookeeper_recipes::service_discovery::{Error, Registration, ServiceDiscovery, ServiceInstance};
use zookeeper_recipes::{Client, ErrorKind};

use super::health::Health;
use crate::connection::Connection;
use crate::ending::{Ending, Status};
use crate::output::note;

/// How long to wait before connecting again, and before registering again after the first failure; then twice as long
/// after each further one, up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// That the instance is registered as soon as its command can be used.
    Registered,
    /// That it gets no new work.
    Disabled,
    /// That it is not registered. Nothing else is wanted afterwards.
    Nothing,
}

/// What the servers have confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    Nothing,
    Registered,
    Disabled,
}

/// Keeps an instance registered.
pub struct Registrar<'a> {
    pub connection: &'a Connection,
    /// The path below which the services are.
    pub base: &'a str,
    pub instance: ServiceInstance<Value>,
    /// Whether to wait while another session has the id.
    pub waits: bool,
    pub health: Health,
    pub health_timeout: Duration,
    pub wanted: watch::Receiver<Wanted>,
    pub confirmed: watch::Sender<Confirmed>,
}

/// Why one client no longer keeps it registered.
enum End {
    NotWanted,
    /// The servers refuse it.
    Refused(Error),
    /// The client has ended, or the error may pass.
    Again(Error),
}

impl Registrar<'_> {
    /// Keeps it registered until it is not wanted any more. Returns how to end if it cannot be registered at all.
    pub async fn keep(&self) -> Result<(), Ending> {
        match self.while_wanted(self.health.wait(self.health_timeout)).await {
            None => return Ok(()),
            Some(healthy) => healthy.map_err(|why| Ending::because(Status::NotAcquired, why))?,
        }
        let (mut was_registered, mut pause) = (false, PAUSE);
        loop {
            let Some(client) = self.while_wanted(self.connect()).await else { return Ok(()) };
            let end = self.keep_with(&client, &mut was_registered).await;
            if self.confirmed.send_replace(Confirmed::Nothing) != Confirmed::Nothing {
                pause = PAUSE;
            }
            // The session ends by its timeout if no server is there.
            let _ = client.close().await;
            match end {
                End::NotWanted => return Ok(()),
                End::Refused(error) if !was_registered => return Err(refused(&error)),
                End::Refused(error) | End::Again(error) => note(format_args!("{error}; retrying")),
            }
            if self.while_wanted(sleep(pause)).await.is_none() {
                return Ok(());
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs a future while the instance is wanted.
    async fn while_wanted<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut wanted = self.wanted.clone();
        tokio::select! {
            biased;
            _ = wanted.wait_for(|wanted| *wanted == Wanted::Nothing) => None,
            done = work => Some(done),
        }
    }

    /// Opens a session, as long as it takes.
    async fn connect(&self) -> Client {
        let mut was_told = false;
        loop {
            match self.connection.open().await {
                Ok(client) => return client,
                Err(Ending::Status(_, Some(why))) if !std::mem::replace(&mut was_told, true) => {
                    note(format_args!("{why}; the command runs on, and is registered once a server can be reached"));
                }
                Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }

    async fn keep_with(&self, client: &Client, was_registered: &mut bool) -> End {
        let registration = match self.while_wanted(self.register(client)).await {
            None => return End::NotWanted,
            Some(Ok(registration)) => registration,
            Some(Err(error)) if may_pass(&error) => return End::Again(error),
            Some(Err(error)) => return End::Refused(error),
        };
        *was_registered = true;
        self.confirmed.send_replace(Confirmed::Registered);
        let path = registration.path();
        let mut told = Told::new(&path);
        let mut states = registration.state();
        told.tell(&states.get());
        let mut wanted = self.wanted.clone();
        loop {
            let now = *wanted.borrow_and_update();
            match now {
                Wanted::Registered => {}
                Wanted::Disabled => self.disable(&registration).await,
                Wanted::Nothing => {
                    return match registration.unregister().await {
                        Ok(()) => {
                            note(format_args!("{path}: unregistered"));
                            End::NotWanted
                        }
                        Err(error) => unregistered_by_close(error),
                    };
                }
            }
            tokio::select! {
                _ = wanted.changed() => {}
                state = states.changed() => match state {
                    Err(_) | Ok(NodeState::Closed) => return End::Again(Error::Closed { path: path.as_str().into() }),
                    Ok(state) => told.tell(&state),
                },
            }
        }
    }

    /// Registers it, and reports whom it waits for.
    async fn register(&self, client: &Client) -> Result<Registration<Value>, Error> {
        let discovery = ServiceDiscovery::new(client, self.base)?;
        let is_enabled = *self.wanted.borrow() == Wanted::Registered;
        // What has to become healthy first is registered later than it was described.
        let instance = || self.instance.to_builder().registration_time(SystemTime::now()).enabled(is_enabled).build();
        match discovery.register(instance()?).await {
            Err(Error::Taken { path, session }) if self.waits => {
                note(format_args!("{path}: session {session:#x} has registered this id; waiting for its end"));
                let discovery = ServiceDiscovery::builder(client, self.base).wait().build()?;
                discovery.register(instance()?).await
            }
            registered => registered,
        }
    }

    /// Disables it, unless that is confirmed.
    async fn disable(&self, registration: &Registration<Value>) {
        if *self.confirmed.borrow() == Confirmed::Disabled {
            return;
        }
        match self.while_wanted(registration.set_enabled(false)).await {
            Some(Ok(())) => drop(self.confirmed.send_replace(Confirmed::Disabled)),
            Some(Err(error)) => note(format_args!("it could not be disabled: {error}")),
            None => {}
        }
    }
}

/// The node of a closed client ends with its session.
fn unregistered_by_close(error: Error) -> End {
    if error.kind() != ErrorKind::Closed {
        note(format_args!("{error}; the instance ends with the session"));
    }
    End::NotWanted
}

/// What was said of the node.
struct Told<'a> {
    path: &'a str,
    last: String,
}

impl<'a> Told<'a> {
    fn new(path: &'a str) -> Told<'a> {
        Told { path, last: String::new() }
    }

    /// Notes a state that differs from the last one.
    fn tell(&mut self, state: &NodeState) {
        if std::mem::replace(&mut self.last, state.to_string()) != self.last {
            note(format_args!("{}: {}", self.path, text(state)));
        }
    }
}

fn text(state: &NodeState) -> String {
    match state {
        NodeState::Present => "registered".to_owned(),
        NodeState::OtherKind => "registered; the node existed already, and does not end with the session".to_owned(),
        NodeState::Creating => "no longer registered; registering again".to_owned(),
        NodeState::Waiting => "another session has registered this id; waiting for its end".to_owned(),
        NodeState::Suspended => "no connection to the servers; the command runs on".to_owned(),
        NodeState::Failed(error) => format!("{error}; retrying"),
        _ => state.to_string(),
    }
}

/// Returns whether another attempt may succeed without a change by an operator. The end of another session may take as
/// long as its process runs.
fn may_pass(error: &Error) -> bool {
    !matches!(error, Error::Taken { .. }) && (error.is_retryable() || error.kind() == ErrorKind::Closed)
}

/// Returns how to end if the servers refuse the instance.
fn refused(error: &Error) -> Ending {
    // The library's text names the setting of its builder.
    let why = error.to_string().replace("with ServiceDiscoveryBuilder::wait", "with --wait");
    Ending::failed(why)
}
