//! A semaphore: a lock that admits one contender at a time, and a node for each permit beside it.

use super::lock::enter;
use super::socket::{PERSISTENT, Socket};
use super::{Column, timed};
use crate::line::{self, Kind};

/// Acquires and releases a free permit. The permit is held once the list of permits is no longer than the limit; then
/// the lock is released.
pub(crate) fn free(addr: &str, dir: &str, cycles: u64) -> Column {
    let mut socket = Socket::connect(addr);
    let [locks, of_leases] = ["locks", "leases"].map(|name| {
        let path = format!("{dir}/{name}");
        socket.create(&path, b"", PERSISTENT);
        path
    });
    Column::new(move || {
        timed(cycles, || {
            let (lock, waiting) = enter(&mut socket, &locks, Kind::Mutex);
            assert!(Kind::Mutex.before(waiting, &lock).is_none(), "no other contender waits");
            let (lease, taken) = enter(&mut socket, &of_leases, Kind::Lease);
            assert!(taken.len() <= line::LEASES as usize, "a permit is free");
            socket.delete(&lock);
            socket.delete(&lease);
        })
    })
}
