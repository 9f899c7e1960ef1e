//! The spans that have been closed, with their fields, as a layer for OpenTelemetry gets them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::fixture::log::ask_each_thread;

/// A span that has been closed.
#[derive(Debug, Clone)]
pub(super) struct Closed {
    name: &'static str,
    parent: Option<&'static str>,
    fields: Fields,
}

/// The fields of a span, as texts.
#[derive(Debug, Clone, Default)]
struct Fields(BTreeMap<&'static str, String>);

/// Keeps the spans that are closed while it is installed.
#[derive(Debug, Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Vec<Closed>>>);

impl Recorder {
    pub(super) fn new() -> (Self, Dispatch) {
        ask_each_thread();
        let recorder = Recorder::default();
        let dispatch = Dispatch::new(Registry::default().with(recorder.clone()));
        (recorder, dispatch)
    }

    /// Returns the spans of this name that have been closed.
    pub(super) fn closed(&self, name: &str) -> Vec<Closed> {
        self.0.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect()
    }
}

impl Closed {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.0.get(name).map(String::as_str)
    }

    pub(super) fn parent(&self) -> Option<&'static str> {
        self.parent
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        context.span(id).expect("it is there").extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).expect("it is there");
        values.record(span.extensions_mut().get_mut::<Fields>().expect("it has fields"));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).expect("it is there");
        let fields = span.extensions().get::<Fields>().cloned().unwrap_or_default();
        let parent = span.parent().map(|parent| parent.name());
        self.0.lock().unwrap().push(Closed { name: span.name(), parent, fields });
    }
}
