//! One call of acquire: waits until it is first in the line, then for the permits.
//!
//! Only the first in the line asks for permits. That keeps the order, and a change wakes only one waiter. Safety does
//! not depend on it: two callers that both believe they are first count each other's leases.

use std::time::Duration;

use futures::future::{OptionFuture, join};
use tokio::time::timeout;
use tracing::Span;

use super::leases::Leases;
use super::permits::look;
use super::shared::Shared;
use crate::client::Error;
use crate::contender::acquire::{Attempt, Competition};
use crate::contender::{Contender, Hold, State};
use crate::engine;

/// How long a caller that does not wait for permits lets those ahead pass through the line before it counts the leases
/// again: the first and the longest delay. Each is twice the one before.
const RECOUNT_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The place in the line, and the leases.
pub(super) struct PermitAttempt<'a> {
    shared: &'a Shared,
    number: usize,
    // Dropped before the place: the next caller in the line must not count them.
    leases: Option<Leases>,
    place: Contender,
    is_first: bool,
    /// Why it is uncertain whether all released leases are gone.
    unconfirmed: Option<engine::Error>,
}

/// What has happened to the first in the line.
enum Step {
    Moved(State),
    /// All leases are held.
    Acquired,
    /// There are not enough permits.
    Full,
    /// A lease was lost before all were held.
    Lost,
}

impl<'a> PermitAttempt<'a> {
    pub(super) fn new(shared: &'a Shared, number: usize) -> Self {
        let place = Contender::new(shared.acquire.client.core(), &shared.line);
        PermitAttempt { shared, number, leases: None, place, is_first: false, unconfirmed: None }
    }

    /// Continues until all leases are held. Returns `None` if the call has to wait for others; if it is patient, it can
    /// then call this again.
    async fn advance(
        &mut self,
        competition: &mut Competition,
        patient: bool,
    ) -> Result<Option<Vec<(Contender, Hold)>>, Error> {
        loop {
            match self.step(patient).await? {
                Step::Moved(state) => {
                    let is_behind = matches!(state, State::Behind);
                    self.moved(state, competition).await?;
                    if is_behind {
                        return Ok(None);
                    }
                }
                Step::Acquired => {
                    if let Some(holds) = self.leases.take().and_then(Leases::into_holds) {
                        return Ok(Some(holds));
                    }
                }
                Step::Full => {
                    *competition = Competition::Another;
                    if patient {
                        // If our place's node is deleted by hand, another caller is first, and without a watch both
                        // would wait for each other.
                        self.place.watch_own_node();
                    }
                    return Ok(None);
                }
                Step::Lost => self.release_leases().await,
            }
        }
    }

    async fn step(&mut self, patient: bool) -> Result<Step, Error> {
        if !self.is_first {
            return Ok(Step::Moved(self.place.next().await));
        }
        let (shared, number) = (self.shared, self.number);
        let leases = self.leases.get_or_insert_with(|| Leases::new(shared, number));
        let held = async {
            if !leases.admitted(shared, patient).await? {
                return Ok(Step::Full);
            }
            Ok(if leases.proven().await? { Step::Acquired } else { Step::Lost })
        };
        tokio::select! {
            biased;
            state = self.place.next() => Ok(Step::Moved(state)),
            step = held => step,
        }
    }

    /// Handles a state of the place in the line.
    async fn moved(&mut self, state: State, competition: &mut Competition) -> Result<(), Error> {
        self.is_first = matches!(state, State::Held(_));
        match state {
            State::Held(_) => {}
            State::Behind => *competition = Competition::Another,
            State::Lost => self.release_leases().await,
            // While suspended it keeps the leases, as it may be first again.
            state => self.shared.acquire.handle_state(state, competition)?,
        }
        Ok(())
    }

    /// Releases the leases: another caller may be first by now and wait for them.
    async fn release_leases(&mut self) {
        let Some(leases) = self.leases.take() else { return };
        let unconfirmed = self.unconfirmed.take();
        self.unconfirmed = Some(engine::Error::Other("no answer to the delete of an earlier lease".into()));
        self.unconfirmed = leases.leave().await.err().or(unconfirmed);
    }
}

/// Returns whether there are enough permits, according to a look at all leases.
async fn has_room(shared: &Shared, number: usize) -> Result<bool, Error> {
    let core = shared.acquire.client.core();
    loop {
        let (session, connection) = core.connected().await?;
        match look(core, &session, &shared.leases.dir, &shared.permits, None).await? {
            Some(look) => return Ok(look.has_room_for(number)),
            None => session.wait_for_disconnect(connection).await,
        }
    }
}

impl Attempt for PermitAttempt<'_> {
    type Hold = Vec<(Contender, Hold)>;

    fn record_in(&mut self, span: Span) {
        self.place.record_in(span);
    }

    async fn acquire_step(&mut self, competition: &mut Competition) -> Result<Option<Self::Hold>, Error> {
        self.advance(competition, true).await
    }

    async fn if_free(&mut self, competition: &mut Competition) -> Result<Option<Self::Hold>, Error> {
        let mut held = self.advance(competition, false).await?;
        let mut delay = RECOUNT_DELAYS.0;
        while held.is_none() && !self.is_first && has_room(self.shared, self.number).await? {
            // Those ahead pass through, as there are enough permits. But one may arrive that takes the rest and waits.
            if let Ok(next) = timeout(delay, self.advance(competition, false)).await {
                held = next?;
            }
            delay = (delay * 2).min(RECOUNT_DELAYS.1);
        }
        Ok(held)
    }

    async fn leave(mut self) -> Result<(), engine::Error> {
        let leases = OptionFuture::from(self.leases.take().map(Leases::leave));
        let (leases, place) = join(leases, self.place.leave()).await;
        leases.unwrap_or(Ok(())).and(place).and(self.unconfirmed.map_or(Ok(()), Err))
    }
}
