//! The members of an assigner as a table, and below it what moves, what no member has, and what is pinned.

use std::collections::BTreeMap;

use zookeeper_recipes::partition_assigner::{AssignerState, MemberInfo, PartitionInfo};

use crate::output::{shown, table};

/// The least count of successive numbers that is shown as a range.
const RANGE: u64 = 3;

/// Returns the whole state as text.
pub fn text(state: &AssignerState) -> String {
    let mut lines = members(state);
    lines.extend(moves(state));
    let unowned = |partition: &&PartitionInfo| {
        let PartitionInfo { owner, moving_to, reserved_for, .. } = partition;
        owner.is_none() && moving_to.is_none() && reserved_for.is_none()
    };
    lines.extend(named("unowned", state.partitions.iter().filter(unowned)));
    let pins = by(state, |partition| partition.pinned.as_deref());
    lines.extend(pins.into_iter().map(|(member, names)| format!("pinned to {}: {names}", shown(member))));
    if state.leader.is_none() && !state.members.is_empty() {
        lines.push("no member leads".to_owned());
    }
    lines
        .extend(state.unreadable.iter().map(|node| format!("unreadable: {}: {}", shown(&node.node), shown(&node.why))));
    lines.join("\n")
}

/// Returns the lines of the table.
fn members(state: &AssignerState) -> Vec<String> {
    let held = by(state, |partition| partition.owner.as_deref());
    let reserved = by(state, |partition| partition.reserved_for.as_deref());
    let mut rows = vec![["MEMBER", "LEADS", "STATE", "WEIGHT", "CAPACITY", "HOLDS"].map(str::to_owned).to_vec()];
    let mut labels = vec!["LABELS".to_owned()];
    let mut partitions = vec!["PARTITIONS".to_owned()];
    for member in &state.members {
        let leads = if state.leader.as_ref() == Some(&member.id) { "yes" } else { "" };
        let holds = state.partitions.iter().filter(|partition| partition.owner.as_ref() == Some(&member.id)).count();
        rows.push(vec![
            shown(&member.id),
            leads.to_owned(),
            presence(member),
            or_none(member.weight),
            or_none(member.capacity),
            holds.to_string(),
        ]);
        labels.push(or_none(Some(labels_of(member)).filter(|labels| !labels.is_empty())));
        let reserved = reserved.get(member.id.as_str()).map(|names| format!("(reserved: {names})"));
        let names: Vec<String> = held.get(member.id.as_str()).cloned().into_iter().chain(reserved).collect();
        partitions.push(or_none(Some(names.join(" ")).filter(|names| !names.is_empty())));
    }
    let width = labels.iter().map(|labels| labels.chars().count()).max().unwrap_or_default();
    // The last columns are texts of any length, which are easier to read from the left.
    let of_members = table(&rows);
    let texts = labels.iter().zip(&partitions);
    of_members.lines().zip(texts).map(|(line, (labels, names))| format!("{line}  {labels:<width$}  {names}")).collect()
}

fn presence(member: &MemberInfo) -> String {
    let presence = match (member.is_present, member.is_returning) {
        (false, _) => "away",
        (true, true) => "returning",
        (true, false) => "present",
    };
    format!("{presence}{}", if member.is_drained { ", drained" } else { "" })
}

fn labels_of(member: &MemberInfo) -> String {
    let labels = member.labels.iter().map(|(key, value)| shown(&format!("{key}={value}")));
    labels.collect::<Vec<_>>().join(",")
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The partitions that move between the same members.
struct Move<'a> {
    from: &'a str,
    /// `None` if it is not decided yet.
    to: Option<&'a str>,
    names: Vec<&'a str>,
}

/// Returns a line for the partitions that move between the same members, or that a member has to hand over.
fn moves(state: &AssignerState) -> Vec<String> {
    let mut moves: Vec<Move<'_>> = Vec::new();
    for partition in state.partitions.iter().filter(|partition| partition.moving_to.is_some() || partition.is_revoked) {
        let (from, to) = (partition.owner.as_deref().unwrap_or("unowned"), partition.moving_to.as_deref());
        match moves.iter_mut().find(|other| (other.from, other.to) == (from, to)) {
            Some(other) => other.names.push(&partition.name),
            None => moves.push(Move { from, to, names: vec![&partition.name] }),
        }
    }
    let line = |Move { from, to, names }: Move<'_>| {
        let (from, names) = (shown(from), ranges(&names));
        match to {
            Some(to) => format!("moving: {names}: {from} -> {}", shown(to)),
            None => format!("moving: {names}: {from} has to hand over"),
        }
    };
    moves.into_iter().map(line).collect()
}

fn named<'a>(what: &str, partitions: impl Iterator<Item = &'a PartitionInfo>) -> Option<String> {
    let names: Vec<&str> = partitions.map(|partition| partition.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("{what}: {}", ranges(&names)))
}

/// Returns the names of the partitions of each member, by what `of` returns.
fn by<'a>(state: &'a AssignerState, of: impl Fn(&'a PartitionInfo) -> Option<&'a str>) -> BTreeMap<&'a str, String> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for partition in &state.partitions {
        if let Some(member) = of(partition) {
            names.entry(member).or_default().push(&partition.name);
        }
    }
    names.into_iter().map(|(member, names)| (member, ranges(&names))).collect()
}

