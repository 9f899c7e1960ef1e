//! No claim without a taker: what a consumer has claimed is delivered before it is given up.

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
    /// The last change that was seen.
    pzxid: i64,
    /// By the transactions that made them: the fencing tokens of their deliveries.
    standing: BTreeMap<i64, Standing>,
    taken: BTreeSet<i64>,
    /// Sessions in which a consumer was closed or dropped, or a call that nobody repeated: these give up what they have claimed.
    left: BTreeSet<i64>,
}

impl Claims {
    pub(super) fn new(dir: &'static str) -> Self {
        let (standing, taken, left) = Default::default();
        Claims { dir, pzxid: 0, standing, taken, left }
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

    /// Called after each step: a claim that was given up in a session that goes on, and that no caller had.
    pub(super) fn given_up(&mut self, server: &TestingServer) -> Option<String> {
        let dir = server.stat(self.dir).filter(|dir| dir.pzxid != self.pzxid)?;
        self.pzxid = dir.pzxid;
        let names = server.children(self.dir).into_iter();
        let there = names.filter_map(|name| {
            let stat = server.stat(&format!("{}/{name}", self.dir))?;
            // Locks of Curator's are played by hand, in no session.
            (stat.ephemeral_owner != 0).then_some((stat.czxid, Standing { name, session: stat.ephemeral_owner }))
        });
        let before = std::mem::replace(&mut self.standing, there.collect());
        let gone = before.into_iter().filter(|(token, _)| !self.standing.contains_key(token));
        let mut untaken =
            gone.filter(|(token, gone)| !self.taken.contains(token) && !self.left.contains(&gone.session));
        let goes_on = |session| server.sessions().iter().any(|info| info.id == session);
        let (_, Standing { name, session }) = untaken.find(|(_, gone)| goes_on(gone.session))?;
        Some(format!("a claim on {name} in session {session:x} was given up, and no caller had it"))
    }
}
