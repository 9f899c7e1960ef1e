//! Writes of former sessions that may still be carried out.
//!
//! A write names the version of the data that it replaces, and not the node: a node that was deleted and created again
//! has the same versions once more. So a write that was not answered before its session was given up may later replace
//! newer data of a node at that version. Even if the node has the wanted data, it is written once more: that takes it
//! past the version, and from then on the servers refuse the late write. If the late write comes first, its data shows
//! that, and is replaced.

use std::sync::Arc;

use tokio::time::Instant;

use super::late::expiry;
use crate::client::core::Core;
use crate::client::session::Session;

/// The writes that were not answered.
#[derive(Debug, Default)]
pub(super) struct LateWrites {
    /// The write that was sent last, until its outcome is decided.
    sent: Option<(Arc<Session>, Write)>,
    /// Those of sessions that were given up, and until when each may come. A look after that forgets them.
    late: Vec<(Write, Instant)>,
}

#[derive(Debug)]
struct Write {
    /// The version that it replaces.
    version: i32,
    data: Arc<[u8]>,
}

impl LateWrites {
    /// Continues in this session.
    pub(super) fn enter(&mut self, session: &Arc<Session>, core: &Core) {
        let Some((former, write)) = self.sent.take_if(|(sent_in, _)| !Arc::ptr_eq(sent_in, session)) else { return };
        if let Some(expiry) = expiry(&former, core) {
            // Twice: the server that is looked at may lag.
            self.late.push((write, Instant::now() + expiry * 2));
        }
    }

    /// Records that a write is about to be handed over.
    pub(super) fn sent(&mut self, session: &Arc<Session>, version: i32, data: &Arc<[u8]>) {
        self.sent = Some((Arc::clone(session), Write { version, data: Arc::clone(data) }));
    }

    /// Records an answer to the write, or to a later request of its session. That decides its outcome: the servers
    /// carry out the requests of a connection in order, and once a quorum has answered on the session's next
    /// connection, they refuse those of the one before. A write that was not handed over is decided too.
    pub(super) fn decided(&mut self) {
        self.sent = None;
    }

    /// Returns whether a late write may replace the data of a node at this version.
    pub(super) fn may_replace(&self, version: i32) -> bool {
        self.late.iter().any(|(late, _)| late.version == version)
    }

    /// Returns whether this is the data of a node at this version because a late write was carried out.
    pub(super) fn have_written(&self, version: i32, data: &[u8]) -> bool {
        self.late.iter().any(|(late, _)| late.version.wrapping_add(1) == version && *late.data == *data)
    }

    /// Returns when to look at the node, as one of the writes can no longer come.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.late.iter().map(|(_, until)| *until).min()
    }

    /// Records that the node was looked at, by a request that was sent after `began`. Forgets the writes that could no
    /// longer come then.
    pub(super) fn looked(&mut self, began: Instant) {
        self.late.retain(|(_, until)| began < *until);
    }
}
