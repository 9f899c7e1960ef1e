//! A session that another connection has resumed at another server, while its client keeps the old connection.

use std::any::Any;

use futures::future::{BoxFuture, FutureExt};

use super::scene::{Scene, TIMEOUT, create_as, memory, soon, until};
use crate::engine::Error;
use crate::testing::ensemble::{MemoryEnsemble, Options, RecordKind};
use crate::util::clock::Clock;
use crate::util::znode::{Acl, CreateMode};

/// An ensemble of several servers; the sessions of the scene know only one of them.
pub(super) struct Servers {
    scene: Scene,
    elsewhere: Box<dyn Elsewhere>,
}

/// Moves sessions, and counts the connections of their clients.
trait Elsewhere: Send + Sync {
    /// Resumes a session on a separate connection to another server. Returns a guard that keeps that connection open.
    fn take_over(&self, session: i64) -> BoxFuture<'_, Box<dyn Any + Send>>;

    /// Returns how many connections the clients have made so far.
    fn connections(&self) -> u64;
}

impl Elsewhere for MemoryEnsemble {
    fn take_over(&self, session: i64) -> BoxFuture<'_, Box<dyn Any + Send>> {
        async move {
            until(|| async { MemoryEnsemble::take_over(self, session) }).await;
            Box::new(()) as Box<dyn Any + Send>
        }
        .boxed()
    }

    fn connections(&self) -> u64 {
        self.log().iter().filter(|record| record.what == RecordKind::Connected).count() as u64
    }
}

/// Two followers.
#[cfg(feature = "integration")]
struct Followers {
    /// In front of the follower that the sessions know.
    proxy: crate::support::Proxy,
    other: std::net::SocketAddr,
}

#[cfg(feature = "integration")]
impl Elsewhere for Followers {
    fn take_over(&self, session: i64) -> BoxFuture<'_, Box<dyn Any + Send>> {
        async move { Box::new(self.proxy.take_over(session, self.other).await) as Box<dyn Any + Send> }.boxed()
    }

    fn connections(&self) -> u64 {
        self.proxy.accepted()
    }
}

impl Servers {
    pub(super) async fn in_memory() -> Servers {
        let memory = memory(Options { servers: 2, tick: 500, ..Options::default() });
        let ensemble = memory.for_group(0, TIMEOUT, usize::MAX, Clock::tokio(tokio::time::Instant::now()));
        let scene = Scene::new(ensemble, "/contract".to_owned(), Box::new(memory.clone())).await;
        Servers { scene, elsewhere: Box::new(memory) }
    }

    #[cfg(feature = "integration")]
    pub(super) async fn on_real_servers() -> Servers {
        use crate::support::{Ensemble, Proxy, unique_path};
        let servers = Ensemble::shared().await;
        // Only followers, like the servers in memory: their leader serves no clients.
        let followers = servers.followers().await;
        let proxy = Proxy::start(servers.member(followers[0]).addr()).await;
        let other = servers.member(followers[1]).addr();
        let ensemble = super::scene::real(&proxy.connect_string());
        let scene = Scene::new(ensemble, unique_path("contract"), Box::new(servers)).await;
        Servers { scene, elsewhere: Box::new(Followers { proxy, other }) }
    }
}

pub(super) async fn the_old_connection_of_a_session_that_has_moved_is_still_answered_reads_and_syncs(
    servers: &Servers,
) {
    let session = servers.scene.session().await;
    let _elsewhere = servers.elsewhere.take_over(session.id()).await;
    assert_eq!(soon(session.sync("/")).await, Ok(()));
    assert_eq!(soon(session.exists(&servers.scene.path("never"))).await, Ok(None));
}

pub(super) async fn the_old_connection_of_a_session_that_has_moved_writes_nothing(servers: &Servers) {
    let (session, other) = (servers.scene.session().await, servers.scene.session().await);
    let path = servers.scene.path("refused");
    let _elsewhere = servers.elsewhere.take_over(session.id()).await;
    let before = servers.elsewhere.connections();
    let written = soon(session.create(&path, b"", CreateMode::Persistent, &[Acl::anyone_all()])).await;
    assert_eq!(written, Err(Error::ConnectionLoss), "the server closes the connection");
    let (synced, found) = (other.sync("/"), other.exists(&path));
    assert_eq!(soon(synced).await, Ok(()));
    assert_eq!(soon(found).await, Ok(None));
    // The client takes its session back.
    until(|| async { session.exists("/").await.is_ok() }).await;
    assert_eq!(servers.elsewhere.connections(), before + 1);
    create_as(&session, &path, CreateMode::Ephemeral).await;
}

pub(super) async fn the_old_connection_of_a_session_that_has_moved_can_still_close_it(servers: &Servers) {
    let (session, other) = (servers.scene.session().await, servers.scene.session().await);
    let path = servers.scene.path("mine");
    create_as(&session, &path, CreateMode::Ephemeral).await;
    let _elsewhere = servers.elsewhere.take_over(session.id()).await;
    let before = servers.elsewhere.connections();
    soon(session.close()).await;
    let (synced, found) = (other.sync("/"), other.exists(&path));
    assert_eq!(soon(synced).await, Ok(()));
    assert_eq!(soon(found).await, Ok(None));
    assert_eq!(servers.elsewhere.connections(), before, "a new connection could close any session");
}
