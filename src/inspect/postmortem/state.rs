//! What exists at one moment, and what each transaction changes.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::super::role::Role;
use super::items::Items;
use super::order::Order;
use super::overlaps::Overlaps;
use super::scope::{Kind, Scope, kind, semaphore_of_line, session};
use super::value::{By, End, Event, Gap, Hold, Moment, Overlap, What};
use crate::layout::line::REVOKED;
use crate::layout::parts::is_hex_uuid;
use crate::protocol::{Change, Txn};
use crate::util::path::{join, split};

/// How many sessions that are over are remembered at least.
const REMEMBERED: usize = 10_000;

/// A node as it was created.
#[derive(Debug)]
pub(super) struct Created<'a> {
    pub(super) path: &'a str,
    pub(super) data: &'a [u8],
    pub(super) owner: i64,
    /// The session that created it, if that is known.
    pub(super) by: Option<i64>,
    pub(super) at: Moment,
}

/// The nodes that hold something, and the sessions.
#[derive(Debug)]
pub(super) struct State {
    scope: Scope,
    /// The timeouts of the sessions.
    sessions: HashMap<i64, i32>,
    /// When the sessions that are over have ended: the newest, and some before them.
    closed: [HashMap<i64, Moment>; 2],
    pub(super) holds: HashMap<String, Hold>,
    pub(super) items: Items,
    /// The paths of all these, by the sessions that own them.
    owned: HashMap<i64, HashSet<String>>,
    pub(super) lines: HashMap<String, Order>,
    /// The semaphores that have had a permit, until their directories are deleted.
    semaphores: HashSet<String>,
    /// The permits that the first of a line asks for, by the path of its place.
    asked: HashMap<String, Vec<String>>,
    overlaps: Overlaps,
    /// The permits that are held once the transaction is applied, and the lines that it changes.
    given: Vec<String>,
    touched: BTreeSet<String>,
    /// What the transaction has ended.
    pub(super) told: Vec<Event>,
}

impl State {
    pub(super) fn new(path: &str) -> State {
        State {
            scope: Scope::new(path),
            sessions: HashMap::new(),
            closed: Default::default(),
            holds: HashMap::new(),
            items: Items::default(),
            owned: HashMap::new(),
            lines: HashMap::new(),
            semaphores: HashSet::new(),
            asked: HashMap::new(),
            overlaps: Overlaps::default(),
            given: Vec::new(),
            touched: BTreeSet::new(),
            told: Vec::new(),
        }
    }

    pub(super) fn covers(&self, path: &str) -> bool {
        self.scope.contains(path)
    }

    pub(super) fn open_session(&mut self, id: i64, timeout_ms: i32) {
        self.sessions.insert(id, timeout_ms);
    }

    /// Applies a transaction. What it has ended is in `told`.
    pub(super) fn apply(&mut self, txn: &Txn) {
        let header = &txn.header;
        let at = Moment { zxid: header.zxid, ms: header.time };
        let by = session(header.session);
        for change in &txn.changes {
            match change {
                Change::Create { path, data, owner } if self.covers(path) => {
                    self.acts(by, path, at);
                    self.check_open([by, session(*owner)], at);
                    self.check_absent(path, at);
                    self.create(&Created { path, data, owner: *owner, by, at });
                }
                Change::Delete { path } if self.covers(path) => {
                    self.acts(by, path, at);
                    self.delete(path, at, by);
                }
                Change::SetData { path, data } if self.covers(path) && &data[..] == REVOKED => {
                    if let Some(hold) = self.holds.get_mut(path) {
                        hold.revoked = hold.revoked.or(by.map(|session_id| By { session_id, at }));
                    }
                }
                Change::OpenSession { timeout_ms } => self.open_session(header.session, *timeout_ms),
                Change::CloseSession { paths } => {
                    let is_expired = header.cxid == 0;
                    let end = if is_expired { End::SessionExpired } else { End::SessionClosed };
                    self.close_session(header.session, paths, at, end);
                }
                _ => {}
            }
        }
        self.settle(at, false);
    }

