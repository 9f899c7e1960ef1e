//! The task of a producer: puts in order, several to a transaction, and each exactly once.
//!
//! A producer has a node of its own, with a number in it. The transaction that creates items also raises that number by one: so
//! of two copies of one transaction the ensemble carries out only the first, and when an answer is lost the node tells what was
//! carried out. For that a transaction is sent again only as it was, or when no copy of it is in doubt.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::in_flight::{Batch, End, InFlight, Put};
use super::sequence::Sequence;
use crate::backend::{self, Multi, Op, Reply};
use crate::client::core::Core;
use crate::client::parents;
use crate::client::session::{Condition, Session};
use crate::client::{self, ErrorKind};
use crate::queue::error::Error;
use crate::queue::znodes::Paths;
use crate::types::CreateMode;

/// What shares one transaction, at most; less where the servers take less.
pub(super) const MOST_ITEMS: usize = 64;
const MOST_BYTES: usize = 256 * 1024;
/// What a request has for each node that is created besides its path, its data and what its ACL names; a little more than that.
const STEP_BYTES: usize = 64;
const ACL_BYTES: usize = 16;
/// Of what a request may have, this is kept for its paths, and for the reason of a dead letter.
pub(super) const RESERVED_BYTES: usize = 4 * 1024;
/// So many transactions are under way at once. One that is not full waits until none is.
const MOST_BATCHES: usize = 4;

/// What a handle asks of the task.
#[derive(Debug)]
pub(super) enum Command {
    /// One more node.
    Put(Put),
    /// To be answered when all before it are done.
    Flush(oneshot::Sender<()>),
    /// As a flush; and the producer's node is to be deleted by then.
    Close(oneshot::Sender<()>),
}

pub(super) struct Task {
    core: Arc<Core>,
    paths: Arc<Paths>,
    in_flight: Arc<InFlight>,
    commands: mpsc::UnboundedReceiver<Command>,
    limits: Limits,
    /// All handles are gone.
    abandoned: bool,
    /// What is not in a batch yet.
    waiting: VecDeque<Command>,
    /// All of them are under way, or all are to be sent again.
    batches: VecDeque<Batch>,
    sequence: Option<Sequence>,
}

impl Task {
    pub(super) fn new(
        core: &Arc<Core>,
        paths: &Arc<Paths>,
        in_flight: &Arc<InFlight>,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        Task {
            core: Arc::clone(core),
            paths: Arc::clone(paths),
            in_flight: Arc::clone(in_flight),
            commands,
            limits: Limits::of(core, paths),
            abandoned: false,
            waiting: VecDeque::new(),
            batches: VecDeque::new(),
            sequence: None,
        }
    }

