//! One write of the node, and what became of it.

use std::sync::Arc;

use super::error::Error;
use crate::backend;
use crate::client;
use crate::client::core::Core;
use crate::client::ops::outcome_unknown;
use crate::client::session::{Condition, Session};
use crate::znode::Stat;

/// A write of the node.
pub(super) struct Write<'a> {
    pub(super) core: &'a Core,
    pub(super) path: &'a Arc<str>,
    /// The name of the operation, for errors.
    pub(super) doing: &'static str,
    pub(super) bytes: &'a [u8],
    /// The node as it was known before the write.
    pub(super) before: Option<Stat>,
    /// The write is refused if the node has another version than before.
    pub(super) is_conditional: bool,
}

/// What became of a write whose answer was lost, and the node now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It was not carried out, and never will be.
    NotCarriedOut(Stat),
    /// Nor was it here: another client's write came first.
    Overtaken(Stat),
    /// It may have been carried out.
    Unknown,
}

impl Write<'_> {
    /// Writes the node. Returns its new stat; `None` if the write is conditional and the node has another version.
    pub(super) async fn run(&self) -> Result<Option<Stat>, Error> {
        let full = self.core.full_path(self.path);
        let mut before = self.before;
        loop {
            let version = before.filter(|_| self.is_conditional).map(|before| before.version);
            let session = self.core.session_in_time(self.doing, self.path).await;
            let session = session.map_err(|error| Error::client(self.path, error))?;
            let Condition::Connected(connection) = session.condition() else { continue };
            let error = match session.set_data(&full, self.bytes, version).await {
                Ok(stat) => return self.written(stat),
                Err(error) => error,
            };
            match error {
                backend::Error::BadVersion => return Ok(None),
                backend::Error::NoNode => return Err(Error::Missing { path: Arc::clone(self.path) }),
                error if error.leaves_outcome_unknown() => match self.settle(&session, &full, before).await {
                    Fate::Overtaken(_) if self.is_conditional => return Ok(None),
                    Fate::Unknown => return Err(Error::client(self.path, outcome_unknown(self.doing, self.path))),
                    // It was answered, and the answer to another one would be the same.
                    _ if matches!(error, backend::Error::Other(_)) => return Err(self.failed(error)),
                    Fate::NotCarriedOut(now) | Fate::Overtaken(now) => before = Some(now),
                },
                // It was not sent, or not processed.
                error if error.is_passing() => session.loss_known(connection).await,
                error => return Err(self.failed(error)),
            }
        }
    }

    /// Returns the stat that a write was answered with. Fails if the node was deleted and created again since it was
    /// read.
    fn written(&self, stat: Stat) -> Result<Option<Stat>, Error> {
        match self.before.filter(|before| self.is_conditional && before.czxid != stat.czxid) {
            Some(_) => Err(Error::Replaced { path: Arc::clone(self.path) }),
            None => Ok(Some(stat)),
        }
    }

    fn failed(&self, error: backend::Error) -> Error {
        Error::client(self.path, client::Error::from_backend(self.doing, self.path, error))
    }

    /// Finds out what became of a write whose answer was lost. Once a read of the same session is answered after a
    /// sync, nothing that the session has sent before can be carried out any more.
    async fn settle(&self, session: &Arc<Session>, full: &str, before: Option<Stat>) -> Fate {
        let read = session.retry_while_passing(|| session.get_data_synced(full)).await;
        let (Ok((data, now)), Some(before)) = (read, before) else { return Fate::Unknown };
        fate(&before, &now, data == self.bytes)
    }
}

/// Returns what became of a write that was handed over when the node was as `before`, or newer. The version counts the
/// writes since then.
fn fate(before: &Stat, now: &Stat, is_ours: bool) -> Fate {
    if before.czxid != now.czxid {
        return Fate::Unknown;
    }
    match now.version.wrapping_sub(before.version) {
        0 => Fate::NotCarriedOut(*now),
        1 if !is_ours => Fate::Overtaken(*now),
        _ => Fate::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_tells_what_became_of_a_write() {
        let stat = |czxid, version| Stat { czxid, version, ..Stat::default() };
        let before = stat(7, 3);
        for (now, is_ours, expected) in [
            (stat(7, 3), false, Fate::NotCarriedOut(stat(7, 3))),
            (stat(7, 3), true, Fate::NotCarriedOut(stat(7, 3))),
            (stat(7, 4), false, Fate::Overtaken(stat(7, 4))),
            (stat(7, 4), true, Fate::Unknown),
            (stat(7, 5), false, Fate::Unknown),
            (stat(7, 5), true, Fate::Unknown),
            (stat(8, 3), false, Fate::Unknown),
            (stat(8, 4), true, Fate::Unknown),
        ] {
            assert_eq!(fate(&before, &now, is_ours), expected, "{now:?} {is_ours}");
        }
        let least = stat(7, i32::MIN);
        assert_eq!(fate(&stat(7, i32::MAX), &least, false), Fate::Overtaken(least), "versions wrap around");
    }
}
