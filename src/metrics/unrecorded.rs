//! Replaces the meter in a build without the feature `metrics`. Records nothing and keeps nothing.

use super::paths::Paths;
use super::table::{Label, Metric};

/// Records nothing.
#[derive(Debug, Default)]
pub(crate) struct Meter;

impl Meter {
    pub(crate) fn new(_paths: Paths) -> Self {
        Meter
    }

    pub(crate) fn count(&self, _metric: &'static Metric, _labels: &[Label<'_>], _more: u64) {}

    pub(crate) fn record(&self, _metric: &'static Metric, _labels: &[Label<'_>], _value: f64) {}

    pub(crate) fn announce(&self, _metric: &'static Metric, _labels: &[Label<'_>]) {}

    pub(crate) fn level(&self, _metric: &'static Metric, _labels: &[Label<'_>]) -> Level {
        Level
    }

    pub(crate) fn reading(&self, _metric: &'static Metric, _labels: &[Label<'_>]) -> Reading {
        Reading
    }
}

/// One contribution to a gauge that is not recorded.
#[derive(Debug, Default)]
pub(crate) struct Level;

impl Level {
    pub(crate) fn set(&self, _value: f64) {}
}

/// Does nothing. Callers drop a level when the gauge is to change, as in a build with metrics.
impl Drop for Level {
    fn drop(&mut self) {}
}

/// A gauge that is not recorded.
#[derive(Debug)]
pub(crate) struct Reading;

impl Reading {
    pub(crate) fn set(&self, _value: f64) {}
}
