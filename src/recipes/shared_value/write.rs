//! One write of the node, and its outcome.

use std::sync::Arc;

use super::error::Error;
use crate::client::core::Core;
use crate::client::ops::write_failed;
use crate::client::session::{Condition, Session};
use crate::client::{self, ErrorKind};
use crate::engine;
use crate::util::clock::Instant;
use crate::util::znode::Stat;

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

/// The outcome of a write whose answer was lost, and the node now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It was not carried out, and never will be.
    NotCarriedOut(Stat),
    /// It was not carried out, because another client's write came first.
    Overtaken(Stat),
    /// The node has the new data, from this write or from another client's write of the same data.
    Same(Stat),
    /// It may have been carried out.
    Unknown,
}

impl Write<'_> {
    /// Writes the node. Returns its new stat; `None` if the write is conditional and the node has another version.
    pub(super) async fn run(&self) -> Result<Option<Stat>, Error> {
        let full = self.core.full_path(self.path);
        let mut before = self.before;
        let began = self.core.clock.now();
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
                engine::Error::BadVersion => return Ok(None),
                engine::Error::NoNode => return Err(Error::Missing { path: Arc::clone(self.path) }),
                error if error.leaves_outcome_unknown() => match self.settle(&session, &full, before).await {
                    Fate::Overtaken(_) if self.is_conditional => return Ok(None),
                    Fate::Same(now) => return self.same(now),
                    Fate::Unknown => return Err(Error::client(self.path, write_failed(self.doing, self.path, error))),
                    // It was answered, and a retry would get the same answer.
                    _ if !error.is_transient() => return Err(self.failed(error)),
                    Fate::NotCarriedOut(now) | Fate::Overtaken(now) => before = Some(now),
                },
                // It was not sent, or not processed.
                error if error.is_transient() => session.wait_for_disconnect(connection).await,
                error => return Err(self.failed(error)),
            }
            self.check_time(began)?;
        }
    }

    /// Fails after the connection timeout if the write has not been carried out: it may itself cut the connection.
    fn check_time(&self, began: Instant) -> Result<(), Error> {
        let within = self.core.config.connection_timeout;
        if self.core.clock.now().since(began) < within {
            return Ok(());
        }
        let why = format!("not carried out within {within:?}, as each attempt was cut off; try again later");
        Err(Error::client(self.path, client::Error::at(ErrorKind::ConnectionLoss, self.doing, self.path, why)))
    }

    /// Returns the result if the node has the data of this write, and the answer was lost. For an unconditional write
    /// it does not matter who wrote the data. For a conditional one it does: otherwise two clients could both assume
    /// that they replaced the same value.
    fn same(&self, now: Stat) -> Result<Option<Stat>, Error> {
        if self.is_conditional {
            return Err(Error::SameValue { path: Arc::clone(self.path), version: now.version });
        }
        Ok(Some(now))
    }

    /// Returns the stat from the answer to the write. Fails if the node was deleted and created again since it was
    /// read.
    fn written(&self, stat: Stat) -> Result<Option<Stat>, Error> {
        match self.before.filter(|before| self.is_conditional && before.czxid != stat.czxid) {
            Some(_) => Err(Error::Replaced { path: Arc::clone(self.path) }),
            None => Ok(Some(stat)),
        }
    }

    fn failed(&self, error: engine::Error) -> Error {
        Error::client(self.path, client::Error::from_engine(self.doing, self.path, error))
    }

    /// Finds out the outcome of a write whose answer was lost. Once a read of the same session is answered after a
    /// sync, nothing that the session sent before can be carried out any more.
    async fn settle(&self, session: &Arc<Session>, full: &str, before: Option<Stat>) -> Fate {
        let read = session.retry_while_transient(|| session.get_data_synced(full)).await;
        let Ok((data, now)) = read else { return Fate::Unknown };
        fate(before.as_ref(), &now, data == self.bytes, self.is_conditional)
    }
}

/// Returns the outcome of a write that was handed over when the node was as in `before`, or newer. The version counts
/// the writes since then.
fn fate(before: Option<&Stat>, now: &Stat, is_same: bool, is_conditional: bool) -> Fate {
    let before = before.filter(|before| before.czxid == now.czxid);
    match before.map(|before| now.version.wrapping_sub(before.version)) {
        Some(0) => Fate::NotCarriedOut(*now),
        Some(1) if !is_same => Fate::Overtaken(*now),
        writes if is_same && (writes == Some(1) || !is_conditional) => Fate::Same(*now),
        _ => Fate::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_tells_what_became_of_a_write() {
        let stat = |czxid, version| Stat { czxid, version, ..Stat::default() };
        let before = Some(stat(7, 3));
        let (same, three, four) = (Fate::Same, stat(7, 3), stat(7, 4));
        for (before, now, is_same, set, swap) in [
            (before, three, false, Fate::NotCarriedOut(three), Fate::NotCarriedOut(three)),
            (before, three, true, Fate::NotCarriedOut(three), Fate::NotCarriedOut(three)),
            (before, four, false, Fate::Overtaken(four), Fate::Overtaken(four)),
            (before, four, true, same(four), same(four)),
            (before, stat(7, 5), false, Fate::Unknown, Fate::Unknown),
            (before, stat(7, 5), true, same(stat(7, 5)), Fate::Unknown),
            (before, stat(8, 3), false, Fate::Unknown, Fate::Unknown),
            (before, stat(8, 3), true, same(stat(8, 3)), Fate::Unknown),
            (before, stat(8, 4), true, same(stat(8, 4)), Fate::Unknown),
            (None, stat(7, 4), true, same(stat(7, 4)), Fate::Unknown),
            (None, stat(7, 4), false, Fate::Unknown, Fate::Unknown),
        ] {
            assert_eq!(fate(before.as_ref(), &now, is_same, false), set, "set, {now:?} {is_same}");
            assert_eq!(fate(before.as_ref(), &now, is_same, true), swap, "compare and set, {now:?} {is_same}");
        }
        let least = stat(7, i32::MIN);
        let wrapped = fate(Some(&stat(7, i32::MAX)), &least, false, true);
        assert_eq!(wrapped, Fate::Overtaken(least), "versions wrap around");
    }
}
