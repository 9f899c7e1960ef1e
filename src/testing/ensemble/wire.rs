//! What travels between a client and a server.

use std::sync::Arc;

use super::{Millis, Zxid};
use crate::backend::{Error, Event, Multi, Op, Proof, WatchMode};
use crate::znode::{Acl, Stat};

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
    /// Writes the data of a node.
    SetData,
    /// Reads the names of the children.
    List,
    /// Reads the ACL of a node.
    GetAcl,
    /// Commits a transaction.
    Multi,
    /// Waits until the server has caught up with the leader.
    Sync,
    /// Arms a persistent watch.
    AddWatch,
    /// Removes a watch that was dropped before its event, or a persistent one.
    RemoveWatch,
    /// Ends the session.
    Close,
}

/// What the holder of a session asks for.
#[derive(Debug)]
pub(crate) enum Call {
    Write(Op),
    Multi(Vec<Op>),
    Exists { path: String, watch: bool },
    GetData { path: String, watch: bool },
    List { path: String, watch: bool },
    GetAcl { path: String },
    Sync { path: String },
    AddWatch { path: String, mode: WatchMode },
}

impl Call {
    pub(crate) fn kind(&self) -> Operation {
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
            Call::List { .. } => Operation::List,
            Call::GetAcl { .. } => Operation::GetAcl,
            Call::Sync { .. } => Operation::Sync,
            Call::AddWatch { .. } => Operation::AddWatch,
        }
    }

    /// What an answer to it proves.
    pub(crate) fn proof(&self) -> Proof {
        match self {
            Call::Write(_) | Call::Multi(_) => Proof::Quorum,
            Call::Sync { .. } => Proof::Leader,
            Call::Exists { .. }
            | Call::GetData { .. }
            | Call::List { .. }
            | Call::GetAcl { .. }
            | Call::AddWatch { .. } => Proof::Contact,
        }
    }

    /// The node it is about; the first one of a multi.
    pub(crate) fn path(&self) -> &str {
        match self {
            Call::Write(op) => op_path(op),
            Call::Multi(ops) => ops.first().map_or("", op_path),
            Call::Exists { path, .. }
            | Call::GetData { path, .. }
            | Call::List { path, .. }
            | Call::GetAcl { path }
            | Call::Sync { path }
            | Call::AddWatch { path, .. } => path,
        }
    }

    /// The node it leaves a watch on, and of which kind if the node is there.
    pub(crate) fn watches(&self) -> Option<(&str, Kind)> {
        match self {
            Call::Exists { path, watch: true } | Call::GetData { path, watch: true } => Some((path, Kind::Data)),
            Call::List { path, watch: true } => Some((path, Kind::Children)),
            Call::AddWatch { path, mode: WatchMode::Persistent } => Some((path, Kind::Persistent)),
            Call::AddWatch { path, mode: WatchMode::PersistentRecursive } => Some((path, Kind::Recursive)),
            _ => None,
        }
    }

    /// Bytes of the request on the wire, without its length.
    pub(crate) fn size(&self) -> usize {
        const HEADER: usize = 8;
        const STEP: usize = 9; // type, done, error
        let body = match self {
            Call::Write(op) => op_size(op),
            Call::Multi(ops) => ops.iter().map(|op| STEP + op_size(op)).sum::<usize>() + STEP,
            Call::Exists { path, .. } | Call::GetData { path, .. } | Call::List { path, .. } => text(path) + 1,
            Call::GetAcl { path } | Call::Sync { path } => text(path),
            Call::AddWatch { path, .. } => text(path) + 4,
        };
        HEADER + body
    }
}

fn op_path(op: &Op) -> &str {
    match op {
        Op::Check { path, .. } | Op::Create { path, .. } | Op::SetData { path, .. } | Op::Delete { path, .. } => path,
    }
}

fn text(text: &str) -> usize {
    4 + text.len()
}

