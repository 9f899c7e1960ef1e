//! Transactions: several changes, all of which happen or none.

mod request;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;

use self::request::{Lack, Place, Request};

use super::core::Core;
use super::error::{CREATE, Error, ErrorKind};
use super::fence::Fence;
use super::ops::{check_version, write_failed};
use super::session::{EndReason, Session};
use crate::engine::{Error as Refusal, Multi, Op, OpResult};
use crate::util::path;
use crate::util::znode::{CreateMode, Stat};

/// How often a transaction is sent at most if others create and delete the nodes above its own meanwhile.
const MOST_ATTEMPTS: u32 = 20;
/// How many of these attempts follow each other at once.
const ATTEMPTS_AT_ONCE: u32 = 3;
/// The longest pause after a later attempt is this, times the number of the attempt.
const PAUSE: Duration = Duration::from_millis(5);
/// How many nodes above are looked for at once.
const LOOKS_AT_ONCE: usize = 256;

/// Collects changes, then [`commit`](Self::commit)s all of them or none.
///
/// ```no_run
/// # use zookeeper_recipes::Client;
/// # use zookeeper_recipes::leader_latch::Leadership;
/// # async fn example(client: Client, leadership: Leadership)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// // Only the leader writes, however late this write arrives.
/// client
///     .transaction()
///     .check(&leadership.fence())
///     .set_data("/report", b"42", None)
///     .commit()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "CuratorTransaction")]
#[doc(alias = "CuratorMultiTransaction")]
#[derive(Debug)]
#[must_use = "nothing happens before commit()"]
pub struct Transaction {
    core: Arc<Core>,
    fences: Vec<Fence>,
    steps: Vec<Op>,
    creates_parents: bool,
    error: Option<Error>,
}

/// The result of one step of a committed transaction. Results are in the order of the steps; fences have none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionResult {
    /// The node had the given version.
    Checked,
    /// The node was created under this path.
    Created {
        /// The node's path, with the number that the server appended.
        path: String,
    },
    /// The data was set.
    DataSet {
        /// The stat after the change.
        stat: Stat,
    },
    /// The node was deleted.
    Deleted,
}

