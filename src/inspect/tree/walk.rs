//! Reads everything at a path and below, level by level.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use futures::stream::{self, StreamExt};

use super::super::line::is_session;
use super::super::read::{AT_ONCE, ATTEMPTS};
use super::super::role::Role;
use super::found::Content;
use super::reading::{Among, Reading};
use crate::client::{Client, Error, ErrorKind};
use crate::layout::kazoo::{ENTRIES, SEMAPHORE_LINE, TAKEN};
use crate::layout::partition_assigner::{ASSIGNMENTS, CONFIG, MEMBERS, OWNED};
use crate::layout::parts::is_hex_uuid;
use crate::layout::queue::{self, CLAIMS, DEAD, PRODUCERS};
use crate::util::path::{join, split};
use crate::util::znode::Stat;

/// What was found at each path, and the paths that may not be read.
pub(super) type Walked = (HashMap<String, Content>, BTreeSet<String>);

/// A node, and the names of its children.
struct Visited {
    stat: Stat,
    data: Vec<u8>,
    names: Vec<String>,
}

struct Walk<'a> {
    root: &'a str,
    found: HashMap<String, Content>,
    denied: BTreeSet<String>,
    /// What the children of a directory may be, where their names do not say it.
    among: HashMap<String, Among>,
    /// The directories beside the root that belong to a queue, or to kazoo's semaphore, at the root.
    beside: HashSet<String>,
    /// How often a directory was read again, because a writer had disappeared from it.
    repeats: HashMap<String, usize>,
    /// The nodes to read next.
    next: BTreeMap<String, Reading>,
}

/// Reads everything at `root` and below.
pub(super) async fn walk(client: &Client, root: &str) -> Result<Walked, Error> {
    let mut walk = Walk::new(root);
    while !walk.next.is_empty() {
        let visits = std::mem::take(&mut walk.next).into_iter().map(|(path, reading)| {
            let client = client.clone();
            async move { (visit(&client, &path, reading).await, path) }
        });
        let mut visits = stream::iter(visits).buffered(AT_ONCE);
        while let Some((visited, path)) = visits.next().await {
            match visited {
                Ok(visited) => walk.enter(path, visited),
                Err(error) => walk.pass_over(error, path)?,
            }
        }
    }
    Ok((walk.found, walk.denied))
}

/// Reads a node, and lists its children.
async fn visit(client: &Client, path: &str, reading: Reading) -> Result<Visited, Error> {
    if reading == Reading::Data {
        let (data, stat) = client.get(path).await?;
        let names = if stat.num_children > 0 { super::super::read::names(client, path).await?.0 } else { Vec::new() };
        return Ok(Visited { stat, data, names });
    }
    let (names, stat) = super::super::read::names(client, path).await?;
    // An ephemeral node may be a member of a group, whose data is shown.
    let data = if is_session(stat.ephemeral_owner) { client.get(path).await?.0 } else { Vec::new() };
    Ok(Visited { stat, data, names })
}

impl<'a> Walk<'a> {
    fn new(root: &'a str) -> Self {
        Walk {
            root,
            found: HashMap::new(),
            denied: BTreeSet::new(),
            among: HashMap::new(),
            beside: HashSet::new(),
            repeats: HashMap::new(),
            next: BTreeMap::from([(root.to_owned(), Reading::Children)]),
        }
    }

    /// Adds a node that was read, and its children to those to read next.
    fn enter(&mut self, path: String, Visited { stat, data, names }: Visited) {
        if path == self.root {
            self.look_beside(&names);
        }
        let siblings: HashSet<&str> = names.iter().map(String::as_str).collect();
        if self.repeats.contains_key(&path) {
            self.forget_below(&path, &siblings);
        }
        let is_assigner = [MEMBERS, ASSIGNMENTS].iter().all(|name| siblings.contains(name));
        for name in &names {
            let child = join(&path, name);
            let is_beside_queue = name.strip_suffix(CLAIMS).is_some_and(|queue| siblings.contains(queue));
            let among = match name.as_str() {
                TAKEN if siblings.contains(ENTRIES) => Some(Among::Claims),
                MEMBERS | ASSIGNMENTS if is_assigner => Some(Among::Records),
                OWNED if is_assigner => Some(Among::Owned),
                _ => is_beside_queue.then_some(Among::Claims),
            };
            self.among.extend(among.map(|among| (child.clone(), among)));
            match Reading::of(name, self.among.get(&path).copied()) {
                Reading::Children if is_assigner && name == CONFIG => drop(self.next.insert(child, Reading::Data)),
                Reading::Nothing => drop(self.found.insert(child, Content::Unread)),
                // Beside the root, only the nodes of the queue or semaphore itself are wanted.
                Reading::Children if self.beside.contains(&path) => {}
                reading => drop(self.next.insert(child, reading)),
            }
        }
        self.found.insert(path, Content::Read { stat, data });
    }

    /// Adds the directories that a queue or kazoo's semaphore at the root has beside it. An empty queue looks like any
    /// empty node.
    fn look_beside(&mut self, names: &[String]) {
        if self.root == "/" {
            return;
        }
        let mut suffixes = Vec::new();
        if names.is_empty() || names.iter().any(|name| queue::is_item_of_any_kind(name)) {
            suffixes.extend([CLAIMS, PRODUCERS, DEAD]);
            self.among.insert(format!("{}{CLAIMS}", self.root), Among::Claims);
        }
        if names.iter().any(|name| is_hex_uuid(name)) {
            suffixes.push(SEMAPHORE_LINE);
        }
        self.beside = suffixes.into_iter().map(|suffix| format!("{}{suffix}", self.root)).collect();
        self.next.extend(self.beside.iter().map(|path| (path.clone(), Reading::Children)));
    }

    /// Continues without a node that may not be read, or that has disappeared since it was found.
    fn pass_over(&mut self, error: Error, path: String) -> Result<(), Error> {
        match error.kind() {
            ErrorKind::NoAuth => {
                self.denied.insert(path.clone());
                self.found.insert(path, Content::Denied);
            }
            ErrorKind::NoNode if path != self.root => {
                if self.found.remove(&path).is_some() {
                    self.forget_below(&path, &HashSet::new());
                }
                let (directory, name) = split(&path);
                if Role::of(name) == Some(Role::Writer) {
                    self.repeat(directory);
                }
            }
            _ => return Err(error),
        }
        Ok(())
    }

    /// Reads a directory again because a writer has disappeared since it was listed. The writer may be a reader now,
    /// whose node was not listed.
    fn repeat(&mut self, directory: &str) {
        let repeats = self.repeats.entry(directory.to_owned()).or_default();
        // Several writers may have disappeared since the same list.
        if *repeats + 1 >= ATTEMPTS || self.next.contains_key(directory) {
            return;
        }
        *repeats += 1;
        self.next.insert(directory.to_owned(), Reading::Children);
    }

    /// Forgets what was found below a directory, except for these children and what is below them.
    fn forget_below(&mut self, directory: &str, names: &HashSet<&str>) {
        let inside = join(directory, "");
        let stays = |path: &str| {
            let name = path.strip_prefix(&inside).and_then(|below| below.split('/').next());
            name.is_none_or(|name| name.is_empty() || names.contains(name))
        };
        self.found.retain(|path, _| stays(path));
        self.denied.retain(|path| stays(path));
    }
}
