//! Reads lines from the servers.

use std::collections::HashSet;

use futures::stream::{self, StreamExt};

use super::Lines;
use super::line::{Child, Line, is_session};
use super::role::Role;
use crate::client::{Client, Error, ErrorKind};
use crate::layout::queue;
use crate::util::path::join;
use crate::util::znode::Stat;

/// How many requests are under way at a time.
pub(super) const AT_ONCE: usize = 64;

/// How often a directory is read at most while a writer disappears each time.
pub(super) const ATTEMPTS: usize = 5;

/// A directory as it was listed.
struct Directory {
    path: String,
    stat: Stat,
    /// The names of its children that have a role.
    named: Vec<String>,
    /// The names of the other children.
    others: Vec<String>,
}

/// What was found under a name that was listed.
enum Read {
    Child(Child),
    /// Not a contender, whatever its name: it has children, or may have some.
    Directory(String),
    Vanished(String),
}

/// What was read of a directory.
#[derive(Default)]
struct Contents {
    children: Vec<Child>,
    /// The names of children that have children.
    directories: Vec<String>,
    /// A writer has disappeared since the list was read. It may be a reader now, whose node was not listed.
    is_outdated: bool,
}

/// Reads one line.
pub(super) async fn line(client: &Client, path: &str) -> Result<Line, Error> {
    let first = read_one(client, list(client, path).await?).await?;
    Ok(settled(client, first).await?.0)
}

/// Reads all lines at `root` and below.
pub(super) async fn lines(client: &Client, root: &str) -> Result<Lines, Error> {
    let mut all = Lines { lines: Vec::new(), denied: Vec::new() };
    let mut level = vec![root.to_owned()];
    while !level.is_empty() {
        let listed = walk(client, root, std::mem::take(&mut level), &mut all.denied).await?;
        for found in read(client, listed).await? {
            let path = found.0.path.clone();
            match settled(client, found).await {
                Ok((line, directories)) => {
                    level.extend(directories);
                    let denied = line.places.iter().filter(|place| place.owner.is_none());
                    all.denied.extend(denied.map(|place| place.path.clone()));
                    all.lines.extend((!line.places.is_empty()).then_some(line));
                }
                Err(error) => pass_over(error, path, root, &mut all.denied)?,
            }
        }
    }
    all.lines.sort_by(|one, other| one.path.cmp(&other.path));
    all.denied.sort_unstable();
    Ok(all)
}

/// Returns the nodes that no longer exist. Each node is given with the transaction that created it.
pub(super) async fn gone(client: &Client, nodes: Vec<(String, i64)>) -> Result<HashSet<String>, Error> {
    let looks = nodes.into_iter().map(|(path, created)| {
        let client = client.clone();
        async move { Ok((client.exists(&path).await?.is_none_or(|stat| stat.czxid != created), path)) }
    });
    let looks: Vec<_> = stream::iter(looks).buffered(AT_ONCE).collect().await;
    let looks = looks.into_iter().collect::<Result<Vec<_>, Error>>()?;
    Ok(looks.into_iter().filter_map(|(is_gone, path)| is_gone.then_some(path)).collect())
}

/// Lists everything at these paths and below, level by level. Returns the directories that have a line.
async fn walk(
    client: &Client,
    root: &str,
    mut level: Vec<String>,
    denied: &mut Vec<String>,
) -> Result<Vec<Directory>, Error> {
    let mut found = Vec::new();
    while !level.is_empty() {
        let lists = std::mem::take(&mut level).into_iter().map(|path| {
            let client = client.clone();
            async move { (list(&client, &path).await, path) }
        });
        let mut lists = stream::iter(lists).buffered(AT_ONCE);
        while let Some((listed, path)) = lists.next().await {
            match listed {
                Ok(directory) => {
                    level.extend(directory.below());
                    found.extend((!directory.named.is_empty()).then_some(directory));
                }
                Err(error) => pass_over(error, path, root, denied)?,
            }
        }
    }
    Ok(found)
}