    /// Until all handles are gone, and everything is put.
    pub(super) async fn run(mut self) {
        loop {
            self.answer_markers().await;
            if self.waiting.is_empty() && self.batches.is_empty() {
                match self.commands.recv().await {
                    Some(command) => self.waiting.push_back(command),
                    // The node goes with the sequence.
                    None => return self.in_flight.report_failures(&self.core),
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                self.waiting.push_back(command);
            }
            match self.core.connected_session().await {
                Ok(session) => self.step(&session).await,
                Err(_) => self.fail_all().await,
            }
        }
    }

    /// Answers flushes before which nothing is left.
    async fn answer_markers(&mut self) {
        while self.batches.is_empty() && !matches!(self.waiting.front(), None | Some(Command::Put(_))) {
            match self.waiting.pop_front() {
                // The caller may be gone.
                Some(Command::Flush(done)) => drop(done.send(())),
                Some(Command::Close(done)) => {
                    if let Some(sequence) = self.sequence.take() {
                        sequence.end().await;
                    }
                    let _ = done.send(());
                }
                _ => {}
            }
        }
    }

    /// The client is closed: nothing will be put any more.
    async fn fail_all(&mut self) {
        while let Some(front) = self.batches.front_mut().filter(|batch| batch.answer.is_some()) {
            let end = front.end().await;
            self.ended(end).await;
        }
        self.sequence = None;
        self.dissolve();
        for command in std::mem::take(&mut self.waiting) {
            match command {
                Command::Put(put) => put.settle(Err(self.in_flight.closed())),
                Command::Flush(done) | Command::Close(done) => drop(done.send(())),
            }
        }
    }

    /// Sends what may be sent, and takes in the next that happens.
    async fn step(&mut self, session: &Arc<Session>) {
        if let Err(error) = self.have_sequence(session).await {
            let error = client::Error::from_backend("register with", &self.paths.producers, error);
            return self.refuse_waiting(&Error::client(&self.paths.path, error));
        }
        self.send();
        // Without a connection nothing is under way.
        let Some(front) = self.batches.front_mut().filter(|batch| batch.answer.is_some()) else { return };
        let end = tokio::select! {
            biased;
            end = front.end() => end,
            command = self.commands.recv(), if !self.abandoned => {
                match command {
                    Some(command) => self.waiting.push_back(command),
                    None => self.abandoned = true,
                }
                return;
            }
        };
        self.ended(end).await;
    }

    /// Sees to it that there are numbers of this session, unless there are batches under way.
    async fn have_sequence(&mut self, session: &Arc<Session>) -> Result<(), backend::Error> {
        let ours = self.sequence.as_ref().is_some_and(|sequence| Arc::ptr_eq(sequence.session(), session));
        if ours || self.batches.iter().any(|batch| batch.answer.is_some()) {
            return Ok(());
        }
        self.sequence = None;
        self.dissolve();
        if !self.waiting.is_empty() {
            self.sequence = Sequence::create(&self.core, session, &self.paths).await?;
        }
        Ok(())
    }

    /// Everything that can be sent now: without a transaction under way whatever there is, else only full ones.
    fn send(&mut self) {
        let Some(sequence) = &mut self.sequence else { return };
        if !matches!(sequence.session().condition(), Condition::Connected(_)) {
            return;
        }
        for batch in self.batches.iter_mut().filter(|batch| batch.answer.is_none()) {
            batch.answer = Some(hand_over(&self.core, &self.paths, sequence, batch));
        }
        while self.batches.len() < MOST_BATCHES {
            let (count, full) = self.limits.next_batch(&self.waiting);
            if count == 0 || !(full || self.batches.is_empty()) {
                return;
            }
            let Some(ticket) = sequence.issue() else { break };
            let puts = self.waiting.drain(..count).filter_map(|command| match command {
                Command::Put(put) => Some(put),
                _ => None,
            });
            let mut batch = Batch { ticket, puts: puts.collect(), in_doubt: false, answer: None };
            batch.answer = Some(hand_over(&self.core, &self.paths, sequence, &batch));
            self.batches.push_back(batch);
        }
        if self.batches.is_empty() {
            // Its numbers are used up.
            self.sequence = None;
        }
    }

    /// The first transaction under way has been answered, or its answer is lost.
    async fn ended(&mut self, end: End) {
        match (end, &mut self.sequence) {
            (End::Applied, Some(sequence)) => {
                if let Some(batch) = self.batches.pop_front() {
                    sequence.confirm(batch.ticket);
                    batch.settle(&Ok(()));
                }
            }
            (end, _) => self.recover(end).await,
        }
    }

    /// The first transaction under way was not answered, or not carried out. Finds out what became of all of them; those that
    /// were not carried out remain, to be sent again.
    async fn recover(&mut self, first: End) {
        let mut ends = vec![first];
        for batch in self.batches.iter_mut().skip(1) {
            ends.push(batch.end().await);
        }
        let tickets: Vec<_> = self.batches.iter().map(|batch| batch.ticket).collect();
        let last = match &mut self.sequence {
            Some(sequence) => sequence.read(&tickets).await,
            None => None,
        };
        let mut as_they_were = last.is_some();
        for (batch, end) in std::mem::take(&mut self.batches).into_iter().zip(ends) {
            if matches!(end, End::Applied) || last.is_some_and(|last| batch.ticket.number <= last) {
                batch.settle(&Ok(()));
                continue;
            }
            let (batch, as_it_was) = match end {
                End::Refused { step, error } => self.refused(batch, step, error).await,
                End::Rejected(error) => (self.fail(batch, None, error), false),
                End::Applied | End::NotSent | End::Unknown => (batch, true),
            };
            as_they_were &= as_it_was;
            self.batches.push_back(batch);
        }
        if last.is_none() {
            // Deleted or written by others, or gone with its session.
            self.sequence = None;
        }
        if !as_they_were {
            self.dissolve();
        }
    }

    /// The ensemble has refused one step of a transaction, and with it all of them. Returns what is left of the batch, and
    /// whether it can be sent again as it was.
    async fn refused(&mut self, batch: Batch, step: usize, error: backend::Error) -> (Batch, bool) {
        use backend::Error::{BadVersion, NoNode};
        let error = match (step, error) {
            // Behind one that was not carried out; or others have deleted or written the node, as it has shown by now.
            (0, NoNode | BadVersion) => return (batch, true),
            (1.., NoNode) => match self.make_directory().await {
                Ok(()) => return (batch, true),
                Err(error) if error.is_passing() => return (batch, true),
                Err(error) => error,
            },
            (_, error) => error,
        };
        (self.fail(batch, step.checked_sub(1), error), false)
    }

    async fn make_directory(&mut self) -> Result<(), backend::Error> {
        let Some(sequence) = &self.sequence else { return Ok(()) };
        parents::ensure(sequence.session(), &self.paths.items, &self.core.config.acls).await
    }

    /// Tells one put of the batch, or all, that it was refused. In doubt nobody knows that of any.
    fn fail(&self, mut batch: Batch, put: Option<usize>, error: backend::Error) -> Batch {
        if !batch.in_doubt {
            let error = self.refusal(error);
            let refused = match put {
                Some(put) if put < batch.puts.len() => put..put + 1,
                _ => 0..batch.puts.len(),
            };
            batch.puts.drain(refused).for_each(|put| put.settle(Err(error.clone())));
        }
        batch
    }

    /// The batches cannot be sent again as they were: their numbers, or some of their puts, are gone. Puts that were never in
    /// doubt wait for a new batch, in order.
    fn dissolve(&mut self) {
        let mut again = Vec::new();
        for batch in std::mem::take(&mut self.batches) {
            if batch.in_doubt {
                // A copy that comes late must not find the node: its puts may be in another batch by then.
                self.sequence = None;
                batch.settle(&Err(self.outcome_unknown()));
            } else {
                again.extend(batch.puts);
            }
        }
        for put in again.into_iter().rev() {
            self.waiting.push_front(Command::Put(put));
        }
        if let Some(sequence) = &mut self.sequence {
            sequence.rewind();
        }
    }

    /// Nothing can be put: each put is told, as none of them was sent.
    fn refuse_waiting(&mut self, error: &Error) {
        while matches!(self.waiting.front(), Some(Command::Put(_))) {
            if let Some(Command::Put(put)) = self.waiting.pop_front() {
                put.settle(Err(error.clone()));
            }
        }
    }

    fn refusal(&self, error: backend::Error) -> Error {
        let error = match error {
            // Only a counter that cannot go on gives a number twice.
            backend::Error::NodeExists => client::Error::new(
                ErrorKind::SequenceExhausted,
                format!(
                    "put into {}: its counter of 32 bits is used up; when the queue is empty, delete the node",
                    self.paths.path
                ),
            ),
            error => client::Error::from_backend("put into", &self.paths.path, error),
        };
        Error::client(&self.paths.path, error)
    }

    fn outcome_unknown(&self) -> Error {
        let message = format!(
            "put into {}: handed over, and not answered; it may or may not have been put, as its session is over, or its \
             producer's node was deleted or written by others",
            self.paths.path
        );
        Error::client(&self.paths.path, client::Error::new(ErrorKind::OutcomeUnknown, message))
    }
}

/// Sends a copy of the transaction.
fn hand_over(core: &Core, paths: &Paths, sequence: &Sequence, batch: &Batch) -> Reply<Multi> {
    let mut ops = vec![sequence.step(batch.ticket)];
    ops.extend(batch.puts.iter().map(|put| Op::Create {
        path: paths.new_item(),
        data: put.payload.clone(),
        mode: CreateMode::PersistentSequential,
        acls: core.config.acls.clone(),
    }));
    sequence.session().multi(ops)
}

/// How large a transaction may be.
#[derive(Debug, Clone, Copy)]
struct Limits {
    bytes: usize,
    /// What each put has besides its data.
    around: usize,
}

impl Limits {
    fn of(core: &Core, paths: &Paths) -> Self {
        let acls: usize = core.config.acls.iter().map(|acl| acl.scheme.len() + acl.id.len() + ACL_BYTES).sum();
        Limits {
            bytes: MOST_BYTES.min(core.config.max_request_bytes.saturating_sub(RESERVED_BYTES)),
            around: paths.new_item().len() + acls + STEP_BYTES,
        }
    }

    /// How many of the first commands share the next transaction, and whether more would not fit.
    fn next_batch(self, waiting: &VecDeque<Command>) -> (usize, bool) {
        let (mut count, mut bytes) = (0, 0);
        for command in waiting {
            let Command::Put(put) = command else { return (count, true) };
            bytes += put.payload.len() + self.around;
            if count == MOST_ITEMS || (count > 0 && bytes > self.bytes) {
                return (count, true);
            }
            count += 1;
        }
        (count, count == MOST_ITEMS)
    }
}
