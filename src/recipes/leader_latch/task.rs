//! The task of a latch. It takes part in the election, session after session, until the latch is closed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::CloseMode;
use super::error::Error;
use super::listener::Listeners;
use super::precedence::Precedence;
use super::revocable::{Notice, Requests};
use super::state::{LatchState, LatchStatus};
use crate::client::core::Core;
use crate::client::task::Task;
use crate::client::{self, Client};
use crate::contender::measure::Terms;
use crate::contender::{Contender, Hold, Leaving, Spec, State};
use crate::engine;
use crate::layout::latch::Asker;
use crate::layout::line;
use crate::layout::rank::{GivesWay, Rank};

/// The state that the handle and the task of a latch share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: Arc<str>,
    pub(super) id: String,
    pub(super) state: watch::Sender<LatchState>,
    pub(super) listeners: Listeners,
    /// The node that is to be given up, on the server.
    resigning: watch::Sender<Option<Arc<str>>>,
    /// Whether and how the latch must end.
    closing: watch::Sender<Option<Closing>>,
    leaving: Leaving,
}

/// How a latch must end.
#[derive(Debug, Clone, Copy)]
struct Closing {
    /// The first mode that was requested.
    mode: CloseMode,
    /// Whether a silent end was requested too: then the task no longer waits for listeners.
    silently: bool,
}

impl Shared {
    pub(super) fn new(path: Arc<str>, id: String) -> Self {
        Shared {
            path,
            id,
            state: watch::Sender::new(LatchState::new()),
            listeners: Listeners::default(),
            resigning: watch::Sender::new(None),
            closing: watch::Sender::new(None),
            leaving: Leaving::default(),
        }
    }

    pub(super) fn closed(&self) -> Error {
        Error::Closed { path: Arc::clone(&self.path) }
    }

    /// Asks the task to end the latch. The first mode counts. With [`CloseMode::Silent`], the leadership ends now and
    /// the delete of the node is sent at once. If that mode came first, no listener is notified. If it came second, the
    /// wait for the listeners ends.
    pub(super) fn close(&self, mode: CloseMode) {
        let notify_task = || {
            self.closing.send_modify(|closing| {
                let closing = closing.get_or_insert(Closing { mode, silently: false });
                closing.silently |= mode == CloseMode::Silent;
            });
        };
        self.leaving.release(notify_task, || match mode {
            CloseMode::Silent => self.state.borrow().term().cloned(),
            CloseMode::NotifyLeader => None,
        });
    }

    /// Asks the task to give up the place with this node, which clients know as `own`, and to enter again. Returns
    /// false if the latch has another node by now: a resignation of that one, which the task has not read yet, must
    /// stay.
    pub(super) fn resign(&self, node: &Arc<str>, own: &str) -> bool {
        self.resigning.send_if_modified(|resigning| {
            let is_present = self.state.borrow().node() == Some(own);
            if is_present {
                *resigning = Some(Arc::clone(node));
            }
            is_present
        })
    }

    /// Resolves when the place with this node is to be given up.
    async fn resigning(&self, node: Option<&Arc<str>>) {
        let mut resigning = self.resigning.subscribe();
        // The sender is here.
        let _ = resigning.wait_for(|resigning| resigning.is_some() && resigning.as_ref() == node).await;
    }

    /// Resolves when the latch must end.
    async fn closing(&self) -> CloseMode {
        let mut closing = self.closing.subscribe();
        // The sender is here.
        let asked = closing.wait_for(Option::is_some).await.ok().and_then(|closing| *closing);
        asked.map_or(CloseMode::default(), |closing| closing.mode)
    }

    /// Resolves when the task need not wait for listeners.
    async fn silenced(&self) {
        let mut closing = self.closing.subscribe();
        // The sender is here.
        let _ = closing.wait_for(|closing| closing.is_some_and(|closing| closing.silently)).await;
    }
}

/// Starts the task. The task does not keep a handle of the client, so the latch keeps its client alive only while it
/// exists.
pub(super) fn spawn(client: &Client, shared: &Arc<Shared>, options: Options) -> Task<Result<(), Error>> {
    let core = Arc::clone(client.core());
    let requests = Requests::new(&core, &shared.path, options.grace);
    let precedence = Precedence::new(&core, &shared.path);
    let terms = Terms::new(&core, "leader_latch", &shared.path, &[]);
    let shared = Arc::clone(shared);
    let gives_way = GivesWay::ToNone;
    let participant = Participant { core, shared, options, requests, precedence, gives_way, terms, term_span: None };
    Task::spawn(&client.core().runtime, participant.run())
}

