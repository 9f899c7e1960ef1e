//! The task of a producer: puts items in order, several in one transaction, and each exactly once.
//!
//! Each producer has its own node, which contains a number. The transaction that creates items also raises that number
//! by one. So the ensemble carries out only the first of two copies of a transaction, and after an answer was lost the
//! node shows what was carried out. Therefore a transaction is sent again only unchanged, or when no copy of it is in
//! doubt.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::batch::{Batch, CopyOutcome};
use super::failures::Failures;
use super::put::{Put, failed};
use crate::client::core::Core;
use crate::client::parents;
use crate::client::sequence::Sequence;
use crate::client::session::Session;
use crate::client::{self, ErrorKind};
use crate::engine;
use crate::layout::queue::Paths;
use crate::metrics::{Label, table};
use crate::queue::error::Error;
use crate::queue::sizes;
use crate::util::znode::Acl;

/// The most items of one transaction; fewer if the servers accept less.
pub(super) const MOST_ITEMS: usize = 64;
const MOST_BYTES: usize = 256 * 1024;
/// How long transactions are kept smaller after the servers did not accept one.
const REDUCED_FOR: Duration = Duration::from_secs(10 * 60);
/// The most transactions in flight. One that is not full waits until none is in flight, or until a flush.
const MOST_BATCHES: usize = 4;

/// The error of a put whose outcome can no longer be determined.
const IN_DOUBT: &str = "sent, and not answered; it may or may not have been put, because the session ended, or another \
                        client deleted or wrote the producer's node";
/// The error of a put for which the server has no number left.
const EXHAUSTED: &str = "its counter of 32 bits is used up; when the queue is empty and no consumer is running, \
                         delete the node";

/// A command to the task of a producer.
#[derive(Debug)]
pub(super) enum Command {
    /// Create one more node.
    Put(Put),
    /// Answer when all commands before it are done.
    Flush(oneshot::Sender<()>),
}

pub(super) struct Task {
    core: Arc<Core>,
    paths: Arc<Paths>,
    failures: Arc<Failures>,
    commands: mpsc::UnboundedReceiver<Command>,
    /// Whether the producer's node has to be deleted when the next flush is answered.
    closed: watch::Receiver<bool>,
    /// Whether the node was deleted by a close. A put that arrives after that raced with the close, and must not create
    /// another node.
    ended: bool,
    /// The puts that are in no batch yet.
    waiting: VecDeque<Put>,
    /// A flush that follows all waiting puts. Until it is answered, no more commands are accepted.
    flush: Option<oneshot::Sender<()>>,
    /// Either all of them are in flight, or all have to be sent again.
    batches: VecDeque<Batch>,
    sequence: Option<Sequence>,
    /// A limit that replaces [`MOST_BYTES`], and when it was set: the servers did not accept a larger transaction.
    reduced: Option<(usize, tokio::time::Instant)>,
}

impl Task {
    pub(super) fn new(
        core: Arc<Core>,
        paths: Arc<Paths>,
        failures: Arc<Failures>,
        commands: mpsc::UnboundedReceiver<Command>,
        closed: watch::Receiver<bool>,
    ) -> Self {
        Task {
            core,
            paths,
            failures,
            commands,
            closed,
            ended: false,
            waiting: VecDeque::new(),
            flush: None,
            batches: VecDeque::new(),
            sequence: None,
            reduced: None,
        }
    }

