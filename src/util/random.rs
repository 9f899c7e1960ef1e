//! A client's source of randomness for names and jitter.

use std::sync::Arc;

use uuid::Uuid;

use crate::util::mutex::Mutex;

/// The source of the uuids of protected nodes, and of jitter.
#[derive(Debug, Clone, Default)]
pub(crate) enum Random {
    /// The operating system's.
    #[default]
    System,
    /// Derived from a seed, so that a simulation can be repeated.
    Seeded(Arc<Mutex<fastrand::Rng>>),
}

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Random::Seeded(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    pub(crate) fn uuid(&self) -> Uuid {
        match self {
            Random::System => Uuid::new_v4(),
            Random::Seeded(random) => {
                let bits = random.lock().u128(..);
                uuid::Builder::from_random_bytes(bits.to_le_bytes()).into_uuid()
            }
        }
    }

    /// Returns a number, uniform in 0..1.
    pub(crate) fn unit(&self) -> f64 {
        // An f64 has 53 bits of precision; the low bits of a uuid are all random.
        let bits = (self.uuid().as_u128() as u64) & ((1 << 53) - 1);
        bits as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fill_the_range_and_stay_in_it() {
        for random in [Random::System, Random::seeded(3)] {
            let drawn: Vec<f64> = (0..2_000).map(|_| random.unit()).collect();
            assert!(drawn.iter().all(|unit| (0.0..1.0).contains(unit)));
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            assert!((0.45..0.55).contains(&mean), "{mean}");
        }
    }

    #[test]
    fn a_seed_repeats_itself_and_names_differ() {
        let (one, again, other) = (Random::seeded(1), Random::seeded(1), Random::seeded(2));
        let drawn = one.uuid();
        assert_eq!(drawn, again.uuid());
        assert_ne!(drawn, one.uuid());
        assert_ne!(drawn, other.uuid());
        assert_eq!(drawn.get_version_num(), 4);
    }
}
