//! Properties of each strategy, for partitions and members at random; `STRATEGY_CASES` says how many cases a property
//! gets.

mod case;
mod custom;
mod eligible;
mod exact;
mod sticky;
mod stories;
