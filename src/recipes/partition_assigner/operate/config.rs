//! Writes the configuration of an assigner.

use std::sync::Arc;

use super::super::error::Error;
use super::edit::Edit;
use crate::client::core::Core;
use crate::client::ops::{MAYBE_DONE, outcome_unknown};
use crate::client::session::Session;
use crate::client::{self, Client, ErrorKind, parents};
use crate::engine;
use crate::layout::partition_assigner::Config;
use crate::layout::partition_assigner::Paths;
use crate::util::path::{self, quoted_bytes};
use crate::util::znode::CreateMode;

/// What a request does, in errors.
const DOING: &str = "change the configuration of";
/// How many writes are sent at most while other clients write first.
const ATTEMPTS: usize = 32;
/// Stands for the version of a node that does not exist. A node that is created gets the version after it.
const MISSING: i32 = -1;

/// Pins a partition of the assigner at `base` to a member: the leader assigns it to this member whenever the member is
/// present, whatever the strategy says. A previous pin of the partition is replaced.
///
/// This is for operators, who need not be members. The partition and the member need not exist yet. The leader acts at
/// once; the partition moves once its present owner has handed it over. A partition that is reserved for an absent
/// member moves when its delay is over; see [`rebalance`].
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::partition_assigner::{pin, unpin};
///
/// let client = Client::builder("localhost:2181").connect().await?;
/// pin(&client, "/my-service/jobs", "7", "worker-1").await?;
/// assert!(unpin(&client, "/my-service/jobs", "7").await?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::InvalidOption`] if the partition or the member cannot be the name of a node. [`Error::InvalidNode`] if what
/// is in `<base>/config` cannot be read; then nothing is written. [`Error::Client`]: with [`ErrorKind::InvalidPath`]
/// for a malformed path, with [`ErrorKind::OutcomeUnknown`] if no answer came and no later read shows whether the write
/// was carried out, with [`ErrorKind::ConnectionLoss`] if there is no connection in time, with
/// [`ErrorKind::BadVersion`] if other clients write all the time.
///
/// # Cancel safety
/// Once polled, the write is carried out in the background, even if the future is dropped.
pub async fn pin(client: &Client, base: &str, partition: &str, member: &str) -> Result<(), Error> {
    let edit = Edit::Pin { partition: partition.into(), member: member.to_owned() };
    change(client, base, edit).await.map(drop)
}

/// Removes the pin of a partition, so that the strategy decides again which member has it. Returns whether there was
/// one.
///
/// This is for operators, who need not be members. The leader acts at once. For an example see [`pin`].
///
/// # Errors
/// As [`pin`].
///
/// # Cancel safety
/// Once polled, the write is carried out in the background, even if the future is dropped.
pub async fn unpin(client: &Client, base: &str, partition: &str) -> Result<bool, Error> {
    change(client, base, Edit::Unpin { partition: partition.into() }).await
}

/// Drains a member: the leader moves what it has to the others, and assigns nothing to it, until [`undrain`]. This also
/// holds while the member is away, and when it comes back.
///
/// This is for operators, who need not be members. The member need not exist yet. The leader acts at once.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::partition_assigner::{drain, undrain};
///
/// let client = Client::builder("localhost:2181").connect().await?;
/// drain(&client, "/my-service/jobs", "worker-1").await?;
/// // ... update its machine ...
/// undrain(&client, "/my-service/jobs", "worker-1").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`pin`].
///
/// # Cancel safety
/// Once polled, the write is carried out in the background, even if the future is dropped.
pub async fn drain(client: &Client, base: &str, member: &str) -> Result<(), Error> {
    change(client, base, Edit::Drain { member: member.to_owned() }).await.map(drop)
}

/// Lets a member have partitions again. Returns whether it was drained.
///
/// This is for operators, who need not be members. The leader acts at once. For an example see [`drain`].
///
/// # Errors
/// As [`pin`].
///
/// # Cancel safety
/// Once polled, the write is carried out in the background, even if the future is dropped.
pub async fn undrain(client: &Client, base: &str, member: &str) -> Result<bool, Error> {
    change(client, base, Edit::Undrain { member: member.to_owned() }).await
}

