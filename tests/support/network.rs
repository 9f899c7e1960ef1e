//! The network between the servers of an ensemble.

use std::time::Duration;

use testcontainers::bollard::models::NetworkCreateRequest;

use super::runtime::{on_rig, on_rig_blocking};
use super::{docker, leftovers};

const REMOVAL: Duration = Duration::from_secs(10);

/// A network, removed on drop; the containers on it must be gone by then.
#[derive(Debug)]
pub struct Network {
    name: String,
}

impl Network {
    /// Creates a network.
    pub async fn create(name: String) -> Network {
        on_rig(async move {
            let labels = Some(leftovers::labels());
            let request = NetworkCreateRequest { name: name.clone(), labels, ..NetworkCreateRequest::default() };
            if let Err(error) = docker::engine().await.create_network(request).await {
                panic!("the network {name} cannot be created: {error}");
            }
            Network { name }
        })
        .await
    }

    /// The network's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        on_rig_blocking(
            async move {
                let _ = docker::engine().await.remove_network(&name).await;
            },
            REMOVAL,
        );
    }
}
