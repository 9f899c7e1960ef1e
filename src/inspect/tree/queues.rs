//! Decides which nodes belong to queues.

use std::collections::BTreeSet;

use super::found::{Content, Found, is_at_or_below};
use super::value::{Item, Queue, Recipe};
use crate::layout::kazoo::{ENTRIES, TAKEN};
use crate::layout::parts::is_uuid;
use crate::layout::queue::{self, CLAIMS, DEAD, PRODUCERS};
use crate::util::path::join;

/// Stands for a directory that a queue does not have. No node has this path.
const NONE: &str = "";

/// Takes the nodes of all queues. Returns each queue with its path, and the directories that the queues have beside
/// them.
pub(super) fn queues(root: &str, found: &mut Found) -> (Vec<(String, Recipe)>, Vec<String>) {
    let (mut recipes, mut used) = (Vec::new(), Vec::new());
    let directories = found.directories();
    let beside: BTreeSet<&str> = directories.iter().filter_map(|directory| queue::queue_of(directory)).collect();
    for path in beside.into_iter().map(str::to_owned) {
        let beside = [CLAIMS, PRODUCERS, DEAD].map(|suffix| format!("{path}{suffix}"));
        if let Some(queue) = queue(found, &path, beside.each_ref().map(String::as_str)) {
            used.extend(beside);
            found.keep(&path);
            let at = if is_at_or_below(&path, root) { path } else { root.to_owned() };
            recipes.push((at, Recipe::Queue(queue)));
        }
    }
    for path in &directories {
        let [entries, taken] = [ENTRIES, TAKEN].map(|name| join(path, name));
        if found.has(&entries)
            && found.has(&taken)
            && let Some(queue) = queue(found, &entries, [&taken, NONE, NONE])
        {
            used.extend([entries, taken]);
            recipes.push((path.clone(), Recipe::Queue(queue)));
        }
    }
    // Queues that have nothing beside them.
    for path in &directories {
        if let Some(queue) = queue(found, path, [NONE; 3]) {
            recipes.push((path.clone(), Recipe::Queue(queue)));
        }
    }
    (recipes, used)
}

/// Takes the nodes of a queue in these directories. `None` if there are none.
fn queue(found: &mut Found, items_in: &str, [claims, producers, dead]: [&str; 3]) -> Option<Queue> {
    // Nodes that were not read are items of a queue whose path looks like a directory of claims.
    let is_claim = |name: &str, content: &Content| queue::is_item_of_any_kind(name) && *content != Content::Unread;
    let is_producer = |name: &str, content: &Content| is_uuid(name) && content.is_ephemeral();
    let claimed = found.leaves(claims, is_claim);
    let producing = found.leaves(producers, is_producer);
    let mut dead_letters = found.leaves(dead, |name, _| queue::is_letter(name));
    let items = found.leaves(items_in, |name, content| queue::is_item_of_any_kind(name) && *content == Content::Unread);
    if [&claimed, &producing, &dead_letters, &items].iter().all(|names| names.is_empty()) {
        return None;
    }
    for (directory, names) in [(dead, &dead_letters), (items_in, &items)] {
        for name in names {
            found.take(&join(directory, name));
        }
    }
    let oldest = items.iter().min_by_key(|name| queue::age_of(name)).map(|name| Item {
        path: join(items_in, name),
        delayed_until_ms: queue::delayed_until_ms(name),
        stat: None,
    });
    // Sorts by the number that the server has appended.
    dead_letters.sort_by(|one, other| one.rsplit('-').next().cmp(&other.rsplit('-').next()));
    Some(Queue {
        depth: items.len(),
        oldest,
        claims: found.entries(claims, claimed),
        producers: found.entries(producers, producing),
        dead_letters,
    })
}
