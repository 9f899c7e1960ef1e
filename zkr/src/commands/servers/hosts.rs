//! Which servers a connect string names, and which of them can be asked over a plain connection.

use std::fmt;

use crate::connection::Connection;

const DEFAULT_PORT: u16 = 2181;
const PLAIN: &str = "tcp://";
const ENCRYPTED: &str = "tcp+tls://";
const SRV: [&str; 2] = ["srv://", "dns-srv://"];

/// One server of a connect string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// A name or an address, as a resolver knows it: without brackets.
    pub name: String,
    /// The port for clients.
    pub port: u16,
}

/// The servers of a connect string, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Those that are connected to without encryption.
    pub plain: Vec<Host>,
    /// Those that are connected to over TLS.
    pub encrypted: Vec<Host>,
    /// The name whose SRV records name the servers. Those are not asked: another lookup may name others.
    pub srv: Option<String>,
}

impl Hosts {
    /// Returns the servers that a client connects to.
    pub fn of(connection: &Connection) -> Hosts {
        Hosts::parse(connection.servers(), connection.encrypts())
    }

    /// Parses a connect string that the library has accepted. `encrypts` says whether hosts without a prefix use
    /// TLS.
    fn parse(connect: &str, encrypts: bool) -> Hosts {
        let mut hosts = Hosts::default();
        if let Some(name) = SRV.iter().find_map(|prefix| connect.trim_start().strip_prefix(prefix)) {
            hosts.srv = name.split('/').next().map(|name| name.trim().to_owned());
            return hosts;
        }
        for entry in connect.split(',') {
            let entry = entry.trim();
            let (address, encrypted) = match (entry.strip_prefix(PLAIN), entry.strip_prefix(ENCRYPTED)) {
                (Some(address), _) => (address, false),
                (_, Some(address)) => (address, true),
                _ => (entry, encrypts),
            };
            let (address, chroot) = address.split_once('/').map_or((address, None), |(host, root)| (host, Some(root)));
            let host = Host::of(address.trim());
            let list = if encrypted { &mut hosts.encrypted } else { &mut hosts.plain };
            if !host.name.is_empty() && !list.contains(&host) {
                list.push(host);
            }
            // The root comes after the last host.
            if chroot.is_some() {
                break;
            }
        }
        hosts
    }
}

impl Host {
    fn of(address: &str) -> Host {
        let bracketed = address.strip_prefix('[').and_then(|rest| rest.rsplit_once(']'));
        let (name, port) = match bracketed {
            Some((name, rest)) => (name, rest.strip_prefix(':')),
            None => address.split_once(':').map_or((address, None), |(name, port)| (name, Some(port))),
        };
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(DEFAULT_PORT);
        Host { name: name.to_owned(), port }
    }
}

/// As in a connect string, with its port.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(hosts: &[Host]) -> Vec<String> {
        hosts.iter().map(Host::to_string).collect()
    }

    #[test]
    fn the_hosts_of_a_connect_string() {
        for (connect, hosts) in [
            ("zk1", &["zk1:2181"][..]),
            ("zk1:2182,zk2/app/x", &["zk1:2182", "zk2:2181"]),
            (" zk1 , 10.0.0.1:1 /app", &["zk1:2181", "10.0.0.1:1"]),
            ("[::1]", &["[::1]:2181"]),
            ("[2001:db8::1]:2182,tcp://[fe80::1%eth0]:1/a", &["[2001:db8::1]:2182", "[fe80::1%eth0]:1"]),
            ("zk1,zk1:2181,zk1:02181", &["zk1:2181"]),
        ] {
            assert_eq!(shown(&Hosts::parse(connect, false).plain), hosts, "{connect}");
        }
        let by_records = Hosts::parse("srv://_zookeeper._tcp.example/app", false);
        assert_eq!(by_records, Hosts { srv: Some("_zookeeper._tcp.example".to_owned()), ..Hosts::default() });
        assert_eq!(Hosts::parse("[::1]:5", false).plain, [Host { name: "::1".to_owned(), port: 5 }]);
    }

    #[test]
    fn a_prefix_or_the_options_tell_which_connections_are_encrypted() {
        let hosts = "tcp://zk1,tcp+tls://zk2:2281,zk3/app";
        let Hosts { plain, encrypted, .. } = Hosts::parse(hosts, false);
        assert_eq!(
            (shown(&plain), shown(&encrypted)),
            (vec!["zk1:2181".into(), "zk3:2181".into()], vec!["zk2:2281".into()])
        );
        let Hosts { plain, encrypted, .. } = Hosts::parse(hosts, true);
        assert_eq!(
            (shown(&plain), shown(&encrypted)),
            (vec!["zk1:2181".into()], vec!["zk2:2281".into(), "zk3:2181".into()])
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(connect in r"([\[\]:,/@ ]|tcp://|tcp\+tls://|[a-z0-9é]{1,5}|\PC){0,12}") {
            let _ = Hosts::parse(&connect, false);
        }
    }
}
