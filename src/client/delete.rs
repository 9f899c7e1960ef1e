//! The deletion of one node, which also knows its outcome after a lost answer.

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
    /// the client then looks: it returns `Ok` if the node is gone. If the node is certainly the one that was there
    /// before, it retries after a lost answer, and returns the error of any other. The outcome stays unknown if the
    /// node may be one that another client has created since, or the session has ended.
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
                    let answered = (!error.is_passing()).then(|| Error::from_engine("delete", path, error.clone()));
                    (write_failed("delete", path, error), answered)
                }
                Err(error) => (error, None),
            };
            let is_lost = error.kind() == ErrorKind::OutcomeUnknown && version.is_none();
            let Some((session, known)) = sent.filter(|_| is_lost) else { return Err(error) };
            if retry.pause_after("delete", path, Refusal::ConnectionLoss, |_| true).await.is_err() {
                return Err(error);
            }
            let left = core.left_after(path, &session, known).await;
            if let Some(outcome) = left.settle(error, answered) {
                return outcome;
            }
        }
    }
}

/// What is at a path after a delete without an answer.
enum Left {
    Nothing,
    /// The node that was there when the delete was handed over, which was not carried out and never will be.
    SameNode,
    /// Perhaps the node that another client has created after the delete.
    Unknown,
}

impl Left {
    /// Returns the outcome of a delete that failed with `error`, which is also `answered` if it came with an answer;
    /// `None` if it has to be sent again.
    fn settle(self, error: Error, answered: Option<Error>) -> Option<Result<(), Error>> {
        match (self, answered) {
            (Left::Nothing, _) => Some(Ok(())),
            // It was not carried out, and the answer to another one would be the same.
            (Left::SameNode, Some(answered)) => Some(Err(answered)),
            (Left::SameNode, None) => None,
            (Left::Unknown, _) => Some(Err(error)),
        }
    }
}

impl Core {
    /// Looks what is left after the answer to a delete was lost, which `sent` handed over when it knew of the
    /// transaction `known`.
    ///
    /// A node that was created no later than that was there before the delete, and still is: so the delete was not
    /// carried out. Nor will it be: the ensemble has confirmed the present connection of the session, or ended the
    /// session, and takes no request of an earlier connection since.
    async fn left_after(&self, path: &str, sent: &Arc<Session>, known: i64) -> Left {
        let look = |session: &Arc<Session>, full: &str| {
            let is_settled = Arc::ptr_eq(session, sent) || sent.condition() == Condition::Ended(EndReason::Expired);
            let (sync, found) = session.together(|| (session.sync(full), session.exists(full)));
            async move {
                let (sync, found) = futures::join!(sync, found);
                sync.and(found).map(|found| (is_settled, found))
            }
        };
        match self.read("delete", path, look).await {
            Ok((true, None)) => Left::Nothing,
            Ok((true, Some(stat))) if stat.czxid <= known => Left::SameNode,
            _ => Left::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delete_is_sent_again_only_if_it_was_not_answered() {
        let (lost, answered) = (Error::new(ErrorKind::OutcomeUnknown, ""), Error::new(ErrorKind::Other, ""));
        for (left, was_answered, outcome) in [
            (Left::Nothing, false, Some(Ok(()))),
            (Left::Nothing, true, Some(Ok(()))),
            (Left::SameNode, false, None),
            (Left::SameNode, true, Some(Err(answered.clone()))),
            (Left::Unknown, false, Some(Err(lost.clone()))),
            (Left::Unknown, true, Some(Err(lost.clone()))),
        ] {
            assert_eq!(left.settle(lost.clone(), was_answered.then(|| answered.clone())), outcome);
        }
    }
}
