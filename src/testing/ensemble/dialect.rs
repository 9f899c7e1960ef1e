//! The protocol of the servers: ZooKeeper's, or the subset that ClickHouse Keeper supports.

use super::wire::Header;
use crate::protocol::OpCode;

/// Which servers the ensemble in memory imitates.
///
/// ClickHouse Keeper differs from ZooKeeper in ways that matter to a client:
///
/// * It never resumes a session. Each connection has a new one, and the nodes of the previous session stay until its
///   timeout.
/// * It closes the connection, without an answer, on an operation that it does not know.
/// * A server without a leader reports this and closes the connection.
/// * If there are several servers, reads alone do not keep a session alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// ZooKeeper 3.9.
    #[default]
    ZooKeeper,
    /// ClickHouse Keeper of 2025: without `create2`, containers, nodes with a time to live, and persistent watches. It
    /// cannot remove watches either.
    Keeper,
    /// ClickHouse Keeper of the beginning of 2026: without containers and nodes with a time to live.
    Keeper26,
}

impl Dialect {
    pub(crate) fn is_keeper(self) -> bool {
        self != Dialect::ZooKeeper
    }

    /// Returns whether a server can read a request. ZooKeeper's servers answer even requests that they do not know.
    pub(crate) fn reads(self, request: &Header) -> bool {
        self.knows(request.op) && request.steps.iter().all(|step| self.knows(*step))
    }

    fn knows(self, op: OpCode) -> bool {
        match self {
            Dialect::ZooKeeper => true,
            Dialect::Keeper26 => !matches!(
                op,
                OpCode::CreateContainer
                    | OpCode::CreateTtl
                    | OpCode::GetEphemerals
                    | OpCode::GetAllChildrenNumber
                    | OpCode::WhoAmI
                    | OpCode::Other(_)
            ),
            Dialect::Keeper => {
                Dialect::Keeper26.knows(op)
                    && !matches!(
                        op,
                        OpCode::Create2
                            | OpCode::CheckWatches
                            | OpCode::RemoveWatches
                            | OpCode::SetWatches2
                            | OpCode::AddWatch
                    )
            }
        }
    }
}