    fn acts(&mut self, by: Option<i64>, path: &str, at: Moment) {
        if let Some(by) = by {
            let over = self.overlaps.acts(by, split(path).0, at);
            self.told.extend(over.into_iter().map(Event::Overlap));
        }
    }

    /// Notices that a session creates a node after its end. The servers refuse that, so the end did not happen, and the
    /// transactions that did are missing.
    fn check_open(&mut self, sessions: [Option<i64>; 2], at: Moment) {
        for id in sessions.into_iter().flatten() {
            for after in self.closed.iter_mut().filter_map(|closed| closed.remove(&id)) {
                self.told.push(Event::Gap(Gap { after, before: at }));
            }
        }
    }

    /// Remembers that a session is over. Only what is missing soon after is noticed by that, so a few are enough.
    fn remember(&mut self, id: i64, at: Moment) {
        if self.closed[0].len() >= REMEMBERED {
            self.closed.swap(0, 1);
            self.closed[0].clear();
        }
        self.closed[0].insert(id, at);
    }

    /// Notices that a node exists that is created now: the transaction that deleted it is missing.
    fn check_absent(&mut self, path: &str, at: Moment) {
        let joined = self.holds.get(path).map(|hold| hold.joined).or_else(|| self.items.since(path));
        if let Some(after) = joined.filter(|joined| joined.zxid != at.zxid) {
            self.told.push(Event::Gap(Gap { after, before: at }));
            self.forget_node(path, at);
        }
    }

    /// Adds a node. One that exists already, by the same transaction, was in a snapshot that the servers wrote while
    /// they went on.
    pub(super) fn create(&mut self, node: &Created<'_>) {
        let Created { path, data, owner, by, at } = *node;
        let dir = split(path).0;
        self.forget_directory(dir);
        if self.holds.contains_key(path) || self.items.contains(path) {
            return;
        }
        let owner = session(owner);
        match kind(path, node.owner) {
            Kind::Place(role) => {
                self.hold(node, What::Place(role));
                self.lines.entry(dir.to_owned()).or_default().insert(split(path).1, owner, at.zxid);
                self.touched.insert(dir.to_owned());
            }
            Kind::Permit { semaphore } => self.permit(node, semaphore),
            Kind::Node => self.node(node),
            Kind::Item => self.items.put(path, at, by, data.len()),
            Kind::Claim { item } => {
                self.items.claim(path, item, owner, at);
                self.own(path, owner);
            }
            Kind::Letter { item } => self.items.letter(item, path),
            Kind::Other => {}
        }
    }

    /// A node with children is a directory, whatever its name.
    fn forget_directory(&mut self, dir: &str) {
        if let Some(hold) = self.holds.remove(dir) {
            self.leave_line(&hold);
        }
    }

    /// A permit belongs to the first of the line, if that has the same session, and is held when that one has left.
    fn permit(&mut self, node: &Created<'_>, semaphore: String) {
        let line = join(&semaphore, crate::layout::semaphore::LINE);
        let head = self.lines.get(&line).and_then(Order::head);
        let asks = head.filter(|(_, one)| one.is_some() && *one == session(node.owner));
        match asks.map(|(name, _)| join(&line, name)) {
            Some(place) => self.asked.entry(place).or_default().push(node.path.to_owned()),
            None => self.given.push(node.path.to_owned()),
        }
        self.semaphores.insert(semaphore);
        self.hold(node, What::Permit);
    }

    /// Any other ephemeral node; a permit of kazoo's semaphore is one, beside the line of the semaphore.
    fn node(&mut self, node: &Created<'_>) {
        let (dir, name) = split(node.path);
        let line = format!("{dir}{}", crate::layout::kazoo::SEMAPHORE_LINE);
        let is_permit = is_hex_uuid(name) && (self.semaphores.contains(dir) || self.lines.contains_key(&line));
        if is_permit {
            self.semaphores.insert(dir.to_owned());
        }
        self.hold(node, if is_permit { What::Permit } else { What::Node });
        self.given.push(node.path.to_owned());
    }

