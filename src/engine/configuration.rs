//! The servers in the ensemble's dynamic configuration, which `reconfig` changes.
//!
//! Format: <https://zookeeper.apache.org/doc/current/zookeeperReconfig.html>, a line for each server,
//! `server.<id>=<address>:<port>:<port>[|<address>:<port>:<port>...][:<role>];[<client address>:]<client port>`, and a
//! line `version=<hexadecimal>`.

use std::sync::Arc;
use std::time::Duration;

use super::connect_string::{Endpoint, list};
use super::environment::Environment;
use super::error::Error;
use super::outstanding::{Answer, WantedWatch};
use super::shared::{HeldWatch, Shared};
use super::watches::{Armed, Kind};
use crate::protocol::{AnyResponse, GetDataRequest};

/// The node that holds the configuration. No chroot applies to it.
const NODE: &str = "/zookeeper/config";
/// The pause between two reads.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a read that was refused.
const LONG_PAUSE: Duration = Duration::from_secs(60);
/// Addresses that stand for every interface of the server.
const ANY: [&str; 4] = ["0.0.0.0", "[::]", "::", "[0:0:0:0:0:0:0:0]"];

#[derive(Debug, PartialEq, Eq)]
struct Configuration {
    version: u64,
    endpoints: Vec<Endpoint>,
}

