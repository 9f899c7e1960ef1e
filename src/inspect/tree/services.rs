//! Decides which nodes are instances of services.

use super::found::{Content, Found};
use super::value::{Entry, Instance, Service, UnreadableInstance};
use crate::layout::service_discovery::Record;
use crate::util::path::{join, split};

/// Takes the instances in a directory, and all its other ephemeral nodes. `None` if there is no instance.
pub(super) fn service(found: &mut Found, path: &str) -> Option<Service> {
    let name = split(path).1;
    let instances = found.leaves(path, |node, content| instance_in(name, node, content).is_some());
    if instances.is_empty() {
        return None;
    }
    let others = found.leaves(path, |node, content| content.is_ephemeral() && !is_one_of(&instances, node));
    Some(Service {
        instances: taken(found, path, &instances).filter_map(|entry| instance(name, entry)).collect(),
        unreadable: taken(found, path, &others).map(|entry| unreadable(name, entry)).collect(),
    })
}

/// Returns the instance of a service in a node, if there is one.
pub(super) fn instance_in(service: &str, node: &str, content: &Content) -> Option<Record> {
    match content {
        Content::Read { data, .. } if !data.is_empty() => Record::of_node(service, node, data).ok(),
        _ => None,
    }
}

/// Takes these nodes of a directory.
fn taken(found: &mut Found, directory: &str, names: &[String]) -> impl Iterator<Item = Entry> {
    names.iter().filter_map(move |name| found.entry(join(directory, name)))
}

fn is_one_of(sorted: &[String], name: &str) -> bool {
    sorted.binary_search_by(|one| one.as_str().cmp(name)).is_ok()
}

/// Returns the instance in a node, or why there is none.
fn record(service: &str, entry: &Entry) -> Result<Record, String> {
    let data = entry.owner.as_ref().map(|owner| &owner.data[..]);
    Record::of_node(service, entry.name(), data.unwrap_or_default())
}

fn instance(service: &str, entry: Entry) -> Option<Instance> {
    let Record { id, address, port, ssl_port, service_type, enabled, .. } = record(service, &entry).ok()?;
    let (enabled, service_type) = (enabled != Some(false), service_type.unwrap_or_default());
    Some(Instance { id, address, port, ssl_port, enabled, service_type, entry })
}

fn unreadable(service: &str, entry: Entry) -> UnreadableInstance {
    let reason = record(service, &entry).err().unwrap_or_default();
    UnreadableInstance { reason, entry }
}
