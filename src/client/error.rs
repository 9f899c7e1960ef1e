//! The errors of operations, and how a caller can react to them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::engine;
use crate::util::path::InvalidPath;

/// An error of an operation: a text that names the operation, and an [`ErrorKind`] to decide by.
///
/// ```
/// use zookeeper_recipes::{Client, ErrorKind};
///
/// let error = Client::builder("").validate().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// assert!(!error.is_retryable());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// The part of the message that names the path of the operation.
    path: Option<Range<usize>>,
}

/// The operation that errors of [`Client::create`](crate::Client::create) name.
pub(super) const CREATE: &str = "create";

/// Why a client that only reads refuses a write, and a recipe that needs one.
const READ_ONLY: &str = "the client only reads, as it was built with read_only(true); use a client without it";

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There was no connection, or it broke. The call changed nothing, or repeating it is harmless.
    ConnectionLoss,
    /// The session ended, and with it every node, guard and leadership it had. What depends on it can never succeed
    /// again, so this is not retryable: acquire the lock or the leadership again. Plain reads and writes do not depend
    /// on a session and never fail this way.
    SessionLost,
    /// A write was sent and its result is not known: it may or may not have happened, or may still happen.
    OutcomeUnknown,
    /// The node does not exist.
    NoNode,
    /// The node exists already.
    NodeExists,
    /// The node has children.
    NotEmpty,
    /// The node has another version than the one given.
    BadVersion,
    /// The session does not have the permission.
    NoAuth,
    /// The server refused the credentials, or does not offer SASL although the client was told to use it.
    AuthFailed,
    /// The ACL is empty or malformed.
    InvalidAcl,
    /// The parent is ephemeral and cannot have children.
    NoChildrenForEphemerals,
    /// The path is malformed; nothing was sent.
    InvalidPath,
    /// An argument is out of its range, or a request is larger than the servers read; it was not sent.
    InvalidArgument,
    /// The directory's 32-bit counter of sequential nodes is used up.
    SequenceExhausted,
    /// The fence of this transaction is no longer valid: the hold was released or lost, or another process has acquired
    /// it. Nothing was changed.
    Fenced,
    /// The client only reads: it was built with [`read_only`](crate::ClientBuilder::read_only). Nothing was done.
    ReadOnly,
    /// The server is overloaded.
    Throttled,
    /// A quota of the path is exceeded.
    QuotaExceeded,
    /// The server does not know this operation.
    Unimplemented,
    /// The time allowed ended before anything was done.
    TimedOut,
    /// The client, or the recipe, has been closed, or its runtime has ended.
    Closed,
    /// Any other failure; the text describes it.
    Other,
}

/// Returns whether `full` is `path`, with or without a namespace before it. A node below `path` whose path ends in the
/// same names does not count.
fn is_same(full: &str, path: &str) -> bool {
    let below = full.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    full.ends_with(path) && !below
}

/// The prepositions that the name of an operation may end with, because the path follows.
const PREPOSITIONS: [&str; 7] = [" at", " for", " from", " in", " into", " of", " with"];