/// Continues without a directory that may not be listed, or that has disappeared since it was found.
fn pass_over(error: Error, path: String, root: &str, denied: &mut Vec<String>) -> Result<(), Error> {
    match error.kind() {
        ErrorKind::NoAuth => denied.push(path),
        ErrorKind::NoNode if path != root => {}
        _ => return Err(error),
    }
    Ok(())
}

/// Lists the names of the children of a directory.
pub(super) async fn names(client: &Client, path: &str) -> Result<(Vec<String>, Stat), Error> {
    client.core().read("list the children of", path, |session, path| session.list_children(path)).await
}

async fn list(client: &Client, path: &str) -> Result<Directory, Error> {
    let (names, stat) = names(client, path).await?;
    let (named, others) = names.into_iter().partition(|name| Role::of(name).is_some());
    Ok(Directory { path: path.to_owned(), stat, named, others })
}

impl Directory {
    /// Returns the children that may have children themselves, except the nodes with a role, which are checked when
    /// they are read, and the items of a queue, of which there may be very many.
    fn below(&self) -> impl Iterator<Item = String> {
        self.others.iter().filter(|name| !queue::is_item(name)).map(|name| join(&self.path, name))
    }
}

/// Reads the nodes that have a role in each of these directories.
async fn read(client: &Client, listed: Vec<Directory>) -> Result<Vec<(Directory, Contents)>, Error> {
    let names: Vec<_> = listed
        .iter()
        .enumerate()
        .flat_map(|(at, directory)| {
            directory.named.iter().map(move |name| (at, join(&directory.path, name), name.clone()))
        })
        .collect();
    let reads = names.into_iter().map(|(at, path, name)| {
        let client = client.clone();
        async move { (at, child(&client, &path, name).await) }
    });
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    let mut found: Vec<_> = listed.into_iter().map(|directory| (directory, Contents::default())).collect();
    while let Some((at, read)) = reads.next().await {
        found[at].1.add(read?);
    }
    Ok(found)
}

async fn read_one(client: &Client, listed: Directory) -> Result<(Directory, Contents), Error> {
    let mut found = read(client, vec![listed]).await?;
    Ok(found.swap_remove(0))
}

impl Contents {
    fn add(&mut self, read: Read) {
        match read {
            Read::Child(child) => self.children.push(child),
            Read::Directory(name) => self.directories.push(name),
            Read::Vanished(name) => self.is_outdated |= Role::of(&name) == Some(Role::Writer),
        }
    }
}

fn is_contender(name: &str, stat: &Stat) -> bool {
    stat.num_children == 0 && Role::of_node(name, is_session(stat.ephemeral_owner)).is_some()
}

async fn child(client: &Client, path: &str, name: String) -> Result<Read, Error> {
    match client.get(path).await {
        Ok((_, stat)) if !is_contender(&name, &stat) => Ok(Read::Directory(name)),
        Ok(node) => Ok(Read::Child(Child { name, node: Some(node) })),
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(Read::Vanished(name)),
        Err(error) if error.kind() == ErrorKind::NoAuth => Ok(Read::Child(Child { name, node: None })),
        Err(error) => Err(error),
    }
}

/// Builds a line from what was read, and reads again while the contents are outdated. Also returns the paths of its
/// children that have children.
async fn settled(client: &Client, first: (Directory, Contents)) -> Result<(Line, Vec<String>), Error> {
    let (mut directory, mut contents) = first;
    for _ in 1..ATTEMPTS {
        if !contents.is_outdated {
            break;
        }
        let listed = list(client, &directory.path).await?;
        (directory, contents) = read_one(client, listed).await?;
    }
    let Directory { path, stat, mut others, .. } = directory;
    let below = contents.directories.iter().map(|name| join(&path, name)).collect();
    others.extend(contents.directories);
    Ok((Line::new(&path, &stat, contents.children, others), below))
}
