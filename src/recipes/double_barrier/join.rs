//! Entering when `ready` exists already: either its round is open, or a round whose members all crashed left it behind.

use futures::future::join_all;

use super::member::Member;
use super::znodes::{View, commit};
use crate::engine::{self, Op};
use crate::util::znode::Stat;

/// How many nodes are read in one flight. Usually the first one decides.
const FLIGHT: usize = 16;

impl Member {
    /// Joins the round if a member is in it; otherwise removes the leftover `ready`. Returns false if the caller has to
    /// look again.
    ///
    /// Either is one transaction, which fails if the view is outdated. A member that joins writes to its own node, so
    /// that it counts as one in the round, and to the node of a member in the round. The last member to leave deletes
    /// its node only at the version it has seen, so it notices the join. No member can join between the reads that
    /// found none in the round and the removal, because joining requires a member in the round: none of the listed
    /// members was in it, and each still existed when it was read.
    pub(super) async fn join_open_round(&mut self, view: &View, ready: &Stat) -> Result<bool, engine::Error> {
        if self.joining {
            // An answer was lost. The members of the round may be gone, and our node may be the one that keeps it open.
            match self.session.exists(&self.path).await? {
                Some(stat) if stat.version > 0 => {
                    self.version = stat.version;
                    return Ok(true);
                }
                _ => self.joining = false,
            }
        }
        for names in view.others.chunks(FLIGHT) {
            let paths: Vec<String> = names.iter().map(|name| self.znodes.child(name)).collect();
            let reads = join_all(paths.iter().map(|path| self.session.get_data(path))).await;
            for (path, read) in paths.into_iter().zip(reads) {
                match read {
                    Ok((data, stat)) if stat.czxid < ready.czxid || stat.version > 0 => {
                        let member = Op::SetData { path, data, version: Some(stat.version) };
                        return self.join(view, member).await;
                    }
                    Ok(_) => {}
                    Err(engine::Error::NoNode) => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        }
        let removed = self.znodes.remove_ready(&self.session, &view.stat, Some(&self.path)).await?;
        tracing::info!(
            event = "stale_ready_found",
            path = &*self.znodes.path,
            removed,
            "all members of a round crashed and left its `ready` node"
        );
        Ok(false)
    }

    async fn join(&mut self, view: &View, member: Op) -> Result<bool, engine::Error> {
        let ops = vec![
            Op::Check { path: self.znodes.dir.to_string(), version: Some(view.stat.version) },
            Op::Check { path: self.znodes.ready.to_string(), version: None },
            member,
            Op::SetData { path: self.path.to_string(), data: self.znodes.data.clone(), version: None },
        ];
        self.joining = true;
        let joined = commit(&self.session, ops).await?;
        self.joining = joined;
        self.version += i32::from(joined);
        Ok(joined)
    }
}
