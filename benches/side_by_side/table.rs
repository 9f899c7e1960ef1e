//! The table of results.

use std::fmt;

use super::measure::{Measured, Sample, Unit};

/// The rows that were measured.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<(&'static str, Measured)>,
}

impl Table {
    pub(crate) fn add(&mut self, name: &'static str, row: Measured) {
        eprintln!("{name}: measured");
        self.rows.push((name, row));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\np50 of a cycle, µs (less is better) or cycles a second (/s, more is better); ratios of the p50,\n\
             median of the rounds; CPU (user and system, µs) and context switches of this process a cycle.\n\
             Columns: bare socket, zookeeper-client, ours.\n"
        )?;
        writeln!(
            f,
            "{:<44} | {:^29} | {:^16} | {:^23} | {:^20}",
            "", "p50", "ours against", "CPU a cycle, µs", "switches a cycle"
        )?;
        writeln!(
            f,
            "{:<44} | {:>9} {:>9} {:>9} | {:>7} {:>8} | {:>7} {:>7} {:>7} | {:>6} {:>6} {:>6}",
            "", "bare", "crate", "ours", "bare", "crate", "bare", "crate", "ours", "bare", "crate", "ours"
        )?;
        for (name, row) in &self.rows {
            let columns = [&row.bare, &row.client_crate, &row.ours];
            let value = |samples: &[Sample]| figure(row.unit, samples);
            let ratio = |other: &[Sample]| {
                let pairs = row.ours.iter().zip(other);
                let ratios = pairs.map(|(ours, other)| match row.unit {
                    Unit::Micros => ours.seconds / other.seconds,
                    Unit::PerSecond => other.seconds / ours.seconds,
                });
                shown(median(ratios), 2)
            };
            let [bare, client_crate, ours] = columns.map(|samples| value(samples));
            write!(f, "{name:<44} | {bare:>9} {client_crate:>9} {ours:>9} | ")?;
            write!(f, "{:>7} {:>8} |", ratio(&row.bare), ratio(&row.client_crate))?;
            for samples in columns {
                write!(f, " {:>7}", shown(median(samples.iter().map(|sample| sample.cpu * 1e6)), 0))?;
            }
            write!(f, " |")?;
            for samples in columns {
                write!(f, " {:>6}", shown(median(samples.iter().map(|sample| sample.switches)), 1))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn figure(unit: Unit, samples: &[Sample]) -> String {
    let seconds = median(samples.iter().map(|sample| sample.seconds));
    match unit {
        Unit::Micros => shown(seconds.map(|seconds| seconds * 1e6), 0),
        Unit::PerSecond => match seconds {
            Some(seconds) => format!("{:.0}/s", 1.0 / seconds),
            None => shown(None, 0),
        },
    }
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