impl ErrorKind {
    /// Returns its name, for the metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ErrorKind::ConnectionLoss => "connection_loss",
            ErrorKind::SessionLost => "session_lost",
            ErrorKind::OutcomeUnknown => "outcome_unknown",
            ErrorKind::NoNode => "no_node",
            ErrorKind::NodeExists => "node_exists",
            ErrorKind::NotEmpty => "not_empty",
            ErrorKind::BadVersion => "bad_version",
            ErrorKind::NoAuth => "no_auth",
            ErrorKind::AuthFailed => "auth_failed",
            ErrorKind::InvalidAcl => "invalid_acl",
            ErrorKind::NoChildrenForEphemerals => "no_children_for_ephemerals",
            ErrorKind::InvalidPath => "invalid_path",
            ErrorKind::InvalidArgument => "invalid_argument",
            ErrorKind::SequenceExhausted => "sequence_exhausted",
            ErrorKind::Fenced => "fenced",
            ErrorKind::ReadOnly => "read_only",
            ErrorKind::Throttled => "throttled",
            ErrorKind::QuotaExceeded => "quota_exceeded",
            ErrorKind::Unimplemented => "unimplemented",
            ErrorKind::TimedOut => "timed_out",
            ErrorKind::Closed => "closed",
            ErrorKind::Other => "other",
        }
    }

    /// See [`Error::is_retryable`].
    pub(crate) fn is_retryable(self) -> bool {
        matches!(self, ErrorKind::ConnectionLoss | ErrorKind::Throttled | ErrorKind::TimedOut)
    }

    /// See [`Error::is_lost`].
    pub(crate) fn is_lost(self) -> bool {
        matches!(self, ErrorKind::SessionLost | ErrorKind::Fenced | ErrorKind::Closed)
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), path: None }
    }

    /// Returns the error of an operation on a node. `doing` names the operation, such as `create`.
    pub(crate) fn at(kind: ErrorKind, doing: &str, path: &str, why: impl fmt::Display) -> Self {
        let begin = doing.len() + 1;
        Error { kind, message: format!("{doing} {path}: {why}"), path: Some(begin..begin + path.len()) }
    }

    /// Returns the text for use inside a message that already names `path`: without its own path, if that is the same
    /// path, with or without the client's namespace.
    pub(crate) fn below(&self, path: &str) -> Cow<'_, str> {
        let message = self.message.as_str();
        let Some(range) = self.path.clone().filter(|range| is_same(&message[range.clone()], path)) else {
            return message.into();
        };
        let doing = &message[..range.start - 1];
        let doing = PREPOSITIONS.iter().find_map(|last| doing.strip_suffix(last)).unwrap_or(doing);
        format!("{doing}{}", &message[range.end..]).into()
    }

    /// Replaces the kind by [`ErrorKind::OutcomeUnknown`], and appends `note`, which says what that means here.
    pub(crate) fn outcome_unknown(mut self, note: &str) -> Self {
        self.kind = ErrorKind::OutcomeUnknown;
        self.message.push_str(note);
        self
    }

    /// Returns the kind of failure, to decide by.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether the same call may succeed later without a change by the caller or an operator. Repeating the
    /// call does not restore what [is lost](Self::is_lost).
    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable()
    }

    /// Returns whether everything held through the session is lost.
    pub fn is_lost(&self) -> bool {
        self.kind.is_lost()
    }

    pub(crate) fn read_only(doing: &str, path: &str) -> Self {
        Error::from_engine(doing, path, engine::Error::ReadOnly)
    }

    pub(crate) fn closed(what: &str) -> Self {
        Error::new(ErrorKind::Closed, format!("the {what} has been closed"))
    }

    /// Returns the error for a root of the connect string that does not exist.
    pub(crate) fn no_root() -> Self {
        Error::from_engine("look for", "/", engine::Error::NoRoot)
    }

    pub(crate) fn session_lost(doing: &str, path: &str) -> Self {
        Error::at(ErrorKind::SessionLost, doing, path, "the session is over")
    }

    /// Maps an error of an operation that does not depend on one session: the end of the session counts as a loss of
    /// the connection. Otherwise the same as [`from_engine`](Self::from_engine).
    pub(crate) fn of_any_session(doing: &str, path: &str, error: engine::Error) -> Self {
        match error {
            engine::Error::SessionEnded => {
                Error::at(ErrorKind::ConnectionLoss, doing, path, "the session ended before the answer")
            }
            error => Error::from_engine(doing, path, error),
        }
    }

    /// Maps an error of opening or keeping a session. `causes` has what each server, or the client before it asked the
    /// server, said of the credentials.
    pub(crate) fn of_session(doing: &str, servers: &str, causes: &str, error: engine::Error) -> Self {
        match error {
            engine::Error::AuthFailed if !causes.is_empty() => {
                let why = format!("the credentials were refused: {causes}");
                Error::at(ErrorKind::AuthFailed, doing, servers, why)
            }
            error => Error::from_engine(doing, servers, error),
        }
    }

    /// Maps an error of the engine. `doing` names the operation, such as `create`.
    pub(crate) fn from_engine(doing: &str, path: &str, error: engine::Error) -> Self {
        use engine::Error as E;
        let (kind, why) = match error {
            E::NotConnected => (ErrorKind::ConnectionLoss, "not connected to ZooKeeper".into()),
            E::ConnectionLoss => (ErrorKind::ConnectionLoss, "the connection broke before the answer".into()),
            E::SessionEnded => (ErrorKind::SessionLost, "the session is over".into()),
            E::AuthFailed => (ErrorKind::AuthFailed, "the server refused the credentials".into()),
            E::NoNode if doing.ends_with(CREATE) => {
                let why = "the node above it does not exist; create it first, with create_containers, or together with \
                           this one: create_parents of a transaction";
                (ErrorKind::NoNode, why.into())
            }
            E::NoNode => (ErrorKind::NoNode, "no such node".into()),
            E::NoRoot => {
                let why =
                    "the root that the connect string names does not exist; create it, or use a namespace instead";
                (ErrorKind::NoNode, why.into())
            }
            E::NodeExists => (ErrorKind::NodeExists, "the node exists already".into()),
            E::NotEmpty => (ErrorKind::NotEmpty, "the node has children".into()),
            E::BadVersion => (ErrorKind::BadVersion, "the node has another version".into()),
            E::NoAuth => {
                (ErrorKind::NoAuth, "no permission; check the ACL of the path and the client's credentials".into())
            }
            E::NoChildrenForEphemerals => {
                (ErrorKind::NoChildrenForEphemerals, "an ephemeral node cannot have children".into())
            }
            E::InvalidAcl => (ErrorKind::InvalidAcl, "the server does not accept the ACL".into()),
            E::QuotaExceeded => (ErrorKind::QuotaExceeded, "a quota is exceeded".into()),
            E::ReadOnly => (ErrorKind::ReadOnly, READ_ONLY.into()),
            E::Throttled => (ErrorKind::Throttled, "the server is overloaded".into()),
            E::Unimplemented(op) => {
                (ErrorKind::Unimplemented, format!("the server does not support {}", op.description()))
            }
            E::BadArguments(why) => (ErrorKind::InvalidArgument, why),
            E::TooLarge(why) => (ErrorKind::InvalidArgument, why.to_string()),
            E::AnswerTooLong { length, limit } => {
                let why = format!(
                    "the answer of {length} bytes is longer than the limit of {limit}; see \
                     ClientBuilder::max_response_bytes"
                );
                (ErrorKind::Other, why)
            }
            E::Unreachable(causes) => (ErrorKind::ConnectionLoss, format!("could not connect to any server: {causes}")),
            E::Undecodable(why) => (ErrorKind::Other, format!("its answer cannot be read: {why}")),
            E::Refused(why) | E::Other(why) => (ErrorKind::Other, why),
        };
        Error::at(kind, doing, path, why)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<InvalidPath> for Error {
    fn from(error: InvalidPath) -> Self {
        Error::new(ErrorKind::InvalidPath, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeating_the_call_does_not_restore_what_is_lost() {
        for kind in [ErrorKind::SessionLost, ErrorKind::Fenced, ErrorKind::Closed, ErrorKind::OutcomeUnknown] {
            assert!(!Error::new(kind, "").is_retryable(), "{kind:?}");
        }
        for kind in [ErrorKind::ConnectionLoss, ErrorKind::Throttled, ErrorKind::TimedOut] {
            let error = Error::new(kind, "");
            assert!(error.is_retryable() && !error.is_lost(), "{kind:?}");
        }
    }

    #[test]
    fn a_path_that_the_message_already_names_is_not_repeated() {
        let error = Error::from_engine("contend at", "/app/locks/one", engine::Error::NodeExists);
        assert_eq!(error.below("/locks/one"), "contend: the node exists already");
        assert_eq!(error.below("/locks/two"), "contend at /app/locks/one: the node exists already");
        let below = Error::from_engine("read", "/one/two/one", engine::Error::NoNode);
        assert_eq!(below.below("/one"), below.to_string());
        let unknown = error.outcome_unknown("; the node may exist");
        assert_eq!(unknown.kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(unknown.below("/locks/one"), "contend: the node exists already; the node may exist");
        let without = Error::new(ErrorKind::Other, "commit: /a");
        assert_eq!(without.below("/a"), "commit: /a");
    }

    #[test]
    fn the_end_of_the_session_is_a_connection_loss_for_what_any_session_can_do() {
        let read = Error::of_any_session("get", "/a", engine::Error::SessionEnded);
        assert_eq!(read.kind(), ErrorKind::ConnectionLoss);
        assert_eq!(read.to_string(), "get /a: the session ended before the answer");
        let delete = Error::from_engine("release", "/a", engine::Error::SessionEnded);
        assert_eq!(delete.kind(), ErrorKind::SessionLost);
    }
}
