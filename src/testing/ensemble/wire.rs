//! The messages between a client and a server, as the server understands them. `codec` converts them to and from bytes.

use std::sync::Arc;

use super::{Millis, Zxid};
use crate::engine::{Event, Op};
use crate::protocol::{ErrorCode, OpCode, Secret};
use crate::util::znode::{Acl, Stat};

/// The kinds of request, as the log counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Creates a node.
    Create,
    /// Deletes a node.
    Delete,
    /// Reads the stat of a node.
    Exists,
    /// Reads the data of a node.
    GetData,
    /// Reads the data, or the names of the children, of many nodes.
    GetMany,
    /// Writes the data of a node.
    SetData,
    /// Reads the names of the children.
    List,
    /// Reads the ACL of a node.
    GetAcl,
    /// Writes the ACL of a node.
    SetAcl,
    /// Commits a transaction.
    Multi,
    /// Waits until the server has caught up with the leader.
    Sync,
    /// Arms a persistent watch.
    AddWatch,
    /// Removes a watch that was dropped before its event, or a persistent one.
    RemoveWatch,
    /// Asks the server about something else: watches, ephemeral nodes, descendants, or the users of the connection.
    Other,
    /// Ends the session.
    Close,
}

/// How the reply to a request is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The request was carried out; the connection is closed without a reply.
    Applied,
    /// The request never reached the server, which closes the connection.
    NotApplied,
    /// The request was carried out; the first half of the reply arrives, and then the connection is closed.
    Truncated,
    /// The request was carried out; the frame of the reply is whole, but the record in it ends too early. Only the
    /// request fails, and the connection is kept. Replies without a record (to a delete, or an error) arrive undamaged.
    Malformed,
}

/// A request of a client that has a session.
#[derive(Debug)]
pub(crate) enum Call {
    Write(Op),
    Multi(Vec<Op>),
    Exists {
        path: String,
        watch: bool,
    },
    GetData {
        path: String,
        watch: bool,
    },
    GetMany {
        reads: Vec<Read>,
    },
    List {
        path: String,
        watch: bool,
    },
    GetAcl {
        path: String,
    },
    SetAcl {
        path: String,
        acls: Vec<Acl>,
        version: Option<i32>,
    },
    Sync {
        path: String,
    },
    AddWatch {
        path: String,
        watch: ServerWatch,
    },
    RemoveWatch {
        path: String,
        watches: &'static [ServerWatch],
    },
    /// Asks whether there is such a watch.
    CheckWatch {
        path: String,
        watches: &'static [ServerWatch],
    },
    /// Asks for the ephemeral nodes of the session whose paths begin with `below`.
    Ephemerals {
        below: String,
    },
    CountBelow {
        path: String,
    },
    /// Asks for the users of the connection.
    WhoAmI,
}

impl Call {
    fn kind(&self) -> Operation {
        match self {
            Call::Write(op) => match op {
                Op::Create { .. } => Operation::Create,
                Op::Delete { .. } => Operation::Delete,
                Op::SetData { .. } => Operation::SetData,
                Op::Check { .. } => Operation::Multi,
            },
            Call::Multi(_) => Operation::Multi,
            Call::Exists { .. } => Operation::Exists,
            Call::GetData { .. } => Operation::GetData,
            Call::GetMany { .. } => Operation::GetMany,
            Call::List { .. } => Operation::List,
            Call::GetAcl { .. } => Operation::GetAcl,
            Call::SetAcl { .. } => Operation::SetAcl,
            Call::Sync { .. } => Operation::Sync,
            Call::AddWatch { .. } => Operation::AddWatch,
            Call::RemoveWatch { .. } => Operation::RemoveWatch,
            Call::CheckWatch { .. } | Call::Ephemerals { .. } | Call::CountBelow { .. } | Call::WhoAmI => {
                Operation::Other
            }
        }
    }

