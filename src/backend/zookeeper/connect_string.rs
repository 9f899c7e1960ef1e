//! The list of servers to connect to, and how it is handed to the client crate.

use std::fmt;
use std::net::Ipv6Addr;
use std::time::Duration;

use crate::path;

const DEFAULT_PORT: u16 = 2181;

/// The longest list handed to the client crate. It tries the whole list at once when a connection breaks, so
/// a longer one would be a burst.
const MOST_ENTRIES: usize = 128;

/// The prefixes that the client crate knows; without one a host is reached as the client's TLS setting says.
const PREFIXES: [&str; 2] = ["tcp://", "tcp+tls://"];

const ALLOWED: &str = "host[:port][,host[:port]...][/chroot], IPv6 addresses in brackets, \
                       each host optionally after tcp:// or tcp+tls://";

/// A connect string that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidConnectString {
    /// The value as it was given.
    pub(crate) value: String,
    /// The part of it that is wrong.
    pub(crate) part: String,
    /// What is wrong with that part.
    pub(crate) why: &'static str,
}

impl fmt::Display for InvalidConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid connect string {}: ", path::quoted(&self.value))?;
        if self.part != self.value {
            write!(f, "in {}, ", path::quoted(&self.part))?;
        }
        write!(f, "{}; allowed is {ALLOWED}", self.why)
    }
}

impl std::error::Error for InvalidConnectString {}

/// Where the ensemble is: its servers, and the part of the tree that stands for the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectString {
    hosts: Vec<String>,
    chroot: Option<String>,
}

impl ConnectString {
    /// Understands `host[:port][,host[:port]...][/chroot]`. White space around a host does not matter.
    pub(crate) fn parse(value: &str) -> Result<Self, InvalidConnectString> {
        let invalid = |(part, why): (&str, &'static str)| InvalidConnectString {
            value: value.to_owned(),
            part: part.to_owned(),
            why,
        };
        value.split(',').try_for_each(check_prefix).map_err(invalid)?;
        let (hosts, chroot) = split_chroot(value);
        Ok(Self {
            hosts: hosts.split(',').map(host).collect::<Result<_, _>>().map_err(invalid)?,
            chroot: chroot.map_or(Ok(None), normal_chroot).map_err(invalid)?,
        })
    }

    /// The servers, each with its port, in the order given and in the form that the client crate understands.
    pub(crate) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The path that stands for the root, if it is not the root itself.
    pub(crate) fn chroot(&self) -> Option<&str> {
        self.chroot.as_deref()
    }

    /// The string for the client crate, with the list of hosts repeated so that a lost connection is found
    /// again soon.
    ///
    /// The client crate doubles its pause from one pass through the list to the next, without a bound, so
    /// with few hosts it soon sleeps through what is left of the session. Within a pass it pauses only
    /// shortly, so a longer list is tried steadily. The number of repetitions is the one with the shortest
    /// [longest pause](longest_pause_ms) in the first 0.6 of the session timeout; later the session is given
    /// up anyway.
    pub(crate) fn padded(&self, session_timeout: Duration) -> String {
        let horizon_ms = (session_timeout / 5).saturating_mul(3).as_millis();
        let times = best_repetitions(self.hosts.len(), u64::try_from(horizon_ms).unwrap_or(u64::MAX));
        self.with_hosts(&vec![self.hosts.join(","); times].join(","))
    }

    fn with_hosts(&self, hosts: &str) -> String {
        format!("{hosts}{}", self.chroot().unwrap_or(""))
    }
}

/// The normal form: each port written out, no white space.
impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_hosts(&self.hosts.join(",")))
    }
}

/// What is wrong: the part and why.
type Fault<'a> = (&'a str, &'static str);

/// Parts the hosts from the chroot at the first slash that is not in the prefix of a host.
fn split_chroot(value: &str) -> (&str, Option<&str>) {
    let mut at = 0;
    for entry in value.split(',') {
        let address = after_prefix(entry.trim_start());
        if let Some(slash) = address.find('/') {
            let (start, end) = (at + entry.len() - address.len() + slash, value.len());
            return (value.get(..start).unwrap_or(value), value.get(start..end));
        }
        at += entry.len() + 1;
    }
    (value, None)
}

fn after_prefix(entry: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| entry.strip_prefix(prefix)).unwrap_or(entry)
}

/// Tells a mistaken prefix for what it is: `zk://host` would otherwise pass for a host with a wrong port.
fn check_prefix(entry: &str) -> Result<(), Fault<'_>> {
    let unknown = after_prefix(entry.trim_start()).contains("://");
    if unknown { Err((entry.trim(), "a host has no other prefix than tcp:// or tcp+tls://")) } else { Ok(()) }
}

