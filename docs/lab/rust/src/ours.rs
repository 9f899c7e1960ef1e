//! This library's lock and latch.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::sleep;
use zookeeper_recipes::leader_latch::LeaderLatch;
use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard};
use zookeeper_recipes::{Client, ErrorPolicy};

use crate::Task;
use crate::talk::{Asked, Wish, Wishes, say, session};

/// Connects, and tells the lab of each session.
async fn connect(task: &Task, policy: ErrorPolicy) -> Client {
    let builder =
        Client::builder(&task.connect).session_timeout(task.timeout).tick_time(task.tick).error_policy(policy);
    let client = builder.connect().await.expect("a connection");
    let mut states = client.connection_states();
    let mut known = client.session_id();
    if let Some(id) = known {
        session(id);
    }
    let observed = client.clone();
    tokio::spawn(async move {
        while let Some(Ok(state)) = states.next().await {
            say("state", state);
            let latest = observed.session_id();
            if let Some(id) = latest.filter(|_| latest != known) {
                session(id);
                known = latest;
            }
        }
    });
    client
}

pub async fn mutex(task: Task, policy: ErrorPolicy, mut wishes: Wishes) {
    let client = connect(&task, policy).await;
    let mutex = InterProcessMutex::new(&client, &task.path).expect("a path");
    while wishes.other_than(Wish::Idle).await == Wish::Hold {
        tokio::select! {
            acquired = mutex.acquire() => match acquired {
                Ok(guard) => hold(guard, &mut wishes).await,
                Err(error) => pause(error).await,
            },
            _ = wishes.other_than(Wish::Hold) => {}
        }
    }
    client.close().await.ok();
}

async fn hold(guard: MutexGuard, wishes: &mut Wishes) {
    say("held", guard.fencing_token());
    let guard = Arc::new(guard);
    let same = Arc::clone(&guard);
    let asked = Asked::whether(move || same.is_held());
    tokio::select! {
        () = guard.lost() => say("lost", "lost()"),
        // Before the request: the next one holds before its answer is here.
        _ = wishes.other_than(Wish::Hold) => say("released", ""),
    }
    asked.end();
    if let Some(guard) = Arc::into_inner(guard) {
        guard.release().await.ok();
    }
}

pub async fn latch(task: Task, mut wishes: Wishes) {
    let client = connect(&task, ErrorPolicy::Standard).await;
    while wishes.other_than(Wish::Idle).await == Wish::Hold {
        let latch = LeaderLatch::builder(&client, &task.path).start().expect("a path");
        while lead(&latch, &mut wishes).await {}
        latch.close().await.ok();
    }
    client.close().await.ok();
}

/// Returns whether to stay in the election.
async fn lead(latch: &LeaderLatch, wishes: &mut Wishes) -> bool {
    let leadership = tokio::select! {
        elected = latch.wait_for_leadership() => match elected {
            Ok(leadership) => leadership,
            Err(error) => {
                pause(error).await;
                return true;
            }
        },
        _ = wishes.other_than(Wish::Hold) => return false,
    };
    say("held", leadership.fencing_token());
    let leadership = Arc::new(leadership);
    let same = Arc::clone(&leadership);
    let asked = Asked::whether(move || same.is_held());
    let stays = tokio::select! {
        () = leadership.lost() => {
            say("lost", "lost()");
            true
        }
        _ = wishes.other_than(Wish::Hold) => {
            say("released", "");
            false
        }
    };
    asked.end();
    stays
}

async fn pause(error: impl std::fmt::Display) {
    say("error", error);
    sleep(Duration::from_millis(200)).await;
}
