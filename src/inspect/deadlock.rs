//! Sessions that wait for each other in a circle.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt;
use std::time::SystemTime;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;

use super::line::{Line, Owner, Place, time_of};
use super::role::Role;

/// A circle of sessions: each waits for a node of the next one, and the last one waits for a node of the first.
///
/// The servers know a process only by its session. If each process does one thing at a time, a circle does not end
/// unless a wait times out or a session ends. If many tasks share a client, one of them may soon release what it holds.
/// Then the next call no longer finds the circle: see [`since_ms`](Self::since_ms).
///
/// Candidates of leader latches do not count: leading one election while waiting in another is normal. The nodes of a
/// leader selector and of kazoo's elections cannot be distinguished from those of locks, so look at paths that have
/// only locks.
#[doc(alias = "cycle")]
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Deadlock {
    /// Who waits, and for whom: each session waits for the session of the next entry.
    pub waits: Vec<Wait>,
    /// When the youngest of these nodes was created, in milliseconds since 1970, by the clocks of the servers. All of
    /// them have existed since then.
    pub since_ms: i64,
}

/// One link of the circle.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Wait {
    /// The session that waits.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::text::session"))]
    pub session_id: i64,
    /// The node of its place in line.
    pub node: String,
    /// A node before it in the same line, which excludes it.
    pub waits_for: String,
    /// The session that owns `waits_for`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::text::session"))]
    pub owner_id: i64,
}

/// A place, with the session that owns it.
#[derive(Debug, Clone, Copy)]
struct Owned<'a> {
    place: &'a Place,
    owner: &'a Owner,
    /// Whether its session waits for the places before it that exclude it.
    waits: bool,
}

/// A place that waits, and one before it that excludes it.
type Edge<'a> = (Owned<'a>, Owned<'a>);

/// The places of all lines, in order.
struct Places<'a> {
    lines: Vec<Vec<Owned<'a>>>,
    /// Where each session waits: the line, and the place in it.
    waits: HashMap<i64, Vec<(usize, usize)>>,
}

impl Deadlock {
    /// Returns the circles in these lines: one for each group of sessions that wait for each other, so that no session
    /// is in two of them. After one circle has been broken, others of its group may remain.
    ///
    /// A session that waits behind a place of its own waits only for itself there, because its tasks take turns.
    pub fn detect<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Vec<Deadlock> {
        let places = Places::new(lines);
        groups(&places).iter().map(|group| Deadlock::new(&circle(&places, group))).collect()
    }

    fn new(circle: &[Edge<'_>]) -> Deadlock {
        let since_ms = circle.iter().flat_map(|(one, other)| [one.owner.created_ms, other.owner.created_ms]).max();
        Deadlock { waits: circle.iter().map(Wait::new).collect(), since_ms: since_ms.unwrap_or_default() }
    }

    /// Returns since when all of these nodes have existed, by the clocks of the servers.
    pub fn since(&self) -> SystemTime {
        time_of(self.since_ms)
    }

    /// Returns the paths of the nodes in the circle. The circle exists as long as all of them exist.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.waits.iter().flat_map(|wait| [wait.node.as_str(), wait.waits_for.as_str()])
    }
}

impl Wait {
    fn new((waiting, before): &Edge<'_>) -> Wait {
        Wait {
            session_id: waiting.owner.session_id,
            node: waiting.place.path.clone(),
            waits_for: before.place.path.clone(),
            owner_id: before.owner.session_id,
        }
    }
}

impl<'a> Places<'a> {
    fn new(lines: impl IntoIterator<Item = &'a Line>) -> Self {
        let mut places = Places { lines: Vec::new(), waits: HashMap::new() };
        for (number, line) in lines.into_iter().enumerate() {
            let owned = owned(line);
            for (at, one) in owned.iter().enumerate().filter(|(_, one)| one.waits) {
                places.waits.entry(one.owner.session_id).or_default().push((number, at));
            }
            places.lines.push(owned);
        }
        places
    }

    /// Returns the places that a session waits for, or only those of them that hold.
    fn before(&self, session: i64, only_holders: bool) -> impl Iterator<Item = Edge<'a>> {
        let own = self.waits.get(&session).into_iter().flatten().copied();
        own.flat_map(move |(number, at)| {
            let (before, from) = self.lines[number].split_at(at);
            let waiting = from[0];
            let before = before.iter().filter(move |before| {
                before.place.role.excludes(waiting.place.role)
                    && before.owner.session_id != session
                    && (before.place.holds() || !only_holders)
            });
            before.map(move |before| (waiting, *before))
        })
    }
}

