//! What servers answer to four-letter words. No I/O.

use std::net::IpAddr;
use std::time::Duration;

/// What a server that does not permit a word says.
const NOT_PERMITTED: &str = "is not executed because it is not in the whitelist";
/// What a server says while it has no quorum.
const NOT_SERVING: &str = "not currently serving requests";

/// The answer to a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What was asked for.
    Text(String),
    /// The word is not permitted: `4lw.commands.whitelist` of the server does not have it.
    NotPermitted,
    /// The server serves no clients now.
    NotServing,
}

/// The times in the configuration of a server, as far as it reports them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// `tickTime`.
    pub tick: Option<Duration>,
    /// `minSessionTimeout`.
    pub min: Option<Duration>,
    /// `maxSessionTimeout`.
    pub max: Option<Duration>,
}

/// The connection of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// The session.
    pub session: i64,
    /// The address and the port of the client.
    pub address: String,
    /// When it connected, in milliseconds since 1970, by the clock of the server.
    pub since_ms: i64,
}

impl Answer {
    /// Returns what these bytes say.
    pub fn of(bytes: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(bytes);
        // An answer in which these words occur by chance has several lines.
        let says = |words: &str| text.trim().lines().count() == 1 && text.contains(words);
        if says(NOT_PERMITTED) {
            Answer::NotPermitted
        } else if says(NOT_SERVING) {
            Answer::NotServing
        } else {
            Answer::Text(text.into_owned())
        }
    }
}

/// Returns the mode in an answer to `srvr`: `leader`, `follower`, `observer`, `standalone` or `read-only`.
pub fn mode(srvr: &str) -> Option<&str> {
    srvr.lines().find_map(|line| line.strip_prefix("Mode:")).map(str::trim)
}

/// Returns how many watches there are, from an answer to `wchs`.
pub fn watches(wchs: &str) -> Option<u64> {
    wchs.lines().find_map(|line| line.strip_prefix("Total watches:"))?.trim().parse().ok()
}

impl Times {
    /// Returns the times in an answer to `conf`.
    pub fn of(conf: &str) -> Times {
        let time = |name: &str| {
            let mut pairs = conf.lines().filter_map(|line| line.split_once('='));
            let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
            value.trim().parse().ok().map(Duration::from_millis)
        };
        Times { tick: time("tickTime"), min: time("minSessionTimeout"), max: time("maxSessionTimeout") }
    }
}

/// Returns the connections of sessions in an answer to `cons`; `None` if it is not the answer of a ZooKeeper server.
/// Skips connections without a session, such as the one that asks.
pub fn connections(cons: &str) -> Option<impl Iterator<Item = Connected>> {
    let is_answer = cons.lines().all(|line| line.trim().is_empty() || line.contains("]("));
    is_answer.then(|| cons.lines().filter_map(connection))
}

/// Parses `/10.0.0.7:40512[1](queued=0,…,sid=0x100003a7c2b0004,…)`. The client's name may precede the slash.
fn connection(line: &str) -> Option<Connected> {
    let (client, details) = line.trim().split_once("](")?;
    let (client, _) = client.rsplit_once('[')?;
    let (_, address) = client.rsplit_once('/')?;
    let value = |key: &str| {
        let mut pairs = details.trim_end_matches(')').split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|&(name, _)| name == key).map(|(_, value)| value)
    };
    let session = u64::from_str_radix(value("sid")?.strip_prefix("0x")?, 16).ok()?.cast_signed();
    let since_ms = value("est").and_then(|since| since.parse().ok()).unwrap_or_default();
    Some(Connected { session, address: plain(address)?, since_ms })
}