    /// Returns the path of the request; the first one if there are several.
    pub(crate) fn path(&self) -> &str {
        match self {
            Call::Write(op) => op_path(op),
            Call::Multi(ops) => ops.first().map_or("", op_path),
            Call::GetMany { reads } => reads.first().map_or("", Read::path),
            Call::Exists { path, .. }
            | Call::GetData { path, .. }
            | Call::List { path, .. }
            | Call::GetAcl { path }
            | Call::SetAcl { path, .. }
            | Call::Sync { path }
            | Call::AddWatch { path, .. }
            | Call::RemoveWatch { path, .. }
            | Call::CheckWatch { path, .. }
            | Call::CountBelow { path }
            | Call::Ephemerals { below: path } => path,
            Call::WhoAmI => "",
        }
    }

    /// Returns the watch that the request arms if it succeeds, or if it is an `Exists` that finds no node.
    pub(crate) fn watches(&self) -> Option<ServerWatch> {
        match self {
            Call::Exists { watch: true, .. } | Call::GetData { watch: true, .. } => Some(ServerWatch::Data),
            Call::List { watch: true, .. } => Some(ServerWatch::Children),
            Call::AddWatch { watch, .. } => Some(*watch),
            _ => None,
        }
    }
}

fn op_path(op: &Op) -> &str {
    match op {
        Op::Check { path, .. } | Op::Create { path, .. } | Op::SetData { path, .. } | Op::Delete { path, .. } => path,
    }
}

/// One read of a [`Call::GetMany`].
#[derive(Debug)]
pub(crate) enum Read {
    Data(String),
    Children(String),
}

impl Read {
    fn path(&self) -> &str {
        match self {
            Read::Data(path) | Read::Children(path) => path,
        }
    }
}

/// The kinds of watch that a server distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerWatch {
    Data,
    Children,
    Persistent,
    Recursive,
}

/// A message from a client to a server.
#[derive(Debug)]
pub(crate) enum Request {
    /// Opens a session (if `session` is 0), or resumes one.
    Connect {
        session: i64,
        password: Secret<Vec<u8>>,
        timeout: Millis,
        last_zxid: Zxid,
        /// Whether a read-only server will do.
        read_only: bool,
    },
    /// Restores the client's watches after a reconnect.
    SetWatches {
        since: Zxid,
        data: Vec<Arc<str>>,
        exists: Vec<Arc<str>>,
        children: Vec<Arc<str>>,
        persistent: Vec<Arc<str>>,
        recursive: Vec<Arc<str>>,
    },
    Ping,
    /// Authenticates the connection as one more user.
    Auth {
        scheme: String,
        auth: Secret<Vec<u8>>,
    },
    Call(Call),
    CloseSession,
    /// One of the four-letter words, in place of the first frame.
    Word([u8; 4]),
    /// A request that is refused regardless of the tree.
    Refused(ErrorCode),
    /// An operation that the server does not know: it answers with an error and closes the connection.
    Unknown,
    /// Bytes that are not a request, or a request that is too long: the server closes the connection without an answer.
    Garbage,
    /// The client's end of the connection is closed.
    Fin,
}

impl Request {
    /// Returns the path for the log.
    pub(crate) fn path(&self) -> &str {
        match self {
            Request::Call(call) => call.path(),
            _ => "",
        }
    }

    /// Returns whether it is a call that a server answers without the leader.
    pub(crate) fn is_look(&self) -> bool {
        let Request::Call(call) = self else { return false };
        !matches!(call, Call::Write(_) | Call::Multi(_) | Call::SetAcl { .. } | Call::Sync { .. })
    }

    /// Returns the kind under which the log counts the request; `None` if it is not counted.
    pub(crate) fn kind(&self) -> Option<Operation> {
        match self {
            Request::Call(call) => Some(call.kind()),
            Request::CloseSession => Some(Operation::Close),
            _ => None,
        }
    }
}

