//! The options of an assigner.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::PartitionAssigner;
use super::changes::{Channel, Interest};
use super::error::Error;
use super::events::Publisher;
use super::leader::{Leader, Options};
use super::member::registration::Registrar;
use super::member::{Member, MemberOptions, Registration};
use super::name::check_member;
use super::partitions::{self, Partitions, Source};
use super::strategy::Strategy;
use crate::client::task::Task;
use crate::client::{self, Client};
use crate::engine;
use crate::layout::partition_assigner::Paths;
use crate::layout::partition_assigner::Presence;
use crate::leader_latch::LeaderLatch;
use crate::metrics::{Label, table};
use crate::recipes::elected;
use crate::recipes::error::from_recipe;
use crate::util::path::{quoted, validate};

/// How long the options of a member may be, as JSON.
const MOST_PRESENCE_BYTES: usize = 16_384;

/// The options of a member of an assigner; see [`PartitionAssigner::builder`].
///
/// The partitions, the strategy, the debounce and the delay concern the whole cluster: the leader's settings apply.
/// Give all candidates the same ones.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use zookeeper_recipes::Client;
/// # let client = Client::builder("localhost:2181").connect().await?;
/// use std::time::Duration;
///
/// use zookeeper_recipes::partition_assigner::PartitionAssigner;
///
/// let member = PartitionAssigner::builder(&client, "/jobs/partitions")
///     .partitions(0..256)
///     .id("worker-3")
///     .weight(2)
///     .label("rack", "b")
///     .rebalance_delay(Duration::from_secs(60))
///     .join()
///     .await?;
/// # member.leave().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before join()"]
pub struct PartitionAssignerBuilder {
    client: Client,
    base: String,
    id: Option<String>,
    presence: Presence,
    grace_period: Duration,
    candidate: bool,
    partitions: Option<Partitions>,
    strategy: Strategy,
    debounce: (Duration, Duration),
    rebalance_delay: Duration,
}

impl PartitionAssignerBuilder {
    pub(super) fn new(client: &Client, base: String) -> Self {
        PartitionAssignerBuilder {
            client: client.clone(),
            base,
            id: None,
            presence: Presence { weight: 1, capacity: None, labels: BTreeMap::new() },
            grace_period: Duration::from_secs(5),
            candidate: true,
            partitions: None,
            strategy: Strategy::default(),
            debounce: (Duration::from_millis(200), Duration::from_millis(500)),
            rebalance_delay: Duration::ZERO,
        }
    }

    /// Sets the partitions: numbers, names, or a node that operators change. A candidate must know them.
    ///
    /// When a leader with another set takes over, the partitions that its set lacks are revoked from their owners.
    pub fn partitions(mut self, partitions: impl Into<Partitions>) -> Self {
        self.partitions = Some(partitions.into());
        self
    }

    /// Sets the id of this member, for example the name of its host. By default it is random.
    ///
    /// Only one member may have an id at a time: a second one gets nothing while the first is present. A member that
    /// comes back with the same id, after a restart, gets what it had if that is still
    /// [reserved](Self::rebalance_delay) for it. Operators pin partitions to ids.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets how many partitions this member gets compared with the others. At least 1, which is the default.
    pub fn weight(mut self, weight: u64) -> Self {
        self.presence.weight = weight;
        self
    }

