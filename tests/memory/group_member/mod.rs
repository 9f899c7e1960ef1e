//! The group member on an ensemble in memory.

mod basics;
mod faults;
mod fixture;
mod formats;
mod input;
