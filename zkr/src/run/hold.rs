//! One interface to everything that the keeper can hold.

use std::time::Duration;

use zookeeper_recipes::double_barrier::{self, DoubleBarrier};
use zookeeper_recipes::mutex::{self, InterProcessMutex, MutexGuard};
use zookeeper_recipes::semaphore::{self, InterProcessSemaphore, SemaphoreGuard};
use zookeeper_recipes::{Client, ErrorKind};

use super::plan::{Kind, Plan};
use crate::ending::Status;

/// A failure: the status of `zkr`, and why.
pub type Failure = (Status, String);

/// What is held.
#[derive(Debug)]
pub enum Hold {
    Mutex(MutexGuard),
    Semaphore(SemaphoreGuard),
    /// A member of a barrier holds nothing that another process could acquire.
    Barrier(DoubleBarrier),
}

impl Hold {
    /// Acquires what the plan names. Returns `None` if it was not acquired in time.
    pub async fn acquire(client: &Client, plan: &Plan) -> Result<Option<Hold>, Failure> {
        match plan.kind {
            Kind::Mutex => {
                let mutex = InterProcessMutex::builder(client, &plan.path).data(plan.data.as_str()).build();
                let mutex = mutex.map_err(of_mutex)?;
                let guard = match plan.wait {
                    None => mutex.acquire().await.map(Some),
                    Some(Duration::ZERO) => mutex.try_acquire().await,
                    Some(time) => mutex.acquire_timeout(time).await,
                };
                Ok(guard.map_err(of_mutex)?.map(Hold::Mutex))
            }
            Kind::Semaphore(permits) => {
                let builder = InterProcessSemaphore::builder(client, &plan.path).permits(permits);
                let semaphore = builder.data(plan.data.as_str()).build().map_err(of_semaphore)?;
                let guard = match plan.wait {
                    None => semaphore.acquire(1).await.map(Some),
                    Some(Duration::ZERO) => semaphore.try_acquire(1).await,
                    Some(time) => semaphore.acquire_timeout(1, time).await,
                };
                Ok(guard.map_err(of_semaphore)?.map(Hold::Semaphore))
            }
            Kind::Barrier(members) => {
                let members = usize::try_from(members).unwrap_or(usize::MAX);
                let builder = DoubleBarrier::builder(client, &plan.path, members).data(plan.data.as_str());
                let barrier = builder.build().map_err(of_barrier)?;
                let is_inside = match plan.wait {
                    None => barrier.enter().await.map(|()| true),
                    Some(time) => barrier.enter_timeout(time).await,
                };
                Ok(is_inside.map_err(of_barrier)?.then_some(Hold::Barrier(barrier)))
            }
        }
    }

    /// Returns the fencing token, if the hold excludes others.
    pub fn token(&self) -> Option<i64> {
        match self {
            Hold::Mutex(guard) => Some(guard.fencing_token()),
            Hold::Semaphore(guard) => Some(guard.fencing_token()),
            Hold::Barrier(_) => None,
        }
    }

    /// Returns whether it is certain that it is held.
    pub fn is_held(&self) -> bool {
        match self {
            Hold::Mutex(guard) => guard.is_held(),
            Hold::Semaphore(guard) => guard.is_held(),
            Hold::Barrier(_) => true,
        }
    }

    /// Resolves when it is lost.
    pub async fn lost(&self) {
        match self {
            Hold::Mutex(guard) => guard.lost().await,
            Hold::Semaphore(guard) => guard.lost().await,
            Hold::Barrier(_) => futures::future::pending().await,
        }
    }

    /// Resolves when another client has asked to release it; never, if there is no way to ask.
    pub async fn revoked(&self) {
        match self {
            Hold::Mutex(guard) if guard.on_revoke().await.is_ok() => {}
            // It is lost, which `lost` reports.
            Hold::Mutex(_) | Hold::Semaphore(_) | Hold::Barrier(_) => futures::future::pending().await,
        }
    }

    /// Releases it. A member of a barrier waits for the others.
    pub async fn release(self) -> Result<(), Failure> {
        match self {
            Hold::Mutex(guard) => guard.release().await.map_err(of_mutex),
            Hold::Semaphore(guard) => guard.release().await.map_err(of_semaphore),
            Hold::Barrier(barrier) => barrier.leave().await.map_err(of_barrier),
        }
    }
}

fn of_mutex(error: mutex::Error) -> Failure {
    (status(error.kind()), error.to_string())
}

fn of_semaphore(error: semaphore::Error) -> Failure {
    (status(error.kind()), error.to_string())
}

fn of_barrier(error: double_barrier::Error) -> Failure {
    (status(error.kind()), error.to_string())
}

fn status(kind: ErrorKind) -> Status {
    match kind {
        ErrorKind::SessionLost => Status::Lost,
        // The time was up before the servers confirmed that the node is deleted. Nothing is held.
        ErrorKind::OutcomeUnknown => Status::NotAcquired,
        kind => Status::of(kind),
    }
}
