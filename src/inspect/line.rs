//! A line of contenders as values: their order, and who waits for whom.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::{Duration, SystemTime};

use super::role::{Role, bases};
use crate::contender::order::Listing;
use crate::layout::line::{Number, REVOKED, number_of};
use crate::layout::rank::{self, Rank};
use crate::util::path::{join, quoted_bytes, split};
use crate::util::znode::Stat;

/// The owner that the servers report for a container.
const CONTAINER: i64 = i64::MIN;

/// The first byte of the owner that the servers report for a node with a time to live. In the id of a
/// session this byte is the number of a server, and no server that supports such nodes may have this number.
const WITH_TTL: i64 = -1;

/// The largest number that determines a place. At the next number the counter of the directory sticks.
const LAST_NUMBER: u32 = i32::MAX as u32 - 1;

/// The contenders in one directory, in order: of an election, a lock, a read-write lock, or `locks` of a semaphore.
///
/// This is not a snapshot: each node is read by a separate request, and a node that has disappeared meanwhile is left
/// out.
///
/// In the line of a semaphore the first contender is the next to get permits. Those that have permits are not in the
/// line: each node in `leases`, beside `locks`, is a permit that is taken, or that the first contender asks for. The
/// first in the line of kazoo's semaphore also asks for a lease.
#[doc(alias = "queue")]
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Line {
    /// The path of the directory.
    pub path: String,
    /// The contenders, in order.
    pub places: Vec<Place>,
    /// The names of children that do not belong to the line, sorted.
    pub others: Vec<String>,
    /// How many nodes can be created in the directory before its counter is exhausted. At 0, nodes are ordered by the
    /// transactions that created them, and those that may not be read come last. If a directory is deleted and created
    /// again, its counter starts at 0.
    pub sequence_numbers_left: u32,
}

/// One contender.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Place {
    /// The path of its node.
    pub path: String,
    /// What it wants.
    pub role: Role,
    /// The number at the end of the node's name; `None` if the counter of the directory was exhausted.
    pub number: Option<u32>,
    /// The node that it waits for: the nearest one before its own that excludes it; `None` if it holds.
    ///
    /// It "holds" according to the line: the owner itself may not have noticed yet, or its session may be about to end.
    /// The nodes do not show whether `lock-N` and kazoo's `__lock__N` count each other: see [`Role::KazooLock`].
    pub waits_for: Option<String>,
    /// The priority of a leader latch, if it has one: a participant with a lower number is to lead before it.
    pub priority: Option<u32>,
    /// Its priority gives it no precedence: over any other, if it had resigned by itself or because an operator asked,
    /// and had not led again when it entered; or over the one that a transfer had chosen and those before it, while
    /// they keep their places. It means nothing for one that leads.
    pub gives_way: bool,
    /// What only the node itself contains; `None` if this client may not read it.
    pub owner: Option<Owner>,
}

/// Who has a place, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Owner {
    /// The session that owns the node, as the servers report it: 0 if the node is persistent, and other values that are
    /// not sessions if it is a container or has a time to live. No recipe enters a line with such a node: see
    /// [`is_orphan`](Self::is_orphan).
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::text::session"))]
    pub session_id: i64,
    /// The transaction that created the node. It is the fencing token of a holder, except for a reader that was a
    /// writer before: such a reader keeps the token of its first node.
    pub fencing_token: i64,
    /// When the node was created, in milliseconds since 1970, by the clock of the server that led then.
    pub created_ms: i64,
    /// The data of the node: the id of a participant, or what the application wrote. Serialized as text.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::text::lossy"))]
    pub data: Vec<u8>,
}

/// A child of a directory, as it was read.
#[derive(Debug, Clone)]
pub(super) struct Child {
    pub(super) name: String,
    /// Its data and stat; `None` without permission.
    pub(super) node: Option<(Vec<u8>, Stat)>,
}