impl Transaction {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Transaction { core, fences: Vec::new(), steps: Vec::new(), creates_parents: false, error: None }
    }

    /// Makes the whole transaction depend on the hold of `fence`. The transaction is sent on the session of the fence
    /// or not at all.
    pub fn check(mut self, fence: &Fence) -> Self {
        if !Arc::ptr_eq(&fence.core, &self.core) {
            self.fail(Error::new(ErrorKind::InvalidArgument, "commit: the fence belongs to another client"));
        } else if self.fences.first().is_some_and(|first| !Arc::ptr_eq(&first.session, &fence.session)) {
            self.fail(Error::new(
                ErrorKind::SessionLost,
                "commit: two fences belong to different sessions, so one of these is already over",
            ));
        }
        self.fences.push(fence.clone());
        self
    }

    /// Adds a check: the node must exist and its data must have this version.
    pub fn check_version(self, path: &str, version: i32) -> Self {
        self.step(path, |path| Op::Check { path, version: Some(version) })
    }

    /// Adds the creation of a node, with the ACL of the client.
    pub fn create(self, path: &str, data: impl Into<Vec<u8>>, mode: CreateMode) -> Self {
        let acls = self.core.config.acls.clone();
        self.step(path, |path| Op::Create { path, data: data.into(), mode, acls })
    }

    /// Adds a write of a node's data. If a `version` is given, the node must have that version.
    pub fn set_data(self, path: &str, data: impl Into<Vec<u8>>, version: Option<i32>) -> Self {
        self.step(path, |path| Op::SetData { path, data: data.into(), version })
    }

    /// Adds the deletion of a node. If a `version` is given, the node must have that version.
    pub fn delete(self, path: &str, version: Option<i32>) -> Self {
        self.step(path, |path| Op::Delete { path, version })
    }

    /// Creates the missing nodes above those that the transaction creates, too: in the same transaction, as persistent
    /// nodes without data, with the ACL of the client. They stay until they are deleted, and have no
    /// [`TransactionResult`]. May be called before or after the steps. A step that does not create needs its node all
    /// the same.
    ///
    /// This costs nothing if none is missing. Otherwise the servers refuse the first attempt, and the transaction is
    /// sent again after one read of each node above. A node that the transaction itself creates must come before those
    /// below it.
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Client, CreateMode};
    /// # async fn example(client: Client) -> Result<(), zookeeper_recipes::Error> {
    /// // Both nodes, and /tables/orders with everything above it; or nothing.
    /// client
    ///     .transaction()
    ///     .create("/tables/orders/schema", "id int", CreateMode::Persistent)
    ///     .create("/tables/orders/owner", "worker-1", CreateMode::Ephemeral)
    ///     .create_parents()
    ///     .commit()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "creatingParentsIfNeeded")]
    pub fn create_parents(mut self) -> Self {
        self.creates_parents = true;
        self
    }

    fn step(mut self, path: &str, op: impl FnOnce(String) -> Op) -> Self {
        match path::validate(path) {
            Ok(()) => {
                let op = op(self.core.full_path(path));
                if let Err(error) = check_version(op.verb(), path, op.version()) {
                    self.fail(error);
                }
                self.steps.push(op);
            }
            Err(error) => self.fail(error.into()),
        }
        self
    }

    /// Keeps the first error, which `commit` returns.
    fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// Carries out all steps, or none. The transaction is sent again only if it was certainly not carried out: if it
    /// was not sent, or with [`create_parents`](Self::create_parents), if the servers refused it because of a node
    /// above.
    ///
    /// # Errors
    /// * [`ErrorKind::Fenced`]: a fence is no longer valid.
    /// * [`ErrorKind::SessionLost`]: the session of the fences has ended, or the process was stopped past its end. A
    ///   fenced transaction is sent only once the session is known to be alive.
    /// * [`ErrorKind::OutcomeUnknown`]: no answer arrived, or the answer does not say whether it was carried out.
    /// * [`ErrorKind::ConnectionLoss`]: there was no connection in time. Nothing was changed.
    /// * [`ErrorKind::InvalidArgument`]: version -1, which is not a version; a request above the
    ///   [limit](crate::ClientBuilder::max_request_bytes), with the nodes above; with
    ///   [`create_parents`](Self::create_parents) a missing node that is created after one below it.
    /// * Otherwise the error of the first step that failed; nothing was changed then. With
    ///   [`create_parents`](Self::create_parents), [`ErrorKind::NoNode`] or [`ErrorKind::NodeExists`] of a node above
    ///   if others created and deleted it during twenty attempts.
    ///
    /// # Cancel safety
    /// A transaction that was sent before the future was dropped may still be carried out, as a whole.
    pub async fn commit(mut self) -> Result<Vec<TransactionResult>, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.core.check_writes("commit", self.subject())?;
        let (mut missing, mut unneeded) = (BTreeSet::new(), BTreeSet::new());
        let mut attempts = 0;
        loop {
            attempts += 1;
            let request = self.request(&missing)?;
            let session = match self.fences.first() {
                Some(fence) => Arc::clone(&fence.session),
                None => self.core.session_in_time("commit", self.subject()).await?,
            };
            let outcome = self.commit_on(&session, request.ops()).await?;
            let lack = request.lack(&outcome).filter(|_| self.creates_parents && attempts < MOST_ATTEMPTS);
            match lack {
                None => return self.results(outcome, request),
                Some(Lack::Unneeded(parent)) => drop(unneeded.insert(parent.to_owned())),
                Some(Lack::Missing) => unneeded.clear(),
            }
            // Others may have created more of them. A look at a server that lags may not show those that were refused.
            missing = &self.missing_parents(&session).await? - &unneeded;
            self.pause(attempts).await;
        }
    }

    /// Waits for a random time before a later attempt: other clients may create and delete the same nodes in the same
    /// rhythm.
    async fn pause(&self, attempts: u32) {
        if attempts > ATTEMPTS_AT_ONCE {
            tokio::time::sleep((PAUSE * attempts).mul_f64(self.core.random.unit())).await;
        }
    }

    /// Returns the operations of the transaction, with those that create the missing nodes.
    fn request(&self, missing: &BTreeSet<String>) -> Result<Request, Error> {
        if let Some((step, above)) = request::out_of_order(&self.steps, missing) {
            let path = self.shown(&self.steps[step]);
            let why = format!("step {} creates a node above it, and must come first", above + 1);
            return Err(Error::at(ErrorKind::InvalidArgument, &self.doing(step, CREATE), path, why));
        }
        let checks = self.fences.iter().flat_map(Fence::checks);
        let request = Request::new(checks, &self.steps, missing, &self.core.config.acls);
        // An estimate, which needs no connection. The engine measures the exact length.
        self.core.check_size("commit", self.subject(), request.bytes())?;
        Ok(request)
    }

    /// Returns the nodes above those that the transaction creates that do not exist.
    async fn missing_parents(&self, session: &Session) -> Result<BTreeSet<String>, Error> {
        let parents: Vec<String> = request::parents(&self.steps).into_iter().collect();
        let mut missing = BTreeSet::new();
        // More of them could not be created by one request.
        let (mut bytes, most) = (0, self.core.config.max_request_bytes);
        for some in parents.chunks(LOOKS_AT_ONCE) {
            let found = self.look(some).await.map_err(|error| match self.fences.is_empty() || !session.is_over() {
                true => error,
                false => Error::session_lost("commit", self.subject()),
            })?;
            let lacking = some.iter().zip(found).filter(|(_, exists)| !exists).map(|(parent, _)| parent.clone());
            missing.extend(lacking.inspect(|parent| bytes += parent.len()));
            if bytes > most {
                break;
            }
        }
        Ok(missing)
    }

    /// Returns whether each of these nodes exists.
    async fn look(&self, nodes: &[String]) -> Result<Vec<bool>, Error> {
        let look = |session: &Arc<Session>, _: &str| {
            let looks = session.together(|| nodes.iter().map(|node| session.exists(node)).collect::<Vec<_>>());
            try_join_all(looks.into_iter().map(|look| async {
                match look.await {
                    // It is said of a node that exists.
                    Err(Refusal::NoAuth) => Ok(true),
                    found => found.map(|found| found.is_some()),
                }
            }))
        };
        self.core.read("commit: look for the nodes above", self.subject(), look).await
    }

    /// Returns the path in errors of the whole transaction: that of the first step that changes something.
    fn subject(&self) -> &str {
        let changes = self.steps.iter().find(|op| !matches!(op, Op::Check { .. }));
        changes.or(self.steps.first()).map_or("", |op| self.shown(op))
    }

    /// Returns the path of an operation as the caller knows it.
    fn shown<'a>(&self, op: &'a Op) -> &'a str {
        self.core.config.namespace.strip(op.path())
    }

    fn doing(&self, step: usize, what: &str) -> String {
        format!("commit: nothing was changed; step {} of {}, {what}", step + 1, self.steps.len())
    }

    async fn commit_on(&self, session: &Arc<Session>, ops: Vec<Op>) -> Result<Multi, Error> {
        let subject = self.subject();
        let until = tokio::time::Instant::now() + self.core.config.connection_timeout;
        let too_late = || Error::from_engine("commit", subject, Refusal::NotConnected);
        loop {
            let connection = match tokio::time::timeout_at(until, self.ready(session)).await {
                Ok(Ok(connection)) => connection,
                Ok(Err(_)) if self.fences.is_empty() => {
                    return Err(Error::of_any_session("commit", subject, Refusal::SessionEnded));
                }
                Ok(Err(_)) => return Err(Error::session_lost("commit", subject)),
                Err(_) => return Err(too_late()),
            };
            if let Some(fence) = self.fences.iter().find(|fence| fence.is_released()) {
                return Err(fenced(fence.path()));
            }
            match self.core.bounded("commit", subject, session.multi(ops.clone())).await? {
                Ok(Multi::Refused { index, error }) => {
                    return Ok(Multi::Refused { index, error: self.core.with_root(session, error).await });
                }
                Ok(outcome) => return Ok(outcome),
                Err(Refusal::NotConnected) => {
                    let again = tokio::time::timeout_at(until, session.wait_to_reconnect(connection)).await;
                    // The next round checks the outcome.
                    let _ = again.map_err(|_| too_late())?;
                }
                Err(error) => return Err(write_failed("commit", subject, error)),
            }
        }
    }

    /// Waits until the session is ready for the transaction. With a fence, the session must also be known to be alive:
    /// if its lease is over, the hold is over, and the transaction first waits for proof that the ensemble still knows
    /// the session. So a late transaction is refused before it is sent, and its outcome is known.
    async fn ready(&self, session: &Session) -> Result<u64, EndReason> {
        if self.fences.is_empty() || session.lease().is_proven() {
            return session.connected().await;
        }
        // The lease is extended only while it has a user.
        let _needed = self.core.keep_alive();
        session.connected_with_lease().await
    }

    /// Returns the results of the steps.
    fn results(&self, outcome: Multi, request: Request) -> Result<Vec<TransactionResult>, Error> {
        match outcome {
            Multi::Committed(results) => Ok(request.of_steps(results).map(|result| self.result(result)).collect()),
            Multi::Refused { index, error } => Err(self.refused(&request, index, error)),
        }
    }

    fn refused(&self, request: &Request, index: usize, error: Refusal) -> Error {
        let Some((place, op)) = request.get(index) else { return Error::from_engine("commit", "", error) };
        match place {
            Place::Fence(check) => fenced(self.fence_of(*check)),
            Place::Parent(step) => {
                Error::from_engine(&self.doing(*step, "create the missing node"), self.shown(op), error)
            }
            Place::Step(step) if self.creates_parents && error == Refusal::NoNode && op.verb() == CREATE => {
                let why = "the node above it does not exist: an earlier step deletes it, or others do so all the time";
                Error::at(ErrorKind::NoNode, &self.doing(*step, CREATE), self.shown(op), why)
            }
            Place::Step(step) => Error::from_engine(&self.doing(*step, op.verb()), self.shown(op), error),
        }
    }

    /// Returns the path of the fence to which a check belongs.
    fn fence_of(&self, check: usize) -> &str {
        let mut owners = self.fences.iter().flat_map(|fence| std::iter::repeat_n(fence.path(), fence.checks().len()));
        owners.nth(check).unwrap_or_default()
    }

    fn result(&self, result: OpResult) -> TransactionResult {
        match result {
            OpResult::Check => TransactionResult::Checked,
            OpResult::Create { path } => {
                TransactionResult::Created { path: self.core.config.namespace.strip(&path).to_owned() }
            }
            OpResult::SetData { stat } => TransactionResult::DataSet { stat },
            OpResult::Delete => TransactionResult::Deleted,
        }
    }
}

fn fenced(path: &str) -> Error {
    Error::new(ErrorKind::Fenced, format!("commit: the fence {path} is no longer valid; nothing was changed"))
}

impl Op {
    fn path(&self) -> &str {
        match self {
            Op::Check { path, .. } | Op::Create { path, .. } | Op::SetData { path, .. } | Op::Delete { path, .. } => {
                path
            }
        }
    }

    fn version(&self) -> Option<i32> {
        match self {
            Op::Check { version, .. } | Op::SetData { version, .. } | Op::Delete { version, .. } => *version,
            Op::Create { .. } => None,
        }
    }

    fn data_len(&self) -> usize {
        match self {
            Op::Create { data, .. } | Op::SetData { data, .. } => data.len(),
            Op::Check { .. } | Op::Delete { .. } => 0,
        }
    }

    fn verb(&self) -> &'static str {
        match self {
            Op::Check { .. } => "check",
            Op::Create { .. } => CREATE,
            Op::SetData { .. } => "set",
            Op::Delete { .. } => "delete",
        }
    }
}
