//! The task of a producer: puts in order, several to a transaction, and each exactly once.
//!
//! A producer has a node of its own, with a number in it. The transaction that creates items also raises that number, from
//! the one that the producer knows: so of two copies of one transaction the ensemble carries out only the first, and whoever
//! did not get an answer reads the number and knows what was carried out.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::directory;
use super::error::Error;
use super::flight::{Fate, Flight};
use super::names::Places;
use super::producer::{RESERVED_BYTES, Shared};
use super::registration::Registration;
use crate::backend::{self, Op};
use crate::client::core::Core;
use crate::client::session::{Condition, Session};
use crate::client::{self, ErrorKind};
use crate::types::CreateMode;

/// What shares one transaction, at most; less where the servers take less.
const MOST_ITEMS: usize = 64;
const MOST_BYTES: usize = 256 * 1024;
/// What a request has for each node that is created besides its path, its data and what its ACL names; a little more than that.
const STEP_BYTES: usize = 64;
const ACL_BYTES: usize = 16;
/// So many transactions are under way at once. One that is not full waits until none is.
const MOST_FLIGHTS: usize = 4;
/// After so many transactions a node is given up for a new one: its version counts them, and has 31 bits.
const MOST_NUMBERS: i32 = 1 << 30;

/// One node to be created.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) payload: Vec<u8>,
    pub(super) done: oneshot::Sender<Result<(), Error>>,
    /// Its part of what may wait in the pipe.
    pub(super) window: OwnedSemaphorePermit,
}

/// What comes through the pipe.
#[derive(Debug)]
pub(super) enum Order {
    Put(Put),
    /// To be answered when all before it are done.
    Flush(oneshot::Sender<()>),
    /// As a flush; and the producer's node is to be deleted by then.
    Close(oneshot::Sender<()>),
}

pub(super) struct Pipe {
    core: Arc<Core>,
    places: Arc<Places>,
    shared: Arc<Shared>,
    orders: mpsc::UnboundedReceiver<Order>,
    most: Most,
    /// All handles are gone.
    abandoned: bool,
    unsent: VecDeque<Order>,
    flights: VecDeque<Flight>,
    registration: Option<Registration>,
}

impl Pipe {
    pub(super) fn new(
        core: &Arc<Core>,
        places: &Arc<Places>,
        shared: &Arc<Shared>,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Self {
        Pipe {
            core: Arc::clone(core),
            places: Arc::clone(places),
            shared: Arc::clone(shared),
            orders,
            most: Most::of(core, places),
            abandoned: false,
            unsent: VecDeque::new(),
            flights: VecDeque::new(),
            registration: None,
        }
    }

    /// Until all handles are gone, and everything is put.
    pub(super) async fn run(mut self) {
        loop {
            self.answer_markers().await;
            if self.unsent.is_empty() && self.flights.is_empty() {
                match self.orders.recv().await {
                    Some(order) => self.unsent.push_back(order),
                    // The node goes with the registration.
                    None => return self.shared.report_unseen(&self.core),
                }
            }
            self.take_in();
            match self.core.connected_session().await {
                Ok(session) => self.step(&session).await,
                Err(_) => self.fail_all().await,
            }
        }
    }

    /// Takes in what has been ordered so far.
    fn take_in(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            self.unsent.push_back(order);
        }
    }

    /// Answers flushes before which nothing is left.
    async fn answer_markers(&mut self) {
        while self.flights.is_empty() && !matches!(self.unsent.front(), None | Some(Order::Put(_))) {
            match self.unsent.pop_front() {
                // Whoever asked may be gone.
                Some(Order::Flush(done)) => drop(done.send(())),
                Some(Order::Close(done)) => {
                    if let Some(registration) = self.registration.take() {
                        registration.end().await;
                    }
                    let _ = done.send(());
                }
                _ => {}
            }
        }
    }

    /// The client is closed: nothing will be put any more.
    async fn fail_all(&mut self) {
        while let Some(front) = self.flights.front_mut() {
            let outcome = (&mut front.answer).await;
            self.landed(outcome).await;
        }
        self.registration = None;
        for order in std::mem::take(&mut self.unsent) {
            match order {
                Order::Put(put) => self.settle(put, Err(self.shared.closed())),
                Order::Flush(done) | Order::Close(done) => drop(done.send(())),
            }
        }
    }

