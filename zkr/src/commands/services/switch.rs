//! Says in the node of an instance, for its owner, whether it accepts work.

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;
use zookeeper_recipes::service_discovery::{Instance, Instances};
use zookeeper_recipes::{Client, ErrorKind, Stat};

use super::fields::Fields;
use super::{Base, below, read, why_unreadable};
use crate::commands::{check_exists, failed};
use crate::connection::element;
use crate::ending::{Ending, Status};
use crate::output::{Output, shown};

/// How often at most a node is read and written while others write it.
const ATTEMPTS: usize = 10;

/// What is asked of an instance.
#[derive(Subcommand, Debug)]
pub enum Switch {
    /// Disable an instance, so that callers give it no new work
    ///
    /// Sets "enabled" to false in the node of the instance, whichever program has registered it, and keeps all other
    /// fields. Consumers of this library and of Curator pass over the instance; those of Curator before 4.2 cannot read
    /// it. It is enabled again when its owner writes its data: after a lost session, for example, or after an update.
    #[command(after_help = "Example: zkr service drain web 10.0.0.7:8080")]
    Drain(Target),
    /// Enable an instance that was drained
    ///
    /// Removes "enabled" from the node of the instance: an instance without it is enabled, which all versions of
    /// Curator can read. All other fields are kept. If the instance is enabled, nothing is written.
    #[command(after_help = "Example: zkr service undrain web 10.0.0.7:8080")]
    Undrain(Target),
}

/// An instance.
#[derive(Args, Debug)]
pub struct Target {
    /// The name of the service
    #[arg(value_parser = element)]
    name: String,
    /// The id of the instance, or the name of its node if several have that id
    #[arg(value_parser = element)]
    id: String,
    #[command(flatten)]
    base: Base,
}

/// What was done.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Done {
    path: String,
    enabled: bool,
    /// Whether it was enabled before.
    before: bool,
}

impl Switch {
    /// Does what was asked.
    pub async fn run(self, client: &Client, output: Output) -> Result<Ending, Ending> {
        let (target, enabled) = match self {
            Switch::Drain(target) => (target, false),
            Switch::Undrain(target) => (target, true),
        };
        let done = target.set_enabled(client, enabled).await?;
        output.print(done.text(), &done).await?;
        Ok(Ending::Success)
    }
}

impl Done {
    fn text(&self) -> String {
        let word = |enabled| if enabled { "enabled" } else { "disabled" };
        let (path, now) = (shown(&self.path), word(self.enabled));
        if self.before == self.enabled {
            format!("{path}: it was already {now}; nothing was written")
        } else {
            format!("{path}: {now}; it was {}", word(self.before))
        }
    }
}

impl Target {
    /// Writes the node of the instance, unless it is as it should be. Repeated if another client writes meanwhile.
    async fn set_enabled(&self, client: &Client, enabled: bool) -> Result<Done, Ending> {
        let mut first = None;
        for _ in 0..ATTEMPTS {
            let (path, stat) = self.find(client).await?;
            let (data, now) = match client.get(&path).await {
                Err(error) if error.kind() == ErrorKind::NoNode => continue,
                read => read.map_err(|error| failed(error.kind(), error))?,
            };
            // What was found to be an instance is not what was read now.
            if (now.czxid, now.mzxid) != (stat.czxid, stat.mzxid) {
                continue;
            }
            let mut fields = Fields::of(&data).map_err(|error| left_alone(&path, error))?;
            let before = *first.get_or_insert(fields.is_enabled());
            if fields.is_enabled() == enabled {
                return Ok(Done { path, enabled, before });
            }
            fields.set_enabled(enabled).map_err(Ending::failed)?;
            let data = serde_json::to_vec(&fields).map_err(Ending::failed)?;
            match client.set(&path, data, Some(now.version)).await {
                Ok(stat) if stat.czxid != now.czxid => return Err(replaced(&path)),
                Ok(_) => return Ok(Done { path, enabled, before }),
                Err(error) if is_worth_a_look(error.kind()) => {}
                Err(error) => return Err(failed(error.kind(), error)),
            }
        }
        let why = format_args!("{}: others write the node all the time; look at it with zkr services", self.id);
        Err(Ending::failed(why))
    }

    /// Finds the node of the instance, which can be read.
    async fn find(&self, client: &Client) -> Result<(String, Stat), Ending> {
        let Target { name, id, base: Base { path } } = self;
        let directory = below(path, name);
        check_exists(client, &directory).await?;
        let instances = read(client, path, name).await?.instances();
        self.choose(&directory, &instances).map(|one| (one.path().to_owned(), *one.stat())).map_err(|why| match why {
            NotChosen::None => {
                let next = format!("zkr services {name} --path {path} shows those that there are");
                Ending::because(Status::No, format_args!("{}: no such instance; {next}", shown(&below(&directory, id))))
            }
            NotChosen::Several(nodes) => {
                let why = format_args!("several nodes have the id {id:?}; name one of them: {}", nodes.join(", "));
                Ending::failed(why)
            }
            NotChosen::Unreadable(why) => left_alone(&below(&directory, id), why),
        })
    }

