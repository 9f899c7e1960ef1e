//! The options of a balancer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::allocation::{self, Allocation};
use super::error::Error;
use super::events::Publisher;
use super::leader::Leader;
use super::member::limiter::Limited;
use super::member::registration::Registrar;
use super::member::{Member, MemberOptions, Registration};
use super::share::{Channel, Interest, OnSuspended};
use super::{Options, ThroughputBalancer};
use crate::client::task::Task;
use crate::client::{self, Client};
use crate::engine;
use crate::layout::throughput_balancer::Paths;
use crate::leader_latch::LeaderLatch;
use crate::limiter::ShareLimiter;
use crate::metrics::{Label, table};
use crate::recipes::elected;

/// The longest id. Each leader reads the records of all members.
const MOST_ID_BYTES: usize = 256;

/// The options of a member of a balancer; see [`ThroughputBalancer::builder`].
///
/// Allocation and debounce concern the whole cluster: the leader's settings apply. Give all candidates the same ones.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use zookeeper_recipes::Client;
/// # let client = Client::builder("localhost:2181").connect().await?;
/// use zookeeper_recipes::throughput_balancer::{
///     Allocation, OnSuspended, ThroughputBalancer,
/// };
///
/// let member = ThroughputBalancer::builder(&client, "/my-service/throughput")
///     .allocation(Allocation::FairShare)
///     .weight(2)
///     .max(500)
///     .on_suspended(OnSuspended::AtMost(10))
///     .join()
///     .await?;
/// # member.leave().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before join()"]
pub struct ThroughputBalancerBuilder {
    client: Client,
    base: String,
    weight: u64,
    min: u64,
    max: Option<u64>,
    label: Option<String>,
    on_suspended: OnSuspended,
    candidate: bool,
    limiter: Option<ShareLimiter>,
    options: Options,
}

impl ThroughputBalancerBuilder {
    pub(super) fn new(client: &Client, base: String) -> Self {
        ThroughputBalancerBuilder {
            client: client.clone(),
            base,
            weight: 1,
            min: 0,
            max: None,
            label: None,
            on_suspended: OnSuspended::default(),
            candidate: true,
            limiter: None,
            options: Options::default(),
        }
    }

