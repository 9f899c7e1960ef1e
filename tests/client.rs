//! The client on a real server: sessions, states, retries, transactions, and what it says of bad input.
#![cfg(feature = "integration")]

mod support;

#[path = "client/ensemble_tracker.rs"]
mod ensemble_tracker;
#[path = "client/faults.rs"]
mod faults;
#[path = "client/input.rs"]
mod input;
#[path = "client/life.rs"]
mod life;
#[path = "client/outage.rs"]
mod outage;
#[path = "client/plain.rs"]
mod plain;
#[path = "client/unreachable.rs"]
mod unreachable;

use std::sync::Arc;
use std::time::Duration;

use support::{Observer, Proxy, ZooKeeper};
use zookeeper_recipes::{Client, ClientBuilder};

/// The session timeout of most tests.
const T: Duration = Duration::from_secs(4);
const SOON: Duration = Duration::from_secs(10);

fn builder(connect_string: &str) -> ClientBuilder {
    Client::builder(connect_string).session_timeout(T).tick_time(Duration::from_millis(500))
}

/// A client behind a fault proxy, and a view from outside.
struct Scene {
    server: Arc<ZooKeeper>,
    proxy: Proxy,
    client: Client,
    outside: Observer,
}

impl Scene {
    async fn new() -> Scene {
        Scene::with(|builder| builder).await
    }

    async fn with(options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Scene {
        let server = ZooKeeper::shared().await;
        let proxy = Proxy::start(server.addr()).await;
        let client = options(builder(&proxy.connect_string())).connect().await.expect("connected");
        let outside = Observer::connect(&server.connect_string()).await;
        Scene { server, proxy, client, outside }
    }
}
