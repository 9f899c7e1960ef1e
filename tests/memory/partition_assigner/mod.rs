//! The recipe `PartitionAssigner` on an ensemble in memory: every failure, at every step, under a paused clock.

mod changes;
mod cost;
mod failures;
pub(crate) mod fixture;
mod hands;
mod input;
mod operate;
mod restarts;
mod schedules;
mod table;
mod work;
