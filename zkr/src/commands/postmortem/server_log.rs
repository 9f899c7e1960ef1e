//! The addresses of sessions, from the text logs of servers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use serde::Serialize;

use crate::ending::Ending;

/// What a server logs when a session is opened, or moves to it, since 3.4:
/// `Established session 0x100000a2b3c0004 with negotiated timeout 10000 for client /10.0.0.7:40512`.
const ESTABLISHED: &str = "Established session 0x";
const CLIENT: &str = "for client /";

/// The addresses of each session, in the order of the files and lines.
#[derive(Debug, Default)]
pub struct ServerLogs {
    addresses: BTreeMap<i64, Vec<String>>,
}

/// A value as JSON, with the addresses of its sessions.
#[derive(Serialize)]
pub struct WithAddresses<'a, T> {
    #[serde(flatten)]
    pub value: &'a T,
    /// By the ids of the sessions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, &'a [String]>,
}

impl ServerLogs {
    pub fn read(files: &[PathBuf]) -> Result<ServerLogs, Ending> {
        let mut logs = ServerLogs::default();
        for file in files {
            let failed = |error| Ending::failed(format_args!("--server-log {}: {error}", file.display()));
            let mut lines = BufReader::new(File::open(file).map_err(failed)?);
            let mut line = Vec::new();
            while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 {
                logs.add(&String::from_utf8_lossy(&line));
                line.clear();
            }
        }
        if logs.addresses.is_empty() && !files.is_empty() {
            let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            return Err(Ending::failed(format_args!(
                "--server-log {}: no session is opened in it; it must be the text log of a server that logs this: from \
                 3.6 on at the level DEBUG of org.apache.zookeeper.server.ZooKeeperServer",
                names.join(", ")
            )));
        }
        Ok(logs)
    }

    fn add(&mut self, line: &str) {
        let Some((_, rest)) = line.split_once(ESTABLISHED) else { return };
        let Some((id, rest)) = rest.split_once(' ') else { return };
        let Some((_, address)) = rest.split_once(CLIENT) else { return };
        let Ok(id) = u64::from_str_radix(id, 16) else { return };
        let address = address.split_whitespace().next().unwrap_or_default().to_owned();
        let addresses = self.addresses.entry(id.cast_signed()).or_default();
        // A client that connects again has another port each time.
        if addresses.last() != Some(&address) {
            addresses.push(address);
        }
    }

    /// Returns what comes after the id of a session: ` from` its addresses, if they are known.
    pub fn from(&self, session: i64) -> String {
        let addresses = self.addresses.get(&session).map(|addresses| addresses.join(", "));
        addresses.map(|addresses| format!(" from {addresses}")).unwrap_or_default()
    }

    /// Adds the addresses of these sessions to a value.
    pub fn with<'a, T>(&'a self, value: &'a T, sessions: impl Iterator<Item = i64>) -> WithAddresses<'a, T> {
        let known = sessions.filter_map(|id| Some((format!("{id:#x}"), self.addresses.get(&id)?.as_slice())));
        WithAddresses { value, addresses: known.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_servers_of_several_versions() {
        let mut logs = ServerLogs::default();
        for line in [
            "2026-11-30 03:14:07,120 [myid:1] - INFO  [CommitProcessor:1:ZooKeeperServer@595] - Established session \
             0x15a0000 with negotiated timeout 4000 for client /10.0.0.7:40512\n",
            "[SyncThread:0] INFO org.apache.zookeeper.server.ZooKeeperServer - Established session \
             0x100000a2b3c0004 with negotiated timeout 10000 for client /10.0.0.8:1\n",
            "Established session 0x15a0000 with negotiated timeout 4000 for client /10.0.0.7:40513",
            "Established session 0x15a0000 with negotiated timeout 4000 for client /10.0.0.7:40513",
            "Established session 0xzz with negotiated timeout 4000 for client /10.0.0.7:1",
            "Established session 0x7",
        ] {
            logs.add(line);
        }
        assert_eq!(logs.from(0x15a_0000), " from 10.0.0.7:40512, 10.0.0.7:40513");
        assert_eq!((logs.from(0x100_000a_2b3c_0004), logs.from(7)), (" from 10.0.0.8:1".to_owned(), String::new()));
        let json = serde_json::to_value(logs.with(&serde_json::json!({"a": 1}), [0x15a_0000, 7].into_iter()));
        let expected = serde_json::json!({"a": 1, "addresses": {"0x15a0000": ["10.0.0.7:40512", "10.0.0.7:40513"]}});
        assert_eq!(json.expect("it is JSON"), expected);
    }
}
