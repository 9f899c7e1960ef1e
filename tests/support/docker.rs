//! The Docker engine and the image of the server.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures::StreamExt;
use testcontainers::bollard::Docker;
use testcontainers::bollard::query_parameters::CreateImageOptionsBuilder;
use testcontainers::core::client::docker_client_instance;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::leftovers;

const DEFAULT_IMAGE: &str = "zookeeper:3.9";
/// A registry behind a wall may leave the engine waiting.
const PULL_STEP: Duration = Duration::from_secs(60);
/// Builds the image, from the root of the repository.
const BUILD: &str = "tests/image/build.sh";

/// A client of the Docker engine; panics with what to do when there is no engine.
///
/// Only called on the rig's runtime: the client's connections belong to it.
pub async fn engine() -> Docker {
    static ENGINE: OnceCell<Docker> = OnceCell::const_new();
    let connected = ENGINE.get_or_try_init(|| async {
        let docker = docker_client_instance().await.map_err(|error| error.to_string())?;
        docker.ping().await.map_err(|error| error.to_string())?;
        leftovers::remove(&docker).await;
        Ok::<_, String>(docker)
    });
    match connected.await {
        Ok(docker) => docker.clone(),
        Err(error) => panic!(
            "the integration tests need a Docker engine: `apt-get install docker.io` and start `dockerd`, \
             or set DOCKER_HOST ({error})"
        ),
    }
}

/// Name and tag of the server's image, which is there when this returns: found, pulled, or built if it is the default.
pub async fn image() -> (String, String) {
    // A failure is kept as well: the next test would not fare better.
    static IMAGE: OnceCell<Result<(String, String), String>> = OnceCell::const_new();
    match IMAGE.get_or_init(find_image).await {
        Ok(image) => image.clone(),
        Err(error) => panic!("{error}"),
    }
}

async fn find_image() -> Result<(String, String), String> {
    let docker = engine().await;
    let (name, tag) = split(&std::env::var("ZOOKEEPER_IMAGE").unwrap_or_else(|_| DEFAULT_IMAGE.to_owned()));
    let image = format!("{name}:{tag}");
    if !exists(&docker, &image).await {
        // One process fetches it, the others wait and find it.
        let _lock = lock().await;
        if !exists(&docker, &image).await
            && let Err(error) = pull(&docker, &name, &tag).await
        {
            if image != DEFAULT_IMAGE {
                return Err(format!(
                    "{image}, which ZOOKEEPER_IMAGE names, is not there and cannot be pulled: {error}"
                ));
            }
            eprintln!("{image} cannot be pulled ({error}): building it from tests/image");
            build(&image).await?;
        }
    }
    Ok((name, tag))
}

/// `name[:tag]`, where a registry's port is no tag.
fn split(image: &str) -> (String, String) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name.to_owned(), tag.to_owned()),
        _ => (image.to_owned(), "latest".to_owned()),
    }
}

async fn exists(docker: &Docker, image: &str) -> bool {
    docker.inspect_image(image).await.is_ok()
}

async fn pull(docker: &Docker, name: &str, tag: &str) -> Result<(), String> {
    let options = CreateImageOptionsBuilder::new().from_image(name).tag(tag).build();
    let mut progress = docker.create_image(Some(options), None, None);
    loop {
        match timeout(PULL_STEP, progress.next()).await {
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(error))) => return Err(error.to_string()),
            Ok(None) => return Ok(()),
            Err(_) => return Err(format!("no progress in {PULL_STEP:?}")),
        }
    }
}

async fn build(image: &str) -> Result<(), String> {
    // These sources are also a part of the tests of members of the workspace.
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|directory| directory.join(BUILD));
    let script = above.find(|script| script.exists()).ok_or_else(|| format!("there is no {BUILD}"))?;
    let output = Command::new(&script).arg(image).stdin(Stdio::null()).output().await;
    let output = output.map_err(|error| format!("{} does not start: {error}", script.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} could not build {image}:\n{}", script.display(), errors.trim_end()))
}

/// A lock between the test processes of this machine; the file closes, and the lock ends, on drop.
async fn lock() -> File {
    let path = std::env::temp_dir().join("zookeeper-recipes-image.lock");
    let locked = tokio::task::spawn_blocking(move || {
        let file = File::options().create(true).append(true).open(&path)?;
        file.lock()?;
        Ok::<_, std::io::Error>(file)
    });
    locked.await.expect("locking does not panic").expect("the lock file of the image can be locked")
}
