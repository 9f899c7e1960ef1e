//! A tree as text with branches and colours.

use std::time::{Duration, SystemTime};

use anstyle::{AnsiColor, Style};
use zookeeper_recipes::inspect::{
    DoubleBarrier, Entry, Instance, Item, KazooSetPartitioner, Line, Node, Owner, PartitionAssigner, Place, Queue,
    Recipe, Role, Semaphore,
};
use zookeeper_recipes::inspect::{Service, ServiceType, ThroughputBalancer, Tree, UnreadableInstance};

use crate::commands::addresses::{Addresses, from};
use crate::commands::content;
use crate::output::shown;

const NAME: Style = Style::new().bold();
const KIND: Style = AnsiColor::Cyan.on_default();
const HOLDS: Style = AnsiColor::Green.on_default();
const WAITS: Style = AnsiColor::Yellow.on_default();
const WRONG: Style = AnsiColor::Red.on_default();
const FAINT: Style = Style::new().dimmed();

/// How many levels are drawn. Deeper nodes show their full paths.
const MOST_LEVELS: usize = 64;

/// A line of the text, without its branches.
struct Row {
    depth: usize,
    text: String,
}

/// Returns the tree as it is shown at this time, with the addresses of sessions if they were asked for.
pub fn text(tree: &Tree, addresses: Option<&Addresses>, now: SystemTime) -> String {
    let mut rows = Rows { rows: Vec::new(), depth: 0, now, addresses };
    tree.nodes.iter().for_each(|node| rows.node(node));
    let denied = tree.denied.iter().map(|path| painted(WRONG, format_args!("not readable: {}", shown(path))));
    with_branches(&rows.rows).into_iter().chain(denied).collect::<Vec<_>>().join("\n")
}

/// Draws the branches, from the end: whether a branch goes on depends on what comes after it.
fn with_branches(rows: &[Row]) -> Vec<String> {
    // The levels at which something comes after the current row.
    let mut goes_on: Vec<bool> = Vec::new();
    let mut lines = Vec::new();
    for Row { depth, text } in rows.iter().rev() {
        goes_on.resize(depth + 1, false);
        let mut line = String::new();
        for (level, goes_on) in goes_on.iter().enumerate().skip(1) {
            line.push_str(match (level == *depth, goes_on) {
                (true, true) => "├─ ",
                (true, false) => "└─ ",
                (false, true) => "│  ",
                (false, false) => "   ",
            });
        }
        goes_on[*depth] = true;
        lines.push(line + text);
    }
    lines.reverse();
    lines
}

/// The rows so far.
struct Rows<'a> {
    rows: Vec<Row>,
    /// The level of the contents of the current node.
    depth: usize,
    now: SystemTime,
    addresses: Option<&'a Addresses>,
}

