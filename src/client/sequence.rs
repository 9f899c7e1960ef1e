//! The numbers of a writer's transactions. In each session the writer has a node that shows which transactions were
//! carried out.

use std::sync::Arc;

use super::core::Core;
use super::owned_node::OwnedNode;
use super::parents;
use super::session::{Condition, Session};
use crate::engine::{self, Op};
use crate::util::path::join;
use crate::util::znode::CreateMode;

/// How many transactions use the same node: the node's version counts them, and has 31 bits.
const MOST_NUMBERS: i32 = 1 << 30;

/// The data of the node once a transaction is carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The version that the transaction gives the node. The transaction is carried out only after the previous one.
    pub(crate) number: i32,
    /// Never used twice at one node, so it identifies the transaction.
    id: u64,
}

impl Ticket {
    fn to_bytes(self) -> Vec<u8> {
        format!("{} {}", self.number, self.id).into_bytes()
    }
}

/// A writer's node. When dropped, it is deleted in the background.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) session: Arc<Session>,
    node: OwnedNode,
    path: Arc<str>,
    /// The ticket of the last transaction that is known to be carried out.
    carried_out: Ticket,
    /// The id of the last ticket that was issued.
    last_id: u64,
}

impl Sequence {
    /// Creates the node in `dir`, which is created as a persistent node if it is missing. The error is transient only
    /// if the session is over.
    pub(crate) async fn create(core: &Core, session: &Arc<Session>, dir: &str) -> Result<Self, engine::Error> {
        let uuid = core.random.uuid().to_string();
        let path: Arc<str> = join(dir, &uuid).into();
        let mut node = OwnedNode::expected(session, &core.janitor, &dir.into(), uuid);
        let (first, acls) = (Ticket::default(), &core.config.acls);
        let create = || async {
            loop {
                match session.create(&path, &first.to_bytes(), CreateMode::Ephemeral, acls).await {
                    // A node with this name can only be ours, from an attempt whose answer was lost.
                    Ok(_) | Err(engine::Error::NodeExists) => return Ok(()),
                    Err(engine::Error::NoNode) => parents::ensure(session, dir, &[], acls).await?,
                    Err(error) => return Err(error),
                }
            }
        };
        if let Err(error) = session.retry_while_transient(create).await {
            if !error.leaves_outcome_unknown() {
                node.gone();
            }
            return Err(error);
        }
        node.created(Arc::clone(&path));
        Ok(Sequence { session: Arc::clone(session), node, path, carried_out: first, last_id: 0 })
    }

    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.session.condition(), Condition::Connected(_))
    }

    /// Returns the ticket of a new transaction after `before` others that are not known to be carried out; `None` if
    /// the numbers of this node are used up.
    pub(crate) fn issue(&mut self, before: usize) -> Option<Ticket> {
        let number = self.carried_out.number + i32::try_from(before).ok()? + 1;
        self.last_id += 1;
        (number <= MOST_NUMBERS).then_some(Ticket { number, id: self.last_id })
    }

    /// Returns the step that numbers a transaction. The servers refuse it if the previous transaction was not carried
    /// out, or if this one already was.
    pub(crate) fn step(&self, ticket: Ticket) -> Op {
        let version = Some(ticket.number - 1);
        Op::SetData { path: self.path.to_string(), data: ticket.to_bytes(), version }
    }

    /// Records that the transaction was carried out.
    pub(crate) fn confirm(&mut self, ticket: Ticket) {
        self.carried_out = ticket;
    }

    /// Reads the number of the last transaction that was carried out so far. `sent` are the transactions that may have
    /// been carried out. Returns `None` if that cannot be known: the session is over, or the node is deleted or
    /// shows an unknown transaction.
    pub(crate) async fn read(&mut self, sent: &[Ticket]) -> Option<i32> {
        let (session, node) = (&self.session, &*self.path);
        // After a sync, because a lagging server may not know the last transactions.
        let (data, stat) = match session.retry_while_transient(|| session.get_data_synced(node)).await {
            Ok(read) => read,
            Err(engine::Error::SessionEnded) => return None,
            Err(error) => {
                tracing::warn!(event = "number_unreadable", node, ?error, "a writer cannot read its own node");
                return None;
            }
        };
        let mut known = sent.iter().copied().chain([self.carried_out]);
        let last = known.find(|ticket| ticket.number == stat.version && ticket.to_bytes() == data);
        if last.is_none() {
            let number = stat.version;
            tracing::warn!(event = "foreign_transaction", node, number, "another client has written a writer's node");
        }
        self.confirm(last?);
        Some(stat.version)
    }

    /// Deletes the node. Waits until the server has deleted it, or the session is over.
    pub(crate) async fn end(mut self) {
        // If the node cannot be deleted now, the janitor deletes it.
        let _ = self.node.delete(None).await;
    }
}
