//! Readers and writers at one lock.

use fastrand::Rng;
use zookeeper_recipes::Client;
use zookeeper_recipes::read_write_lock::InterProcessReadWriteLock;

use crate::line::Line;
use crate::lock::Lock;
use crate::workshop::Recipe;

pub(crate) struct ReadWriteLock;

const READ: &str = "__READ__";

impl Recipe for ReadWriteLock {
    const LINE: Line = Line {
        path: "/read-write-lock",
        bases: &[READ, "__WRIT__"],
        readers: Some(READ),
        has_ids: false,
        watches_own: false,
    };

    fn lock(client: &Client, data: String, random: &mut Rng) -> Lock {
        let lock = InterProcessReadWriteLock::builder(client, Self::LINE.path).data(data).build().expect("a lock");
        if random.bool() { Lock::Read(lock.read()) } else { Lock::Write(lock.write()) }
    }
}