fn op_size(op: &Op) -> usize {
    let acl = |acl: &Acl| 4 + text(acl.scheme()) + text(acl.id());
    match op {
        Op::Check { path, .. } | Op::Delete { path, .. } => text(path) + 4,
        Op::Create { path, data, acls, .. } => {
            text(path) + 4 + data.len() + 4 + acls.iter().map(acl).sum::<usize>() + 4
        }
        Op::SetData { path, data, .. } => text(path) + 4 + data.len() + 4,
    }
}

/// The kinds of watch that a server keeps apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerWatch {
    Data,
    Children,
    Persistent,
    Recursive,
}

/// The kinds of watch that a holder of a session has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Data,
    /// On a node that did not exist.
    Exists,
    Children,
    Persistent,
    Recursive,
}

impl Kind {
    /// As the server keeps it.
    pub(crate) fn at_server(self) -> ServerWatch {
        match self {
            Kind::Data | Kind::Exists => ServerWatch::Data,
            Kind::Children => ServerWatch::Children,
            Kind::Persistent => ServerWatch::Persistent,
            Kind::Recursive => ServerWatch::Recursive,
        }
    }

    /// Whether a one-shot watch is resolved by such an event of its node.
    pub(crate) fn is_resolved_by(self, event: Event) -> bool {
        match (self, event) {
            (Kind::Persistent | Kind::Recursive, _) => false,
            (_, Event::NodeDeleted | Event::SessionEnded) => true,
            (kind, Event::NodeChildrenChanged) => kind == Kind::Children,
            (kind, Event::NodeCreated | Event::NodeDataChanged) => kind != Kind::Children,
        }
    }
}

/// From client to server.
#[derive(Debug)]
pub(crate) enum Request {
    /// Opens a session (0), or takes one up again.
    Connect {
        session: i64,
        timeout: Millis,
        last_zxid: Zxid,
    },
    /// The watches the client still has, after a reconnect.
    SetWatches {
        since: Zxid,
        data: Vec<Arc<str>>,
        exists: Vec<Arc<str>>,
        children: Vec<Arc<str>>,
        persistent: Vec<Arc<str>>,
        recursive: Vec<Arc<str>>,
    },
    Ping,
    Call(Call),
    RemoveWatch {
        path: Arc<str>,
        watch: ServerWatch,
    },
    CloseSession,
    /// The client's end of the connection is closed.
    Fin,
}

impl Request {
    /// As the log counts it; none for what no holder of a session asked for.
    pub(crate) fn kind(&self) -> Option<Operation> {
        match self {
            Request::Call(call) => Some(call.kind()),
            Request::RemoveWatch { .. } => Some(Operation::RemoveWatch),
            Request::CloseSession => Some(Operation::Close),
            Request::Connect { .. } | Request::SetWatches { .. } | Request::Ping | Request::Fin => None,
        }
    }

    /// The bytes of what a holder of a session asked for; otherwise 0.
    pub(crate) fn size(&self) -> usize {
        match self {
            Request::Call(call) => call.size(),
            _ => 0,
        }
    }
}

/// The result of a call that the server could carry out.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    Created(String, Stat),
    Stat(Option<Stat>),
    Data(Arc<[u8]>, Stat),
    Changed(Stat),
    Children(Vec<String>, Stat),
    Acl(Vec<Acl>, Stat),
    Multi(Multi),
}

/// From server to client.
#[derive(Debug)]
pub(crate) enum Message {
    Connected {
        session: i64,
        timeout: Millis,
    },
    /// There is no such session (any more).
    Expired,
    Reply {
        zxid: Zxid,
        result: Result<Answer, Error>,
    },
    Event {
        path: Arc<str>,
        event: Event,
    },
    Pong,
    /// The answer to what needs none: restored or removed watches.
    Ack,
    /// The session was ended as asked.
    Goodbye,
    /// The server's end of the connection is closed.
    Closed,
}