    /// Runs until all handles are dropped and everything is put. Then the drop of the sequence deletes the node.
    pub(super) async fn run(mut self) {
        loop {
            while self.flush.is_none()
                && let Ok(command) = self.commands.try_recv()
            {
                self.handle_command(command);
            }
            if !self.waiting.is_empty() || !self.batches.is_empty() {
                self.step().await;
            } else if let Some(done) = self.flush.take() {
                self.answer_flush(done).await;
            } else if let Some(command) = self.commands.recv().await {
                self.handle_command(command);
            } else {
                break;
            }
        }
        // There is no handle left that could return the failures.
        if let Some(error) = self.failures.take() {
            self.core.report(client::Error::new(error.kind(), error.to_string()));
        }
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::Put(put) if self.ended => put.settle(Err(Error::closed(&self.paths.path))),
            Command::Put(put) => self.waiting.push_back(put),
            Command::Flush(done) => self.flush = Some(done),
        }
    }

    async fn answer_flush(&mut self, done: oneshot::Sender<()>) {
        self.ended = *self.closed.borrow();
        if self.ended
            && let Some(sequence) = self.sequence.take()
        {
            sequence.end().await;
        }
        // The caller may have stopped waiting.
        let _ = done.send(());
    }

    /// Sends what can be sent, and handles the next event.
    async fn step(&mut self) {
        if let Err(error) = self.ensure_sequence().await {
            // None of the waiting puts was sent.
            let error = Error::client(&self.paths.path, error);
            self.waiting.drain(..).for_each(|put| put.settle(Err(error.clone())));
        }
        self.send();
        // Without a connection nothing is in flight.
        let Some(first) = first_in_flight(&mut self.batches) else { return };
        tokio::select! {
            biased;
            end = first.end() => match end {
                CopyOutcome::Applied => self.confirm(),
                end => self.recover(end).await,
            },
            Some(command) = self.commands.recv(), if self.flush.is_none() => self.handle_command(command),
        }
    }

    /// Ensures that there is a sequence for the current session, unless transactions are in flight. An error applies to
    /// all waiting puts.
    async fn ensure_sequence(&mut self) -> Result<(), client::Error> {
        let session = self.core.connected_session().await;
        let ours = |sequence: &Sequence| session.as_ref().is_ok_and(|session| Arc::ptr_eq(session, &sequence.session));
        if first_in_flight(&mut self.batches).is_some() || self.sequence.as_ref().is_some_and(ours) {
            return Ok(());
        }
        self.sequence = None;
        self.dissolve();
        let session = session?;
        if self.waiting.is_empty() {
            return Ok(());
        }
        match Sequence::create(&self.core, &session, &self.paths.producers).await {
            Ok(sequence) => self.sequence = Some(sequence),
            // The next session can create it.
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(client::Error::from_engine("register with", &self.paths.producers, error)),
        }
        Ok(())
    }

    /// Sends all batches that can be sent now.
    fn send(&mut self) {
        if !self.sequence.as_ref().is_some_and(Sequence::is_connected) {
            return;
        }
        while self.batches.len() < MOST_BATCHES
            && let Some(batch) = self.next_batch()
        {
            self.batches.push_back(batch);
        }
        if self.batches.is_empty() {
            // Puts wait, but the numbers of this sequence are used up.
            self.sequence = None;
        }
        let Some(sequence) = &self.sequence else { return };
        for batch in self.batches.iter_mut().filter(|batch| batch.answer.is_none()) {
            batch.send(&self.core, &self.paths, sequence);
        }
    }

    /// Returns a batch of the waiting puts that fit into one transaction. While other transactions are in flight,
    /// returns only a batch that no more puts can be added to.
    fn next_batch(&mut self) -> Option<Batch> {
        let config = &self.core.config;
        // Each transaction writes the producer's node.
        let number = self.paths.producers.len();
        let reduced = self.reduced.filter(|(_, at)| at.elapsed() < REDUCED_FOR);
        let most = reduced
            .map_or(MOST_BYTES, |(bytes, _)| bytes)
            .min(config.max_request_bytes.saturating_sub(sizes::RESERVED_BYTES + number));
        let around = Acl::request_bytes(&config.acls) + sizes::STEP_BYTES;
        let mut bytes = 0;
        let fit = self.waiting.iter().take(MOST_ITEMS).take_while(|put| {
            bytes += self.paths.new_item(&put.node.key).len() + put.node.payload.len() + around;
            bytes <= most
        });
        // An item that is larger has its own transaction.
        let count = fit.count().max(1).min(self.waiting.len());
        let full = count == MOST_ITEMS || count < self.waiting.len() || self.flush.is_some();
        if count == 0 || !(full || self.batches.is_empty()) {
            return None;
        }
        let ticket = self.sequence.as_mut()?.issue(self.batches.len())?;
        Some(Batch { ticket, puts: self.waiting.drain(..count).collect(), in_doubt: false, answer: None })
    }

    /// Settles the first transaction in flight, which was carried out.
    fn confirm(&mut self) {
        // There are no batches without a sequence.
        let (Some(batch), Some(sequence)) = (self.batches.pop_front(), &mut self.sequence) else { return };
        sequence.confirm(batch.ticket);
        self.confirm_puts(batch);
    }

    /// Settles the puts of a transaction that was carried out.
    fn confirm_puts(&self, batch: Batch) {
        let nodes = batch.puts.len() as u64;
        self.core.meter().count(&table::QUEUE_PUTS, &[Label::Path(&self.paths.path)], nodes);
        batch.settle(&Ok(()));
    }

    /// Recovers after the first transaction in flight was not answered, or not carried out. Determines the outcome of
    /// all transactions. Those that were not carried out remain, to be sent again.
    async fn recover(&mut self, first: CopyOutcome) {
        let Some(mut sequence) = self.sequence.take() else { return };
        let mut ends = vec![first];
        for batch in self.batches.iter_mut().skip(1) {
            ends.push(batch.end().await);
        }
        if ends.iter().any(|end| matches!(end, CopyOutcome::Throttled)) {
            tokio::time::sleep(sequence.session.lease().tick()).await;
        }
        let tickets: Vec<_> = self.batches.iter().map(|batch| batch.ticket).collect();
        let last = sequence.read(&tickets).await;
        let (mut unchanged, mut too_large) = (last.is_some(), false);
        // The next transaction in order is not carried out: no server reads it, or it was refused. Those behind it are
        // not carried out either, as each needs the number of the one before.
        let (mut is_broken, mut retire) = (false, false);
        for (mut batch, mut end) in std::mem::take(&mut self.batches).into_iter().zip(ends) {
            if matches!(end, CopyOutcome::Applied) || last.is_some_and(|last| batch.ticket.number <= last) {
                self.confirm_puts(batch);
                continue;
            }
            if let CopyOutcome::Unclear(error) = end {
                // If the number is known, it was not carried out, and another copy would get the same answer.
                batch.in_doubt |= last.is_none();
                retire = true;
                end = CopyOutcome::Refused(None, error);
            }
            if let CopyOutcome::Refused(None, engine::Error::TooLarge(_)) = end {
                if self.batches.is_empty() && last.is_some() {
                    (too_large, is_broken) = (true, true);
                } else {
                    // The puts before it come first.
                    end = CopyOutcome::Open;
                }
            }
            if is_broken && batch.in_doubt || too_large {
                // This node is not used again, so no later transaction makes the number that it needs.
                (batch.in_doubt, retire) = (false, true);
            }
            if let Some((step, error)) = self.refusal(end, &sequence.session).await {
                unchanged = false;
                // A batch in doubt is not known to be refused.
                if too_large && batch.puts.len() > 1 {
                    let bytes = batch.puts.iter().map(|put| put.node.payload.len()).sum::<usize>();
                    self.reduced = Some((bytes / 2, tokio::time::Instant::now()));
                } else if !batch.in_doubt {
                    batch.refuse(step, &error);
                    is_broken = last.is_some();
                }
            }
            self.batches.push_back(batch);
        }
        // Without a number, another client deleted or wrote the node, or it disappeared with its session.
        self.sequence = last.filter(|_| !retire).map(|_| sequence);
        if !unchanged {
            self.dissolve();
        }
    }

    /// Returns the step that the ensemble refused, and the error for its put. Returns `None` if the transaction can be
    /// sent again unchanged.
    async fn refusal(&mut self, end: CopyOutcome, session: &Arc<Session>) -> Option<(usize, Error)> {
        use engine::Error::{BadVersion, NoNode, NodeExists};
        let CopyOutcome::Refused(step, error) = end else { return None };
        let error = match (step, error) {
            // It follows one that was not carried out, or another client deleted or wrote the node. In that case the
            // read of the node has shown it by now.
            (Some(0), NoNode | BadVersion) => return None,
            (Some(_), NoNode) => {
                let made = parents::ensure(session, &self.paths.items, &[], &self.core.config.acls).await;
                made.err().filter(|error| !error.is_transient())?
            }
            (_, error) => error,
        };
        let path = &self.paths.path;
        let error = match error {
            // The server assigns a number twice only if its counter is used up.
            NodeExists => failed(path, ErrorKind::SequenceExhausted, EXHAUSTED),
            error => Error::client(path, client::Error::from_engine("put into", path, error)),
        };
        Some((step.unwrap_or(0), error))
    }

    /// Dissolves the batches, which cannot be sent again unchanged because their numbers or some of their puts are
    /// gone. Puts that were never in doubt wait for new batches, in order. Those have the same numbers and other ids.
    fn dissolve(&mut self) {
        let mut again = VecDeque::new();
        for batch in std::mem::take(&mut self.batches) {
            if batch.in_doubt {
                // A late copy must not find this node, because the next batches may have the same numbers.
                self.sequence = None;
                batch.settle(&Err(failed(&self.paths.path, ErrorKind::OutcomeUnknown, IN_DOUBT)));
            } else {
                again.extend(batch.puts);
            }
        }
        again.append(&mut self.waiting);
        self.waiting = again;
    }
}