impl Line {
    /// Returns the line in a directory with these children: those with a role, and the names of the others.
    pub(super) fn new(path: &str, directory: &Stat, children: Vec<Child>, mut others: Vec<String>) -> Self {
        others.sort_unstable();
        let mut by_name: HashMap<_, _> = children.into_iter().map(|child| (child.name.clone(), child)).collect();
        let names: Vec<String> = by_name.keys().cloned().collect();
        let queue = Listing::of(names, &bases()).resolve(|name| by_name.get(name).map(Child::czxid));
        let ordered = queue.names().iter().filter_map(|name| by_name.remove(name));
        let mut places: Vec<Place> = ordered.filter_map(|child| Place::new(path, child)).collect();
        writers_first(&mut places);
        relate(&mut places);
        Line { path: path.to_owned(), places, others, sequence_numbers_left: numbers_left(directory) }
    }

    /// Removes the places of these nodes.
    pub(super) fn remove(&mut self, gone: &HashSet<String>) {
        self.places.retain(|place| !gone.contains(&place.path));
        relate(&mut self.places);
    }

    /// Returns the contenders that hold, according to the line.
    pub fn holders(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| place.holds())
    }

    /// Returns the contenders that wait, in order.
    pub fn waiting(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(|place| !place.holds())
    }
}

/// Moves a writer before the reader with the same number. When a writer becomes a reader, some versions of Curator give
/// the reader the writer's number, and both nodes exist for a while.
fn writers_first(places: &mut [Place]) {
    for at in 1..places.len() {
        let (one, other) = (&places[at - 1], &places[at]);
        let have_one_number = one.number.is_some() && one.number == other.number;
        if have_one_number && one.role == Role::Reader && other.role == Role::Writer {
            places.swap(at - 1, at);
        }
    }
}

/// Sets what each place has to do with the others.
fn relate(places: &mut [Place]) {
    set_waits(places);
    let names: Vec<String> = places.iter().map(|place| place.name().to_owned()).collect();
    for (place, name) in places.iter_mut().zip(&names) {
        place.gives_way = rank::gives_way(name, &names);
    }
}

/// Sets, for each place, the nearest place before it that excludes it.
fn set_waits(places: &mut [Place]) {
    let mut nearest: HashMap<Role, usize> = HashMap::new();
    let mut writing = HashSet::new();
    for at in 0..places.len() {
        let (role, session) = (places[at].role, places[at].session_id());
        let excluding = nearest.iter().filter(|&(before, _)| before.excludes(role));
        let before = excluding.map(|(_, &before)| before).max();
        // In Curator a thread that holds the write lock may also acquire the read lock.
        let is_own = role == Role::Reader && session.is_some_and(|session| writing.contains(&session));
        places[at].waits_for = before.filter(|_| !is_own).map(|before| places[before].path.clone());
        if role == Role::Writer && places[at].holds() {
            writing.extend(session);
        }
        nearest.insert(role, at);
    }
}

/// Returns how many numbers are left in a directory. A server numbers a node by the creations in its directory so far.
/// It reports twice that number, minus the number of children, as `cversion`, in 32 bits.
fn numbers_left(directory: &Stat) -> u32 {
    let created = directory.cversion.wrapping_add(directory.num_children).cast_unsigned() / 2;
    (LAST_NUMBER + 1).saturating_sub(created)
}

impl Place {
    /// Returns a place that holds and gives way to none, until `relate` has seen the others.
    fn new(dir: &str, child: Child) -> Option<Place> {
        let number = match number_of(&child.name, &bases())? {
            Number::Ordered(number) => Some(number),
            Number::Exhausted => None,
        };
        Some(Place {
            path: join(dir, &child.name),
            role: Role::of(&child.name)?,
            number,
            waits_for: None,
            priority: Rank::of(&child.name).map(|rank| rank.priority),
            gives_way: false,
            owner: child.node.map(|(data, stat)| Owner::new(data, &stat)),
        })
    }

    /// Returns whether no place before it excludes it.
    pub fn holds(&self) -> bool {
        self.waits_for.is_none()
    }

    /// Returns the session that owns the node; `None` if it is not known, or if there is none.
    pub fn session_id(&self) -> Option<i64> {
        self.owner.as_ref().filter(|owner| !owner.is_orphan()).map(|owner| owner.session_id)
    }

    /// Returns the last element of its path.
    pub fn name(&self) -> &str {
        split(&self.path).1
    }
}

impl Owner {
    pub(super) fn new(data: Vec<u8>, stat: &Stat) -> Self {
        Owner { session_id: stat.ephemeral_owner, fencing_token: stat.czxid, created_ms: stat.ctime, data }
    }

