//! What has to be read, and what events and answers change. No I/O.
//!
//! Work is done in *rounds*. What an answer calls for is read in the present round; what an event calls for, in the
//! next one. So every round ends, even under continuous changes, and at its end the nodes are published. If nothing
//! waits for the next round then, all nodes were as published at one moment: when the last answer or event came. They
//! are *settled*.
//!
//! The rest follows from two facts. When an answer is handled, every event that the server sent before it has been
//! [handled](Tracker::handle_event), and later ones may have been, too. And the server carries out requests in the
//! order in which they were handed over. Hence, if an event arrives while a request is under way:
//!
//! * The node was written or created: the answer may be older, so it is read again in the next round.
//! * The node was deleted: the answer does not count. If the node has been created again, that is an event, too.
//! * A child came or went while its directory is listed: the list says nothing about this child.
//!
//! After a gap (a reconnect, a new session, too many unread events) everything is compared: one request per node reads
//! its stat; data is read where czxid or mzxid differ, and children are listed where pzxid does. That is enough because
//! a node's children are complete as of the pzxid in its stat: they were listed once, and then followed by events. The
//! exceptions, whose list or whose children were still to be read at the gap, are remembered (`incomplete`).
//!
//! Servers without persistent watches do not report a created child, and report a deletion only to clients that have
//! read the node. So with them each node and each directory has a one-shot watch, events only say where to look, and
//! each directory is listed.

mod mirror;
mod refused;
mod work;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use self::mirror::Mirror;
use self::refused::{Refusal, Refused};
use self::work::{Ask, Later, Listing, Progress, Reading, take_back};
pub(super) use self::work::{Job, Published, Watching};
use super::node::{Content, Node, compare};
use super::scope::Scope;
use crate::engine::Event;
use crate::util::path::{join, split};
use crate::util::random::Random;
use crate::util::znode::Stat;

/// The space that is kept for the requests of the next round.
const KEPT: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Tracker<T> {
    scope: Scope,
    with_data: bool,
    watching: Watching,
    mirror: Mirror<T>,
    readings: HashMap<Arc<str>, Reading<T>>,
    listings: HashMap<Arc<str>, Listing>,
    /// What is queued, in order, including what was withdrawn since.
    queue: VecDeque<Job>,
    /// How many requests of the present round are queued or under way.
    open: usize,
    later: BTreeMap<Arc<str>, Later>,
    /// Directories to list in the next round.
    later_lists: BTreeSet<Arc<str>>,
    /// Nodes whose children are not complete as of their pzxid.
    incomplete: HashSet<Arc<str>>,
    /// The round that is under way, or the last one.
    round: u64,
    is_in_round: bool,
    /// The present round compares everything.
    compares: bool,
    refused: Refused,
}

