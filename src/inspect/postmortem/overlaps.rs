//! Those who exclude each other and may have held at the same time.
//!
//! By the rule of a line only one holds. But a holder does not look at the line again. So it goes on if another node
//! comes before its own; and if another session deletes its node, until it notices, which the logs do not tell.

use std::collections::HashMap;

use super::super::role::Role;
use super::order::Granted;
use super::value::{By, Cause, Hold, Moment, Overlap};
use crate::util::path::join;

/// A holder whose node was deleted by another session, while its own session goes on.
#[derive(Debug)]
struct Robbed {
    path: String,
    role: Role,
    session: i64,
    by: By,
    /// With the next one that holds.
    overlap: Option<Overlap>,
}

/// The overlaps that last, and what may become one.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    /// By their directories.
    robbed: HashMap<String, Vec<Robbed>>,
    /// Those of nodes that came before a holder.
    overtaken: Vec<Overlap>,
}

impl Overlaps {
    /// A holder has lost its node to another session.
    pub(super) fn rob(&mut self, hold: &Hold, role: Role, session: i64, by: By) {
        let robbed = Robbed { path: hold.path.clone(), role, session, by, overlap: None };
        self.robbed.entry(hold.directory().to_owned()).or_default().push(robbed);
    }

    /// A node is granted. `sessions` are those of the nodes that it has overtaken.
    pub(super) fn grant(&mut self, dir: &str, granted: &Granted, from: Moment, sessions: &[Option<i64>]) {
        let overlap = |first: &str, first_session_id, cause| Overlap {
            first: first.to_owned(),
            first_session_id,
            second: join(dir, &granted.name),
            second_session_id: granted.session,
            others: 0,
            cause,
            from,
            until: None,
        };
        let overtaken = granted.overtaken.iter().zip(sessions);
        self.overtaken.extend(overtaken.map(|(name, id)| overlap(&join(dir, name), *id, Cause::Overtaken)));
        for one in self.robbed.get_mut(dir).into_iter().flatten() {
            if Some(one.session) == granted.session || !one.role.excludes(granted.role) {
                continue;
            }
            match &mut one.overlap {
                Some(overlap) => overlap.others += 1,
                None => one.overlap = Some(overlap(&one.path, Some(one.session), Cause::Deleted(one.by))),
            }
        }
    }

    /// A node is gone. Returns the overlaps that this ends.
    pub(super) fn end(&mut self, path: &str, at: Moment) -> Vec<Overlap> {
        let over = self.overtaken.extract_if(.., |overlap| overlap.first == path || overlap.second == path);
        over.map(|overlap| Overlap { until: Some(at), ..overlap }).collect()
    }

    /// A session creates or deletes a node in a directory: it knows by now that it does not hold there any more.
    pub(super) fn acts(&mut self, session: i64, dir: &str, at: Moment) -> Vec<Overlap> {
        let Some(robbed) = self.robbed.get_mut(dir) else { return Vec::new() };
        let over: Vec<_> = robbed.extract_if(.., |one| one.session == session).collect();
        if robbed.is_empty() {
            self.robbed.remove(dir);
        }
        over.into_iter().filter_map(|one| Some(Overlap { until: Some(at), ..one.overlap? })).collect()
    }

    /// A session is over.
    pub(super) fn close_session(&mut self, session: i64, at: Moment) -> Vec<Overlap> {
        let is_there = |robbed: &Vec<Robbed>| robbed.iter().any(|one| one.session == session);
        let dirs: Vec<_> =
            self.robbed.iter().filter(|(_, robbed)| is_there(robbed)).map(|(dir, _)| dir.clone()).collect();
        dirs.iter().flat_map(|dir| self.acts(session, dir, at)).collect()
    }

    /// Returns the overlaps that last, and forgets all.
    pub(super) fn take(&mut self) -> Vec<Overlap> {
        let robbed = std::mem::take(&mut self.robbed).into_values().flatten().filter_map(|one| one.overlap);
        let mut all: Vec<_> = std::mem::take(&mut self.overtaken).into_iter().chain(robbed).collect();
        all.sort_by(|one, other| (one.from, &one.first).cmp(&(other.from, &other.first)));
        all
    }
}
