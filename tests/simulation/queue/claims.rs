//! No claim is wasted: a claimed item is delivered before the claim is given up.

use std::collections::{BTreeMap, BTreeSet};

use zookeeper_recipes::testing::TestingServer;

/// A claim's node.
struct Standing {
    name: String,
    session: i64,
}

/// The claims on the servers.
pub(super) struct Claims {
    dir: &'static str,
    items: &'static str,
    /// The last change that was seen.
    pzxid: i64,
    /// The claims by the transactions that made them, which are the fencing tokens of their deliveries.
    standing: BTreeMap<i64, Standing>,
    taken: BTreeSet<i64>,
    /// Sessions in which a consumer was closed or dropped, or a take was dropped for good: these give up what they have
    /// claimed.
    left: BTreeSet<i64>,
    /// Claims that ended with their session or by hand.
    died: Vec<Died>,
}

/// A claim that ended with its session or by hand.
pub(super) struct Died {
    /// The transaction that made it.
    pub(super) token: i64,
    /// The name of its item.
    pub(super) name: String,
    /// No later transaction has written the item, so it was not settled before.
    pub(super) certain: bool,
}

impl Claims {
    pub(super) fn new(dir: &'static str, items: &'static str) -> Self {
        let (standing, taken, left, died) = Default::default();
        Claims { dir, items, pzxid: 0, standing, taken, left, died }
    }

    pub(super) fn died(&self) -> &[Died] {
        &self.died
    }

    pub(super) fn taken(&mut self, token: i64) {
        self.taken.insert(token);
    }

    pub(super) fn left(&mut self, session: i64) {
        self.left.insert(session);
    }

    /// Notes that a claim was deleted by hand.
    pub(super) fn forget(&mut self, name: &str) {
        let deleted = self.standing.iter().filter(|(_, standing)| standing.name == name);
        let died = |(&token, _): (&i64, _)| Died { token, name: name.to_owned(), certain: true };
        self.died.extend(deleted.map(died));
        self.standing.retain(|_, standing| standing.name != name);
    }

    /// Called after each step. Describes a claim that was given up in a session that continues, and that no caller had.
    pub(super) fn given_up(&mut self, server: &TestingServer) -> Option<String> {
        let dir = server.stat(self.dir).filter(|dir| dir.pzxid != self.pzxid)?;
        self.pzxid = dir.pzxid;
        let names = server.children(self.dir).into_iter();
        let there = names.filter_map(|name| {
            let stat = server.stat(&format!("{}/{name}", self.dir))?;
            // Curator's locks are simulated by hand, without a session.
            (stat.ephemeral_owner != 0).then_some((stat.czxid, Standing { name, session: stat.ephemeral_owner }))
        });
        let there: BTreeMap<i64, Standing> = there.collect();
        let before = std::mem::replace(&mut self.standing, there);
        let gone = before.into_iter().filter(|(token, _)| !self.standing.contains_key(token));
        let sessions: BTreeSet<i64> = server.sessions().iter().map(|info| info.id).collect();
        let (settled, died): (Vec<_>, Vec<_>) = gone.partition(|(_, gone)| sessions.contains(&gone.session));
        self.died.extend(died.into_iter().map(|(token, Standing { name, .. })| {
            // Since the last step, the item may have been settled and then its session ended.
            let certain = server.stat(&format!("{}/{name}", self.items)).is_some_and(|item| item.mzxid == token);
            Died { token, name, certain }
        }));
        let untaken = |(token, gone): &(i64, Standing)| {
            // An item that has failed too often is claimed only to become a dead letter.
            let is_back = server.stat(&format!("{}/{}", self.items, gone.name)).is_some();
            is_back && !self.taken.contains(token) && !self.left.contains(&gone.session)
        };
        let (_, Standing { name, session }) = settled.into_iter().find(untaken)?;
        Some(format!("a claim on {name} in session {session:x} was given up, but no caller had it"))
    }
}
