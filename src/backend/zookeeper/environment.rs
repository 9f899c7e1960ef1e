//! What all sessions of an ensemble share.

use std::sync::Arc;

use super::Options;
use super::connect::Connector;
use super::hosts::{Hosts, Notice};
use crate::backend::request_limit::RequestLimit;
use crate::util::clock::Instant;
use crate::util::mutex::Mutex;

/// The shared state of an ensemble's sessions: the options they are opened with, and the hosts that they try.
#[derive(Clone)]
pub(crate) struct Environment {
    pub(crate) options: Arc<Options>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) hosts: Arc<Mutex<Hosts>>,
    pub(crate) request_limit: Arc<RequestLimit>,
}

impl Environment {
    pub(crate) fn now(&self) -> Instant {
        self.options.clock.now()
    }

    pub(crate) fn failed(&self, host: usize, cause: String) {
        let notice = self.hosts.lock().failed(host, cause, self.now(), (self.options.jitter)());
        log(notice);
    }

    /// A connection to this host answered more than the handshake.
    pub(crate) fn works(&self, host: usize) {
        let notice = self.hosts.lock().works(host, self.now());
        log(notice);
    }
}

fn log(notice: Option<Notice>) {
    match notice {
        Some(Notice::Begins { causes }) => {
            tracing::warn!(event = "outage_began", causes, "no ZooKeeper server can be reached");
        }
        Some(Notice::GoesOn { causes, tries, lasting }) => {
            tracing::warn!(
                event = "outage_continues",
                causes,
                tries,
                ?lasting,
                "still no ZooKeeper server can be reached"
            );
        }
        Some(Notice::Over { host, tries, lasted }) => {
            tracing::warn!(event = "outage_ended", %host, tries, ?lasted, "a ZooKeeper server can be reached again");
        }
        None => {}
    }
}
