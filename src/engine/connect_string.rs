//! The list of servers to connect to.

use std::fmt;
use std::net::Ipv6Addr;

use crate::util::path;

const DEFAULT_PORT: u16 = 2181;

/// The prefixes of a host, for a plain and an encrypted connection. Without one, the client's TLS options decide.
const PREFIXES: [&str; 2] = [PLAIN, ENCRYPTED];
const PLAIN: &str = "tcp://";
const ENCRYPTED: &str = "tcp+tls://";

/// The prefix of the name whose SRV records name the servers. ZooKeeper's own client calls it `dns-srv://`.
const SRV: [&str; 2] = ["srv://", "dns-srv://"];

const ALLOWED: &str = "host[:port][,host[:port]...][/chroot], IPv6 addresses in brackets, \
                       each host optionally after tcp:// or tcp+tls://, or srv://name[/chroot]";

/// A connect string that cannot be parsed.
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
        write!(f, "{}; expected {ALLOWED}", self.why)
    }
}

impl std::error::Error for InvalidConnectString {}

/// Where the ensemble is: its servers, and the part of the tree that the client uses as the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectString {
    /// Empty if SRV records name the servers.
    hosts: Vec<String>,
    /// The name that has the SRV records.
    srv: Option<String>,
    chroot: Option<String>,
}

impl ConnectString {
    /// Parses `host[:port][,host[:port]...][/chroot]` or `srv://name[/chroot]`. White space around a host is ignored.
    pub(crate) fn parse(value: &str) -> Result<Self, InvalidConnectString> {
        let invalid = |(part, why): (&str, &'static str)| InvalidConnectString {
            value: value.to_owned(),
            part: part.to_owned(),
            why,
        };
        if let Some(rest) = SRV.iter().find_map(|prefix| value.trim_start().strip_prefix(prefix)) {
            let (name, chroot) = split_chroot(rest);
            return Ok(Self {
                hosts: Vec::new(),
                srv: Some(srv_name(name).map_err(invalid)?),
                chroot: chroot.map_or(Ok(None), normal_chroot).map_err(invalid)?,
            });
        }
        value.split(',').try_for_each(check_prefix).map_err(invalid)?;
        let (hosts, chroot) = split_chroot(value);
        Ok(Self {
            hosts: hosts.split(',').map(host).collect::<Result<_, _>>().map_err(invalid)?,
            srv: None,
            chroot: chroot.map_or(Ok(None), normal_chroot).map_err(invalid)?,
        })
    }

    /// Returns the servers, each with its port, in the order given.
    pub(crate) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the path of the client's root, if it is not `/`.
    pub(crate) fn chroot(&self) -> Option<&str> {
        self.chroot.as_deref()
    }

    /// Returns the name whose SRV records name the servers.
    pub(crate) fn srv(&self) -> Option<&str> {
        self.srv.as_deref()
    }

    /// Returns the servers, parsed.
    pub(crate) fn endpoints(&self) -> Vec<Endpoint> {
        self.hosts.iter().map(|entry| Endpoint::of(entry)).collect()
    }
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// A name or an address; an IPv6 address is in brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether the prefix demands encryption; `None` without a prefix.
    pub(crate) encrypted: Option<bool>,
}

impl Endpoint {
    /// Returns the server of an entry in its normal form.
    fn of(entry: &str) -> Self {
        let address = after_prefix(entry);
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let encrypted = match entry.strip_suffix(address) {
            Some(PLAIN) => Some(false),
            Some(ENCRYPTED) => Some(true),
            _ => None,
        };
        Endpoint { host: host.to_owned(), port: port.parse().unwrap_or(DEFAULT_PORT), encrypted }
    }

    /// Returns the server with this name and port, or `None` if they are not valid. An IPv6 address needs no brackets.
    pub(crate) fn new(name: &str, port: &str) -> Option<Self> {
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let entry = if bare.contains(':') { format!("[{bare}]:{port}") } else { format!("{bare}:{port}") };
        host(&entry).ok().map(|entry| Endpoint::of(&entry))
    }

    /// Returns the host without brackets, as a resolver expects it.
    pub(crate) fn name(&self) -> &str {
        self.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&self.host)
    }
}

/// Writes a server as in the normal form of a connect string.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.encrypted {
            Some(true) => ENCRYPTED,
            Some(false) => PLAIN,
            None => "",
        };
        write!(f, "{prefix}{}:{}", self.host, self.port)
    }
}

/// Returns the normal form of a list of servers.
pub(crate) fn list(servers: &[Endpoint]) -> String {
    servers.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",")
}

/// Writes the normal form: each port written out, no white space.
impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.srv {
            write!(f, "{}{name}", SRV[0])?;
        }
        write!(f, "{}{}", self.hosts.join(","), self.chroot().unwrap_or(""))
    }
}

/// The part of the connect string that is wrong, and why.
type Fault<'a> = (&'a str, &'static str);

/// Splits the chroot from the hosts at the first slash that is not in the prefix of a host.
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

/// Checks the name after `srv://`.
fn srv_name(name: &str) -> Result<String, Fault<'_>> {
    let trimmed = name.trim();
    if trimmed.is_empty() {
        return Err((name, "a name must follow srv://"));
    }
    if trimmed.contains([',', ':']) {
        return Err((trimmed, "one name without a port must follow srv://, whose SRV records name servers and ports"));
    }
    check_name(trimmed).map_err(|why| (trimmed, why))?;
    Ok(trimmed.to_owned())
}

