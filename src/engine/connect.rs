//! A connection to one host, up to the first byte of ZooKeeper's protocol.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{error::Elapsed, timeout};

use super::connect_string::Endpoint;
use super::{srv, tls};

/// How many attempts of a process can have a turn at once. A server accepts connections from a queue of 50. If
/// the queue is full, the operating system retries after a second.
const AT_ONCE: usize = 32;
/// An attempt waits for its turn for at most its time limit divided by this.
const LONGEST_WAIT: u32 = 4;
/// A turn lasts for at most the time limit divided by this: a silent host must not keep the others waiting.
const LONGEST_TURN: u32 = 8;
/// The delay between the first packets to two addresses of a name.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// Runs an attempt to connect, from the first packet to the answer of the server. Waits for a while for one of `turns`,
/// which limit how many attempts are in progress. Fails once the attempt has taken `limit`; the wait does not count.
pub(crate) async fn in_turn<A: Future>(
    turns: Option<&Semaphore>,
    limit: Duration,
    attempt: A,
) -> Result<A::Output, Elapsed> {
    let Some(turns) = turns else { return timeout(limit, attempt).await };
    let turn = timeout(limit / LONGEST_WAIT, turns.acquire()).await;
    let mut attempt = pin!(timeout(limit, attempt));
    if let Ok(outcome) = timeout(limit / LONGEST_TURN, &mut attempt).await {
        return outcome;
    }
    drop(turn);
    attempt.await
}

/// Both directions of a connection.
pub(crate) struct Stream {
    pub(crate) read: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) write: Box<dyn AsyncWrite + Send + Unpin>,
    /// The address of the server, if the connection is of TCP.
    pub(crate) address: Option<SocketAddr>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// Makes connections.
pub(crate) trait Connector: Send + Sync + fmt::Debug {
    /// Connects to a server. `tries` is the number of attempts that have failed. If a name has several addresses, each
    /// attempt begins with another one.
    fn connect(&self, endpoint: Endpoint, tries: u32) -> BoxFuture<'static, io::Result<Stream>>;
    /// Returns whether a server is the one with this address.
    fn is_at(&self, _endpoint: Endpoint, _address: SocketAddr) -> BoxFuture<'static, bool> {
        futures::future::ready(false).boxed()
    }
    /// Returns the servers that the SRV records of a name give.
    fn lookup_srv(&self, _name: String) -> BoxFuture<'static, io::Result<Vec<srv::Record>>> {
        futures::future::ready(Err(io::ErrorKind::Unsupported.into())).boxed()
    }
    /// Returns the semaphore that limits the attempts in progress, if they are limited.
    fn turns(&self) -> Option<&Semaphore> {
        None
    }
}

/// Connects by TCP, and by TLS where it is configured.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) tls: Option<Arc<tls::ClientConfig>>,
}

impl Connector for Network {
    fn connect(&self, endpoint: Endpoint, tries: u32) -> BoxFuture<'static, io::Result<Stream>> {
        let tls = self.tls.clone().filter(|_| endpoint.encrypted != Some(false));
        async move {
            if tls.is_none() && endpoint.encrypted == Some(true) {
                return Err(io::Error::other("it must be reached over TLS, but no TLS options are given"));
            }
            let stream = connect_tcp(&endpoint, tries).await?;
            let address = stream.peer_addr().ok();
            if let Some(config) = tls {
                let stream = tls::handshake(stream, &endpoint.host, config).await?;
                let (read, write) = tokio::io::split(stream);
                return Ok(Stream { read: Box::new(read), write: Box::new(write), address });
            }
            let (read, write) = stream.into_split();
            Ok(Stream { read: Box::new(read), write: Box::new(write), address })
        }
        .boxed()
    }

    fn is_at(&self, endpoint: Endpoint, address: SocketAddr) -> BoxFuture<'static, bool> {
        async move {
            let resolved = tokio::net::lookup_host((endpoint.name(), endpoint.port)).await;
            resolved.is_ok_and(|mut addresses| addresses.any(|known| known == address))
        }
        .boxed()
    }

    #[cfg(feature = "srv")]
    fn lookup_srv(&self, name: String) -> BoxFuture<'static, io::Result<Vec<srv::Record>>> {
        srv::lookup(name).boxed()
    }

    fn turns(&self) -> Option<&Semaphore> {
        Some(&TURNS)
    }
}

async fn connect_tcp(endpoint: &Endpoint, tries: u32) -> io::Result<TcpStream> {
    let resolved = tokio::net::lookup_host((endpoint.name(), endpoint.port)).await;
    let addresses: Vec<SocketAddr> = resolved.map(Iterator::collect).unwrap_or_default();
    let stream = first_of(order(&addresses, tries), TcpStream::connect).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects to the first address that accepts. Tries the next one when an address fails or has not answered for
/// [`ATTEMPT_DELAY`]. See RFC 8305 (Happy Eyeballs).
async fn first_of<T, C: Future<Output = io::Result<T>>>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> C,
) -> io::Result<T> {
    let mut latest = io::Error::new(io::ErrorKind::NotFound, "name not found");
    let (mut addresses, mut attempts) = (addresses.into_iter(), FuturesUnordered::new());
    loop {
        let next = addresses.next();
        if let Some(address) = next {
            attempts.push(connect(address));
        } else if attempts.is_empty() {
            return Err(latest);
        }
        tokio::select! {
            biased;
            Some(connected) = attempts.next() => match connected {
                Ok(connected) => return Ok(connected),
                Err(error) => latest = error,
            },
            () = tokio::time::sleep(ATTEMPT_DELAY), if next.is_some() => {}
        }
    }
}

