//! The servers of these tests. The tests of this process share them; the last user's drop removes each.

use std::sync::{Arc, LazyLock, Weak};

use tokio::sync::Mutex;

use crate::support::certificates::{Authority, Identity};
use crate::support::server::Builder;
use crate::support::{Proxy, ZooKeeper};

/// Who signs for the servers, and for the clients that they take.
pub(crate) static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority::new("authority"));
/// The identity that the servers present.
pub(crate) static SERVER: LazyLock<Identity> = LazyLock::new(|| AUTHORITY.server(&[HOST]));
/// The host that the server's certificate is for: where the proxies listen.
const HOST: &str = "127.0.0.1";
/// The port for TLS.
const SECURE_PORT: u16 = 2281;
const USERS: &str = r#"Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_alice="wonder land"
    user_bob="builder";
};
"#;
const SASL_PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

/// A user of the servers and the password.
pub(crate) const ALICE: (&str, &str) = ("alice", "wonder land");
/// Another one.
pub(crate) const BOB: (&str, &str) = ("bob", "builder");

async fn shared(slot: &Mutex<Weak<ZooKeeper>>, builder: impl FnOnce() -> Builder) -> Arc<ZooKeeper> {
    let mut slot = slot.lock().await;
    if let Some(server) = slot.upgrade() {
        return server;
    }
    let server = Arc::new(builder().start().await);
    *slot = Arc::downgrade(&server);
    server
}

fn with_users() -> Builder {
    ZooKeeper::builder()
        .file("/conf/jaas.conf", USERS)
        .jvm_flag("-Djava.security.auth.login.config=/conf/jaas.conf")
        .config(format!("authProvider.1={SASL_PROVIDER}"))
}

/// A server that knows users, and takes clients without credentials too: in plain text on its usual port, and by TLS,
/// where it asks for the client's certificate, on another.
pub(crate) async fn open() -> Arc<ZooKeeper> {
    static SLOT: Mutex<Weak<ZooKeeper>> = Mutex::const_new(Weak::new());
    shared(&SLOT, || {
        with_users()
            .jvm_flag("-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory")
            .port(SECURE_PORT)
            .config(format!("secureClientPort={SECURE_PORT}"))
            .file("/conf/server.pem", SERVER.key.clone() + &SERVER.certificate)
            .config("ssl.keyStore.location=/conf/server.pem")
            .config("ssl.keyStore.type=PEM")
            .file("/conf/authority.pem", AUTHORITY.pem.clone())
            .config("ssl.trustStore.location=/conf/authority.pem")
            .config("ssl.trustStore.type=PEM")
            .config("ssl.clientAuth=need")
    })
    .await
}

/// A proxy before the TLS port of `server`.
pub(crate) async fn secure_port(server: &ZooKeeper) -> Proxy {
    let proxy = Proxy::start(server.addr_of(SECURE_PORT)).await;
    assert_eq!(proxy.addr().ip().to_string(), HOST);
    proxy
}

/// A server that accepts only its users.
pub(crate) async fn members_only() -> Arc<ZooKeeper> {
    static SLOT: Mutex<Weak<ZooKeeper>> = Mutex::const_new(Weak::new());
    shared(&SLOT, || with_users().config("enforce.auth.enabled=true").config("enforce.auth.schemes=sasl")).await
}
