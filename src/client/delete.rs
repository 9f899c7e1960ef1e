//! Deletes one node, and finds out after a lost answer whether it did.

use std::sync::Arc;

use super::Client;
use super::core::Core;
use super::error::{Error, ErrorKind};
use super::ops::{Retry, check_version, write_failed};
use super::session::{Condition, EndReason, Session};
use crate::engine::Error as Refusal;

impl Client {
    /// Deletes a node. If a `version` is given, the node must have that version.
    ///
    /// # Errors
    /// [`ErrorKind::NoNode`], [`ErrorKind::NotEmpty`], [`ErrorKind::BadVersion`]; [`ErrorKind::OutcomeUnknown`] if the
    /// connection broke before the answer, or the answer does not say whether the node was deleted. Without a version
    /// the client then looks for the node, and returns `Ok` if it is gone. If the node is certainly the same as before,
    /// the client retries if the answer was lost, and otherwise returns the error of the answer. The outcome stays
    /// unknown if another client may have created the node since, or the session has ended.
    ///
    /// # Cancel safety
    /// A delete that was sent before the future was dropped may still be carried out.
    pub async fn delete(&self, path: &str, version: Option<i32>) -> Result<(), Error> {
        check_version("delete", path, version)?;
        let core = self.core();
        let mut retry = Retry::new(core);
        loop {
            let mut sent = None;
            let delete = |session: &Arc<Session>, full: &str| {
                sent = Some((Arc::clone(session), session.latest_zxid()));
                session.delete(full, version)
            };
            let (error, answered) = match core.answer_to_write("delete", path, delete).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => {
                    let answered = (!error.is_transient()).then(|| Error::from_engine("delete", path, error.clone()));
                    (write_failed("delete", path, error), answered)
                }
                Err(error) => (error, None),
            };
            let is_lost = error.kind() == ErrorKind::OutcomeUnknown && version.is_none();
            let Some((session, known)) = sent.filter(|_| is_lost) else { return Err(error) };
            if retry.pause_after("delete", path, Refusal::ConnectionLoss, |_| true).await.is_err() {
                return Err(error);
            }
            let remaining = core.remaining(path, &session, known).await;
            if let Some(outcome) = remaining.settle(error, answered) {
                return outcome;
            }
        }
    }
}

/// What is at a path after a delete of unknown outcome.
enum Remaining {
    Nothing,
    /// The node that was there when the delete was handed over. The delete was not carried out and never will be.
    SameNode,
    /// Not known: it may be a node that another client has created after the delete.
    Unknown,
}

impl Remaining {
    /// Returns the outcome of a delete that failed with `error`, or `None` if it has to be sent again. `answered` is
    /// the error of the answer, if there was an answer.
    fn settle(self, error: Error, answered: Option<Error>) -> Option<Result<(), Error>> {
        match (self, answered) {
            (Remaining::Nothing, _) => Some(Ok(())),
            // It was not carried out, and the answer to another attempt would be the same.
            (Remaining::SameNode, Some(answered)) => Some(Err(answered)),
            (Remaining::SameNode, None) => None,
            (Remaining::Unknown, _) => Some(Err(error)),
        }
    }
}

impl Core {
    /// Looks for the node after a delete of unknown outcome. `sent` is the session that the delete was handed to, and
    /// `known` the latest transaction that this session knew of then.
    ///
    /// A node that was created no later than `known` was there before the delete and still is, so the delete was not
    /// carried out. Nor will it be: since then the ensemble has confirmed the present connection of the session, or
    /// ended the session, and accepts no more requests of an earlier connection.
    async fn remaining(&self, path: &str, sent: &Arc<Session>, known: i64) -> Remaining {
        let look = |session: &Arc<Session>, full: &str| {
            let is_settled = Arc::ptr_eq(session, sent) || sent.condition() == Condition::Ended(EndReason::Expired);
            let (sync, found) = session.together(|| (session.sync(full), session.exists(full)));
            async move {
                let (sync, found) = futures::join!(sync, found);
                sync.and(found).map(|found| (is_settled, found))
            }
        };
        match self.read("delete", path, look).await {
            Ok((true, None)) => Remaining::Nothing,
            Ok((true, Some(stat))) if stat.czxid <= known => Remaining::SameNode,
            _ => Remaining::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delete_is_sent_again_only_if_it_was_not_answered() {
        let (lost, answered) = (Error::new(ErrorKind::OutcomeUnknown, ""), Error::new(ErrorKind::Other, ""));
        for (remaining, was_answered, outcome) in [
            (Remaining::Nothing, false, Some(Ok(()))),
            (Remaining::Nothing, true, Some(Ok(()))),
            (Remaining::SameNode, false, None),
            (Remaining::SameNode, true, Some(Err(answered.clone()))),
            (Remaining::Unknown, false, Some(Err(lost.clone()))),
            (Remaining::Unknown, true, Some(Err(lost.clone()))),
        ] {
            assert_eq!(remaining.settle(lost.clone(), was_answered.then(|| answered.clone())), outcome);
        }
    }
}
