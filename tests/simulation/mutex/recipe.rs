//! Workers at one mutex.

use fastrand::Rng;
use zookeeper_recipes::Client;
use zookeeper_recipes::mutex::InterProcessMutex;

use crate::line::Line;
use crate::lock::Lock;
use crate::workshop::Recipe;

pub(crate) struct Mutex;

impl Recipe for Mutex {
    const LINE: Line = Line { path: "/lock", bases: &["lock-"], readers: None, has_ids: false, watches_own: false };

    fn lock(client: &Client, data: String, _random: &mut Rng) -> Lock {
        let mutex = InterProcessMutex::builder(client, Self::LINE.path);
        Lock::Mutex(mutex.data(data).build().expect("a mutex"))
    }
}