    /// Chooses the node with this name, or the only one with this id.
    fn choose(&self, directory: &str, instances: &Instances<Value>) -> Result<Instance<Value>, NotChosen> {
        let node = below(directory, &self.id);
        if let Some(instance) = instances.iter().find(|instance| instance.path() == node) {
            return Ok(instance);
        }
        if let Some(node) = instances.unreadable().find(|one| one.path() == node) {
            return Err(NotChosen::Unreadable(why_unreadable(node)));
        }
        let mut with_id: Vec<_> = instances.iter().filter(|instance| instance.id() == self.id).collect();
        match with_id.len() {
            0 => Err(NotChosen::None),
            1 => Ok(with_id.remove(0)),
            _ => {
                let name = |path: &str| shown(path.rsplit('/').next().unwrap_or(path));
                Err(NotChosen::Several(with_id.iter().map(|instance| name(instance.path())).collect()))
            }
        }
    }
}

/// Why there is no instance to write.
#[derive(Debug)]
enum NotChosen {
    None,
    Several(Vec<String>),
    Unreadable(String),
}

/// Returns whether the node has to be read again: it was written by another client, deleted, or perhaps written.
fn is_worth_a_look(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BadVersion | ErrorKind::NoNode | ErrorKind::OutcomeUnknown)
}

/// A server compares the version of a node, but not which node it is.
fn replaced(path: &str) -> Ending {
    let why = "its owner registered it again at that moment, and its new data was overwritten with the former; restart \
               the owner, or let it write its data";
    Ending::failed(format_args!("{}: {why}", shown(path)))
}

