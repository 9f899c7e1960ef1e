//! The puts of one transaction.

use super::put::Put;
use super::sequence::{Sequence, Ticket};
use crate::backend::{self, Multi, Op, Reply};
use crate::client::core::Core;
use crate::queue::error::Error;
use crate::queue::znodes::Paths;
use crate::types::CreateMode;

/// The puts of one transaction. Each copy of it that is sent has the same puts, number and id: whichever the ensemble
/// carries out, the producer's node tells what was put.
pub(super) struct Batch {
    pub(super) ticket: Ticket,
    pub(super) puts: Vec<Put>,
    /// A copy was not answered, and may still be carried out.
    pub(super) in_doubt: bool,
    /// The answer to the last copy; `None` if the next one is to be sent.
    pub(super) answer: Option<Reply<Multi>>,
}

/// What the answer to one copy of a transaction tells.
#[derive(Debug)]
pub(super) enum End {
    /// It was carried out.
    Applied,
    /// It was not carried out because of this step, or as a whole.
    Refused(Option<usize>, backend::Error),
    /// Nothing: it was not sent, or the batch is in doubt now.
    Open,
    /// The server is overloaded and did not look at it.
    Throttled,
}

impl Batch {
    /// Sends a copy of the transaction.
    pub(super) fn send(&mut self, core: &Core, paths: &Paths, sequence: &Sequence) {
        let mut ops = vec![sequence.step(self.ticket)];
        ops.extend(self.puts.iter().map(|put| Op::Create {
            path: paths.new_item(),
            data: put.payload.clone(),
            mode: CreateMode::PersistentSequential,
            acls: core.config.acls.clone(),
        }));
        self.answer = Some(sequence.session.multi(ops));
    }

    /// What the last copy has come to.
    pub(super) async fn end(&mut self) -> End {
        let Some(answer) = &mut self.answer else { return End::Open };
        let outcome = answer.await;
        self.answer = None;
        match outcome {
            Ok(Multi::Committed(_)) => End::Applied,
            Ok(Multi::Refused { index, error }) => End::Refused(Some(index), error),
            Err(error) if error.leaves_outcome_unknown() => {
                self.in_doubt = true;
                End::Open
            }
            Err(backend::Error::Throttled) => End::Throttled,
            Err(error) if error.is_passing() => End::Open,
            Err(error) => End::Refused(None, error),
        }
    }

    /// Tells the put of this step that it was refused, or all if the step is none of theirs; they leave the batch.
    pub(super) fn refuse(&mut self, step: usize, error: &Error) {
        let refused = if (1..=self.puts.len()).contains(&step) { step - 1..step } else { 0..self.puts.len() };
        self.puts.drain(refused).for_each(|put| put.settle(Err(error.clone())));
    }

    /// Tells all of its puts the same.
    pub(super) fn settle(self, outcome: &Result<(), Error>) {
        self.puts.into_iter().for_each(|put| put.settle(outcome.clone()));
    }
}