    /// Sends what may be sent, and takes in the next that happens.
    async fn step(&mut self, session: &Arc<Session>) {
        if self.flights.is_empty() && !self.registration.as_ref().is_some_and(|known| known.is_of(session)) {
            self.registration = None;
            if let Err(error) = self.register(session).await {
                let error = client::Error::from_backend("register with", &self.places.producers, error);
                self.refuse_unsent(&Error::client(&self.places.path, error));
                return;
            }
        }
        self.send();
        let Some(front) = self.flights.front_mut() else { return };
        let outcome = tokio::select! {
            biased;
            outcome = &mut front.answer => outcome,
            order = self.orders.recv(), if !self.abandoned => {
                match order {
                    Some(order) => self.unsent.push_back(order),
                    None => self.abandoned = true,
                }
                return;
            }
        };
        self.landed(outcome).await;
    }

    async fn register(&mut self, session: &Arc<Session>) -> Result<(), backend::Error> {
        if !self.unsent.is_empty() {
            self.registration = Registration::enter(&self.core, session, &self.places).await?;
        }
        Ok(())
    }

    /// Everything that can be sent now: without a transaction under way whatever there is, else only full ones.
    fn send(&mut self) {
        let Some(registration) = &mut self.registration else { return };
        if !matches!(registration.session().condition(), Condition::Connected(_)) {
            return;
        }
        while self.flights.len() < MOST_FLIGHTS {
            let (count, full) = self.most.next_batch(&self.unsent);
            if count == 0 || !(full || self.flights.is_empty()) || registration.number() >= MOST_NUMBERS {
                break;
            }
            let puts = self.unsent.drain(..count).filter_map(|order| match order {
                Order::Put(put) => Some(put),
                _ => None,
            });
            let puts: Vec<Put> = puts.collect();
            let acls = &self.core.config.acls;
            let mut ops = vec![registration.raise()];
            ops.extend(puts.iter().map(|put| Op::Create {
                path: self.places.new_item(),
                data: put.payload.clone(),
                mode: CreateMode::PersistentSequential,
                acls: acls.clone(),
            }));
            let answer = registration.session().multi(ops);
            self.flights.push_back(Flight { number: registration.number(), puts, answer });
        }
        if self.flights.is_empty() && registration.number() >= MOST_NUMBERS {
            self.registration = None;
        }
    }

    /// The first transaction under way has an outcome.
    async fn landed(&mut self, outcome: Result<backend::Multi, backend::Error>) {
        match Fate::of(outcome) {
            Fate::Applied => {
                if let Some(flight) = self.flights.pop_front() {
                    self.confirm(flight);
                }
            }
            fate => self.recover(fate).await,
        }
    }

    /// The first transaction under way was not answered, or not carried out. Finds out what became of all of them; what was
    /// not put is sent again, in order.
    async fn recover(&mut self, first: Fate) {
        let mut fates = vec![first];
        for flight in self.flights.iter_mut().skip(1) {
            fates.push(Fate::of((&mut flight.answer).await));
        }
        let applied = match &self.registration {
            Some(registration) => registration.read().await,
            None => None,
        };
        let flights: Vec<_> = std::mem::take(&mut self.flights).into_iter().zip(fates).collect();
        let mut again = Vec::new();
        for (flight, fate) in flights {
            match (applied, fate) {
                (Some(applied), _) if flight.number <= applied => self.confirm(flight),
                (_, Fate::Applied) => self.confirm(flight),
                (None, Fate::Unknown) => {
                    for put in flight.puts {
                        self.settle(put, Err(self.in_doubt()));
                    }
                }
                (_, Fate::Refused { step, error }) => again.extend(self.refused(flight.puts, step, error).await),
                (_, Fate::Rejected(error)) => {
                    for put in flight.puts {
                        self.settle(put, Err(self.refusal(error.clone())));
                    }
                }
                (_, Fate::NotApplied | Fate::Unknown) => again.extend(flight.puts),
            }
        }
        for put in again.into_iter().rev() {
            self.unsent.push_front(Order::Put(put));
        }
        match (applied, &mut self.registration) {
            (Some(applied), Some(registration)) => registration.set_number(applied),
            // Deleted or written by somebody else, or gone with its session.
            _ => self.registration = None,
        }
    }