impl Rows<'_> {
    fn node(&mut self, node: &Node) {
        let depth = node.depth.min(MOST_LEVELS);
        let is_named = depth > 0 && node.depth <= MOST_LEVELS;
        let name = painted(NAME, shown(if is_named { node.name() } else { &node.path }));
        let kinds: Vec<_> = node.recipes.iter().map(|recipe| painted(KIND, kind(recipe))).collect();
        let what = match (&node.stat, kinds.is_empty()) {
            (_, false) => kinds.join(", "),
            (None, true) => painted(FAINT, "not read"),
            (Some(stat), true) => {
                let session = stat.session_id.map(|id| format!(", {}", self.session(id))).unwrap_or_default();
                // The servers do not report when they created their own nodes.
                let age = Some(age(self.now, stat.created())).filter(|_| stat.created_ms > 0);
                let age = age.map(|age| format!(", {age}")).unwrap_or_default();
                let size = counted(stat.data_length as usize, "byte", "bytes");
                let children = counted(stat.num_children as usize, "child", "children");
                painted(FAINT, format_args!("{size}, {children}{session}{age}"))
            }
        };
        self.rows.push(Row { depth, text: format!("{name}  {what}") });
        self.depth = depth + 1;
        node.recipes.iter().for_each(|recipe| self.recipe(recipe));
    }

    fn recipe(&mut self, recipe: &Recipe) {
        match recipe {
            Recipe::Line(line) => line.places.iter().for_each(|place| self.place(place, true)),
            Recipe::Semaphore(Semaphore { line, leases, .. }) => {
                leases.iter().for_each(|lease| self.entry("lease", HOLDS, lease, true));
                line.places.iter().for_each(|place| self.place(place, false));
            }
            Recipe::DoubleBarrier(DoubleBarrier { members, .. }) => {
                members.iter().for_each(|member| self.entry("member", HOLDS, member, true));
            }
            Recipe::Queue(Queue { oldest, claims, producers, dead_letters, .. }) => {
                oldest.iter().for_each(|item| self.oldest_item(item));
                claims.iter().for_each(|claim| self.entry("claim", HOLDS, claim, true));
                producers.iter().for_each(|producer| self.entry("producer", FAINT, producer, false));
                dead_letters.iter().for_each(|name| self.push(painted(WRONG, "dead letter"), shown(name)));
            }
            Recipe::ThroughputBalancer(balancer) => self.balancer(balancer),
            Recipe::PartitionAssigner(assigner) => self.assigner(assigner),
            Recipe::KazooSetPartitioner(KazooSetPartitioner { members, .. }) => {
                members.iter().for_each(|member| self.entry("member", HOLDS, member, true));
            }
            Recipe::Service(Service { instances, unreadable, .. }) => {
                instances.iter().for_each(|instance| self.instance(instance));
                unreadable.iter().for_each(|instance| self.unreadable(instance));
            }
            Recipe::Group(group) => group.members.iter().for_each(|member| self.entry("member", HOLDS, member, true)),
            // Its name is all that is known of a recipe of a later version.
            _ => {}
        }
    }

    fn balancer(&mut self, balancer: &ThroughputBalancer) {
        for member in &balancer.members {
            let share = match (&member.id, member.throughput) {
                (Some(id), Some(throughput)) => format!("{id:?} has {throughput}, "),
                _ => painted(WRONG, "no record") + ", ",
            };
            let text = share + &self.owned(member.entry.name(), member.entry.owner.as_ref(), false);
            self.push(painted(HOLDS, "member"), text);
        }
        balancer.leader.places.iter().for_each(|place| self.place(place, true));
    }

    fn assigner(&mut self, assigner: &PartitionAssigner) {
        for member in &assigner.members {
            let id = shown(&member.id);
            let (assigned, drained) = (member.assigned.len(), painted(WAITS, ", drained"));
            let drained = if member.is_drained { drained.as_str() } else { "" };
            let nodes = member.nodes.iter().map(|node| self.owned(node.name(), node.owner.as_ref(), false));
            let nodes: String = nodes.map(|node| format!(", {node}")).collect();
            if !member.is_present() {
                self.push(painted(WAITS, "away"), format!("{id}, {assigned} reserved{drained}"));
            } else if member.is_returning {
                self.push(painted(WAITS, "returning"), format!("{id}, {assigned} reserved{drained}{nodes}"));
            } else {
                let handing_over = Some(member.handing_over().count()).filter(|&count| count > 0);
                let handing_over = handing_over.map(|count| painted(WAITS, format_args!(", {count} handing over")));
                let holds = format!("{id} holds {} of {assigned}", member.held.len());
                let handing_over = handing_over.unwrap_or_default();
                self.push(painted(HOLDS, "member"), format!("{holds}{handing_over}{drained}{nodes}"));
            }
        }
        for record in &assigner.unreadable {
            self.push(painted(WRONG, "unreadable"), shown(&record.to_string()));
        }
        assigner.leader.places.iter().for_each(|place| self.place(place, true));
    }

    fn instance(&mut self, instance: &Instance) {
        let name = instance.entry.name();
        let mut parts = vec![shown(name), shown(&instance.endpoint())];
        parts.retain(|part| !part.is_empty());
        parts.extend(instance.ssl_port.map(|port| format!("TLS port {port}")));
        parts.extend((!instance.enabled).then(|| painted(WAITS, "disabled")));
        if let Some(owner) = &instance.entry.owner {
            let is_static = matches!(instance.service_type, ServiceType::Static | ServiceType::Permanent);
            parts.push(match (owner.is_orphan(), is_static) {
                (true, true) => "static".to_owned(),
                (true, false) => painted(WRONG, "no session"),
                (false, _) => self.session(owner.session_id),
            });
            parts.push(painted(FAINT, age(self.now, owner.created())));
        }
        self.push(painted(HOLDS, "instance"), parts.join(", "));
    }

    fn unreadable(&mut self, instance: &UnreadableInstance) {
        let node = self.owned(instance.entry.name(), instance.entry.owner.as_ref(), false);
        self.push(painted(WRONG, "unreadable"), format!("{node}: {}", shown(&instance.reason)));
    }

    fn oldest_item(&mut self, item: &Item) {
        let since = item.ready_since().zip(item.stat).map(|(ready, stat)| {
            let is_delayed = ready > stat.created() && ready > self.now;
            let since = if is_delayed { "delayed".to_owned() } else { age(self.now, ready) };
            format!(", {}", painted(FAINT, since))
        });
        self.push(painted(WAITS, "oldest item"), shown(item.name()) + &since.unwrap_or_default());
    }

    fn place(&mut self, place: &Place, may_hold: bool) {
        let what = if !may_hold || !place.holds() {
            painted(WAITS, "waits")
        } else if place.role == Role::Candidate {
            painted(HOLDS, "leads")
        } else {
            painted(HOLDS, "holds")
        };
        let text = self.owned(place.name(), place.owner.as_ref(), true);
        self.push(what, text);
    }

    fn entry(&mut self, what: &str, style: Style, entry: &Entry, with_data: bool) {
        let text = self.owned(entry.name(), entry.owner.as_ref(), with_data);
        self.push(painted(style, what), text);
    }

    fn push(&mut self, what: String, text: String) {
        self.rows.push(Row { depth: self.depth, text: format!("{what} {text}") });
    }

    fn session(&self, id: i64) -> String {
        format!("session {id:#x}{}", from(self.addresses, id))
    }

    /// Returns the text of a node, with its owner, its data and its age.
    fn owned(&self, name: &str, owner: Option<&Owner>, with_data: bool) -> String {
        let name = shown(name);
        let Some(owner) = owner else { return format!("{name}, {}", painted(WRONG, "not readable")) };
        let session = if owner.is_orphan() { painted(WRONG, "no session") } else { self.session(owner.session_id) };
        let data = if owner.is_revoked() {
            format!(", {}", painted(WAITS, "asked to release"))
        } else if with_data && !owner.data.is_empty() {
            format!(", {}", content::on_a_line(&owner.data))
        } else {
            String::new()
        };
        format!("{name}, {session}{data}, {}", painted(FAINT, age(self.now, owner.created())))
    }
}

