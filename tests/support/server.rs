//! One ZooKeeper server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;

use super::container::{Container, Settings};
use super::four_letter;

/// One server in a container, removed on drop.
#[derive(Debug)]
pub struct ZooKeeper {
    container: Container,
}

/// Settings of a server that is to be started.
#[derive(Clone, Debug)]
pub struct Builder {
    tick: Duration,
    config: Vec<String>,
    jvm_flags: Vec<String>,
    files: Vec<(&'static str, Vec<u8>)>,
    ports: Vec<u16>,
    words: String,
}

impl Builder {
    pub(super) fn new() -> Builder {
        let config = [
            "minSessionTimeout=500",
            "maxSessionTimeout=60000",
            "extendedTypesEnabled=true", // nodes with a time to live
            "forceSync=no",              // a test's data need not survive a power cut
            "preAllocSize=4096",
        ];
        let jvm_flags = ["-Dznode.container.checkIntervalMs=500"]; // when empty containers are removed
        Builder {
            tick: Duration::from_millis(500),
            config: config.map(str::to_owned).into(),
            jvm_flags: jvm_flags.map(str::to_owned).into(),
            files: Vec::new(),
            ports: Vec::new(),
            words: "*".to_owned(),
        }
    }

    /// The server's tick; session timeouts are watched in steps of it. 500 ms by default.
    #[must_use]
    pub fn tick_time(mut self, tick: Duration) -> Builder {
        self.tick = tick;
        self
    }

    /// A further line of `zoo.cfg` without spaces; it wins over an earlier one of the same key.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Builder {
        self.config.push(line.into());
        self
    }

    /// A further argument of the Java virtual machine.
    #[must_use]
    pub fn jvm_flag(mut self, flag: impl Into<String>) -> Builder {
        self.jvm_flags.push(flag.into());
        self
    }

    /// A file in the container.
    #[must_use]
    pub fn file(mut self, path: &'static str, content: impl Into<Vec<u8>>) -> Builder {
        self.files.push((path, content.into()));
        self
    }

    /// A further port of the container to be reached from outside; see [`ZooKeeper::addr_of`].
    #[must_use]
    pub fn port(mut self, port: u16) -> Builder {
        self.ports.push(port);
        self
    }

    /// The four-letter words that the server permits, separated by commas. All by default; the rig itself needs `srvr`.
    #[must_use]
    pub fn four_letter_words(mut self, words: impl Into<String>) -> Builder {
        self.words = words.into();
        self
    }

    /// The settings as the image takes them.
    pub(super) fn settings(&self) -> Settings {
        let env = [
            ("ZOO_TICK_TIME", self.tick.as_millis().to_string()),
            ("ZOO_MAX_CLIENT_CNXNS", "0".to_owned()),
            ("ZOO_4LW_COMMANDS_WHITELIST", self.words.clone()),
            ("ZOO_ADMINSERVER_ENABLED", "false".to_owned()),
            ("ZOO_CFG_EXTRA", self.config.join(" ")),
            ("JVMFLAGS", self.jvm_flags.join(" ")),
        ];
        Settings {
            env: env.map(|(key, value)| (key.to_owned(), value)).into(),
            files: self.files.clone(),
            ports: self.ports.clone(),
            ..Settings::default()
        }
    }

    /// Starts the server and waits until it serves.
    pub async fn start(self) -> ZooKeeper {
        let container = Container::start(self.settings()).await;
        container.wait_until_serving().await;
        ZooKeeper { container }
    }
}

impl ZooKeeper {
    /// Starts a server with the settings of the tests and waits until it serves.
    pub async fn start() -> ZooKeeper {
        Builder::new().start().await
    }

    /// For a server with other settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The server that the tests of this process share; the last user's drop removes it. Not to be stopped or
    /// paused.
    pub async fn shared() -> Arc<ZooKeeper> {
        static SHARED: Mutex<Weak<ZooKeeper>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(ZooKeeper::start().await);
        *shared = Arc::downgrade(&server);
        server
    }

    /// Where clients reach the server.
    pub fn addr(&self) -> SocketAddr {
        self.container.addr()
    }

    /// Where a further port of the container, given to the builder, is reached.
    pub fn addr_of(&self, port: u16) -> SocketAddr {
        self.container.addr_of(port)
    }

    /// The address as a connect string.
    pub fn connect_string(&self) -> String {
        self.addr().to_string()
    }

    /// The names and contents of its transaction logs and snapshots.
    pub async fn logs(&self) -> Vec<(String, Vec<u8>)> {
        self.container.logs().await
    }

    /// Ends the server in good order; data and port stay.
    pub async fn stop(&self) {
        self.container.stop().await;
    }

    /// Ends the server with SIGKILL; data and port stay.
    pub async fn kill(&self) {
        self.container.kill().await;
    }

    /// Starts the stopped or killed server again and waits until it serves.
    pub async fn start_again(&self) {
        self.container.start_again().await;
        self.wait_until_serving().await;
    }

    /// Stops the server and starts it again.
    pub async fn restart(&self) {
        self.stop().await;
        self.start_again().await;
    }

    /// Freezes the server: connections stay, nothing answers.
    pub async fn pause(&self) {
        self.container.pause().await;
    }

    /// Ends a pause.
    pub async fn unpause(&self) {
        self.container.unpause().await;
    }

    /// The answer to a four-letter word; panics when there is none.
    pub async fn four_letter(&self, word: &str) -> String {
        let answer = four_letter::ask(self.addr(), word).await;
        answer.unwrap_or_else(|error| panic!("no answer to {word} from {}: {error}", self.addr()))
    }

    /// The answer to `mntr`, key by key; panics when there is none.
    pub async fn mntr(&self) -> HashMap<String, String> {
        let answer = four_letter::mntr(self.addr()).await;
        answer.unwrap_or_else(|error| panic!("no answer to mntr from {}: {error}", self.addr()))
    }

    /// Waits until the server serves clients.
    pub async fn wait_until_serving(&self) {
        self.container.wait_until_serving().await;
    }
}
