//! The puts of one transaction.

use super::put::Put;
use crate::client::core::Core;
use crate::client::sequence::{Sequence, Ticket};
use crate::engine::{self, Multi, Op, Reply};
use crate::layout::queue::Paths;
use crate::queue::error::Error;
use crate::util::znode::CreateMode;

/// The puts of one transaction. All copies that are sent have the same puts, number and id, so the producer's node
/// shows what was put, whichever copy the ensemble carries out.
pub(super) struct Batch {
    pub(super) ticket: Ticket,
    pub(super) puts: Vec<Put>,
    /// Whether a copy was not answered and may still be carried out.
    pub(super) in_doubt: bool,
    /// The answer to the last copy; `None` if the next copy has to be sent.
    pub(super) answer: Option<Reply<Multi>>,
}

/// The result of one copy of a transaction.
#[derive(Debug)]
pub(super) enum CopyOutcome {
    /// It was carried out.
    Applied,
    /// It was refused: because of this step, or as a whole.
    Refused(Option<usize>, engine::Error),
    /// Unknown: it was not sent, or the batch is in doubt now.
    Open,
    /// The answer is an error that does not show whether it was carried out. The number does.
    Unclear(engine::Error),
    /// The server is overloaded and did not look at it.
    Throttled,
}

impl Batch {
    /// Sends a copy of the transaction.
    pub(super) fn send(&mut self, core: &Core, paths: &Paths, sequence: &Sequence) {
        let mut ops = vec![sequence.step(self.ticket)];
        ops.extend(self.puts.iter().map(|put| Op::Create {
            path: paths.new_item(&put.node.key),
            data: put.node.payload.clone(),
            mode: CreateMode::PersistentSequential,
            acls: core.config.acls.clone(),
        }));
        self.answer = Some(sequence.session.multi(ops));
    }

    /// Waits for the result of the last copy.
    pub(super) async fn end(&mut self) -> CopyOutcome {
        let Some(answer) = &mut self.answer else { return CopyOutcome::Open };
        let outcome = answer.await;
        self.answer = None;
        match outcome {
            Ok(Multi::Committed(_)) => CopyOutcome::Applied,
            Ok(Multi::Refused { index, error }) => CopyOutcome::Refused(Some(index), error),
            Err(engine::Error::Throttled) => CopyOutcome::Throttled,
            Err(error) if error.is_transient() => {
                self.in_doubt |= error.leaves_outcome_unknown();
                CopyOutcome::Open
            }
            Err(error) if error.leaves_outcome_unknown() => CopyOutcome::Unclear(error),
            Err(error) => CopyOutcome::Refused(None, error),
        }
    }

    /// Removes the put of this step from the batch and settles it as refused. Does so for all puts if the step belongs
    /// to none of them.
    pub(super) fn refuse(&mut self, step: usize, error: &Error) {
        let refused = if (1..=self.puts.len()).contains(&step) { step - 1..step } else { 0..self.puts.len() };
        self.puts.drain(refused).for_each(|put| put.settle(Err(error.clone())));
    }

    /// Settles all puts with the same outcome.
    pub(super) fn settle(self, outcome: &Result<(), Error>) {
        self.puts.into_iter().for_each(|put| put.settle(outcome.clone()));
    }
}
