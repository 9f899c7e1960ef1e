//! Shared by the tests of the client.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Observer, Proxy, ZooKeeper};
use zookeeper_recipes::{Client, ClientBuilder};

/// The session timeout of most tests.
pub(crate) const T: Duration = Duration::from_secs(4);
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) fn builder(connect_string: &str) -> ClientBuilder {
    Client::builder(connect_string).session_timeout(T).tick_time(Duration::from_millis(500))
}

/// A client behind a fault proxy, and a view from outside.
pub(crate) struct Fixture {
    pub(crate) server: Arc<ZooKeeper>,
    pub(crate) proxy: Proxy,
    pub(crate) client: Client,
    pub(crate) outside: Observer,
}

impl Fixture {
    pub(crate) async fn new() -> Fixture {
        Fixture::with(|builder| builder).await
    }

    pub(crate) async fn with(options: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Fixture {
        let server = ZooKeeper::shared().await;
        let proxy = Proxy::start(server.addr()).await;
        let client = options(builder(&proxy.connect_string())).connect().await.expect("connected");
        let outside = Observer::connect(&server.connect_string()).await;
        Fixture { server, proxy, client, outside }
    }
}
