//! The recipe `InterProcessMultiLock` on an ensemble in memory.

mod acquiring;
mod faults;
mod fixture;
mod guard;
mod input;
