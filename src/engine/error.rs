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
    /// The session has ended: expired, closed or given up.
    SessionEnded,
    /// No server could be reached: the error of each. Only for the opening of a session.
    Unreachable(String),
    /// The server refused the credentials of the session.
    AuthFailed,
    NoNode,
    /// The root that the connect string names does not exist.
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
    /// The request was not sent: the servers are believed to close the connection on one so long.
    TooLarge(TooLarge),
    /// The answer is longer than the client accepts. What was asked for may have been carried out.
    AnswerTooLong {
        length: usize,
        limit: usize,
    },
    /// The answer cannot be decoded. What was asked for may have been carried out.
    Undecodable(String),
    /// The server refused the request for another reason, which the text says: nothing was done.
    Refused(String),
    /// Anything else; the text says what. What was asked for may have been carried out.
    Other(String),
}

impl Error {
    /// Returns whether it passes by itself, once there is a connection again.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Error::NotConnected | Error::ConnectionLoss | Error::SessionEnded | Error::Throttled)
    }

    /// Returns its name, for the metrics.
    #[cfg_attr(not(feature = "metrics"), allow(dead_code))]
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
            Error::Refused(_) => "refused",
            Error::Other(_) => "other",
        }
    }

    /// Returns whether a write that failed so may have been carried out.
    pub(crate) fn leaves_outcome_unknown(&self) -> bool {
        matches!(self, Error::ConnectionLoss | Error::SessionEnded | Error::Other(_)) || self.is_unread()
    }

    /// Returns whether there is an answer that the client could not take in.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self, Error::AnswerTooLong { .. } | Error::Undecodable(_))
    }

    /// Returns whether this is the ensemble's own verdict on the request, which needs a working connection. Errors that
    /// the layers on this side can create themselves do not count.
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