    /// Sets how many partitions this member takes at most. Default: no limit.
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.presence.capacity = Some(capacity);
        self
    }

    /// Adds a label, for example a rack or a version. A [strategy](Self::strategy) may consider it. Together they may
    /// have 16 384 bytes: each leader reads those of all members.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.presence.labels.insert(key.into(), value.into());
        self
    }

    /// Sets how long a partition may still be held after another member is to get it, for the work that is under way.
    /// Default 5 s. The new owner gets it as soon as it is released. Above ten seconds,
    /// [`Event::Unreleased`](super::Event::Unreleased) also reports work that ends in time.
    pub fn grace_period(mut self, grace_period: Duration) -> Self {
        self.grace_period = grace_period;
        self
    }

    /// Sets whether this member may lead. Default `true`.
    ///
    /// Each candidate that joins lists all candidates, so with thousands of members, let a few dozen be candidates.
    /// While there is no candidate, nothing is assigned.
    pub fn candidate(mut self, candidate: bool) -> Self {
        self.candidate = candidate;
        self
    }

    /// Sets how partitions are assigned. Default [`Strategy::Sticky`].
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets how long the leader waits when members join and leave. It decides when no member has joined or left for
    /// `quiet`, and at the latest after `at_most`. Default 200 ms and 500 ms. What operators change is applied at once.
    pub fn debounce(mut self, quiet: Duration, at_most: Duration) -> Self {
        self.debounce = (quiet, at_most);
        self
    }

    /// Sets for how long the partitions of a member that vanished stay reserved for it. Default zero: others get them
    /// at once. No member works on them meanwhile.
    ///
    /// With a delay longer than a restart takes, and an [id](Self::id) that stays the same, a rolling restart moves
    /// nothing: end each process with
    /// [`leave_for_restart`](super::PartitionAssigner::leave_for_restart). A member that
    /// [leaves](super::PartitionAssigner::leave) is not waited for.
    pub fn rebalance_delay(mut self, delay: Duration) -> Self {
        self.rebalance_delay = delay;
        self
    }

    /// Becomes a member: takes part in the election, if it is a [candidate](Self::candidate), and registers.
    ///
    /// Returns when both are done. The first partitions come soon after, if there are any for this member.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a set of partitions that is missing, empty or too large, or names a partition
    /// twice; for an id that is empty, contains a slash, or is longer than 256 bytes; for a weight of zero, labels
    /// above 16 384 bytes, or a debounce whose limit is below its quiet time. [`Error::ForeignPath`] if kazoo's
    /// `SetPartitioner` uses the path. [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath)
    /// for a malformed path, and if the ensemble refuses. [`Error::Closed`] if the client is closed. While there is no
    /// connection, the call waits for one, without a limit.
    ///
    /// # Cancel safety
    /// If the future is dropped before it returns, the part of the member that exists leaves in the background.
    pub async fn join(self) -> Result<PartitionAssigner, Error> {
        let (paths, source) = self.validate()?;
        let core = Arc::clone(self.client.core());
        let registrar = Registrar { core: Arc::clone(&core), paths: Arc::new(paths) };
        let held = core.meter().level(&table::PARTITIONS_HELD, &[Label::Path(&self.base)]);
        let interest = Interest(Arc::new(Channel::new(held)));
        registrar.prepare().await?;
        let id = self.id.clone().unwrap_or_else(|| core.random.uuid().to_string());
        let latch = match source {
            Some(source) => Some((self.join_election(&registrar.paths, &id).await?, source)),
            None => None,
        };
        let assigner = self.start(registrar, latch, id, interest);
        assigner.registered().await?;
        Ok(assigner)
    }

    /// Checks all options. Returns the partitions of a candidate.
    fn validate(&self) -> Result<(Paths, Option<Source>), Error> {
        self.client.open_path(&self.base).map_err(|error| Error::client(&self.base, error))?;
        let bad = |why| Err(Error::invalid(&self.base, why));
        if let Some(id) = &self.id {
            check_member(id).map_err(|why| Error::invalid(&self.base, why))?;
        }
        if self.presence.weight == 0 {
            return bad("a weight of 0; must be at least 1".into());
        }
        let bytes = self.presence.bytes().len();
        if bytes > MOST_PRESENCE_BYTES {
            return bad(format!("labels of {bytes} bytes as JSON; at most {MOST_PRESENCE_BYTES} are allowed"));
        }
        let (quiet, at_most) = self.debounce;
        if at_most < quiet {
            return bad(format!(
                "a debounce of at most {at_most:?} with a quiet time of {quiet:?}; must be at least that"
            ));
        }
        let core = self.client.core();
        let source = match &self.partitions {
            Some(Partitions(source)) => {
                let checked = match source {
                    Source::Node(path) => {
                        validate(path).map_err(|error| format!("the node of the partitions {}: {error}", quoted(path)))
                    }
                    source => partitions::names(source, core.config.max_request_bytes).map(drop),
                };
                checked.map_err(|why| Error::invalid(&self.base, why))?;
                Some(source.clone())
            }
            None if self.candidate => {
                return bad("no partitions; a candidate must know them: see partitions(..)".into());
            }
            None => None,
        };
        let paths = Paths::new(&self.base, |path| core.full_path(path));
        Ok((paths, source.filter(|_| self.candidate)))
    }

    /// Takes part in the election. Returns when the latch has a node.
    async fn join_election(&self, paths: &Paths, id: &str) -> Result<Arc<LeaderLatch>, Error> {
        let latch = LeaderLatch::builder(&self.client, paths.latch.as_str()).id(id).start();
        let latch = latch.map_err(|error| Error::latch(&self.base, error))?;
        elected::entered(&latch).await.map_err(|error| Error::latch(&self.base, error))?;
        Ok(Arc::new(latch))
    }

    /// Starts the task of the member, and for a candidate the task of the leader.
    fn start(
        self,
        registrar: Registrar,
        latch: Option<(Arc<LeaderLatch>, Source)>,
        id: String,
        interest: Interest,
    ) -> PartitionAssigner {
        let core = Arc::clone(&registrar.core);
        let events = Publisher::new(&core, &self.base);
        let (stop, stopped) = watch::channel(None);
        let registration = watch::Sender::new(Registration::default());
        let member = Member {
            registrar: registrar.clone(),
            options: MemberOptions { id: id.clone(), presence: self.presence, grace_period: self.grace_period },
            channel: Arc::clone(&interest.0),
            events: events.clone(),
            registration: registration.clone(),
            stop: stopped,
            wake: Arc::new(Notify::new()),
            delays: Member::delays(),
            _keep_alive: core.keep_alive(),
        };
        let (latch, source) = latch.unzip();
        if let (Some(latch), Some(source)) = (&latch, source) {
            let (quiet, at_most) = self.debounce;
            let leader = Leader {
                registrar: registrar.clone(),
                latch: Arc::clone(latch),
                options: Options {
                    source,
                    strategy: self.strategy,
                    quiet,
                    at_most,
                    rebalance_delay: self.rebalance_delay,
                },
                events: events.clone(),
            };
            core.runtime.spawn(elected::run(leader, Arc::clone(latch)));
        }
        let leaving = latch.clone();
        let task = Task::spawn(&core.runtime, async move {
            member.run().await;
            // After the member's own nodes are deleted, so that the next leader does not find them.
            if let Some(latch) = leaving {
                elected::close(&latch).await;
            }
        });
        PartitionAssigner {
            id,
            registrar,
            latch,
            interest,
            events,
            registration,
            stop,
            is_running: AtomicBool::new(false),
            task,
        }
    }
}

impl Registrar {
    /// Creates the directories the way this recipe needs them, before the latch creates them its own way. Refuses a
    /// path that another library uses.
    async fn prepare(&self) -> Result<(), Error> {
        let base = &self.paths.base;
        loop {
            let session = self.core.connected_session().await.map_err(|error| Error::client(base, error))?;
            let prepare = || async {
                let foreign = self.foreign(&session).await?;
                if foreign.is_none() {
                    self.directories(&session).await?;
                }
                Ok(foreign)
            };
            match session.retry_while_transient(prepare).await {
                Ok(None) => return Ok(()),
                Ok(Some(node)) => return Err(Error::ForeignPath { path: base.as_str().into(), node: node.into() }),
                // Continue with the next session.
                Err(engine::Error::SessionEnded) => {}
                Err(error) => return Err(Error::client(base, client::Error::from_engine("join", base, error))),
            }
        }
    }
}

impl Error {
    from_recipe! { latch: leader_latch }
}