/// Returns the addresses of a name in the order in which to try them. Each try begins with another address: a name may
/// denote many servers, and one that accepts connections may not serve. IPv4 and IPv6 alternate: `localhost` has one
/// address of each.
fn order(addresses: &[SocketAddr], tries: u32) -> Vec<SocketAddr> {
    let (v4, v6): (Vec<SocketAddr>, Vec<SocketAddr>) = addresses.iter().partition(|address| address.is_ipv4());
    let (one, other) = if addresses.first().is_some_and(SocketAddr::is_ipv4) { (v4, v6) } else { (v6, v4) };
    let longest = one.len().max(other.len());
    let mut order: Vec<SocketAddr> =
        (0..longest).flat_map(|place| [one.get(place), other.get(place)]).flatten().copied().collect();
    let first = (tries as usize).checked_rem(order.len()).unwrap_or(0);
    order.rotate_left(first);
    order
}

/// Returns why an attempt failed, in a few words.
pub(crate) fn cause(error: &io::Error) -> String {
    match error.kind() {
        // The operating system's texts end with an error number.
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset if error.get_ref().is_none() => "connection reset".to_owned(),
        io::ErrorKind::BrokenPipe if error.get_ref().is_none() => "the server closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::future::join_all;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(8);

    #[tokio::test(start_paused = true)]
    async fn a_process_has_a_bounded_number_of_attempts_in_progress() {
        let (now, most) = (Cell::new(0), Cell::new(0));
        let attempts = (0..500).map(|_| {
            in_turn(Some(&TURNS), LIMIT, async {
                now.set(now.get() + 1);
                most.set(most.get().max(now.get()));
                tokio::time::sleep(Duration::from_millis(1)).await;
                now.set(now.get() - 1);
            })
        });
        join_all(attempts).await;
        assert!((1..=AT_ONCE).contains(&most.get()), "{}", most.get());
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_at_silent_hosts_keep_no_other_waiting_for_long() {
        let silent = join_all((0..10 * AT_ONCE).map(|_| in_turn(Some(&TURNS), LIMIT, std::future::pending::<()>())));
        let other = async {
            tokio::task::yield_now().await;
            let begun = tokio::time::Instant::now();
            in_turn(Some(&TURNS), LIMIT, async {}).await.expect("in time");
            begun.elapsed()
        };
        tokio::select! {
            biased;
            _ = silent => unreachable!("they are silent"),
            waited = other => assert!(waited <= LIMIT / LONGEST_WAIT, "{waited:?}"),
        }
    }

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|address| address.parse().expect("an address")).collect()
    }

    #[test]
    fn each_try_begins_with_another_address_and_the_families_alternate() {
        let name = addresses(&["[::1]:1", "[::2]:1", "127.0.0.1:1"]);
        assert_eq!(order(&name, 0), addresses(&["[::1]:1", "127.0.0.1:1", "[::2]:1"]));
        assert_eq!(order(&name, 1), addresses(&["127.0.0.1:1", "[::2]:1", "[::1]:1"]));
        assert_eq!(order(&name, 5), addresses(&["[::2]:1", "[::1]:1", "127.0.0.1:1"]));
        let name = addresses(&["10.0.0.1:1", "10.0.0.2:1"]);
        assert_eq!(order(&name, 3), addresses(&["10.0.0.2:1", "10.0.0.1:1"]));
        assert_eq!(order(&[], 3), []);
    }

    #[tokio::test]
    async fn a_server_is_known_by_its_address_under_any_name() {
        let network = Network { tls: None };
        let at = |name: &str, port| {
            network.is_at(Endpoint::new(name, port).expect("a name"), addresses(&["127.0.0.1:7"])[0])
        };
        assert!(at("localhost", "7").await && at("127.0.0.1", "7").await);
        assert!(!at("127.0.0.1", "8").await && !at("127.0.0.2", "7").await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_does_not_answer_costs_no_more_than_a_moment() {
        let begun = tokio::time::Instant::now();
        let connect = |address: SocketAddr| async move {
            match address.port() {
                1 => std::future::pending().await,
                2 => Err(io::ErrorKind::ConnectionRefused.into()),
                port => Ok(port),
            }
        };
        let name = addresses(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:2", "10.0.0.4:2", "10.0.0.5:3"]);
        assert_eq!(first_of(name, connect).await.ok(), Some(3));
        assert_eq!(begun.elapsed(), 2 * ATTEMPT_DELAY, "no delay after a refusal");
        let refused = first_of(addresses(&["10.0.0.3:2", "10.0.0.4:2"]), connect).await;
        assert_eq!(refused.expect_err("both refuse").kind(), io::ErrorKind::ConnectionRefused);
        let unknown = first_of(Vec::new(), connect).await.expect_err("no address");
        assert_eq!(unknown.to_string(), "name not found");
    }
}
