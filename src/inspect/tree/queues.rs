//! Which nodes belong to queues.

use std::collections::BTreeSet;

use super::found::{Content, Found, is_at_or_below};
use super::names::{self, CLAIMS, DEAD, PRODUCERS};
use super::value::{Queue, Recipe};
use crate::path::join;

/// Takes the nodes of all queues, and returns each with its path, and the directories that they have beside it.
pub(super) fn queues(root: &str, found: &mut Found) -> (Vec<(String, Recipe)>, Vec<String>) {
    let (mut recipes, mut used) = (Vec::new(), Vec::new());
    let directories = found.directories();
    let beside: BTreeSet<&str> = directories.iter().filter_map(|directory| names::queue_of(directory)).collect();
    for path in beside.into_iter().map(str::to_owned) {
        if let Some(queue) = queue(found, &path) {
            used.extend([CLAIMS, PRODUCERS, DEAD].map(|suffix| format!("{path}{suffix}")));
            let at = if is_at_or_below(&path, root) { path } else { root.to_owned() };
            recipes.push((at, Recipe::Queue(queue)));
        }
    }
    // Those that have nothing beside them.
    for path in &directories {
        if let Some(queue) = queue(found, path) {
            recipes.push((path.clone(), Recipe::Queue(queue)));
        }
    }
    (recipes, used)
}

/// Takes the nodes of a queue. `None` if there are none.
fn queue(found: &mut Found, path: &str) -> Option<Queue> {
    let [claims, producers, dead] = [CLAIMS, PRODUCERS, DEAD].map(|suffix| format!("{path}{suffix}"));
    // Those that were not read are items of a queue that is called as if they were claims.
    let is_claim = |name: &str, content: &Content| names::is_item(name) && *content != Content::Unread;
    let is_producer = |name: &str, content: &Content| names::is_uuid(name) && content.is_ephemeral();
    let claimed = found.leaves(&claims, is_claim);
    let producing = found.leaves(&producers, is_producer);
    let mut dead_letters = found.leaves(&dead, |name, _| names::is_letter(name));
    let items = found.leaves(path, |name, content| names::is_item(name) && *content == Content::Unread);
    if [&claimed, &producing, &dead_letters, &items].iter().all(|names| names.is_empty()) {
        return None;
    }
    for (directory, names) in [(&dead, &dead_letters), (&path.to_owned(), &items)] {
        for name in names {
            found.take(&join(directory, name));
        }
    }
    // By the number that the server has given them.
    dead_letters.sort_by(|one, other| one.rsplit('-').next().cmp(&other.rsplit('-').next()));
    Some(Queue {
        depth: items.len(),
        claims: found.entries(&claims, claimed),
        producers: found.entries(&producers, producing),
        dead_letters,
    })
}