impl<T: 'static> Tracker<T> {
    pub(super) fn new(scope: Scope, with_data: bool, random: Random) -> Self {
        Tracker {
            scope,
            with_data,
            watching: Watching::Persistent,
            mirror: Mirror::new(),
            readings: HashMap::new(),
            listings: HashMap::new(),
            queue: VecDeque::new(),
            open: 0,
            later: BTreeMap::new(),
            later_lists: BTreeSet::new(),
            incomplete: HashSet::new(),
            round: 0,
            is_in_round: false,
            compares: false,
            refused: Refused::new(random),
        }
    }

    /// Returns the newest transaction that any stat has shown.
    pub(super) fn newest(&self) -> i64 {
        self.mirror.newest()
    }

    /// Returns what could not be read or listed.
    pub(super) fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Schedules the refused requests that are due for the next round.
    pub(super) fn retry_due(&mut self) {
        for job in self.refused.take_due() {
            match job {
                Job::List(path) => drop(self.later_lists.insert(path)),
                Job::Look(path) | Job::Read(path) => self.read_later(&path, false),
            }
        }
    }

    /// Returns whether the root is known to be missing.
    pub(super) fn lacks_root(&self) -> bool {
        self.mirror.get(&self.scope.root).is_none() && !self.readings.contains_key(&self.scope.root)
    }

    /// Forgets all requests: their answers will not come, or events may be missing.
    pub(super) fn interrupt(&mut self) {
        for (path, _) in self.readings.drain() {
            if self.mirror.get(&path).is_none() {
                self.incomplete.insert(split(&path).0.into());
            }
        }
        for (path, _) in std::mem::take(&mut self.later) {
            if self.mirror.get(&path).is_none() {
                self.incomplete.insert(split(&path).0.into());
            }
        }
        self.incomplete.extend(self.listings.drain().map(|(path, _)| path));
        self.incomplete.extend(std::mem::take(&mut self.later_lists));
        self.queue.clear();
        self.open = 0;
        self.is_in_round = false;
    }

    /// Begins a round that compares everything, after a watch was armed. Returns its number.
    pub(super) fn compare(&mut self, watching: Watching) -> u64 {
        self.interrupt();
        self.watching = watching;
        self.begin_round();
        self.compares = true;
        self.refused.try_all();
        // What is not known is listed in any case.
        self.incomplete.retain(|dir| self.mirror.get(dir).is_some());
        let known: Vec<Arc<str>> = self.mirror.nodes().iter().map(|node| node.path().into()).collect();
        if self.mirror.get(&self.scope.root).is_none() {
            self.request(&Arc::clone(&self.scope.root), true, false);
        }
        self.readings.reserve(known.len());
        for path in known {
            self.request(&path, true, true);
        }
        self.round
    }

    fn begin_round(&mut self) {
        self.round += 1;
        self.is_in_round = true;
        self.compares = false;
    }

    /// Begins the next round, if none is under way and there is something to do.
    pub(super) fn begin(&mut self) {
        if self.is_in_round || !self.has_later() {
            return;
        }
        self.begin_round();
        for (path, Later { seen_created }) in std::mem::take(&mut self.later) {
            let is_known = self.mirror.get(&path).is_some();
            // The children of a known node are followed by events, unless they could not be listed.
            let lists = !seen_created && (!is_known || self.incomplete.contains(&path));
            self.request(&path, lists, is_known);
        }
        for path in std::mem::take(&mut self.later_lists) {
            self.list(path);
        }
    }

    fn has_later(&self) -> bool {
        self.waits() || self.mirror.is_changed()
    }

    /// Returns whether requests wait for the next round.
    fn waits(&self) -> bool {
        !self.later.is_empty() || !self.later_lists.is_empty()
    }

    /// Returns the round at whose end everything seen up to now is published. It is over if that is published already.
    pub(super) fn round_of_now(&self) -> u64 {
        let is_next = if self.is_in_round { self.waits() } else { self.has_later() };
        self.round + u64::from(is_next)
    }

    /// Returns whether this round is over. One that will not begin, because the present one has done its work, is over
    /// as well.
    pub(super) fn is_over(&self, round: u64) -> bool {
        round < self.round || (!self.is_in_round && (round == self.round || !self.has_later()))
    }

    /// Returns the next request to hand over, and whether its answer will be short: the node was small, and none of its
    /// events was missed.
    pub(super) fn next_job(&mut self) -> Option<(Job, bool)> {
        while let Some(job) = self.queue.pop_front() {
            let progress = match &job {
                Job::Look(path) | Job::Read(path) => self.readings.get_mut(path).map(|reading| &mut reading.progress),
                Job::List(path) => self.listings.get_mut(path).map(|listing| &mut listing.progress),
            };
            if let Some(progress) = progress.filter(|progress| **progress == Progress::Queued) {
                *progress = Progress::UnderWay;
                let is_small = !self.compares && self.mirror.is_small(job.path());
                return Some((job, is_small));
            }
        }
        None
    }

    /// Queues a request for a node in the present round, unless there is one.
    fn request(&mut self, path: &Arc<str>, lists: bool, is_known: bool) {
        if self.readings.contains_key(path) {
            return;
        }
        // A known node is looked at first if its data may be the same. So is the root if it may be missing and needs a
        // watch: a read of a missing node leaves none.
        let is_root = *path == self.scope.root;
        let looks = match self.watching {
            Watching::Persistent => self.compares && is_known,
            Watching::OneShot => is_known || is_root,
        };
        let has_no_data = !self.with_data || (is_root && !self.scope.with_root);
        let ask = if looks || has_no_data { Ask::Look } else { Ask::Read };
        self.ask(path, ask, lists);
    }

    fn ask(&mut self, path: &Arc<str>, ask: Ask<T>, lists: bool) {
        let job = match ask {
            Ask::Look | Ask::LookOnly(_) => Job::Look(Arc::clone(path)),
            Ask::Read => Job::Read(Arc::clone(path)),
        };
        if self.watching.serves(&ask) {
            self.later.remove(path);
        }
        self.readings.insert(Arc::clone(path), Reading { ask, progress: Progress::Queued, lists });
        self.queue.push_back(job);
        self.open += 1;
    }

    /// Queues a list in the present round, unless there is one.
    fn list(&mut self, path: Arc<str>) {
        if let Entry::Vacant(vacant) = self.listings.entry(path) {
            self.incomplete.remove(vacant.key());
            self.later_lists.remove(vacant.key());
            self.queue.push_back(Job::List(Arc::clone(vacant.key())));
            vacant.insert(Listing { progress: Progress::Queued, touched: HashSet::new() });
            self.open += 1;
        }
    }

    /// Handles an event of the watch.
    pub(super) fn handle_event(&mut self, event: Event, path: &str) {
        match (event, self.watching) {
            (Event::SessionEnded, _) => {}
            (Event::NodeChildrenChanged, Watching::Persistent) => {}
            (Event::NodeChildrenChanged, Watching::OneShot) => self.list_later(path),
            // One-shot watches may report a deletion after the node was created and read again.
            (_, Watching::OneShot) => self.read_later(path, false),
            (Event::NodeCreated, Watching::Persistent) => {
                self.touch(path);
                self.read_later(path, true);
            }
            // If the root is not kept, only its existence counts.
            (Event::NodeDataChanged, Watching::Persistent) if !self.scope.contains(path) => {}
            (Event::NodeDataChanged, Watching::Persistent) => self.read_later(path, false),
            (Event::NodeDeleted, Watching::Persistent) => {
                self.touch(path);
                self.deleted(path);
            }
        }
    }

    /// Records in the list of the directory, if one is under way, that this child came or went.
    fn touch(&mut self, path: &str) {
        let (dir, name) = split(path);
        if let Some(listing) = self.listings.get_mut(dir).filter(|listing| listing.progress == Progress::UnderWay) {
            listing.touched.insert(name.to_owned());
        }
    }

    fn is_wanted(&self, path: &str) -> bool {
        self.scope.contains(path) || path == &*self.scope.root
    }

    fn read_later(&mut self, path: &str, seen_created: bool) {
        if !self.is_wanted(path) {
            return;
        }
        match self.readings.get_mut(path) {
            // It will be read after the event. If it was created, it is not the node that was to be read before.
            Some(reading) if reading.progress == Progress::Queued && self.watching.serves(&reading.ask) => {
                reading.lists &= !seen_created;
            }
            _ => {
                let later = self.later.entry(path.into()).or_insert(Later { seen_created });
                later.seen_created |= seen_created;
            }
        }
    }

    fn list_later(&mut self, path: &str) {
        let is_queued = self.listings.get(path).is_some_and(|listing| listing.progress == Progress::Queued);
        if !is_queued && self.is_wanted(path) && self.scope.reaches_below(path) {
            self.later_lists.insert(path.into());
        }
    }

    /// Handles that the node is known to be deleted now: no answer under way counts.
    fn deleted(&mut self, path: &str) {
        self.later.remove(path);
        self.later_lists.remove(path);
        self.incomplete.remove(path);
        self.refused.forget(path);
        self.open -= take_back(&mut self.readings, path, |reading| &mut reading.progress);
        self.open -= take_back(&mut self.listings, path, |listing| &mut listing.progress);
        self.remove_subtree(path);
    }

    /// Takes the answer to a [`Job::Look`].
    pub(super) fn looked(&mut self, path: &Arc<str>, stat: Option<Stat>) {
        let Some(reading) = self.answered(path) else { return };
        let Some(stat) = stat else { return self.is_missing(path) };
        let known = self.mirror.get(path).cloned();
        let is_root = *path == self.scope.root;
        let content = match reading.ask {
            Ask::LookOnly(content) => content,
            _ if !self.with_data || (is_root && !self.scope.with_root) => Content::NotRead,
            _ => return self.compared(path, stat, reading.lists, known),
        };
        self.check_children(path, &stat, reading.lists, known.as_ref());
        self.put(path, stat, content);
    }

    fn put(&mut self, path: &Arc<str>, stat: Stat, content: Content<T>) {
        self.refused.record(Job::Read(Arc::clone(path)), Refusal::of(&content));
        self.mirror.put(path, stat, content);
    }

    /// Reads the data, unless it is known.
    fn compared(&mut self, path: &Arc<str>, stat: Stat, lists: bool, known: Option<Node<T>>) {
        match known.filter(|known| known.is_same(&stat) && Refusal::of(known.content()).is_none()) {
            None => self.ask(path, Ask::Read, lists),
            Some(known) => {
                self.check_children(path, &stat, lists, Some(&known));
                self.mirror.followed(path, &stat, Some(&known));
            }
        }
    }

    /// Takes the answer to a [`Job::Read`]: the node, or `None` if there is none.
    pub(super) fn read(&mut self, path: &Arc<str>, node: Option<(Stat, Content<T>)>) {
        let Some(reading) = self.answered(path) else { return };
        let Some((stat, content)) = node else { return self.is_missing(path) };
        let known = self.mirror.get(path).cloned();
        self.check_children(path, &stat, reading.lists, known.as_ref());
        self.put(path, stat, content);
    }

    /// Handles a [`Job::Read`] that the server refused, or whose answer the client could not accept: the content says
    /// why.
    pub(super) fn not_read(&mut self, path: &Arc<str>, content: Content<T>) {
        let Some(reading) = self.answered(path) else { return };
        self.ask(path, Ask::LookOnly(content), reading.lists);
    }

    /// The same for a [`Job::Look`], which servers since 3.9 refuse as well: all that is known is that the node exists.
    pub(super) fn hidden(&mut self, path: &Arc<str>, content: Content<T>) {
        if self.answered(path).is_some() {
            let stat = self.mirror.get(path).map(|known| *known.stat()).unwrap_or_default();
            if self.scope.reaches_below(path) {
                self.refused.set_listable(path, false);
                self.incomplete.insert(Arc::clone(path));
            }
            self.put(path, stat, content);
        }
    }

    /// Takes the answer to a [`Job::List`]: the names and the stat of the directory, or `None` if there is none.
    pub(super) fn listed(&mut self, dir: &Arc<str>, listed: Option<(Vec<String>, Stat)>) {
        let Some(listing) = self.listings.remove(dir) else { return };
        self.open -= 1;
        if listing.progress == Progress::Void {
            return;
        }
        let Some((names, stat)) = listed else { return self.is_missing(dir) };
        self.listable(dir, None);
        let names: HashSet<String> = names.into_iter().collect();
        let is_stray = |child: &&Node<T>| !names.contains(child.name()) && !listing.touched.contains(child.name());
        let strays: Vec<String> =
            self.mirror.nodes().children(dir).filter(is_stray).map(|child| child.path().to_owned()).collect();
        for stray in strays {
            self.remove_subtree(&stray);
        }
        let mut new: Vec<Arc<str>> = Vec::new();
        for name in names.difference(&listing.touched) {
            let path: Arc<str> = join(dir, name).into();
            if self.scope.contains(&path) && self.mirror.get(&path).is_none() {
                new.push(path);
            }
        }
        new.sort_by(|one, other| compare(one, other));
        for path in new {
            // In this round, even if an event calls for it in the next one: it may have been there all the time.
            let lists = self.later.get(&path).is_none_or(|later| !later.seen_created);
            self.request(&path, lists, false);
        }
        let known = self.mirror.get(dir).cloned();
        self.mirror.followed(dir, &stat, known.as_ref());
    }

    /// As [`not_read`](Self::not_read), for a [`Job::List`].
    pub(super) fn not_listed(&mut self, dir: &Arc<str>, why: &Content<T>) {
        if let Some(listing) = self.listings.remove(dir) {
            self.open -= 1;
            if listing.progress != Progress::Void {
                self.listable(dir, Refusal::of(why));
                self.incomplete.insert(Arc::clone(dir));
            }
        }
    }

    /// Records whether a directory can be listed.
    fn listable(&mut self, dir: &Arc<str>, refused: Option<Refusal>) {
        self.refused.set_listable(dir, refused.is_none());
        self.refused.record(Job::List(Arc::clone(dir)), refused);
    }

    /// Ends the request for a node. Returns it, unless its answer does not count.
    fn answered(&mut self, path: &Arc<str>) -> Option<Reading<T>> {
        let reading = self.readings.remove(path)?;
        self.open -= 1;
        (reading.progress != Progress::Void).then_some(reading)
    }

    /// Handles an answer that counts, and says that there is no such node.
    fn is_missing(&mut self, path: &str) {
        self.incomplete.remove(path);
        self.remove_subtree(path);
    }

    /// Lists the children of a node that was read, if they may differ from the known ones.
    fn check_children(&mut self, path: &Arc<str>, stat: &Stat, lists: bool, known: Option<&Node<T>>) {
        if !self.scope.reaches_below(path) {
            return;
        }
        let is_other = known.is_none_or(|known| known.stat().czxid != stat.czxid);
        let differ = is_other || !self.mirror.is_followed(path, stat, known) || self.incomplete.contains(path);
        match self.watching {
            // Each list arms a watch.
            Watching::OneShot if is_other || self.compares => self.list(Arc::clone(path)),
            Watching::OneShot => {}
            Watching::Persistent if !lists || !differ => {}
            Watching::Persistent if stat.num_children == 0 && !self.listings.contains_key(path) => {
                self.incomplete.remove(path);
                self.listable(path, None);
                let strays: Vec<String> =
                    self.mirror.nodes().children(path).map(|child| child.path().to_owned()).collect();
                for stray in strays {
                    self.remove_subtree(&stray);
                }
            }
            Watching::Persistent => self.list(Arc::clone(path)),
        }
    }

    fn remove_subtree(&mut self, top: &str) {
        for path in self.mirror.remove_subtree(top) {
            self.incomplete.remove(&path);
            self.refused.forget(&path);
        }
    }

    /// Ends the round if all its answers have come, and returns what is to be published.
    pub(super) fn finish(&mut self) -> Option<Published<T>> {
        if !self.is_in_round || self.open > 0 {
            return None;
        }
        self.is_in_round = false;
        // A large round is rare, and its space is a third of what the nodes take.
        self.readings.shrink_to(KEPT);
        self.listings.shrink_to(KEPT);
        self.queue.shrink_to(KEPT);
        Some(Published {
            changes: self.mirror.take_changes(&self.scope),
            nodes: self.mirror.nodes().clone(),
            is_settled: !self.waits(),
            is_synced: std::mem::take(&mut self.compares),
        })
    }
}