fn first_in_flight(batches: &mut VecDeque<Batch>) -> Option<&mut Batch> {
    batches.front_mut().filter(|first| first.answer.is_some())
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use futures::FutureExt;
    use tokio::sync::Semaphore;
    use tokio::time::Instant;

    use super::super::put::Node;
    use super::*;
    use crate::client::Client;
    use crate::layout::queue::Key;
    use crate::testing::TestingServer;

    /// Puts an item for each of these first answers, in a transaction of its own, and handles events until all are
    /// settled.
    async fn put_with_first_answers(server: &TestingServer, answers: &[engine::Error]) -> Vec<Result<(), Error>> {
        let client = Client::builder_for_testing(server).connect().await.expect("a client");
        let paths = Arc::new(Paths::new("/q", None, str::to_owned));
        let (failures, closed) = (Failures::new(&paths.path), watch::Sender::new(false));
        let (_commands, commanded) = mpsc::unbounded_channel();
        let mut task =
            Task::new(Arc::clone(client.core()), paths, Arc::clone(&failures), commanded, closed.subscribe());
        // With a flush no transaction waits for more puts.
        task.flush = Some(oneshot::channel().0);
        let window = Arc::new(Semaphore::new(answers.len()));
        let mut enqueued = Vec::new();
        for answer in answers.iter().cloned() {
            let permit = Arc::clone(&window).acquire_owned().await.expect("it is open");
            let (put, outcome) = Put::new(Node { key: Key::None, payload: b"a".to_vec() }, permit, &failures);
            task.handle_command(Command::Put(put));
            task.ensure_sequence().await.expect("a number");
            let mut batch = task.next_batch().expect("one put");
            batch.answer = Some(async { Err(answer) }.boxed());
            task.batches.push_back(batch);
            enqueued.push(outcome);
        }
        while !task.batches.is_empty() || !task.waiting.is_empty() {
            task.step().await;
        }
        futures::future::join_all(enqueued).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_transaction_is_sent_again_after_a_delay() {
        let (server, began) = (TestingServer::start(), Instant::now());
        let outcomes = put_with_first_answers(&server, &[engine::Error::Throttled]).await;
        assert_eq!(outcomes, [Ok(())]);
        // The tick, by default.
        assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
        assert_eq!(server.children("/q").len(), 1);
    }

    /// The number shows that it was not carried out. Another copy would get the same answer, again and again.
    #[tokio::test(start_paused = true)]
    async fn a_transaction_with_an_unclear_answer_fails_once_the_number_shows_that_it_was_not_carried_out() {
        for answer in [engine::Error::Other("of code -1".to_owned()), engine::Error::Undecodable("short".to_owned())] {
            let server = TestingServer::start();
            let outcomes = put_with_first_answers(&server, &[answer]).await;
            assert!(is_not_put(&outcomes[0]), "{outcomes:?}");
            assert_eq!(server.children("/q").len(), 0);
        }
    }

    /// Each needs the number of the one before, so none is carried out late.
    #[tokio::test(start_paused = true)]
    async fn transactions_behind_one_that_was_refused_are_put_though_their_answers_are_lost() {
        let (unclear, lost) = (engine::Error::Other("of code -1".to_owned()), engine::Error::ConnectionLoss);
        for refused in [unclear, engine::Error::NoAuth] {
            let server = TestingServer::start();
            let outcomes = put_with_first_answers(&server, &[refused, lost.clone(), lost.clone()]).await;
            assert!(is_not_put(&outcomes[0]), "{outcomes:?}");
            assert_eq!(outcomes[1..], [Ok(()), Ok(())]);
            assert_eq!(server.children("/q").len(), 2);
        }
    }

    fn is_not_put(outcome: &Result<(), Error>) -> bool {
        matches!(outcome, Err(Error::Client { error, .. }) if error.kind() != ErrorKind::OutcomeUnknown)
    }
}
