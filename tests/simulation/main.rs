//! Thousands of random schedules of failures, each replayable from its seed.
//!
//! A seed decides everything: how many clients there are, what they do, which faults hit and when, how long a message
//! takes and whose turn it is. The world of a seed runs on one thread under a paused clock, and what must always hold
//! is looked at after each step of each task.
//!
//! ```text
//! cargo test --test simulation                            2 000 seeds a recipe, from a random one that is printed
//! SEEDS=10000 SEED_BASE=1 cargo test --test simulation    so many, from that one
//! SIMULATION_SECONDS=60 cargo test --test simulation      as many as a recipe gets through in a minute, at least 1 000
//! SEED=4711 cargo test --test simulation leader_latch     that one, with its trace
//! MOST_FAILURES=1 cargo test --test simulation            no more seeds after the first that fails (default: 3)
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
mod multi_lock;
mod mutex;
mod persistent_node;
mod queue;
mod read_write_lock;
mod seeds;
mod semaphore;
mod shared_value;
mod stage;
mod throughput_balancer;
mod trace;
mod watcher;
mod worker;
mod workshop;
mod world;
