//! Service discovery on an ensemble in memory.

mod basics;
mod choice;
mod faults;
mod fixture;
mod formats;
mod input;
mod presets;
mod requests;
mod targets;