/// Checks the chroot; `/` is none.
fn normal_chroot(chroot: &str) -> Result<Option<String>, Fault<'_>> {
    let chroot = chroot.trim_end();
    if chroot == "/" {
        return Ok(None);
    }
    if chroot.contains(',') {
        return Err((chroot, "the chroot stands once, after the last host, and has no comma"));
    }
    path::validate(chroot).map_err(|invalid| (chroot, invalid.why))?;
    Ok(Some(chroot.to_owned()))
}

/// The normal form of one entry of the list.
fn host(entry: &str) -> Result<String, Fault<'_>> {
    let entry = entry.trim();
    let address = after_prefix(entry);
    let prefix = entry.strip_suffix(address).unwrap_or("");
    let (name, port) = split_port(address).map_err(|why| (entry, why))?;
    check_name(name).map_err(|why| (entry, why))?;
    let port = port.map_or(Ok(DEFAULT_PORT), parse_port).map_err(|why| (entry, why))?;
    Ok(format!("{prefix}{name}:{port}"))
}

/// Parts the port from a host; an IPv6 address keeps its brackets.
fn split_port(address: &str) -> Result<(&str, Option<&str>), &'static str> {
    if !address.starts_with('[') {
        return Ok(match address.split_once(':') {
            None => (address, None),
            Some((_, rest)) if rest.contains(':') => {
                return Err("an IPv6 address must stand in brackets, and a host has one port");
            }
            Some((name, port)) => (name, Some(port)),
        });
    }
    let end = address.rfind(']').ok_or("the bracket of the IPv6 address must be closed")? + 1;
    match address.split_at_checked(end) {
        Some((name, "")) => Ok((name, None)),
        Some((name, rest)) => match rest.strip_prefix(':') {
            Some(port) => Ok((name, Some(port))),
            None => Err("after the bracket only a port may follow"),
        },
        None => Err("the bracket of the IPv6 address must be closed"),
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("a host must not be empty");
    }
    if let Some(address) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        return if is_ipv6(address) { Ok(()) } else { Err("brackets must hold an IPv6 address") };
    }
    if name.bytes().all(is_name_byte) { Ok(()) } else { Err("a host has only letters, digits, '-', '_' and '.'") }
}

/// An IPv6 address, which may name its network interface as in `fe80::1%eth0`.
fn is_ipv6(address: &str) -> bool {
    let (address, zone) = address.split_once('%').unwrap_or((address, "none"));
    address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty() && zone.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn parse_port(port: &str) -> Result<u16, &'static str> {
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits && port != 0 => Ok(port),
        _ => Err("a port must be a number from 1 to 65535"),
    }
}

/// How often a list of `hosts` entries should be repeated; of equally good numbers the smallest.
fn best_repetitions(hosts: usize, horizon_ms: u64) -> usize {
    let most = (MOST_ENTRIES / hosts.max(1)).max(1);
    (1..=most).min_by_key(|times| longest_pause_ms(hosts * times, horizon_ms)).unwrap_or(1)
}

/// The longest pause between two attempts to connect, of those that begin within `horizon_ms` after the
/// connection was lost: how long a network that has healed can go unnoticed.
///
/// This follows the client crate (zookeeper-client 0.11.2, `endpoint.rs`), without its jitter of up to 100 ms
/// and for attempts that are refused at once. It shuffles the list after each connect, so only the pauses
/// between attempts matter and not which host comes when.
fn longest_pause_ms(entries: usize, horizon_ms: u64) -> u64 {
    let (mut now, mut longest) = (0u64, 0);
    for pass in 0..=u64::BITS {
        for entry in 0..entries as u64 {
            if now >= horizon_ms {
                return longest;
            }
            let pause = pause_before_ms(pass, entry, entries as u64);
            longest = longest.max(pause);
            now = now.saturating_add(pause);
        }
    }
    longest
}

