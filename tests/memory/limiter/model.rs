//! Random histories, compared with a model that does not wait: it checks every caller each millisecond.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;
use zookeeper_recipes::limiter::ShareLimiter;

const BURST: u64 = 8;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// So many milliseconds pass.
    Pass(u64),
    Rate(u64),
    Acquire(u64),
    Try(u64),
    /// One of those who wait gives up.
    GiveUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let rate = prop_oneof![1 => Just(0), 3 => 1..=50_u64, 3 => 50..=3_000_u64, 1 => 3_000..=2_000_000_u64];
    prop_oneof![
        4 => (1..=30_u64).prop_map(Step::Pass),
        2 => rate.prop_map(Step::Rate),
        4 => (1..=BURST).prop_map(Step::Acquire),
        1 => (1..=BURST).prop_map(Step::Try),
        1 => (0..100_usize).prop_map(Step::GiveUp),
    ]
}

/// Millionths of a permit are enough: a millisecond brings `1_000 * rate` of them.
#[derive(Debug, Default)]
struct Model {
    rate: u64,
    millionths: u64,
    line: VecDeque<(usize, u64)>,
    granted: Vec<usize>,
}

impl Model {
    fn pass(&mut self) {
        self.millionths += 1_000 * self.rate;
        self.spill();
        self.serve();
    }

    /// There is room for the burst and 10 ms more, and for nothing while it is closed.
    fn spill(&mut self) {
        let room = if self.rate == 0 { 0 } else { BURST * 1_000_000 + 10_000 * self.rate };
        self.millionths = self.millionths.min(room);
    }

    fn serve(&mut self) {
        while let Some(&(who, permits)) = self.line.front() {
            if !self.takes(permits) {
                return;
            }
            self.line.pop_front();
            self.granted.push(who);
        }
    }

    fn takes(&mut self, permits: u64) -> bool {
        let left = self.millionths.checked_sub(permits * 1_000_000);
        self.millionths = left.unwrap_or(self.millionths);
        left.is_some()
    }
}

/// The limiter and its model, which live through the same.
struct Pair {
    limiter: ShareLimiter,
    model: Model,
    granted: Arc<Mutex<Vec<usize>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Pair {
    fn new() -> Self {
        let limiter = ShareLimiter::with_burst(0, BURST).expect("a good burst");
        Pair { limiter, model: Model::default(), granted: Arc::default(), tasks: Vec::new() }
    }

    async fn live(&mut self, step: Step) {
        match step {
            Step::Pass(millis) => {
                for _ in 0..millis {
                    sleep(Duration::from_millis(1)).await;
                    self.model.pass();
                    self.compare().await;
                }
            }
            Step::Rate(rate) => {
                self.limiter.set_rate(rate).expect("no member drives it");
                self.model.rate = rate;
                self.model.spill();
            }
            Step::Acquire(permits) => {
                let (limiter, granted, who) = (self.limiter.clone(), Arc::clone(&self.granted), self.tasks.len());
                self.tasks.push(tokio::spawn(async move {
                    limiter.acquire(permits).await.expect("no more than the burst");
                    granted.lock().expect("no panic").push(who);
                }));
                self.model.line.push_back((who, permits));
                self.model.serve();
            }
            Step::Try(permits) => {
                let taken = self.model.line.is_empty() && self.model.takes(permits);
                assert_eq!(self.limiter.try_acquire(permits), Ok(taken));
            }
            Step::GiveUp(nth) if !self.model.line.is_empty() => {
                let nth = nth % self.model.line.len();
                let (who, _) = self.model.line.remove(nth).expect("it waits");
                self.tasks[who].abort();
                self.model.serve();
            }
            Step::GiveUp(_) => {}
        }
        self.compare().await;
    }

    /// Lets every caller progress as far as it can now; each served caller wakes the next.
    async fn compare(&self) {
        let missing = || self.granted.lock().expect("no panic").len() < self.model.granted.len();
        let mut patience = 4 + 4 * self.tasks.len();
        while missing() && patience > 0 {
            yield_now().await;
            patience -= 1;
        }
        for _ in 0..4 {
            yield_now().await;
        }
        // Of the calls that are served at one moment any may return first.
        let [returned, granted] =
            [self.granted.lock().expect("no panic").clone(), self.model.granted.clone()].map(|mut calls| {
                calls.sort_unstable();
                calls
            });
        assert_eq!(returned, granted);
        assert_eq!(self.limiter.rate(), self.model.rate);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_grants_what_the_model_grants_when_it_does(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let mut pair = Pair::new();
            for step in steps {
                pair.live(step).await;
            }
        });
    }
}
