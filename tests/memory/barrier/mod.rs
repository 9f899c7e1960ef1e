//! The recipe `Barrier` on an ensemble in memory: every failure, at every step, under a paused clock.

mod basics;
mod faults;
mod fixture;
mod input;
mod watches;