/// Returns the places of a line, except orphans, which wait for nothing, places whose session is not known, and
/// candidates.
fn owned(line: &Line) -> Vec<Owned<'_>> {
    // The sessions with a place that excludes others of its role. Later places of these sessions wait for that place.
    let mut alone = HashSet::new();
    let mut places = Vec::new();
    for place in line.places.iter().filter(|place| place.role != Role::Candidate) {
        let Some(owner) = place.owner.as_ref().filter(|owner| !owner.is_orphan()) else { continue };
        let waits = !place.holds() && !alone.contains(&owner.session_id);
        if place.role.excludes(place.role) {
            alone.insert(owner.session_id);
        }
        places.push(Owned { place, owner, waits });
    }
    places
}

/// Returns the groups of sessions that all wait for each other, directly or not.
///
/// A place waits for all places before it that exclude it, because the nearest one need not be the one that holds. An
/// edge for each pair of places would make the graph of a long line too large. So there is a gate behind each place for
/// each role that it excludes, with one edge to the session of the place and one to the gate before.
fn groups(places: &Places<'_>) -> Vec<BTreeSet<i64>> {
    let (mut graph, mut sessions) = (DiGraph::new(), BTreeMap::new());
    for line in &places.lines {
        let mut gates = HashMap::new();
        for Owned { place, owner, waits } in line {
            let id = owner.session_id;
            let session = *sessions.entry(id).or_insert_with(|| graph.add_node(Some(id)));
            if let Some(&gate) = gates.get(&place.role).filter(|_| *waits) {
                graph.add_edge(session, gate, ());
            }
            for role in Role::ALL.into_iter().filter(|&role| place.role.excludes(role)) {
                let gate = graph.add_node(None);
                graph.add_edge(gate, session, ());
                if let Some(before) = gates.insert(role, gate) {
                    graph.add_edge(gate, before, ());
                }
            }
        }
    }
    let components = kosaraju_scc(&graph);
    let sessions_of = |component: &Vec<_>| component.iter().filter_map(|&vertex| graph[vertex]).collect();
    let mut groups: Vec<BTreeSet<i64>> = components.iter().map(sessions_of).collect();
    groups.retain(|group| group.len() > 1);
    groups.sort_unstable();
    groups
}

/// Returns a circle of a group. Prefers one in which each session waits for a holder, because a session that holds
/// nothing may merely be in between.
fn circle<'a>(places: &Places<'a>, group: &BTreeSet<i64>) -> Vec<Edge<'a>> {
    let among_holders = group.iter().map(|&start| circle_from(places, group, start, true));
    let among_all = group.iter().map(|&start| circle_from(places, group, start, false));
    among_holders.chain(among_all).find(|circle| !circle.is_empty()).unwrap_or_default()
}

