//! Which seeds are run, on how many threads, and how their outcomes are reported.

use std::future::Future;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many seeds are run per recipe if neither `SEEDS` nor `SIMULATION_SECONDS` is set.
const SEEDS: u64 = 2_000;
/// How many seeds are run at least with `SIMULATION_SECONDS`, however long that takes: fewer miss rare schedules.
const LEAST_SEEDS: u64 = 1_000;
/// After how many failed seeds no more are run if `MOST_FAILURES` is not set.
const MOST_FAILURES: u64 = 3;

/// The counts of faults and turns, of one or many seeds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    /// Faults that hit something.
    pub(crate) faults: u64,
    /// How often a participant got what all compete for.
    pub(crate) turns: u64,
    /// How often that passed from one participant to another.
    pub(crate) hand_overs: u64,
    /// How often a call was dropped half way.
    pub(crate) cancelled: u64,
    /// Milliseconds on the simulated clock.
    pub(crate) millis: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.faults += other.faults;
        self.turns += other.turns;
        self.hand_overs += other.hand_overs;
        self.cancelled += other.cancelled;
        self.millis += other.millis;
    }
}

/// A seed with a violation.
#[derive(Debug)]
struct Failure {
    /// The index of the seed in this run, from 0.
    index: u64,
    seed: u64,
    violation: String,
    trace: Vec<String>,
    /// When it failed, in seconds after the start.
    after: f64,
}

/// The outcome of a seed.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) figures: Figures,
    /// The violation, if there was one.
    pub(crate) violation: Option<String>,
    /// Everything that can be observed of the seed: the same in each run.
    pub(crate) trace: Vec<String>,
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: must be a number from 0 to {}", u64::MAX)))
}

/// Runs one seed in a world of its own.
pub(crate) fn run<F: Future<Output = Outcome>>(seed: u64, scenario: impl Fn(u64) -> F) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(scenario(seed))
}

/// How many seeds are run per recipe.
#[derive(Debug, Clone, Copy)]
enum Budget {
    Seeds(u64),
    Time(Duration),
}

impl Budget {
    fn from_environment() -> Self {
        match (number("SEEDS"), number("SIMULATION_SECONDS")) {
            (Some(_), Some(_)) => panic!("SEEDS and SIMULATION_SECONDS: only one of them can be set"),
            (None, Some(seconds)) => Self::Time(Duration::from_secs(seconds)),
            (seeds, None) => Self::Seeds(seeds.unwrap_or(SEEDS)),
        }
    }

    /// Returns whether the seed with this index, from 0, is to be run at this time after the start.
    fn covers(self, index: u64, elapsed: Duration) -> bool {
        match self {
            Self::Seeds(count) => index < count,
            Self::Time(time) => index < LEAST_SEEDS || elapsed < time,
        }
    }
}

/// The outcome of the seeds that were run.
#[derive(Debug, Default)]
struct Results {
    played: u64,
    total: Figures,
    failures: Vec<Failure>,
}

/// Recipes take turns, so that each has the whole machine for its time.
static TURN: Mutex<()> = Mutex::new(());

/// Runs many seeds. Panics with a trace if one of them fails, or if too little happened: a seed must have at least
/// `least` on average.
pub(crate) fn run_all<F: Future<Output = Outcome>>(recipe: &str, least: Figures, scenario: impl Fn(u64) -> F + Sync) {
    if let Some(seed) = number("SEED") {
        let outcome = run(seed, &scenario);
        println!("{}\n{recipe}, seed {seed}: {:?}", outcome.trace.join("\n"), outcome.figures);
        assert!(outcome.violation.is_none(), "seed {seed}: {}", outcome.violation.unwrap_or_default());
        return;
    }
    let budget = Budget::from_environment();
    let base = number("SEED_BASE").unwrap_or_else(|| fastrand::u64(..1 << 40));
    // The mutex is poisoned if an earlier recipe has failed.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    println!("{recipe}: {budget:?} from SEED_BASE={base}");
    let begun = Instant::now();
    let Results { played, total, failures } = run_from(base, budget, begun, &scenario);
    let took = begun.elapsed().as_secs_f64();
    drop(turn);
    println!("{recipe}: {total:?} in {took:.1} s, {:.0} seeds a second", played as f64 / took);
    println!("{recipe}: {played} seeds; again: SEEDS={played} SEED_BASE={base} cargo test --test simulation {recipe}");
    tell(recipe, &failures);
    for (what, found, wanted) in [
        ("faults", total.faults, least.faults),
        ("turns", total.turns, least.turns),
        ("hand-overs", total.hand_overs, least.hand_overs),
        ("cancelled calls", total.cancelled, least.cancelled),
    ] {
        assert!(found >= wanted * played, "{recipe}: only {found} {what} in {played} seeds prove too little");
    }
}

/// Runs the seeds from `base` on as many threads as there are cores.
fn run_from<F: Future<Output = Outcome>>(
    base: u64,
    budget: Budget,
    begun: Instant,
    scenario: &(impl Fn(u64) -> F + Sync),
) -> Results {
    let most_failures = number("MOST_FAILURES").unwrap_or(MOST_FAILURES).max(1);
    let (next, results) = (AtomicU64::new(0), Mutex::new(Results::default()));
    let has_failed = || results.lock().unwrap().failures.len() as u64 >= most_failures;
    let work = || {
        while !has_failed() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if !budget.covers(index, begun.elapsed()) {
                break;
            }
            let seed = base.wrapping_add(index);
            let Outcome { figures, violation, trace } = run(seed, scenario);
            let mut results = results.lock().unwrap();
            results.played += 1;
            results.total += figures;
            if let Some(violation) = violation {
                let after = begun.elapsed().as_secs_f64();
                results.failures.push(Failure { index, seed, violation, trace, after });
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    results.into_inner().unwrap()
}

/// Runs some seeds twice, and checks that everything that can be observed of them is the same.
pub(crate) fn run_twice<F: Future<Output = Outcome>>(recipe: &str, scenario: impl Fn(u64) -> F) {
    let base = number("SEED").or_else(|| number("SEED_BASE")).unwrap_or_else(|| fastrand::u64(..1 << 40));
    for seed in base..base + 20 {
        let (first, second) = (run(seed, &scenario).trace, run(seed, &scenario).trace);
        let differs = first.iter().zip(&second).position(|(first, second)| first != second);
        if let Some(at) = differs.or((first.len() != second.len()).then_some(first.len().min(second.len()))) {
            panic!("{recipe}, seed {seed}: line {at} was {:?}, and then {:?}", first.get(at), second.get(at));
        }
    }
}

fn tell(recipe: &str, failures: &[Failure]) {
    for Failure { index, seed, violation, trace, after } in failures {
        eprintln!("\n{recipe}, seed {seed}:\n{}\nVIOLATION: {violation}", trace.join("\n"));
        eprintln!("{recipe}: found at seed number {} after {after:.1} s", index + 1);
        eprintln!("replay: SEED={seed} cargo test --test simulation {recipe} -- --nocapture");
    }
    let seeds: Vec<u64> = failures.iter().map(|failure| failure.seed).collect();
    assert!(seeds.is_empty(), "{recipe}: seeds {seeds:?} failed: {}", failures[0].violation);
}
