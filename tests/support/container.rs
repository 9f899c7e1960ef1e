//! One container with a ZooKeeper server, on a host port that stays the same over stop and start.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use testcontainers::bollard::models::{EndpointSettings, NetworkConnectRequest, NetworkDisconnectRequest};
use testcontainers::bollard::query_parameters::{DownloadFromContainerOptionsBuilder, KillContainerOptionsBuilder};
use testcontainers::core::IntoContainerPort;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};
use tokio::net::lookup_host;

use super::runtime::{on_rig, on_rig_blocking};
use super::{docker, four_letter, leftovers, waiting};

const CLIENT_PORT: u16 = 2181;
const SERVING: Duration = Duration::from_secs(60);
const REMOVAL: Duration = Duration::from_secs(30);
const ATTEMPTS: usize = 5;

/// The configuration of a container.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub env: Vec<(String, String)>,
    /// The name of the container, under which others on its network find it.
    pub name: Option<String>,
    pub network: Option<String>,
    /// Path and content of files to be put into the container.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// Ports of the container that are reached from outside as well as the one for clients.
    pub ports: Vec<u16>,
}

/// A running (or stopped, or paused) server; removed on drop.
#[derive(Debug)]
pub struct Container {
    container: Option<Arc<ContainerAsync<GenericImage>>>,
    addr: SocketAddr,
    /// Further ports of the container, and where they are reached.
    others: Vec<(u16, SocketAddr)>,
}

impl Container {
    /// Starts a container; the server in it may not serve yet.
    pub async fn start(settings: Settings) -> Container {
        on_rig(async move {
            let (name, tag) = docker::image().await;
            let mut last = None;
            for _ in 0..ATTEMPTS {
                let port = free_port();
                let mut request = GenericImage::new(name.clone(), tag.clone())
                    .with_mapped_port(port, CLIENT_PORT.tcp())
                    .with_labels(leftovers::labels());
                for (key, value) in &settings.env {
                    request = request.with_env_var(key, value);
                }
                for (path, content) in &settings.files {
                    request = request.with_copy_to(*path, content.clone());
                }
                let others: Vec<(u16, u16)> = settings.ports.iter().map(|&inside| (inside, free_port())).collect();
                for &(inside, outside) in &others {
                    request = request.with_mapped_port(outside, inside.tcp());
                }
                if let Some(name) = &settings.name {
                    request = request.with_container_name(name);
                }
                if let Some(network) = &settings.network {
                    request = request.with_network(network);
                }
                match request.start().await {
                    Ok(container) => {
                        let host = host_of(&container).await;
                        let addr = SocketAddr::new(host, port);
                        let others = others.into_iter().map(|(inside, port)| (inside, SocketAddr::new(host, port)));
                        return Container { container: Some(Arc::new(container)), addr, others: others.collect() };
                    }
                    // Another process took the port in between: try the next one.
                    Err(error) if is_port_taken(&error) => last = Some(error),
                    Err(error) => panic!("no container of {name}:{tag} starts: {error:?}"),
                }
            }
            panic!("no container of {name}:{tag} gets a port: {last:?}")
        })
        .await
    }

    /// Where clients reach the server.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where a further port of the container is reached.
    pub fn addr_of(&self, port: u16) -> SocketAddr {
        let found = self.others.iter().find(|(inside, _)| *inside == port);
        found.unwrap_or_else(|| panic!("port {port} of the container was not asked for")).1
    }

    /// Runs `work` with the container, on the rig's runtime.
    async fn with<F, E>(&self, what: &'static str, work: impl FnOnce(Arc<ContainerAsync<GenericImage>>) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        let container = self.container.clone().expect("the container is there until drop");
        if let Err(error) = on_rig(work(container)).await {
            panic!("the container does not {what}: {error}");
        }
    }

    /// The names and contents of the server's transaction logs and snapshots.
    pub async fn logs(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = self.files("/datalog/version-2").await;
        files.extend(self.files("/data/version-2").await);
        files
    }

    /// The names and contents of the files in a directory of the container, also of one that is stopped.
    async fn files(&self, directory: &str) -> Vec<(String, Vec<u8>)> {
        let container = self.container.clone().expect("the container is there until drop");
        let options = DownloadFromContainerOptionsBuilder::new().path(directory).build();
        let archive = on_rig(async move {
            let archive = docker::engine().await.download_from_container(container.id(), Some(options));
            archive.map_ok(|chunk| chunk.to_vec()).try_concat().await
        });
        let archive = archive.await.unwrap_or_else(|error| panic!("{directory} is not read: {error}"));
        files_of(&archive)
    }