/// Returns what a recipe is, and how much is in it.
fn kind(recipe: &Recipe) -> String {
    match recipe {
        Recipe::Line(line) => {
            let (hold, wait) = (line.holders().count(), line.waiting().count());
            format!("{}: {hold} {}, {wait} wait", kind_of_line(line), if hold == 1 { "holds" } else { "hold" })
        }
        Recipe::Semaphore(Semaphore { line, leases, .. }) => {
            format!("semaphore: {}, {} wait", counted(leases.len(), "lease", "leases"), line.places.len())
        }
        Recipe::DoubleBarrier(barrier) => {
            let ready = if barrier.is_ready() { "ready" } else { "not ready" };
            format!("double barrier: {}, {ready}", counted(barrier.members.len(), "member", "members"))
        }
        Recipe::Queue(Queue { depth, claims, dead_letters, .. }) => {
            let (items, letters) =
                (counted(*depth, "item", "items"), counted(dead_letters.len(), "dead letter", "dead letters"));
            format!("queue: {items}, {} claimed, {letters}", claims.len())
        }
        Recipe::ThroughputBalancer(ThroughputBalancer { maximum, members, .. }) => {
            let maximum = maximum.map_or("no maximum".to_owned(), |maximum| format!("maximum {maximum}"));
            format!("throughput balancer: {maximum}, {}", counted(members.len(), "member", "members"))
        }
        Recipe::PartitionAssigner(PartitionAssigner { members, partitions, owned, .. }) => {
            let present = members.iter().filter(|member| member.is_present()).count();
            let away = Some(members.len() - present).filter(|&count| count > 0);
            let away = away.map(|count| format!(", {count} away")).unwrap_or_default();
            let (members, partitions) =
                (counted(present, "member", "members"), counted(*partitions, "partition", "partitions"));
            format!("partition assigner: {members}{away}, {partitions}, {owned} held")
        }
        Recipe::KazooSetPartitioner(KazooSetPartitioner { members, partitions, held, .. }) => {
            let (members, partitions) =
                (counted(members.len(), "member", "members"), counted(*partitions, "partition", "partitions"));
            format!("kazoo set partitioner: {members}, {partitions}, {held} held")
        }
        Recipe::Service(Service { instances, unreadable, .. }) => {
            let unreadable = Some(unreadable.len()).filter(|&count| count > 0);
            let unreadable = unreadable.map(|count| format!(", {count} unreadable")).unwrap_or_default();
            format!("service: {}{unreadable}", counted(instances.len(), "instance", "instances"))
        }
        Recipe::Group(group) => format!("group: {}", counted(group.members.len(), "member", "members")),
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

fn kind_of_line(line: &Line) -> &'static str {
    let has = |role| line.places.iter().any(|place| place.role == role);
    match (has(Role::Candidate), has(Role::Lock) || has(Role::KazooLock), has(Role::Reader) || has(Role::Writer)) {
        (true, false, false) => "election",
        (false, true, false) => "lock",
        (false, _, true) => "read-write lock",
        _ => "line",
    }
}

fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn painted(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Returns how long ago that was, in its two largest units: `3m 12s`. Clocks may differ: nothing is younger than `0s`.
fn age(now: SystemTime, then: SystemTime) -> String {
    let seconds = now.duration_since(then).unwrap_or(Duration::ZERO).as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::testing::TestingServer;
    use zookeeper_recipes::{Client, CreateMode, inspect};

    use super::*;
    use crate::commands::addresses::tests::addresses;

    #[test]
    fn branches_end_at_the_last_of_a_level() {
        let rows = [(0, "/"), (1, "a"), (2, "b"), (3, "c"), (2, "d"), (1, "e"), (3, "f")];
        let rows = rows.map(|(depth, text)| Row { depth, text: text.to_owned() });
        let expected = ["/", "├─ a", "│  ├─ b", "│  │  └─ c", "│  └─ d", "└─ e", "      └─ f"];
        assert_eq!(with_branches(&rows), expected);
    }

    #[test]
    fn ages_in_their_two_largest_units() {
        let ages = [0, 59, 192, 3600, 90_061]
            .map(|seconds| age(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds), SystemTime::UNIX_EPOCH));
        assert_eq!(ages, ["0s", "59s", "3m 12s", "1h 0m", "1d 1h"]);
        assert_eq!(age(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + Duration::from_secs(9)), "0s");
    }

    /// Draws without colours. The clock shows 1970, so that every age is 0 s.
    async fn drawn(client: &Client, addresses: Option<&Addresses>) -> String {
        let tree = inspect::tree(client, "/app").await.expect("the tree");
        anstream::adapter::strip_str(&text(&tree, addresses, SystemTime::UNIX_EPOCH)).to_string()
    }

    #[tokio::test]
    async fn a_tree_with_a_lock_a_semaphore_a_queue_and_a_group() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let session = client.session_id().expect("a session");
        let nodes = [
            ("/app", "", CreateMode::Persistent),
            ("/app/api", "", CreateMode::Persistent),
            ("/app/api/api-1", "10.0.0.1:80", CreateMode::Ephemeral),
            ("/app/lock", "", CreateMode::Persistent),
            ("/app/lock/a-lock-0000000000", "host-1", CreateMode::Ephemeral),
            ("/app/lock/b-lock-0000000001", "__REVOKE__", CreateMode::Persistent),
            ("/app/orders", "", CreateMode::Persistent),
            ("/app/orders/queue-0000000003", "", CreateMode::Persistent),
            ("/app/orders-claims", "", CreateMode::Persistent),
            ("/app/orders-claims/queue-0000000003", "", CreateMode::Ephemeral),
            ("/app/orders-dead", "", CreateMode::Persistent),
            ("/app/orders-dead/letter-queue-0000000001-0000000000", "", CreateMode::Persistent),
            ("/app/permits", "", CreateMode::Persistent),
            ("/app/permits/leases", "", CreateMode::Persistent),
            ("/app/permits/leases/a-lease-0000000000", "", CreateMode::Ephemeral),
            ("/app/version", "1.2.3", CreateMode::Persistent),
        ];
        for (path, data, mode) in nodes {
            client.create(path, data, mode).await.expect("created");
        }
        let expected = format!(
            "/app  0 bytes, 7 children, 0s\n\
             ├─ api  group: 1 member\n\
             │  └─ member api-1, session {session:#x}, \"10.0.0.1:80\", 0s\n\
             ├─ lock  lock: 1 holds, 1 wait\n\
             │  ├─ holds a-lock-0000000000, session {session:#x}, \"host-1\", 0s\n\
             │  └─ waits b-lock-0000000001, no session, asked to release, 0s\n\
             ├─ orders  queue: 1 item, 1 claimed, 1 dead letter\n\
             │  ├─ oldest item queue-0000000003, 0s\n\
             │  ├─ claim queue-0000000003, session {session:#x}, 0s\n\
             │  └─ dead letter letter-queue-0000000001-0000000000\n\
             ├─ permits  semaphore: 1 lease, 0 wait\n\
             │  └─ lease a-lease-0000000000, session {session:#x}, 0s\n\
             └─ version  5 bytes, 0 children, 0s"
        );
        assert_eq!(drawn(&client, None).await, expected);
        let addresses = addresses(&[(session, "10.0.0.7:40512"), (0, "10.0.0.8:1")]);
        let session = format!("session {session:#x}");
        let with_addresses = expected.replace(&session, &format!("{session} from 10.0.0.7:40512"));
        assert_eq!(drawn(&client, Some(&addresses)).await, with_addresses);
        server.deny("/app/version");
        let denied = expected.replace("5 bytes, 0 children, 0s", "not read\nnot readable: /app/version");
        assert_eq!(drawn(&client, None).await, denied);
    }

    #[tokio::test]
    async fn an_assigner_and_a_set_partitioner_of_kazoo() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let session = client.session_id().expect("a session");
        let uuid = "8d2b5a0e6a864c3c8a273f1f5f4c9a01";
        let (member, lock) =
            (format!("/app/sets/party/{uuid}-host-1"), format!("/app/sets/locks/0/{uuid}__lock__0000000000"));
        let config = r#"{"drained":["w-1","w-9"],"pins":3}"#;
        let nodes = [
            ("/app", "", CreateMode::Persistent),
            ("/app/jobs", "", CreateMode::Persistent),
            ("/app/jobs/members", "", CreateMode::Persistent),
            ("/app/jobs/members/w-1~000000000000000a", "{}", CreateMode::Ephemeral),
            ("/app/jobs/members/w-10~000000000000000b", "{}", CreateMode::Ephemeral),
            ("/app/jobs/assignments", "", CreateMode::Persistent),
            (
                "/app/jobs/assignments/w-1",
                r#"{"member":"000000000000000a","assigned":["0","1"],"held":["0","2"]}"#,
                CreateMode::Persistent,
            ),
            ("/app/jobs/assignments/w-9", r#"{"member":"000000000000000c","assigned":["3"]}"#, CreateMode::Persistent),
            ("/app/jobs/assignments/w-10", r#"{"member":"000000000000000d","assigned":["4"]}"#, CreateMode::Persistent),
            ("/app/jobs/config", config, CreateMode::Persistent),
            ("/app/jobs/epoch", "w-1", CreateMode::Persistent),
            ("/app/jobs/owned", "", CreateMode::Persistent),
            ("/app/jobs/owned/0~000000000000000a.1", "", CreateMode::Ephemeral),
            ("/app/jobs/leader", "", CreateMode::Persistent),
            ("/app/jobs/leader/_c_x-latch-0000000000", "w-1", CreateMode::Ephemeral),
            ("/app/sets", "", CreateMode::Persistent),
            ("/app/sets/locks", "", CreateMode::Persistent),
            ("/app/sets/locks/0", "", CreateMode::Persistent),
            (&lock, "host-1", CreateMode::Ephemeral),
            ("/app/sets/locks/1", "", CreateMode::Persistent),
            ("/app/sets/party", "", CreateMode::Persistent),
            (&member, "", CreateMode::Ephemeral),
        ];
        for (path, data, mode) in nodes {
            client.create(path, data, mode).await.expect("created");
        }
        let expected = format!(
            "/app  0 bytes, 2 children, 0s\n\
             ├─ jobs  partition assigner: 2 members, 1 away, 5 partitions, 1 held\n\
             │  ├─ member w-1 holds 2 of 2, 1 handing over, w-1~000000000000000a, session {session:#x}, 0s\n\
             │  ├─ away w-9, 1 reserved\n\
             │  ├─ returning w-10, 1 reserved, w-10~000000000000000b, session {session:#x}, 0s\n\
             │  ├─ unreadable jobs/config: {config:?}: invalid type: integer `3`, expected a map at line 1 column 33\n\
             │  └─ leads _c_x-latch-0000000000, session {session:#x}, \"w-1\", 0s\n\
             └─ sets  kazoo set partitioner: 1 member, 2 partitions, 1 held\n   \
                ├─ member {uuid}-host-1, session {session:#x}, 0s\n   \
                └─ locks  0 bytes, 2 children, 0s\n      \
                   ├─ 0  lock: 1 holds, 0 wait\n      \
                   │  └─ holds {uuid}__lock__0000000000, session {session:#x}, \"host-1\", 0s\n      \
                   └─ 1  0 bytes, 0 children, 0s"
        );
        assert_eq!(drawn(&client, None).await, expected);
        server.set_data_by_hand("/app/jobs/config", r#"{"drained":["w-1","w-9"]}"#).expect("set");
        let drawn = drawn(&client, None).await;
        assert!(
            drawn.contains(", 1 handing over, drained, w-1~") && drawn.contains("w-9, 1 reserved, drained\n"),
            "{drawn}"
        );
    }

    #[tokio::test]
    async fn a_service_with_an_instance_of_each_kind() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let session = client.session_id().expect("a session");
        let record = |id: &str, more: &str| format!(r#"{{"name":"api","id":"{id}"{more}}}"#);
        let nodes = [
            ("/app", String::new(), CreateMode::Persistent),
            ("/app/api", String::new(), CreateMode::Persistent),
            ("/app/api/a", record("a", r#","address":"10.0.0.1","port":80,"sslPort":443"#), CreateMode::Ephemeral),
            ("/app/api/b", record("b", r#","address":"::1","enabled":false"#), CreateMode::Ephemeral),
            ("/app/api/c", "port 80".to_owned(), CreateMode::Ephemeral),
            ("/app/api/d", record("d", r#","port":81,"serviceType":"STATIC""#), CreateMode::Persistent),
            ("/app/api/e", record("e", ""), CreateMode::Persistent),
        ];
        for (path, data, mode) in nodes {
            client.create(path, data, mode).await.expect("created");
        }
        let expected = format!(
            "/app  0 bytes, 1 child, 0s\n\
             └─ api  service: 4 instances, 1 unreadable\n   \
                ├─ instance a, 10.0.0.1:80, TLS port 443, session {session:#x}, 0s\n   \
                ├─ instance b, [::1], disabled, session {session:#x}, 0s\n   \
                ├─ instance d, :81, static, 0s\n   \
                ├─ instance e, no session, 0s\n   \
                └─ unreadable c, session {session:#x}, 0s: expected value at line 1 column 1"
        );
        assert_eq!(drawn(&client, None).await, expected);
        let addresses = addresses(&[(session, "10.0.0.7:40512")]);
        let session = format!("session {session:#x}");
        let with_addresses = expected.replace(&session, &format!("{session} from 10.0.0.7:40512"));
        assert_eq!(drawn(&client, Some(&addresses)).await, with_addresses);
    }
}