/// Reads the configuration now and after each change, and replaces the hosts of `environment` by its servers. Never
/// resolves: the caller drops it when the session ends.
pub(crate) async fn follow(environment: &Environment, shared: &Arc<Shared>) {
    let mut logged = None;
    loop {
        let pause = match read(shared).await {
            Ok((data, changed)) => {
                warn_once(&mut logged, apply(environment, &data));
                changed.await;
                PAUSE
            }
            Err(error) if error.is_transient() => PAUSE,
            Err(error) => {
                warn_once(&mut logged, Err(format!("{NODE} cannot be read: {error:?}")));
                LONG_PAUSE
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Logs an error, unless it was the last one logged.
fn warn_once(logged: &mut Option<String>, outcome: Result<(), String>) {
    let error = outcome.err();
    if let Some(reason) = error.as_ref().filter(|_| *logged != error) {
        tracing::warn!(
            event = "configuration_unusable",
            reason,
            "cannot use the ensemble's configuration; keeping the known servers"
        );
    }
    *logged = error;
}

/// Returns the configuration, and a future that resolves when it changes.
async fn read(shared: &Arc<Shared>) -> Result<(Vec<u8>, impl Future<Output = ()>), Error> {
    let wanted = WantedWatch { kind: Kind::Data, path: NODE.into() };
    let answer = shared.link.hand_over(&GetDataRequest { path: NODE, watch: true }, Some(wanted))?;
    let Answer { outcome, watch } = answer.await.map_err(|_| Error::SessionEnded)?;
    match (outcome?, watch) {
        (AnyResponse::GetData(found), Some(HeldWatch { armed: Armed::Once(fired), hold })) => {
            let changed = async move {
                fired.await.ok();
                drop(hold);
            };
            Ok((found.data.map(Vec::from).unwrap_or_default(), changed))
        }
        _ => Err(Error::Other("received an answer of another kind of request".to_owned())),
    }
}

fn apply(environment: &Environment, data: &[u8]) -> Result<(), String> {
    let Configuration { version, endpoints } = Configuration::parse(data)?;
    let servers = list(&endpoints);
    if environment.hosts.lock().replace(version, endpoints, &*environment.options.jitter) {
        tracing::info!(
            event = "servers_replaced",
            servers,
            version,
            "using the servers of the ensemble's configuration"
        );
    }
    Ok(())
}

impl Configuration {
    fn parse(data: &[u8]) -> Result<Configuration, String> {
        let text = std::str::from_utf8(data).map_err(|error| format!("{NODE}: {error}"))?;
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let mut configuration = Configuration { version: 0, endpoints: Vec::new() };
        for (key, value) in lines.map(|(key, value)| (key.trim(), value.trim())) {
            if key == "version" {
                let version = u64::from_str_radix(value, 16);
                configuration.version = version.map_err(|error| format!("{NODE}: version={value}: {error}"))?;
            } else if key.starts_with("server.") {
                configuration.endpoints.extend(client_endpoint(value)?);
            }
        }
        if configuration.endpoints.is_empty() {
            return Err(format!(
                "{NODE} names no client port: write `server.N=host:2888:3888;2181` instead of `clientPort`, or \
                 turn `ensemble_tracker` off"
            ));
        }
        Ok(configuration)
    }
}

/// Returns where clients reach a server, or `None` if its entry does not say.
fn client_endpoint(server: &str) -> Result<Option<Endpoint>, String> {
    let Some((quorum, client)) = server.split_once(';') else { return Ok(None) };
    let (address, port) = client.rsplit_once(':').unwrap_or(("", client));
    let address = if address.is_empty() || ANY.contains(&address) { quorum_address(quorum) } else { address };
    let endpoint = Endpoint::new(address, port).ok_or_else(|| format!("{NODE}: {server} names no server"))?;
    Ok(Some(endpoint))
}

/// Returns the first address at which other servers reach this one.
fn quorum_address(quorum: &str) -> &str {
    let first = quorum.split('|').next().unwrap_or(quorum);
    match first.find(']') {
        Some(end) => first.get(..=end).unwrap_or(first),
        None => first.split(':').next().unwrap_or(first),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(data: &str) -> Result<Vec<String>, String> {
        Configuration::parse(data.as_bytes()).map(|parsed| parsed.endpoints.iter().map(Endpoint::to_string).collect())
    }

    #[test]
    fn a_configuration_as_a_server_writes_it() {
        let data = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\n\
                    server.2=10.0.0.2:2888:3888:participant;10.1.0.2:2182\n\
                    server.3=zk3:2888:3888:observer;2183\n\
                    version=10000000a";
        let parsed = Configuration::parse(data.as_bytes()).expect("a configuration");
        assert_eq!(parsed.version, 0x1_0000_000a);
        assert_eq!(names(data), Ok(["zk1:2181", "10.1.0.2:2182", "zk3:2183"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn each_form_of_an_address() {
        for (server, endpoint) in [
            ("zk1:2888:3888;2181", "zk1:2181"),
            ("zk1:2888:3888:participant;[::]:2181", "zk1:2181"),
            ("zk1:2888:3888|zk1b:2888:3888:participant;0.0.0.0:2181", "zk1:2181"),
            ("[2001:db8::1]:2888:3888;2181", "[2001:db8::1]:2181"),
            ("zk1:2888:3888;[2001:db8::2]:2181", "[2001:db8::2]:2181"),
            ("zk1:2888:3888:observer;client.zk1:2181", "client.zk1:2181"),
        ] {
            assert_eq!(names(&format!("server.1={server}\nversion=1")), Ok(vec![endpoint.to_owned()]), "{server}");
        }
    }

    #[test]
    fn errors_say_what_is_unusable() {
        for (data, words) in [
            ("", "names no client port"),
            ("version=0", "names no client port"),
            ("server.1=zk1:2888:3888:participant\nversion=1", "names no client port"),
            ("server.1=zk1:2888:3888;0\nversion=1", "names no server"),
            ("server.1=zk1:2888:3888;2181\nversion=x", "version=x"),
        ] {
            let error = names(data).expect_err(data);
            assert!(error.contains(words), "{data}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(
            data in any::<Vec<u8>>(),
            text in "(server\\.1=)?[a-z0-9:;|\\[\\]\\.\n]{0,40}"
        ) {
            let _ = Configuration::parse(&data);
            let _ = Configuration::parse(text.as_bytes());
        }
    }
}
