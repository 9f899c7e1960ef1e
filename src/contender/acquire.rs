//! The calls that acquire something: without a limit, with a timeout, or only if it is free.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::Span;

use super::State;
use super::measure::Wait;
use crate::client::{Client, Error, ErrorKind};
use crate::engine;
use crate::util::wait::forever;

/// One part in so many of the timeout is reserved for leaving the line, up to this cap. It lets the call be certain
/// that it left no node.
const TO_LEAVE: (u32, Duration) = (8, Duration::from_secs(1));

/// What a call knows of other participants when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Competition {
    /// No answer yet.
    Unknown,
    /// No other participant ahead.
    Free,
    /// Another participant ahead.
    Another,
}

/// The time that a call has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTime {
    /// The timeout that the caller passed.
    pub(crate) timeout: Duration,
    /// When it stops waiting.
    pub(crate) wait_until: Instant,
    /// When it must have left the line.
    pub(crate) leave_by: Instant,
}

impl CallTime {
    /// Returns the time of a call that begins now, or `None` if the timeout is too long to add to the clock.
    pub(crate) fn of(timeout: Duration) -> Option<Self> {
        let leave_by = Instant::now().checked_add(timeout)?;
        Some(CallTime { timeout, wait_until: leave_by - to_leave(timeout), leave_by })
    }
}

/// One call that acquires. If it is dropped, it leaves the line in the background.
pub(crate) trait Attempt {
    /// What it acquires.
    type Hold;

    /// Records its place in the line in this span of the call.
    fn record_in(&mut self, span: Span);

    /// Takes one step: waits until it has acquired, and returns `None` as soon as others are ahead. The next call waits
    /// for them. It may be dropped at any await and called again.
    async fn acquire_step(&mut self, competition: &mut Competition) -> Result<Option<Self::Hold>, Error>;

    /// Acquires if it need not wait for another participant. Otherwise returns `None`.
    async fn if_free(&mut self, competition: &mut Competition) -> Result<Option<Self::Hold>, Error> {
        self.acquire_step(competition).await
    }

    /// Leaves, and waits until all nodes are gone.
    async fn leave(self) -> Result<(), engine::Error>;
}

/// How the calls at one path acquire.
#[derive(Clone)]
pub(crate) struct Acquire {
    pub(crate) client: Client,
    /// The name of the recipe, for spans and metrics.
    pub(crate) recipe: &'static str,
    pub(crate) path: Arc<str>,
}

impl Acquire {
    pub(crate) fn connection_timeout(&self) -> Duration {
        self.client.core().config.connection_timeout
    }

    /// Waits without a limit.
    pub(crate) async fn without_limit<A: Attempt>(&self, mut attempt: A) -> Result<(A, A::Hold), Error> {
        // A loop over what is free must let other tasks run too.
        tokio::task::coop::consume_budget().await;
        let mut wait = self.wait();
        attempt.record_in(wait.span());
        let hold = self.held(&mut attempt, &mut Competition::Unknown).await;
        wait.acquired(&hold);
        Ok((attempt, hold?))
    }

    /// Waits for at most `timeout`, which includes leaving. Returns `None` if another participant was ahead.
    pub(crate) async fn for_at_most<A: Attempt>(
        &self,
        attempt: A,
        timeout: Duration,
    ) -> Result<Option<(A, A::Hold)>, Error> {
        match CallTime::of(timeout) {
            Some(time) => self.in_time(attempt, time, forever()).await,
            None => self.without_limit(attempt).await.map(Some),
        }
    }

