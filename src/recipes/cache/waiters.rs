//! The waiting calls of `synced`: each waits for a sync, and then for the end of a round.

use tokio::sync::{mpsc, oneshot};

use super::error::Error;
use super::snapshot::Snapshot;

/// A waiting call of `synced`.
pub(super) type Waiter<T> = oneshot::Sender<Result<Snapshot<T>, Error>>;

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The answer to the sync of this number.
    Sync(u64),
    /// The end of this round.
    Round(u64),
}

/// See the module.
pub(super) struct Waiters<T> {
    asked: mpsc::UnboundedReceiver<Waiter<T>>,
    waiting: Vec<(Waiter<T>, Until)>,
    /// The number of the latest sync that was sent for waiters.
    sent: u64,
    /// The number of the latest sync that was answered.
    answered: u64,
}

impl<T> Waiters<T> {
    pub(super) fn new(asked: mpsc::UnboundedReceiver<Waiter<T>>) -> Self {
        Waiters { asked, waiting: Vec::new(), sent: 0, answered: 0 }
    }

    /// Waits for a call, and takes all that have arrived: a sync has to be [sent](Self::send) for them.
    pub(super) async fn asked(&mut self) -> Option<()> {
        let waiter = self.asked.recv().await?;
        self.waiting.push((waiter, Until::Sync(self.sent + 1)));
        self.receive();
        Some(())
    }

    /// Takes the calls that have arrived, and forgets those whose callers are gone. The next sync is for them.
    pub(super) fn receive(&mut self) {
        while let Ok(waiter) = self.asked.try_recv() {
            self.waiting.push((waiter, Until::Sync(self.sent + 1)));
        }
        self.waiting.retain(|(waiter, _)| !waiter.is_closed());
    }

    /// Records that a sync is sent, for all calls that were taken.
    pub(super) fn send(&mut self) {
        self.sent += 1;
    }

    /// Records that the oldest sync is answered: this round ends with everything read that was committed before it.
    pub(super) fn answered(&mut self, round: u64) {
        self.answered += 1;
        let answered = self.answered;
        for (_, until) in &mut self.waiting {
            if matches!(until, Until::Sync(number) if *number <= answered) {
                *until = Until::Round(round);
            }
        }
    }

    /// Makes all calls that were taken wait for the end of this round, as the answers to syncs will not come.
    pub(super) fn restart(&mut self, round: u64) {
        self.waiting.iter_mut().for_each(|(_, until)| *until = Until::Round(round));
        self.answered = self.sent;
    }

    /// Answers the calls whose round is over.
    pub(super) fn answer(&mut self, is_over: impl Fn(u64) -> bool, latest: &Result<Snapshot<T>, Error>) {
        for (waiter, _) in
            self.waiting.extract_if(.., |(_, until)| matches!(until, Until::Round(round) if is_over(*round)))
        {
            // The caller may have given up.
            let _ = waiter.send(latest.clone());
        }
    }
}
