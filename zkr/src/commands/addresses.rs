//! The addresses that sessions are connected from. Only servers know them, and report them if `cons` is permitted.

use std::collections::{BTreeMap, HashMap};

use futures::future::join_all;
use serde::Serialize;

use super::servers::{Answer, Connected, Host, Hosts, ask, connections, distinct};
use crate::connection::Connection;
use crate::ending::{Ending, Status};
use crate::output::note;

/// The addresses of sessions, with their ports.
#[derive(Debug, Default)]
pub struct Addresses {
    /// When the session connected, and its address.
    known: HashMap<i64, (i64, String)>,
    /// The servers that have not reported any, and why.
    silent: Vec<String>,
}

/// A value as JSON, with the addresses of its sessions.
#[derive(Debug, Serialize)]
pub struct WithAddresses<'a, T> {
    #[serde(flatten)]
    value: &'a T,
    /// By the ids of the sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    addresses: Option<BTreeMap<String, &'a str>>,
}

impl Addresses {
    /// Asks all servers. Skips a server that does not answer: its clients connect to the other ones.
    pub async fn ask(connection: &Connection) -> Result<Addresses, Ending> {
        let Hosts { plain, encrypted, srv } = Hosts::of(connection);
        if let Some(name) = srv {
            let why = format!("--addresses: the servers of srv://{name} cannot be asked; name them in --connect");
            return Err(Ending::failed(why));
        }
        // One server may have several names.
        let plain = distinct(plain).await;
        let answers = join_all(plain.iter().map(|host| ask(host, "cons"))).await;
        let mut addresses = Addresses::default();
        for (host, answer) in plain.iter().zip(answers) {
            addresses.add(host, answer)?;
        }
        let not_asked = encrypted.iter().map(|host| format!("{host}: servers are not asked over TLS"));
        addresses.silent.extend(not_asked);
        if addresses.silent.len() == plain.len() + encrypted.len() {
            let why = format!("--addresses: no server reports them: {}", addresses.silent.join("; "));
            return Err(Ending::because(Status::Unreachable, why));
        }
        Ok(addresses)
    }

    fn add(&mut self, host: &Host, answer: Result<Answer, String>) -> Result<(), Ending> {
        match answer {
            Ok(Answer::Text(text)) => match connections(&text) {
                Some(connections) => connections.for_each(|connected| self.insert(connected)),
                None => self.silent.push(format!("{host}: it does not answer as a ZooKeeper server does")),
            },
            Ok(Answer::NotPermitted) => {
                let next = "add it to 4lw.commands.whitelist in the configuration of the servers";
                return Err(Ending::failed(format_args!("--addresses: {host} does not permit cons; {next}")));
            }
            Ok(Answer::NotServing) => self.silent.push(format!("{host}: it serves no clients now")),
            Err(error) => self.silent.push(format!("{host}: {error}")),
        }
        Ok(())
    }

    /// Keeps the latest connection: a server may not have noticed yet that a client has left it for another one.
    fn insert(&mut self, Connected { session, address, since_ms }: Connected) {
        let latest = self.known.get(&session).map(|(since, _)| *since);
        if latest.is_none_or(|latest| latest < since_ms) {
            self.known.insert(session, (since_ms, address));
        }
    }

    /// Notes which servers have not reported any addresses.
    pub fn note_silent(&self) {
        for server in &self.silent {
            note(format_args!("the addresses of sessions are not known for {server}"));
        }
    }

    fn get(&self, session: i64) -> Option<&str> {
        self.known.get(&session).map(|(_, address)| address.as_str())
    }
}

/// Returns what comes after the id of a session: ` from` its address, if it is known.
pub fn from(addresses: Option<&Addresses>, session: i64) -> String {
    let address = addresses.and_then(|addresses| addresses.get(session));
    address.map(|address| format!(" from {address}")).unwrap_or_default()
}

impl<'a, T> WithAddresses<'a, T> {
    /// Adds the addresses of these sessions, if addresses were asked for.
    pub fn new(value: &'a T, addresses: Option<&'a Addresses>, sessions: impl Iterator<Item = i64>) -> Self {
        let addresses = addresses.map(|addresses| {
            let known = sessions.filter_map(|session| Some((format!("{session:#x}"), addresses.get(session)?)));
            known.collect()
        });
        WithAddresses { value, addresses }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn addresses(known: &[(i64, &str)]) -> Addresses {
        let known = known.iter().map(|(session, address)| (*session, (0, (*address).to_owned())));
        Addresses { known: known.collect(), silent: Vec::new() }
    }

    #[test]
    fn the_latest_connection_of_a_session_counts() {
        let mut addresses = Addresses::default();
        for (address, since_ms) in [("a:1", 5), ("b:1", 7), ("c:1", 6)] {
            addresses.insert(Connected { session: 1, address: address.to_owned(), since_ms });
        }
        assert_eq!(from(Some(&addresses), 1), " from b:1");
        assert_eq!((&*from(Some(&addresses), 2), &*from(None, 1)), ("", ""));
    }

    #[test]
    fn a_server_that_does_not_permit_it_is_an_error_and_one_that_says_nothing_is_not() {
        let host = Host { name: "zk1".to_owned(), port: 2181 };
        let mut addresses = Addresses::default();
        assert!(addresses.add(&host, Err("refused".to_owned())).is_ok());
        assert!(addresses.add(&host, Ok(Answer::NotServing)).is_ok());
        assert!(addresses.add(&host, Ok(Answer::Text("HTTP/1.1 400 Bad Request\n".to_owned()))).is_ok());
        let silent = ["refused", "it serves no clients now", "it does not answer as a ZooKeeper server does"];
        assert_eq!(addresses.silent, silent.map(|why| format!("zk1:2181: {why}")));
        let refused = addresses.add(&host, Ok(Answer::NotPermitted)).expect_err("it is not permitted");
        let Ending::Status(Status::Failed, Some(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("zk1:2181 does not permit cons; add it to 4lw.commands.whitelist"), "{why}");
    }

    #[test]
    fn addresses_are_an_object_beside_the_value() {
        let value = serde_json::json!({ "path": "/l" });
        let known = addresses(&[(1, "10.0.0.7:99"), (2, "10.0.0.8:99")]);
        let with = serde_json::to_value(WithAddresses::new(&value, Some(&known), [1, 3].into_iter())).expect("JSON");
        assert_eq!(with, serde_json::json!({ "path": "/l", "addresses": { "0x1": "10.0.0.7:99" } }));
        let without = serde_json::to_value(WithAddresses::new(&value, None, [1].into_iter())).expect("JSON");
        assert_eq!(without, value);
    }
}
