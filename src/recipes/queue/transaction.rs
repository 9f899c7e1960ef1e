//! A transaction on items whose second copy is refused, as the first one has deleted or created something.

use std::sync::Arc;

use crate::client::core::Core;
use crate::client::ops::{MAYBE_DONE, Retry, outcome_unknown};
use crate::client::{self, ErrorKind, parents};
use crate::engine::{Error as Refusal, Multi, Op};

/// What a refusal says about the transaction.
pub(super) enum Refused<T> {
    /// The call ends with this.
    Done(T),
    /// The directory is missing, so this copy was not carried out.
    NoDirectory,
    /// Anything else: it is repeated if the error is transient.
    Other,
}

/// A transaction, and what it needs.
pub(super) struct Transaction<'a> {
    pub(super) core: &'a Core,
    /// What it does, and to which node, for errors.
    pub(super) doing: &'static str,
    pub(super) path: &'a str,
    /// The directory on the server that is created if it is missing.
    pub(super) directory: &'a str,
    /// Carried out once, they are refused after that.
    pub(super) steps: Vec<Op>,
}

impl Transaction<'_> {
    /// Carries out the steps, with as many copies as the retry policy allows, and returns `done`. If a step is refused,
    /// `judge` says what that means. It gets the number of the step, the error, and whether an earlier copy, whose
    /// answer was lost, may have been carried out. It clears that if the refusal shows that none was.
    pub(super) async fn commit<T>(
        self,
        done: T,
        judge: impl Fn(usize, &Refusal, &mut bool) -> Refused<T>,
    ) -> Result<T, client::Error> {
        let Transaction { core, doing, path, .. } = self;
        let mut retry = Retry::new(core);
        let (mut in_doubt, mut was_created) = (false, false);
        loop {
            let answer = core.answer_to_write(doing, path, |session, _| session.multi(self.steps.clone())).await;
            let again = match answer {
                Ok(Ok(Multi::Committed(_))) => return Ok(done),
                Ok(Ok(Multi::Refused { index, error })) => match judge(index, &error, &mut in_doubt) {
                    Refused::Done(end) => return Ok(end),
                    // If another client deletes it each time, the policy is the bound.
                    Refused::NoDirectory => {
                        match (self.create_directory().await, std::mem::replace(&mut was_created, true)) {
                            (Ok(()), true) => retry.pause_after(doing, path, error, |_| true).await,
                            (created, _) => created,
                        }
                    }
                    // What the servers say of a second copy tells nothing about the first.
                    Refused::Other if in_doubt && !error.is_transient() => Err(outcome_unknown(doing, path)),
                    Refused::Other => retry.pause_after(doing, path, error, Refusal::is_transient).await,
                },
                Ok(Err(error)) => {
                    in_doubt |= error.leaves_outcome_unknown();
                    retry.pause_after(doing, path, error, Refusal::is_transient).await
                }
                Err(error) => Err(error),
            };
            again.map_err(|error| match error.kind() {
                ErrorKind::OutcomeUnknown => error,
                _ if in_doubt => error.outcome_unknown(MAYBE_DONE),
                _ => error,
            })?;
        }
    }

    /// Creates the directory. That is harmless to repeat, so it is retried as a read.
    async fn create_directory(&self) -> Result<(), client::Error> {
        let (core, directory) = (self.core, self.directory);
        let create = |session: &Arc<_>, _: &str| {
            let session = Arc::clone(session);
            async move { parents::ensure(&session, directory, &[], &core.config.acls).await }
        };
        core.read(self.doing, self.path, create).await
    }
}
