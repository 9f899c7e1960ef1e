//! An ensemble that a connector reaches, and how its sessions are opened.

use std::fmt;
use std::sync::Arc;

use futures::future::FutureExt;
use tokio::sync::oneshot;

use super::connect::{Connector, Network};
use super::environment::Environment;
use super::error::Error;
use super::hosts::Hosts;
use super::lacking_operations::LackingOperations;
use super::observer::Observer;
use super::options::Options;
use super::request_limit::RequestLimit;
use super::session::{Opened, Task};
use super::tls;
use crate::util::mutex::Mutex;

/// An ensemble that a connector reaches.
#[derive(Clone)]
pub(crate) struct Ensemble {
    environment: Environment,
    /// What is wrong with the options.
    fault: Option<Error>,
}

impl fmt::Debug for Ensemble {
    // Credentials stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ensemble").field("servers", &self.servers()).finish_non_exhaustive()
    }
}

impl Ensemble {
    pub(crate) fn new(options: Options) -> Self {
        let endpoints = options.connect_string.endpoints();
        let encrypts = options.tls.is_some();
        let wants = endpoints.iter().find(|endpoint| endpoint.encrypted == Some(true) && !encrypts);
        let fault = wants.map(|endpoint| {
            let host = &endpoint.host;
            Error::BadArguments(format!("{host} must be reached over TLS, but no TLS options are given"))
        });
        let fault = fault.or_else(|| {
            let mut encrypted = endpoints.iter().filter(|endpoint| encrypts && endpoint.encrypted != Some(false));
            let unnamed = encrypted.find_map(|endpoint| tls::server_name(&endpoint.host).err());
            unnamed.map(|error| Error::BadArguments(error.to_string()))
        });
        let network = Network { tls: options.tls.clone() };
        Ensemble { fault, ..Self::with_connector(options, Arc::new(network)) }
    }

    pub(crate) fn with_connector(options: Options, connector: Arc<dyn Connector>) -> Self {
        let hosts = Hosts::new(options.connect_string.endpoints(), &*options.jitter);
        let request_limit = Arc::new(RequestLimit::new(options.max_request_bytes));
        let hosts = Arc::new(Mutex::new(hosts));
        let lacking = Arc::new(LackingOperations::default());
        let named = options.servers.clone();
        let environment = Environment { options: Arc::new(options), connector, hosts, request_limit, lacking, named };
        Ensemble { environment, fault: None }
    }

    /// Opens one session, however long it takes. Returns only permanent errors.
    pub(crate) fn open(
        &self,
        observer: Arc<dyn Observer>,
    ) -> impl Future<Output = Result<Opened, Error>> + Send + use<> {
        let Ensemble { environment, fault } = self.clone();
        async move {
            if let Some(fault) = fault {
                return Err(fault);
            }
            let (opened, outcome) = oneshot::channel();
            let spawn = Arc::clone(&environment.options.spawn);
            spawn(Task::new(environment, observer, opened).run().boxed());
            // If there is no answer, the runtime of the task has shut down.
            outcome.await.unwrap_or(Err(Error::SessionEnded))
        }
    }

    /// Returns the error of the latest attempt to connect to each server. Empty if there are none.
    pub(crate) fn causes(&self) -> String {
        self.environment.hosts.lock().causes()
    }

    /// Returns the connect string in its normal form.
    pub(crate) fn servers(&self) -> String {
        self.environment.options.connect_string.to_string()
    }

    /// Returns whether the connect string has a chroot. Its node may be missing.
    pub(crate) fn has_root(&self) -> bool {
        self.environment.options.connect_string.chroot().is_some()
    }
}