    /// Returns whether it was asked to release its place: Curator's `Revoker` and `mutex::revoke` replace its data with
    /// a mark.
    #[doc(alias = "revoke")]
    pub fn is_revoked(&self) -> bool {
        self.data == REVOKED
    }

    /// Returns whether no session owns the node, so that the end of a session does not delete it. If it is a contender,
    /// it blocks the line until it is deleted by hand; look at its data first. A node with children is not a contender,
    /// and is in [`Line::others`].
    pub fn is_orphan(&self) -> bool {
        !is_session(self.session_id)
    }

    /// Returns when the node was created, by the clock of the server that led then.
    pub fn created(&self) -> SystemTime {
        time_of(self.created_ms)
    }
}

/// Returns whether the owner of a node, as the servers report it, is a session. A persistent node, a container and a
/// node with a time to live have no session.
pub(super) fn is_session(owner: i64) -> bool {
    !matches!(owner, 0 | CONTAINER) && owner >> 56 != WITH_TTL
}

/// Converts milliseconds since the beginning of 1970.
pub(super) fn time_of(ms: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms.try_into().unwrap_or_default())
}

impl Child {
    /// Returns the transaction that created the node; if the node may not be read, the largest number, so that it comes
    /// last among the nodes that are ordered by this.
    fn czxid(&self) -> i64 {
        self.node.as_ref().map_or(i64::MAX, |(_, stat)| stat.czxid)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hold, wait) = (self.holders().count(), self.waiting().count());
        write!(f, "{}: {hold} hold, {wait} wait, {} numbers left", self.path, self.sequence_numbers_left)?;
        self.places.iter().try_for_each(|place| write!(f, "\n  {place}"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, role) = (self.name(), self.role);
        match &self.waits_for {
            None => write!(f, "{name} holds ({role})")?,
            Some(before) => write!(f, "{name} waits for {} ({role})", split(before).1)?,
        }
        if let Some(priority) = self.priority {
            write!(f, ", priority {priority}")?;
            f.write_str(if self.gives_way && !self.holds() { ", gives way" } else { "" })?;
        }
        match &self.owner {
            Some(owner) => write!(f, ", {owner}"),
            None => f.write_str(", not readable"),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner { session_id, fencing_token, data, .. } = self;
        if self.is_orphan() {
            f.write_str("no session")?;
        } else {
            write!(f, "session {session_id:#x}")?;
        }
        write!(f, ", token {fencing_token}")?;
        if self.is_revoked() {
            f.write_str(", asked to release")
        } else if data.is_empty() {
            Ok(())
        } else {
            write!(f, ", {}", quoted_bytes(data))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in crate::inspect) fn child(name: &str, session: i64, czxid: i64) -> Child {
        let stat = Stat { ephemeral_owner: session, czxid, ctime: czxid * 1000, ..Stat::default() };
        Child { name: name.to_owned(), node: Some((Vec::new(), stat)) }
    }

    pub(in crate::inspect) fn line(path: &str, names: &[(&str, i64)]) -> Line {
        let children = names.iter().zip(1..).map(|(&(name, session), czxid)| child(name, session, czxid)).collect();
        Line::new(path, &Stat::default(), children, Vec::new())
    }

    #[test]
    fn what_owns_a_node_and_is_a_session() {
        let with_ttl = 0xff00_0000_0000_2710_u64.cast_signed();
        assert_eq!([0, i64::MIN, with_ttl].map(is_session), [false; 3]);
        assert_eq!([0x100_0034_7827_0005, 1, 0xfe00_0000_0000_0001_u64.cast_signed()].map(is_session), [true; 3]);
    }

    fn waits(line: &Line) -> Vec<(&str, Option<&str>)> {
        let before = |place: &'_ Place| place.waits_for.as_deref().map(|path| split(path).1.to_owned());
        let before: Vec<_> = line.places.iter().map(before).collect();
        let find = |name: &str| line.places.iter().map(Place::name).find(|other| *other == name);
        line.places.iter().map(Place::name).zip(before.iter().map(|name| name.as_deref().and_then(find))).collect()
    }

    #[test]
    fn the_priorities_of_a_latch_are_shown_and_a_leader_does_not_give_way() {
        let names = [
            ("a-gives-way-0000000007-latch-0000000001", 1),
            ("b-gives-way-0000000000-latch-0000000002", 2),
            ("c-latch-0000000003", 3),
            ("d-gives-way-0000000000-to-0000000001-latch-0000000004", 4),
        ];
        let mut line = line("/l", &names);
        let ranks: Vec<_> = line.places.iter().map(|place| (place.priority, place.gives_way)).collect();
        assert_eq!(ranks, [(Some(7), true), (Some(0), true), (None, false), (Some(0), true)]);
        let texts: Vec<String> = line.places.iter().map(Place::to_string).collect();
        assert!(texts[0].contains(", priority 7, session"), "{texts:?}");
        assert!(texts[1].contains(", priority 0, gives way, session"), "{texts:?}");
        assert!(!texts[2].contains("priority"), "{texts:?}");
        line.remove(&HashSet::from(["/l/a-gives-way-0000000007-latch-0000000001".to_owned()]));
        assert!(line.places[0].gives_way && !line.places[2].gives_way, "the one that was chosen has left");
    }

    #[test]
    fn a_mutex_is_held_by_the_first() {
        let line = line("/l", &[("b-lock-0000000002", 2), ("a-lock-0000000007", 3), ("c-lock-0000000001", 1)]);
        let expected = [
            ("c-lock-0000000001", None),
            ("b-lock-0000000002", Some("c-lock-0000000001")),
            ("a-lock-0000000007", Some("b-lock-0000000002")),
        ];
        assert_eq!(waits(&line), expected);
        assert_eq!(line.holders().filter_map(Place::session_id).collect::<Vec<_>>(), [1]);
        assert_eq!(line.waiting().count(), 2);
        assert_eq!(line.places[1].number, Some(2));
        assert_eq!(line.places[1].path, "/l/b-lock-0000000002");
    }

    #[test]
    fn readers_hold_together_and_wait_for_the_nearest_writer() {
        let names =
            ["__READ__0", "__rlock__1", "__WRIT__2", "__READ__3", "__lock__4", "__READ__5"].map(|name| (name, 1));
        let line = line("/l", &names);
        let expected = [
            ("__READ__0", None),
            ("__rlock__1", None),
            ("__WRIT__2", Some("__rlock__1")),
            ("__READ__3", Some("__WRIT__2")),
            ("__lock__4", Some("__READ__3")),
            ("__READ__5", Some("__lock__4")),
        ];
        assert_eq!(waits(&line), expected);
    }

    #[test]
    fn lines_that_do_not_know_each_other_share_a_directory() {
        let line = line("/l", &[("latch-1", 1), ("lock-2", 2), ("__WRIT__3", 3), ("latch-4", 4)]);
        let expected = [("latch-1", None), ("lock-2", None), ("__WRIT__3", None), ("latch-4", Some("latch-1"))];
        assert_eq!(waits(&line), expected);
    }

    #[test]
    fn beyond_the_end_of_the_counter_the_transactions_tell_the_order() {
        let children = vec![child("lock-2147483647", 1, 9), child("lock--2147483648", 2, 8), child("lock-3", 3, 10)];
        let line = Line::new("/l", &Stat::default(), children, Vec::new());
        let order: Vec<_> = line.places.iter().map(|place| (place.name(), place.number)).collect();
        assert_eq!(order, [("lock-3", Some(3)), ("lock--2147483648", None), ("lock-2147483647", None)]);
    }

    #[test]
    fn what_a_place_tells() {
        let with_data =
            |child: Child, data: &[u8]| Child { node: child.node.map(|(_, s)| (data.to_vec(), s)), ..child };
        let children = vec![
            with_data(child("lock-1", 0x10, 5), REVOKED),
            child("lock-2", 0, 6),
            with_data(child("lock-3", 0x30, 7), b"host-3"),
            Child { node: None, ..child("lock-4", 0x40, 8) },
        ];
        let line = Line::new("/l", &Stat::default(), children, vec!["z".into(), "a".into()]);
        assert_eq!(line.others, ["a", "z"]);
        let owners: Vec<_> = line.places.iter().filter_map(|place| place.owner.as_ref()).collect();
        assert_eq!(owners.iter().map(|owner| owner.is_revoked()).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(owners.iter().map(|owner| owner.is_orphan()).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(owners[0].created(), SystemTime::UNIX_EPOCH + Duration::from_secs(5));
        let sessions: Vec<_> = line.places.iter().map(Place::session_id).collect();
        assert_eq!(sessions, [Some(0x10), None, Some(0x30), None]);
        let text = "/l: 1 hold, 3 wait, 2147483647 numbers left\n  \
            lock-1 holds (lock), session 0x10, token 5, asked to release\n  \
            lock-2 waits for lock-1 (lock), no session, token 6\n  \
            lock-3 waits for lock-2 (lock), session 0x30, token 7, \"host-3\"\n  \
            lock-4 waits for lock-3 (lock), not readable";
        assert_eq!(line.to_string(), text);
    }

    #[test]
    fn the_numbers_that_are_left() {
        // Counts as a server does: see `numbers_left`.
        let directory = |created: u32, children: i32| {
            let cversion = created.wrapping_mul(2).wrapping_sub(children.cast_unsigned()).cast_signed();
            Stat { cversion, num_children: children, ..Stat::default() }
        };
        assert_eq!(numbers_left(&directory(0, 0)), 2_147_483_647);
        assert_eq!(numbers_left(&directory(5, 3)), 2_147_483_642);
        assert_eq!(numbers_left(&directory(1 << 30, 7)), (1 << 30) - 1);
        assert_eq!(numbers_left(&directory(2_147_483_646, 1)), 1);
        assert_eq!(numbers_left(&directory(2_147_483_647, 1)), 0);
    }

    /// In Curator a thread that holds the write lock may also acquire the read lock, and becomes a reader that way.
    #[test]
    fn a_reader_holds_behind_its_own_writer() {
        let line = line("/l", &[("__WRIT__1", 1), ("__WRIT__2", 2), ("__READ__3", 1), ("__READ__4", 3)]);
        let holders: Vec<_> = line.holders().map(Place::name).collect();
        assert_eq!(holders, ["__WRIT__1", "__READ__3"]);
        let mut line =
            super::tests::line("/l", &[("a__READ__0000000007", 1), ("b__WRIT__0000000007", 1), ("__WRIT__8", 2)]);
        let holders: Vec<_> = line.holders().map(Place::name).collect();
        assert_eq!(holders, ["b__WRIT__0000000007", "a__READ__0000000007"]);
        line.remove(&["/l/b__WRIT__0000000007", "/l/a__READ__0000000007"].map(str::to_owned).into());
        assert_eq!(line.holders().map(Place::name).collect::<Vec<_>>(), ["__WRIT__8"]);
    }

    #[test]
    fn a_container_is_owned_by_no_session() {
        let line = line("/l", &[("lock-1", i64::MIN), ("lock-2", i64::MIN + 1)]);
        let orphans: Vec<_> = line.places.iter().map(|place| place.session_id().is_none()).collect();
        assert_eq!(orphans, [true, false]);
    }

    proptest! {
        #[test]
        fn of_any_line_some_hold_and_no_two_that_exclude_each_other_do(
            names in prop::collection::btree_set(
                "[ab](latch-|lock-|__READ__|__rlock__|__WRIT__|__lock__)(-?[0-9]{1,2}|214748364[5-9])", 0..20,
            )
        ) {
            let children: Vec<_> = names.iter().zip(1..).map(|(name, zxid)| child(name, zxid, zxid)).collect();
            let line = Line::new("/l", &Stat::default(), children, Vec::new());
            prop_assert_eq!(line.places.len(), names.len());
            prop_assert_eq!(line.holders().count() == 0, names.is_empty());
            let holders: Vec<_> = line.holders().collect();
            for (at, one) in holders.iter().enumerate() {
                prop_assert!(holders[..at].iter().all(|other| !other.role.excludes(one.role)));
            }
            for (at, place) in line.places.iter().enumerate() {
                let before = line.places[..at].iter().rfind(|before| before.role.excludes(place.role));
                prop_assert_eq!(place.waits_for.as_ref(), before.map(|before| &before.path));
            }
        }
    }
}
