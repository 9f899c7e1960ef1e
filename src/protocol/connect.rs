//! The handshake: the first frame in each direction.
//!
//! The read-only byte came with 3.4: older programs neither send nor expect it, so it may be absent at the end.

use super::jute::{Decode, Encode, Malformed, Reader, Secret, Writer};

/// Opens a session, or resumes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectRequest<'a> {
    pub(crate) protocol_version: i32,
    /// The last transaction that the client has seen. A server that lags behind it closes the connection.
    pub(crate) last_zxid_seen: i64,
    /// The session timeout asked for, in milliseconds.
    pub(crate) timeout: i32,
    /// 0 for a new session.
    pub(crate) session_id: i64,
    pub(crate) password: Secret<&'a [u8]>,
    /// Whether a read-only server is acceptable. `None`: the byte is absent.
    pub(crate) read_only: Option<bool>,
}

/// What the server granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectResponse {
    pub(crate) protocol_version: i32,
    /// The session timeout granted, in milliseconds; 0 if the session has expired.
    pub(crate) timeout: i32,
    pub(crate) session_id: i64,
    pub(crate) password: Secret<Vec<u8>>,
    /// Whether the server is read-only. `None`: the byte is absent.
    pub(crate) read_only: Option<bool>,
}

impl ConnectResponse {
    /// The protocol version in the answer of a ClickHouse Keeper server that has no leader and opens no session.
    pub(crate) const NO_LEADER: i32 = 42;

    /// Returns whether the server does not know the session or no longer knows it, or the password is wrong.
    pub(crate) fn is_expired(&self) -> bool {
        self.timeout <= 0
    }
}

impl Encode for ConnectRequest<'_> {
    fn encode(&self, to: &mut Writer<'_>) {
        to.int(self.protocol_version);
        to.long(self.last_zxid_seen);
        to.int(self.timeout);
        to.long(self.session_id);
        to.buffer(Some(self.password.0));
        encode_read_only(self.read_only, to);
    }
}

impl<'a> Decode<'a> for ConnectRequest<'a> {
    const MIN_LEN: usize = 28;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(ConnectRequest {
            protocol_version: named(from, "ConnectRequest.protocol_version")?,
            last_zxid_seen: named(from, "ConnectRequest.last_zxid_seen")?,
            timeout: named(from, "ConnectRequest.timeout")?,
            session_id: named(from, "ConnectRequest.session_id")?,
            password: Secret(named::<Option<&[u8]>>(from, "ConnectRequest.password")?.unwrap_or_default()),
            read_only: decode_read_only(from)?,
        })
    }
}

impl Encode for ConnectResponse {
    fn encode(&self, to: &mut Writer<'_>) {
        to.int(self.protocol_version);
        to.int(self.timeout);
        to.long(self.session_id);
        to.buffer(Some(&self.password.0));
        encode_read_only(self.read_only, to);
    }
}

impl<'a> Decode<'a> for ConnectResponse {
    const MIN_LEN: usize = 20;

    fn decode(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(ConnectResponse {
            protocol_version: named(from, "ConnectResponse.protocol_version")?,
            timeout: named(from, "ConnectResponse.timeout")?,
            session_id: named(from, "ConnectResponse.session_id")?,
            password: Secret(named::<Option<&[u8]>>(from, "ConnectResponse.password")?.unwrap_or_default().to_vec()),
            read_only: decode_read_only(from)?,
        })
    }
}

fn named<'a, T: Decode<'a>>(from: &mut Reader<'a>, field: &'static str) -> Result<T, Malformed> {
    from.field(field);
    T::decode(from)
}

fn encode_read_only(read_only: Option<bool>, to: &mut Writer<'_>) {
    if let Some(read_only) = read_only {
        to.bool(read_only);
    }
}

fn decode_read_only(from: &mut Reader<'_>) -> Result<Option<bool>, Malformed> {
    if from.left() == 0 { Ok(None) } else { from.bool().map(Some) }
}