fn left_alone(path: &str, why: impl std::fmt::Display) -> Ending {
    Ending::failed(format_args!("{}: it is not an instance that can be read, and is left alone: {why}", shown(path)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zookeeper_recipes::CreateMode;
    use zookeeper_recipes::testing::{Loss, Operation, TestingServer};

    use super::*;

    /// Written by Curator in its default mode, with an unknown field.
    const OTHERS: &str = r#""name":"web","id":"1","port":80,"zone":{"b":1,"a":2},"serviceType":"DYNAMIC""#;

    fn target(id: &str) -> Target {
        Target { name: "web".to_owned(), id: id.to_owned(), base: Base { path: "/s".to_owned() } }
    }

    /// A service with these nodes.
    async fn service(server: &TestingServer, nodes: &[(&str, &str)]) -> Client {
        let client = server.client().await.expect("a client");
        client.create_containers("/s/web").await.expect("it is created");
        for (node, data) in nodes {
            client.create(&format!("/s/web/{node}"), *data, CreateMode::Persistent).await.expect("it is created");
        }
        client
    }

    fn data(server: &TestingServer, node: &str) -> String {
        String::from_utf8(server.get(&format!("/s/web/{node}")).expect("it is there")).expect("it is text")
    }

    fn why(ending: Ending) -> (Status, String) {
        match ending {
            Ending::Status(status, Some(why)) => (status, why),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_field_is_changed_and_only_if_it_must_be() {
        let server = TestingServer::start();
        let enabled = format!("{{{OTHERS}}}");
        let client = service(&server, &[("1", &enabled)]).await;
        let set = async |enabled| target("1").set_enabled(&client, enabled).await.expect("it can be set");
        let version = || server.stat("/s/web/1").expect("it is there").version;
        let path = "/s/web/1".to_owned();

        let drained = set(false).await;
        assert_eq!(drained, Done { path, enabled: false, before: true });
        assert_eq!(drained.text(), "/s/web/1: disabled; it was enabled");
        assert_eq!(data(&server, "1"), format!(r#"{{{OTHERS},"enabled":false}}"#));
        assert_eq!(set(false).await.text(), "/s/web/1: it was already disabled; nothing was written");
        assert_eq!(version(), 1);
        assert_eq!(set(true).await.text(), "/s/web/1: enabled; it was disabled");
        assert_eq!(data(&server, "1"), enabled);
        assert_eq!(set(true).await.text(), "/s/web/1: it was already enabled; nothing was written");
        assert_eq!(version(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sequential_node_is_found_by_its_name_and_by_an_id_that_it_has_alone() {
        let server = TestingServer::start();
        let instance = |id: &str| format!(r#"{{"name":"web","id":"{id}","serviceType":"DYNAMIC_SEQUENTIAL"}}"#);
        let (three, four) = (instance("3"), instance("4"));
        let ours = "_c_0c4a1f0e-5f0b-4d27-9f0e-2f6e6a0d4c55-30000000001";
        let nodes = [("30000000000", &*three), (ours, &*three), ("40000000002", &*four)];
        let client = service(&server, &nodes).await;
        let (status, error) = why(target("3").set_enabled(&client, false).await.expect_err("there are two"));
        assert_eq!(status, Status::Failed);
        assert!(error.ends_with(&format!("name one of them: 30000000000, {ours}")), "{error}");
        for (id, node) in [(ours, ours), ("4", "40000000002")] {
            let done = target(id).set_enabled(&client, false).await.expect("it is found");
            assert_eq!(done.path, format!("/s/web/{node}"));
        }
        assert!(!data(&server, "30000000000").contains("enabled"));
        assert!(data(&server, ours).contains("enabled") && data(&server, "40000000002").contains("enabled"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_cannot_be_read_is_left_alone_and_a_missing_one_is_an_answer() {
        let server = TestingServer::start();
        let unreadable = r#"{"name":"web","id":"1","port":"http"}"#;
        let client = service(&server, &[("1", unreadable)]).await;
        let (status, error) = why(target("1").set_enabled(&client, false).await.expect_err("it is unreadable"));
        assert_eq!(status, Status::Failed);
        assert!(error.starts_with("/s/web/1: ") && error.contains(r#"invalid type: string "http""#), "{error}");
        assert_eq!(data(&server, "1"), unreadable);
        let (status, error) = why(target("2").set_enabled(&client, false).await.expect_err("it is missing"));
        assert_eq!((status, error.contains("zkr services web --path /s shows")), (Status::No, true), "{error}");
        let other = Target { name: "api".to_owned(), ..target("1") };
        let (status, error) = why(other.set_enabled(&client, false).await.expect_err("it is missing"));
        assert_eq!((status, error.contains("check the path")), (Status::No, true), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_client_writes_meanwhile_is_kept() {
        let latency = Duration::from_millis(10);
        // Before the read that is to be written again, and before the write arrives.
        for (sent, times, writes) in [(Operation::GetData, 2, 1), (Operation::SetData, 1, 2)] {
            let server = TestingServer::builder().latency(latency..=latency).start();
            let client = service(&server, &[("1", &format!("{{{OTHERS}}}"))]).await;
            let updated = format!("{{{},\"enabled\":true}}", OTHERS.replace("80", "81"));
            let other = async {
                server.until(|| server.count(&client, sent) == times).await;
                server.set_data_by_hand("/s/web/1", &updated).expect("it is written");
            };
            let (target, path) = (target("1"), "/s/web/1".to_owned());
            let (done, ()) = tokio::join!(target.set_enabled(&client, false), other);
            assert_eq!(done.expect("it can be set"), Done { path, enabled: false, before: true });
            assert_eq!(data(&server, "1"), updated.replace("true", "false"));
            assert_eq!(server.count(&client, Operation::SetData), writes);
        }
    }

    /// A new node begins at the version that the former one had, so the write is carried out.
    #[tokio::test(start_paused = true)]
    async fn a_node_that_its_owner_has_registered_again_meanwhile_is_told() {
        let latency = Duration::from_millis(10);
        let server = TestingServer::builder().latency(latency..=latency).start();
        let client = service(&server, &[("1", &format!("{{{OTHERS}}}"))]).await;
        let owner = async {
            server.until(|| server.count(&client, Operation::SetData) == 1).await;
            server.delete_by_hand("/s/web/1").expect("it is there");
            let again = format!("{{{}}}", OTHERS.replace("80", "81"));
            server.create_by_hand("/s/web/1", again, CreateMode::Persistent).expect("created");
        };
        let target = target("1");
        let (done, ()) = tokio::join!(target.set_enabled(&client, false), owner);
        let (status, error) = why(done.expect_err("it is another node"));
        assert_eq!(
            (status, error.starts_with("/s/web/1: its owner registered it again")),
            (Status::Failed, true),
            "{error}"
        );
        assert_eq!(data(&server, "1"), format!(r#"{{{OTHERS},"enabled":false}}"#), "as the error says");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_reply_does_not_hide_what_it_was_before() {
        let server = TestingServer::start();
        let client = service(&server, &[("1", &format!("{{{OTHERS}}}"))]).await;
        server.lose_next_reply(&client, Operation::SetData, Loss::Applied);
        let done = target("1").set_enabled(&client, false).await.expect("it can be set");
        assert_eq!(done.text(), "/s/web/1: disabled; it was enabled");
        assert_eq!(server.stat("/s/web/1").expect("it is there").version, 1);
        assert!(server.lost_replies() > 0);
    }
}
