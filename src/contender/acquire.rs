//! The calls that acquire something: without a limit, for a time, or only if it is free.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::Span;

use super::measure::Wait;
use super::{State, hint};
use crate::client::{Client, Error, ErrorKind};
use crate::engine;
use crate::util::wait::forever;

/// One in so many parts of a call's time, up to this limit, is reserved for leaving. So the call can tell for certain
/// that it left no node.
const TO_LEAVE: (u32, Duration) = (8, Duration::from_secs(1));

/// What a call has seen of the others when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// No answer yet.
    Nothing,
    /// No other participant ahead.
    Free,
    /// Another participant ahead.
    Another,
}

/// The time of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTime {
    /// What the caller has given it.
    pub(crate) timeout: Duration,
    /// It waits until then.
    pub(crate) wait_until: Instant,
    /// It has left by then.
    pub(crate) leave_by: Instant,
}

impl CallTime {
    /// Returns the time of a call that begins now; `None` if that is without a limit.
    pub(crate) fn of(timeout: Duration) -> Option<Self> {
        let leave_by = Instant::now().checked_add(timeout)?;
        Some(CallTime { timeout, wait_until: leave_by - to_leave(timeout), leave_by })
    }
}

/// What one call acquires with. A drop makes it leave in the background.
pub(crate) trait Attempt {
    /// What it has when it has acquired.
    type Hold;

    /// Tells this span of the call what is known of its place in the line.
    fn follow(&mut self, span: Span);

    /// Waits until it has acquired. Returns `None` if others are ahead; another call waits for them. It may be dropped
    /// at any await and called again.
    async fn first(&mut self, seen: &mut Seen) -> Result<Option<Self::Hold>, Error>;

    /// Acquires if that is possible without waiting for another participant, and otherwise returns `None`.
    async fn if_free(&mut self, seen: &mut Seen) -> Result<Option<Self::Hold>, Error> {
        self.first(seen).await
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
    /// What a caller should do instead that waits for itself, for the log; `None` if it may also wait for others.
    pub(crate) advice: Option<&'static str>,
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
        attempt.follow(wait.span());
        let hold = self.held(&mut attempt, &mut Seen::Nothing).await;
        wait.acquired(&hold);
        Ok((attempt, hold?))
    }

    /// Waits for at most `timeout`, leaving included. `None` if another participant was ahead.
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

    /// As `for_at_most`, with this time. When `stop` resolves first, it leaves, and returns `None`.
    pub(crate) async fn in_time<A: Attempt>(
        &self,
        mut attempt: A,
        time: CallTime,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<(A, A::Hold)>, Error> {
        tokio::task::coop::consume_budget().await;
        let mut seen = Seen::Nothing;
        if time.timeout.is_zero() {
            return self.not_had(seen, time.timeout).map(|()| None);
        }
        let mut wait = self.wait();
        attempt.follow(wait.span());
        let held = self.held(&mut attempt, &mut seen);
        let waited = tokio::select! {
            biased;
            waited = timeout_at(time.wait_until, held) => waited.ok(),
            () = stop => {
                seen = Seen::Another;
                None
            }
        };
        match waited {
            Some(hold) => {
                wait.acquired(&hold);
                Ok(Some((attempt, hold?)))
            }
            None => {
                let left = self.give_up(attempt, seen, time).await;
                wait.gave_up(&left);
                left.map(|()| None)
            }
        }
    }

    /// Acquires if it is free; `None` if another participant is ahead. Waits for the servers only.
    pub(crate) async fn if_free<A: Attempt>(&self, attempt: A) -> Result<Option<(A, A::Hold)>, Error> {
        match CallTime::of(self.connection_timeout()) {
            Some(time) => self.if_free_in(attempt, time).await,
            None => self.without_limit(attempt).await.map(Some),
        }
    }

    /// As `if_free`, with this time.
    pub(crate) async fn if_free_in<A: Attempt>(
        &self,
        mut attempt: A,
        time: CallTime,
    ) -> Result<Option<(A, A::Hold)>, Error> {
        tokio::task::coop::consume_budget().await;
        let mut seen = Seen::Nothing;
        let mut wait = self.wait();
        attempt.follow(wait.span());
        let free = attempt.if_free(&mut seen);
        if let Some(hold) = timeout_at(time.wait_until, free).await.unwrap_or(Ok(None)).transpose() {
            wait.acquired(&hold);
            return Ok(Some((attempt, hold?)));
        }
        let left = self.give_up(attempt, seen, time).await;
        wait.gave_up(&left);
        left.map(|()| None)
    }

    /// Handles a state of a contender that is none of those that an attempt waits for.
    pub(crate) fn pass(&self, state: State, seen: &mut Seen) -> Result<(), Error> {
        match state {
            State::Unproven if *seen == Seen::Nothing => *seen = Seen::Free,
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
    async fn held<A: Attempt>(&self, attempt: &mut A, seen: &mut Seen) -> Result<A::Hold, Error> {
        if let Some(hold) = attempt.first(seen).await? {
            return Ok(hold);
        }
        let _hint = self.advice.map(|advice| hint::after_a_while(self.client.core(), &self.path, advice));
        loop {
            // Those ahead leave at some time.
            if let Some(hold) = attempt.first(seen).await? {
                return Ok(hold);
            }
        }
    }

    /// Returns the result of a call whose time is over and which has left no node: no error if others were ahead.
    fn not_had(&self, seen: Seen, within: Duration) -> Result<(), Error> {
        let why = match seen {
            Seen::Another => return Ok(()),
            Seen::Free => {
                format!("no other was ahead, but no server confirmed within {within:?} that the session is alive")
            }
            Seen::Nothing if within.is_zero() => "a timeout of zero leaves no time to ask; use try_acquire()".into(),
            Seen::Nothing => format!("no server could be asked within {within:?}"),
        };
        let why = format!("{why}{}", self.client.core().why_not_connected());
        Err(Error::at(ErrorKind::TimedOut, "acquire", &self.path, why))
    }

    /// Leaves when the time to wait is over. Fails if no other was ahead, or if it is not certain by the deadline that
    /// no node of ours is left.
    async fn give_up(&self, attempt: impl Attempt, seen: Seen, time: CallTime) -> Result<(), Error> {
        const DOING: &str = "withdraw from";
        let error = match timeout_at(time.leave_by, attempt.leave()).await {
            Ok(Ok(())) => return self.not_had(seen, time.timeout),
            Ok(Err(error)) => Error::from_engine(DOING, &self.path, error),
            Err(_) => Error::at(ErrorKind::OutcomeUnknown, DOING, &self.path, "no answer in time"),
        };
        let cause = self.client.core().why_not_connected();
        let note = format!("{cause}; nothing is held; the node, if there is one, is deleted in the background");
        Err(error.in_doubt(&note))
    }

    /// Begins to measure a call.
    fn wait(&self) -> Wait<'_> {
        Wait::begin(self.client.core().meter(), self.recipe, &self.path, self.span())
    }

    /// The span of a call that acquires. What is not known yet is recorded later, by what runs in it.
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
