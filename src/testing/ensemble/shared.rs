//! The world behind its lock. Every access first updates its clock and handles the dropped connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::drops::Drops;
use super::world::World;
use super::{ConnId, Millis, Options, millis};
use crate::util::mutex::{Mutex, MutexGuard};

/// What all handles, all connections and the driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    start: Instant,
    world: Mutex<World>,
    drops: Arc<Drops>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Wakes the driver, so that it ends.
        self.drops.wake.notify_one();
    }
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        let drops = Arc::new(Drops::default());
        Shared { start: Instant::now(), world: Mutex::new(World::new(options)), drops }
    }

    /// Returns the queue of dropped connections, which also wakes the driver.
    pub(crate) fn drops(&self) -> Arc<Drops> {
        Arc::clone(&self.drops)
    }

    /// Records that the client's end of a connection was dropped.
    pub(crate) fn hang_up(&self, conn: ConnId) {
        self.drops.add(conn);
    }

    fn now(&self) -> Millis {
        millis(Instant::now().saturating_duration_since(self.start))
    }

    /// Locks the world, updates its clock and handles all dropped connections.
    fn lock(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock();
        world.now = world.now.max(self.now());
        for conn in self.drops.take() {
            world.hang_up(conn);
        }
        world
    }

    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
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

    /// Runs all events that are due. Returns when the next one is due.
    pub(crate) fn run(&self) -> Option<Instant> {
        let mut world = self.lock();
        world.run();
        world.planned = world.next_due();
        world.planned.map(|due| self.start + Duration::from_millis(due))
    }
}