    /// Sets the id by which operators know this member, for example the name of its host.
    /// [`members`](super::members()), events, logs and metrics show it. By default there is none, and they show the
    /// name of its node.
    ///
    /// The id is only for display. It need not be unique, and it does not affect shares.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.label = Some(id.into());
        self
    }

    /// Sets how much this member counts compared with the others. At least 1, which is the default.
    ///
    /// Only an [`allocation`](Self::allocation) that uses weights considers it; the default allocation does not. Like
    /// [`min`](Self::min) and [`max`](Self::max), the weight is fixed until the member leaves. To change it, leave and
    /// join again.
    pub fn weight(mut self, weight: u64) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the least that this member should have, if the allocation considers bounds. Default 0.
    pub fn min(mut self, min: u64) -> Self {
        self.min = min;
        self
    }

    /// Sets the most that this member can use, if the allocation considers bounds. Default: no limit.
    pub fn max(mut self, max: u64) -> Self {
        self.max = Some(max);
        self
    }

    /// Sets what this member applies when the connection is in doubt or the lease is over. Default
    /// [`OnSuspended::Zero`].
    pub fn on_suspended(mut self, policy: OnSuspended) -> Self {
        self.on_suspended = policy;
        self
    }

    /// Sets whether this member may lead. Default `true`.
    ///
    /// Each candidate that joins lists all candidates, so with thousands of members, let a few dozen be candidates.
    /// While there is no candidate, no share changes, even if the maximum is lowered.
    pub fn candidate(mut self, candidate: bool) -> Self {
        self.candidate = candidate;
        self
    }

    /// Sets the limiter that grants this member's share, in permits a second, while the share is valid. Default: none.
    ///
    /// The limiter switches to a share before any listener receives it. So a lowered share is acknowledged only after
    /// the limiter grants no more than that. The limiter compares the clock itself: when the lease is over, it drops to
    /// what [`on_suspended`](Self::on_suspended) says, even if no task of the process has run since. It drops to 0 at
    /// once when the member leaves or is dropped. A task that waits for a permit keeps waiting for the next share;
    /// after the member has left, it waits until other code sets a rate or the limiter is
    /// [closed](ShareLimiter::close).
    ///
    /// From [`join`](Self::join) on, the member sets the rate: first 0, whatever the rate was before. Until the member
    /// leaves, no other code can set it ([`limiter::Error::Driven`](crate::limiter::Error::Driven)), and no other
    /// member can use the limiter. If the limiter is closed meanwhile, it grants nothing, and the member holds its
    /// share without using it: let the member leave.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # use zookeeper_recipes::Client;
    /// # let client = Client::builder("localhost:2181").connect().await?;
    /// use zookeeper_recipes::limiter::ShareLimiter;
    /// use zookeeper_recipes::throughput_balancer::ThroughputBalancer;
    ///
    /// let limiter = ShareLimiter::new(0);
    /// let member = ThroughputBalancer::builder(&client, "/my-service/throughput")
    ///     .limiter(&limiter)
    ///     .join()
    ///     .await?;
    /// loop {
    ///     limiter.acquire(1).await?;
    ///     // ... one piece of work ...
    /// #   break;
    /// }
    /// member.leave().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn limiter(mut self, limiter: &ShareLimiter) -> Self {
        self.limiter = Some(limiter.clone());
        self
    }

    /// Sets how the maximum is divided. Default [`Allocation::Equal`].
    pub fn allocation(mut self, allocation: Allocation) -> Self {
        self.options.allocation = allocation;
        self
    }

    /// Sets how long the leader waits when members join and leave. It decides when no member has joined or left for
    /// `quiet`, and at the latest after `at_most`. Default 200 ms and 500 ms.
    ///
    /// With zero, it decides at once. It always applies a change of the maximum at once, and a new leader decides at
    /// once.
    pub fn debounce(mut self, quiet: Duration, at_most: Duration) -> Self {
        (self.options.quiet, self.options.at_most) = (quiet, at_most);
        self
    }

    /// Becomes a member: takes part in the election, if it is a [candidate](Self::candidate), and registers.
    ///
    /// Returns when both are done. The first share comes soon after, if there is a maximum. If the client was idle for
    /// longer than its session timeout, the share can take one [tick](crate::ClientBuilder::tick_time) longer, because
    /// the servers have to confirm the session first.
    /// Without a maximum no share changes, and the leader reports why
    /// ([`Event::MaximumInvalid`](super::Event::MaximumInvalid)). A member without a share reports that it has none
    /// ([`Event::Undecided`](super::Event::Undecided)).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for an id that is empty or longer than 256 bytes, a weight of zero, a min above the
    /// max, an [`at_most`](Self::debounce) below its quiet time, or a limiter that is closed or follows another member.
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path, and if
    /// the ensemble refuses. [`Error::Closed`] if the client is closed. While there is no connection, the call waits
    /// for one, without a limit.
    ///
    /// # Cancel safety
    /// If the future is dropped before it returns, the part of the member that exists leaves in the background.
    pub async fn join(self) -> Result<ThroughputBalancer, Error> {
        let paths = Arc::new(self.validate()?);
        // From here on, the limiter grants only what this member applies.
        let limited = Limited::new(self.limiter.as_ref()).map_err(|error| of_limiter(&self.base, error))?;
        let core = Arc::clone(self.client.core());
        let labels = [Label::Path(&self.base), Label::Text(self.label.as_deref().unwrap_or_default())];
        let measured = core.meter().level(&table::BALANCER_SHARE, &labels);
        let channel = Interest(Arc::new(Channel::new(self.on_suspended, limited, measured)));
        let registrar = Registrar { core: Arc::clone(&core), paths: Arc::clone(&paths) };
        registrar.prepare().await.map_err(|error| Error::client(&self.base, error))?;
        let id = core.random.uuid().to_string();
        let latch = if self.candidate { Some(self.join_election(&paths, &id).await?) } else { None };
        let balancer = self.start(registrar, latch, id, channel);
        balancer.registered().await?;
        Ok(balancer)
    }

    fn validate(&self) -> Result<Paths, Error> {
        self.client.open_path(&self.base).map_err(|error| Error::client(&self.base, error))?;
        let bad = |why| Err(Error::invalid(&self.base, why));
        let wishes = allocation::Member { id: String::new(), weight: self.weight, min: self.min, max: self.max };
        if let Some(label) = self.label.as_ref().filter(|label| !(1..=MOST_ID_BYTES).contains(&label.len())) {
            return bad(format!("an id of {} bytes; must have 1 to {MOST_ID_BYTES}", label.len()));
        }
        if wishes.weight == 0 {
            return bad("a weight of 0; must be at least 1".into());
        }
        if let Some(max) = wishes.max.filter(|max| wishes.min > *max) {
            return bad(format!("a min of {}, above the max of {max}; must be at most that", wishes.min));
        }
        let Options { quiet, at_most, .. } = &self.options;
        if at_most < quiet {
            return bad(format!(
                "a debounce of at most {at_most:?} with a quiet time of {quiet:?}; must be at least that"
            ));
        }
        Ok(Paths::new(&self.base, |path| self.client.core().full_path(path)))
    }

    /// Takes part in the election. Returns when the latch has a node.
    async fn join_election(&self, paths: &Paths, id: &str) -> Result<Arc<LeaderLatch>, Error> {
        let latch = LeaderLatch::builder(&self.client, paths.latch.as_str()).id(id).start();
        let latch = latch.map_err(|error| of_latch(&self.base, error))?;
        elected::entered(&latch).await.map_err(|error| of_latch(&self.base, error))?;
        Ok(Arc::new(latch))
    }

    /// Starts the task of the member, and for a candidate the task of the leader.
    fn start(
        self,
        registrar: Registrar,
        latch: Option<Arc<LeaderLatch>>,
        id: String,
        channel: Interest,
    ) -> ThroughputBalancer {
        let core = Arc::clone(&registrar.core);
        let events = Publisher::new(self.client.core(), &self.base);
        let (stop, stopped) = watch::channel(false);
        let registration = watch::Sender::new(Registration::default());
        let member = Member {
            registrar: registrar.clone(),
            options: MemberOptions { id, label: self.label, weight: self.weight, min: self.min, max: self.max },
            channel: Arc::clone(&channel.0),
            events: events.clone(),
            registration: registration.clone(),
            stop: stopped,
            delays: Member::delays(),
            _keep_alive: core.keep_alive(),
        };
        if let Some(latch) = &latch {
            let leader = Leader {
                registrar: registrar.clone(),
                latch: Arc::clone(latch),
                options: Arc::new(self.options),
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
        ThroughputBalancer { client: self.client, registrar, latch, channel, events, registration, stop, task }
    }
}

impl Registrar {
    /// Creates the directories the way this recipe needs them, before the latch creates them its own way.
    async fn prepare(&self) -> Result<(), client::Error> {
        loop {
            let session = self.core.connected_session().await?;
            match session.retry_while_transient(|| self.directories(&session)).await {
                // Continue with the next session.
                Err(engine::Error::SessionEnded) => {}
                made => return made.map_err(|error| client::Error::from_engine("join", &self.paths.base, error)),
            }
        }
    }
}

fn of_limiter(base: &str, error: crate::limiter::Error) -> Error {
    let why = match error {
        crate::limiter::Error::Driven => {
            "a limiter that follows another member; give each member one of its own".into()
        }
        other => format!("a limiter that cannot follow its share: {other}"),
    };
    Error::invalid(base, why)
}

fn of_latch(base: &str, error: crate::leader_latch::Error) -> Error {
    match error {
        crate::leader_latch::Error::Client { error, .. } => Error::client(base, error),
        crate::leader_latch::Error::Closed { .. } => Error::closed(base),
        other => Error::invalid(base, other.to_string()),
    }
}