/// Returns a shortest circle through this session; empty if there is none.
fn circle_from<'a>(places: &Places<'a>, group: &BTreeSet<i64>, start: i64, only_holders: bool) -> Vec<Edge<'a>> {
    // The sessions that the first one waits for, directly or not, each with the edge that led to it first.
    let mut reached: BTreeMap<i64, Edge<'a>> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while !reached.contains_key(&start)
        && let Some(session) = next.pop_front()
    {
        for edge in places.before(session, only_holders) {
            let owner = edge.1.owner.session_id;
            if group.contains(&owner)
                && let Entry::Vacant(place) = reached.entry(owner)
            {
                place.insert(edge);
                next.push_back(owner);
            }
        }
    }
    let mut circle = Vec::new();
    let mut session = start;
    while let Some(edge) = reached.get(&session).filter(|_| reached.contains_key(&start)) {
        circle.push(*edge);
        session = edge.0.owner.session_id;
        if session == start {
            break;
        }
    }
    circle.reverse();
    circle
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sessions wait in a circle", self.waits.len())?;
        self.waits.iter().try_for_each(|wait| write!(f, "\n  {wait}"))
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait { session_id, node, waits_for, owner_id } = self;
        write!(f, "session {session_id:#x} waits with {node} for {waits_for} of session {owner_id:#x}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::line::tests::line;
    use super::*;

    fn sessions(deadlock: &Deadlock) -> Vec<i64> {
        deadlock.waits.iter().map(|wait| wait.session_id).collect()
    }

    #[test]
    fn three_sessions_with_three_locks() {
        let lines = [
            line("/a", &[("lock-1", 1), ("lock-2", 3)]),
            line("/b", &[("lock-1", 2), ("lock-2", 1)]),
            line("/c", &[("lock-1", 3), ("lock-2", 2)]),
        ];
        let found = Deadlock::detect(&lines);
        assert_eq!(found.iter().map(sessions).collect::<Vec<_>>(), [[1, 2, 3]]);
        let text = "3 sessions wait in a circle\n  \
            session 0x1 waits with /b/lock-2 for /b/lock-1 of session 0x2\n  \
            session 0x2 waits with /c/lock-2 for /c/lock-1 of session 0x3\n  \
            session 0x3 waits with /a/lock-2 for /a/lock-1 of session 0x1";
        assert_eq!(found[0].to_string(), text);
        assert_eq!(found[0].since(), SystemTime::UNIX_EPOCH + Duration::from_secs(2));
        assert_eq!(found[0].nodes().count(), 6);
        assert_eq!(Deadlock::detect(&lines[..2]), [], "without the third lock there is no circle");
    }

    #[test]
    fn a_waiter_between_does_not_hide_the_circle() {
        let lines = [
            line("/a", &[("lock-1", 7), ("lock-2", 1), ("lock-3", 8)]),
            line("/b", &[("lock-1", 8), ("lock-2", 2), ("lock-3", 7)]),
        ];
        let found = Deadlock::detect(&lines);
        assert_eq!(found.iter().map(sessions).collect::<Vec<_>>(), [[7, 8]], "ending one in between would not help");
    }

    #[test]
    fn readers_do_not_wait_for_readers() {
        let readers = [line("/a", &[("__READ__1", 1), ("__READ__2", 2)]), line("/b", &[("lock-1", 2), ("lock-2", 1)])];
        assert_eq!(Deadlock::detect(&readers), []);
        let a_writer_between = [
            line("/a", &[("__READ__1", 1), ("__WRIT__2", 3), ("__READ__3", 2)]),
            line("/b", &[("lock-1", 2), ("lock-2", 1)]),
        ];
        let found = Deadlock::detect(&a_writer_between);
        assert_eq!(
            found.iter().map(sessions).collect::<Vec<_>>(),
            [[1, 2, 3]],
            "the writer waits for the first reader"
        );
    }

    #[test]
    fn a_session_that_waits_for_itself_or_for_an_orphan_is_in_no_circle() {
        assert_eq!(Deadlock::detect(&[line("/a", &[("lock-1", 1), ("lock-2", 1)])]), []);
        let orphan = [line("/a", &[("lock-1", 0), ("lock-2", 1)]), line("/b", &[("lock-1", 1), ("lock-2", 0)])];
        assert_eq!(Deadlock::detect(&orphan), []);
    }

    /// Each session leads one election and waits in the other.
    #[test]
    fn candidates_of_several_elections_are_in_no_circle() {
        let lines = [line("/a", &[("latch-1", 1), ("latch-2", 2)]), line("/b", &[("latch-1", 2), ("latch-2", 1)])];
        assert_eq!(Deadlock::detect(&lines), []);
    }

    #[test]
    fn tasks_that_take_turns_behind_their_own_session_are_in_no_circle() {
        let lines = [line("/a", &[("lock-1", 1), ("lock-2", 2), ("lock-3", 1), ("lock-4", 2)])];
        assert_eq!(Deadlock::detect(&lines), []);
        let writers = [line("/a", &[("__WRIT__1", 1), ("__WRIT__2", 2), ("__READ__3", 1)])];
        assert_eq!(Deadlock::detect(&writers), []);
    }

    #[test]
    fn readers_that_want_to_write_too_wait_for_each_other() {
        let upgrades = [line("/a", &[("__READ__1", 1), ("__READ__2", 2), ("__WRIT__3", 1), ("__WRIT__4", 2)])];
        assert_eq!(Deadlock::detect(&upgrades).iter().map(sessions).collect::<Vec<_>>(), [[1, 2]]);
        let behind_a_writer = [line("/a", &[("__READ__1", 1), ("__WRIT__2", 2), ("__READ__3", 1)])];
        assert_eq!(Deadlock::detect(&behind_a_writer).iter().map(sessions).collect::<Vec<_>>(), [[1, 2]]);
    }

    #[test]
    fn two_circles_and_one_that_waits_for_them() {
        let lines = [
            line("/a", &[("lock-1", 1), ("lock-2", 2), ("lock-3", 7)]),
            line("/b", &[("lock-1", 2), ("lock-2", 1)]),
            line("/c", &[("lock-1", 3), ("lock-2", 4)]),
            line("/d", &[("lock-1", 4), ("lock-2", 3)]),
        ];
        assert_eq!(Deadlock::detect(&lines).iter().map(sessions).collect::<Vec<_>>(), [[1, 2], [3, 4]]);
    }

    /// All sessions in between are in one group with the two that wait for each other.
    #[test]
    fn in_long_lines_the_circle_is_short() {
        let names: Vec<_> = (0..5_000).map(|number| (format!("lock-{number}"), 100 + number)).collect();
        let mut places: Vec<_> = names.iter().map(|(name, session)| (name.as_str(), *session)).collect();
        places[0].1 = 10_001;
        places[4_999].1 = 10_002;
        let lines = [line("/a", &places), line("/b", &[("lock-1", 10_002), ("lock-2", 10_001)])];
        assert_eq!(Deadlock::detect(&lines).iter().map(sessions).collect::<Vec<_>>(), [[10_001, 10_002]]);
        assert_eq!(Deadlock::detect(&lines[..1]), []);
    }

    /// A line of up to four places, each with a role and a session; 0 means no session.
    fn places() -> impl Strategy<Value = Vec<(usize, i64)>> {
        prop::collection::vec((0..5_usize, 0..6_i64), 0..5)
    }

    const BASES: [&str; 5] = ["latch-", "lock-", "__READ__", "__WRIT__", "__lock__"];

    proptest! {
        /// Compares with the transitive closure of who waits for whom.
        #[test]
        fn a_circle_is_found_if_and_only_if_there_is_one(all in prop::collection::vec(places(), 0..5)) {
            let lines: Vec<Line> = all.iter().enumerate().map(|(at, places)| {
                let names: Vec<_> =
                    places.iter().enumerate().map(|(at, (role, _))| format!("{}{at:010}", BASES[*role])).collect();
                let names: Vec<_> = names.iter().map(String::as_str).zip(places.iter().map(|place| place.1)).collect();
                line(&format!("/{at}"), &names)
            }).collect();
            let mut reaches = [[false; 6]; 6];
            for places in lines.iter().map(|line| &line.places) {
                for (at, place) in places.iter().enumerate() {
                    let (Some(one), false) = (place.session_id(), place.role == Role::Candidate) else { continue };
                    let locks = places[..at].iter().filter(|before| before.role != Role::Candidate);
                    let mut own = locks.filter(|before| before.session_id() == Some(one));
                    let is_behind_itself = own.any(|before| before.role.excludes(before.role));
                    if place.holds() || is_behind_itself {
                        continue;
                    }
                    for before in places[..at].iter().filter(|before| before.role.excludes(place.role)) {
                        if let Some(other) = before.session_id().filter(|&other| other != one) {
                            reaches[one as usize][other as usize] = true;
                        }
                    }
                }
            }
            for (via, from, to) in (0..216).map(|i| (i / 36, i / 6 % 6, i % 6)) {
                reaches[from][to] |= reaches[from][via] && reaches[via][to];
            }
            let found = Deadlock::detect(&lines);
            prop_assert_eq!(found.is_empty(), (0..6).all(|session| !reaches[session][session]));
            let mut seen = Vec::new();
            for deadlock in &found {
                prop_assert!(deadlock.waits.len() >= 2);
                for (wait, next) in deadlock.waits.iter().zip(deadlock.waits.iter().cycle().skip(1)) {
                    prop_assert_eq!(wait.owner_id, next.session_id);
                    prop_assert!(!seen.contains(&wait.session_id));
                    seen.push(wait.session_id);
                    let line = lines.iter().find(|line| wait.node.starts_with(&format!("{}/", line.path)));
                    let line = line.expect("its line");
                    let at = |path: &str| line.places.iter().position(|place| place.path == path).expect("a place");
                    let (node, before) = (at(&wait.node), at(&wait.waits_for));
                    prop_assert!(before < node && line.places[before].role.excludes(line.places[node].role));
                }
            }
        }
    }
}
