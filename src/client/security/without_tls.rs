//! Stands for the options of TLS in a build without that feature: there are none.

use std::sync::Arc;

use crate::client::Error;
use crate::engine::tls::ClientConfig;

/// There is no option of TLS.
#[derive(Debug, Clone)]
pub(crate) enum Tls {}

impl Tls {
    pub(crate) fn check(&self) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>, Error> {
        match *self {}
    }
}
