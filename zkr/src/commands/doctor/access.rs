//! Who may enter a line, but not see it.

use std::collections::{BTreeMap, HashMap};

use futures::stream::{self, StreamExt};
use zookeeper_recipes::inspect::{Line, Recipe, Tree};
use zookeeper_recipes::{Acl, Client, Error, ErrorKind, Permissions};

use super::finding::{Finding, argument};
use super::members::Members;
use super::problem::Problem;
use crate::output::count;

/// How many ACLs are read at a time.
const AT_ONCE: usize = 64;

/// The ACLs of nodes, by their paths.
type Acls = HashMap<String, Vec<Acl>>;

/// A directory in which members of a line create nodes, and the nodes among them that each member has to read.
#[derive(Debug)]
struct Shared<'a> {
    directory: &'a str,
    nodes: Vec<&'a str>,
}

impl Finding {
    /// Compares the ACLs in lines: those who may enter a line have to see the others in it, and be able to leave.
    pub async fn access(client: &Client, tree: &Tree) -> Result<Vec<Finding>, Error> {
        let shared: Vec<Shared<'_>> = tree.nodes.iter().flat_map(|node| &node.recipes).flat_map(Shared::of).collect();
        let paths = shared.iter().flat_map(|shared| shared.nodes.iter().copied().chain([shared.directory]));
        let acls = read(client, paths.map(str::to_owned).collect()).await?;
        Ok(shared.iter().flat_map(|shared| shared.findings(&acls)).collect())
    }
}

