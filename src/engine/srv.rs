//! The servers that the SRV records of a name give. See RFC 2782.

use super::connect_string::Endpoint;

/// What one SRV record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) endpoint: Endpoint,
    /// Servers with a lower number are tried first.
    pub(crate) priority: u16,
    /// How often, among servers of one priority, this one should be the first.
    pub(crate) weight: u16,
}

/// Returns the servers in the order in which to try them: by priority and, within one, at random by weight. `unit`
/// draws random numbers from 0..1. A server that has several records comes once.
pub(crate) fn in_order(records: Vec<Record>, unit: impl Fn() -> f64) -> Vec<Endpoint> {
    // The first to arrive of several that arrive at random, at these rates, is each with a probability of its share.
    let arrives = |record: &Record| -(1.0 - unit()).ln() / (f64::from(record.weight) + LEAST_WEIGHT);
    let mut keyed: Vec<_> = records.into_iter().map(|record| (record.priority, arrives(&record), record)).collect();
    keyed.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut order = Vec::with_capacity(keyed.len());
    for (_, _, Record { endpoint, .. }) in keyed {
        if !order.contains(&endpoint) {
            order.push(endpoint);
        }
    }
    order
}

/// Added to each weight: servers of weight 0 should have a very small chance beside others.
const LEAST_WEIGHT: f64 = 0.01;

#[cfg(feature = "srv")]
mod lookup;
#[cfg(feature = "srv")]
pub(crate) use self::lookup::lookup;
#[cfg(all(test, feature = "srv"))]
pub(crate) use self::lookup::lookup_with;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn record(name: &str, priority: u16, weight: u16) -> Record {
        Record { endpoint: Endpoint::new(name, "2181").expect("a name"), priority, weight }
    }

    #[test]
    fn lower_priorities_come_first_and_heavier_servers_more_often() {
        let drawn = fastrand::Rng::with_seed(7);
        let drawn = Cell::new(drawn);
        let unit = || {
            let mut random = drawn.take();
            let unit = random.f64();
            drawn.set(random);
            unit
        };
        let mut firsts = [0; 3];
        for _ in 0..4_000 {
            let records =
                vec![record("spare", 2, 100), record("light", 1, 1), record("heavy", 1, 3), record("none", 1, 0)];
            let order: Vec<String> = in_order(records, unit).iter().map(|host| host.name().to_owned()).collect();
            assert_eq!(order[3], "spare");
            let place = ["light", "heavy", "none"].iter().position(|name| *name == order[0]).expect("of priority 1");
            firsts[place] += 1;
        }
        assert!((900..1_100).contains(&firsts[0]) && (2_850..3_150).contains(&firsts[1]), "{firsts:?}");
        assert!(firsts[2] < 60, "{firsts:?}");
    }
}
