//! The handle on an ensemble in memory, and the task that lets its events happen.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::client::{Holder, State};
use super::session::{MemorySession, events};
use super::world::World;
use super::{ClientId, Millis, Options, millis};
use crate::backend::{Ensemble, Error, Observer, Opened};
use crate::clock::Clock;

/// What was dropped and has to be told to the ensemble. Its own lock, as a drop can happen anywhere.
#[derive(Debug)]
pub(super) enum Dropped {
    Watch(ClientId, u64),
    Session(ClientId),
}

#[derive(Debug, Default)]
pub(super) struct Drops {
    queue: Mutex<Vec<Dropped>>,
    wake: Notify,
}

impl Drops {
    pub(super) fn add(&self, dropped: Dropped) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(dropped);
        self.wake.notify_one();
    }

    fn take(&self) -> Vec<Dropped> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What all handles, all sessions and the driver share.
#[derive(Debug)]
pub(super) struct Shared {
    start: Instant,
    world: Mutex<World>,
    drops: Arc<Drops>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The driver ends.
        self.drops.wake.notify_one();
    }
}

impl Shared {
    fn now(&self) -> Millis {
        millis(Instant::now().saturating_duration_since(self.start))
    }

    /// The world at this moment, with all drops taken in.
    fn lock(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.now = world.now.max(self.now());
        for dropped in self.drops.take() {
            match dropped {
                Dropped::Watch(client, watch) => world.unwatch(client, watch),
                Dropped::Session(client) => world.close(client),
            }
        }
        world
    }

    pub(super) fn with<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        let mut world = self.lock();
        let outcome = act(&mut world);
        let sooner = match (world.next_due(), world.planned) {
            (Some(due), Some(planned)) => due < planned,
            (due, None) => due.is_some(),
            (None, _) => false,
        };
        drop(world);
        if sooner {
            self.drops.wake.notify_one();
        }
        outcome
    }

    /// Lets happen what is due; when there will be more.
    fn run(&self) -> Option<Instant> {
        let mut world = self.lock();
        world.run();
        world.planned = world.next_due();
        world.planned.map(|due| self.start + Duration::from_millis(due))
    }
}

/// Ends all sessions when the driver goes before they do, with its runtime: nothing will be answered any more.
struct Over(Weak<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.with(World::abandon);
        }
    }
}

/// Runs until the last handle and the last session are gone.
async fn drive(shared: Weak<Shared>, drops: Arc<Drops>) {
    let _over = Over(Weak::clone(&shared));
    loop {
        let Some(next) = shared.upgrade().map(|shared| shared.run()) else {
            return;
        };
        let nap = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = drops.wake.notified() => {}
            () = nap => {}
        }
    }
}

/// An ensemble in memory. Clones are handles on the same one; it ends with the last handle and session.
#[derive(Clone)]
pub(crate) struct MemoryEnsemble {
    shared: Arc<Shared>,
}

impl fmt::Debug for MemoryEnsemble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryEnsemble").finish_non_exhaustive()
    }
}

impl MemoryEnsemble {
    /// Starts an ensemble. `spawn` runs its driver, on the runtime whose clock it shall use.
    pub(crate) fn start_with(options: Options, spawn: impl FnOnce(BoxFuture<'static, ()>)) -> Self {
        let drops = Arc::new(Drops::default());
        let shared = Arc::new(Shared {
            start: Instant::now(),
            world: Mutex::new(World::new(options, Arc::clone(&drops))),
            drops: Arc::clone(&drops),
        });
        spawn(Box::pin(drive(Arc::downgrade(&shared), drops)));
        MemoryEnsemble { shared }
    }

    pub(super) fn with<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        self.shared.with(act)
    }

    /// The ensemble as one client reaches it. Levers that take a group mean all sessions opened here.
    /// Its observers are told the time by `clock`.
    pub(crate) fn for_group(&self, group: u32, session_timeout: Duration, clock: Clock) -> Arc<dyn Ensemble> {
        Arc::new(Access { shared: Arc::clone(&self.shared), group, session_timeout, clock })
    }
}

/// The way of one client to the ensemble.
struct Access {
    shared: Arc<Shared>,
    group: u32,
    session_timeout: Duration,
    clock: Clock,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("group", &self.group).finish_non_exhaustive()
    }
}

/// Tells the ensemble when nobody waits for a session to open any more, or drops it.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) shared: Arc<Shared>,
    pub(super) client: ClientId,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shared.drops.add(Dropped::Session(self.client));
    }
}

impl Ensemble for Access {
    fn open(&self, observer: Arc<dyn Observer>) -> BoxFuture<'static, Result<Opened, Error>> {
        let (shared, group, clock) = (Arc::clone(&self.shared), self.group, self.clock);
        let wanted = millis(self.session_timeout);
        Box::pin(async move {
            let (opening, opened) = oneshot::channel();
            let (told, events_told) = mpsc::unbounded_channel();
            let (state, states) = watch::channel(State::Disconnected);
            let timeout = Arc::new(AtomicU64::new(wanted));
            let granted = Arc::clone(&timeout);
            let holder = Holder { opening: Some(opening), observer, clock, events: told, state, timeout };
            let client = shared.with(|world| world.open(group, wanted, holder));
            let hold = Hold { shared, client };
            let Ok(id) = opened.await else {
                return Err(Error::Other(
                    "the ensemble in memory has ended, with the runtime that it was started on".to_owned(),
                ));
            };
            let session = MemorySession::new(hold, id, granted, states);
            Ok(Opened { session: Arc::new(session), events: events(events_told) })
        })
    }

    fn causes(&self) -> String {
        self.shared.with(|world| world.causes.get(&self.group).map(ToString::to_string).unwrap_or_default())
    }

    fn servers(&self) -> String {
        "the ensemble in memory".to_owned()
    }
}