/// Returns the names on a line, with successive numbers as ranges: `0-9,12,eu-west`. Numbers are in their order.
fn ranges(names: &[&str]) -> String {
    let mut parts = Vec::new();
    let mut rest = names;
    while let [first, ..] = rest {
        let mut next = number(first);
        let length = rest.iter().take_while(|name| {
            let is_next = next.is_some() && number(name) == next;
            next = next.and_then(|number| number.checked_add(1));
            is_next
        });
        let length = length.count();
        let (run, after) = rest.split_at(length.max(1));
        match run {
            [first, .., last] if run.len() as u64 >= RANGE => parts.push(format!("{first}-{last}")),
            _ => parts.extend(run.iter().map(|name| shown(name))),
        }
        rest = after;
    }
    parts.join(",")
}

/// Returns the number that a name is, written without leading zeros.
fn number(name: &str) -> Option<u64> {
    name.parse::<u64>().ok().filter(|number| number.to_string() == name)
}

#[cfg(test)]
pub mod tests {
    use zookeeper_recipes::partition_assigner::state;
    use zookeeper_recipes::testing::TestingServer;
    use zookeeper_recipes::{Client, CreateMode};

    use super::*;

    /// An assigner with two members that are present, one that is away, and one that is drained.
    pub async fn assigner() -> (TestingServer, Client) {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let owned = ["0", "1", "2", "12"].map(|name| format!("owned/{name}~000000000000000a.1"));
        let mut nodes = vec![
            ("", "", CreateMode::Persistent),
            ("leader", "", CreateMode::Persistent),
            ("leader/_c_x-latch-0000000000", "w-1", CreateMode::Persistent),
            ("members", "", CreateMode::Persistent),
            (
                "members/w-1~000000000000000a",
                r#"{"weight":2,"labels":{"zone":"a","disk":"ssd"}}"#,
                CreateMode::Ephemeral,
            ),
            ("members/w-2~000000000000000b", r#"{"weight":1,"capacity":8}"#, CreateMode::Ephemeral),
            ("assignments", "", CreateMode::Persistent),
            (
                "assignments/w-1",
                r#"{"member":"000000000000000a","assigned":["0","1"],"held":["0","1","2","12"]}"#,
                CreateMode::Persistent,
            ),
            ("assignments/w-2", r#"{"member":"000000000000000b","assigned":["12","13"]}"#, CreateMode::Persistent),
            ("assignments/w-9", r#"{"member":"000000000000000c","assigned":["5","6","7"]}"#, CreateMode::Persistent),
            ("config", r#"{"pins":{"12":"w-9","20":"w-9"},"drained":["w-3"]}"#, CreateMode::Persistent),
            ("owned", "", CreateMode::Persistent),
        ];
        nodes.extend(owned.iter().map(|node| (&**node, "", CreateMode::Ephemeral)));
        for (node, data, mode) in nodes {
            let path = format!("/jobs/{node}");
            client.create(path.trim_end_matches('/'), data, mode).await.expect("it is created");
        }
        (server, client)
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_has_a_row_a_member_and_lines_for_what_is_not_settled() {
        let (server, client) = assigner().await;
        let expected = "\
            MEMBER  LEADS          STATE  WEIGHT  CAPACITY  HOLDS  LABELS           PARTITIONS\n\
            w-1       yes        present       2         -      4  disk=ssd,zone=a  0-2,12\n\
            w-2                  present       1         8      0  -                -\n\
            w-3            away, drained       -         -      0  -                -\n\
            w-9                     away       -         -      0  -                (reserved: 5-7)\n\
            moving: 2: w-1 has to hand over\n\
            moving: 12: w-1 -> w-2\n\
            moving: 13: unowned -> w-2\n\
            unowned: 20\n\
            pinned to w-9: 12,20";
        assert_eq!(text(&state(&client, "/jobs").await.expect("the state")), expected);
        server.delete_by_hand("/jobs/leader/_c_x-latch-0000000000").expect("deleted");
        server.set_data_by_hand("/jobs/config", "\u{1b}x").expect("set");
        let changed = text(&state(&client, "/jobs").await.expect("the state"));
        let end = "\nno member leads\nunreadable: config: \"\\u{1b}x\": expected value at line 1 column 1";
        assert!(changed.ends_with(end), "{changed}");
    }

    #[test]
    fn successive_numbers_are_ranges() {
        for (names, expected) in [
            (&[][..], ""),
            (&["7"], "7"),
            (&["7", "8"], "7,8"),
            (&["0", "1", "2", "12"], "0-2,12"),
            (&["0", "2", "3", "4", "5", "7", "8"], "0,2-5,7,8"),
            (&["01", "02", "03"], "01,02,03"),
            (&["1", "2", "3", "eu-west", "\u{1b}"], "1-3,eu-west,\\u{1b}"),
            (&["18446744073709551614", "18446744073709551615"], "18446744073709551614,18446744073709551615"),
        ] {
            assert_eq!(ranges(names), expected, "{names:?}");
        }
    }
}
