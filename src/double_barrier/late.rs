//! Coming when there is a `ready` already: its round is on, or it is a leftover of one whose members have all crashed.

use futures::future::join_all;

use super::member::Member;
use super::site::{View, commit};
use crate::backend::{self, Op};
use crate::types::Stat;

/// So many nodes are read in one flight. The first one decides, most of the time.
const FLIGHT: usize = 16;

impl Member {
    /// Joins the round if somebody is in it; otherwise removes the leftover. False: look again.
    ///
    /// Both happen only if they are still right when they happen. Whoever joins writes to its own node, so that it counts as
    /// one who is in, and to that of somebody who is: so the last to leave, who deletes its node only as it has seen it, hears of
    /// it. And between the reads that found nobody in and the removal nobody can have joined, as that takes somebody who is
    /// in: of those who were listed nobody was, and nobody was gone before being read.
    pub(super) async fn come_late(&mut self, view: &View, ready: &Stat) -> Result<bool, backend::Error> {
        if self.joining {
            // An answer was lost: those who were in may be gone, and ours may be the node that keeps the round on.
            match self.session.exists(&self.path).await? {
                Some(stat) if stat.version > 0 => {
                    self.version = stat.version;
                    return Ok(true);
                }
                _ => self.joining = false,
            }
        }
        for names in view.others.chunks(FLIGHT) {
            let paths: Vec<String> = names.iter().map(|name| self.site.child(name)).collect();
            let reads = join_all(paths.iter().map(|path| self.session.get_data(path))).await;
            for (path, read) in paths.into_iter().zip(reads) {
                match read {
                    Ok((data, stat)) if stat.czxid < ready.czxid || stat.version > 0 => {
                        let member = Op::SetData { path, data, version: Some(stat.version) };
                        return self.join(view, member).await;
                    }
                    Ok(_) => {}
                    Err(backend::Error::NoNode) => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
        }
        let removed = self.site.remove_ready(&self.session, &view.stat, Some(&self.path)).await?;
        tracing::info!(path = &*self.site.path, removed, "a `ready` that a crashed round has left");
        Ok(false)
    }

    async fn join(&mut self, view: &View, member: Op) -> Result<bool, backend::Error> {
        let ops = vec![
            Op::Check { path: self.site.dir.to_string(), version: Some(view.stat.version) },
            Op::Check { path: self.site.ready.to_string(), version: None },
            member,
            Op::SetData { path: self.path.to_string(), data: self.site.data.clone(), version: None },
        ];
        self.joining = true;
        let joined = commit(&self.session, ops).await?;
        self.joining = joined;
        self.version += i32::from(joined);
        Ok(joined)
    }
}
