//! Service discovery on an ensemble in memory.

mod basics;
mod choice;
mod curator_scenarios;
mod faults;
mod fixture;
mod formats;
mod input;
mod one_id;
mod presets;
mod requests;
mod targets;
