//! The handle to an ensemble in memory, and the task that runs its events.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::oneshot;

use super::connection::Dial;
use super::drops::Drops;
use super::shared::Shared;
use super::socket::{self, ReadHalf, WriteHalf};
use super::world::World;
use super::{ConnId, Options};
use crate::engine::{Connector, Endpoint, Stream};
use crate::util::wait::sleep_until_opt;

/// Ends all connections when the driver ends with its runtime, because nothing will answer them any more.
struct Over(Weak<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.with(World::abandon);
        }
    }
}

/// Runs until the last handle and the last session are gone.
async fn drive(shared: Weak<Shared>, drops: Arc<Drops>) {
    let _over = Over(Weak::clone(&shared));
    loop {
        let Some(next) = shared.upgrade().map(|shared| shared.run()) else {
            return;
        };
        let nap = sleep_until_opt(next);
        tokio::select! {
            biased;
            () = drops.wake.notified() => {}
            () = nap => {}
        }
    }
}

/// An ensemble in memory. Clones are handles to the same one; it ends with the last handle and session.
#[derive(Clone)]
pub(crate) struct MemoryEnsemble {
    shared: Arc<Shared>,
}

impl fmt::Debug for MemoryEnsemble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryEnsemble").finish_non_exhaustive()
    }
}

impl MemoryEnsemble {
    /// Starts an ensemble. `spawn` must run its driver on the runtime whose clock the ensemble uses.
    pub(crate) fn start_with(options: Options, spawn: impl FnOnce(BoxFuture<'static, ()>)) -> Self {
        let shared = Arc::new(Shared::new(options));
        spawn(Box::pin(drive(Arc::downgrade(&shared), shared.drops())));
        MemoryEnsemble { shared }
    }

    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        self.shared.with(act)
    }

    /// Returns the connector of one client. Levers that take a group affect all of its connections.
    pub(crate) fn network(&self, group: u32) -> Arc<dyn Connector> {
        let shared = Arc::clone(&self.shared);
        Arc::new(Network { shared, group })
    }

    /// Opens a connection for a client outside this process, of a group from [`OUTSIDE`] on. Returns `None` while
    /// connections are refused.
    pub(crate) fn accept(&self, group: u32, server: usize, peer: SocketAddr) -> Option<(ReadHalf, WriteHalf)> {
        let (conn, inbox) = self.shared.with(|world| world.accept(group, server, peer))?;
        Some(socket::halves(Arc::clone(&self.shared), conn, inbox))
    }

    /// Returns the connect string of the servers.
    pub(crate) fn connect_string(&self) -> String {
        (0..self.servers()).map(server_name).collect::<Vec<_>>().join(",")
    }
}

/// The first group of clients outside this process. Clients in this process have smaller numbers.
pub(crate) const OUTSIDE: u32 = 1 << 31;
/// The names of the servers without their numbers.
const HOST: &str = "memory-";

/// Returns the name of a server.
pub(crate) fn server_name(server: usize) -> String {
    format!("{HOST}{server}")
}

/// Connects one client to the servers. This takes as long as a message does.
struct Network {
    shared: Arc<Shared>,
    group: u32,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("group", &self.group).finish_non_exhaustive()
    }
}

/// A connection that the client waits for. It is closed if the client stops waiting.
struct Dialling {
    shared: Arc<Shared>,
    stands: oneshot::Receiver<io::Result<ConnId>>,
}

impl Drop for Dialling {
    fn drop(&mut self) {
        if let Ok(Ok(conn)) = self.stands.try_recv() {
            self.shared.hang_up(conn);
        }
    }
}

impl Connector for Network {
    fn connect(&self, endpoint: Endpoint, _tries: u32) -> BoxFuture<'static, io::Result<Stream>> {
        let (shared, group) = (Arc::clone(&self.shared), self.group);
        async move {
            let number = endpoint.host.strip_prefix(HOST).and_then(|number| number.parse().ok());
            let server = number.ok_or(io::ErrorKind::NotFound)?;
            let (connected, stands) = oneshot::channel();
            let mut dialling = Dialling { shared: Arc::clone(&shared), stands };
            shared.with(|world| world.dial(Dial { group, server, connected }));
            let ended = |_| io::Error::other("the ensemble in memory has ended with its runtime");
            let conn = (&mut dialling.stands).await.map_err(ended)??;
            let inbox = shared.with(|world| world.conns.get(&conn).map(|conn| Arc::clone(&conn.inbox)));
            let inbox = inbox.ok_or(io::ErrorKind::ConnectionReset)?;
            let (read, write) = socket::halves(shared, conn, inbox);
            Ok(Stream { read: Box::new(read), write: Box::new(write), address: None })
        }
        .boxed()
    }
}
