//! All services below a path.

use std::fmt;

use futures::{StreamExt, stream};
use serde::Serialize;
use serde_json::Value;
use zookeeper_recipes::Client;
use zookeeper_recipes::service_discovery::{Instances, ServiceDiscovery};

use super::{of, read};
use crate::commands::check_exists;
use crate::ending::Ending;
use crate::output::{Output, note, shown, table};

/// How many services are read at a time. Each has the requests for its instances under way together.
const AT_A_TIME: usize = 16;

/// All services, in the order of their names.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Services {
    path: String,
    services: Vec<Row>,
}

/// One service.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    name: String,
    /// `None` if the service cannot be read.
    #[serde(flatten)]
    counts: Option<Counts>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// How many instances there are.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub instances: usize,
    pub enabled: usize,
    pub disabled: usize,
    pub unreadable: usize,
}

impl Counts {
    pub fn of(instances: &Instances<Value>) -> Counts {
        let enabled = instances.iter().filter(|instance| instance.is_enabled()).count();
        let (readable, unreadable) = (instances.len(), instances.unreadable().count());
        Counts { instances: readable + unreadable, enabled, disabled: readable - enabled, unreadable }
    }
}

/// Prints a table of all services.
pub async fn show(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    let services = Services::read(client, path).await?;
    output.print(&services, &services).await?;
    for row in &services.services {
        if let Some(error) = &row.error {
            note(error);
        }
    }
    Ok(Ending::Success)
}

impl Services {
    async fn read(client: &Client, path: &str) -> Result<Services, Ending> {
        let names = ServiceDiscovery::<Value>::new(client, path).map_err(of)?.names().await.map_err(of)?;
        if names.is_empty() {
            check_exists(client, path).await?;
        }
        let rows = stream::iter(names).map(|name| Row::read(client, path, name));
        Ok(Services { path: path.to_owned(), services: rows.buffered(AT_A_TIME).collect().await })
    }
}

impl Row {
    /// Reads one service. If that fails, the others still count.
    async fn read(client: &Client, path: &str, name: String) -> Row {
        match read(client, path, &name).await {
            Ok(service) => Row { name, counts: Some(Counts::of(&service.instances())), error: None },
            Err(Ending::Status(_, error)) => Row { name, counts: None, error },
            Err(_) => Row { name, counts: None, error: None },
        }
    }

    fn cells(&self) -> Vec<String> {
        let numbers = match &self.counts {
            Some(Counts { instances, enabled, disabled, unreadable }) => {
                [instances, enabled, disabled, unreadable].map(ToString::to_string)
            }
            None => ["-"; 4].map(str::to_owned),
        };
        [vec![shown(&self.name)], numbers.to_vec()].concat()
    }
}

/// A table with a row for each service.
impl fmt::Display for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["SERVICE", "INSTANCES", "ENABLED", "DISABLED", "UNREADABLE"].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(head).chain(self.services.iter().map(Row::cells)).collect();
        f.write_str(&table(&rows))
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::testing::TestingServer;
    use zookeeper_recipes::{Acl, CreateMode};

    use super::*;

    async fn create(client: &Client, path: &str, data: &str) {
        client.create(path, data, CreateMode::Persistent).await.expect("it is created");
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_for_each_service_with_the_number_of_its_instances() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        client.create_containers("/s").await.expect("it is created");
        for name in ["web", "idle", "api"] {
            create(&client, &format!("/s/{name}"), "").await;
        }
        create(&client, "/s/web/1", r#"{"name":"web","id":"1"}"#).await;
        create(&client, "/s/web/2", r#"{"name":"web","id":"2","enabled":false}"#).await;
        create(&client, "/s/web/3", "10.0.0.1:80").await;
        create(&client, "/s/api/1", r#"{"name":"api","id":"1","enabled":true}"#).await;
        let services = Services::read(&client, "/s").await.expect("they can be read");
        let table = "\
            SERVICE  INSTANCES  ENABLED  DISABLED  UNREADABLE\n\
            api              1        1         0           0\n\
            idle             0        0         0           0\n\
            web              3        1         1           1";
        assert_eq!(services.to_string(), table);
        let json = serde_json::to_value(&services).expect("it is a value");
        let api = serde_json::json!({"name": "api", "instances": 1, "enabled": 1, "disabled": 0, "unreadable": 0});
        assert_eq!((&json["path"], &json["services"][0]), (&"/s".into(), &api));
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_may_not_be_read_does_not_hide_the_others() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        client.create_containers("/s/api").await.expect("it is created");
        let owner =
            Client::builder_for_testing(&server).auth("digest", "a:b").acls([Acl::creator_all()]).connect().await;
        create(&owner.expect("a client"), "/s/closed", "").await;
        let services = Services::read(&client, "/s").await.expect("they can be read");
        let table = "\
            SERVICE  INSTANCES  ENABLED  DISABLED  UNREADABLE\n\
            api              0        0         0           0\n\
            closed           -        -         -           -";
        assert_eq!(services.to_string(), table);
        let json = serde_json::to_value(&services.services[1]).expect("it is a value");
        assert!(json["error"].as_str().is_some_and(|why| why.contains("/s/closed")), "{json}");
        assert_eq!(json.as_object().map(|row| row.len()), Some(2), "{json}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_path_is_an_answer() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let missing = Services::read(&client, "/none").await.expect_err("it is missing");
        let Ending::Status(crate::ending::Status::No, Some(why)) = missing else { panic!("{missing:?}") };
        assert!(why.contains("/none") && why.contains("check the path"), "{why}");
    }
}
