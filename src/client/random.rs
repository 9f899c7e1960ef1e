//! The one source of randomness of a client: names and jitter.

use uuid::Uuid;

/// Makes the uuids of protected nodes, and jitter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Random;

impl Random {
    pub(crate) fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    /// Uniform in 0..1.
    pub(crate) fn unit(&self) -> f64 {
        // 53 bits are what an f64 can tell apart; the low ones of a uuid are all random.
        let bits = (self.uuid().as_u128() as u64) & ((1 << 53) - 1);
        bits as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fill_the_range_and_stay_in_it() {
        let random = Random;
        let drawn: Vec<f64> = (0..2_000).map(|_| random.unit()).collect();
        assert!(drawn.iter().all(|unit| (0.0..1.0).contains(unit)));
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