/// Returns the ACLs of these nodes, except those that are gone or may not be read, which is reported already.
async fn read(client: &Client, paths: Vec<String>) -> Result<Acls, Error> {
    let reads = paths.into_iter().map(|path| {
        let client = client.clone();
        async move { (client.acl(&path).await, path) }
    });
    let mut reads = stream::iter(reads).buffer_unordered(AT_ONCE);
    let mut acls = Acls::new();
    while let Some((read, path)) = reads.next().await {
        match read {
            Ok(acl) => drop(acls.insert(path, acl)),
            Err(error) if matches!(error.kind(), ErrorKind::NoAuth | ErrorKind::NoNode) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(acls)
}

impl<'a> Shared<'a> {
    fn of(recipe: &'a Recipe) -> Vec<Shared<'a>> {
        match recipe {
            Recipe::Line(line) => vec![Shared::line(line)],
            Recipe::ThroughputBalancer(balancer) => vec![Shared::line(&balancer.leader)],
            Recipe::PartitionAssigner(assigner) => vec![Shared::line(&assigner.leader)],
            Recipe::Semaphore(semaphore) => {
                // Leases are counted, and not read.
                let leases = semaphore.leases.first().and_then(|lease| lease.path.rsplit_once('/'));
                let leases = leases.map(|(directory, _)| Shared { directory, nodes: Vec::new() });
                [Shared::line(&semaphore.line)].into_iter().chain(leases).collect()
            }
            _ => Vec::new(),
        }
    }

    fn line(line: &'a Line) -> Self {
        Shared { directory: &line.path, nodes: line.places.iter().map(|place| place.path.as_str()).collect() }
    }

    fn findings(&self, acls: &Acls) -> Vec<Finding> {
        let Some(acl) = acls.get(self.directory) else { return Vec::new() };
        let members = Members::of(acl);
        let blind = members.without(Permissions::READ, acl).map(|who| {
            format!("{who} may create nodes in it, but not list it (READ): such a member does not see the line")
        });
        let stuck = members.without(Permissions::DELETE, acl).map(|who| {
            format!(
                "{who} may create nodes in it, but not delete them (DELETE): what such a member has held blocks others \
                 until its session ends"
            )
        });
        let of_directory = blind.into_iter().chain(stuck).map(|what| (what, self.directory));
        of_directory.chain(self.hidden(acls, &members)).map(|(what, look_at)| self.finding(what, look_at)).collect()
    }

    fn finding(&self, what: String, look_at: &str) -> Finding {
        let next = format!(
            "give all members READ, CREATE and DELETE on it, and READ on the nodes of the line, and give CREATE to no \
             others (zkCli.sh: getAcl {})",
            argument(look_at)
        );
        Finding::warning(Problem::Acl, self.directory, what, next)
    }

    /// Returns what is wrong with the ACLs of nodes, once for all nodes that are hidden from the same members, and the
    /// first of these nodes.
    fn hidden(&self, acls: &Acls, members: &Members<'_>) -> Vec<(String, &'a str)> {
        let mut hidden: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for &path in &self.nodes {
            if let Some(who) = acls.get(path).and_then(|acl| members.without(Permissions::READ, acl)) {
                hidden.entry(who).or_default().push(path);
            }
        }
        let what = |(who, nodes): (String, Vec<&'a str>)| {
            let first = *nodes.first()?;
            let (some, name) = (count(nodes.len(), "node", "nodes"), first.rsplit('/').next()?);
            let what = format!(
                "{who} may enter the line, but not read {some} of it (READ), such as {name}: a member that has to wait \
                 for one fails"
            );
            Some((what, first))
        };
        hidden.into_iter().filter_map(what).collect()
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::testing::TestingServer;
    use zookeeper_recipes::{CreateMode, inspect};

    use super::*;

    const PATHS: [&str; 3] = ["/l/lock-0000000000", "/l/lock-0000000001", "/l/lock-0000000002"];

    fn entry(permissions: Permissions, who: &str) -> Acl {
        let (scheme, id) = who.split_once(':').expect("a scheme and an id");
        Acl::new(permissions, scheme, id)
    }

    fn all(members: &[&str]) -> Vec<Acl> {
        members.iter().map(|who| entry(Permissions::ALL, who)).collect()
    }

    /// Returns the findings on a line with these ACLs of the directory and of its first nodes. The others are gone.
    fn told(directory: Vec<Acl>, nodes: &[Vec<Acl>]) -> Vec<String> {
        let shared = Shared { directory: "/l", nodes: PATHS.to_vec() };
        let nodes = PATHS.iter().zip(nodes).map(|(path, acl)| ((*path).to_owned(), acl.clone()));
        let acls = nodes.chain([("/l".to_owned(), directory)]).collect();
        shared.findings(&acls).into_iter().map(|finding| format!("{} {}", finding.path, finding.what)).collect()
    }

    #[test]
    fn members_with_the_same_rights_see_each_other() {
        let anyone = all(&["world:anyone"]);
        let two = all(&["digest:a:1", "digest:b:2"]);
        assert_eq!(told(anyone.clone(), &[anyone.clone(), anyone.clone()]), [""; 0]);
        assert_eq!(told(two.clone(), &[two.clone(), anyone.clone()]), [""; 0]);
        // An identity that may only read is not a member.
        let with_operator = [two.clone(), vec![entry(Permissions::READ, "digest:operator:3")]].concat();
        assert_eq!(told(with_operator, std::slice::from_ref(&two)), [""; 0]);
        // The same name in another scheme is another identity.
        assert_eq!(told(all(&["sasl:web:1"]), &[all(&["sasl:web:x"]), all(&["digest:web:1"])]).len(), 1);
        // The servers hide hashes from those who may not change the ACL.
        assert_eq!(told(two, &[all(&["digest:a:x", "digest:b:x"])]), [""; 0]);
        // Addresses within others.
        let within = [all(&["ip:10.0.0.0/8"]), vec![entry(Permissions::CREATE, "ip:10.0.0.7")]].concat();
        assert_eq!(told(within, &[]), [""; 0]);
        assert_eq!(Shared { directory: "/gone", nodes: PATHS.to_vec() }.findings(&Acls::new()), []);
    }

    #[test]
    fn nodes_that_some_members_may_not_read_are_told_once() {
        let own = |who: &str| all(&[who]);
        let nodes = [own("digest:a:1"), own("digest:a:1"), own("digest:b:2")];
        let found = told(all(&["digest:a:1", "digest:b:2"]), &nodes);
        let fails = "a member that has to wait for one fails";
        let expected = [
            format!(
                "/l digest:a may enter the line, but not read 1 node of it (READ), such as lock-0000000002: {fails}"
            ),
            format!(
                "/l digest:b may enter the line, but not read 2 nodes of it (READ), such as lock-0000000000: {fails}"
            ),
        ];
        assert_eq!(found, expected);
        // Another password is another identity.
        assert_eq!(told(own("digest:a:1"), &[own("digest:a:2")]).len(), 1);
        let two = told(all(&["digest:a:1", "digest:a:2"]), &[own("digest:a:2")]);
        assert!(two.len() == 1 && two[0].starts_with("/l digest:a (with one of its passwords) may enter"), "{two:?}");
        let open = told(all(&["world:anyone", "sasl:web"]), &[own("sasl:web")]);
        assert!(open.len() == 1 && open[0].starts_with("/l anyone may enter the line"), "{open:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_that_are_gone_and_that_may_not_be_read_are_passed_over() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        for path in ["/open", "/closed"] {
            client.create(path, "", CreateMode::Persistent).await.expect("it is created");
        }
        server.deny("/closed");
        let paths = ["/open", "/closed", "/gone"].map(str::to_owned).to_vec();
        let acls = read(&client, paths).await.expect("they are read");
        assert_eq!(acls.into_iter().collect::<Vec<_>>(), [("/open".to_owned(), all(&["world:anyone"]))]);
    }

    /// All directories of recipes in which members create nodes that others wait for.
    #[tokio::test(start_paused = true)]
    async fn each_recipe_with_a_line_is_looked_at() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let rights = Permissions::READ | Permissions::CREATE;
        let stays = vec![Acl::new(rights, "world", "anyone")];
        let guarded = Client::builder_for_testing(&server).acls(stays).connect().await.expect("a client");
        let directories =
            ["/lock", "/semaphore", "/semaphore/locks", "/semaphore/leases", "/balancer", "/balancer/leader"];
        for directory in directories {
            guarded.create(directory, "", CreateMode::Persistent).await.expect("it is created");
        }
        let (persistent, ephemeral) = (CreateMode::Persistent, CreateMode::EphemeralSequential);
        let nodes = [
            ("/lock/lock-", ephemeral),
            ("/semaphore/locks/lock-", ephemeral),
            ("/semaphore/leases/lease-", ephemeral),
            ("/balancer/leader/latch-", ephemeral),
            ("/balancer/global-config", persistent),
            ("/balancer/global-config/max-throughput", persistent),
        ];
        for (path, mode) in nodes {
            client.create(path, "1", mode).await.expect("it is created");
        }
        let tree = inspect::tree(&client, "/").await.expect("the tree");
        let found = Finding::access(&client, &tree).await.expect("the ACLs are read");
        let mut told: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
        told.sort_unstable();
        assert_eq!(told, ["/balancer/leader", "/lock", "/semaphore/leases", "/semaphore/locks"]);
    }

    #[test]
    fn members_that_may_not_list_the_line_or_not_leave_it() {
        let create = Permissions::CREATE;
        let directory = vec![
            entry(create | Permissions::READ, "ip:10.0.0.1"),
            entry(create | Permissions::DELETE, "digest:a:1"),
            entry(Permissions::ALL, "x509:CN=b"),
        ];
        let found = told(directory.clone(), &[all(&["world:anyone"])]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("/l digest:a may create nodes in it, but not list it"), "{}", found[0]);
        assert!(found[1].starts_with("/l ip:10.0.0.1 may create nodes in it, but not delete them"), "{}", found[1]);
        // An identity in several entries is one member.
        let twice = vec![entry(create, "digest:a:1"), entry(create | Permissions::READ, "digest:a:1")];
        assert!(told(twice, &[])[0].starts_with("/l digest:a may create"));
        let rest = entry(Permissions::READ | Permissions::DELETE, "world:anyone");
        assert_eq!(told([directory, vec![rest]].concat(), &[]), [""; 0], "what anyone may do, each may do");
    }
}
