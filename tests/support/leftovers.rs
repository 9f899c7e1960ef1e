//! Containers and networks of test runs that were killed before they could remove them. Each carries its
//! owner's process as a label; leftovers of an ended process on this machine are removed before the
//! first start. A script that runs the tests names its run, and removes what has the label of that run.

use std::collections::HashMap;

use testcontainers::bollard::Docker;
use testcontainers::bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
};

/// The label of every container and network of the rig.
const OWNER: &str = "zookeeper-recipes.owner";
/// The label of those of a run that a script has named, in the variable of the environment.
const RUN: (&str, &str) = ("zookeeper-recipes.run", "ZOOKEEPER_RECIPES_RUN");

/// The labels of every container and network that this process starts.
pub fn labels() -> HashMap<String, String> {
    let run = std::env::var(RUN.1).ok().map(|run| (RUN.0.to_owned(), run));
    run.into_iter().chain([(OWNER.to_owned(), owner())]).collect()
}

/// This process, as the label's value: host, process id and the time the process started.
fn owner() -> String {
    let pid = std::process::id();
    format!("{}/{pid}/{}", host(), started(pid).unwrap_or_default())
}

/// Removes what gone owners left. Failures are ignored: another process may be removing the same.
pub async fn remove(docker: &Docker) {
    let filters = HashMap::from([("label", vec![OWNER])]);
    let containers = ListContainersOptionsBuilder::new().all(true).filters(&filters).build();
    for container in docker.list_containers(Some(containers)).await.unwrap_or_default() {
        if let (Some(id), Some(labels)) = (container.id, container.labels)
            && is_gone(&labels)
        {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            let _ = docker.remove_container(&id, Some(options)).await;
        }
    }
    let networks = ListNetworksOptionsBuilder::new().filters(&filters).build();
    for network in docker.list_networks(Some(networks)).await.unwrap_or_default() {
        if let (Some(id), Some(labels)) = (network.id, network.labels)
            && is_gone(&labels)
        {
            let _ = docker.remove_network(&id).await;
        }
    }
}

fn is_gone(labels: &HashMap<String, String>) -> bool {
    let Some([host_of, pid, start]) = labels.get(OWNER).map(|owner| {
        let mut parts = owner.split('/');
        [(); 3].map(|()| parts.next().unwrap_or_default())
    }) else {
        return false;
    };
    // Of another host nothing is known; without a start time this machine has no /proc.
    host_of == host()
        && !start.is_empty()
        && pid.parse().is_ok_and(|pid| started(pid).is_none_or(|since| since != start))
}

/// The host, and the processes that this one sees there: in another container the same id is another process.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let processes = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", name.trim(), processes.display())
}

/// The start time of a process in the kernel's ticks: field 22, counted behind the command's closing bracket.
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(19).map(str::to_owned)
}