    fn hold(&mut self, node: &Created<'_>, what: What) {
        let session_id = session(node.owner);
        let hold = Hold {
            path: node.path.to_owned(),
            what,
            session_id,
            session_timeout_ms: session_id.and_then(|id| self.sessions.get(&id).copied()),
            created_by: session_id.or(node.by),
            data: node.data.to_vec(),
            joined: node.at,
            granted: None,
            granted_before: false,
            revoked: None,
            ended: None,
            end: End::Remains,
            ended_by: None,
        };
        self.own(node.path, session_id);
        self.holds.insert(node.path.to_owned(), hold);
    }

    fn own(&mut self, path: &str, session: Option<i64>) {
        if let Some(session) = session {
            self.owned.entry(session).or_default().insert(path.to_owned());
        }
    }

    /// Deletes a node. A transaction without a session is one of the servers.
    fn delete(&mut self, path: &str, at: Moment, by: Option<i64>) {
        self.semaphores.remove(path);
        let owner = self.holds.get(path).map(|hold| hold.session_id.or(hold.created_by));
        let end = |owner: Option<i64>| match by {
            None => End::Removed,
            Some(by) if owner.is_none_or(|owner| owner == by) => End::Released,
            Some(_) => End::Deleted,
        };
        if let Some(owner) = owner {
            return self.end(path, at, end(owner), by);
        }
        match self.items.owner_of_claim(path) {
            Some(owner) => {
                self.items.unclaim(path, at, end(owner));
                self.disown(path, owner);
            }
            None => self.items.delete(path, at, by),
        }
    }

    fn close_session(&mut self, id: i64, paths: &[String], at: Moment, end: End) {
        let mut paths: BTreeSet<String> = paths.iter().filter(|path| self.covers(path)).cloned().collect();
        paths.extend(self.owned.remove(&id).unwrap_or_default());
        for path in paths {
            if self.holds.contains_key(&path) {
                self.end(&path, at, end, None);
            } else {
                self.items.unclaim(&path, at, end);
            }
        }
        let over = self.overlaps.close_session(id, at);
        self.told.extend(over.into_iter().map(Event::Overlap));
        self.sessions.remove(&id);
        self.remember(id, at);
    }

    /// Ends a hold, or a wait.
    pub(super) fn end(&mut self, path: &str, at: Moment, end: End, by: Option<i64>) {
        let Some(mut hold) = self.holds.remove(path) else { return };
        self.leave_line(&hold);
        self.given.extend(self.asked.remove(path).unwrap_or_default());
        (hold.ended, hold.end, hold.ended_by) = (Some(at), end, by);
        let robbed = (end == End::Deleted && hold.granted.is_some()).then_some(hold.session_id.zip(by)).flatten();
        if let (What::Place(role), Some((session, session_id))) = (hold.what, robbed) {
            self.overlaps.rob(&hold, role, session, By { session_id, at });
        }
        let over = self.overlaps.end(path, at);
        let hold = Hold { what: self.what(&hold), ..hold };
        self.told.push(Event::Hold(hold));
        self.told.extend(over.into_iter().map(Event::Overlap));
    }

    /// Removes a node from its line and from those of its session.
    fn leave_line(&mut self, hold: &Hold) {
        let (dir, name) = split(&hold.path);
        if let Some(line) = self.lines.get_mut(dir) {
            line.remove(name, hold.joined.zxid);
            self.touched.insert(dir.to_owned());
        }
        self.disown(&hold.path, hold.session_id);
    }

    fn disown(&mut self, path: &str, session: Option<i64>) {
        let Some(session) = session else { return };
        let is_last = self.owned.get_mut(&session).is_some_and(|paths| paths.remove(path) && paths.is_empty());
        if is_last {
            self.owned.remove(&session);
        }
    }

