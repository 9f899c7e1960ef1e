//! A key distribution center in a container.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use testcontainers::core::IntoContainerPort;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};
use tokio::process::Command;
use tokio::sync::OnceCell;

use crate::support::runtime::{on_rig, on_rig_blocking};
use crate::support::{docker, eventually, leftovers};

const IMAGE: (&str, &str) = ("zookeeper-recipes-kdc", "1");
const PORT: u16 = 88;
const SOON: Duration = Duration::from_secs(30);

/// A KDC with a realm of its own; removed on drop.
#[derive(Debug)]
pub(crate) struct Kdc {
    container: Option<Arc<ContainerAsync<GenericImage>>>,
    pub(crate) realm: &'static str,
}

impl Kdc {
    /// Starts a KDC at a port of this machine. Its clock is off by `skew`, as libfaketime writes it.
    pub(crate) async fn start(realm: &'static str, port: u16, skew: Option<&'static str>) -> Kdc {
        let container = on_rig(async move {
            ensure_image().await;
            let mut request = GenericImage::new(IMAGE.0, IMAGE.1)
                .with_mapped_port(port, PORT.tcp())
                .with_labels(leftovers::labels())
                .with_copy_to("/etc/krb5.conf", configuration(realm).into_bytes());
            if let Some(skew) = skew {
                request = request.with_env_var("FAKETIME", skew);
            }
            request.start().await.unwrap_or_else(|error| panic!("no KDC starts: {error}"))
        });
        let kdc = Kdc { container: Some(Arc::new(container.await)), realm };
        let serves = "grep -q 'commencing operation' /tmp/kdc.log";
        eventually("the KDC serves", SOON, async || kdc.try_run(serves).await.is_ok()).await;
        kdc
    }

    /// Adds a principal, with options of `addprinc`, and returns a keytab with its key.
    pub(crate) async fn keytab_of(&self, principal: &str, options: &str) -> Vec<u8> {
        let script = format!(
            "{{ kadmin.local -q 'addprinc {options} -randkey {principal}' &&
                rm -f /tmp/keytab && kadmin.local -q 'ktadd -k /tmp/keytab {principal}'; }} >&2 && cat /tmp/keytab"
        );
        self.run(&script).await
    }

    /// Returns a ticket cache with a ticket for the principal of a keytab that [`Self::keytab_of`] has returned, and
    /// keeps the cache at `path` in the container. The ticket lasts for so many seconds.
    pub(crate) async fn ticket(&self, principal: &str, path: &str, seconds: u32) -> Vec<u8> {
        let script = format!(
            "kadmin.local -q 'ktadd -norandkey -k {path}.keytab {principal}' >&2 &&
             kinit -k -t {path}.keytab -l {seconds}s -c FILE:{path} {principal} >&2 && cat {path}"
        );
        self.run(&script).await
    }

    /// Waits until the ticket in a cache of the container has expired.
    pub(crate) async fn expires(&self, path: &str) {
        let check = format!("klist -s -c FILE:{path}");
        eventually("the ticket expires", SOON, async || self.try_run(&check).await.is_err()).await;
    }

    /// Returns how often the KDC has issued a ticket to `principal` for its key: not for another ticket.
    pub(crate) async fn issued(&self, principal: &str) -> usize {
        let script = format!("grep -c 'AS_REQ.*ISSUE.*{principal}@' /tmp/kdc.log || true");
        let count = String::from_utf8(self.run(&script).await).expect("a number");
        count.trim().parse().expect("a number")
    }

    /// Runs a script in the container and returns its output.
    pub(crate) async fn run(&self, script: &str) -> Vec<u8> {
        self.try_run(script).await.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    async fn try_run(&self, script: &str) -> Result<Vec<u8>, String> {
        let id = self.container.as_ref().expect("the container is there until drop").id();
        let output = Command::new("docker").args(["exec", id, "sh", "-c", script]).stdin(Stdio::null()).output().await;
        let output = output.map_err(|error| format!("docker does not start: {error}"))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
    }

    /// Freezes the KDC: connections are accepted, and nothing answers.
    pub(crate) async fn pause(&self) {
        let container = self.container.clone().expect("the container is there until drop");
        on_rig(async move { container.pause().await }).await.expect("the KDC pauses");
    }

    /// Ends a pause.
    pub(crate) async fn unpause(&self) {
        let container = self.container.clone().expect("the container is there until drop");
        on_rig(async move { container.unpause().await }).await.expect("the KDC goes on");
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        let Some(container) = self.container.take() else { return };
        let removal = async move {
            if let Some(container) = Arc::into_inner(container) {
                let _ = container.rm().await;
            }
        };
        on_rig_blocking(removal, SOON);
    }
}

/// The krb5.conf of the container.
fn configuration(realm: &str) -> String {
    format!(
        "[libdefaults]
         default_realm = {realm}
         dns_lookup_kdc = false
         dns_lookup_realm = false
         [realms]
         {realm} = {{
             kdc = 127.0.0.1:{PORT}
         }}
         [logging]
         kdc = FILE:/tmp/kdc.log
        "
    )
}

/// Builds the image, unless it is there.
async fn ensure_image() {
    static BUILT: OnceCell<()> = OnceCell::const_new();
    let build = async || {
        let docker = docker::engine().await;
        if docker.inspect_image(&format!("{}:{}", IMAGE.0, IMAGE.1)).await.is_ok() {
            return;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kdc/build.sh");
        let output = Command::new(&script).stdin(Stdio::null()).output().await;
        let output = output.unwrap_or_else(|error| panic!("{} does not start: {error}", script.display()));
        assert!(output.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&output.stderr));
    };
    BUILT.get_or_init(build).await;
}