/// Asks the leader to move at once what absent members had, rather than after the rebalance delay.
///
/// This is for operators, who need not be members. If another client asks for the same during the call, that request
/// may stand for this one. A leader that takes over later does not know of it: if the leader was among the members that
/// are gone, ask again when another one leads.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::partition_assigner::rebalance;
///
/// let client = Client::builder("localhost:2181").connect().await?;
/// rebalance(&client, "/my-service/jobs").await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`pin`].
///
/// # Cancel safety
/// Once polled, the write is carried out in the background, even if the future is dropped.
pub async fn rebalance(client: &Client, base: &str) -> Result<(), Error> {
    change(client, base, Edit::Rebalance).await.map(drop)
}

/// Makes a change in the background. Returns whether the configuration was not already like that.
async fn change(client: &Client, base: &str, edit: Edit) -> Result<bool, Error> {
    path::validate(base).map_err(|error| Error::client(base, error.into()))?;
    edit.check().map_err(|why| Error::invalid(base, why))?;
    let core = client.core();
    let (core, paths) = (Arc::clone(core), Paths::new(base, |path| core.full_path(path)));
    let (done, outcome) = tokio::sync::oneshot::channel();
    let runtime = core.runtime.clone();
    runtime.spawn(async move {
        let outcome = Write::new(&core, &paths, &edit).carry_out().await;
        if let Err(Err(error)) = done.send(outcome) {
            tracing::warn!(
                event = "assigner_not_changed",
                path = paths.base,
                ?edit,
                %error,
                kind = ?error.kind(),
                "a change of an assigner failed, and its caller is gone"
            );
        }
    });
    // A task that ended without an outcome ended with its runtime.
    outcome.await.unwrap_or_else(|_| Err(Error::closed(base)))
}

/// A change under way.
///
/// Each write is at the version just read. So after a lost answer a read shows whether the write was carried out, and a
/// copy of it that is still under way is refused once another write was carried out.
struct Write<'a> {
    core: &'a Core,
    paths: &'a Paths,
    edit: &'a Edit,
    /// The first configuration that was read.
    first: Option<First>,
    /// The version at which the answer to a write was lost.
    lost_at: Option<i32>,
    /// How many writes were refused, or had an answer that could not be read.
    attempts: usize,
}

/// What is remembered of the first configuration that was read.
#[derive(Clone, Copy)]
struct First {
    rebalances: u64,
    /// Whether the change was not made before.
    is_new: bool,
}

/// What follows from a read.
enum Next {
    /// The configuration is as it should be.
    Done,
    /// Write this, at the version that was read.
    Write(Vec<u8>),
}

impl<'a> Write<'a> {
    fn new(core: &'a Core, paths: &'a Paths, edit: &'a Edit) -> Self {
        Write { core, paths, edit, first: None, lost_at: None, attempts: 0 }
    }

    /// Reads and writes until the configuration is as it should be. Returns whether it was not before.
    async fn carry_out(mut self) -> Result<bool, Error> {
        loop {
            let session = match self.core.session_in_time(DOING, &self.paths.base).await {
                Ok(session) => session,
                Err(_) if self.lost_at.is_some() => return Err(self.client(outcome_unknown(DOING, &self.paths.base))),
                Err(error) => return Err(self.client(error)),
            };
            let Ok(connection) = session.connected().await else { continue };
            let (version, data) = match session.get_data_synced(&self.paths.config).await {
                Ok((data, stat)) => (stat.version, data),
                Err(engine::Error::NoNode) => (MISSING, Vec::new()),
                Err(error) => {
                    self.pass_over(&session, connection, error).await?;
                    continue;
                }
            };
            let data = match self.next(version, &data)? {
                Next::Done => return Ok(self.first.is_some_and(|first| first.is_new)),
                Next::Write(data) => data,
            };
            match self.write(&session, version, &data).await {
                Ok(()) => return Ok(true),
                // Perhaps by a write of ours that has lost its answer: the next read shows it.
                Err(engine::Error::BadVersion | engine::Error::NodeExists | engine::Error::NoNode) => {
                    self.count_attempt()?;
                }
                Err(error) if error.is_transient() => {
                    if error.leaves_outcome_unknown() {
                        self.lost_at = Some(version);
                    }
                    self.pass_over(&session, connection, error).await?;
                }
                // The answer cannot be read, but the connection stays.
                Err(error) if error.leaves_outcome_unknown() => {
                    self.lost_at = Some(version);
                    self.count_attempt()?;
                }
                Err(error) => return Err(self.refused(error)),
            }
        }
    }

