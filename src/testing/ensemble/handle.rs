//! The handle on an ensemble in memory, and the task that lets its events happen.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};

use super::client::{Holder, State};
use super::drops::Drops;
use super::session::{MemorySession, events};
use super::shared::{Hold, Shared};
use super::world::World;
use super::{Options, millis};
use crate::backend::request_limit::RequestLimit;
use crate::backend::{Ensemble, Error, Observer, Opened};
use crate::util::clock::Clock;
use crate::util::wait::sleep_until_opt;

/// Ends all sessions when the driver ends before they do, with its runtime: nothing will be answered any more.
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
        let nap = sleep_until_opt(next);
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
        let shared = Arc::new(Shared::new(options));
        spawn(Box::pin(drive(Arc::downgrade(&shared), shared.drops())));
        MemoryEnsemble { shared }
    }

    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        self.shared.with(act)
    }

    /// The ensemble as one client reaches it. Levers that take a group mean all sessions opened here.
    /// Its observers are told the time by `clock`.
    pub(crate) fn for_group(
        &self,
        group: u32,
        session_timeout: Duration,
        max_request_bytes: usize,
        clock: Clock,
    ) -> Arc<dyn Ensemble> {
        let limit = Arc::new(RequestLimit::new(max_request_bytes));
        Arc::new(Access { shared: Arc::clone(&self.shared), group, session_timeout, limit, clock })
    }
}

/// The way of one client to the ensemble.
struct Access {
    shared: Arc<Shared>,
    group: u32,
    session_timeout: Duration,
    limit: Arc<RequestLimit>,
    clock: Clock,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("group", &self.group).finish_non_exhaustive()
    }
}

impl Ensemble for Access {
    fn open(&self, observer: Arc<dyn Observer>) -> BoxFuture<'static, Result<Opened, Error>> {
        let (shared, group, clock) = (Arc::clone(&self.shared), self.group, self.clock);
        let (wanted, limit) = (millis(self.session_timeout), Arc::clone(&self.limit));
        Box::pin(async move {
            let (opening, opened) = oneshot::channel();
            let (told, events_told) = mpsc::unbounded_channel();
            let (state, states) = watch::channel(State::Disconnected);
            let timeout = Arc::new(AtomicU64::new(wanted));
            let granted = Arc::clone(&timeout);
            let holder = Holder { opening: Some(opening), observer, limit, clock, events: told, state, timeout };
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
