//! What operators do by hand: they delete nodes, overwrite them, and change the settings and the set.

use zookeeper_recipes::CreateMode;
use zookeeper_recipes::partition_assigner::Partitions;

use super::ledger::{BASE, Ledger};
use crate::world::World;

/// The node that names the partitions.
const LIST: &str = "/list";

/// The nodes of members that are deleted in a seed. An operator who deletes both what shows that a member is present or
/// what is assigned to it, and the nodes of its partitions, makes the partitions appear free: no seed does that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deletes {
    /// Of members and their records.
    Records,
    /// Of members, as a record also shows what is reserved.
    Members,
    /// Of partitions.
    Owned,
}

/// What operators do in a seed.
pub(super) struct Hands {
    /// How many partitions there are, in the end at least.
    pub(super) partitions: u32,
    is_listed: bool,
    deletes: Deletes,
    rebalances: u64,
}

impl Hands {
    pub(super) fn new(world: &mut World, is_reserved: bool) -> Self {
        let partitions = world.random.u32(1..=12);
        let deletes = match world.random.u8(..3) {
            0 => Deletes::Owned,
            _ if is_reserved => Deletes::Members,
            _ => Deletes::Records,
        };
        let is_listed = world.random.u8(..4) == 0;
        world.trace.note(format_args!("{partitions} partitions, in a node: {is_listed}; by hand: {deletes:?}"));
        let hands = Hands { partitions, is_listed, deletes, rebalances: 0 };
        hands.put(world, LIST, &format!("0..{partitions}"));
        hands
    }

    /// Returns where members find the set.
    pub(super) fn source(&self) -> Partitions {
        if self.is_listed { Partitions::node(LIST) } else { Partitions::from(0..self.partitions) }
    }

    /// Returns whether the node names the partitions.
    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }

    fn put(&self, world: &World, path: &str, data: &str) {
        if world.server.set_data_by_hand(path, data).is_err() {
            // Its directory may be missing as well.
            let _ = world.server.create_by_hand(path, data, CreateMode::Persistent);
        }
        world.trace.note(format_args!("{path} is now {data:?}"));
    }

    /// Changes the set.
    pub(super) fn change_the_set(&self, world: &mut World, ledger: &Ledger) {
        ledger.unreserve();
        let number = self.partitions;
        match world.random.u8(..6) {
            0 => self.put(world, LIST, "a..b"),
            1 => {
                world.sweep(LIST);
                world.trace.note("the set is deleted");
            }
            2 => self.put(world, LIST, &format!("# all\n{}..{}\n\n0", number, number + 3)),
            3 => self.put(world, LIST, &format!("0..{}", number.div_ceil(2))),
            4 => self.put(world, LIST, &format!("0..{number}\nextra")),
            _ => self.put(world, LIST, &format!("0..{number}")),
        }
    }

    /// Pins, drains and rebalances, or writes what is not valid.
    pub(super) fn configure(&mut self, world: &mut World, ledger: &Ledger, ids: &[&str]) {
        ledger.unreserve();
        let mut an_id = || world.random.choice(ids.iter()).copied().unwrap_or("none").to_owned();
        let (one, other) = (an_id(), an_id());
        let partition = world.random.u32(..self.partitions);
        let config = match world.random.u8(..6) {
            0 => "{".to_owned(),
            1 => format!(r#"{{"pins":{{"{partition}":"{one}"}},"rebalances":{}}}"#, self.rebalances),
            2 => format!(r#"{{"drained":["{one}","{other}"],"rebalances":{}}}"#, self.rebalances),
            3 => format!(
                r#"{{"pins":{{"{partition}":"{one}"}},"drained":["{other}"],"rebalances":{},"later":1}}"#,
                self.rebalances
            ),
            4 => {
                self.rebalances += 1;
                format!(r#"{{"rebalances":{}}}"#, self.rebalances)
            }
            _ => String::new(),
        };
        self.put(world, &format!("{BASE}/config"), &config);
    }

    /// Ends everything that operators have set.
    pub(super) fn leave_nothing(&self, world: &World, ledger: &Ledger) {
        ledger.unreserve();
        self.put(world, LIST, &format!("0..{}", self.partitions));
        self.put(world, &format!("{BASE}/config"), &format!(r#"{{"rebalances":{}}}"#, self.rebalances));
    }

    /// Deletes or overwrites a node.
    pub(super) fn meddle(&self, world: &mut World) {
        let directory = match (world.random.u8(..8), self.deletes) {
            (0, _) => return self.delete(world, &format!("{BASE}/epoch")),
            (1, _) => return self.delete(world, &format!("{BASE}/config")),
            (2..=3, _) => "leader",
            (_, Deletes::Owned) => "owned",
            (_, Deletes::Members) => "members",
            (4..=5, Deletes::Records) => "members",
            (_, Deletes::Records) => "assignments",
        };
        let names = world.server.children(&format!("{BASE}/{directory}"));
        let Some(name) = world.random.choice(names.iter()) else { return };
        let path = format!("{BASE}/{directory}/{name}");
        if directory == "assignments" && world.random.bool() {
            let junk = *world.random.choice(&["", "junk", "{}", r#"{"member":"0123456789abcdef"}"#]).unwrap_or(&"");
            // It may have been deleted.
            let _ = world.server.set_data_by_hand(&path, junk);
            return world.hit(format_args!("{path} is overwritten by hand with {junk:?}"));
        }
        self.delete(world, &path);
    }

    fn delete(&self, world: &mut World, path: &str) {
        if world.server.delete_by_hand(path).is_ok() {
            world.hit(format_args!("{path} is deleted by hand"));
        }
    }
}