    /// Decides what follows from the data at this version.
    fn next(&mut self, version: i32, data: &[u8]) -> Result<Next, Error> {
        let mut config = Config::parse(data).map_err(|why| Error::InvalidNode {
            path: self.paths.base.as_str().into(),
            why: format!("config: {why}"),
        })?;
        let rebalances = config.rebalances;
        let since = self.first.map_or(rebalances, |first| first.rebalances);
        let is_visible = self.edit.is_visible(&config, since);
        self.first.get_or_insert(First { rebalances, is_new: !is_visible });
        if is_visible {
            return Ok(Next::Done);
        }
        if let Some(lost_at) = self.lost_at
            && version != lost_at
        {
            let writes = i64::from(version) - i64::from(lost_at);
            if version != MISSING && !self.edit.is_refused(&config, since, writes) {
                let why = format!("no answer came, and by now others have set it to {}", quoted_bytes(data));
                return Err(self.client(client::Error::at(ErrorKind::OutcomeUnknown, DOING, &self.paths.base, why)));
            }
            self.lost_at = None;
        }
        self.edit.apply(&mut config);
        let data = config.bytes();
        self.core.check_data(DOING, &self.paths.base, &data).map_err(|error| self.client(error))?;
        Ok(Next::Write(data))
    }

    /// Writes the data at this version, or creates the node, with the directories above it.
    async fn write(&self, session: &Arc<Session>, version: i32, data: &[u8]) -> Result<(), engine::Error> {
        let (at, acls) = (&self.paths.config, &self.core.config.acls);
        if version != MISSING {
            return session.set_data(at, data, Some(version)).await.map(drop);
        }
        match session.create(at, data, CreateMode::Persistent, acls).await {
            Err(engine::Error::NoNode) => {
                parents::create_persistent(session, &self.paths.root, acls).await?;
                session.create(at, data, CreateMode::Persistent, acls).await.map(drop)
            }
            outcome => outcome.map(drop),
        }
    }

    /// Waits for the next connection after an error that the loss of one causes. Returns any other error.
    async fn pass_over(&self, session: &Session, connection: u64, error: engine::Error) -> Result<(), Error> {
        if !error.is_transient() {
            return Err(self.refused(error));
        }
        let _ = session.wait_to_reconnect(connection).await;
        Ok(())
    }

    /// Counts a write that was refused because another client has written first, or whose answer could not be read.
    fn count_attempt(&mut self) -> Result<(), Error> {
        self.attempts += 1;
        if self.attempts < ATTEMPTS {
            return Ok(());
        }
        let why = format!("other clients have written first {ATTEMPTS} times");
        Err(self.failed(client::Error::at(ErrorKind::BadVersion, DOING, &self.paths.base, why)))
    }

    fn refused(&self, error: engine::Error) -> Error {
        self.failed(client::Error::from_engine(DOING, &self.paths.base, error))
    }

    /// Returns the error of a call that ends here. Unless a write has lost its answer, nothing was written.
    fn failed(&self, error: client::Error) -> Error {
        self.client(if self.lost_at.is_some() { error.outcome_unknown(MAYBE_DONE) } else { error })
    }

    fn client(&self, error: client::Error) -> Error {
        Error::client(&self.paths.base, error)
    }
}
