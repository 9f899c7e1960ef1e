//! Stands for the options of TLS and SASL in a build without these features: there are none.

use std::sync::Arc;

use crate::client::Error;
use crate::engine::sasl::Credentials;
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

/// There is no option of SASL.
#[derive(Debug, Clone)]
pub(crate) enum Sasl {}

impl Sasl {
    pub(crate) fn credentials(&self) -> Credentials {
        match *self {}
    }
}
