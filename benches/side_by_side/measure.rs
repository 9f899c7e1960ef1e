//! Runs the columns in turns, and measures how long each cycle takes and what it costs this process.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};

/// Creates a runtime; each column has its own.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Runs cycles one after the other, and returns how long each took.
pub(crate) async fn timed<F: Future>(cycles: u64, mut cycle: impl FnMut() -> F) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..cycles {
        let begun = Instant::now();
        drop(cycle().await);
        times.push(begun.elapsed());
    }
    times
}

/// How the results of a row are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A time; less is better.
    Micros,
    /// A rate; more is better.
    PerSecond,
}

/// One way to do the work of a row.
pub(crate) struct Column {
    /// Runs a round. Returns how long each cycle took, or only their mean if they overlap.
    round: Box<dyn FnMut() -> Vec<Duration>>,
    /// Runs after each round; not measured.
    afterwards: Box<dyn FnMut()>,
}

impl Column {
    pub(crate) fn new(round: impl FnMut() -> Vec<Duration> + 'static) -> Column {
        Column { round: Box::new(round), afterwards: Box::new(|| {}) }
    }

    /// Creates a column that runs as a task on a runtime of its own.
    pub(crate) fn on_tokio<T, F>(make: impl Future<Output = T>, round: impl Fn(T) -> F + 'static) -> Column
    where
        T: Clone + 'static,
        F: Future<Output = Vec<Duration>> + Send + 'static,
    {
        let runtime = runtime();
        let players = runtime.block_on(make);
        Column::new(move || runtime.block_on(runtime.spawn(round(players.clone()))).expect("no panic"))
    }

    pub(crate) fn afterwards(mut self, work: impl FnMut() + 'static) -> Column {
        self.afterwards = Box::new(work);
        self
    }

    fn play(&mut self, cycles: u64) -> Sample {
        let before = Usage::now();
        let mut times = (self.round)();
        let after = Usage::now();
        (self.afterwards)();
        times.sort_unstable();
        Sample {
            seconds: times[times.len() / 2].as_secs_f64(),
            cpu: (after.cpu - before.cpu).as_secs_f64() / cycles as f64,
            switches: (after.switches - before.switches) as f64 / cycles as f64,
        }
    }
}

/// The resources that this process has used so far. During a round, the other columns are idle except for their pings.
struct Usage {
    /// User and system time.
    cpu: Duration,
    /// Context switches, voluntary or not, of the threads that still run.
    switches: u64,
}

impl Usage {
    fn now() -> Usage {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let cpu = Duration::new(cpu.tv_sec.unsigned_abs(), u32::try_from(cpu.tv_nsec).expect("below a second"));
        let threads = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
        let status = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
        Usage { cpu, switches: status.map(|status| switches(&status)).sum() }
    }
}

fn switches(status: &str) -> u64 {
    let counts = status.lines().filter(|line| line.contains("voluntary_ctxt_switches:"));
    counts.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
}

/// A cycle of one round: the median of the times, and the means of CPU time and context switches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    pub(crate) cpu: f64,
    pub(crate) switches: f64,
}

/// The samples of each column, one for each round.
pub(crate) struct Measured {
    pub(crate) unit: Unit,
    pub(crate) bare: Vec<Sample>,
    pub(crate) client_crate: Vec<Sample>,
    pub(crate) ours: Vec<Sample>,
}

/// Work that is done in up to three ways.
pub(crate) struct Row {
    unit: Unit,
    rounds: usize,
    cycles: u64,
    columns: [Option<Column>; 3],
}

impl Row {
    pub(crate) fn new(unit: Unit, rounds: usize, cycles: u64) -> Row {
        Row { unit, rounds, cycles, columns: [None, None, None] }
    }

    pub(crate) fn bare(mut self, column: Column) -> Row {
        self.columns[0] = Some(column);
        self
    }

    pub(crate) fn client_crate(mut self, column: Column) -> Row {
        self.columns[1] = Some(column);
        self
    }

    pub(crate) fn ours(mut self, column: Column) -> Row {
        self.columns[2] = Some(column);
        self
    }

    /// Runs the rounds of all columns in turns. The first results are dropped, because the server warms up.
    pub(crate) fn measure(mut self) -> Measured {
        const WARM_UP: usize = 2;
        let mut samples = [const { Vec::new() }; 3];
        // Without cargo's flag, this only tests that the benchmark works.
        let rounds = if std::env::args().any(|arg| arg == "--bench") { WARM_UP + self.rounds } else { WARM_UP + 1 };
        for round in 0..rounds {
            for (column, samples) in self.columns.iter_mut().zip(&mut samples) {
                if let Some(column) = column {
                    let sample = column.play(self.cycles);
                    if round >= WARM_UP {
                        samples.push(sample);
                    }
                }
            }
        }
        let [bare, client_crate, ours] = samples;
        Measured { unit: self.unit, bare, client_crate, ours }
    }
}
