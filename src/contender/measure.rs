//! The metrics of calls that acquire, of holds and of terms.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::Span;

use crate::client::core::Core;
use crate::engine::{Event, Watch};
use crate::metrics::{Label, Level, Meter, table};

/// How a call that acquires has ended.
#[derive(Debug, Clone, Copy)]
enum WaitEnd {
    /// With what it asked for.
    Acquired,
    /// Without: its time was over, or others were ahead.
    Busy,
    /// With an error.
    Failed,
    /// It has not ended: its caller has dropped it.
    Dropped,
}

/// A call that acquires. When it is dropped, it records how long it has waited.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    meter: &'a Meter,
    recipe: &'static str,
    path: &'a str,
    span: Span,
    began: Instant,
    end: WaitEnd,
    _waits: Level,
}

impl<'a> Wait<'a> {
    /// Records the outcome in `span`.
    pub(super) fn begin(meter: &'a Meter, recipe: &'static str, path: &'a str, span: Span) -> Self {
        let waits = meter.level(&table::LOCK_WAITERS, &[Label::Is(recipe), Label::Path(path)]);
        waits.set(1.0);
        Wait { meter, recipe, path, span, began: Instant::now(), end: WaitEnd::Dropped, _waits: waits }
    }

    pub(super) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Records the outcome of a call that no longer waits.
    pub(super) fn acquired<T, E>(&mut self, outcome: &Result<T, E>) {
        self.end = if outcome.is_ok() { WaitEnd::Acquired } else { WaitEnd::Failed };
    }

    /// Records the outcome of a call that has given up.
    pub(super) fn gave_up<T, E>(&mut self, outcome: &Result<T, E>) {
        self.end = if outcome.is_ok() { WaitEnd::Busy } else { WaitEnd::Failed };
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let outcome = match self.end {
            WaitEnd::Acquired => "acquired",
            WaitEnd::Busy => "busy",
            WaitEnd::Failed => "failed",
            WaitEnd::Dropped => "dropped",
        };
        self.span.record("outcome", outcome);
        let labels = [Label::Is(self.recipe), Label::Path(self.path), Label::Is(outcome)];
        self.meter.record(&table::LOCK_WAIT, &labels, self.began.elapsed().as_secs_f64());
    }
}

/// The metrics and the span of a place on its way to the head of the line.
#[derive(Debug)]
pub(super) struct Takeover {
    /// The span of the call that waits. There is none outside of calls, and none once it holds.
    span: Span,
    /// When the event arrived that the node ahead of ours is gone. Set until we hold.
    freed_at: Option<Instant>,
}

impl Takeover {
    /// Begins with our node.
    pub(super) fn new(span: Span, node: &str) -> Self {
        span.record("node", node.rsplit('/').next());
        Takeover { span, freed_at: None }
    }

    /// Records the node ahead of ours.
    pub(super) fn waits_for(&mut self, node: &str) {
        self.freed_at = None;
        self.span.record("behind", node.rsplit('/').next());
    }

    /// Records that it is gone, if this watch reported that.
    pub(super) fn freed(&mut self, event: Event, watch: Option<Watch>) {
        self.freed_at = watch.filter(|_| event == Event::NodeDeleted).and_then(|watch| watch.arrived_at());
    }

    /// Records that we hold.
    pub(super) fn held(&mut self, core: &Core, dir: &str) {
        self.span = Span::none();
        let Some(at) = self.freed_at.take() else { return };
        let path = Label::Path(core.config.namespace.strip(dir));
        core.meter().record(&table::TAKEOVER, &[path], at.elapsed().as_secs_f64());
    }
}

/// Registers the ways in which a hold can end, before one ends.
pub(crate) fn announce(core: &Core, recipe: &'static str, path: &str) {
    for end in ["released", "lost"] {
        core.meter().announce(&table::LOCK_HOLD, &[Label::Is(recipe), Label::Path(path), Label::Is(end)]);
    }
}

/// A lock or a permit that is held. It records when it ends.
#[derive(Debug)]
pub(super) struct Holding {
    meter: Arc<Meter>,
    recipe: &'static str,
    began: Instant,
    level: Option<Level>,
}

impl Holding {
    pub(super) fn begin(core: &Core, recipe: &'static str, path: &str) -> Self {
        let level = core.meter().level(&table::LOCKS_HELD, &[Label::Is(recipe), Label::Path(path)]);
        level.set(1.0);
        Holding { meter: Arc::clone(core.meter()), recipe, began: Instant::now(), level: Some(level) }
    }

    /// Records the end. Only the first call counts.
    pub(super) fn end(&mut self, path: &str, is_held: bool) {
        if self.level.take().is_none() {
            return;
        }
        let end = if is_held { "released" } else { "lost" };
        let labels = [Label::Is(self.recipe), Label::Path(path), Label::Is(end)];
        self.meter.record(&table::LOCK_HOLD, &labels, self.began.elapsed().as_secs_f64());
    }
}

/// The terms of one participant in an election.
#[derive(Debug)]
pub(crate) struct Terms {
    meter: Arc<Meter>,
    recipe: &'static str,
    path: Arc<str>,
    leads: Level,
    began: Option<Instant>,
    _takes_part: Level,
}

impl Terms {
    /// `ends` are the ends of a term that an operator must know of.
    pub(crate) fn new(core: &Core, recipe: &'static str, path: &Arc<str>, ends: &[&'static str]) -> Self {
        let (meter, labels) = (Arc::clone(core.meter()), [Label::Is(recipe), Label::Path(path)]);
        meter.announce(&table::LEADER_TERMS, &labels);
        for end in ends {
            meter.announce(&table::LEADER_TERM, &[labels[0], labels[1], Label::Is(end)]);
        }
        let leads = meter.level(&table::LEADERS, &labels);
        let takes_part = meter.level(&table::PARTICIPANTS, &labels);
        takes_part.set(1.0);
        Terms { meter, recipe, path: Arc::clone(path), leads, began: None, _takes_part: takes_part }
    }

    pub(crate) fn begin(&mut self) {
        self.meter.count(&table::LEADER_TERMS, &[Label::Is(self.recipe), Label::Path(&self.path)], 1);
        self.leads.set(1.0);
        self.began = Some(Instant::now());
    }

    /// Ends the term, if there is one. `end` is the name of its end.
    pub(crate) fn end(&mut self, end: &'static str) {
        let Some(began) = self.began.take() else { return };
        self.leads.set(0.0);
        let labels = [Label::Is(self.recipe), Label::Path(&self.path), Label::Is(end)];
        self.meter.record(&table::LEADER_TERM, &labels, began.elapsed().as_secs_f64());
    }
}

/// A term may end with the runtime of its task.
impl Drop for Terms {
    fn drop(&mut self) {
        self.end("interrupted");
    }
}
