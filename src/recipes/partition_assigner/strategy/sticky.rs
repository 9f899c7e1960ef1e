//! Divides partitions that may go to all of some members: by quotas, and so that as few as possible move.

use std::collections::VecDeque;

use super::quota::{Claim, quotas};
use super::task::Task;

/// Returns the member of each partition, where each may go to all members.
pub(super) fn assign(task: &Task<'_>) -> Vec<Option<usize>> {
    let mut result = task.pinned();
    let all: Vec<usize> = (0..task.members.len()).collect();
    divide(task, &task.free().collect::<Vec<_>>(), &all, &mut result);
    result
}

/// Divides the partitions `free` among the members `among`, which are sorted, and writes who gets which to `result`.
pub(super) fn divide(task: &Task<'_>, free: &[usize], among: &[usize], result: &mut [Option<usize>]) {
    let mut found = find(task, free, among);
    let quotas = quotas_of(task, free.len(), among, &found.holdings);
    let (mut rooms, mut given_up) = (VecDeque::new(), Vec::new());
    for ((&member, holding), quota) in among.iter().zip(&mut found.holdings).zip(quotas) {
        let quota = quota - task.pins[member];
        if holding.len() > quota {
            task.sort_as_kept_by(member, holding);
            given_up.extend(holding.drain(quota..));
        }
        if holding.len() < quota {
            rooms.push_back((member, quota - holding.len()));
        }
        holding.iter().for_each(|&partition| result[partition] = Some(member));
    }
    given_up.sort_unstable();
    // If there is not room for all, the last get no member.
    for partition in given_up.into_iter().chain(found.elsewhere).chain(found.orphaned) {
        result[partition] = next_room(&mut rooms);
    }
}

/// Where the partitions are before they are divided.
#[derive(Debug)]
struct Found {
    /// For each member, those that it has.
    holdings: Vec<Vec<usize>>,
    /// Those that a member has to which they may not go.
    elsewhere: Vec<usize>,
    /// Those that no member has.
    orphaned: Vec<usize>,
}

fn find(task: &Task<'_>, free: &[usize], among: &[usize]) -> Found {
    let mut found = Found { holdings: vec![Vec::new(); among.len()], elsewhere: Vec::new(), orphaned: Vec::new() };
    for &partition in free {
        let place = task.partitions[partition].owner.map(|owner| among.binary_search(&owner));
        match place {
            Some(Ok(place)) => found.holdings[place].push(partition),
            Some(Err(_)) => found.elsewhere.push(partition),
            None => found.orphaned.push(partition),
        }
    }
    found
}

/// Returns how many partitions each member gets, with those that are pinned to it.
fn quotas_of(task: &Task<'_>, free: usize, among: &[usize], holdings: &[Vec<usize>]) -> Vec<usize> {
    let claim = |(&member, holding): (&usize, &Vec<usize>)| {
        let pins = task.pins[member];
        let weight = task.members[member].weight;
        Claim { weight, min: pins, max: task.limit(member), held: pins + holding.len() }
    };
    let claims: Vec<_> = among.iter().zip(holdings).map(claim).collect();
    let pinned: usize = claims.iter().map(|claim| claim.min).sum();
    quotas(free + pinned, &claims)
}

/// Takes a place of the first member, which then goes to the end of the queue: neighbours go to different members.
fn next_room(rooms: &mut VecDeque<(usize, usize)>) -> Option<usize> {
    let (member, places) = rooms.pop_front()?;
    if places > 1 {
        rooms.push_back((member, places - 1));
    }
    Some(member)
}
