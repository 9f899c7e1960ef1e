//! Continues with a snapshot where the state is not known: at the beginning of the files, and after a gap.

use std::collections::{HashMap, HashSet};

use super::files::Named;
use super::scope::{Kind, kind};
use super::snapshot_file::{self, Visit};
use super::state::{Created, State};
use super::value::{Damage, Moment};
use crate::protocol::{SnapshotNode, SnapshotSession};

/// A node of a snapshot that counts.
struct Node {
    path: String,
    data: Vec<u8>,
    owner: i64,
    created: Moment,
}

/// What a snapshot has of it.
struct Contents<'a> {
    state: &'a State,
    /// The last transaction that is in it as a whole. The servers write on while they take it.
    zxid: i64,
    sessions: HashMap<i64, i32>,
    nodes: Vec<Node>,
    /// The directories of nodes.
    directories: HashSet<String>,
}

impl Visit for Contents<'_> {
    fn session(&mut self, session: &SnapshotSession) {
        self.sessions.insert(session.id, session.timeout_ms);
    }

    fn node(&mut self, path: &str, node: SnapshotNode) {
        // A later one follows in the logs.
        if !self.state.covers(path) || node.czxid > self.zxid {
            return;
        }
        if let Some((dir, _)) = path.rsplit_once('/') {
            // Each directory comes just before its nodes, so this is a string that was there a moment ago.
            if !self.directories.contains(dir) {
                self.directories.insert(dir.to_owned());
            }
        }
        if matches!(kind(path, node.owner), Kind::Other | Kind::Letter { .. }) {
            return;
        }
        let created = Moment { zxid: node.czxid, ms: node.ctime };
        let data = node.data.unwrap_or_default().to_vec();
        self.nodes.push(Node { path: path.to_owned(), data, owner: node.owner, created });
    }
}

/// Sets the state to that of a snapshot. What was there before and is not in it has ended in an unknown way.
pub(super) fn rebase(state: &mut State, snapshot: &Named, at: Moment) -> Result<(), Damage> {
    let mut contents = Contents {
        state,
        zxid: snapshot.zxid,
        sessions: HashMap::new(),
        nodes: Vec::new(),
        directories: HashSet::new(),
    };
    snapshot_file::read(&snapshot.path, &mut contents).map_err(|broken| Damage {
        file: snapshot.path.clone(),
        offset: broken.offset,
        after_zxid: None,
        reason: broken.reason,
    })?;
    let Contents { sessions, mut nodes, directories, .. } = contents;
    nodes.retain(|node| !directories.contains(&node.path));
    // In the order of their creation, as the permits of a semaphore depend on the line, and claims on items.
    nodes.sort_by_key(|node| node.created);
    state.set_sessions(sessions);
    forget_others(state, &nodes, at);
    for Node { path, data, owner, created } in &nodes {
        state.create(&Created { path, data, owner: *owner, by: None, at: *created });
    }
    regrant(state, at);
    Ok(())
}

/// Forgets all nodes but these.
fn forget_others(state: &mut State, nodes: &[Node], at: Moment) {
    let there: HashSet<(&str, i64)> = nodes.iter().map(|node| (&*node.path, node.created.zxid)).collect();
    let holds = state.holds.values().map(|hold| (hold.path.clone(), hold.joined.zxid));
    let mut gone: Vec<_> = holds.chain(state.items.existing()).collect();
    gone.retain(|(path, created)| !there.contains(&(path.as_str(), *created)));
    gone.sort_unstable();
    gone.iter().for_each(|(path, _)| state.forget_node(path, at));
}

/// Grants again. Who held before the missing nodes were known may not have held at all.
fn regrant(state: &mut State, at: Moment) {
    let before: HashMap<String, Option<(Moment, bool)>> = state
        .holds
        .values_mut()
        .filter(|hold| matches!(hold.what, super::value::What::Place(_)))
        .map(|hold| (hold.path.clone(), hold.granted.take().map(|granted| (granted, hold.granted_before))))
        .collect();
    let lines: Vec<String> = state.lines.keys().cloned().collect();
    state.lines.values_mut().for_each(|line| line.reset());
    state.touch(lines);
    state.settle(at, true);
    for (path, granted) in before {
        let hold = state.holds.get_mut(&path).filter(|hold| hold.granted.is_some());
        if let (Some(hold), Some((granted, is_before))) = (hold, granted) {
            (hold.granted, hold.granted_before) = (Some(granted), is_before);
        }
    }
}
