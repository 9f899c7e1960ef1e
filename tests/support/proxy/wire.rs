//! The little of ZooKeeper's protocol that the proxy reads: frames, and the first fields in them.

use super::Session;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpCode {
    Create,
    Delete,
    Exists,
    GetData,
    SetData,
    GetChildren,
    Sync,
    Ping,
    GetChildren2,
    Check,
    Multi,
    Create2,
    CreateContainer,
    CreateTtl,
    SetWatches,
    CloseSession,
    Other(i32),
}

impl From<i32> for OpCode {
    fn from(code: i32) -> OpCode {
        match code {
            1 => OpCode::Create,
            2 => OpCode::Delete,
            3 => OpCode::Exists,
            4 => OpCode::GetData,
            5 => OpCode::SetData,
            8 => OpCode::GetChildren,
            9 => OpCode::Sync,
            11 => OpCode::Ping,
            12 => OpCode::GetChildren2,
            13 => OpCode::Check,
            14 => OpCode::Multi,
            15 => OpCode::Create2,
            19 => OpCode::CreateContainer,
            21 => OpCode::CreateTtl,
            101 => OpCode::SetWatches,
            -11 => OpCode::CloseSession,
            other => OpCode::Other(other),
        }
    }
}

pub(super) const CLOSE_SESSION: i32 = -11;

/// Longer frames no server accepts; a longer "length" is something else, such as a four-letter word.
const LONGEST: usize = 16 << 20;

/// A piece of a byte stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A whole frame, its length in the first four bytes.
    Frame(Vec<u8>),
    /// Bytes that are no frames.
    Raw(Vec<u8>),
}

/// Cuts a byte stream into frames, until it meets something that is none.
#[derive(Debug, Default)]
pub(super) struct Framer {
    rest: Vec<u8>,
    raw: bool,
}

impl Framer {
    /// Takes the next bytes of the stream.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next piece, if it is complete.
    pub(super) fn next(&mut self) -> Option<Piece> {
        if !self.raw {
            let length = usize::try_from(int(&self.rest, 0)?).ok().filter(|length| *length <= LONGEST);
            if let Some(length) = length {
                let whole = 4 + length;
                return (self.rest.len() >= whole).then(|| Piece::Frame(self.rest.drain(..whole).collect()));
            }
            self.raw = true;
        }
        (!self.rest.is_empty()).then(|| Piece::Raw(std::mem::take(&mut self.rest)))
    }

    /// The bytes left when the stream has ended.
    pub(super) fn finish(&mut self) -> Option<Piece> {
        (!self.rest.is_empty()).then(|| Piece::Raw(std::mem::take(&mut self.rest)))
    }
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Number and kind of the request in a frame.
pub(super) fn request(frame: &[u8]) -> Option<(i32, OpCode)> {
    Some((int(frame, 4)?, OpCode::from(int(frame, 8)?)))
}

/// The number of the request that the answer in a frame belongs to.
pub(super) fn answered(frame: &[u8]) -> Option<i32> {
    int(frame, 4)
}

/// The session in the first answer of a connection; its timeout is 0 when the server says that it has
/// expired.
pub(super) fn session(frame: &[u8]) -> Option<Session> {
    let timeout_ms = int(frame, 8)?;
    let id = long(frame, 12)?;
    let length = usize::try_from(int(frame, 20)?).ok()?;
    let password = frame.get(24..24usize.checked_add(length)?)?.to_vec();
    Some(Session { id, password, timeout_ms })
}

/// A frame that takes up a session on a new connection.
pub(super) fn connect_request(session: &Session) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(0_i32.to_be_bytes()); // the protocol's version
    body.extend(0_i64.to_be_bytes()); // the last change seen: none
    body.extend(session.timeout_ms.to_be_bytes());
    body.extend(session.id.to_be_bytes());
    body.extend(i32::try_from(session.password.len()).expect("a short password").to_be_bytes());
    body.extend(&session.password);
    body.push(0); // not read-only
    framed(&body)
}

/// A frame with a request that has no fields.
pub(super) fn bare_request(number: i32, code: i32) -> Vec<u8> {
    framed(&[number.to_be_bytes(), code.to_be_bytes()].concat())
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len()).expect("a short frame");
    [&length.to_be_bytes(), body].concat()
}
