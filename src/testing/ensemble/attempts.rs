//! The attempts of a client to find a server.

use std::collections::BTreeMap;

use super::Millis;

/// The search for a server.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// Since the last connection.
    pub(crate) made: u32,
    pub(crate) next_server: usize,
    /// When the latest one began.
    pub(crate) begun: Option<Millis>,
    /// Since when a server has not answered the first packet of a connection.
    pub(crate) unanswered_since: Option<Millis>,
}

/// What came of the latest attempts of one client, server by server.
#[derive(Debug, Default)]
pub(crate) struct Causes(BTreeMap<usize, (&'static str, u32)>);

impl Causes {
    pub(crate) fn note(&mut self, server: usize, why: &'static str) {
        let (last, times) = self.0.entry(server).or_insert((why, 0));
        *last = why;
        *times += 1;
    }
}

impl std::fmt::Display for Causes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (server, (why, times))) in self.0.iter().enumerate() {
            let (comma, tries) = (if at == 0 { "" } else { "; " }, if *times == 1 { "try" } else { "tries" });
            write!(f, "{comma}server {server}: {why} ({times} {tries})")?;
        }
        Ok(())
    }
}
