//! No claim without a taker: a claimed item is delivered before the claim is given up.

use std::collections::{BTreeMap, BTreeSet};

use zookeeper_recipes::testing::TestingServer;

/// A claim's node.
struct Standing {
    name: String,
    session: i64,
}

/// The claims as the servers have them.
pub(super) struct Claims {
    dir: &'static str,
    items: &'static str,
    max_deliveries: Option<u32>,
    /// The last change that was seen.
    pzxid: i64,
    /// By the transactions that made them: the fencing tokens of their deliveries.
    standing: BTreeMap<i64, Standing>,
    taken: BTreeSet<i64>,
    /// Sessions in which a consumer was closed or dropped, or a take was dropped for good: these give up what they have
    /// claimed.
    left: BTreeSet<i64>,
}

impl Claims {
    pub(super) fn new(dir: &'static str, items: &'static str, max_deliveries: Option<u32>) -> Self {
        let (standing, taken, left) = Default::default();
        Claims { dir, items, max_deliveries, pzxid: 0, standing, taken, left }
    }

    pub(super) fn taken(&mut self, token: i64) {
        self.taken.insert(token);
    }

    pub(super) fn left(&mut self, session: i64) {
        self.left.insert(session);
    }

    /// It was deleted by hand.
    pub(super) fn forget(&mut self, name: &str) {
        self.standing.retain(|_, standing| standing.name != name);
    }

    /// Called after each step: a claim that was given up in a session that continues, and that no caller had.
    pub(super) fn given_up(&mut self, server: &TestingServer) -> Option<String> {
        let dir = server.stat(self.dir).filter(|dir| dir.pzxid != self.pzxid)?;
        self.pzxid = dir.pzxid;
        let names = server.children(self.dir).into_iter();
        let there = names.filter_map(|name| {
            let stat = server.stat(&format!("{}/{name}", self.dir))?;
            // Locks of Curator's are played by hand, in no session. An item that was delivered too often is claimed to
            // be buried.
            let is_to_be_taken = stat.ephemeral_owner != 0 && !self.is_used_up(server, &name);
            is_to_be_taken.then_some((stat.czxid, Standing { name, session: stat.ephemeral_owner }))
        });
        let there: BTreeMap<i64, Standing> = there.collect();
        let before = std::mem::replace(&mut self.standing, there);
        let gone = before.into_iter().filter(|(token, _)| !self.standing.contains_key(token));
        let mut untaken =
            gone.filter(|(token, gone)| !self.taken.contains(token) && !self.left.contains(&gone.session));
        let goes_on = |session| server.sessions().iter().any(|info| info.id == session);
        let (_, Standing { name, session }) = untaken.find(|(_, gone)| goes_on(gone.session))?;
        Some(format!("a claim on {name} in session {session:x} was given up, and no caller had it"))
    }

    fn is_used_up(&self, server: &TestingServer, name: &str) -> bool {
        let claims = server.stat(&format!("{}/{name}", self.items)).and_then(|stat| u32::try_from(stat.version).ok());
        self.max_deliveries.is_some_and(|most| claims.is_some_and(|claims| claims > most))
    }
}
