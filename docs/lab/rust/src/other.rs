//! The lock of the crate zookeeper-client.

use std::time::Duration;

use tokio::time::sleep;
use zookeeper_client::{
    Acls, Client, CreateMode, Error, LockClient, LockOptions, LockPrefix, SessionState, StateWatcher,
};

use crate::Task;
use crate::talk::{Wish, Wishes, say, session};

pub async fn lock(task: Task, mut wishes: Wishes) {
    // A client has one session: after its end the program makes another.
    while wishes.latest() != Wish::Quit {
        match Client::connector().with_session_timeout(task.timeout).connect(&task.connect).await {
            Ok(client) => {
                session(client.session_id().0);
                tell_states(client.state_watcher());
                contend(&client, &task.path, &mut wishes).await;
            }
            Err(error) => pause(error).await,
        }
    }
    // The session is closed in the background, when the last client is gone.
    sleep(Duration::from_millis(300)).await;
}

/// Only for the trace.
fn tell_states(mut states: StateWatcher) {
    tokio::spawn(async move {
        loop {
            let state = states.changed().await;
            say("state", format_args!("{state:?}"));
            if state.is_terminated() {
                return;
            }
        }
    });
}

/// Contends as long as the session lives and the lab does not want the worker to end.
async fn contend(client: &Client, path: &str, wishes: &mut Wishes) {
    let mut states = client.state_watcher();
    while !client.state().is_terminated() {
        let wish = tokio::select! {
            wish = wishes.other_than(Wish::Idle) => wish,
            // A worker that waits for the lab wants to hear of the end of its session.
            _ = states.changed() => continue,
        };
        if wish == Wish::Quit {
            return;
        }
        tokio::select! {
            acquired = acquire(client, path) => match acquired {
                Ok(lock) => hold(lock, wishes).await,
                Err(error) => pause(error).await,
            },
            _ = wishes.other_than(Wish::Hold) => {}
        }
    }
}

async fn acquire<'a>(client: &'a Client, path: &str) -> Result<LockClient<'a>, Error> {
    let prefix = LockPrefix::new_curator(path, "lock-")?;
    let parents = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(parents)?;
    client.lock(prefix, b"", options).await
}

async fn hold(lock: LockClient<'_>, wishes: &mut Wishes) {
    let mut states = lock.client().state_watcher();
    let mut state = lock.client().state();
    say("held", "");
    loop {
        if state != SessionState::SyncConnected {
            say("lost", format_args!("{state:?}"));
            return;
        }
        tokio::select! {
            latest = states.changed() => state = latest,
            _ = wishes.other_than(Wish::Hold) => {
                say("released", "");
                return;
            }
        }
    }
}

async fn pause(error: Error) {
    say("error", error);
    sleep(Duration::from_millis(200)).await;
}