    /// The ensemble has refused one step, and with it all of them; those that are to be sent again.
    async fn refused(&mut self, mut puts: Vec<Put>, step: usize, error: backend::Error) -> Vec<Put> {
        let Some(item) = step.checked_sub(1).filter(|item| *item < puts.len()) else {
            // The first step raises the number. By another's doing it is refused once, for want of permission for ever.
            if !matches!(error, backend::Error::NoNode | backend::Error::BadVersion) {
                let failed = self.refusal(error);
                puts.drain(..).for_each(|put| self.settle(put, Err(failed.clone())));
            }
            return puts;
        };
        let session = self.registration.as_ref().map(|registration| Arc::clone(registration.session()));
        let failed = match (error, session) {
            (backend::Error::NoNode, Some(session)) => {
                match directory::make(&session, &self.places.items, &self.core.config.acls).await {
                    Ok(()) => return puts,
                    Err(error) if error.is_passing() => return puts,
                    Err(error) => error,
                }
            }
            (error, _) => error,
        };
        let failed = self.refusal(failed);
        self.settle(puts.remove(item), Err(failed));
        puts
    }

    /// Nothing can be put: each put is told, as none of them was sent.
    fn refuse_unsent(&mut self, error: &Error) {
        let markers = self.unsent.iter().position(|order| !matches!(order, Order::Put(_)));
        let count = markers.unwrap_or(self.unsent.len());
        for order in self.unsent.drain(..count).collect::<Vec<_>>() {
            if let Order::Put(put) = order {
                self.settle(put, Err(error.clone()));
            }
        }
    }

    fn confirm(&mut self, flight: Flight) {
        for put in flight.puts {
            self.settle(put, Ok(()));
        }
    }

    /// Tells whoever put it; if nobody cares, a failure is kept for the next flush.
    fn settle(&self, put: Put, outcome: Result<(), Error>) {
        drop(put.window);
        self.shared.settled();
        if let Err(Err(unseen)) = put.done.send(outcome) {
            self.shared.note_unseen(unseen);
        }
    }

    fn refusal(&self, error: backend::Error) -> Error {
        let error = match error {
            // Only a counter that cannot go on gives a number twice.
            backend::Error::NodeExists => client::Error::new(
                ErrorKind::SequenceExhausted,
                format!(
                    "put into {}: its counter of 32 bits is used up; when the queue is empty, delete the node",
                    self.places.path
                ),
            ),
            error => client::Error::from_backend("put into", &self.places.path, error),
        };
        Error::client(&self.places.path, error)
    }

    fn in_doubt(&self) -> Error {
        let message = format!(
            "put into {}: handed over, and the session was over before the answer; it may or may not have been put",
            self.places.path
        );
        Error::client(&self.places.path, client::Error::new(ErrorKind::OutcomeUnknown, message))
    }
}

/// What a transaction may have.
#[derive(Debug, Clone, Copy)]
struct Most {
    bytes: usize,
    /// What each put has besides its data.
    around: usize,
}

impl Most {
    fn of(core: &Core, places: &Places) -> Self {
        let acls: usize = core.config.acls.iter().map(|acl| acl.scheme.len() + acl.id.len() + ACL_BYTES).sum();
        Most {
            bytes: MOST_BYTES.min(core.config.max_request_bytes.saturating_sub(RESERVED_BYTES)),
            around: places.new_item().len() + acls + STEP_BYTES,
        }
    }

    /// How many of the first orders share the next transaction, and whether more would not fit.
    fn next_batch(self, unsent: &VecDeque<Order>) -> (usize, bool) {
        let (mut count, mut bytes) = (0, 0);
        for order in unsent {
            let Order::Put(put) = order else { return (count, true) };
            bytes += put.payload.len() + self.around;
            if count == MOST_ITEMS || (count > 0 && bytes > self.bytes) {
                return (count, true);
            }
            count += 1;
        }
        (count, count == MOST_ITEMS)
    }
}
