//! ZooKeeper's four-letter words: short questions over a connection of their own.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A paused server accepts the connection and then says nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// The answer of the server at `addr` to `word`.
pub async fn ask(addr: SocketAddr, word: &str) -> io::Result<String> {
    let asking = async {
        let mut connection = TcpStream::connect(addr).await?;
        connection.write_all(word.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    timeout(PATIENCE, asking).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// `leader`, `follower` or `standalone`; nothing while the server does not serve.
pub async fn mode(addr: SocketAddr) -> Option<String> {
    // `ruok` and a mere connect succeed before the server serves, `srvr` does not.
    let answer = ask(addr, "srvr").await.ok()?;
    answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(|mode| mode.trim().to_owned())
}

/// The answer to `mntr`, key by key.
pub async fn mntr(addr: SocketAddr) -> io::Result<HashMap<String, String>> {
    let answer = ask(addr, "mntr").await?;
    let pairs = answer.lines().filter_map(|line| line.split_once('\t'));
    Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// The sessions of the connections to the server.
pub async fn connections(addr: SocketAddr) -> io::Result<Vec<i64>> {
    let answer = ask(addr, "cons").await?;
    let sessions =
        answer.split("sid=0x").skip(1).filter_map(|rest| rest.split(|c: char| !c.is_ascii_hexdigit()).next());
    Ok(sessions.filter_map(|id| u64::from_str_radix(id, 16).ok()).map(u64::cast_signed).collect())
}

/// How many watches the server has for this session at paths that begin so.
pub async fn watches(addr: SocketAddr, session: i64, prefix: &str) -> io::Result<usize> {
    let (by_path, session) = (ask(addr, "wchp").await?, format!("0x{session:x}"));
    let mut counts = false;
    let mut count = 0;
    for line in by_path.lines() {
        if line.starts_with('/') {
            counts = line.starts_with(prefix);
        } else if counts && line.trim() == session {
            count += 1;
        }
    }
    Ok(count)
}
