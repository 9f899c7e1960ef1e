//! The limit: the same requests on blocking sockets, without any library.

pub(crate) mod atomic;
pub(crate) mod lock;
pub(crate) mod queue;
pub(crate) mod semaphore;
pub(crate) mod socket;

use std::time::{Duration, Instant};

use self::socket::Socket;
use super::Column;

/// Runs cycles, and returns how long each took.
fn timed(cycles: u64, mut cycle: impl FnMut()) -> Vec<Duration> {
    let one = |_| {
        let begun = Instant::now();
        cycle();
        begun.elapsed()
    };
    (0..cycles).map(one).collect()
}

pub(crate) fn exists(addr: &str, path: &str, cycles: u64) -> Column {
    let (mut socket, path) = (Socket::connect(addr), path.to_owned());
    Column::new(move || timed(cycles, || assert!(socket.exists(&path))))
}
