//! One call that acquires: waits for its turn in the line, then for the permits.
//!
//! Only the first of the line asks for permits. That keeps the order, and a change wakes one waiter. It is no matter of
//! safety: two that both take themselves for the first count each other's leases.

use std::time::Duration;

use futures::future::{OptionFuture, join};
use tokio::time::timeout;
use tracing::Span;

use super::leases::Leases;
use super::permits::look;
use super::shared::Shared;
use crate::client::Error;
use crate::contender::acquire::{Attempt, Seen};
use crate::contender::{Contender, Hold, State};
use crate::engine;

/// How long a caller that does not wait for permits lets others pass through the line before it counts the leases
/// again: at first, and at most. Each time is twice the one before.
const PASSING: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The place in the line, and the leases.
pub(super) struct Turn<'a> {
    shared: &'a Shared,
    number: usize,
    // Dropped before the place: the next one of the line must not count them.
    leases: Option<Leases>,
    place: Contender,
    is_first: bool,
    /// Why it is not certain that all leases which were given back are gone.
    doubt: Option<engine::Error>,
}

/// What has happened to the first of the line.
enum Step {
    Moved(State),
    /// All leases are held.
    Had,
    /// There are not enough permits.
    Full,
    /// A lease was lost before all were held.
    Lost,
}

impl<'a> Turn<'a> {
    pub(super) fn new(shared: &'a Shared, number: usize) -> Self {
        let place = Contender::new(shared.acquire.client.core(), &shared.line);
        Turn { shared, number, leases: None, place, is_first: false, doubt: None }
    }

    /// Continues until all leases are held, or until it has to wait for others: then it returns `None`. A patient one
    /// can be called again after that.
    async fn go_on(&mut self, seen: &mut Seen, patient: bool) -> Result<Option<Vec<(Contender, Hold)>>, Error> {
        loop {
            match self.step(patient).await? {
                Step::Moved(state) => {
                    let is_behind = matches!(state, State::Behind);
                    self.moved(state, seen).await?;
                    if is_behind {
                        return Ok(None);
                    }
                }
                Step::Had => {
                    if let Some(holds) = self.leases.take().and_then(Leases::into_holds) {
                        return Ok(Some(holds));
                    }
                }
                Step::Full => {
                    *seen = Seen::Another;
                    if patient {
                        // If its node is deleted by hand, another one is first: both would wait for each other.
                        self.place.insist_on_watch();
                    }
                    return Ok(None);
                }
                Step::Lost => self.give_back().await,
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
            Ok(if leases.proven().await? { Step::Had } else { Step::Lost })
        };
        tokio::select! {
            biased;
            state = self.place.next() => Ok(Step::Moved(state)),
            step = held => step,
        }
    }

    /// Handles a state of the place in the line.
    async fn moved(&mut self, state: State, seen: &mut Seen) -> Result<(), Error> {
        self.is_first = matches!(state, State::Held(_));
        match state {
            State::Held(_) => {}
            State::Behind => *seen = Seen::Another,
            State::Lost => self.give_back().await,
            // Suspended, it keeps the leases: it may be the first once more.
            state => self.shared.acquire.pass(state, seen)?,
        }
        Ok(())
    }

    /// Gives the leases back, as another one may be the first by now, and wait for them.
    async fn give_back(&mut self) {
        let Some(leases) = self.leases.take() else { return };
        let doubt = self.doubt.take();
        self.doubt = Some(engine::Error::Other("no answer to the delete of an earlier lease".into()));
        self.doubt = leases.leave().await.err().or(doubt);
    }
}

/// Returns whether there are enough permits, by a look at the leases of all.
async fn has_room(shared: &Shared, number: usize) -> Result<bool, Error> {
    let core = shared.acquire.client.core();
    loop {
        let session = core.connected_session().await?;
        let Ok(connection) = session.connected().await else { continue };
        match look(core, &session, &shared.leases.dir, &shared.permits, None).await? {
            Some(look) => return Ok(look.has_room_for(number)),
            None => session.loss_known(connection).await,
        }
    }
}

impl Attempt for Turn<'_> {
    type Hold = Vec<(Contender, Hold)>;

    fn follow(&mut self, span: Span) {
        self.place.follow(span);
    }

    async fn first(&mut self, seen: &mut Seen) -> Result<Option<Self::Hold>, Error> {
        self.go_on(seen, true).await
    }

    async fn if_free(&mut self, seen: &mut Seen) -> Result<Option<Self::Hold>, Error> {
        let mut had = self.go_on(seen, false).await?;
        let mut passing = PASSING.0;
        while had.is_none() && !self.is_first && has_room(self.shared, self.number).await? {
            // Those ahead pass through, as there are enough permits. One may come that takes the rest and waits.
            if let Ok(next) = timeout(passing, self.go_on(seen, false)).await {
                had = next?;
            }
            passing = (passing * 2).min(PASSING.1);
        }
        Ok(had)
    }

    async fn leave(mut self) -> Result<(), engine::Error> {
        let leases = OptionFuture::from(self.leases.take().map(Leases::leave));
        let (leases, place) = join(leases, self.place.leave()).await;
        leases.unwrap_or(Ok(())).and(place).and(self.doubt.map_or(Ok(()), Err))
    }
}
