//! The ensemble on TCP sockets, for clients of any language.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{Target, TestingServer};
use crate::testing::ensemble::{Connection, End, MemoryEnsemble, ReadHalf, WriteHalf};
use crate::testing::scheduler::Process;
use crate::util::wait::forever;

/// A connection without a session is closed after this time, as ZooKeeper does by default.
const WITHOUT_SESSION: Duration = Duration::from_secs(10);

/// How long a client may take to read its last answers.
const WITHOUT_READING: Duration = Duration::from_secs(10);

/// How many bytes are read from a socket, or written to it, at once.
const BUFFER: usize = 16 * 1024;
/// How many bytes are passed to the ensemble at once: a few requests.
const PIECE: usize = 256;

/// The sockets of a [`TestingServer`]. Dropping this closes them; the ensemble continues.
#[derive(Debug)]
#[must_use = "the sockets are closed when it is dropped"]
pub struct Listening {
    addresses: Vec<SocketAddr>,
    /// The group of all clients of these sockets.
    clients: Process,
    _accepting: JoinSet<()>,
}

impl Listening {
    /// Returns the address of each server of the ensemble.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the connect string for clients. If the servers listen on all addresses, it is for clients on this
    /// machine.
    pub fn connect_string(&self) -> String {
        let local = |address: &SocketAddr| match address {
            SocketAddr::V4(any) if any.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, any.port()).into(),
            SocketAddr::V6(any) if any.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, any.port()).into(),
            one => *one,
        };
        let addresses: Vec<String> = self.addresses.iter().map(|address| local(address).to_string()).collect();
        addresses.join(",")
    }
}

impl From<&Listening> for Target {
    fn from(listening: &Listening) -> Self {
        Target::sockets(listening.clients.clone())
    }
}

impl TestingServer {
    /// Serves the ensemble on TCP sockets, one for each of its servers, to any ZooKeeper client.
    ///
    /// The first server listens on `address`, the others on the next ports. With port 0 each gets a free port. Needs
    /// tokio's I/O driver, and a clock that is not paused.
    ///
    /// Several calls with different addresses serve the same ensemble. A lever that is given [`&listening`](Listening)
    /// affects only the clients of its sockets, for example all of one service.
    ///
    /// This is for development and tests, not for a network that others can reach: nothing is kept on disk, and there
    /// is no encryption. Clients can authenticate with the scheme `digest`. The four-letter words are `ruok`, `srvr`,
    /// `stat`, `mntr`, `conf`, `cons`, `wchs`, `envi`, `isro`. A connection that has no session after 10 seconds is
    /// closed. No further requests are read from a client that does not read its answers; a client with more than 64
    /// MiB of unread answers and events is disconnected.
    ///
    /// ```
    /// use zookeeper_recipes::Client;
    /// use zookeeper_recipes::testing::TestingServer;
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = TestingServer::start();
    /// let listening = server.listen("127.0.0.1:0")?;
    /// let client = Client::builder(listening.connect_string()).connect().await?;
    /// assert_eq!(client.children("/").await?, ["zookeeper"; 0]);
    /// client.close().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of binding a socket, for example if the address is in use.
    ///
    /// # Panics
    /// Panics outside a runtime with I/O.
    pub fn listen(&self, address: impl ToSocketAddrs) -> io::Result<Listening> {
        let first = address.to_socket_addrs()?.next();
        let first = first.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name resolves to no address"))?;
        let (mut addresses, mut accepting, clients) = (Vec::new(), JoinSet::new(), self.scheduler.outside());
        for server in 0..self.servers() {
            let address = address_of(first, server)?;
            let failed = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
            let listener = std::net::TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            addresses.push(listener.local_addr()?);
            accepting.spawn(accept(self.ensemble.clone(), clients.id, server, listener));
        }
        Ok(Listening { addresses, clients, _accepting: accepting })
    }
}

/// Returns the address for a server: `first` with its port plus the number of the server, or with port 0.
fn address_of(first: SocketAddr, server: usize) -> io::Result<SocketAddr> {
    let port = match first.port() {
        0 => Some(0),
        port => u16::try_from(server).ok().and_then(|server| port.checked_add(server)),
    };
    let none = || io::Error::new(io::ErrorKind::InvalidInput, format!("{first}: no port is left for the last server"));
    Ok(SocketAddr::new(first.ip(), port.ok_or_else(none)?))
}

/// Accepts connections until it is dropped, which closes all of them.
async fn accept(ensemble: MemoryEnsemble, group: u32, server: usize, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => {
                    // `None` if a lever refuses it or the servers are stopped; dropping the socket closes it.
                    if let Some((read, write)) = ensemble.accept(group, server, peer) {
                        connections.spawn(serve(socket, read, write));
                    }
                }
                // The client has already disconnected, or no file descriptor is free.
                Err(error) => {
                    tracing::debug!(event = "not_accepted", %error, "could not accept a connection");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
        }
    }
}

/// How far the answers on a connection have been written.
#[derive(Debug, Default)]
struct Progress {
    /// Whether some bytes taken from the ensemble are not written yet.
    is_writing: AtomicBool,
    was_read: Notify,
}

/// Carries the bytes of one connection until one side closes it.
async fn serve(socket: TcpStream, mut read: ReadHalf, mut write: WriteHalf) {
    // Answers are small, and none should wait for another.
    socket.set_nodelay(true).ok();
    let (from_client, mut to_client) = socket.into_split();
    let (connection, progress) = (read.connection(), Progress::default());
    let without_session = async {
        tokio::time::sleep(WITHOUT_SESSION).await;
        if connection.has_session() {
            forever().await
        }
    };
    tokio::select! {
        _ = read_requests(from_client, &mut write, &connection, &progress) => {}
        _ = write_answers(&mut read, &mut to_client, &progress) => {}
        () = without_session => {}
    }
    to_client.shutdown().await.ok();
}

/// Reads requests until the client closes its direction and all answers are written. Pauses while it is throttled.
async fn read_requests(
    mut from_client: OwnedReadHalf,
    write: &mut WriteHalf,
    connection: &Connection,
    progress: &Progress,
) -> io::Result<()> {
    let mut bytes = vec![0; BUFFER];
    loop {
        let length = from_client.read(&mut bytes).await?;
        if length == 0 {
            break;
        }
        for piece in bytes.get(..length).unwrap_or_default().chunks(PIECE) {
            while connection.is_throttled() {
                progress.was_read.notified().await;
            }
            write.write_all(piece).await?;
        }
    }
    while connection.has_pending_answers() || progress.is_writing.load(Ordering::Relaxed) {
        progress.was_read.notified().await;
    }
    Ok(())
}

/// Writes the answers until the servers close the connection or the client does not read them in time.
async fn write_answers(read: &mut ReadHalf, to_client: &mut OwnedWriteHalf, progress: &Progress) -> io::Result<()> {
    let mut bytes = vec![0; BUFFER];
    loop {
        let length = read.read(&mut bytes).await?;
        if length == 0 {
            return Ok(());
        }
        progress.is_writing.store(true, Ordering::Relaxed);
        tokio::select! {
            biased;
            written = to_client.write_all(bytes.get(..length).unwrap_or_default()) => written?,
            () = not_read_in_time(read) => return Ok(()),
        }
        progress.is_writing.store(false, Ordering::Relaxed);
        progress.was_read.notify_one();
    }
}

/// Completes when the servers have cut the connection, or have closed it and the client has had time to read the rest.
async fn not_read_in_time(read: &ReadHalf) {
    if read.ended().await == End::Closed {
        tokio::time::sleep(WITHOUT_READING).await;
    }
}
