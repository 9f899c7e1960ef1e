//! The exchange on a new connection before it takes requests: opens or resumes the session, authenticates the client,
//! and restores the watches.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::authentication::Authentication;
use super::connect::Stream;
use super::failure::Failure;
use super::frames::{Frame, Frames};
use super::link::next_xid;
use crate::protocol::{
    AuthRequest, CloseSessionRequest, ConnectRequest, ConnectResponse, Decode, ErrorCode, PingRequest, Reader,
    ReplyHeader, SaslRequest, SaslResponse, Secret, WatcherEvent, encode_connect_request, encode_request, xid,
};
use crate::util::clock::{Clock, Instant};

/// An authentication by SASL takes a few rounds. All of them together may take as long as this many waits.
const SASL_WAITS: u32 = 4;
/// The longest response to a connect request. A peer that announces more does not speak ZooKeeper's protocol.
const LONGEST_CONNECT_RESPONSE: usize = 4 * 1024;

/// A session as the server knows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    /// 0 until the session is opened.
    pub(crate) id: i64,
    pub(crate) password: Secret<Vec<u8>>,
    /// The latest transaction that the client has seen.
    pub(crate) zxid: i64,
}

/// Returns whether the password is that of a session of ClickHouse Keeper, where all are zero.
pub(crate) fn is_of_keeper(password: &[u8]) -> bool {
    password.iter().all(|byte| *byte == 0)
}

/// Callbacks for answers and watch events that arrive during the handshake.
pub(crate) trait HandshakeEvents {
    /// An answer arrived.
    fn answered(&mut self);
    fn event(&mut self, event: WatcherEvent);
}

/// Returns whether this is how a read-only server refuses to open a session: by an error for a request, not by the
/// response to a connect request.
fn opens_no_session(answer: &Bytes) -> bool {
    let mut from = Reader::new(answer);
    ReplyHeader::decode(&mut from).is_ok_and(|header| header.err == ErrorCode::NotReadOnly && from.left() == 0)
}

/// A connection that takes no requests yet.
pub(crate) struct Handshake {
    pub(crate) frames: Frames,
    pub(crate) write: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) latest_xid: i32,
    pub(crate) latest_read: Instant,
    /// The server's address.
    pub(crate) address: Option<SocketAddr>,
    clock: Clock,
    limit: usize,
}

impl Handshake {
    /// Begins on a new connection. `limit` is the longest answer accepted once the session is open.
    pub(crate) fn new(stream: Stream, limit: usize, clock: Clock) -> Self {
        let frames = Frames::new(stream.read, LONGEST_CONNECT_RESPONSE);
        let Stream { write, address, .. } = stream;
        Handshake { frames, write, latest_xid: 0, latest_read: clock.now(), address, clock, limit }
    }

