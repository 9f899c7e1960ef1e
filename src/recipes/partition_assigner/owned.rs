//! A partition that a member holds.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::client::Fence;
use crate::client::core::Core;
use crate::client::lease::Grant;
use crate::client::session::Session;
use crate::util::wait::run_while_held;

/// A partition that this member holds, until it is handed over or lost. Once lost it stays lost. If the member holds
/// the partition again, that is another value.
///
/// Clones share the hold. Dropping them does not release it; [`release`](Self::release) does.
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::partition_assigner::Owned;
///
/// # async fn example(
/// #     client: Client,
/// #     partition: Owned,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// // The ensemble refuses this once another member can hold the partition.
/// let write = client
///     .transaction()
///     .check(&partition.fence())
///     .set_data("/my-service/offset-7", b"42", None);
/// write.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Owned {
    hold: Arc<Hold>,
}

/// The error of [`Owned::run`]: the partition was lost before the work was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the partition was lost before the work was done")]
pub struct PartitionLost;

/// How far a hold is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Held, without an end in sight.
    Held,
    /// Held until then, at most: another member is to get it.
    Revoking(Instant),
    /// No longer held.
    Ended,
}

struct Hold {
    core: Arc<Core>,
    session: Arc<Session>,
    grant: Grant,
    partition: Arc<str>,
    /// The node that only this hold has.
    path: Arc<str>,
    token: i64,
    phase: watch::Sender<Phase>,
    /// How many futures work on the partition that the member must wait for.
    workers: AtomicUsize,
    /// Wakes the task of the member.
    wake: Arc<Notify>,
}

/// What a hold is for.
pub(super) struct Held {
    pub(super) partition: Arc<str>,
    pub(super) path: Arc<str>,
    pub(super) token: i64,
}

impl Owned {
    pub(super) fn new(core: &Arc<Core>, session: &Arc<Session>, grant: Grant, held: Held, wake: &Arc<Notify>) -> Self {
        let hold = Hold {
            core: Arc::clone(core),
            session: Arc::clone(session),
            grant,
            partition: held.partition,
            path: held.path,
            token: held.token,
            phase: watch::Sender::new(Phase::Held),
            workers: AtomicUsize::new(0),
            wake: Arc::clone(wake),
        };
        Owned { hold: Arc::new(hold) }
    }

    /// Returns the name of the partition.
    pub fn id(&self) -> &str {
        &self.hold.partition
    }

    pub(super) fn partition(&self) -> &Arc<str> {
        &self.hold.partition
    }

    /// Returns the transaction by which this member took the partition: a number that is greater for every later owner
    /// of the same partition. (If the ensemble loses all of its data, its transactions are counted from the start
    /// again.) A member that regains the partition after a suspension has the same number.
    ///
    /// Send it along with each access to another store, from the first read on, and let the store refuse smaller
    /// numbers than it has seen for the partition.
    pub fn fencing_token(&self) -> i64 {
        self.hold.token
    }

    /// Returns whether the member still holds the partition. It compares the clock at each call.
    pub fn is_held(&self) -> bool {
        let in_time = match *self.hold.phase.borrow() {
            Phase::Held => true,
            Phase::Revoking(by) => Instant::now() < by,
            Phase::Ended => false,
        };
        in_time && self.has_lease()
    }

    /// Returns whether another member is to get the partition, or it is lost: what is under way should end.
    pub fn is_revoked(&self) -> bool {
        *self.hold.phase.borrow() != Phase::Held || !self.has_lease()
    }

