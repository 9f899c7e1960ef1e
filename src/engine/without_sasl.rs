//! Replaces SASL in a build without its feature: there are no credentials, so no client authenticates by it.

use std::convert::Infallible;

/// No value exists.
#[derive(Debug, Clone)]
pub(crate) enum Credentials {}

impl Credentials {
    pub(crate) fn begin(&self) -> DigestMd5 {
        match *self {}
    }
}

/// An authentication, which is never begun.
pub(crate) enum DigestMd5 {}

impl DigestMd5 {
    pub(crate) fn first(&self) -> Vec<u8> {
        match *self {}
    }

    pub(crate) fn step(&mut self, _token: Option<&[u8]>) -> Result<Step, Infallible> {
        match *self {}
    }
}

/// What to do after a token of the server.
pub(crate) enum Step {
    Respond(Vec<u8>),
    Done,
}
