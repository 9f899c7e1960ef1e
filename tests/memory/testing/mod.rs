//! `TestingServer`: each of its levers, as a user's tests pull it, under a paused clock.

mod addresses;
mod connections;
mod fixture;
mod frames;
mod fuzz;
mod hands;
mod history;
#[cfg(feature = "mutex")]
mod keeper;
mod listen;
mod losses;
mod others;
mod processes;
mod raw;
#[cfg(all(feature = "leader-selector", feature = "mutex"))]
mod runtime_end;
mod servers;
mod sessions;
mod start;
mod steps;
mod strangers;
