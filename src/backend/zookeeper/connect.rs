//! A connection to one host, up to the first byte of ZooKeeper's protocol.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{error::Elapsed, timeout};

use super::connect_string::Endpoint;

/// The most attempts that a process has under way at once. A server takes connections out of a queue of 50; one that
/// finds it full is tried again by the operating system after a second.
const AT_ONCE: usize = 32;
/// An attempt waits for its turn for this part of its time limit at most.
const LONGEST_WAIT: u32 = 4;
/// And its turn lasts for this part of it at most: a silent host must not keep the others waiting.
const LONGEST_TURN: u32 = 8;

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// Runs an attempt to connect, from the first packet to the answer of the server, while few others of this process are
/// under way. Fails once it has taken `limit`; its time begins with its turn.
pub(crate) async fn in_turn<A: Future>(limit: Duration, attempt: A) -> Result<A::Output, Elapsed> {
    let turn = timeout(limit / LONGEST_WAIT, TURNS.acquire()).await;
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
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// Makes connections.
pub(crate) trait Connector: Send + Sync + fmt::Debug {
    /// Connects to a server. `tries` chooses among several addresses of its name.
    fn connect(&self, endpoint: Endpoint, tries: u32) -> BoxFuture<'static, io::Result<Stream>>;
}

/// Connects by TCP, and by TLS where it is configured.
#[derive(Debug)]
pub(crate) struct Network {
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<std::sync::Arc<rustls::ClientConfig>>,
}

impl Connector for Network {
    fn connect(&self, endpoint: Endpoint, tries: u32) -> BoxFuture<'static, io::Result<Stream>> {
        #[cfg(feature = "tls")]
        let tls = self.tls.clone().filter(|_| endpoint.encrypted != Some(false));
        async move {
            let stream = connect_tcp(&endpoint, tries).await?;
            #[cfg(feature = "tls")]
            if let Some(config) = tls {
                let stream = super::tls::handshake(stream, &endpoint.host, config).await?;
                let (read, write) = tokio::io::split(stream);
                return Ok(Stream { read: Box::new(read), write: Box::new(write) });
            }
            let (read, write) = stream.into_split();
            Ok(Stream { read: Box::new(read), write: Box::new(write) })
        }
        .boxed()
    }
}

async fn connect_tcp(endpoint: &Endpoint, tries: u32) -> io::Result<TcpStream> {
    let resolved = tokio::net::lookup_host((endpoint.name(), endpoint.port)).await;
    let addresses: Vec<SocketAddr> = resolved.map(Iterator::collect).unwrap_or_default();
    let mut latest = io::Error::new(io::ErrorKind::NotFound, "name not found");
    for address in choose(&addresses, tries) {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => latest = error,
        }
    }
    Err(latest)
}

/// Returns one address of each family, others at each try: a name may have many servers, and `localhost` has one in two
/// families. The first family alternates too, as an address may not answer at all.
fn choose(addresses: &[SocketAddr], tries: u32) -> Vec<SocketAddr> {
    let v4 = addresses.first().is_some_and(SocketAddr::is_ipv4) == tries.is_multiple_of(2);
    let both = addresses.iter().any(SocketAddr::is_ipv4) && addresses.iter().any(SocketAddr::is_ipv6);
    // A family comes first at every other try, and each of its addresses must have that turn.
    let turn = if both { tries / 2 } else { tries } as usize;
    [v4, !v4]
        .into_iter()
        .filter_map(|v4| {
            let family: Vec<_> = addresses.iter().filter(|address| address.is_ipv4() == v4).collect();
            let place = turn.checked_rem(family.len())?;
            family.get(place).map(|address| **address)
        })
        .collect()
}

/// Returns why an attempt failed, in a few words.
pub(crate) fn cause(error: &io::Error) -> String {
    match error.kind() {
        // The operating system's words have a number behind them.
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
    async fn a_process_has_a_bounded_number_of_attempts_under_way() {
        let (now, most) = (Cell::new(0), Cell::new(0));
        let attempts = (0..500).map(|_| {
            in_turn(LIMIT, async {
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
        let silent = join_all((0..10 * AT_ONCE).map(|_| in_turn(LIMIT, std::future::pending::<()>())));
        let other = async {
            tokio::task::yield_now().await;
            let begun = tokio::time::Instant::now();
            in_turn(LIMIT, async {}).await.expect("in time");
            begun.elapsed()
        };
        tokio::select! {
            biased;
            _ = silent => unreachable!("they are silent"),
            waited = other => assert!(waited <= LIMIT / LONGEST_WAIT, "{waited:?}"),
        }
    }

    #[test]
    fn each_try_takes_other_addresses_one_of_each_family() {
        let parse = |list: &[&str]| list.iter().filter_map(|address| address.parse().ok()).collect::<Vec<SocketAddr>>();
        let addresses = parse(&["[::1]:1", "[::2]:1", "127.0.0.1:1"]);
        assert_eq!(choose(&addresses, 0), parse(&["[::1]:1", "127.0.0.1:1"]));
        assert_eq!(choose(&addresses, 1), parse(&["127.0.0.1:1", "[::1]:1"]));
        assert_eq!(choose(&addresses, 2), parse(&["[::2]:1", "127.0.0.1:1"]));
        let addresses = parse(&["10.0.0.1:1", "10.0.0.2:1"]);
        assert_eq!(choose(&addresses, 3), parse(&["10.0.0.2:1"]));
        assert_eq!(choose(&[], 3), []);
    }

    #[test]
    fn each_address_comes_first_at_some_try() {
        for (v4, v6) in [(1, 0), (0, 3), (1, 1), (2, 1), (1, 2), (4, 3)] {
            let v4 = (1..=v4).map(|host| SocketAddr::from(([10, 0, 0, host], 1)));
            let v6 = (1..=v6).map(|host| SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, host], 1)));
            let addresses: Vec<SocketAddr> = v6.chain(v4).collect();
            let firsts: Vec<SocketAddr> =
                (0..24).filter_map(|tries| choose(&addresses, tries).first().copied()).collect();
            assert!(addresses.iter().all(|address| firsts.contains(address)), "{addresses:?} {firsts:?}");
        }
    }
}
