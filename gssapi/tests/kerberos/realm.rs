//! The realm of most tests, and the krb5.conf of this process, which knows further ones.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Weak};

use tokio::sync::Mutex;

use crate::kdc::Kdc;
use crate::support::container::free_port;
use crate::support::waiting::unique_suffix;

/// The realm of most tests.
pub(crate) const REALM: &str = "EXAMPLE.TEST";
/// A realm whose KDC has another clock.
pub(crate) const SKEWED: &str = "SKEWED.TEST";
/// A realm whose KDC pauses.
pub(crate) const PAUSED: &str = "PAUSED.TEST";
/// A realm whose KDC is never there.
pub(crate) const DOWN: &str = "DOWN.TEST";
/// The principal of the servers, without its realm. The proxies listen at an address with this name.
pub(crate) const SERVER: &str = "zookeeper/localhost";

/// Where the KDCs of this process are: krb5.conf is written once, and they come and go.
static PORT: LazyLock<u16> = LazyLock::new(free_port);
static SKEWED_PORT: LazyLock<u16> = LazyLock::new(free_port);
static PAUSED_PORT: LazyLock<u16> = LazyLock::new(free_port);

/// A KDC with the principals of the tests, and their keytabs.
#[derive(Debug)]
pub(crate) struct Realm {
    pub(crate) kdc: Kdc,
    /// The key of the servers.
    pub(crate) server_keytab: Vec<u8>,
    directory: PathBuf,
}

impl Realm {
    /// The realm that the tests of this process share; the last user's drop removes its KDC.
    pub(crate) async fn shared() -> Arc<Realm> {
        static SHARED: Mutex<Weak<Realm>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(realm) = shared.upgrade() {
            return realm;
        }
        let realm = Arc::new(Realm::start(REALM, *PORT, None).await);
        *shared = Arc::downgrade(&realm);
        realm
    }

    /// A realm whose KDC is an hour ahead.
    pub(crate) async fn skewed() -> Realm {
        Realm::start(SKEWED, *SKEWED_PORT, Some("+1h")).await
    }

    /// A realm for one test, which pauses its KDC.
    pub(crate) async fn paused() -> Realm {
        Realm::start(PAUSED, *PAUSED_PORT, None).await
    }

    async fn start(name: &'static str, port: u16, skew: Option<&'static str>) -> Realm {
        configure();
        let kdc = Kdc::start(name, port, skew).await;
        let server_keytab = kdc.keytab_of(SERVER, "").await;
        let directory = std::env::temp_dir().join(format!("zookeeper-recipes-{}", unique_suffix()));
        std::fs::create_dir(&directory).expect("a directory of its own");
        Realm { kdc, server_keytab, directory }
    }

    /// Adds a principal, with options of `addprinc`, and returns the path of its keytab. The name must be new.
    pub(crate) async fn keytab(&self, principal: &str, options: &str) -> PathBuf {
        self.file(&format!("{principal}.keytab"), &self.kdc.keytab_of(principal, options).await)
    }

    /// Puts a ticket of a principal into a cache of this name, and returns its path. The ticket lasts for so many
    /// seconds; [`Kdc::expires`] waits for the end of a ticket of this name.
    pub(crate) async fn cache(&self, name: &str, principal: &str, seconds: u32) -> PathBuf {
        self.file(name, &self.kdc.ticket(principal, &format!("/tmp/{name}"), seconds).await)
    }

    /// Writes a file, which is never seen half written.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let (path, new) = (self.directory.join(name), self.directory.join(format!("{name}.new")));
        std::fs::write(&new, content).expect("the file can be written");
        std::fs::rename(&new, &path).expect("the file can be replaced");
        path
    }
}

impl Drop for Realm {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The default ticket cache of this process.
pub(crate) fn default_cache() -> PathBuf {
    krb5_conf().with_file_name(format!("tickets-{}", std::process::id()))
}

/// Writes the krb5.conf of this process, before it uses Kerberos.
fn configure() {
    static WRITTEN: LazyLock<()> = LazyLock::new(|| {
        let path = krb5_conf();
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("the directory can be made");
        let (port, skewed, paused, down) = (*PORT, *SKEWED_PORT, *PAUSED_PORT, free_port());
        let content = format!(
            "[libdefaults]
             default_realm = {REALM}
             default_ccache_name = FILE:{}
             dns_lookup_kdc = false
             dns_lookup_realm = false
             udp_preference_limit = 1
             [realms]
             {REALM} = {{
                 kdc = 127.0.0.1:{port}
             }}
             {SKEWED} = {{
                 kdc = 127.0.0.1:{skewed}
             }}
             {PAUSED} = {{
                 kdc = 127.0.0.1:{paused}
             }}
             {DOWN} = {{
                 kdc = 127.0.0.1:{down}
             }}
            ",
            default_cache().display()
        );
        std::fs::write(path, content).expect("krb5.conf can be written");
    });
    LazyLock::force(&WRITTEN);
}

fn krb5_conf() -> PathBuf {
    let path = std::env::var("KRB5_CONFIG").expect("KRB5_CONFIG is set by .cargo/config.toml: run cargo in gssapi/");
    Path::new(&path).to_owned()
}