/// Returns an address with its port as people write it. Java writes IPv6 in full, and old versions omit the brackets.
fn plain(address: &str) -> Option<String> {
    let (host, port) = address.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    // An IPv6 address may name its network interface.
    let (host, interface) = host.split_once('%').map_or((host, ""), |(host, interface)| (host, interface));
    let is_known = interface.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    match host.parse::<IpAddr>().ok().filter(|_| is_known)? {
        IpAddr::V4(host) => Some(format!("{host}:{port}")),
        IpAddr::V6(host) if interface.is_empty() => Some(format!("[{host}]:{port}")),
        IpAddr::V6(host) => Some(format!("[{host}%{interface}]:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SRVR: &str = "Zookeeper version: 3.9.3--1, built on 2025-01-01 00:00 UTC\nLatency min/avg/max: 0/0.5/12\n\
        Received: 37\nSent: 36\nConnections: 1\nOutstanding: 0\nZxid: 0x3d\nMode: follower\nNode count: 23\n";
    const CONF: &str = "clientPort=2181\nsecureClientPort=-1\ndataDir=/data/version-2\ntickTime=500\n\
        maxClientCnxns=0\nminSessionTimeout=1000\nmaxSessionTimeout=60000\nclientPortListenBacklog=-1\nserverId=1\n";
    const WCHS: &str = "2 connections watching 3 paths\nTotal watches:4\n";
    const CONS: &str = " /172.17.0.1:40512[1](queued=0,recved=5,sent=5,sid=0x100003a7c2b0004,lop=PING,\
        est=1700000000123,to=10000,lcxid=0x3,lzxid=0x5,lresp=12,llat=0,minlat=0,avglat=0,maxlat=1)\n \
        client.example.org/10.0.0.7:99[1](queued=0,recved=1,sent=1,sid=0xff00003a7c2b0005,lop=SESS,est=7,to=1)\n \
        /0:0:0:0:0:0:0:1:40514[1](queued=0,recved=1,sent=1,sid=0x1,lop=SESS,est=7,to=1)\n \
        /[fe80:0:0:0:0:0:0:1%eth0]:40515[1](queued=0,recved=1,sent=1,sid=0x2,lop=SESS,est=7,to=1)\n \
        /127.0.0.1:40513[0](queued=0,recved=1,sent=0)\n\n";

    #[test]
    fn a_word_that_is_not_permitted_and_a_server_that_does_not_serve() {
        let refused = b"conf is not executed because it is not in the whitelist.\n";
        assert_eq!(Answer::of(refused), Answer::NotPermitted);
        let not_serving = b"This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(Answer::of(not_serving), Answer::NotServing);
        assert_eq!(Answer::of(SRVR.as_bytes()), Answer::Text(SRVR.to_owned()));
        assert_eq!(Answer::of(b"a\xff"), Answer::Text("a\u{fffd}".to_owned()));
    }

    #[test]
    fn the_mode_the_watches_and_the_times() {
        assert_eq!(mode(SRVR), Some("follower"));
        assert_eq!(watches(WCHS), Some(4));
        let [tick, min, max] = [500, 1000, 60_000].map(|ms| Some(Duration::from_millis(ms)));
        assert_eq!(Times::of(CONF), Times { tick, min, max });
        assert_eq!(Times::of("tickTime=-1\nminSessionTimeout=x\n"), Times::default());
        assert_eq!((mode(CONF), watches(CONF), Times::of(SRVR)), (None, None, Times::default()));
    }

    #[test]
    fn the_addresses_of_sessions() {
        let connected = |session: u64, address: &str, since_ms| Connected {
            session: session.cast_signed(),
            address: address.to_owned(),
            since_ms,
        };
        let expected = [
            connected(0x100_003a_7c2b_0004, "172.17.0.1:40512", 1_700_000_000_123),
            connected(0xff00_003a_7c2b_0005, "10.0.0.7:99", 7),
            connected(1, "[::1]:40514", 7),
            connected(2, "[fe80::1%eth0]:40515", 7),
        ];
        assert_eq!(connections(CONS).expect("connections").collect::<Vec<_>>(), expected);
        assert!(connections(SRVR).is_none() && connections("\n").is_some_and(|mut none| none.next().is_none()));
    }

    fn is_read_without_a_panic(text: &str) {
        let _ = (Answer::of(text.as_bytes()), mode(text), watches(text), Times::of(text));
        for Connected { address, .. } in connections(text).into_iter().flatten() {
            assert!(!address.contains(char::is_control), "{address:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in any::<Vec<u8>>()) {
            let _ = Answer::of(&bytes);
            is_read_without_a_panic(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn answers_in_which_something_is_lost_or_replaced_are_read_without_a_panic(
            which in 0..4_usize,
            at in any::<prop::sample::Index>(),
            length in 0..40_usize,
            put in r"\PC{0,3}|\x1b|[\[\]():,=/%]{1,3}",
        ) {
            let mut chars: Vec<char> = [SRVR, CONF, WCHS, CONS][which].chars().collect();
            let start = at.index(chars.len());
            let end = chars.len().min(start + length);
            chars.splice(start..end, put.chars());
            is_read_without_a_panic(&chars.into_iter().collect::<String>());
        }
    }
}