    /// Like `for_at_most`, with this time. If `stop` resolves first, it leaves and returns `None`.
    pub(crate) async fn in_time<A: Attempt>(
        &self,
        mut attempt: A,
        time: CallTime,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<(A, A::Hold)>, Error> {
        tokio::task::coop::consume_budget().await;
        let mut competition = Competition::Unknown;
        if time.timeout.is_zero() {
            return self.not_acquired(competition, time.timeout).map(|()| None);
        }
        let mut wait = self.wait();
        attempt.record_in(wait.span());
        let held = self.held(&mut attempt, &mut competition);
        let waited = tokio::select! {
            biased;
            waited = timeout_at(time.wait_until, held) => waited.ok(),
            () = stop => {
                competition = Competition::Another;
                None
            }
        };
        match waited {
            Some(hold) => {
                wait.acquired(&hold);
                Ok(Some((attempt, hold?)))
            }
            None => {
                let left = self.give_up(attempt, competition, time).await;
                wait.gave_up(&left);
                left.map(|()| None)
            }
        }
    }

    /// Acquires if no other participant is ahead. Otherwise returns `None`. It waits only for the servers.
    pub(crate) async fn if_free<A: Attempt>(&self, attempt: A) -> Result<Option<(A, A::Hold)>, Error> {
        match CallTime::of(self.connection_timeout()) {
            Some(time) => self.if_free_in(attempt, time).await,
            None => self.without_limit(attempt).await.map(Some),
        }
    }

    /// Like `if_free`, with this time.
    pub(crate) async fn if_free_in<A: Attempt>(
        &self,
        mut attempt: A,
        time: CallTime,
    ) -> Result<Option<(A, A::Hold)>, Error> {
        tokio::task::coop::consume_budget().await;
        let mut competition = Competition::Unknown;
        let mut wait = self.wait();
        attempt.record_in(wait.span());
        let free = attempt.if_free(&mut competition);
        if let Some(hold) = timeout_at(time.wait_until, free).await.unwrap_or(Ok(None)).transpose() {
            wait.acquired(&hold);
            return Ok(Some((attempt, hold?)));
        }
        let left = self.give_up(attempt, competition, time).await;
        wait.gave_up(&left);
        left.map(|()| None)
    }

    /// Handles a state of a contender that does not end the step of an attempt.
    pub(crate) fn handle_state(&self, state: State, competition: &mut Competition) -> Result<(), Error> {
        match state {
            State::Unproven if *competition == Competition::Unknown => *competition = Competition::Free,
            State::Failed(error) => return Err(error),
            State::Closed => return Err(Error::closed("client")),
            state => tracing::debug!(
                event = "state_changed",
                path = &*self.path,
                state = state.name(),
                node = state.node(),
                "the contender has another state"
            ),
        }
        Ok(())
    }

    /// Waits until the attempt has acquired.
    async fn held<A: Attempt>(&self, attempt: &mut A, competition: &mut Competition) -> Result<A::Hold, Error> {
        loop {
            if let Some(hold) = attempt.acquire_step(competition).await? {
                return Ok(hold);
            }
        }
    }

    /// Returns the result of a call whose time is over and that has left no node. It is not an error if others were
    /// ahead.
    fn not_acquired(&self, competition: Competition, within: Duration) -> Result<(), Error> {
        let why = match competition {
            Competition::Another => return Ok(()),
            Competition::Free => {
                format!("no other was ahead, but no server confirmed within {within:?} that the session is alive")
            }
            Competition::Unknown if within.is_zero() => {
                "a timeout of zero leaves no time to ask; use try_acquire()".into()
            }
            Competition::Unknown => format!("no server could be asked within {within:?}"),
        };
        let why = format!("{why}{}", self.client.core().why_not_connected());
        Err(Error::at(ErrorKind::TimedOut, "acquire", &self.path, why))
    }

    /// Leaves the line when the time to wait is over. Fails if no other participant was ahead, or if the deadline
    /// passes before it is certain that no node of ours is left.
    async fn give_up(&self, attempt: impl Attempt, competition: Competition, time: CallTime) -> Result<(), Error> {
        const DOING: &str = "withdraw from";
        let error = match timeout_at(time.leave_by, attempt.leave()).await {
            Ok(Ok(())) => return self.not_acquired(competition, time.timeout),
            Ok(Err(error)) => Error::from_engine(DOING, &self.path, error),
            Err(_) => Error::at(ErrorKind::OutcomeUnknown, DOING, &self.path, "no answer in time"),
        };
        let cause = self.client.core().why_not_connected();
        let note = format!("{cause}; nothing is held; the node, if there is one, is deleted in the background");
        Err(error.outcome_unknown(&note))
    }

    /// Starts the measurement of a call.
    fn wait(&self) -> Wait<'_> {
        Wait::begin(self.client.core().meter(), self.recipe, &self.path, self.span())
    }

    /// Returns the span of a call that acquires. Fields that are not known yet are recorded later.
    fn span(&self) -> Span {
        tracing::info_span!(
            "acquire",
            recipe = self.recipe,
            path = &*self.path,
            node = tracing::field::Empty,
            behind = tracing::field::Empty,
            token = tracing::field::Empty,
            outcome = tracing::field::Empty
        )
    }
}

/// Returns how much of this time is reserved for leaving.
fn to_leave(timeout: Duration) -> Duration {
    let (part, most) = TO_LEAVE;
    (timeout / part).min(most)
}
