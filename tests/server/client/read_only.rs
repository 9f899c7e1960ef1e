//! Clients that only read, while a server has no majority.

use zookeeper_recipes::{Client, ClientBuilder, ConnectionState, CreateMode, ErrorKind};

use super::fixture::{SOON, T, builder};
use crate::support::{Ensemble, eventually, unique_path};

async fn has_state(client: &Client, state: ConnectionState) {
    eventually("the client's state", SOON * 3, async || client.connection_state() == state).await;
}

/// Three servers, and one of them after the others have stopped.
struct Stage {
    ensemble: Ensemble,
    left: usize,
}

impl Stage {
    async fn start(local_sessions: bool) -> Stage {
        let ensemble = Ensemble::start_with(|_, settings| {
            let settings = settings.jvm_flag("-Dreadonlymode.enabled=true");
            settings
                .config(format!("localSessionsEnabled={local_sessions}"))
                .config("localSessionsUpgradingEnabled=true")
        });
        let ensemble = ensemble.await;
        Stage { left: ensemble.followers().await[0], ensemble }
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let left = self.left;
        (0..3).filter(move |i| *i != left)
    }

    async fn leave_one(&self) {
        futures::future::join_all(self.others().map(|i| self.ensemble.kill(i))).await;
    }

    async fn bring_back(&self) {
        futures::future::join_all(self.others().map(|i| self.ensemble.start_again(i))).await;
        self.ensemble.wait_for_quorum().await;
    }

    fn builder(&self, read_only: bool) -> ClientBuilder {
        let builder = builder(&self.ensemble.connect_string());
        builder.session_timeout(T * 2).connection_timeout(SOON * 3).read_only(read_only)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_read_from_the_only_server_that_is_left() {
    let stage = Stage::start(true).await;
    let path = unique_path("read-only");
    let writer = stage.builder(false).connect().await.expect("connected");
    let early = stage.builder(true).connect().await.expect("connected");
    writer.create(&path, b"old", CreateMode::Persistent).await.expect("created");

    stage.leave_one().await;
    has_state(&early, ConnectionState::ReadOnly).await;
    let late = stage.builder(true).connect().await.expect("connected");
    assert_eq!(late.connection_state(), ConnectionState::ReadOnly, "its first state");
    for client in [&early, &late] {
        assert_eq!(client.get(&path).await.expect("read").0, b"old");
        let error = client.set(&path, b"new", None).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    }
    assert!(!writer.connection_state().is_connected(), "it avoids such a server");
    let closed = stage.builder(true).connect().await.expect("connected");
    closed.close().await.expect("closed");

    stage.bring_back().await;
    eventually("the others write", SOON * 3, async || writer.set(&path, b"new", None).await.is_ok()).await;
    for client in [early, late, writer] {
        has_state(&client, ConnectionState::Reconnected).await;
        eventually("the new data", SOON, async || client.get(&path).await.is_ok_and(|(data, _)| data == b"new")).await;
        client.close().await.expect("closed");
    }
}

/// Since 3.9 such a server resumes no session that all servers know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_local_sessions_opens_none_and_the_error_says_so() {
    let stage = Stage::start(false).await;
    stage.leave_one().await;
    let refused = stage.builder(true).connect().await.expect_err("it opens no session");
    assert!(refused.to_string().contains("localSessionsEnabled"), "{refused}");
}
