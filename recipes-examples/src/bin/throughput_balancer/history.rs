//! What each member applied at each moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::throughput_balancer::Share;

/// What each member applies, by its number.
pub(crate) type Applied = BTreeMap<usize, u64>;

/// Returns what all members apply together.
pub(crate) fn together(applied: &Applied) -> u64 {
    applied.values().sum()
}

/// The shares of all members, with a sample of what they apply at each change of one of them.
#[derive(Default)]
pub(crate) struct History {
    /// The newest share of each member, including those that have left.
    shares: BTreeMap<usize, Share>,
    /// The leaders that these shares come from.
    leaders: BTreeSet<i64>,
    samples: Vec<(Instant, Applied)>,
}

impl History {
    /// Notes the newest share of a member.
    pub(crate) fn note(&mut self, number: usize, share: Share) {
        self.leaders.extend(Some(share.epoch()).filter(|epoch| *epoch > 0));
        self.shares.insert(number, share);
        self.sample();
    }

    /// Discards all samples, and begins with what is applied now.
    pub(crate) fn restart(&mut self) {
        self.leaders = self.shares.values().map(Share::epoch).collect();
        self.samples.clear();
        self.sample();
    }

    /// Returns the throughput that each member applies now, without members whose share is 0.
    ///
    /// The shares are read one after the other. Without a new share, a throughput only falls, so the sum is never more
    /// than what all members applied together when the first share was read.
    pub(crate) fn applied(&self) -> Applied {
        let applied = self.shares.iter().map(|(number, share)| (*number, share.throughput()));
        applied.filter(|(_, throughput)| *throughput > 0).collect()
    }

    fn sample(&mut self) {
        self.samples.push((Instant::now(), self.applied()));
    }

    /// Returns the samples until now; `None` before the first share.
    pub(crate) fn recorded(&self) -> Option<Recorded> {
        let (began, _) = self.samples.first()?;
        let samples = self.samples.iter().map(|(at, applied)| (*at - *began, applied.clone())).collect();
        Some(Recorded { samples, duration: began.elapsed(), leaders: self.leaders.len() })
    }
}

/// Samples, each of which is valid until the next one.
pub(crate) struct Recorded {
    /// With the time since the first sample; never empty.
    samples: Vec<(Duration, Applied)>,
    pub(crate) duration: Duration,
    /// How many leaders the shares came from.
    pub(crate) leaders: usize,
}

impl Recorded {
    /// Returns what all applied together on average, with each sample weighted by how long it was valid.
    pub(crate) fn average(&self) -> f64 {
        let ends = self.samples.iter().skip(1).map(|(at, _)| *at).chain([self.duration]);
        let amounts = self.samples.iter().zip(ends);
        let done: f64 = amounts.map(|((at, applied), end)| together(applied) as f64 * (end - *at).as_secs_f64()).sum();
        done / self.duration.as_secs_f64()
    }

    /// Returns the least that all applied together.
    pub(crate) fn least(&self) -> u64 {
        self.sums().min().unwrap_or_default()
    }

    /// Returns the most that all applied together.
    pub(crate) fn most(&self) -> u64 {
        self.sums().max().unwrap_or_default()
    }

    fn sums(&self) -> impl Iterator<Item = u64> {
        self.samples.iter().map(|(_, applied)| together(applied))
    }

    /// Divides the time into `columns`. Returns for each the sample in which all together applied least.
    pub(crate) fn least_of_each(&self, columns: u16) -> Vec<&Applied> {
        (0..columns)
            .filter_map(|column| self.least_between(self.start(column, columns), self.start(column + 1, columns)))
            .collect()
    }

    fn start(&self, column: u16, columns: u16) -> Duration {
        self.duration * u32::from(column) / u32::from(columns)
    }

    /// Returns the least of the sample that is valid at `start` and those that follow it before `end`.
    fn least_between(&self, start: Duration, end: Duration) -> Option<&Applied> {
        let first = self.samples.partition_point(|(at, _)| *at <= start).saturating_sub(1);
        let last = self.samples.partition_point(|(at, _)| *at < end).max(first + 1);
        self.samples[first..last].iter().map(|(_, applied)| applied).min_by_key(|applied| together(applied))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Recorded {
        let sample = |at, shares: &[u64]| (Duration::from_secs(at), shares.iter().copied().enumerate().collect());
        let samples = vec![sample(0, &[6, 4]), sample(2, &[2, 4]), sample(3, &[1, 4]), sample(4, &[5, 5])];
        Recorded { samples, duration: Duration::from_secs(10), leaders: 1 }
    }

    #[test]
    fn an_average_is_weighted_by_time() {
        let recorded = recorded();
        assert_eq!((recorded.average(), recorded.least(), recorded.most()), (9.1, 5, 10));
    }

    #[test]
    fn a_column_is_the_sample_in_which_least_is_applied() {
        let sums = |columns| recorded().least_of_each(columns).into_iter().map(together).collect::<Vec<_>>();
        assert_eq!(sums(5), [10, 5, 10, 10, 10]);
        assert_eq!(sums(2), [5, 10]);
    }
}
