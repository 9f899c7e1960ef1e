//! Thousands of random schedules of failures, each replayable from its seed.
//!
//! A seed decides everything: how many clients there are, what they do, which faults hit and when, how long a message
//! takes and which task runs next. The world of a seed runs on one thread under a paused clock, and the invariants
//! are checked after each step of each task.
//!
//! ```text
//! cargo test --test simulation                            2 000 seeds per recipe, from a random one, which is printed
//! SEEDS=10000 SEED_BASE=1 cargo test --test simulation    10 000 seeds per recipe, from seed 1
//! SIMULATION_SECONDS=60 cargo test --test simulation      as many as each recipe runs in a minute, at least 1 000
//! SEED=4711 cargo test --test simulation leader_latch     only this seed, with its trace
//! MOST_FAILURES=1 cargo test --test simulation            stops a recipe after the first failed seed (default: 3)
//! ```

mod atomic_long;
mod cache;
mod double_barrier;
mod faults;
mod group_member;
mod history;
mod leader_latch;
mod leader_selector;
mod line;
mod lock;
mod moves;
mod multi_lock;
mod mutex;
mod partition_assigner;
mod persistent_node;
mod queue;
mod read_write_lock;
mod seeds;
mod semaphore;
mod service_discovery;
mod shared_value;
mod stage;
mod throughput_balancer;
mod trace;
mod watcher;
mod worker;
mod workshop;
mod world;