/// The options of a latch that its task needs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Options {
    pub(super) close_mode: CloseMode,
    /// How long it leads after it was asked to resign. `None` if it cannot be asked.
    pub(super) grace: Option<Duration>,
    pub(super) priority: Option<u32>,
}

struct Participant {
    core: Arc<Core>,
    shared: Arc<Shared>,
    options: Options,
    requests: Requests,
    precedence: Precedence,
    /// What its next node states.
    gives_way: GivesWay,
    /// The metrics of the terms. They end with the task, however long the handle is kept.
    terms: Terms,
    /// The span of the present term.
    term_span: Option<tracing::Span>,
}

/// Notifies waiters however the task ends, even if it is dropped with its runtime.
impl Drop for Participant {
    fn drop(&mut self) {
        let closed = self.next_state(State::Closed);
        self.publish(closed);
        self.shared.listeners.clear();
    }
}

impl Participant {
    async fn run(mut self) -> Result<(), Error> {
        let spec = Spec::of_participant(&self.core, &self.shared.path, line::LATCH, &self.shared.id);
        let mut contender = Contender::new(&self.core, &Arc::new(spec));
        self.state_rank(&mut contender);
        loop {
            let place = contender.place();
            self.requests.follow(place);
            let compares = self.options.priority.is_some() && self.shared.state.borrow().may_be_behind();
            self.precedence.follow(place.filter(|_| compares));
            let node = place.map(|(_, node)| Arc::clone(node));
            let state = tokio::select! {
                biased;
                // Boxed: a task takes as much memory as its largest step, and it waits far longer than it leaves.
                mode = self.shared.closing() => return Box::pin(self.leave(contender, mode)).await,
                () = self.shared.resigning(node.as_ref()) => {
                    Box::pin(self.resign(&mut contender)).await;
                    continue;
                }
                notice = self.requests.next() => {
                    match notice {
                        Notice::Asked(by) => self.asked(&mut contender, node.as_deref(), by),
                        Notice::Due => Box::pin(self.resign(&mut contender)).await,
                    }
                    continue;
                }
                state = contender.next() => state,
                () = self.precedence.outranked() => {
                    Box::pin(self.step_back(&mut contender)).await;
                    continue;
                }
            };
            if let State::Closed = state {
                return Ok(());
            }
            self.log(&state);
            let entered = matches!(state, State::Entered(_));
            let next = self.next_state(state);
            match next.term().map(Hold::token) {
                Some(token) => {
                    // Unless it was asked before this term of the same node began.
                    self.gives_way = self.requests.asker().map_or(GivesWay::ToNone, Asker::gives_way);
                    self.state_rank(&mut contender);
                    self.publish_term(next, token);
                    // Tasks that wait for the leadership run before the place writes its next requests.
                    tokio::task::yield_now().await;
                }
                // In the published state, a contender that has a node is still entering.
                None if entered => drop(self.shared.state.send_if_modified(|state| {
                    *state = next;
                    false
                })),
                None => self.publish(next),
            }
        }
    }

    fn next_state(&self, state: State) -> LatchState {
        self.shared.state.borrow().next(state, &self.shared.path, &self.core.config.namespace)
    }

    fn publish(&mut self, state: LatchState) {
        let former = self.term();
        self.end_term(former, state.status());
        self.shared.listeners.publish(&self.shared.state, state);
    }

    /// Publishes a term, unless the latch is ending, as its node is about to be deleted.
    fn publish_term(&mut self, state: LatchState, token: i64) {
        let former = self.term();
        let shared = &*self.shared;
        let leads = shared.leaving.in_order(|| {
            let leads = shared.closing.borrow().is_none();
            if leads {
                shared.listeners.publish(&shared.state, state);
            }
            leads
        });
        if leads {
            // A term follows another directly only if the lease lapsed in between and no state was published for that.
            self.end_term(former, LatchStatus::Suspended);
            let (path, id) = (&*self.shared.path, &self.shared.id);
            let span = tracing::info_span!("term", path, id, token, why = tracing::field::Empty);
            self.term_span = Some(span);
            tracing::info!(event = "leading", path, id, token, "leading");
            self.terms.begin();
            self.requests.tell(self.shared.state.borrow().term());
        }
    }

