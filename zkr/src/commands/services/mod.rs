//! Services: which instances are registered, and whether they accept work.

mod fields;
mod instances;
mod overview;
mod switch;

use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use serde_json::Value;
use zookeeper_recipes::Client;
use zookeeper_recipes::cache::{Content, Node};
use zookeeper_recipes::service_discovery::{Error, Service, ServiceDiscovery, ServiceInstance};

use super::failed;
use crate::connection::{LOOK, element, path_or_root};
use crate::ending::{Ending, Status};
use crate::output::{Output, shown};

pub use self::switch::Switch;

/// Changes within this time are shown as one.
const QUIET: Duration = Duration::from_millis(100);

/// Where services are.
#[derive(Args, Debug)]
pub struct Base {
    /// The path below which the services are
    #[arg(long, value_name = "PATH", default_value = "/services", value_parser = path_or_root)]
    pub path: String,
}

/// What is asked.
#[derive(Args, Debug)]
pub struct Options {
    /// The name of a service, to show its instances [default: show all services]
    #[arg(value_parser = element)]
    name: Option<String>,
    #[command(flatten)]
    base: Base,
    /// Print a line now and at each change of this service, until Ctrl-C or until the reader of the output closes it
    #[arg(long, requires = "name")]
    watch: bool,
}

impl Options {
    /// Returns whether only a signal ends it.
    pub fn is_endless(&self) -> bool {
        self.watch
    }
}

/// Shows all services, or one of them.
pub async fn show(client: &Client, output: Output, options: Options) -> Result<Ending, Ending> {
    let Options { name, base: Base { path }, watch } = options;
    match name {
        None => overview::show(client, output, &path).await,
        Some(name) if watch => instances::watch(client, output, &path, &name).await,
        Some(name) => instances::show(client, output, &path, &name).await,
    }
}

/// Reads a service. Payloads may be anything.
async fn read(client: &Client, path: &str, name: &str) -> Result<Service<Value>, Ending> {
    let discovery = ServiceDiscovery::new(client, path).map_err(of)?;
    let started = tokio::select! {
        started = discovery.service(name).start() => started,
        () = no_server(client) => {
            let why = format_args!("no server could be reached for {}", humantime::format_duration(LOOK));
            return Err(Ending::because(Status::Unreachable, why));
        }
    };
    let service = started.map_err(of)?;
    // It would look like a service without instances.
    match service.instances().snapshot().unlistable().next() {
        Some(path) => Err(Ending::failed(format_args!("{path} cannot be listed; check its ACL and --auth"))),
        None => Ok(service),
    }
}

/// Waits until there was no connection for long.
async fn no_server(client: &Client) {
    let mut states = client.connection_states();
    loop {
        let is_connected = client.connection_state().is_connected();
        tokio::select! {
            () = tokio::time::sleep(LOOK), if !is_connected => return,
            state = states.next() => if state.is_none() { return },
        }
    }
}

/// Returns the path of a node below another one.
fn below(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// Returns why a node cannot be read.
fn why_unreadable(node: &Node<ServiceInstance<Value>>) -> String {
    match node.content() {
        Content::Undecodable(data) => shown(&data.to_string()),
        Content::Denied => "no permission to read it; check its ACL and --auth".to_owned(),
        Content::Unreadable(error) => error.to_string(),
        _ => "it was not read".to_owned(),
    }
}

/// Returns the ending after a service could not be read.
fn of(error: Error) -> Ending {
    failed(error.kind(), error)
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};
    use zookeeper_recipes::testing::TestingServer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_long_outage_and_a_closed_client_end_the_wait_for_a_server() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let is_over = async |within| timeout(within, no_server(&client)).await.is_ok();
        assert!(!is_over(LOOK * 10).await, "it is connected");

        let disconnected = async || {
            let mut states = client.connection_states();
            server.refuse(&client);
            server.disconnect(&client);
            while client.connection_state().is_connected() {
                states.next().await;
            }
        };
        disconnected().await;
        let healed = async {
            sleep(LOOK / 2).await;
            server.heal();
        };
        let (is_over_after_a_short_one, ()) = tokio::join!(is_over(LOOK * 10), healed);
        assert!(!is_over_after_a_short_one);
        assert!(client.connection_state().is_connected());

        disconnected().await;
        assert!(!is_over(LOOK - Duration::from_millis(1)).await);
        assert!(is_over(LOOK + Duration::from_millis(1)).await);
        server.heal();
        server.until(|| client.connection_state().is_connected()).await;

        let closed = async {
            sleep(LOOK * 2).await;
            client.close().await.expect("it is closed");
        };
        let (is_over_after_a_close, _) = tokio::join!(is_over(LOOK * 10), closed);
        assert!(is_over_after_a_close);
    }
}
