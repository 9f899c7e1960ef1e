//! The locks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use zookeeper_recipes::Client;
use zookeeper_recipes::multi_lock::InterProcessMultiLock;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::read_write_lock::{InterProcessReadWriteLock, ReadLock, WriteLock};
use zookeeper_recipes::semaphore::InterProcessSemaphore;

use super::{Column, connect, timed};
use crate::line::{self, Kind};

#[derive(Clone)]
enum Lock {
    Mutex(InterProcessMutex),
    Read(ReadLock),
    Write(WriteLock),
    /// One permit of a semaphore.
    Semaphore(InterProcessSemaphore),
}

impl Lock {
    async fn connect(addr: &str, dir: &str, kind: Kind) -> Lock {
        let client = connect(addr).await;
        match kind {
            Kind::Mutex => Lock::Mutex(InterProcessMutex::new(&client, dir).expect("a good path")),
            Kind::Read => Lock::Read(read_write(&client, dir).read()),
            Kind::Write => Lock::Write(read_write(&client, dir).write()),
            Kind::Lease => {
                Lock::Semaphore(InterProcessSemaphore::new(&client, dir, line::LEASES).expect("a good path"))
            }
        }
    }

    async fn cycle(&self) {
        match self {
            Lock::Mutex(mutex) => mutex.acquire().await.expect("the lock").release().await.expect("released"),
            Lock::Read(lock) => lock.acquire().await.expect("the lock").release().await.expect("released"),
            Lock::Write(lock) => lock.acquire().await.expect("the lock").release().await.expect("released"),
            Lock::Semaphore(lock) => lock.acquire(1).await.expect("a permit").release().await.expect("released"),
        }
    }
}

fn read_write(client: &Client, dir: &str) -> InterProcessReadWriteLock {
    InterProcessReadWriteLock::new(client, dir).expect("a good path")
}

pub(crate) fn free(addr: &str, dir: &str, kind: Kind, cycles: u64) -> Column {
    Column::on_tokio(Lock::connect(addr, dir, kind), move |lock| async move { timed(cycles, || lock.cycle()).await })
}

/// Runs a client and a task for each contender.
pub(crate) fn contended(addr: &str, dir: &str, kind: Kind, contenders: usize, turns: u64) -> Column {
    let locks = join_all((0..contenders).map(|_| Lock::connect(addr, dir, kind)));
    Column::on_tokio(locks, move |locks| async move {
        let begun = Instant::now();
        let work = locks.into_iter().map(|lock| {
            tokio::spawn(async move {
                for _ in 0..turns {
                    lock.cycle().await;
                }
            })
        });
        join_all(work).await.into_iter().for_each(|done| done.expect("no panic"));
        vec![begun.elapsed() / u32::try_from(turns * contenders as u64).expect("few")]
    })
}

pub(crate) fn free_pair(addr: &str, dirs: [&str; 2], cycles: u64) -> Column {
    let locks = async { InterProcessMultiLock::new(&connect(addr).await, dirs).expect("good paths") };
    Column::on_tokio(locks, move |locks| async move {
        let cycle = || async { locks.acquire().await.expect("the locks").release().await.expect("released") };
        timed(cycles, cycle).await
    })
}

/// Connects a client for each participant.
pub(crate) fn readers_behind_a_writer(addr: &str, dir: &str, readers: usize, cycles: u64) -> Column {
    let locks = async {
        let locks = join_all((0..=readers).map(|_| async { read_write(&connect(addr).await, dir) }));
        Arc::<[InterProcessReadWriteLock]>::from(locks.await)
    };
    Column::on_tokio(locks, move |locks| async move {
        let mut times = Vec::new();
        for _ in 0..cycles {
            times.push(readers_once(&locks).await);
        }
        times
    })
}

/// Lets the first one write and the others wait behind it. Returns the time from its release until all of them read.
async fn readers_once(locks: &[InterProcessReadWriteLock]) -> Duration {
    let (writer, readers) = locks.split_first().expect("a writer");
    let writing = writer.write().acquire().await.expect("it writes");
    let waiting: Vec<_> = readers
        .iter()
        .map(|reader| {
            let lock = reader.read();
            tokio::spawn(async move { lock.acquire().await.expect("it reads") })
        })
        .collect();
    while writer.participants().await.expect("the participants").len() < locks.len() {}
    tokio::time::sleep(line::SETTLE).await;
    let begun = Instant::now();
    let (released, reading) = tokio::join!(writing.release(), async {
        let reading = join_all(waiting).await;
        (begun.elapsed(), reading)
    });
    released.expect("released");
    let (took, reading) = reading;
    let releases = reading.into_iter().map(|guard| guard.expect("no panic").release());
    join_all(releases).await.into_iter().for_each(|released| released.expect("released"));
    took
}
