//! Why an attempt to connect failed.

use std::io;
use std::time::Duration;

/// Why a connection cannot be used.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A later attempt may succeed.
    Connection(String),
    /// The server does not accept the credentials.
    Credentials(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Connection(super::connect::cause(&error))
    }
}

impl Failure {
    pub(crate) fn new(cause: impl Into<String>) -> Self {
        Failure::Connection(cause.into())
    }
}

/// Returns the failure of an attempt that has taken `limit`.
pub(crate) fn timed_out(limit: Duration) -> Failure {
    Failure::new(format!("timed out after {limit:?}"))
}
