//! Why a request failed.

use super::request_limit::TooLarge;
use crate::protocol::OpCode;

/// Why a request failed, or a session could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Error {
    /// The session is not connected: the request was not sent and never will be.
    NotConnected,
    /// The connection broke before the reply: the request may have been carried out.
    ConnectionLoss,
    /// The session has ended: it expired, was closed, or was given up.
    SessionEnded,
    /// No server could be reached; the text has the error of each. Only returned when a session is opened.
    Unreachable(String),
    /// The server refused the credentials of the session.
    AuthFailed,
    NoNode,
    /// The chroot of the connect string does not exist.
    NoRoot,
    NodeExists,
    NotEmpty,
    BadVersion,
    NoAuth,
    NoChildrenForEphemerals,
    InvalidAcl,
    QuotaExceeded,
    /// The server is overloaded and did not process the request.
    Throttled,
    /// The servers do not support the operation.
    Unimplemented(OpCode),
    /// The server (or the check before it) rejected the arguments.
    BadArguments(String),
    /// The request was not sent: the servers seem to close the connection on requests of this length.
    TooLarge(TooLarge),
    /// The answer is longer than the client accepts. The request may have been carried out.
    AnswerTooLong {
        length: usize,
        limit: usize,
    },
    /// The answer cannot be decoded. The request may have been carried out.
    Undecodable(String),
    /// The server, or this client, only reads. Nothing was done.
    ReadOnly,
    /// The server refused the request for the reason in the text. Nothing was done.
    Refused(String),
    /// Any other error; the text says what. The request may have been carried out.
    Other(String),
}

impl Error {
    /// Returns whether a retry may succeed once there is a connection again.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Error::NotConnected | Error::ConnectionLoss | Error::SessionEnded | Error::Throttled)
    }

    /// Returns the name of the error in the metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Error::NotConnected => "not_connected",
            Error::ConnectionLoss => "connection_loss",
            Error::SessionEnded => "session_ended",
            Error::Unreachable(_) => "unreachable",
            Error::AuthFailed => "auth_failed",
            Error::NoNode => "no_node",
            Error::NoRoot => "no_root",
            Error::NodeExists => "node_exists",
            Error::NotEmpty => "not_empty",
            Error::BadVersion => "bad_version",
            Error::NoAuth => "no_auth",
            Error::NoChildrenForEphemerals => "no_children_for_ephemerals",
            Error::InvalidAcl => "invalid_acl",
            Error::QuotaExceeded => "quota_exceeded",
            Error::Throttled => "throttled",
            Error::Unimplemented(_) => "unimplemented",
            Error::BadArguments(_) => "bad_arguments",
            Error::TooLarge(_) => "too_large",
            Error::AnswerTooLong { .. } => "answer_too_long",
            Error::Undecodable(_) => "undecodable",
            Error::ReadOnly => "read_only",
            Error::Refused(_) => "refused",
            Error::Other(_) => "other",
        }
    }

    /// Returns whether a write that failed with this error may have been carried out.
    pub(crate) fn leaves_outcome_unknown(&self) -> bool {
        matches!(self, Error::ConnectionLoss | Error::SessionEnded | Error::Other(_)) || self.is_unread()
    }

    /// Returns whether an answer arrived that the client could not read.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self, Error::AnswerTooLong { .. } | Error::Undecodable(_))
    }

    /// Returns whether this is the ensemble's own verdict on the request, which proves a working connection. Errors
    /// that the client can create itself do not count.
    pub(crate) fn is_verdict(&self) -> bool {
        matches!(
            self,
            Error::NoNode
                | Error::NodeExists
                | Error::NotEmpty
                | Error::BadVersion
                | Error::NoAuth
                | Error::NoChildrenForEphemerals
                | Error::QuotaExceeded
        )
    }
}