/// The pause before an entry of the list, in the pass through it that is numbered from 0.
fn pause_before_ms(pass: u32, entry: u64, entries: u64) -> u64 {
    match (pass, entry) {
        (0, _) => 0,
        (_, 0) => (100 * entries).min(1000).saturating_mul(2u64.saturating_pow(pass - 1)),
        _ => 50 * entry,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(value: &str) -> ConnectString {
        ConnectString::parse(value).unwrap_or_else(|error| panic!("{error}"))
    }

    fn why(value: &str) -> &'static str {
        ConnectString::parse(value).expect_err(value).why
    }

    #[test]
    fn the_normal_form() {
        for (value, normal) in [
            ("zk1", "zk1:2181"),
            ("zk1:2222", "zk1:2222"),
            ("zk1,zk-2.example.org:2182/app/x", "zk1:2181,zk-2.example.org:2182/app/x"),
            (" zk1 , zk2:1 /app ", "zk1:2181,zk2:1/app"),
            ("zk1/", "zk1:2181"),
            ("10.0.0.1:65535", "10.0.0.1:65535"),
            ("[::1]", "[::1]:2181"),
            ("[2001:db8::1]:2182,zk/a", "[2001:db8::1]:2182,zk:2181/a"),
            ("[fe80::1%eth0]:1", "[fe80::1%eth0]:1"),
            ("tcp://zk1,tcp+tls://zk2:2281,zk3", "tcp://zk1:2181,tcp+tls://zk2:2281,zk3:2181"),
            ("tcp+tls://[::1]/app", "tcp+tls://[::1]:2181/app"),
            ("zk1,zk1", "zk1:2181,zk1:2181"),
            ("zk1:00001", "zk1:1"),
        ] {
            assert_eq!(parsed(value).to_string(), normal, "{value}");
        }
    }

    #[test]
    fn hosts_and_chroot() {
        let string = parsed("tcp+tls://zk1, zk2:99/app");
        assert_eq!(string.hosts(), ["tcp+tls://zk1:2181", "zk2:99"]);
        assert_eq!(string.chroot(), Some("/app"));
        assert_eq!(parsed("zk1/").chroot(), None);
    }

    #[test]
    fn each_fault_is_named() {
        for (value, expected) in [
            ("", "must not be empty"),
            (" ", "must not be empty"),
            ("zk1,", "must not be empty"),
            (",zk1", "must not be empty"),
            ("zk1,,zk2", "must not be empty"),
            ("/app", "must not be empty"),
            (":2181", "must not be empty"),
            ("tcp://", "must not be empty"),
            ("zk1:", "from 1 to 65535"),
            ("zk1:0", "from 1 to 65535"),
            ("zk1:65536", "from 1 to 65535"),
            ("zk1:+1", "from 1 to 65535"),
            ("zk1:-1", "from 1 to 65535"),
            ("zk1:abc", "from 1 to 65535"),
            ("[::1]:", "from 1 to 65535"),
            ("::1", "brackets"),
            ("zk1:1:2", "brackets"),
            ("[::1", "closed"),
            ("[::1]2181", "only a port"),
            ("[zk1]", "IPv6"),
            ("[]", "IPv6"),
            ("[::1%]", "IPv6"),
            ("z k", "only letters"),
            ("user@zk1", "only letters"),
            ("zk1;zk2", "only letters"),
            ("zk1/app/", "end with"),
            ("zk1/a//b", "empty element"),
            ("zk1/a/..", "\"..\""),
            ("zk1/a,zk2", "after the last host"),
            ("zk1/a,b", "after the last host"),
            ("http://zk1:2181", "no other prefix"),
            ("zk1,TCP://zk2", "no other prefix"),
        ] {
            let why = why(value);
            assert!(why.contains(expected), "{value:?}: {why}");
        }
    }

    #[test]
    fn the_error_names_value_part_and_what_is_allowed() {
        let error = ConnectString::parse("zk1,zk2:0/app").expect_err("port");
        assert_eq!(
            error.to_string(),
            "invalid connect string \"zk1,zk2:0/app\": in \"zk2:0\", \
             a port must be a number from 1 to 65535; allowed is host[:port][,host[:port]...][/chroot], \
             IPv6 addresses in brackets, each host optionally after tcp:// or tcp+tls://"
        );
        let empty = ConnectString::parse("").expect_err("empty").to_string();
        assert!(empty.starts_with("invalid connect string \"\": a host must not be empty; allowed is"), "{empty}");
    }

    /// The pause after the last of a few attempts, by hand: one host is tried at 0, 100, 300, 700, 1500, 3100
    /// ms.
    #[test]
    fn the_simulation_follows_the_client_crate() {
        assert_eq!(longest_pause_ms(1, 0), 0);
        assert_eq!(longest_pause_ms(1, 1), 100);
        assert_eq!(longest_pause_ms(1, 700), 400);
        assert_eq!(longest_pause_ms(1, 701), 800);
        // Three hosts: 0 0 0, 300 +50 +100, 600 ...
        assert_eq!(longest_pause_ms(3, 450), 300);
        assert_eq!(longest_pause_ms(3, 451), 600);
        // A long list has its longest pause at its end, not at its start.
        assert_eq!(longest_pause_ms(128, 402_000), 127 * 50);
    }

    /// The longest pause in ms with the plain list and with the padded one, and the entries of the latter:
    ///
    /// | session timeout | 1 host | 3 hosts | 5 hosts |
    /// |---|---|---|---|
    /// | 2 s | 800, 600 with 3 | 600, 600 with 3 | 1000, 1000 with 5 |
    /// | 4 s | 1600, 900 with 9 | 1200, 900 with 9 | 1000, 1000 with 5 |
    /// | 10 s | 3200, 1000 with 15 | 4800, 1000 with 15 | 4000, 1000 with 15 |
    /// | 20 s | 6400, 1050 with 22 | 9600, 1050 with 24 | 8000, 1050 with 25 |
    /// | 40 s | 12800, 1500 with 31 | 19200, 1500 with 33 | 16000, 1500 with 35 |
    /// | 60 s | 25600, 1850 with 38 | 19200, 1850 with 39 | 32000, 1850 with 40 |
    #[test]
    fn padding_keeps_the_pauses_short() {
        let table = [
            (2, [(800, 600, 3), (600, 600, 3), (1000, 1000, 5)]),
            (4, [(1600, 900, 9), (1200, 900, 9), (1000, 1000, 5)]),
            (10, [(3200, 1000, 15), (4800, 1000, 15), (4000, 1000, 15)]),
            (20, [(6400, 1050, 22), (9600, 1050, 24), (8000, 1050, 25)]),
            (40, [(12800, 1500, 31), (19200, 1500, 33), (16000, 1500, 35)]),
            (60, [(25600, 1850, 38), (19200, 1850, 39), (32000, 1850, 40)]),
        ];
        for (seconds, row) in table {
            let horizon = seconds * 600;
            for (hosts, expected) in [1, 3, 5].into_iter().zip(row) {
                let entries = hosts * best_repetitions(hosts, horizon);
                let pause = longest_pause_ms(entries, horizon);
                assert_eq!((longest_pause_ms(hosts, horizon), pause, entries), expected, "{seconds} s, {hosts} hosts");
                assert!(pause <= (seconds * 250).max(1000), "{seconds} s, {hosts} hosts: {pause} ms");
            }
        }
    }

    #[test]
    fn padded_repeats_the_list_and_keeps_one_chroot() {
        let one = parsed("zk1/app").padded(Duration::from_secs(2));
        assert_eq!(one, "zk1:2181,zk1:2181,zk1:2181/app");
        let three = parsed("a,b,c").padded(Duration::from_secs(4));
        assert_eq!(three, ["a:2181,b:2181,c:2181"; 3].join(","));
        assert_eq!(parsed("a/x").padded(Duration::ZERO), "a:2181/x");
        let many = vec!["zk"; 200].join(",");
        assert_eq!(parsed(&many).padded(Duration::from_secs(60)), parsed(&many).to_string());
        assert!(parsed("a").padded(Duration::MAX).len() <= MOST_ENTRIES * "a:2181,".len());
    }

    proptest! {
        #[test]
        fn any_text_is_judged_without_a_panic(value in any::<String>()) {
            let _ = ConnectString::parse(&value).map_err(|error| error.to_string());
        }

        #[test]
        fn what_is_accepted_has_a_normal_form_that_reads_the_same(
            value in r"( ?(tcp://|tcp\+tls://)?(a|\[::1\]|b\.c)(:[0-9]{1,5})?[ ,/]?){1,4}(/[a-z.]{1,2}){0,2}"
        ) {
            if let Ok(string) = ConnectString::parse(&value) {
                prop_assert_eq!(ConnectString::parse(&string.to_string()), Ok(string.clone()));
                let padded = parsed(&string.padded(Duration::from_secs(10)));
                prop_assert_eq!(padded.chroot(), string.chroot());
                for (entry, host) in padded.hosts().iter().zip(string.hosts().iter().cycle()) {
                    prop_assert_eq!(entry, host);
                }
            }
        }

        #[test]
        fn no_other_number_of_repetitions_is_better(hosts in 1..140usize, seconds in 0..100u64) {
            let horizon = seconds * 600;
            let best = best_repetitions(hosts, horizon);
            let pause = longest_pause_ms(hosts * best, horizon);
            for times in 1..=(MOST_ENTRIES / hosts).max(1) {
                let other = longest_pause_ms(hosts * times, horizon);
                let better = other < pause || (other == pause && times < best);
                prop_assert!(!better, "{} is better than {}", times, best);
            }
        }
    }
}
