//! The transactions of a member. Each writes its record at the version that it has read, so leader and member never
//! overwrite each other, and creates or deletes the nodes of the partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt};
use tokio::time::Instant;

use super::Leave;
use super::claims::{Claim, MOST_AT_ONCE, Pending, Step};
use super::following::{Advanced, End, Following, Known};
use super::registration::AT_ONCE;
use crate::engine::{self, Multi, Op, OpResult};
use crate::layout::partition_assigner::Assignment;
use crate::util::znode::CreateMode;

/// What a request contains for each node, besides its path: the header of the operation, and an ACL.
const BYTES_OF_OP: usize = 128;

impl Following<'_> {
    /// Finds out what became of a transaction that got no answer. The record was read after it. The record alone does
    /// not show that: it may have been deleted since, and a leader may have created another one.
    pub(super) async fn resolve(&mut self) -> Result<(), End> {
        let Some(pending) = self.pending.as_ref().filter(|_| !matches!(self.known, Known::Unread)) else {
            return Ok(());
        };
        let given = pending.given.iter().filter_map(|name| Some((name, &self.claims.all.get(name)?.path)));
        let nodes = pending.taken.iter().chain(given).map(|(name, path)| (Arc::clone(name), Arc::clone(path)));
        let nodes: Vec<(Arc<str>, Arc<str>)> = nodes.collect();
        let session = &self.session;
        let look = |(name, path): (Arc<str>, Arc<str>)| async move {
            session.exists(&path).await.map(|found| (name, path, found))
        };
        let looks = futures::stream::iter(nodes.into_iter().map(look)).buffered(AT_ONCE);
        let found: Vec<_> = looks.try_collect().await.map_err(End::Refused)?;
        let Some(pending) = self.pending.take() else { return Ok(()) };
        for (name, path, found) in found {
            match found {
                Some(stat) if pending.taken.contains_key(&name) => {
                    let claim = Claim::new(path, stat.czxid, self.member.registrar.core.clock.now());
                    self.claims.all.insert(name, claim);
                }
                // It was not carried out, and will not be: the servers do not serve its connection any more.
                Some(_) => {}
                None => self.forget(&[name]),
            }
        }
        Ok(())
    }

    /// Takes what is assigned and hands over what is not, as far as no work is left on it.
    pub(super) async fn reconcile(
        &mut self,
        record: &Assignment,
        version: i32,
        assigned: &BTreeSet<Arc<str>>,
        is_leaving: bool,
    ) -> Result<Advanced, End> {
        let now = Instant::now();
        let paused = &self.paused;
        let may_take = |name: &Arc<str>| paused.get(name).is_none_or(|pause| now >= pause.until);
        let Some(step) = self.claims.step(record, assigned, self.most, is_leaving, may_take) else {
            return Ok(Advanced::Waits);
        };
        let record = Assignment { leaving: is_leaving, ..record.clone() };
        self.commit(&record, version, step).await
    }

    async fn commit(&mut self, record: &Assignment, version: i32, step: Step) -> Result<Advanced, End> {
        let registrar = &self.member.registrar;
        self.claim += 1;
        let next = Assignment { held: self.claims.after(&step), claims: self.claim, ..record.clone() };
        let path = registrar.paths.assignment(&self.member.options.id);
        let node = |name: &Arc<str>| -> Arc<str> { registrar.paths.owned(name, &self.registration, self.claim).into() };
        let taken: BTreeMap<_, _> = step.take.iter().map(|name| (Arc::clone(name), node(name))).collect();
        let data = next.bytes();
        let bytes = data.len() + taken.values().map(|path| path.len() + BYTES_OF_OP).sum::<usize>();
        if bytes > registrar.core.config.max_request_bytes && self.may_change_less(&step) {
            return Ok(self.change_less());
        }
        let given = step.give.iter().filter_map(|name| self.claims.all.get(name)).map(|claim| claim.path.to_string());
        let deletes = given.map(|path| Op::Delete { path, version: None });
        let creates = taken.values().map(|path| Op::Create {
            path: path.to_string(),
            data: Vec::new(),
            mode: CreateMode::Ephemeral,
            acls: registrar.core.config.acls.clone(),
        });
        // The record could have been deleted and written again, up to the same version, for a later registration.
        let present = Op::Check { path: self.node.to_string(), version: None };
        let write = Op::SetData { path, data, version: Some(version) };
        let ops: Vec<Op> = [present, write].into_iter().chain(deletes).chain(creates).collect();
        let sent = self.session.multi(ops);
        self.pending = Some(Pending { taken, given: step.give.clone() });
        let outcome = match sent.await {
            // Nothing was sent.
            Err(engine::Error::TooLarge(_)) if self.may_change_less(&step) => {
                self.pending = None;
                return Ok(self.change_less());
            }
            outcome => outcome.map_err(End::Refused)?,
        };
        let pending = self.pending.take().map(|pending| pending.taken).unwrap_or_default();
        match outcome {
            Multi::Committed(results) => {
                let Some(OpResult::SetData { stat }) = results.into_iter().nth(1) else { return Ok(Advanced::Again) };
                self.log(&step, stat.mzxid);
                step.give.iter().filter(|name| next.assigned.contains(*name)).for_each(|name| self.pause(name));
                self.forget(&step.give);
                self.most = (self.most * 2).min(MOST_AT_ONCE);
                let now = registrar.core.clock.now();
                // The nodes were created by the transaction that wrote the record.
                let claims = pending.into_iter().map(|(name, path)| (name, Claim::new(path, stat.mzxid, now)));
                self.claims.all.extend(claims);
                self.known = Known::Ours(next, stat.version);
            }
            Multi::Refused { index: 0, error: engine::Error::NoNode } => return Err(End::NodeDeleted),
            // The leader wrote first, or the record was deleted.
            Multi::Refused { index: 1, error: engine::Error::BadVersion | engine::Error::NoNode } => {
                self.known = Known::Unread;
            }
            // The node of a partition was deleted by hand. No work runs on the partition, so it is handed over all the
            // same.
            Multi::Refused { index, error: engine::Error::NoNode } if (2..2 + step.give.len()).contains(&index) => {
                self.forget(&step.give[index - 2..index - 1]);
            }
            // The directory of the partitions was deleted by hand.
            Multi::Refused { index, error: engine::Error::NoNode } if index >= 2 + step.give.len() => {
                registrar.directories(&self.session).await.map_err(End::Refused)?;
            }
            Multi::Refused { error: engine::Error::TooLarge(_), .. } if self.may_change_less(&step) => {
                return Ok(self.change_less());
            }
            Multi::Refused { error, .. } => return Err(End::Refused(error)),
        }
        Ok(Advanced::Again)
    }

    /// Returns whether a step that is too large may be replaced by a smaller one, or wait.
    fn may_change_less(&self, step: &Step) -> bool {
        self.most > 1 || (step.give.is_empty() && !step.take.is_empty())
    }

    /// Changes less at once. A record without room for one more partition waits until others are handed over.
    fn change_less(&mut self) -> Advanced {
        if self.most == 1 {
            return Advanced::Waits;
        }
        self.most /= 2;
        Advanced::Again
    }

    fn log(&self, step: &Step, token: i64) {
        let path = &self.member.registrar.paths.base;
        for partition in &step.give {
            tracing::debug!(event = "partition_handed_over", path, %partition, "handed the partition over");
        }
        for partition in &step.take {
            tracing::debug!(event = "partition_taken", path, %partition, token, "took the partition");
        }
    }

    fn forget(&mut self, given: &[Arc<str>]) {
        for name in given {
            self.claims.all.remove(name);
        }
    }

    /// Deletes the nodes of the partitions on which no work is left. There is no record for them.
    pub(super) async fn give_without_record(&mut self) -> Result<Advanced, End> {
        let mut given = self.claims.over(&BTreeSet::new());
        given.truncate(self.most);
        if given.is_empty() {
            return Ok(Advanced::Waits);
        }
        let nodes = given.iter().filter_map(|name| self.claims.all.get(name)).map(|claim| claim.path.to_string());
        let deletes = nodes.map(|path| Op::Delete { path, version: None }).collect();
        let outcome = match self.session.multi(deletes).await {
            Err(engine::Error::TooLarge(_)) if self.most > 1 => return Ok(self.change_less()),
            outcome => outcome.map_err(End::Refused)?,
        };
        match outcome {
            Multi::Committed(_) => self.forget(&given),
            // It was deleted by hand, or by an earlier request that got no answer.
            Multi::Refused { index, error: engine::Error::NoNode } => self.forget(&given[index..=index]),
            Multi::Refused { error, .. } => return Err(End::Refused(error)),
        }
        Ok(Advanced::Again)
    }

    /// Deletes the node that shows that the member is present, and its record if others are to get its partitions. All
    /// of them are handed over.
    pub(super) async fn depart(&mut self, leave: Leave) -> Result<Advanced, End> {
        let node = Op::Delete { path: self.node.to_string(), version: None };
        let record = match (&self.known, leave) {
            (Known::Unread, _) => return Ok(Advanced::Again),
            (Known::Ours(_, version), Leave::HandOver) => {
                let path = self.member.registrar.paths.assignment(&self.member.options.id);
                Some(Op::Delete { path, version: Some(*version) })
            }
            _ => None,
        };
        let has_record = record.is_some();
        self.is_departing = true;
        match self.session.multi(record.into_iter().chain([node]).collect()).await.map_err(End::Refused)? {
            Multi::Refused { index: 0, error: engine::Error::BadVersion | engine::Error::NoNode } if has_record => {
                self.known = Known::Unread;
                Ok(Advanced::Again)
            }
            Multi::Committed(_) | Multi::Refused { error: engine::Error::NoNode, .. } => Err(End::Left),
            Multi::Refused { error, .. } => Err(End::Refused(error)),
        }
    }
}