    /// Opens or resumes a session, on a server that only answers reads too if `read_only`. Calls `about_to` just before
    /// the request is written.
    pub(crate) async fn open_session(
        &mut self,
        identity: &Identity,
        timeout: Duration,
        read_only: bool,
        about_to: impl FnOnce(Instant),
    ) -> Result<ConnectResponse, Failure> {
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: identity.zxid,
            timeout: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: identity.id,
            password: Secret(&identity.password.0),
            read_only: Some(read_only),
        };
        let mut frame = BytesMut::new();
        encode_connect_request(&request, &mut frame).map_err(|error| Failure::new(error.to_string()))?;
        about_to(self.clock.now());
        self.write_all(&frame).await?;
        let Some(answer) = self.frames.receive_first().await? else {
            return Err(Failure::new(match identity.zxid {
                0 => "the server closed the connection during the handshake",
                _ => {
                    "the server closed the connection during the handshake: it is starting, stopping, or lagging behind"
                }
            }));
        };
        self.latest_read = self.clock.now();
        let Frame::Whole(answer) = answer else {
            return Err(Failure::new("the response to the handshake is not ZooKeeper's"));
        };
        if opens_no_session(&answer) {
            return Err(Failure::new(
                "the server is read-only, and opens no sessions: it has not localSessionsEnabled=true",
            ));
        }
        let answer = ConnectResponse::from_frame(&answer).map_err(|error| Failure::new(error.to_string()))?;
        if answer.read_only == Some(true) && !read_only {
            return Err(Failure::new("the server is read-only"));
        }
        if answer.protocol_version == ConnectResponse::NO_LEADER {
            return Err(Failure::new("the server is not serving: it has no leader"));
        }
        self.frames.limit = self.limit;
        Ok(answer)
    }

    /// Authenticates the client with all entries. The requests are sent together.
    pub(crate) async fn authenticate(
        &mut self,
        auths: &[(String, Vec<u8>)],
        patience: Duration,
        events: &mut impl HandshakeEvents,
    ) -> Result<(), Failure> {
        let mut frames = BytesMut::new();
        for (scheme, auth) in auths {
            let request = AuthRequest { kind: 0, scheme, auth: Secret(Some(auth)) };
            encode_request(xid::AUTH, &request, usize::MAX, &mut frames)
                .map_err(|error| Failure::Credentials(error.to_string()))?;
        }
        if frames.is_empty() {
            return Ok(());
        }
        self.send(&frames, patience).await?;
        for (scheme, _) in auths {
            let (header, _) = self.answer(xid::AUTH, patience, events).await?;
            if !header.err.is_ok() {
                return Err(Failure::Credentials(format!("the server refused the credentials of scheme {scheme}")));
            }
            events.answered();
        }
        Ok(())
    }

    /// Authenticates the client by SASL. `patience` limits each wait, for the server and for the mechanism, and
    /// [`SASL_WAITS`] of it limit the whole.
    pub(crate) async fn sasl(
        &mut self,
        authentication: Authentication,
        patience: Duration,
        events: &mut impl HandshakeEvents,
    ) -> Result<(), Failure> {
        let limit = patience * SASL_WAITS;
        let exchange = self.exchange_tokens(authentication, patience, events);
        tokio::time::timeout(limit, exchange)
            .await
            .unwrap_or_else(|_| Err(Failure::new(format!("the authentication by SASL was not over after {limit:?}"))))
    }

    async fn exchange_tokens(
        &mut self,
        mut authentication: Authentication,
        patience: Duration,
        events: &mut impl HandshakeEvents,
    ) -> Result<(), Failure> {
        loop {
            self.latest_xid = next_xid(self.latest_xid);
            let request = SaslRequest { token: Secret(Some(authentication.token())) };
            let mut frame = BytesMut::new();
            encode_request(self.latest_xid, &request, usize::MAX, &mut frame)
                .map_err(|error| Failure::new(error.to_string()))?;
            self.send(&frame, patience).await?;
            let (header, body) = self.answer(self.latest_xid, patience, events).await?;
            match header.err {
                ErrorCode::Ok => {}
                // The last is the answer of a server that knows no SASL.
                ErrorCode::AuthFailed | ErrorCode::SessionClosedRequireSaslAuth | ErrorCode::Unimplemented => {
                    return Err(authentication.refused());
                }
                code => return Err(Failure::new(format!("the server did not process the token of SASL ({code:?})"))),
            }
            events.answered();
            let answer = SaslResponse::from_frame(&body).map_err(|error| Failure::new(error.to_string()))?;
            if authentication.answered(answer.token.0.as_deref(), patience).await? {
                return Ok(());
            }
        }
    }

    /// Checks that the server serves this client: one that requires authentication refuses an unauthenticated ping.
    pub(crate) async fn ping(&mut self, patience: Duration, events: &mut impl HandshakeEvents) -> Result<(), Failure> {
        let mut frame = BytesMut::new();
        encode_request(xid::PING, &PingRequest {}, usize::MAX, &mut frame)
            .map_err(|error| Failure::new(error.to_string()))?;
        self.send(&frame, patience).await?;
        self.answer(xid::PING, patience, events).await?;
        events.answered();
        Ok(())
    }

    /// Asks the server to close the session that it opened, without waiting for an answer.
    pub(crate) async fn close(&mut self, patience: Duration) -> Result<(), Failure> {
        self.latest_xid = next_xid(self.latest_xid);
        let mut frame = BytesMut::new();
        encode_request(self.latest_xid, &CloseSessionRequest {}, usize::MAX, &mut frame)
            .map_err(|error| Failure::new(error.to_string()))?;
        self.send(&frame, patience).await
    }

    /// Restores the watches. Sends each request after the answer to the previous one.
    pub(crate) async fn restore(
        &mut self,
        requests: Vec<BytesMut>,
        patience: Duration,
        events: &mut impl HandshakeEvents,
    ) -> Result<(), Failure> {
        for request in requests {
            self.send(&request, patience).await?;
            let (header, _) = self.answer(xid::SET_WATCHES, patience, events).await?;
            if !header.err.is_ok() {
                return Err(Failure::new(format!("the server did not restore the watches ({:?})", header.err)));
            }
            events.answered();
        }
        Ok(())
    }

    async fn send(&mut self, frames: &[u8], patience: Duration) -> Result<(), Failure> {
        match tokio::time::timeout(patience, self.write_all(frames)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(Failure::new(silent(patience))),
        }
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write.write_all(bytes).await?;
        self.write.flush().await
    }

    /// Waits for the answer with this xid. Watch events may arrive before it. `patience` is how long the server may be
    /// silent.
    async fn answer(
        &mut self,
        expected: i32,
        patience: Duration,
        events: &mut impl HandshakeEvents,
    ) -> Result<(ReplyHeader, Bytes), Failure> {
        loop {
            let Ok(frame) = tokio::time::timeout(patience, self.frames.receive()).await else {
                return Err(Failure::new(silent(patience)));
            };
            let Some(frame) = frame? else {
                return Err(Failure::new("the server closed the connection"));
            };
            self.latest_read = self.clock.now();
            let Frame::Whole(frame) = frame else {
                return Err(Failure::new("an answer is longer than the limit"));
            };
            let malformed = |error: crate::protocol::Malformed| Failure::new(error.to_string());
            let mut from = Reader::new(&frame);
            let header = ReplyHeader::decode(&mut from).map_err(malformed)?;
            // Such a server also answers a token that it refuses with this.
            let is_refused_token = expected > 0 && header.xid == expected;
            if header.err == ErrorCode::SessionClosedRequireSaslAuth && !is_refused_token {
                return Err(Failure::Credentials("the server serves only authenticated clients".to_owned()));
            }
            match header.xid {
                xid::NOTIFICATION => events.event(WatcherEvent::decode(&mut from).map_err(malformed)?),
                xid::AUTH if expected != xid::AUTH && header.err == ErrorCode::AuthFailed => {
                    return Err(Failure::Credentials("the server refused the credentials".to_owned()));
                }
                xid if xid == expected => return Ok((header, from.rest())),
                xid => return Err(Failure::new(format!("the server answered request {xid}, which was not sent"))),
            }
        }
    }
}

/// Returns the error text for a server that was silent for `patience`.
pub(super) fn silent(patience: Duration) -> String {
    format!("no answer for {patience:?}")
}