    /// Ends the server in good order; its data stays.
    pub async fn stop(&self) {
        self.with("stop", |it| async move { it.stop_with_timeout(Some(10)).await }).await;
    }

    /// Ends the server with SIGKILL; its data stays.
    pub async fn kill(&self) {
        self.with("die", |it| async move {
            let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
            docker::engine().await.kill_container(it.id(), Some(options)).await?;
            // The engine answers before it has noticed the end, and would not start the container again until
            // then.
            while it.is_running().await.unwrap_or(false) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok::<_, testcontainers::bollard::errors::Error>(())
        })
        .await;
    }

    /// Starts the stopped or killed server again, with its data and on its port.
    pub async fn start_again(&self) {
        self.with("start again", |it| async move { it.start().await }).await;
    }

    /// Freezes the server: its connections stay, nothing answers.
    pub async fn pause(&self) {
        self.with("pause", |it| async move { it.pause().await }).await;
    }

    /// Ends a pause.
    pub async fn unpause(&self) {
        self.with("resume", |it| async move { it.unpause().await }).await;
    }

    /// Attaches the container to a network, under `alias` when given.
    pub async fn join(&self, network: &str, alias: Option<&str>) {
        let network = network.to_owned();
        let endpoint_config = alias
            .map(|alias| EndpointSettings { aliases: Some(vec![alias.to_owned()]), ..EndpointSettings::default() });
        self.with("join a network", |it| async move {
            let request = NetworkConnectRequest { container: it.id().to_owned(), endpoint_config };
            docker::engine().await.connect_network(&network, request).await
        })
        .await;
    }

    /// Detaches the container from a network.
    pub async fn leave(&self, network: &str) {
        let network = network.to_owned();
        self.with("leave a network", |it| async move {
            let request = NetworkDisconnectRequest { container: it.id().to_owned(), force: Some(true) };
            docker::engine().await.disconnect_network(&network, request).await
        })
        .await;
    }

    /// Waits until the server answers as one that serves clients.
    pub async fn wait_until_serving(&self) {
        let what = format!("the server at {} serves", self.addr);
        waiting::eventually(&what, SERVING, || async { four_letter::mode(self.addr).await.is_some() }).await;
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let Some(container) = self.container.take() else {
            return;
        };
        on_rig_blocking(
            async move {
                // An operation that was cancelled half way may still hold it: then it is removed when that one
                // ends.
                if let Some(container) = Arc::into_inner(container) {
                    let _ = container.rm().await;
                }
            },
            REMOVAL,
        );
    }
}

/// The files in an archive of tar. Each has a header of 512 bytes, with its name, and its length in octal digits; its
/// contents are filled up to a multiple of that.
fn files_of(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    const BLOCK: usize = 512;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_matches([' ', '\0']).to_owned();
    let (mut files, mut rest) = (Vec::new(), archive);
    while let Some((header, contents)) = rest.split_at_checked(BLOCK) {
        let length = usize::from_str_radix(&text(&header[124..136]), 8).unwrap_or_default();
        let name = text(&header[..100]);
        if let Some((_, name)) = name.rsplit_once('/').filter(|(_, name)| !name.is_empty()) {
            files.push((name.to_owned(), contents.get(..length).expect("all of the file").to_vec()));
        }
        rest = contents.get(length.next_multiple_of(BLOCK)..).unwrap_or_default();
    }
    files
}

async fn host_of(container: &ContainerAsync<GenericImage>) -> IpAddr {
    let host = container.get_host().await.map_or_else(|_| "localhost".to_owned(), |host| host.to_string());
    if host == "localhost" {
        return Ipv4Addr::LOCALHOST.into();
    }
    let found = lookup_host((host.as_str(), CLIENT_PORT)).await.map(Vec::from_iter).unwrap_or_default();
    let address = found.iter().find(|addr| addr.is_ipv4()).or(found.first());
    address.unwrap_or_else(|| panic!("the Docker host {host} has no address")).ip()
}

fn is_port_taken(error: &testcontainers::TestcontainersError) -> bool {
    let text = format!("{error:?}");
    text.contains("already allocated") || text.contains("already in use")
}

/// A free port below those that the system gives to outgoing connections: while a server is stopped no
/// connection can take its port away.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    let mut given = GIVEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let given = given.get_or_insert_default();
    // Processes begin at different places.
    let begin = std::process::id().wrapping_mul(61) % u32::from(COUNT);
    for _ in 0..COUNT {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + u16::try_from((begin + step) % u32::from(COUNT)).expect("less than COUNT");
        if !given.contains(&port) && TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            given.insert(port);
            return port;
        }
    }
    panic!("no free port from {FIRST} on")
}
