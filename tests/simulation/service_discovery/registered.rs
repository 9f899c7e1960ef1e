//! A registration, and what it is to have on the servers.

use std::sync::Arc;
use std::time::SystemTime;

use zookeeper_recipes::persistent_node::NodeState;
use zookeeper_recipes::service_discovery::{Error, Registration, ServiceInstance, ServiceType};
use zookeeper_recipes::testing::Task;

use super::ledger::Written;

/// The state of a registration.
pub(super) enum Life {
    Registering(Task<Result<Registration<String>, Error>>),
    Registered(Arc<Registration<String>>),
    /// A call of `unregister` is under way.
    Unregistering(Task<Result<(), Error>>),
}

/// One registration. Its payload is its number and a version, so that no two have the same.
pub(super) struct Entry {
    pub(super) number: usize,
    pub(super) client: usize,
    pub(super) service: &'static str,
    pub(super) id: String,
    pub(super) service_type: ServiceType,
    /// It waits while another session has the id.
    pub(super) waits: bool,
    pub(super) version: usize,
    pub(super) is_enabled: bool,
    pub(super) life: Life,
    /// Calls of `update` and `set_enabled` that are under way.
    pub(super) setting: Vec<Task<Result<(), Error>>>,
}

impl Entry {
    /// Returns the instance, which counts.
    pub(super) fn instance(&self) -> ServiceInstance<String> {
        let Entry { number, service, ref id, service_type, version, is_enabled, .. } = *self;
        described(number, service, id, service_type, format!("{number}.{version}"), is_enabled)
    }

    /// Returns what its node is to have.
    pub(super) fn written(&self) -> Written {
        Written { payload: format!("{}.{}", self.number, self.version), is_enabled: self.is_enabled }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.life, Life::Registering(_) | Life::Registered(_))
    }

    pub(super) fn registration(&self) -> Option<&Arc<Registration<String>>> {
        match &self.life {
            Life::Registered(registration) => Some(registration),
            Life::Registering(_) | Life::Unregistering(_) => None,
        }
    }

    pub(super) fn is_present(&self) -> bool {
        self.registration().is_some_and(|registration| registration.state().get() == NodeState::Present)
    }

    /// Ends the calls that are under way.
    pub(super) fn abort(&mut self) {
        self.setting.iter_mut().for_each(Task::abort);
        match &mut self.life {
            Life::Registering(task) => task.abort(),
            Life::Registered(_) => {}
            Life::Unregistering(task) => task.abort(),
        }
    }

    /// Checks that an instance for whose id others compete waits while another one has it.
    pub(super) fn check_waiting(&self) -> Result<(), String> {
        let Entry { number, waits, .. } = self;
        match self.registration().map(|registration| registration.state().get()) {
            Some(NodeState::Waiting) => Ok(()),
            None if *waits => Ok(()),
            None => Err(format!("{number} is still registering, and does not wait")),
            Some(state) => Err(format!("{number} is {state}, and another one has its id")),
        }
    }

    /// Checks that its node has what it is to have, if it is read.
    pub(super) fn check_node(&self, node: Option<&Written>) -> Result<(), String> {
        let Entry { number, setting, .. } = self;
        if !self.is_present() {
            let state = self.registration().map(|registration| registration.state().get());
            return Err(format!("{number} has its id, but is {state:?}"));
        }
        if !setting.is_empty() {
            return Err(format!("{} calls of {number} have not returned", setting.len()));
        }
        match node {
            Some(node) if *node != self.written() => {
                Err(format!("the node of {number} has {node:?}, not {:?}", self.written()))
            }
            _ => Ok(()),
        }
    }
}

/// Returns an instance that is the same in each run.
pub(super) fn described(
    number: usize,
    service: &str,
    id: &str,
    service_type: ServiceType,
    payload: String,
    is_enabled: bool,
) -> ServiceInstance<String> {
    let instance = ServiceInstance::builder(service).id(id).service_type(service_type).payload(payload);
    let instance = instance.address("10.0.0.1").port(80 + number as u16).registration_time(SystemTime::UNIX_EPOCH);
    instance.enabled(is_enabled).build().expect("a good instance")
}
