//! The requests by which a client authenticates.

use bytes::Bytes;

use super::jute::{Secret, record};
use super::request::request;

record! {
    /// Adds credentials to the connection. Sent with [`xid::AUTH`](super::xid::AUTH); a refusal ends the session.
    AuthRequest<'a> {
        /// Always 0; no server uses it.
        kind: i32,
        scheme: &'a str,
        auth: Secret<Option<&'a [u8]>>,
    }
}

record! {
    /// One step of a SASL exchange.
    SaslRequest<'a> { token: Secret<Option<&'a [u8]>> }
}

record! {
    SaslResponse { token: Secret<Option<Bytes>> }
}

request!(AuthRequest<'_> => Auth);
request!(SaslRequest<'_> => Sasl);
