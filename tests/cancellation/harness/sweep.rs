//! Runs a scenario for every point at which its future can be dropped.

use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;

use super::plan::{Fault, Plan, Unit};
use super::run::{Outcome, Run};

/// The seeds of the default run: an even one has several servers, which lag.
const SEEDS: [u64; 4] = [1, 2, 3, 4];
/// A future that is not over after this many polls, or steps, is in an endless loop.
const MOST: usize = 1_000;
/// The time limit of a scenario, by its own clock.
const PATIENCE: Duration = Duration::from_secs(600);

/// The counts of a sweep.
#[derive(Debug, Default)]
struct Tally {
    runs: usize,
    /// How often the future was dropped on its way.
    drops: usize,
    /// How often a fault struck.
    faults: usize,
}

/// Runs the scenario for every number of polls, and of steps, until its future is over: without faults, with each fault
/// after each poll, and with a random fault after a random step. Fails if there were fewer drops or faults than these.
pub(crate) fn sweep(name: &str, drops: usize, faults: usize, scenario: impl AsyncFn(&mut Run)) {
    let mut tally = Tally::default();
    for seed in seeds() {
        // Each of these two units with one seed only, as this takes many runs.
        let each_fault_after_each = match seed % 4 {
            1 => Some(Unit::PollsAndAWake),
            2 => Some(Unit::Polls),
            _ => None,
        };
        for unit in [Unit::Polls, Unit::PollsAndAWake, Unit::Steps] {
            let plan = Plan { seed, unit, end: 0, fault: None };
            let length = tally.until_over(name, plan, &scenario);
            if unit == Unit::Steps {
                let mut random = fastrand::Rng::with_seed(seed);
                for end in 0..length {
                    let fault = (Fault::ALL[random.usize(..Fault::ALL.len())], random.usize(..=end));
                    tally.run(name, Plan { end, fault: Some(fault), ..plan }, &scenario);
                }
            } else if each_fault_after_each == Some(unit) {
                for fault in Fault::ALL {
                    for at in 0..length {
                        tally.until_over(name, Plan { end: at, fault: Some((fault, at)), ..plan }, &scenario);
                    }
                }
            }
        }
    }
    println!("{name}: {tally:?}");
    if replayed().is_none() {
        assert!(tally.drops >= drops && tally.faults >= faults, "{name}: too little was tried: {tally:?}");
    }
}

impl Tally {
    /// Runs from the end of the plan on, until the future is over by itself. Returns after how many units that was.
    fn until_over(&mut self, name: &str, first: Plan, scenario: &impl AsyncFn(&mut Run)) -> usize {
        let mut plan = first;
        while self.run(name, plan, scenario).dropped {
            plan.end += 1;
            assert!(plan.end < MOST, "{name}: does not end; {plan}");
        }
        plan.end
    }

    /// Runs once, in a world of its own.
    fn run(&mut self, name: &str, plan: Plan, scenario: &impl AsyncFn(&mut Run)) -> Outcome {
        let told = Told(name, plan);
        // With this interval, the scenario can run after each step of another task, to drop the future there.
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).event_interval(1).build();
        let outcome = runtime.expect("a runtime").block_on(async {
            let mut run = Run::new(plan);
            let over = timeout(PATIENCE, scenario(&mut run)).await;
            over.expect("the scenario waits for something that does not happen");
            run.finish().await
        });
        drop(told);
        self.runs += 1;
        self.drops += usize::from(outcome.dropped);
        self.faults += usize::from(outcome.struck);
        outcome
    }
}

/// Prints which run it was if the run fails.
struct Told<'a>(&'a str, Plan);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}: {}", self.0, self.1);
        }
    }
}

fn seeds() -> Vec<u64> {
    replayed().map_or(SEEDS.to_vec(), |seed| vec![seed])
}

/// Returns the one seed to run, if the environment names it.
fn replayed() -> Option<u64> {
    let seed = std::env::var("SEED").ok()?;
    Some(seed.parse().unwrap_or_else(|_| panic!("SEED={seed}: must be a number")))
}
