//! A semaphore: a lock for those that want leases, and the leases beside it.

use super::lock::enter;
use super::socket::{PERSISTENT, Socket};
use super::{Column, timed};
use crate::line::{self, Kind};

/// One lease of those that are free. It is had when the list of leases is not longer than the limit; then the lock is
/// left.
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
            assert!(Kind::Mutex.before(waiting, &lock).is_none(), "no other wants one");
            let (lease, taken) = enter(&mut socket, &of_leases, Kind::Lease);
            assert!(taken.len() <= line::LEASES as usize, "one is free");
            socket.delete(&lock);
            socket.delete(&lease);
        })
    })
}