/// The parts of a request that its answer needs.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) xid: i32,
    pub(crate) op: OpCode,
    /// The operations of the steps of a transaction.
    pub(crate) steps: Vec<OpCode>,
    /// The path of a sync.
    pub(crate) path: String,
}

/// A request, with what its answer needs.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) header: Header,
    pub(crate) request: Request,
}

/// What one step of a committed transaction did.
#[derive(Debug)]
pub(crate) enum Done {
    Check,
    Created(String, Stat),
    Changed(Stat),
    Deleted,
}

/// The data of a node, and its stat.
pub(crate) type Content = (Arc<[u8]>, Stat);

impl Message {
    /// Returns roughly how many bytes the message has.
    pub(crate) fn length(&self) -> usize {
        let body = match self {
            Message::Answer { outcome: Outcome::Reply(Ok(answer)), .. } => match answer {
                Answer::Data(content) => length_of_data(content),
                Answer::Many(reads) => reads.iter().map(length_of_part).sum(),
                Answer::Children(children, _) => length_of_names(children),
                Answer::Texts(texts) => texts.iter().flatten().map(|text| 4 + text.len()).sum(),
                Answer::Acl(acls, _) => acls.iter().map(|acl| 12 + acl.scheme().len() + acl.id().len()).sum(),
                Answer::Committed(steps) => steps.len() * 100,
                _ => 0,
            },
            _ => 0,
        };
        100 + body
    }
}

fn length_of_data(content: &Content) -> usize {
    100 + content.0.len()
}

fn length_of_names(children: &[Arc<str>]) -> usize {
    children.iter().map(|name| 4 + name.len()).sum()
}

/// Returns roughly how many bytes the result of one of many reads has.
pub(crate) fn length_of_part(part: &Result<Part, ErrorCode>) -> usize {
    match part {
        Ok(Part::Data(content)) => length_of_data(content),
        Ok(Part::Children(children)) => length_of_names(children),
        Err(_) => 10,
    }
}

/// The result of one of many reads.
#[derive(Debug)]
pub(crate) enum Part {
    Data(Content),
    Children(Vec<Arc<str>>),
}

/// The result of a call that the server could carry out.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    Created(String, Stat),
    Stat(Stat),
    Data(Content),
    Many(Vec<Result<Part, ErrorCode>>),
    Changed(Stat),
    Children(Vec<Arc<str>>, Stat),
    Acl(Vec<Acl>, Stat),
    Number(i32),
    /// Records, each with the given texts.
    Texts(Vec<Vec<String>>),
    Committed(Vec<Done>),
    /// The first step of the transaction that failed.
    NotCommitted {
        index: usize,
        code: ErrorCode,
    },
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Connected {
        session: i64,
        timeout: Millis,
        read_only: bool,
    },
    /// There is no such session (any more).
    Expired,
    /// The server has no leader and opens no session now.
    NoLeader,
    Reply(Result<Answer, ErrorCode>),
    /// The session was closed as requested.
    Goodbye,
    /// The operation is not known.
    Unknown,
    /// The answer to a four-letter word.
    Text(String),
}

impl Outcome {
    /// Returns whether the server closes the connection after this answer.
    pub(crate) fn is_last(&self) -> bool {
        matches!(
            self,
            Outcome::Expired
                | Outcome::NoLeader
                | Outcome::Goodbye
                | Outcome::Unknown
                | Outcome::Text(_)
                | Outcome::Reply(Err(ErrorCode::AuthFailed))
        )
    }
}

/// A message from a server to a client.
#[derive(Debug)]
pub(crate) enum Message {
    Answer {
        header: Header,
        zxid: Zxid,
        outcome: Outcome,
        /// How a part of it is lost.
        loss: Option<Loss>,
    },
    Event {
        zxid: Zxid,
        path: Arc<str>,
        event: Event,
    },
    /// The server's end of the connection is closed.
    Closed,
}
