//! Asks the servers what no session can ask: ZooKeeper's four-letter words, each over a plain connection of its own.
//!
//! `hosts.rs` finds the servers to ask, `answers.rs` parses the answers. A server answers only the words that its
//! setting `4lw.commands.whitelist` permits: by default `srvr`.

mod answers;
mod hosts;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::{join_all, select_ok};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

pub use self::answers::{Answer, Connected, Times, connections, mode, watches};
pub use self::hosts::{Host, Hosts};
use crate::connection::Connection;

/// How long an answer may take, the connection included.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same, after the client has already waited for a connection.
const SHORTLY: Duration = Duration::from_millis(500);
/// How long an answer may be: `cons` of twenty thousand connections.
const LONGEST: u64 = 4 << 20;

/// Asks a server. `Err` says why there is no answer.
pub async fn ask(host: &Host, word: &str) -> Result<Answer, String> {
    match timeout(PATIENCE, answer(host, word)).await {
        Ok(answer) => answer.map(|bytes| Answer::of(&bytes)),
        Err(_) => Err(format!("no answer to {word} within {}", humantime::format_duration(PATIENCE))),
    }
}

/// Returns which of the servers are in read-only mode, as the end of an error: such a server closes the connection of a
/// client without giving a reason.
pub async fn read_only(connection: &Connection) -> String {
    let hosts = Hosts::of(connection).plain;
    let answers = join_all(hosts.iter().map(|host| timeout(SHORTLY, ask(host, "srvr")))).await;
    let named = hosts.iter().zip(answers).filter_map(|(host, answer)| match answer {
        Ok(Ok(Answer::Text(text))) if mode(&text) == Some("read-only") => {
            Some(format!("; {host} is in read-only mode: it has lost the other servers; start them"))
        }
        _ => None,
    });
    named.collect()
}

/// Returns the hosts, without those that share an address with an earlier one. A host without an address stays.
pub async fn distinct(hosts: Vec<Host>) -> Vec<Host> {
    let (mut distinct, mut known) = (Vec::new(), HashSet::new());
    for host in hosts {
        let addresses = timeout(PATIENCE, lookup_host((host.name.as_str(), host.port))).await;
        let addresses: Vec<SocketAddr> = addresses.ok().and_then(Result::ok).into_iter().flatten().collect();
        if !addresses.iter().any(|address| known.contains(address)) {
            distinct.push(host);
        }
        known.extend(addresses);
    }
    distinct
}

async fn answer(host: &Host, word: &str) -> Result<Vec<u8>, String> {
    let mut connection = connect(host).await?;
    connection.write_all(word.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    connection.take(LONGEST + 1).read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    match bytes.len() as u64 {
        0 => Err(format!("it closes the connection without an answer to {word}")),
        length if length > LONGEST => Err(format!("its answer to {word} is longer than {} MiB", LONGEST >> 20)),
        _ => Ok(bytes),
    }
}

/// Connects to whichever address of a host accepts first: `localhost` has two, and a server may listen on only one.
async fn connect(host: &Host) -> Result<TcpStream, String> {
    let addresses = lookup_host((host.name.as_str(), host.port)).await.map_err(|error| error.to_string())?;
    let addresses: Vec<SocketAddr> = addresses.collect();
    if addresses.is_empty() {
        return Err("its name has no address".to_owned());
    }
    let connections = addresses.into_iter().map(|address| Box::pin(TcpStream::connect(address)));
    let (connection, _) = select_ok(connections).await.map_err(|error| error.to_string())?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Starts a server that reads one word, sends this answer, and closes the connection.
    async fn server(answer: Vec<u8>) -> Host {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.expect("a connection");
            let mut word = [0; 4];
            connection.read_exact(&mut word).await.expect("a word");
            assert_eq!(&word, b"srvr");
            // A client that has read enough closes the connection before the end.
            let _ = connection.write_all(&answer).await;
        });
        Host { name: "127.0.0.1".to_owned(), port }
    }

    #[tokio::test]
    async fn the_answer_of_a_server() {
        let host = server(b"Mode: leader\n".to_vec()).await;
        assert_eq!(ask(&host, "srvr").await, Ok(Answer::Text("Mode: leader\n".to_owned())));
        let host = server(b"srvr is not executed because it is not in the whitelist.\n".to_vec()).await;
        assert_eq!(ask(&host, "srvr").await, Ok(Answer::NotPermitted));
    }

    #[tokio::test]
    async fn one_server_under_two_names_is_one() {
        let host = |name: &str, port| Host { name: name.to_owned(), port };
        let hosts = vec![host("127.0.0.1", 1), host("localhost", 1), host("127.0.0.1", 2), host("no such name", 1)];
        let expected = [host("127.0.0.1", 1), host("127.0.0.1", 2), host("no such name", 1)];
        assert_eq!(distinct(hosts).await, expected);
    }

    #[tokio::test]
    async fn why_there_is_no_answer() {
        let closed = ask(&server(Vec::new()).await, "srvr").await.expect_err("it says nothing");
        assert_eq!(closed, "it closes the connection without an answer to srvr");
        let long = ask(&server(vec![b'x'; (4 << 20) + 1]).await, "srvr").await.expect_err("it says too much");
        assert_eq!(long, "its answer to srvr is longer than 4 MiB");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let silent = Host { name: "127.0.0.1".to_owned(), port: listener.local_addr().expect("its address").port() };
        assert_eq!(ask(&silent, "srvr").await, Err("no answer to srvr within 2s".to_owned()));
        drop(listener);
        assert!(ask(&silent, "srvr").await.expect_err("nothing listens").contains("refused"));
    }
}
