//! ZooKeeper servers with a key of the realm.

use std::sync::{Arc, LazyLock, Weak};

use tokio::sync::Mutex;

use crate::realm::{Realm, SERVER};
use crate::support::ZooKeeper;
use crate::support::certificates::{Authority, Identity};
use crate::support::server::Builder;

/// Who signs for the servers, and for the clients that they take.
pub(crate) static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority::new("authority"));
static IDENTITY: LazyLock<Identity> = LazyLock::new(|| AUTHORITY.server(&["localhost"]));
/// The port for TLS.
pub(crate) const SECURE_PORT: u16 = 2281;
const PROVIDER: &str = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";

fn with_key(realm: &Realm) -> Builder {
    let name = realm.kdc.realm;
    // It only checks tickets: it needs no KDC, and so no ticket of its own.
    let jaas = format!(
        "Server {{
             com.sun.security.auth.module.Krb5LoginModule required
             useKeyTab=true storeKey=true useTicketCache=false isInitiator=false
             keyTab=\"/conf/zookeeper.keytab\"
             principal=\"{SERVER}@{name}\";
         }};
        "
    );
    let krb5 = format!("[libdefaults]\ndefault_realm = {name}\n[realms]\n{name} = {{\n}}\n");
    ZooKeeper::builder()
        .file("/conf/jaas.conf", jaas)
        .file("/conf/krb5.conf", krb5)
        .file("/conf/zookeeper.keytab", realm.server_keytab.clone())
        .jvm_flag("-Djava.security.auth.login.config=/conf/jaas.conf")
        .jvm_flag("-Djava.security.krb5.conf=/conf/krb5.conf")
        .config(format!("authProvider.1={PROVIDER}"))
}

/// The server that the tests of this process share. It takes clients without a user too.
pub(crate) async fn shared(realm: &Realm) -> Arc<ZooKeeper> {
    static SHARED: Mutex<Weak<ZooKeeper>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(of(realm).await);
    *shared = Arc::downgrade(&server);
    server
}

/// A server of this realm.
pub(crate) async fn of(realm: &Realm) -> ZooKeeper {
    with_key(realm).start().await
}

/// A server that takes users alone, that asks for the client's certificate on its port for TLS, and that leaves the
/// realm out of the names of users.
pub(crate) async fn with_tls(realm: &Realm) -> ZooKeeper {
    with_key(realm)
        .config("enforce.auth.enabled=true")
        .config("enforce.auth.schemes=sasl")
        .jvm_flag("-Dzookeeper.kerberos.removeRealmFromPrincipal=true")
        .jvm_flag("-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory")
        .port(SECURE_PORT)
        .config(format!("secureClientPort={SECURE_PORT}"))
        .file("/conf/server.pem", IDENTITY.key.clone() + &IDENTITY.certificate)
        .config("ssl.keyStore.location=/conf/server.pem")
        .config("ssl.keyStore.type=PEM")
        .file("/conf/authority.pem", AUTHORITY.pem.clone())
        .config("ssl.trustStore.location=/conf/authority.pem")
        .config("ssl.trustStore.type=PEM")
        .config("ssl.clientAuth=need")
        .start()
        .await
}
