//! Containers and networks of test runs that were killed before they could remove them. Each carries its
//! owner's process as a label; leftovers of an ended process on this machine are removed before the
//! first start.

use std::collections::HashMap;

use testcontainers::bollard::Docker;
use testcontainers::bollard::query_parameters::{
    ListContainersOptionsBuilder, ListNetworksOptionsBuilder, RemoveContainerOptionsBuilder,
};

/// The label of every container and network of the rig.
pub const LABEL: &str = "zookeeper-recipes.owner";

/// This process, as the label's value: host, process id and the time the process started.
pub fn owner() -> String {
    let pid = std::process::id();
    format!("{}/{pid}/{}", host(), started(pid).unwrap_or_default())
}

/// Removes what gone owners left. Failures are ignored: another process may be removing the same.
pub async fn remove(docker: &Docker) {
    let filters = HashMap::from([("label", vec![LABEL])]);
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
    let Some([host_of, pid, start]) = labels.get(LABEL).map(|owner| {
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

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// The start time of a process in the kernel's ticks: field 22, counted behind the command's closing bracket.
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(19).map(str::to_owned)
}