    /// Takes notice of a request to resign.
    fn asked(&mut self, contender: &mut Contender, node: Option<&str>, by: Asker) {
        // At once: it may lose this node before it gives it up.
        self.give_way(contender, by.gives_way());
        let state = self.shared.state.borrow().clone();
        let (path, id) = (&*self.shared.path, &self.shared.id);
        let (by, leads) = (by.name(), state.is_leader());
        tracing::info!(event = "asked_to_resign", path, id, node, by, leads, "asked to resign");
        self.requests.start_grace(state.term().filter(|term| term.is_held()));
    }

    /// Returns the token of the term that the published state began.
    fn term(&self) -> Option<i64> {
        self.shared.state.borrow().term().map(Hold::token)
    }

    /// Reports the end of a term, if there is one.
    fn end_term(&mut self, term: Option<i64>, why: LatchStatus) {
        let Some(token) = term else { return };
        self.terms.end(why.name());
        if let Some(span) = self.term_span.take() {
            span.record("why", why.name());
        }
        let (path, id) = (&*self.shared.path, &self.shared.id);
        tracing::info!(event = "leadership_ended", path, id, token, %why, "no longer leading");
    }

    fn log(&self, state: &State) {
        let (path, id) = (&*self.shared.path, &self.shared.id);
        match state {
            State::Failed(error) => tracing::warn!(
                event = "cannot_take_part",
                path,
                id,
                %error,
                kind = ?error.kind(),
                "cannot enter the election"
            ),
            state => tracing::debug!(
                event = "state_changed",
                path,
                id,
                state = state.name(),
                node = state.node(),
                "the contender's state has changed"
            ),
        }
    }

    /// Gives up the place because it was asked to, or its own code wants it.
    async fn resign(&mut self, contender: &mut Contender) {
        self.give_way(contender, self.requests.asker().map_or(GivesWay::ToAll, Asker::gives_way));
        self.step_back(contender).await;
    }

    /// Gives way to these too, from its next node on.
    fn give_way(&mut self, contender: &mut Contender, gives_way: GivesWay) {
        self.gives_way = self.gives_way.max(gives_way);
        self.state_rank(contender);
    }

    /// Has the next node, and those after it, state its rank, if it has a priority.
    fn state_rank(&self, contender: &mut Contender) {
        if let Some(priority) = self.options.priority {
            contender.set_label(Rank { priority, gives_way: self.gives_way }.label());
        }
    }

    /// Gives up the place, in the order of [`leave`](Self::leave). The contender then enters again, at the end of the
    /// line.
    async fn step_back(&mut self, contender: &mut Contender) {
        contender.relinquish();
        let resigned = self.shared.state.borrow().resigned();
        let former = self.term();
        self.end_term(former, resigned.status());
        let shared = &*self.shared;
        let notified = shared.listeners.publish_and_wait(&shared.state, resigned);
        if self.options.close_mode == CloseMode::NotifyLeader {
            tokio::select! {
                biased;
                () = notified => {}
                () = shared.silenced() => {}
            }
        }
        match contender.leave_after(shared.leaving.handed_over()).await {
            Ok(()) | Err(engine::Error::SessionEnded) => {}
            // Until that is done it may be the first of the line, and lead nothing.
            Err(error) => {
                let path = &*shared.path;
                tracing::warn!(event = "place_not_given_up", path, ?error, "the node is deleted in the background");
            }
        }
        // The node of requests is deleted after the node that it is for.
        self.requests.follow(None);
    }

    /// Ends the leadership, notifies listeners, then deletes the node, in this order: otherwise two participants could
    /// lead.
    async fn leave(&mut self, mut contender: Contender, mode: CloseMode) -> Result<(), Error> {
        let handed = self.shared.leaving.handed_over();
        contender.relinquish();
        let closed = self.next_state(State::Closed);
        let former = self.term();
        self.end_term(former, closed.status());
        let shared = &*self.shared;
        match mode {
            CloseMode::Silent => {
                shared.listeners.clear();
                shared.listeners.publish(&shared.state, closed);
            }
            CloseMode::NotifyLeader => {
                let notified = shared.listeners.publish_and_wait(&shared.state, closed);
                tokio::select! {
                    biased;
                    () = notified => {}
                    () = shared.silenced() => {}
                }
            }
        }
        match contender.leave_after(handed).await {
            // A node that was lost or given up with the session needs no delete. The caller must know of any other
            // failure.
            Ok(()) | Err(engine::Error::SessionEnded) => Ok(()),
            Err(error) => {
                let error = client::Error::from_engine("delete our node in", &shared.path, error);
                Err(Error::client(&shared.path, error))
            }
        }
    }
}