    /// Waits until another member is to get the partition, and returns when it has to be released at the latest: finish
    /// what is under way, then [`release`](Self::release). Returns `None` if the partition was lost first.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn revoked(&self) -> Option<Instant> {
        let mut phases = self.hold.phase.subscribe();
        match phases.wait_for(|phase| *phase != Phase::Held).await.as_deref() {
            Ok(Phase::Revoking(by)) => Some(*by),
            _ => None,
        }
    }

    /// Waits until the member no longer holds the partition: it was released or lost, or its time is over.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn lost(&self) {
        let mut phases = self.hold.phase.subscribe();
        loop {
            let by = match *phases.borrow_and_update() {
                Phase::Ended => return,
                Phase::Held => None,
                Phase::Revoking(by) => Some(by),
            };
            tokio::select! {
                biased;
                // The sender is in the hold.
                _ = phases.changed() => {}
                () = crate::util::wait::sleep_until_opt(by) => return,
            }
        }
    }

    /// Runs `work` while the member holds the partition. When the partition is lost, `work` is dropped at the await it
    /// is in, before it is polled again. Tasks that it spawned keep running; give them the [`fence`](Self::fence).
    ///
    /// # Errors
    /// [`PartitionLost`] if the partition was lost first. A write that `work` was waiting for may or may not have
    /// happened.
    ///
    /// ```no_run
    /// # async fn example(partition: zookeeper_recipes::partition_assigner::Owned) {
    /// # async fn copy(_: &str) {}
    /// match partition.run(copy(partition.id())).await {
    ///     Ok(()) => println!("copied"),
    ///     Err(lost) => eprintln!("{}: {lost}", partition.id()),
    /// }
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, PartitionLost> {
        run_while_held(|| self.is_held(), self.lost(), work).await.ok_or(PartitionLost)
    }

    /// Returns a fence that makes a [`Transaction`](crate::Transaction) depend on this hold. The ensemble refuses the
    /// transaction once the partition is handed over, as another member can hold it then.
    pub fn fence(&self) -> Fence {
        Fence {
            core: Arc::clone(&self.hold.core),
            session: Arc::clone(&self.hold.session),
            path: Arc::clone(&self.hold.path),
            nodes: Arc::default(),
            released: None,
        }
    }

    /// Ends the hold at once. The member hands the partition over in the background, if another member is to get it.
    /// Otherwise the member takes it again: after a pause, which grows from 100 ms to 30 s if it happens often.
    pub fn release(&self) {
        self.end();
        self.hold.wake.notify_one();
    }

    /// Returns whether the lease that the hold relies on has never lapsed.
    pub(super) fn has_lease(&self) -> bool {
        self.hold.session.lease().is_valid(self.hold.grant)
    }

    pub(super) fn phase(&self) -> Phase {
        *self.hold.phase.borrow()
    }

    /// Asks the holder to release the partition until then. Returns whether this is new to it.
    pub(super) fn revoke(&self, by: Instant) -> bool {
        self.hold.phase.send_if_modified(|phase| {
            let is_held = *phase == Phase::Held;
            if is_held {
                *phase = Phase::Revoking(by);
            }
            is_held
        })
    }

    /// Ends the hold, even if work is left.
    pub(super) fn end(&self) {
        self.hold.phase.send_if_modified(|phase| std::mem::replace(phase, Phase::Ended) != Phase::Ended);
    }

    /// Counts one more future that the member has to wait for before it hands the partition over.
    pub(super) fn work(&self) -> Working {
        self.hold.workers.fetch_add(1, Ordering::SeqCst);
        Working(self.clone())
    }

    /// Returns whether no future works on the partition that the member has to wait for.
    pub(super) fn is_idle(&self) -> bool {
        self.hold.workers.load(Ordering::SeqCst) == 0
    }

    /// Returns whether this is the same hold.
    pub(super) fn is(&self, other: &Owned) -> bool {
        Arc::ptr_eq(&self.hold, &other.hold)
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned")
            .field("partition", &self.hold.partition)
            .field("token", &self.hold.token)
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}

/// A future that works on a partition. Dropping it ends the hold, and then the partition may be handed over.
pub(super) struct Working(Owned);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.end();
        self.0.hold.workers.fetch_sub(1, Ordering::SeqCst);
        self.0.hold.wake.notify_one();
    }
}