/// Rejects an unknown prefix. Otherwise `zk://host` would be reported as a host with a wrong port.
fn check_prefix(entry: &str) -> Result<(), Fault<'_>> {
    let unknown = after_prefix(entry.trim_start()).contains("://");
    if unknown {
        Err((entry.trim(), "the prefix of a host must be tcp:// or tcp+tls://; srv:// must stand alone"))
    } else {
        Ok(())
    }
}

/// Checks the chroot. `/` means that there is none.
fn normal_chroot(chroot: &str) -> Result<Option<String>, Fault<'_>> {
    let chroot = chroot.trim_end();
    if chroot == "/" {
        return Ok(None);
    }
    if chroot.contains(',') {
        return Err((chroot, "the chroot must come once, after the last host, and must not contain a comma"));
    }
    path::validate(chroot).map_err(|invalid| (chroot, invalid.why))?;
    Ok(Some(chroot.to_owned()))
}

/// Returns the normal form of one entry of the list.
fn host(entry: &str) -> Result<String, Fault<'_>> {
    let entry = entry.trim();
    let address = after_prefix(entry);
    let prefix = entry.strip_suffix(address).unwrap_or("");
    let (name, port) = split_port(address).map_err(|why| (entry, why))?;
    check_name(name).map_err(|why| (entry, why))?;
    let port = port.map_or(Ok(DEFAULT_PORT), parse_port).map_err(|why| (entry, why))?;
    Ok(format!("{prefix}{name}:{port}"))
}

/// Splits the port from a host. An IPv6 address keeps its brackets.
fn split_port(address: &str) -> Result<(&str, Option<&str>), &'static str> {
    if !address.starts_with('[') {
        return Ok(match address.split_once(':') {
            None => (address, None),
            Some((_, rest)) if rest.contains(':') => {
                return Err("hosts are separated by commas, and an IPv6 address must be in brackets");
            }
            Some((name, port)) => (name, Some(port)),
        });
    }
    let end = address.rfind(']').ok_or("the bracket of the IPv6 address is not closed")? + 1;
    match address.split_at_checked(end) {
        Some((name, "")) => Ok((name, None)),
        Some((name, rest)) => match rest.strip_prefix(':') {
            Some(port) => Ok((name, Some(port))),
            None => Err("only a port may follow the closing bracket"),
        },
        None => Err("the bracket of the IPv6 address is not closed"),
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("a host must not be empty");
    }
    if let Some(address) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        return if is_ipv6(address) { Ok(()) } else { Err("brackets must contain an IPv6 address") };
    }
    if name.bytes().all(is_name_byte) {
        Ok(())
    } else {
        Err("a host may contain only letters, digits, '-', '_' and '.'")
    }
}

/// Returns whether `address` is an IPv6 address. It may name a network interface, as in `fe80::1%eth0`.
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
            ("srv://_zookeeper._tcp.example.org", "srv://_zookeeper._tcp.example.org"),
            (" dns-srv://zk.example./apps/a ", "srv://zk.example./apps/a"),
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
            ("http://zk1:2181", "must be tcp://"),
            ("zk1,TCP://zk2", "must be tcp://"),
            ("zk1,srv://zk", "srv:// must stand alone"),
            ("srv://", "must follow srv://"),
            ("srv:///apps", "must follow srv://"),
            ("srv://zk.example:2181", "without a port"),
            ("srv://zk.example,zk2", "one name"),
            ("srv://z k", "only letters"),
            ("srv://zk.example/a/", "end with"),
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
             a port must be a number from 1 to 65535; expected host[:port][,host[:port]...][/chroot], \
             IPv6 addresses in brackets, each host optionally after tcp:// or tcp+tls://, or srv://name[/chroot]"
        );
        let empty = ConnectString::parse("").expect_err("empty").to_string();
        assert!(empty.starts_with("invalid connect string \"\": a host must not be empty; expected"), "{empty}");
    }

    #[test]
    fn the_parts_of_a_server() {
        let parts = |value: &str| parsed(value).endpoints().remove(0);
        let endpoint = |host: &str, port, encrypted| Endpoint { host: host.to_owned(), port, encrypted };
        assert_eq!(parts("zk1"), endpoint("zk1", 2181, None));
        assert_eq!(parts("tcp://zk1:99/app"), endpoint("zk1", 99, Some(false)));
        assert_eq!(parts("tcp+tls://[fe80::1%eth0]:1"), endpoint("[fe80::1%eth0]", 1, Some(true)));
        for value in ["zk1:2181", "tcp://zk1:99", "tcp+tls://[fe80::1%eth0]:1"] {
            assert_eq!(parts(value).to_string(), value);
        }
        assert_eq!(Endpoint::new("2001:db8::1", "2181"), Some(endpoint("[2001:db8::1]", 2181, None)));
        assert_eq!(Endpoint::new("[::1]", "1"), Some(endpoint("[::1]", 1, None)));
        assert_eq!((Endpoint::new("zk1", "0"), Endpoint::new("", "1"), Endpoint::new("z k", "1")), (None, None, None));
        assert_eq!(parts("[::1]").name(), "::1");
        assert_eq!(parts("10.0.0.1:5").name(), "10.0.0.1");
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(value in any::<String>()) {
            let _ = ConnectString::parse(&value).map_err(|error| error.to_string());
        }

        #[test]
        fn what_is_accepted_has_a_normal_form_that_reads_the_same(
            value in r"( ?(tcp://|tcp\+tls://)?(a|\[::1\]|b\.c)(:[0-9]{1,5})?[ ,/]?){1,4}(/[a-z.]{1,2}){0,2}"
        ) {
            if let Ok(string) = ConnectString::parse(&value) {
                prop_assert_eq!(ConnectString::parse(&string.to_string()), Ok(string.clone()));
            }
        }
    }
}