    /// Returns what a node holds. Whether a line is that of a semaphore is known once the semaphore has had a permit.
    pub(super) fn what(&self, hold: &Hold) -> What {
        let semaphore = semaphore_of_line(hold.directory());
        let is_turn = matches!(hold.what, What::Place(Role::Lock | Role::KazooLock))
            && semaphore.is_some_and(|semaphore| self.semaphores.contains(semaphore));
        if is_turn { What::Turn } else { hold.what }
    }

    /// Grants what can be granted once a whole transaction is applied. `before` says that it was granted before.
    pub(super) fn settle(&mut self, at: Moment, before: bool) {
        self.told.extend(self.items.settle(at).into_iter().map(Event::Item));
        for path in std::mem::take(&mut self.given) {
            self.grant(&path, at, before);
        }
        for dir in std::mem::take(&mut self.touched) {
            let Some(line) = self.lines.get_mut(&dir) else { continue };
            let granted = line.grant();
            if line.is_empty() {
                self.lines.remove(&dir);
            }
            for one in granted {
                self.grant(&join(&dir, &one.name), at, before);
                let session_of = |name: &String| self.holds.get(&join(&dir, name)).and_then(|hold| hold.session_id);
                let sessions: Vec<_> = one.overtaken.iter().map(session_of).collect();
                self.overlaps.grant(&dir, &one, at, &sessions);
            }
        }
    }

    fn grant(&mut self, path: &str, at: Moment, before: bool) {
        if let Some(hold) = self.holds.get_mut(path).filter(|hold| hold.granted.is_none()) {
            // What is not in a line is held from its creation on.
            let is_known = hold.what == What::Node;
            hold.granted = Some(if is_known { hold.joined } else { at });
            hold.granted_before = before && !is_known;
        }
    }

    /// Tells what remains.
    pub(super) fn finish(mut self) -> Vec<Event> {
        let mut holds: Vec<Hold> =
            self.holds.values().map(|hold| Hold { what: self.what(hold), ..hold.clone() }).collect();
        holds.sort_by(|one, other| (one.joined, &one.path).cmp(&(other.joined, &other.path)));
        let overlaps = self.overlaps.take().into_iter().map(Event::Overlap);
        let mut items: Vec<_> = self.items.into_items().collect();
        items.sort_by(|one, other| (one.put, &one.path).cmp(&(other.put, &other.path)));
        let holds = holds.into_iter().map(Event::Hold);
        holds.chain(items.into_iter().map(Event::Item)).chain(overlaps).collect()
    }

    /// Forgets all nodes, because transactions are missing, and tells those that did not end as far as is known.
    pub(super) fn forget(&mut self, at: Moment) {
        let mut paths: Vec<String> = self.holds.keys().cloned().collect();
        paths.sort_unstable();
        paths.iter().for_each(|path| self.forget_node(path, at));
        let mut items = self.items.existing();
        items.sort_unstable();
        items.iter().for_each(|(path, _)| self.forget_node(path, at));
        let overlaps = self.overlaps.take().into_iter();
        self.told.extend(overlaps.map(|overlap| Event::Overlap(Overlap { until: Some(at), ..overlap })));
        (self.given, self.asked, self.touched) = Default::default();
        self.lines.clear();
        self.owned.clear();
        // Some of them have ended meanwhile.
        self.sessions.clear();
    }

    /// Ends a node of which it is not known how it ended.
    pub(super) fn forget_node(&mut self, path: &str, at: Moment) {
        if self.holds.contains_key(path) {
            self.end(path, at, End::Unknown, None);
        } else if let Some(item) = self.items.forget(path, at) {
            self.told.push(Event::Item(item));
        }
    }

    /// Grants in these lines with the next transaction.
    pub(super) fn touch(&mut self, lines: impl IntoIterator<Item = String>) {
        self.touched.extend(lines);
    }

    /// Replaces the sessions by those of a snapshot.
    pub(super) fn set_sessions(&mut self, sessions: HashMap<i64, i32>) {
        self.sessions = sessions;
    }
}
